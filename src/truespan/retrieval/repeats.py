"""Repeated text: the same place again, or the same words in another place.

Passages with equal text are one result with several places. Context that is rendered from passages
repeats neither a place nor a long run of words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.text.tables import BAR, added_tokens, format_tables
from truespan.types.bundle import Passage
from truespan.types.chunk import ChunkKind
from truespan.types.trust import OtherPlace, Visible

T = TypeVar("T")

MIN_REPEATED = 100
"""Minimum length of the beginning or end of a passage, in characters, that is left out because an
earlier passage contains it. Shorter runs of equal words are ordinary: phrases, headings, names."""
MIN_PIECE = 30
"""Minimum length of a shared sentence, in characters, that may be part of a longer run."""
SEPARATOR = "\n\n"
_SENTENCE_END = ". "
_BETWEEN = "\0"
"""Separates passages that are searched as one text; canonical text does not contain it."""


class CoveredText(Struct):
    """Covered parts of documents, as code-point intervals.

    All parts of a document are of one revision, since a response sees one state of a world.
    """

    _taken: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """Starts and ends of the intervals of each document; no two intervals touch."""

    def uncovered(self, document: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that no earlier interval covers, in order."""
        starts, ends = self._taken.get(document) or ([], [])
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        borders = zip([start, *ends[first:last]], [*starts[first:last], end], strict=True)
        return [(begin, stop) for begin, stop in borders if begin < stop]

    def add(self, document: int, start: int, end: int) -> list[tuple[int, int]]:
        """Cover [start, end), and return the parts of it that were not covered, in order."""
        starts, ends = self._taken.setdefault(document, ([], []))
        # Intervals that only touch this one become part of it too.
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        borders = zip([start, *ends[first:last]], [*starts[first:last], end], strict=True)
        new = [(begin, stop) for begin, stop in borders if begin < stop]
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
        return new


class EqualTexts(Struct, Generic[T]):
    """Finds values that were added with the same text before, ignoring white space."""

    _first: dict[tuple[str, ...], tuple[str, T]] = field(default_factory=dict)
    _known: dict[str, T] = field(default_factory=dict)

    def add(self, text: str, value: T) -> T:
        """Return the value first added with an equal text: `value` itself if the text is new."""
        # Only texts with the same first and last word have to be compared, and these are few.
        ends = (*text.split(None, 1)[:1], *text.rsplit(None, 1)[-1:])
        first = self._first.get(ends)
        if first is None:
            self._first[ends] = text, value
            return value
        self._known.setdefault(_normalise(first[0]), first[1])
        return self._known.setdefault(_normalise(text), value)


def _normalise(text: str) -> str:
    return " ".join(text.split())


class ShownText(Struct):
    """Text shown so far, by its place and by its words."""

    _covered: CoveredText = field(default_factory=CoveredText)
    _equal: EqualTexts[object] = field(default_factory=EqualTexts[object])
    _pieces: set[str] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)

    def show(self, part: Passage | Visible) -> list[tuple[int, int]]:
        """Return the spans of a passage's text that are new, in order, and count it as shown.

        Its beginning and its end are left out if an earlier passage contains them: copies of a
        document may be cut in other places.
        """
        text, offset = part.text, part.start
        spans = [
            (start - offset, end - offset)
            for start, end in self._covered.add(part.document, offset, part.end)
        ]
        own = object()
        pieces = text.replace("\n", _SENTENCE_END).split(_SENTENCE_END)
        pieces = [piece for piece in pieces if len(piece) > MIN_PIECE]
        if self._equal.add(text, own) is not own:
            spans = []
        elif not self._pieces.isdisjoint(pieces):
            # Searching for the beginning and the end is slow, and few passages share a sentence.
            spans = [self._cut(text, *span) for span in spans]
        self._pieces.update(pieces)
        self._texts.append(text)
        trimmed = (trim_span(text, *span) for span in spans)
        return [span for span in trimmed if span[0] < span[1]]

    def _cut(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Return a span without the beginning and the end that were shown, in whole words."""
        if end - start < MIN_REPEATED or BAR.search(text, start, end):
            # Parts of a table repeat its header, without which rows have no meaning.
            return start, end
        shown = _BETWEEN.join(self._texts)
        if (found := shown.find(text[start : start + MIN_REPEATED])) >= 0:
            more = bisect_left(
                range(MIN_REPEATED + 1, end - start + 1),
                True,
                key=lambda count: not shown.startswith(text[start : start + count], found),
            )
            start = _word_border(text, start, start + MIN_REPEATED + more, end, step=-1)
        if end - start < MIN_REPEATED:
            return start, end
        if (found := shown.find(text[end - MIN_REPEATED : end])) >= 0:
            last = found + MIN_REPEATED
            more = bisect_left(
                range(MIN_REPEATED + 1, end - start + 1),
                True,
                key=lambda count: not shown.endswith(text[end - count : end], 0, last),
            )
            end = _word_border(text, start, end - MIN_REPEATED - more, end, step=1)
        return start, end


def _word_border(text: str, start: int, place: int, end: int, *, step: int) -> int:
    """Return the border of a word next to `place`, before it (-1) or after it (1)."""
    while start < place < end and not (text[place].isspace() or text[place - 1].isspace()):
        place += step
    return place


def trim_span(text: str, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Return a span of a text without the white space around it."""
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, start + len(piece.rstrip()))


def render(parts: Iterable[Passage | Visible], *, tables: bool = False) -> str:
    """Join texts in order, without parts that an earlier text contains: the same place or words.

    With `tables`, tables are in Markdown. Each text is formatted separately: rows of different
    documents must not become one table.
    """
    shown = ShownText()
    pieces = [part.text[start:end] for part in parts for start, end in shown.show(part)]
    if tables:
        pieces = [format_tables(piece) if "|" in piece else piece for piece in pieces]
    return SEPARATOR.join(pieces)


def count_rendered(part: Visible, *, tables: bool) -> int:
    """Return the number of tokens of the budget that a part takes."""
    return part.tokens + (added_tokens(part.text) if tables else 0)


def place_of(part: Visible) -> OtherPlace:
    """Return the place of a passage, to be added to another one with the same text."""
    return copy_fields(OtherPlace, part)


def add_place(part: Visible, copy: Visible) -> Visible:
    """Return a passage with the places of another one that has the same text."""
    return replace(part, other_places=(*part.other_places, place_of(copy), *copy.other_places))


def merge_copies(ranked: Sequence[Visible]) -> list[Visible]:
    """Return ranked passages without copies; the first of equal ones has the places of all.

    Figures stay: two with the same description may show different things.
    """
    texts, merged = EqualTexts[int](), list[Visible]()
    for part in ranked:
        place = len(merged)
        if part.kind is ChunkKind.TEXT:
            place = texts.add(part.text, place)
        if place == len(merged):
            merged.append(part)
        else:
            merged[place] = add_place(merged[place], part)
    return merged
