"""Chunking: canonical text and its sentences to spans, by the strategy of a chunking profile.

A span depends on nothing after the sentence `reach`. If the document is cut off after that
sentence or any later one, the same span comes out at the same index. That is why a reader's
results can be found among stored chunks without revealing anything the reader has not read.

`window` takes a number of characters and ends at a natural break: at the last paragraph break of
the window, else at the last end of a sentence, a line or a word. A paragraph or sentence counts in
the second half of the window, a line or word in its last seven tenths; without any of them the
window is cut hard. With `whole_words`, sentences end where the segmenter ends them, in any script,
the overlap with the last window begins with a sentence, else with a word, and a window has at most
510 characters in other scripts than Latin and Thai. `sentences` takes whole sentences and never
crosses a chapter. `tokens` takes a number of tokens in whole words; only a word that is too long is
split. No span crosses from one sheet of a workbook to the next.

With `whole_rows`, tables are kept together: a chunk ends before a table that does not fit, and no
chunk begins inside one. A table that fits no chunk is split between rows, and nothing of it is
repeated. A table is recognised by its text alone: from the line with the first bar between spaces
to the next blank line. Text before a chunk does not count, so that a reader's tail, which is cut
from the beginning of a chunk on, is cut like the whole text. A text with numbered lines, such as a
program, is split between lines, unless a line is too long.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.graphemes import cut_before
from truespan.protocols import TokenCounter
from truespan.text.sentences import split_sentences
from truespan.text.tables import BAR
from truespan.types.profile import ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap, contents_start

_SLACK = 64
"""Fraction of the width up to which `widest` may miss the optimum, to need fewer counts."""
_SENTENCE_ENDS = (". ", "! ", "? ", ".\n", "!\n", "?\n")
_SPACES = " \t\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space between words, except line ends."""
_MAX_TOKEN_LENGTH = 16
"""Maximum number of characters of a part for each token of the limit.

No text has longer tokens, and a sentence of millions of characters must not be measured as a whole
for each of its parts.
"""
_WORD = re.compile(r"\S")
_BEFORE_WORD = re.compile(r"\s(?=\S)")
_PARAGRAPH = "\n\n"
_OTHER_SCRIPTS = re.compile("[^\x00-\u024f\u0e00-\u0eff\u1e00-\u1eff\u2000-\u206f]")
"""A character that is neither Latin nor Thai, Lao or general punctuation. Thai and Lao have
characters of their own for vowels and tones, so that they need more of them."""
MAX_OTHER_LETTERS = 510
"""Maximum number of characters in other scripts of a window with `whole_words`, whatever the limit
of the model: longer windows are found less often. Measured; see bench/RESULTS.md."""


class MeasuredText(Struct, frozen=True):
    """A canonical text with its sentences and its token counts."""

    canonical: CanonicalText
    sentences: Sequence[Sentence]
    tokens: TokenMap


def chunk_spans(measured: MeasuredText, profile: ChunkingProfile, limit: int) -> list[Span]:
    """Return the spans of a text in order; starts and ends both increase from span to span."""
    # No span has more than `limit` tokens, except a single code point that alone has more. No span
    # is white space only: a text without sentences has no chunks.
    canonical = measured.canonical
    if not measured.sentences:
        return []
    if profile.strategy is Strategy.SENTENCES:
        if _is_program(canonical):
            profile = replace(profile, whole_rows=False)
        return _sentence_spans(measured, profile, limit)
    split = _window_spans if profile.strategy is Strategy.WINDOW else _token_spans
    if _has_sheets(canonical):
        return _sheet_spans(split, measured, profile, limit)
    return split(measured, profile, limit)


def _sentence_spans(measured: MeasuredText, profile: ChunkingProfile, limit: int) -> list[Span]:
    """Return spans of whole sentences; chapters and lists of contents are split separately."""
    canonical = measured.canonical
    places = list(zip(canonical.starts, canonical.places, strict=True))
    contents = contents_start(places) or len(canonical.text)

    def chapter_of(sentence: Sentence) -> tuple[str | None, bool]:
        return canonical.place_at(sentence.start).chapter, sentence.start >= contents

    chunker = _SentenceChunker(
        canonical.text, measured.sentences, measured.tokens, profile=profile, limit=limit
    )
    spans: list[Span] = []
    first = 0
    for _, group in groupby(measured.sentences, chapter_of):
        stop = first + sum(1 for _ in group)
        spans.extend(chunker.chapter(first, stop))
        first = stop
    return spans


def _sheet_spans(
    split: Callable[[MeasuredText, ChunkingProfile, int], list[Span]],
    measured: MeasuredText,
    profile: ChunkingProfile,
    limit: int,
) -> list[Span]:
    # The end of a sheet depends on the first sentence of the next sheet, as the end of a text
    # depends on the sentence that would follow.
    canonical, sentences = measured.canonical, measured.sentences
    spans: list[Span] = []
    first = 0
    for _, group in groupby(sentences, lambda item: canonical.place_at(item.start).chapter):
        own = list(group)
        past = first + len(own)
        start = own[0].start if first else 0
        end = own[-1].end if past < len(sentences) else len(canonical.text)
        moved = [
            Sentence(sid, item.start - start, item.end - start) for sid, item in enumerate(own)
        ]
        text = CanonicalText(canonical.text[start:end])
        sheet = MeasuredText(text, moved, measured.tokens.part(start, end))
        for span in split(sheet, profile, limit):
            begin, stop, context, reach = span
            spans.append(Span(begin + start, stop + start, context + start, reach + first))
        first = past
    return spans


def widest(count: Callable[[int], int], width: int, limit: int) -> int:
    """Return nearly the largest width with `count(width) <= limit`, at least 1."""
    # `count(width)` must exceed the limit. Larger widths are not counted, so that nothing after the
    # width influences the result.
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


def _window_spans(measured: MeasuredText, profile: ChunkingProfile, limit: int) -> list[Span]:
    """Return windows of `size` characters, each sharing `overlap` with the last one."""
    # With `whole_words`, the overlap is half to twice as long, as sentences allow.
    text, size = measured.canonical.text, profile.size
    is_separate = profile.overlap_mode is OverlapMode.SEPARATE
    ends = [sentence.end for sentence in measured.sentences]
    tables = find_tables(measured.canonical, profile)
    shared = 0 if is_separate else profile.overlap
    starts = [sentence.start for sentence in measured.sentences] if profile.whole_words else None
    cutter = _WindowCutter(
        text, measured.tokens, limit=limit, size=size, overlap=shared, starts=starts
    )
    spans: list[Span] = []
    for start, end in cutter.windows(0, ends[-1], tables):
        context = start
        if is_separate:
            context = cutter.overlap_start(-1, max(start - profile.overlap, 0), start)
        if is_separate and tables:
            context = tables.overlap_start(0, context, start, start)
        # A chunk depends on its whole window and on the text continuing after it, so its reach is
        # the first sentence that ends after the window.
        spans.append(Span(start, end, context, bisect_right(ends, start + size)))
    # White space at the very end goes into the last chunk as far as it fits.
    last = spans[-1]
    spans[-1] = last._replace(end=max(last.end, min(len(text), last.start + size)))
    return spans


class _WindowCutter(Struct, frozen=True):
    """Splits a text into windows of at most `size` characters and `limit` tokens."""

    text: str
    tokens: TokenMap
    limit: int
    size: int
    overlap: int = 0
    starts: Sequence[int] | None = None
    """Starts of the sentences, if windows begin and end with sentences or words."""

    def windows(
        self,
        start: int,
        stop: int,
        tables: Tables | Lines | None = None,
        *,
        whole_characters: bool = False,
    ) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the windows of `text[start:stop]`, which ends with a word."""
        # No window ends inside one of the `tables`, nor, with `whole_characters`, inside a
        # grapheme.
        # A window of too many tokens is narrowed, and its overlap with it: otherwise the next one
        # might not advance. If a narrowed window holds nothing new, it starts without overlap.
        # Windows of white space only are skipped.
        text, count = self.text, self._count
        covered = start
        while start < stop:
            bound = min(start + self.size, stop)
            end, step = bound, self.overlap
            if bound < stop:
                end = _break(text, start, bound, self.starts)
            if count(start, end) > self.limit:
                width = widest(lambda wide, at=start: count(at, at + wide), end - start, self.limit)
                end = _break(text, start, start + width, self.starts)
                step = step * width // self.size
            if whole_characters and end < stop:
                end = cut_before(text, end, start)
            moved = tables.end_before(start, end, bound) if tables and end < stop else end
            if moved < end:
                # The overlap must not reach back to the beginning of a chunk that became short.
                end, step = moved, min(step, (moved - start) // 2)
            if text[start].isspace() and text[start:end].isspace():
                word = _WORD.search(text, start)
                start = word.start() if word else len(text)
            elif end <= covered:
                start = covered
            else:
                yield start, end
                covered, begin = end, start
                start = self.overlap_start(begin, end - step, end) if end < stop else stop
                if tables and end < stop:
                    start = tables.overlap_start(begin, start, end, start + self.size)

    def _count(self, start: int, end: int) -> int:
        """Return the number of tokens; more than the limit if too many are in other scripts."""
        tokens, limit = self.tokens.count(start, end), self.limit
        if self.starts is None or limit <= MAX_OTHER_LETTERS or self.text.isascii():
            return tokens
        letters = len(_OTHER_SCRIPTS.findall(self.text, start, end))
        return max(tokens, limit * letters // MAX_OTHER_LETTERS)

    def overlap_start(self, begin: int, offset: int, end: int) -> int:
        """Return the start of the overlap at the end of a window that would start at `offset`."""
        # The overlap starts with the first sentence that leaves half of it, else with the sentence
        # around the offset if that does not double it, else with another sentence or a word.
        starts = self.starts
        if starts is None or not begin < offset < end:
            return offset
        found, width = bisect_left(starts, offset), end - offset
        # A sentence that begins at the end or later must not matter: it may be unread.
        follows = found < len(starts) and starts[found] < end
        if follows and starts[found] <= end - width // 2:
            return starts[found]
        if found and starts[found - 1] >= max(begin + 1, offset - width):
            return starts[found - 1]
        if follows:
            return starts[found]
        word = _BEFORE_WORD.search(self.text, max(offset - 1, 0), end)
        return word.end() if word else cut_before(self.text, offset, begin)


class Tables(Struct, frozen=True):
    """The tables of a text, as seen from the beginning of a chunk."""

    text: str
    bars: Sequence[int]
    """Offsets of the bars between cells."""

    def start_around(self, begin: int, offset: int, known: int) -> int | None:
        """Return the start of the table around an offset; None if there is none, or it ends there.

        Text before `begin` and from `known` on does not count, except a blank line that follows.
        """
        text = self.text
        if text.startswith(_PARAGRAPH, offset) or text.startswith(_PARAGRAPH, offset - 1):
            return None
        blank = text.rfind(_PARAGRAPH, begin, offset)
        paragraph = begin if blank < 0 else blank + len(_PARAGRAPH)
        # The bar at the very beginning may be one only because nothing before it counts.
        found = bisect_left(self.bars, max(paragraph, begin + 1))
        if found == len(self.bars) or self.bars[found] >= known:
            return None
        part = max(text.rfind("\n", paragraph, self.bars[found]) + 1, paragraph)
        return part if part < offset else None

    def end_before(self, start: int, end: int, known: int) -> int:
        """Return the end of a chunk that would end at `end`: before the table there, or a row."""
        part = self.start_around(start, end, known)
        if part is None:
            return end
        if part > start:
            return part
        row = self.text.rfind("\n", start, end) + 1
        return row if row > start else end

    def overlap_start(self, begin: int, offset: int, end: int, known: int) -> int:
        """Return the start of the overlap at the end of a chunk that would start at `offset`."""
        # The overlap never starts inside a table. If a table follows the chunk, by the text before
        # `known`, the overlap starts with a paragraph, such as a caption, if there is one.
        if not begin < offset < end:
            return offset
        if self.start_around(begin, offset, end) is not None:
            blank = self.text.find(_PARAGRAPH, offset, end)
            return end if blank < 0 else blank + len(_PARAGRAPH)
        found = bisect_left(self.bars, end)
        bar = self.bars[found] if found < len(self.bars) else known
        if bar < known and self.text.find("\n", end, bar) < 0:
            blank = self.text.find(_PARAGRAPH, offset, end - len(_PARAGRAPH))
            return offset if blank < 0 else blank + len(_PARAGRAPH)
        return offset


class Lines(Struct, frozen=True):
    """The lines of a text with numbered lines, and its tables."""

    text: str
    tables: Tables | None

    def end_before(self, start: int, end: int, known: int) -> int:
        """Return the end of a chunk that would end at `end`: the end of a line."""
        if self.tables:
            end = self.tables.end_before(start, end, known)
        line = self.text.rfind("\n", start, end) + 1
        return line if line > start else end

    def overlap_start(self, begin: int, offset: int, end: int, known: int) -> int:
        """Return the start of the overlap at the end of a chunk: the start of a line."""
        if self.tables:
            offset = self.tables.overlap_start(begin, offset, end, known)
        if not begin < offset < end:
            return offset
        line = self.text.find("\n", offset - 1, end) + 1 or end
        while line < end and self.text[line] == "\n":
            line += 1
        return line


def find_tables(canonical: CanonicalText, profile: ChunkingProfile) -> Tables | Lines | None:
    """Return the tables and numbered lines that chunks of a profile do not split, if any."""
    if not profile.whole_rows:
        return None
    text, tables = canonical.text, None
    if not _is_program(canonical) and "|" in text:
        bars = [found.start() for found in BAR.finditer(text)]
        tables = Tables(text, bars) if bars else None
    return Lines(text, tables) if _has_lines(canonical) else tables


def _has_lines(canonical: CanonicalText) -> bool:
    # A page that begins later says nothing about the text before it.
    first = canonical.pages[0] if canonical.pages else None
    return first is not None and first.offset == 0 and first.unit == "line"


def _has_sheets(canonical: CanonicalText) -> bool:
    return bool(canonical.pages) and canonical.pages[0].unit.startswith("row ")


def _is_program(canonical: CanonicalText) -> bool:
    """Return whether a text is a program, in which a bar is an operator and not part of a table."""
    # A program has its name as chapter; other texts with numbered lines have no chapter.
    return _has_lines(canonical) and canonical.place_at(0).chapter is not None


def _break(text: str, start: int, stop: int, starts: Sequence[int] | None = None) -> int:
    """Return the end of the chunk in the window from `start` to `stop`."""
    # With the `starts` of sentences, these decide about sentences, and no grapheme is cut.
    width = stop - start
    half, third = start + width // 2 + 1, start + width * 3 // 10 + 1
    end = text.rfind(_PARAGRAPH, half - 2, stop) + 2
    if end < half:
        end = _sentence_end(text, half, stop, starts)
    if end < half:
        end = text.rfind("\n", third - 1, stop) + 1
    if end < third:
        spaces = " " if starts is None else _SPACES
        end = max(text.rfind(space, third - 1, stop) for space in spaces) + 1
    if end < third or (text[start].isspace() and text[start:end].isspace()):
        return stop if starts is None else cut_before(text, stop, start)
    return end


def _sentence_end(text: str, half: int, stop: int, starts: Sequence[int] | None) -> int:
    """Return the last end of a sentence, with the white space after it, from `half` to `stop`."""
    # A smaller number if there is none.
    if starts is not None:
        found = bisect_right(starts, stop)
        return starts[found - 1] if found else 0
    last = -1
    for mark in _SENTENCE_ENDS:
        last = max(last, text.rfind(mark, max(last, half - 2), stop))
    return last + 2


class _SentenceChunker(Struct):
    """Makes spans of `size` sentences that share `overlap`, or of as many as fit into `pack`.

    A sentence that fits no chunk is split like a window; each part is a span. Ranges of sentence
    indexes are half-open.
    """

    text: str
    sentences: Sequence[Sentence]
    tokens: TokenMap
    profile: ChunkingProfile
    limit: int
    spaced: bool = False
    """Whether white space separates all sentences, so that their token counts add up."""
    tables: _TableRows | None = None

    def __post_init__(self) -> None:
        self.spaced = all(before.end < after.start for before, after in pairwise(self.sentences))
        if self.profile.whole_rows and "|" in self.text:
            self.tables = _TableRows.of(self.text, self.sentences)

    def chapter(self, first: int, stop: int) -> Iterator[Span]:
        """Yield the spans of the chapter that has the sentences from `first` to `stop`."""
        start, covered, begin, seen = first, first, first, first
        while covered < stop:
            end, reach = self._fill(start, stop)
            # A chunk begins where the last one ends, so it depends on all that decided that end.
            seen = max(seen, reach)
            if end <= covered:
                # With the overlap there is no room for a new sentence: reduce the overlap.
                if start < covered:
                    start = self._outside(begin, start + 1, covered)
                    continue
                yield from self._parts(first, start, seen)
                start = covered = begin = start + 1
                continue
            yield Span(
                self.sentences[start].start,
                self.sentences[end - 1].end,
                self._context(first, start),
                seen,
            )
            covered, begin = end, start
            separate = self.profile.overlap_mode is OverlapMode.SEPARATE
            start = end if separate else max(start + 1, end - self.profile.overlap)
            start = self._outside(begin, start, end)

    def _outside(self, begin: int, first: int, end: int) -> int:
        """Return the first of the sentences from `first` to `end` that is not inside a table."""
        # Sentences before `begin` do not count.
        while self.tables and first < end and self.tables.continues(begin, first):
            first += 1
        return first

    def _fill(self, first: int, stop: int) -> tuple[int, int]:
        """Return the end of the longest run from `first` that fits, and the sentence it depends on.

        The end is `first` if not even that sentence fits.
        """
        # The search begins at the front, so the result depends on no sentence after the first one
        # that does not fit.
        last, counted = stop, self.profile.pack is None
        if counted:
            last = min(stop, first + self.profile.size)
        if self.tables and self.tables.any_between(first, last):
            return self._fill_with_tables(first, stop)
        if counted and self.spaced and self._fits(first, last):
            end = last
        else:
            end = first
            while end < last and self._fits(first, end + 1):
                end += 1
        # A run of `size` sentences depends on nothing after it. Any other run depends on the
        # sentence `end`, which did not fit, or begins the next chapter, or does not exist.
        full = counted and end - first == self.profile.size
        return end, end - 1 if full else end

    def _fill_with_tables(self, first: int, stop: int) -> tuple[int, int]:
        """Return a run that does not end inside a table; `size` may be exceeded to complete one."""
        tables, size = self.tables, self.profile.size if self.profile.pack is None else None
        assert tables is not None
        end, part, row = first, first, first
        while True:
            within = end < stop and tables.continues(first, end)
            if not within:
                if size is not None and end - first >= size:
                    # The end of a table depends on the next sentence.
                    return end, end if tables.includes(first, end - 1) else end - 1
                part = end
            if end == stop:
                return end, end
            if tables.begins_line[end]:
                row = end
            if not self._fits(first, end + 1):
                if not within:
                    return end, end
                return next((at for at in (part, row) if at > first), end), end
            end += 1

    def _fits(self, first: int, end: int) -> bool:
        start, stop = self.sentences[first].start, self.sentences[end - 1].end
        pack = self.profile.pack
        if pack is not None and stop - start > pack:
            return False
        return self.tokens.count(start, stop) <= self.limit

    def _context(self, chapter: int, first: int) -> int:
        if self.profile.overlap_mode is not OverlapMode.SEPARATE:
            return self.sentences[first].start
        before = max(chapter, first - self.profile.overlap)
        return self.sentences[self._outside(chapter, before, first)].start

    def _parts(self, chapter: int, sid: int, reach: int) -> Iterator[Span]:
        """Split a sentence that is too long; the parts depend on nothing after it."""
        # Parts after the first follow parts of the same sentence and have no separate overlap.
        _, start, stop = self.sentences[sid]
        size = self.profile.pack or min(stop - start, _MAX_TOKEN_LENGTH * self.limit)
        context = self._context(chapter, sid)
        cutter = _WindowCutter(self.text, self.tokens, limit=self.limit, size=size)
        for begin, end in cutter.windows(start, stop, whole_characters=True):
            yield Span(begin, end, context if begin == start else begin, reach)


class _TableRows(Struct, frozen=True):
    """Membership of the sentences of a text in tables."""

    row_before: Sequence[int]
    """For each sentence, the last sentence before it in the same paragraph with a bar, else -1."""
    next_row: Sequence[int]
    """For each sentence, the first sentence from it on with a bar, else the number of sentences."""
    begins_line: Sequence[bool]

    @classmethod
    def of(cls, text: str, sentences: Sequence[Sentence]) -> _TableRows:
        row_before: list[int] = []
        begins_line: list[bool] = []
        next_row: list[int] = []
        before, end = -1, 0
        for sid, (_, start, stop) in enumerate(sentences):
            gap = text[end:start]
            if _PARAGRAPH in gap:
                before = -1
            row_before.append(before)
            begins_line.append("\n" in gap)
            sentence = text[start:stop]
            if "|" in sentence and BAR.search(sentence):
                before = sid
                next_row += [sid] * (sid + 1 - len(next_row))
            end = stop
        next_row += [len(sentences)] * (len(sentences) - len(next_row))
        return cls(row_before, next_row, begins_line)

    def continues(self, first: int, sid: int) -> bool:
        """Return whether a table that begins at `first` or later continues with a sentence."""
        return self.row_before[sid] >= first

    def includes(self, first: int, sid: int) -> bool:
        """Return whether a sentence is in a table that begins at `first` or later."""
        return self.next_row[sid] == sid or self.continues(first, sid)

    def any_between(self, first: int, stop: int) -> bool:
        return self.next_row[first] < stop


def _token_spans(measured: MeasuredText, profile: ChunkingProfile, limit: int) -> list[Span]:
    """Return spans of at most `size` tokens, of which neighbours share at most `overlap`."""
    text = measured.canonical.text
    ends = [sentence.end for sentence in measured.sentences]
    size = min(profile.size, limit)
    overlap = profile.overlap * size // profile.size
    chunker = _TokenChunker(text, ends[-1], measured.tokens, size, overlap)
    separate = profile.overlap_mode is OverlapMode.SEPARATE
    tables = find_tables(measured.canonical, profile)

    def fill(start: int) -> tuple[int, int]:
        found, decided_by = chunker.fill(start)
        # A blank line or a bar that follows counts as well, in every text: otherwise the reach
        # would depend on whether there is a table later.
        decided_by = max(decided_by, found + len(_PARAGRAPH))
        if tables and found < chunker.stop:
            before = tables.end_before(start, found, decided_by - 1)
            # White space before a table belongs to the chunk of the table.
            found = before if text[start:before].strip() else found
        return found, decided_by

    spans: list[Span] = []
    begin, end, seen = 0, 0, 0
    while end < chunker.stop:
        overlap = chunker.overlap_start(begin, end) if spans else 0
        if tables:
            overlap = tables.overlap_start(begin, overlap, end, seen - 1)
        start = end if separate else overlap
        found, decided_by = fill(start)
        # A chunk begins where the one before ends, so it depends on all that decided that end.
        seen = max(seen, decided_by)
        if found <= end:
            # The next word does not fit beside the overlap.
            start = end
            found, decided_by = fill(end)
            seen = max(seen, decided_by)
        context = overlap if separate else start
        spans.append(Span(start, found, context, bisect_left(ends, seen)))
        begin, end = start, found
    if chunker.stop < len(text):
        # White space at the very end belongs to the last chunk, whose end then depends on it.
        spans[-1] = spans[-1]._replace(end=len(text), reach=len(measured.sentences))
    return spans


class _TokenChunker(Struct, frozen=True):
    """Finds the chunks of one text, which ends with a word at `stop`."""

    text: str
    stop: int
    tokens: TokenMap
    size: int
    overlap: int

    def fill(self, start: int) -> tuple[int, int]:
        """Return the end of the chunk that begins at `start`, and the offset it depends on."""
        # An offset up to which there are too many tokens, or an offset past the text. It grows in
        # steps, so that the chunk depends on little more than its own text.
        width = 2 * self.size
        while start + width < self.stop and self.tokens.count(start, start + width) <= self.size:
            width += width // 4 + 1
        horizon = start + width
        bound = min(horizon, self.stop)
        if self.tokens.count(start, bound) <= self.size:
            # The rest fits, and more text would have fitted too.
            return self.stop, self.stop + 1
        words = self._words(start, bound)
        fitting = bisect_right(words, self.size, key=lambda end: self.tokens.count(start, end))
        first = _WORD.search(self.text, start, bound)
        word_start = first.start() if first else start
        if fitting and words[fitting - 1] > word_start:
            return words[fitting - 1], horizon
        width = widest(
            lambda wide: self.tokens.count(start, start + wide), bound - start, self.size
        )
        return cut_before(self.text, max(start + width, word_start + 1), word_start), horizon

    def overlap_start(self, start: int, end: int) -> int:
        """Return the start of the overlap at the end of the chunk from `start` to `end`."""
        words = self._words(start, end)
        found = bisect_left(words, -self.overlap, key=lambda word: -self.tokens.count(word, end))
        if found < len(words):
            return words[found]
        inside = not self.text[end - 1].isspace()
        if not inside or self.tokens.count(end - 1, end) > self.overlap:
            return end
        # The chunk ends inside a word of many tokens, and its overlap starts inside it.
        first = words[-1] if words else start
        if self.tokens.count(first, end) <= self.overlap:
            return first
        width = widest(lambda wide: self.tokens.count(end - wide, end), end - first, self.overlap)
        # Forward, so that the overlap does not grow.
        return next(
            (at for at in range(end - width, end) if cut_before(self.text, at, first) == at), end
        )

    def _words(self, start: int, end: int) -> list[int]:
        """Return the starts of the words after `start` and before `end`."""
        return [found.end() for found in _BEFORE_WORD.finditer(self.text, start, end)]


_PARTS = ChunkingProfile("parts", Strategy.SENTENCES, size=1_000_000, overlap=0)


def split_text(text: str, counter: TokenCounter, limit: int) -> list[str]:
    """Split a text into parts of whole sentences, each of at most `limit` tokens."""
    stripped = text.strip()
    if counter.count(stripped) <= limit:
        return [stripped]
    canonical = CanonicalText(stripped)
    measured = MeasuredText(canonical, split_sentences(canonical), counter.measure(stripped))
    spans = chunk_spans(measured, _PARTS, limit)
    return [stripped[span.start : span.end] for span in spans]
