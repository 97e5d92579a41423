"""Text during ingestion: blocks, canonical text, places, sentences and token counts."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, cast, overload

import msgspec
from msgspec import Struct


class BlockKind(StrEnum):
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    QUOTE = "quote"
    CAPTION = "caption"
    """Caption of an adjacent figure, as marked in the source."""
    FOOTNOTE = "footnote"


class Figure(Struct, frozen=True):
    """A picture found by a loader.

    `image` is the index of its bytes in `Loaded.images`; None if they are missing or not requested.
    `origin` is the archive member or the URL of the picture.
    """

    alt: str = ""
    origin: str = ""
    image: int | None = None

    def bytes_in(self, images: Sequence[Image]) -> Image | None:
        """Return the image of the figure; None if it has none."""
        # The parser process is not trusted: the index may be out of range.
        place = self.image
        return images[place] if place is not None and 0 <= place < len(images) else None


class PlacedFigure(NamedTuple):
    """A figure at an offset of the text around it."""

    offset: int
    figure: Figure


class FigureSpot(NamedTuple):
    """A figure at an offset of canonical text; the block after its own begins at `follows`."""

    offset: int
    follows: int
    figure: Figure


_PAGES = ("page", "scanned page", "unclear page")


class PageStart(NamedTuple):
    """Start of a page, or of another counted unit of a source; pages count from 1.

    `page` is 0 at the start of text on no page, such as the name of a sheet or a repeated table
    header.

    `unit` is "page", "slide", "line", "cell" or another noun; for the rows of a sheet it is "row
    A:F", with the columns of the table. The text of a "scanned page" or "unclear page" comes from
    OCR. No field may depend on what follows in the text.
    """

    offset: int
    page: int
    unit: str = "page"

    @property
    def page_number(self) -> int | None:
        """Number of the page; None for other units."""
        return self.page or None if self.unit in _PAGES else None


class Block(Struct, frozen=True, gc=False):
    """A block of a source in reading order, with its chapter and section.

    Offsets of figures and pages refer to `text` and ascend. A block may have a figure and no text.
    """

    kind: BlockKind
    text: str
    chapter: str | None = None
    section: str | None = None
    figures: tuple[PlacedFigure, ...] = ()
    pages: tuple[PageStart, ...] = ()
    is_contents: bool = False
    """Whether the block belongs to a table of contents or a similar list of what lies ahead."""
    header_rows: int = 0
    """Number of header rows of a table, as stated by the source."""


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of a picture and the file extension, without a dot."""

    extension: str
    data: bytes = field(repr=False)


class PictureCounts(Struct, frozen=True):
    """Counts of picture references found, resolved and missing in a source."""

    blips: int = 0
    rels_total: int = 0
    rels_mapped: int = 0
    zip_member_miss: int = 0


class Properties(Struct, frozen=True):
    """Document properties stated in the metadata fields of a source."""

    title: str | None = None
    authors: tuple[str, ...] = ()
    language: str | None = None
    created: str | None = None
    modified: str | None = None
    keywords: tuple[str, ...] = ()
    description: str | None = None
    publisher: str | None = None


class Validators(Struct, frozen=True):
    """HTTP validators of a version of a web page."""

    etag: str | None = None
    last_modified: str | None = None


class Loaded(Struct, frozen=True):
    """A parsed source: its blocks, title, properties and images."""

    blocks: tuple[Block, ...]
    title: str | None = None
    properties: Properties = msgspec.field(default_factory=Properties)
    images: tuple[Image, ...] = ()
    pictures: PictureCounts = msgspec.field(default_factory=PictureCounts)
    warnings: tuple[str, ...] = ()
    """Sentences about parts that could not be read. They contain no text of the source."""
    removed: tuple[str, ...] = ()
    """Removed lines that repeat on pages: running heads and page numbers."""


class Place(NamedTuple):
    """Chapter and section at the start of a span."""

    chapter: str | None
    section: str | None


NO_PLACE = Place(None, None)


# Shared by threads: an `lru_cache` of texts, and one of tuples of texts; both lock.
@lru_cache(maxsize=8192)
def fold_name(name: str) -> str:
    """Return a name in the form used for comparison, without case and composed accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def fold_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names in the form used for comparison, each once."""
    return tuple(dict.fromkeys(map(fold_name, names)))


class NamedPlace(NamedTuple):
    """Names of a chapter and section as results show them; never empty."""

    chapter: str
    section: str

    @classmethod
    def of(cls, place: Place, title: str) -> NamedPlace:
        """Return the names of a place.

        The title replaces a missing chapter, and the chapter a missing section.
        """
        chapter = place.chapter or title
        return cls(chapter, place.section or chapter)


# Shared by threads: as above.
@lru_cache(maxsize=256)
def name_places(places: tuple[Place, ...], title: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the chapters and of the sections of a text, each once.

    Cached, because most chunks have the same places as the previous chunk.
    """
    names = [NamedPlace.of(place, title) for place in places]
    chapters = dict.fromkeys(name.chapter for name in names)
    return tuple(chapters), tuple(dict.fromkeys(name.section for name in names))


class PlacedSentence(Struct, frozen=True):
    """A sentence verified by its text or checksum, and the place where it begins."""

    sid: int
    start: int
    end: int
    tokens: int
    place: Place
    page_start: PageStart | None
    """Start of the page on which the sentence begins."""

    @property
    def page(self) -> int | None:
        return self.page_start.page_number if self.page_start else None


class SentencePlace(Struct, frozen=True):
    """Place of one or more consecutive sentences: where the first begins, and all their pages."""

    sid: int
    chapter: str
    section: str
    page: int | None = None
    location: str | None = None
    """Pages, slides, lines, cells or rows, such as `slide 7`; None if the source has none."""


class SentenceRange(NamedTuple):
    """First and last sentence of a span of text, and their place if it is known."""

    first_sid: int
    last_sid: int
    place: SentencePlace | None = None


_NOUN = re.compile(r"[a-z]{1,20}")
_ROW = re.compile(r"row ([A-Z]{1,3}):([A-Z]{1,3})")
_RANGE = re.compile(
    r"(?<![a-z])(?:([a-z]+)s (\d+)-(\d+)|([a-z]+) (\d+))|([A-Z]{1,3})(\d+)(?::([A-Z]{1,3})(\d+))?"
)
"""A range within a label made by `name_pages`."""
_EXACT = re.compile(r"[a-z ]+ \d+|[A-Z]{1,3}(\d+)(?::[A-Z]{1,3}\1)?")
"""A label of a single page, slide, line, cell or row."""
_MAX_RANGES = 3
"""Maximum number of ranges in a label, if page numbers do not ascend."""


def is_unit(unit: str) -> bool:
    """Return whether a text is a valid unit of `PageStart`."""
    return bool(unit in _PAGES or _NOUN.fullmatch(unit) or _ROW.fullmatch(unit))


def name_pages(starts: Iterable[PageStart]) -> str | None:
    """Return the label of pages in text order, such as `pages 3-4` or `A5:F9`; None for none."""
    return _name_ranges((unit, page, page) for _, page, unit in starts if page)


def is_exact(location: str) -> bool:
    """Return whether a label names a single page, slide, line, cell or row."""
    return _EXACT.fullmatch(location) is not None


def name_best(
    chapter: str | None, section: str | None, location: str | None, best: SentencePlace | None
) -> str:
    """Return a suffix that locates the best sentence of a passage; empty if it adds nothing."""
    if best is None:
        return ""
    pairs = (best.chapter, chapter), (best.section, section), (best.location, location)
    names = dict.fromkeys(" ".join(name.split()) for name, own in pairs if name and name != own)
    return f"; best match: {', '.join(names)}" if names else ""


_LINKING = re.compile(r"[\\`\[\]<>]")


def escape_label(label: str) -> str:
    """Return a label of a document for Markdown, in which it makes no link, code or HTML."""
    return _LINKING.sub(r"\\\g<0>", " ".join(label.split()))


def name_place(labels: Iterable[str | None], location: str | None) -> str:
    """Return the place of a passage in one line: title, chapter, section and location.

    A location that repeats a label is omitted: an untitled slide is named after its number.
    """
    names = [*dict.fromkeys(" ".join(label.split()) for label in labels if label)]
    is_named = any(name.casefold() == location for name in names)
    return " › ".join(names) + (f", {location}" if location and not is_named else "")


MAX_NAMED_SOURCES = 5
"""Maximum number of other sources of a passage listed in a line."""


def name_sources(sources: Iterable[str]) -> str:
    """Return paths or URLs in one line, each once; empty for none."""
    names = [*dict.fromkeys(" ".join(source.split()) for source in sources)]
    return list_some(names, MAX_NAMED_SOURCES)


def list_some(names: Sequence[str], most: int) -> str:
    """Return the first names in one line, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def join_locations(labels: Iterable[str | None]) -> str | None:
    """Return one label for passages in text order, from the label of each."""
    ranges: list[tuple[str, int, int]] = []
    for label in labels:
        for found in _RANGE.finditer(label or ""):
            nouns, first, last, noun, only, left, top, right, bottom = found.groups()
            unit = noun or nouns or f"row {left}:{right or left}"
            ranges.append((unit, int(only or first or top), int(only or last or bottom or top)))
    return _name_ranges(ranges)


def _name_ranges(ranges: Iterable[tuple[str, int, int]]) -> str | None:
    joined: list[tuple[str, int, int]] = []
    for unit, first, last in ranges:
        common = _join_units(joined[-1][0], unit) if joined else None
        if common and joined[-1][1] <= first:
            joined[-1] = (common, joined[-1][1], max(joined[-1][2], last))
        elif len(joined) > _MAX_RANGES:
            break
        else:
            joined.append((unit, first, last))
    labels = [_name_range(*found) for found in joined[:_MAX_RANGES]]
    return ", ".join(labels + ["…"] * (len(joined) > _MAX_RANGES)) or None


def _join_units(before: str, after: str) -> str | None:
    """Return a unit for two ranges; None if they cannot be joined.

    Rows that share a column are joined to the columns of both: a table may grow wider from row to
    row, and its title may be a single cell.
    """
    if before == after:
        return before
    one, other = _ROW.fullmatch(before), _ROW.fullmatch(after)
    if not one or not other:
        return None

    def width(column: str) -> tuple[int, str]:
        return len(column), column

    left, right = sorted((one[1], other[1]), key=width), sorted((one[2], other[2]), key=width)
    return f"row {left[0]}:{right[1]}" if width(left[1]) <= width(right[0]) else None


def _name_range(unit: str, first: int, last: int) -> str:
    if row := _ROW.fullmatch(unit):
        top, bottom = f"{row[1]}{first}", f"{row[2]}{last}"
        return top if top == bottom else f"{top}:{bottom}"
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"


def contents_start(places: Sequence[tuple[int, Place]]) -> int | None:
    """Return the offset at which tables of contents begin in a text; None if there are none.

    `places` are the places of the text with their offsets. Tables of contents are moved to the end
    of the text, into a place without chapter and section.
    """
    start, place = places[-1] if places else (0, NO_PLACE)
    return start if start and place == NO_PLACE else None


_OFFSET = itemgetter(0)


class CanonicalText(Struct, frozen=True):
    """The cleaned text of one revision. `starts[i]` is the offset at which `places[i]` begins."""

    text: str
    starts: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()
    block_starts: tuple[int, ...] = ()
    """Start offsets of blocks. No sentence crosses a block boundary."""
    pages: tuple[PageStart, ...] = ()
    figures: tuple[FigureSpot, ...] = ()
    captions: tuple[int, ...] = ()
    """Start offsets of captions."""
    lines: tuple[int, ...] = ()
    """Start offsets of source code lines, each of which is a sentence."""
    programs: tuple[tuple[int, int], ...] = ()
    """Start and end offsets of source code."""

    def place_at(self, offset: int) -> Place:
        """Return the chapter and section at `offset`."""
        found = bisect_right(self.starts, offset) - 1
        return self.places[found] if found >= 0 else NO_PLACE

    def places_between(self, start: int, end: int) -> list[Place]:
        """Return the places of the text from `start` to `end` in order, each once."""
        first, last = bisect_right(self.starts, start), bisect_left(self.starts, end)
        return list(dict.fromkeys([self.place_at(start), *self.places[first:last]]))

    def page_at(self, offset: int) -> int | None:
        """Return the number of the page at `offset`; None if the source has no pages."""
        start = self.page_start(offset)
        return start.page_number if start else None

    def page_start(self, offset: int) -> PageStart | None:
        """Return the start of the page, or other counted unit, at `offset`."""
        found = bisect_right(self.pages, offset, key=_OFFSET) - 1
        return self.pages[found] if found >= 0 else None

    def location(self, start: int, end: int) -> str | None:
        """Return the label of the pages of the text from `start` to `end`; None for none.

        The label does not depend on anything after `end`. For rows, only the chapter at `start`
        counts: each sheet is a chapter with its own row numbers.
        """
        if not self.pages:
            return None
        first = max(bisect_right(self.pages, start, key=_OFFSET) - 1, 0)
        if self.pages[first].unit.startswith("row "):
            chapter = self.place_at(start).chapter
            for place in range(bisect_right(self.starts, start), bisect_left(self.starts, end)):
                if self.places[place].chapter != chapter:
                    end = self.starts[place]
                    break
        past = bisect_left(self.pages, end, key=_OFFSET)
        if self.pages[first].offset <= start:
            past = max(past, first + 1)
        return name_pages(self.pages[first:past])


def locate_sentences(sentences: Sequence[PlacedSentence]) -> str | None:
    """Return the label of the pages on which consecutive sentences begin; None for none."""
    pages = tuple(
        found.page_start._replace(offset=found.start) for found in sentences if found.page_start
    )
    if not pages:
        return None
    starts, places = zip(*((found.start, found.place) for found in sentences), strict=True)
    return CanonicalText("", starts, places, pages=pages).location(starts[0], sentences[-1].end)


def place_sentences(sentences: Sequence[PlacedSentence], title: str) -> SentencePlace:
    """Return the place of consecutive sentences in a document with this title."""
    first, location = sentences[0], locate_sentences(sentences)
    return SentencePlace(first.sid, *NamedPlace.of(first.place, title), first.page, location)


class Sentence(NamedTuple):
    """A numbered span of canonical text without surrounding white space."""

    sid: int
    start: int
    end: int


RowT = TypeVar("RowT", bound=tuple[object, ...])


class NumberedRows(Sequence[RowT]):
    """A sequence of numbered rows, stored as columns; a row is built when it is accessed.

    Used for sentences: there are about six for each chunk, and most code needs a single column.
    """

    __slots__ = ("columns",)

    def __init__(self, *columns: Sequence[object]) -> None:
        self.columns = columns

    @abstractmethod
    def __iter__(self) -> Iterator[RowT]: ...

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> list[RowT]: ...
    def __getitem__(self, index: int | slice) -> RowT | list[RowT]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return self.make(place, *(column[place] for column in self.columns))

    @abstractmethod
    def make(self, *cells: Any) -> RowT:
        """Return a row from its number and cells."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class Sentences(NumberedRows[Sentence]):
    """The sentences of a text, stored as offsets."""

    __slots__ = ()

    def __init__(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        super().__init__(starts, ends)

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Sentences:
        """Return consecutive sentences as offsets."""
        if isinstance(sentences, Sentences):
            return sentences
        starts = array("I", [sentence.start for sentence in sentences])
        return Sentences(starts, array("I", [sentence.end for sentence in sentences]))

    @property
    def starts(self) -> Sequence[int]:
        return cast("Sequence[int]", self.columns[0])

    @property
    def ends(self) -> Sequence[int]:
        return cast("Sequence[int]", self.columns[1])

    def make(self, *cells: Any) -> Sentence:
        return Sentence(*cells)

    def __iter__(self) -> Iterator[Sentence]:
        return map(Sentence, range(len(self)), self.starts, self.ends)


class Span(NamedTuple):
    """The span of a chunk.

    `context_start` is the start of the overlap stored beside the chunk; it equals `start` without
    one. `reach` is the largest sid that affected a boundary of the span: a reader who has read this
    sentence would get the same span from the read part alone.
    """

    start: int
    end: int
    context_start: int
    reach: int


WHITE_SPACE = re.compile("[\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""Word separators of tokenizers. Control characters that Python treats as space are not."""


@dataclass(frozen=True, slots=True)
class TokenMap:
    """Token counts between any two offsets of a text, without tokenizing it again.

    `starts` are the start offsets of counting units, `totals[i]` the number of tokens before unit i
    (one more entry than `starts`). `lone` matches separator characters: counts on either side of
    one can be added. A word that is cut is counted again by `recount`.
    """

    text: str
    starts: Sequence[int]
    totals: Sequence[int]
    recount: Callable[[str], int] = field(repr=False)
    lone: re.Pattern[str] = field(default=WHITE_SPACE, repr=False)

    @property
    def total(self) -> int:
        return self.totals[-1]

    def count(self, start: int, end: int) -> int:
        """Return the exact number of tokens of `text[start:end]`."""
        text, match = self.text, self.lone.match
        start, end = max(start, 0), min(end, len(text))
        if start >= end:
            return 0
        inner_start, inner_end = start, end
        if start and not match(text, start - 1) and not match(text, start):
            word_end = self.lone.search(text, start, end)
            inner_start = word_end.start() if word_end else end
        if end < len(text) and not match(text, end - 1) and not match(text, end):
            while inner_end > inner_start and not match(text, inner_end - 1):
                inner_end -= 1
        first, last = bisect_left(self.starts, inner_start), bisect_left(self.starts, inner_end)
        tokens = self.totals[last] - self.totals[first]
        if inner_start > start:
            tokens += self.recount(self.text[start:inner_start])
        if inner_end < end:
            tokens += self.recount(self.text[inner_end:end])
        return tokens

    def part(self, start: int, end: int) -> TokenMap:
        """Return the map of `text[start:end]`, which must be surrounded by white space."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        before = self.totals[first]
        starts = [unit - start for unit in self.starts[first:last]]
        totals = [total - before for total in self.totals[first : last + 1]]
        return TokenMap(self.text[start:end], starts, totals, self.recount, self.lone)
