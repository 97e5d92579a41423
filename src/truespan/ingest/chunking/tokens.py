"""The `tokens` strategy: a number of tokens, in whole words unless one alone has more."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from truespan.ingest.chunking.window import widest
from truespan.types.profile import ChunkingProfile, OverlapMode
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap

_BEFORE_WORD = re.compile(r"\s(?=\S)")
_WORD = re.compile(r"\S")


def cut_tokens(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    profile: ChunkingProfile,
    input_limit: int,
) -> list[Span]:
    """Return spans of at most `size` tokens, each sharing at most `overlap` with the one before."""
    ends = [sentence.end for sentence in sentences]
    size = min(profile.size, input_limit)
    cutter = _Cutter(canonical.text, ends[-1], tokens, size, profile.overlap * size // profile.size)
    separate = profile.overlap_mode is OverlapMode.SEPARATE
    spans: list[Span] = []
    begin, end, seen = 0, 0, 0
    while end < cutter.stop:
        overlap = cutter.overlap_start(begin, end) if spans else 0
        start = end if separate else overlap
        found = cutter.fill(start)
        # A chunk begins where the one before was ended, so it depends on all that that one did.
        seen = max(seen, found.seen)
        if found.end <= end:
            # The next word has no room beside the overlap.
            start, found = end, cutter.fill(end)
            seen = max(seen, found.seen)
        context = overlap if separate else start
        spans.append(Span(start, found.end, context, bisect_left(ends, seen)))
        begin, end = start, found.end
    if cutter.stop < len(canonical.text):
        # White space at the very end goes with the last chunk, which is then ended by it.
        spans[-1] = spans[-1]._replace(end=len(canonical.text), reach=len(sentences))
    return spans


@dataclass(frozen=True, slots=True)
class _Filled:
    """Where a chunk ends, and up to where text was looked at to find that out."""

    end: int
    seen: int


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Measures stretches of one text, which ends with a word at `stop`."""

    text: str
    stop: int
    tokens: TokenMap
    size: int
    overlap: int

    def fill(self, start: int) -> _Filled:
        """Return the end of the chunk that begins at `start`."""
        horizon = self._horizon(start)
        bound = min(horizon, self.stop)
        if self.tokens.count(start, bound) <= self.size:
            # All that is left fits, and so might more have done.
            return _Filled(self.stop, self.stop + 1)
        words = self._words(start, bound)
        fitting = bisect_right(words, self.size, key=lambda end: self.tokens.count(start, end))
        first = _WORD.search(self.text, start, bound)
        inked = first.start() if first else start
        if fitting and words[fitting - 1] > inked:
            return _Filled(words[fitting - 1], horizon)
        width = widest(
            lambda wide: self.tokens.count(start, start + wide), bound - start, self.size
        )
        return _Filled(max(start + width, inked + 1), horizon)

    def _horizon(self, start: int) -> int:
        """Return an offset up to which there are too many tokens, or one behind the text.

        It is approached in steps, so that little more than the chunk itself is looked at.
        """
        width = 2 * self.size
        while start + width < self.stop and self.tokens.count(start, start + width) <= self.size:
            width += width // 4 + 1
        return start + width

    def overlap_start(self, start: int, end: int) -> int:
        """Return where the overlap at the end of the chunk from `start` to `end` begins."""
        words = self._words(start, end)
        found = bisect_left(words, -self.overlap, key=lambda word: -self.tokens.count(word, end))
        if found < len(words):
            return words[found]
        inside = not self.text[end - 1].isspace()
        if not inside or self.tokens.count(end - 1, end) > self.overlap:
            return end
        # The chunk was cut inside a word of many tokens, and so is its overlap.
        first = words[-1] if words else start
        if self.tokens.count(first, end) <= self.overlap:
            return first
        return end - widest(
            lambda wide: self.tokens.count(end - wide, end), end - first, self.overlap
        )

    def _words(self, start: int, end: int) -> list[int]:
        """Return where words begin after `start` and before `end`."""
        return [found.end() for found in _BEFORE_WORD.finditer(self.text, start, end)]
