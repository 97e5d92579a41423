"""Explain quotes that are not in the sources: changed words, or parts of several places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from truespan.answers.verbatim import UNSPACED, Run, fold, trim
from truespan.types.answer import Difference, QuoteVerdict

MIN_PART_WORDS = 3
"""Minimum number of words of a part of a stitched quote; shorter ones occur by chance."""
MAX_PARTS = 6
MIN_ALIKE = 0.6
"""Minimum share of a quote's words that a changed quote has in common with its source."""
MOSTLY_ALIKE = 0.8
"""Share from which a quote counts as changed even if it could also be put together from parts."""
MAX_WORDS = 600
"""Maximum number of words of a quote that is compared word by word."""
_OMISSION = re.compile(r"\[?(?:\.\.\.|…)\]?")
_WORD = re.compile(rf"{UNSPACED}|[^\W_]+(?:['’_-][^\W_]+)*|\S")


class Part(Struct, frozen=True):
    """Words of a quote, and their span in a text of the sources."""

    text: str
    run: Run
    span: tuple[int, int]


class Failure(Struct, frozen=True):
    """The verdict on a quote, with the words that the sources have instead."""

    verdict: QuoteVerdict
    parts: tuple[Part, ...]
    difference: tuple[Difference, ...] = ()


def explain_failure(text: str, runs: Sequence[Run]) -> Failure | None:
    """Return why a quote does not stand in the sources; None if they have nothing like it."""
    text = trim(text)
    if not text or len(_WORD.findall(text)) > MAX_WORDS:
        return None
    omits = _OMISSION.search(text) is not None
    share, changed = _find_changed(text, runs)
    if changed is not None and share >= MOSTLY_ALIKE and not omits:
        return changed
    return _find_parts(text, runs) or changed


def _find_parts(text: str, runs: Sequence[Run]) -> Failure | None:
    """Return the quote as parts of several places; None if one of its words is in none of them."""
    parts: list[Part] = []
    for segment in _OMISSION.split(text):
        words = [*_WORD.finditer(segment)]
        begin = 0
        while begin < len(words):
            part = _longest_part(segment, words[begin:], runs)
            if part is None or len(parts) == MAX_PARTS:
                return None
            begin += part[0]
            parts.append(part[1])
    return Failure(QuoteVerdict.STITCHED, tuple(parts)) if len(parts) > 1 else None


def _longest_part(
    text: str, words: Sequence[re.Match[str]], runs: Sequence[Run]
) -> tuple[int, Part] | None:
    """Return the longest beginning of some words that stands in a source, and its word count."""
    best: tuple[int, Part] | None = None
    least, most = min(MIN_PART_WORDS, len(words)), len(words)
    # A text that is found has all of its beginnings, so that the longest can be found by halving.
    while least <= most:
        count = (least + most) // 2
        part = _find_part(text[words[0].start() : words[count - 1].end()], runs)
        if part is None:
            most = count - 1
        else:
            best, least = (count, part), count + 1
    return best


def _find_part(text: str, runs: Sequence[Run]) -> Part | None:
    wanted, _ = fold(text)
    for run in runs:
        span = run.find(wanted) if wanted else None
        if span is not None:
            return Part(" ".join(text.split()), run, span)
    return None


def _find_changed(text: str, runs: Sequence[Run]) -> tuple[float, Failure | None]:
    """Return the place whose words are most like a quote, and the share of common words."""
    quote = [*_WORD.finditer(text)]
    best: tuple[float, Failure | None] = 0.0, None
    for run in runs:
        source = [*_WORD.finditer(run.text)]
        begin, end = _most_alike(quote, source)
        edits = [*_edits(quote, source[begin:end])]
        common = sum(last - first for kind, first, last, *_ in edits if kind == "equal")
        longer = max(len(quote), sum(last - first for *_, first, last in edits))
        share = common / longer
        if common >= min(MIN_PART_WORDS, len(quote) - 1) and share >= max(MIN_ALIKE, best[0]):
            difference = tuple(_differences(text, quote, run.text, source[begin:end], edits))
            used = source[begin + edits[0][3] : begin + edits[-1][4]]
            span = run.start + used[0].start(), run.start + used[-1].end()
            failure = Failure(QuoteVerdict.CHANGED, (Part(text, run, span),), difference)
            best = share, failure
    return best


def _keys(words: Sequence[re.Match[str]]) -> list[str]:
    return [fold(word[0])[0].casefold() for word in words]


def _most_alike(quote: Sequence[re.Match[str]], source: Sequence[re.Match[str]]) -> tuple[int, int]:
    """Return the span of source words that the quote can come from, around the longest match."""
    matcher = SequenceMatcher(None, _keys(source), _keys(quote), autojunk=False)
    match = matcher.find_longest_match()
    room = len(quote) // 4 + 2
    begin = match.a - match.b - room
    return max(0, begin), match.a + len(quote) - match.b + room


def _edits(
    quote: Sequence[re.Match[str]], source: Sequence[re.Match[str]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the edits that make the source words of the quote, without those at both ends.

    Words are equal if they have the same letters.
    """
    spelt = [[fold(word[0])[0] for word in words] for words in (quote, source)]
    edits = SequenceMatcher(None, *spelt, autojunk=False).get_opcodes()
    last = len(edits) - 1
    for place, (kind, first, end, source_first, source_end) in enumerate(edits):
        count = end - first
        if place == 0 and kind != "equal":
            source_first = max(source_first, source_end - count)
        if place == last and kind != "equal":
            source_end = min(source_end, source_first + count)
        yield kind, first, end, source_first, source_end


def _differences(
    text: str,
    quote: Sequence[re.Match[str]],
    source_text: str,
    source: Sequence[re.Match[str]],
    edits: Sequence[tuple[str, int, int, int, int]],
) -> Iterator[Difference]:
    for kind, first, end, source_first, source_end in edits:
        if kind == "equal":
            yield Difference("", _words(text, quote[first:end]))
            continue
        if source_first < source_end:
            yield Difference("source", _words(source_text, source[source_first:source_end]))
        if first < end:
            yield Difference("quote", _words(text, quote[first:end]))


def _words(text: str, words: Sequence[re.Match[str]]) -> str:
    return " ".join(text[words[0].start() : words[-1].end()].split())
