"""Alignment of two revisions of a book, to move reading positions to the new revision.

Sentences are compared by their words; punctuation, spaces and case are ignored. A position moves to
the last read sentence that can be aligned in order. All text before it then counts as read, so a
position never moves past text that the reader may not know:

- a sentence, or eight consecutive words, of the unread part of the old revision;
- new text that is too long for the amount of read text after it;
- a longer addition near the end of the read text, which may be a new chapter. At the beginning of
  the book, an addition of any length may be a foreword.

The new position depends on nothing after it in the new revision. The unread part of the old
revision can only lower it. The time is proportional to the number of words.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

TELLING: Final = 4
"""Words of the shortest sentence that gives something away when it is not read yet."""
QUOTED: Final = 8
"""Words in a row that are a quotation."""
FRONT: Final = 100
"""Sentences at the beginning between which a foreword of any length may be inserted."""
MAX_ADDED: Final = 50
"""Maximum size of an addition that is accepted anywhere. A longer one may be a new chapter."""
FOLLOWING: Final = 40
"""Minimum size of the read text after a longer addition, as a multiple of the addition; half of
the read text is enough too."""
MAX_BETWEEN: Final = 500
"""The size of the longest new text that is passed over after the front."""
MIN_PROOF, PROOF_SHARE = 6, 10
"""Minimum size of the read text after new text, and minimum share of it."""
MAX_NEW: Final = 200_000
"""The size of all new text that is passed over; a longer foreword costs too much to compare."""
MAX_CORRECTED: Final = 200
"""Maximum number of corrected sentences, which bounds the cost of many changes."""
SAME_WORDS: Final = 0.8
"""Minimum share of words that a corrected sentence keeps."""
LOOKAHEAD: Final = 16
"""Maximum number of runs tried as the next run, which bounds the cost of hostile text."""

_QUOTES = str.maketrans(dict.fromkeys("'\"`´‘’‚‛“”„‟‹›«»′″\u00ad\u200b\u200c\u200d\ufeff"))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003134f"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
"""A run of letters and digits; in scripts without spaces, one character."""

_NEVER = sys.maxsize
_Key = tuple[int, ...]
"""Word numbers of a sentence; a single negative number for a sentence without words."""


class _Run(NamedTuple):
    """A run of `count` equal sentences, which starts at `old` and `new` in the two revisions."""

    old: int
    new: int
    length: int

    @property
    def old_end(self) -> int:
        return self.old + self.length

    @property
    def new_end(self) -> int:
        return self.new + self.length


class _Quotation(NamedTuple):
    """A new sentence that may quote old text.

    `tells` is true if the quotation reveals something, `within` if it is inside the sentence.
    """

    place: int
    tells: bool
    within: bool


class Alignment:
    """The alignment of two revisions of a book, for readers at any position."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        words: dict[str, int] = {}
        keys = {sentence: _key(sentence, words) for sentence in dict.fromkeys((*old, *new))}
        self._old = [keys[sentence] for sentence in old]
        self._new = [keys[sentence] for sentence in new]
        # One more than the number of words, so that a sentence without words has a size too.
        self._sizes = [_size(key) + 1 for key in self._new]
        self._first: dict[_Key, int] = {}
        self._second: dict[_Key, int] = {}
        for sid, key in enumerate(self._old):
            if self._first.setdefault(key, sid) != sid:
                self._second.setdefault(key, sid)
        self._read = [0, *accumulate(_size(key) + 1 for key in self._old)]
        self._known = [-1] * len(new)
        self._ahead: list[int] = []
        self._find_quotations()

    def move(self, sid: int) -> int:
        """Return the position of a reader at `sid` in the new revision; -1 before its start."""
        last = bisect_right(self._ahead, sid)
        runs = self._runs(sid, last)
        matched, unknown, read = [0], [0], self._read
        for known, size in zip(self._known[:last], self._sizes, strict=False):
            matched.append(matched[-1] + size)
            unknown.append(unknown[-1] + (0 if known <= sid else size))

        def follow(run: _Run, following: Iterable[tuple[int, _Run]]) -> tuple[int, int]:
            """Return the size of the best chain after a run, and its negated last sentence.

            Of two equally good chains, the one that ends first is better.
            """
            best = (0, 1 - run.new_end)
            for place, other in following:
                repeated = max(run.old_end - other.old, run.new_end - other.new, 0)
                if repeated >= other.length:
                    continue
                size, end = chains[place]
                size -= matched[other.new + repeated] - matched[other.new]
                new = unknown[max(other.new, run.new_end)] - unknown[run.new_end]
                left_out = read[max(other.old, run.old_end)] - read[run.old_end]
                proved = not new or size >= max(MIN_PROOF, new // PROOF_SHARE)
                short = new <= MAX_BETWEEN
                early = size >= min(read[run.old_end], new * FOLLOWING)
                added = short and (early or new - left_out <= MAX_ADDED)
                if proved and (added or (early and run.old_end < FRONT)):
                    best = max(best, (size, end))
            return best

        # Backwards, because the text after an addition decides whether it may be skipped.
        chains: dict[int, tuple[int, int]] = {}
        for place in reversed(range(len(runs))):
            run = runs[place]
            next_runs = [(n, runs[n]) for n in range(place + 1, len(runs))[:LOOKAHEAD]]
            size, end = follow(run, next_runs)
            chains[place] = (size + matched[run.new_end] - matched[run.new], end)
        return -follow(_Run(0, 0, 0), enumerate(runs))[1]

    def move_all(self, sid: int) -> int | None:
        """Return the position up to which the new revision has all old sentences up to `sid`.

        Some sentences may be corrected. Returns None if there is no such position. An answer about
        the text up to `sid` reveals nothing to a reader at this position. Like `move`, the result
        depends on nothing after it in the new revision.
        """
        moved = self.move(sid)
        shown, read = self._new[: moved + 1], set(self._old[: sid + 1])
        missing = read.difference(shown)
        if not missing:
            return moved
        if len(missing) > MAX_CORRECTED:
            return None
        # A corrected sentence has other words.
        added = [set(key) for key in set(shown) - read]
        return moved if all(_is_among(set(key), added) for key in missing) else None

    def _runs(self, sid: int, last: int) -> list[_Run]:
        """Return the runs of read sentences among the first `last` new ones, in their order.

        A run starts at the beginning of both, or contains a sentence that was read once only.
        """
        old, new, runs = self._old, self._new, list[_Run]()

        def extend(at_old: int, at_new: int) -> int:
            count = 0
            most = min(sid + 1 - at_old, last - at_new)
            while count < most and old[at_old + count] == new[at_new + count]:
                count += 1
            return count

        if count := extend(0, 0):
            runs.append(_Run(0, 0, count))
        end = count
        while end < last:
            found = self._first.get(new[end], sid + 1)
            if found > sid or self._second.get(new[end], sid + 1) <= sid:
                end += 1
                continue
            free = runs[-1].new_end if runs else 0
            before = 0
            while (
                before < min(found, end - free) and old[found - before - 1] == new[end - before - 1]
            ):
                before += 1
            count = before + extend(found, end)
            runs.append(_Run(found - before, end - before, count))
            end = runs[-1].new_end
        return runs

    def _find_quotations(self) -> None:
        """Find the old sentences that a reader must have read to know the new ones.

        For each new sentence, `_known` has the old sentence after which all its words were read,
        however they were divided into sentences. `_ahead` has the old sentence that must have been
        read before the new text up to it is shown. It is shorter if there is too much to compare.
        """
        size, stretches, needs = 0, list[list[int]](), list[int]()
        quoting: dict[_Key, list[_Quotation]] = {}
        for place, key in enumerate(self._new):
            first, words = self._first.get(key), _size(key)
            if first is None:
                size += self._sizes[place]
                if size > MAX_NEW:
                    break
                if not stretches or stretches[-1][-1] != place - 1:
                    stretches.append([])
                stretches[-1].append(place)
            if TELLING <= words < QUOTED:
                told = first is not None
                quoting.setdefault(key, []).append(_Quotation(place, told, within=True))
            needs.append(first if first is not None and words >= QUOTED else -1)
        for stretch in stretches:
            self._add_quotations(quoting, stretch)
        found = [0] * len(needs)
        stream, sids = _stream(enumerate(self._old))
        for count in range(TELLING, QUOTED + 1):
            for end, gram in enumerate(_grams(stream, count), count - 1):
                # The first occurrence in the old text counts: a reader past it knows the words.
                for place, tells, within in quoting.pop(gram, ()):
                    if tells:
                        needs[place] = max(needs[place], sids[end])
                    if within:
                        found[place] += 1
                        self._known[place] = max(self._known[place], sids[end])
        for place, count in enumerate(found):
            first, wanted = self._first.get(self._new[place]), max(_size(self._new[place]), QUOTED)
            if first is not None:
                self._known[place] = first
            elif count <= wanted - QUOTED:
                self._known[place] = _NEVER
        highest = -1
        self._ahead = [highest := max(highest, need) for need in needs]

    def _add_quotations(
        self, quoting: dict[_Key, list[_Quotation]], stretch: Sequence[int]
    ) -> None:
        """Add possible quotations in consecutive new sentences.

        A quotation is a whole old sentence within a longer one, or `QUOTED` consecutive words.
        """
        stream, places = _stream((place, self._new[place]) for place in stretch)
        for count in range(TELLING, QUOTED + 1):
            for end, gram in enumerate(_grams(stream, count), count - 1):
                if count == QUOTED or gram in self._first:
                    within = count == QUOTED and places[end - count + 1] == places[end]
                    quoting.setdefault(gram, []).append(_Quotation(places[end], True, within))


def _is_among(words: set[int], sentences: Iterable[set[int]]) -> bool:
    """Return whether one of the sentences has nearly the same words."""
    return any(
        len(words & other) >= SAME_WORDS * max(len(words), len(other)) for other in sentences
    )


def _key(sentence: str, words: dict[str, int]) -> _Key:
    """Return the words of a sentence, without punctuation, spaces and case."""
    text = sentence.translate(_QUOTES)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    found = _WORD.findall(text)
    if found:
        return tuple(words.setdefault(word, len(words)) for word in found)
    return (~words.setdefault("".join(text.translate(_DASHES).split()), len(words)),)


def _size(key: _Key) -> int:
    return 0 if key[0] < 0 else len(key)


def _stream(sentences: Iterable[tuple[int, _Key]]) -> tuple[list[int], list[int]]:
    """Return all words of numbered sentences, and for each word the number of its sentence."""
    words, places = list[int](), list[int]()
    for place, key in sentences:
        if key[0] >= 0:
            words += key
            places += [place] * len(key)
    return words, places


def _grams(words: list[int], count: int) -> Iterator[_Key]:
    return zip(*(islice(words, start, None) for start in range(count)), strict=False)
