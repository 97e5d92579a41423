"""The `sentences` strategy: whole sentences, never across the end of a chapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from truespan.ingest.chunking.window import windows
from truespan.types.profile import ChunkingProfile, OverlapMode
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap

_LONGEST_TOKEN = 16
"""Characters that a part may have for each token of the limit: no text has longer tokens, and a
sentence of millions of characters must not be measured whole for each of its parts."""


def cut_sentences(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    profile: ChunkingProfile,
    input_limit: int,
) -> list[Span]:
    """Return spans of `size` sentences that share `overlap`, or of as many as `pack` holds.

    A sentence that no chunk can hold is split where a window would be; each part is a span.
    """
    cutter = _Cutter(canonical.text, sentences, tokens, profile, input_limit)
    chapters = groupby(sentences, lambda sentence: canonical.place_at(sentence.start).chapter)
    lengths = [sum(1 for _ in group) for _, group in chapters]
    spans: list[Span] = []
    first = 0
    for length in lengths:
        spans.extend(cutter.chapter(first, first + length))
        first += length
    return spans


@dataclass(slots=True)
class _Cutter:
    """Cuts the chapters of one text. Sentences are named by sid, ranges are half-open."""

    text: str
    sentences: Sequence[Sentence]
    tokens: TokenMap
    profile: ChunkingProfile
    limit: int
    spaced: bool = False
    """Whether white space stands between all sentences, so that their counts just add up."""

    def __post_init__(self) -> None:
        self.spaced = all(before.end < after.start for before, after in pairwise(self.sentences))

    def chapter(self, first: int, stop: int) -> Iterator[Span]:
        """Give the spans of the chapter that has the sentences from `first` to `stop`."""
        start, covered = first, first
        while covered < stop:
            end = self._fill(start, stop)
            if end <= covered:
                # With the overlap there is no room for anything new: have less of it.
                if start < covered:
                    start += 1
                    continue
                yield from self._parts(first, start)
                start = covered = start + 1
                continue
            yield self._span(first, start, end)
            covered = end
            start = self._next_start(start, end)

    def _next_start(self, start: int, end: int) -> int:
        if self.profile.overlap_mode is OverlapMode.SEPARATE:
            return end
        return max(start + 1, end - self.profile.overlap)

    def _fill(self, first: int, stop: int) -> int:
        """Return the end of the longest run from `first` that fits; `first` if none does.

        It is found from the front. The sentence at which it ends, because that did not fit, is then
        the last one to have had a say.
        """
        most = stop
        if self.profile.pack is None:
            most = min(stop, first + self.profile.size)
            if self.spaced and self._fits(first, most):
                return most
        end = first
        while end < most and self._fits(first, end + 1):
            end += 1
        return end

    def _fits(self, first: int, end: int) -> bool:
        start, stop = self.sentences[first].start, self.sentences[end - 1].end
        pack = self.profile.pack
        if pack is not None and stop - start > pack:
            return False
        return self.tokens.count(start, stop) <= self.limit

    def _span(self, chapter: int, first: int, end: int) -> Span:
        """Make a span of whole sentences.

        One that is full by number needs no look ahead. Any other was ended by the sentence `end`:
        it did not fit, or it begins the next chapter, or there is none.
        """
        full = self.profile.pack is None and end - first == self.profile.size
        start = self.sentences[first].start
        context = self._context(chapter, first)
        return Span(start, self.sentences[end - 1].end, context, end - 1 if full else end)

    def _context(self, chapter: int, first: int) -> int:
        """Return where the sentences kept beside a span begin."""
        if self.profile.overlap_mode is not OverlapMode.SEPARATE:
            return self.sentences[first].start
        return self.sentences[max(chapter, first - self.profile.overlap)].start

    def _parts(self, chapter: int, sid: int) -> Iterator[Span]:
        """Split a sentence that is too long. It is whole when it is cut: nothing later matters.

        Its later parts follow parts of the same sentence and have no overlap beside them.
        """
        _, start, stop = self.sentences[sid]
        size = self.profile.pack or min(stop - start, _LONGEST_TOKEN * self.limit)
        context = self._context(chapter, sid)
        for begin, end in windows(self.text, start, stop, size, 0, self.tokens, self.limit):
            yield Span(begin, end, context if begin == start else begin, sid)
