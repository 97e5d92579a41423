"""The `window` strategy: a number of characters, ended where reading would pause.

The chunk ends at the last paragraph break of the window, else at the last end of a sentence, of a
line or of a word. A paragraph or sentence counts past half of the window, a line or word past three
tenths; without any of them the window is cut hard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter

import numpy as np

from truespan.types.profile import ChunkingProfile, OverlapMode
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap

_SLACK = 64
"""What is given away, as a share of the width, to need fewer counts."""


def widest(count: Callable[[int], int], width: int, limit: int) -> int:
    """Return a width of which `count` is at most `limit`, where `width` itself counts more.

    It is within a small share of the widest, and never under 1, whatever that counts. Counts are
    asked for widths up to `width` only, so nothing beyond can have a say.
    """
    fits, over = 1, width
    probe = width * limit // max(count(width), 1)
    while over - fits > max(1, width // _SLACK):
        if not fits < probe < over:
            probe = (fits + over) // 2
        if count(probe) <= limit:
            fits = probe
        else:
            over = probe
        probe = (fits + over) // 2
    return fits


_SENTENCE_ENDS = ("! ", "? ", ".\n", "!\n", "?\n")
"""After ". ", which is looked for first because it is the most frequent."""
_WORD = re.compile(r"\S")
_END = itemgetter(2)
_span = partial(tuple.__new__, Span)


def cut_window(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    profile: ChunkingProfile,
    input_limit: int,
) -> list[Span]:
    """Return windows of `size` characters, each beginning `overlap` before the end of the last.

    A window was looked at up to its end, and the chunk in it depends on the text going on there:
    so its reach is the first sentence that ends behind the window.
    """
    text, size = canonical.text, profile.size
    separate = profile.overlap_mode is OverlapMode.SEPARATE
    shared, beside = (0, profile.overlap) if separate else (profile.overlap, 0)
    ends = np.fromiter(map(_END, sentences), np.int64, len(sentences))
    stop = int(ends[-1])
    quick = quick_windows(text, stop, size, shared)
    if quick is None or not _all_fit(*quick, tokens, input_limit):
        found = list(windows(text, 0, stop, size, shared, tokens, input_limit))
        quick = [start for start, _ in found], [end for _, end in found]
    starts, stops = quick
    # White space at the very end goes with the last chunk as far as that has room.
    stops[-1] = max(stops[-1], min(len(text), starts[-1] + size))
    contexts = [max(start - beside, 0) for start in starts] if beside else starts
    reaches = np.searchsorted(ends, np.array(starts) + size, side="right").tolist()
    return list(map(_span, zip(starts, stops, contexts, reaches, strict=True)))


def quick_windows(
    text: str, stop: int, size: int, overlap: int
) -> tuple[list[int], list[int]] | None:
    """Return the starts and ends that `windows` gives where no window is too long or blank.

    Nearly every text is like that, and one loop without a call is several times faster. None when
    it meets something that needs a closer look.
    """
    rfind = text.rfind
    past_half, past_third = size // 2 + 1, size * 3 // 10 + 1
    starts: list[int] = []
    ends: list[int] = []
    start = covered = 0
    while start + size < stop:
        bound, half = start + size, start + past_half
        end = rfind("\n\n", half - 2, bound) + 2
        if end < half:
            last = rfind(". ", half - 2, bound)
            for mark in _SENTENCE_ENDS:
                later = rfind(mark, last if last > half else half - 2, bound)
                if later > last:
                    last = later
            end = last + 2
            if end < half:
                third = start + past_third
                end = rfind("\n", third - 1, bound) + 1
                if end < third:
                    end = rfind(" ", third - 1, bound) + 1
                    if end < third:
                        end = bound
        if end <= covered or (text[start].isspace() and text[start:end].isspace()):
            return None
        starts.append(start)
        ends.append(end)
        covered = end
        start = end - overlap
    if start >= stop:
        return None
    return [*starts, start], [*ends, stop]


_CUT_WORDS = 200
"""What the two words that a window cuts can add: tokenizers give up on words of 100 characters."""


def _all_fit(starts: list[int], ends: list[int], tokens: TokenMap, limit: int) -> bool:
    """Say whether no span has more than `limit` tokens, counting exactly only where it is close."""
    units, totals = np.asarray(tokens.starts), np.asarray(tokens.totals)
    # Of the map's own type: otherwise all of the map would be converted for the comparison.
    before = totals[np.searchsorted(units, np.array(starts, units.dtype))].astype(np.int64)
    counts = totals[np.searchsorted(units, np.array(ends, units.dtype))] - before
    return all(
        tokens.count(starts[close], ends[close]) <= limit
        for close in np.flatnonzero(counts + _CUT_WORDS > limit).tolist()
    )


def windows(
    text: str, start: int, stop: int, size: int, overlap: int, tokens: TokenMap, limit: int
) -> Iterator[tuple[int, int]]:
    """Give the bounds of the chunks of `text[start:stop]`, which ends with a word.

    A window of too many tokens is narrowed, and its overlap with it: otherwise the next one might
    not get ahead. If that is narrowed so much that it holds nothing new, it goes without overlap.
    Windows of nothing but white space are passed over.
    """
    covered = start
    while start < stop:
        bound = min(start + size, stop)
        end, step = bound, overlap
        if bound < stop:
            end = _break(text, start, bound)
        if tokens.count(start, end) > limit:
            width = widest(lambda wide, at=start: tokens.count(at, at + wide), end - start, limit)
            end, step = _break(text, start, start + width), overlap * width // size
        if text[start].isspace() and text[start:end].isspace():
            start = _next_word(text, start)
        elif end <= covered:
            start = covered
        else:
            yield start, end
            covered = end
            start = end - step if end < stop else stop


def _break(text: str, start: int, stop: int) -> int:
    """Return where the chunk of the window from `start` to `stop` ends."""
    width = stop - start
    half, third = start + width // 2 + 1, start + width * 3 // 10 + 1
    end = text.rfind("\n\n", half - 2, stop) + 2
    if end < half:
        end = _sentence_break(text, half - 2, stop)
    if end < half:
        end = text.rfind("\n", third - 1, stop) + 1
    if end < third:
        end = text.rfind(" ", third - 1, stop) + 1
    if end < third or (text[start].isspace() and text[start:end].isspace()):
        return stop
    return end


def _sentence_break(text: str, start: int, stop: int) -> int:
    """Return the offset behind the last sentence end and its white space, or 1 if there is none."""
    rfind = text.rfind
    last = rfind(". ", start, stop)
    for mark in _SENTENCE_ENDS:
        # Only what is later than the best so far matters.
        last = max(last, rfind(mark, max(last, start), stop))
    return last + 2


def _next_word(text: str, start: int) -> int:
    found = _WORD.search(text, start)
    return found.start() if found else len(text)
