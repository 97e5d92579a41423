"""The structure of a page: lists, tables, metadata, and the selection of its main text.

Doubtful text is kept, so that no content is lost. Boilerplate is navigation, and a header, footer
or aside of the page that consists of links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.parsing.formats.html.inline import Flow, Inline, PlacedMark
from truespan.text.contents import ContentsFinder, links_ahead
from truespan.text.headings import format_number
from truespan.types.text import BlockKind, Properties

_MAX_INDENT = 20
_MAX_NUMBER = 10**9


class PageList(Struct, eq=False):
    """An open list, with the number of its last item, and the difference between two numbers."""

    ordered: bool = False
    style: str = "1"
    number: int = 0
    step: int = 1

    def next_marker(self, value: int | None) -> str:
        """Return the marker of the next item; `value` is its explicit number, if any."""
        if not self.ordered:
            return "- "
        self.number = number = self.number + self.step if value is None else value
        if self.style in ("a", "A") and number > 0:
            text = ""
            while number:
                number, letter = divmod(number - 1, 26)
                text = chr(ord("a") + letter) + text
            return f"{text.upper() if self.style == 'A' else text}. "
        form = {"i": "lowerRoman", "I": "upperRoman"}.get(self.style, "decimal")
        return f"{format_number(number, form)}. "


def whole_number(text: str | None) -> int | None:
    """Parse the number in an attribute; None if it is missing or invalid."""
    try:
        number = int(text) if text and len(text) < 20 else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < _MAX_NUMBER else None


_LONG_ENOUGH_TO_READ = 1000
"""Minimum number of characters outside of links that keeps a region."""
_MIN_OF_MAIN, _MIN_OF_ARTICLE = 4, 2
"""An element is the main text if it has at least this fraction (1/n) of all text."""
_NOTICES = ("©", "(c) ", "copyright", "all rights reserved")
_LONG_NOTICE = 600


class Landmark(Struct, eq=False):
    """A header, footer or aside of the page, with the criteria for boilerplate."""

    tag: str
    letters: int = 0
    linked: int = 0
    has_navigation: bool = False
    has_title: bool = False
    has_notice: bool = False

    def count(self, text: str, linked: bool) -> None:
        self.letters += len(text)
        if linked:
            self.linked += len(text)
        elif self.tag == "footer" and not self.has_notice:
            self.has_notice = any(notice in text.lower() for notice in _NOTICES)


class Region(Struct, frozen=True, eq=False):
    """The region of a piece. `article` is the number of the outermost article, from 1."""

    main: bool = False
    article: int = 0
    navigation: bool = False
    fallback: bool = False
    contents: bool = False
    divided: bool = False
    """Whether the region is within a section, whose header and footer are part of its text."""
    landmark: Landmark | None = None

    @property
    def is_boilerplate(self) -> bool:
        """Whether the region is navigation, or a landmark of links or with a copyright notice."""
        landmark = self.landmark
        if self.navigation or landmark is None:
            return self.navigation
        unlinked = landmark.letters - landmark.linked
        if landmark.has_title or unlinked > _LONG_ENOUGH_TO_READ:
            return False
        if landmark.has_navigation or landmark.linked > unlinked:
            return True
        return landmark.has_notice and landmark.letters < _LONG_NOTICE


PAGE = Region()


_MAY_LEAD_ON = frozenset(
    {BlockKind.PARAGRAPH, BlockKind.LIST, BlockKind.TABLE, BlockKind.QUOTE, BlockKind.HEADING}
)


class Piece(Struct, eq=False):
    """A block without a chapter.

    `level` is the level of a heading, else 0. `depth` is the number of open lists. `marker` is that
    of the list item that the piece begins, if any, and not part of `text`. `linked` is the text of
    links to later text.
    """

    kind: BlockKind
    text: str
    region: Region = PAGE
    marks: tuple[PlacedMark, ...] = ()
    level: int = 0
    depth: int = 0
    marker: str | None = None
    linked: str = ""
    header_rows: int = 0

    def belongs_to(self, contents: ContentsFinder, *, in_book: bool = False) -> bool:
        """Return whether the piece belongs to a contents list; in a book, later links do."""
        marked = self.region.contents or self.region.navigation
        linked = False
        if self.linked and self.kind in _MAY_LEAD_ON:
            linked = links_ahead(self.linked, self.text)
            marked = marked or (linked and in_book)
        # Pictures without text neither continue nor end a list.
        if not self.text:
            return marked
        return contents.enter(self.text, self.kind, level=self.level, linked=linked, marked=marked)

    def to_flow(self) -> Flow:
        if not self.depth or not self.text:
            return Flow(self.text, self.marks)
        margin = "  " * (min(self.depth, _MAX_INDENT) - 1)
        first, rest = margin + ("  " if self.marker is None else self.marker), f"{margin}  "
        marks: list[PlacedMark] = []
        lines = start = 0
        for offset, mark in self.marks:
            lines += self.text.count("\n", start, offset)
            start = offset
            marks.append(PlacedMark(len(first) + offset + lines * len(rest), mark))
        return Flow(first + self.text.replace("\n", f"\n{rest}"), tuple(marks))


_MAX_CELL_LENGTH = 2000
"""Maximum length of a cell; a table with a longer cell is layout."""
_OWN_BLOCKS = frozenset({BlockKind.HEADING, BlockKind.TABLE, BlockKind.CODE})


class Table(Struct, eq=False):
    """An open table. Pieces outside of cells become rows, except leading captions."""

    layout: bool = False
    captions: list[Piece] = field(default_factory=list)
    outside: list[Piece] = field(default_factory=list)
    """Pieces outside of cells; a new list after each cell."""
    in_head: bool = False
    _rows: list[list[list[Piece]]] = field(default_factory=list)
    _head_rows: int = 0
    """Number of rows up to the last row in `thead`."""
    _values: list[tuple[int, list[Piece]]] = field(default_factory=list)
    """Cells that are not headings, with the index of their row."""

    def begin_row(self) -> None:
        self.end_outside()
        self._rows.append([])

    def begin_cell(self, *, is_heading: bool) -> list[Piece]:
        if self.end_outside() or not self._rows:
            self._rows.append([])
        cell: list[Piece] = []
        self._rows[-1].append(cell)
        if self.in_head:
            self._head_rows = len(self._rows)
        elif not is_heading:
            self._values.append((len(self._rows) - 1, cell))
        return cell

    def end_outside(self) -> bool:
        """Add the pieces outside of cells to the table; return whether they became a row."""
        if not self.outside:
            return False
        pieces, self.outside = self.outside, []
        # Only leading captions move, so that the order of words does not change.
        while pieces and not self._rows and pieces[0].kind is BlockKind.CAPTION:
            self.captions.append(pieces.pop(0))
        if pieces:
            self._values.append((len(self._rows), pieces))
            self._rows.append([pieces])
        return bool(pieces)

    def contents(self) -> list[Piece]:
        return [piece for row in self._rows for cell in row for piece in cell]

    @property
    def is_layout(self) -> bool:
        """Whether the table is layout: its cells are parts of the page, not values."""
        # A table is layout if the page declares it, if a cell contains blocks that do not fit on a
        # line, or if no row has more than one cell with content.
        if self.layout or all(sum(map(bool, row)) < 2 for row in self._rows):
            return True
        return any(
            any(piece.kind in _OWN_BLOCKS for piece in cell)
            or sum(len(piece.text) for piece in cell) > _MAX_CELL_LENGTH
            for row in self._rows
            for cell in row
        )

    @property
    def header_rows(self) -> int:
        """Number of header lines: the rows of `thead`, else the first rows of heading cells."""
        values = next((row for row, cell in self._values if cell), len(self._rows))
        count = min(self._head_rows, values) or values
        lines = width = 0
        for row in self._rows[:count]:
            filled = sum(map(bool, row))
            if filled == 1 < width and not self._head_rows:
                # The heading of a group of rows.
                break
            width = max(width, filled)
            lines += filled > 0 and (len(row) > 1 or any(piece.text for piece in row[0]))
        return lines if any(any(row) for row in self._rows[count:]) else 0

    def to_flow(self) -> Flow:
        lines = Inline()
        for row in self._rows:
            if not any(row):
                continue
            lines.begin_line()
            cells = Inline()
            for index, cell in enumerate(row):
                if index:
                    cells.add(" | ")
                for piece in cell:
                    cells.add_flow(piece.to_flow())
                    cells.add(" ")
            lines.add_flow(cells.take(breaks=False))
        return lines.take()


_AUTHORS = ("author", "dc.creator", "dcterms.creator", "citation_author", "article:author")
_CREATED = (
    "article:published_time", "dcterms.created", "dcterms.issued", "dc.date.issued", "dc.date",
    "dcterms.date", "citation_publication_date", "datepublished", "date",
)  # fmt: skip
_MODIFIED = (
    "article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified",
    "datemodified", "last-modified",
)  # fmt: skip
_KEYWORDS = ("keywords", "dc.subject", "dcterms.subject", "article:tag", "citation_keywords")
_DESCRIPTION = ("description", "og:description", "dc.description", "dcterms.description")
_PUBLISHER = ("dc.publisher", "dcterms.publisher", "citation_publisher", "og:site_name")
_TITLE = ("og:title", "dc.title", "dcterms.title", "citation_title")
_LANGUAGE = ("dc.language", "dcterms.language", "content-language")
_MAX_LENGTH = 2000
_MAX_VALUES = 100


class Head(Struct):
    """The metadata of a page. The first of several values counts."""

    title: str | None = None
    language: str | None = None
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def add_meta(self, attributes: Mapping[str, str]) -> None:
        content = one_line(attributes.get("content"))
        if not content:
            return
        for attribute in ("name", "property", "itemprop", "http-equiv"):
            if name := attributes.get(attribute):
                values = self._fields.setdefault(name.strip().lower(), [])
                if len(values) < _MAX_VALUES:
                    values.append(content)

    def properties(self) -> Properties:
        keywords = (word.strip() for line in self._all(_KEYWORDS) for word in line.split(","))
        return Properties(
            title=self.title or self._first(_TITLE),
            authors=tuple(name for name in self._all(_AUTHORS) if "://" not in name),
            language=self.language or self._first(_LANGUAGE),
            created=self._first(_CREATED),
            modified=self._first(_MODIFIED),
            keywords=tuple(dict.fromkeys(word for word in keywords if word)),
            description=self._first(_DESCRIPTION),
            publisher=self._first(_PUBLISHER),
        )

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((self._fields[name][0] for name in names if name in self._fields), None)

    def _all(self, names: tuple[str, ...]) -> list[str]:
        return list(dict.fromkeys(value for name in names for value in self._fields.get(name, ())))


def one_line(text: str | None) -> str | None:
    """Return a value on one line of limited length; None if it is blank."""
    return shorten(" ".join(text[: 2 * _MAX_LENGTH].split()), _MAX_LENGTH) or None if text else None


def enter_region(region: Region, tag: str, articles: int) -> Region:
    """Return the region of an element; `articles` is the number of articles before it."""
    match tag:
        case "main":
            return replace(region, main=True, divided=True, landmark=None)
        case "article":
            return replace(region, article=region.article or articles + 1, divided=True)
        case "section":
            return replace(region, divided=True)
        case "nav":
            if region.landmark:
                region.landmark.has_navigation = True
            return replace(region, navigation=True, divided=True)
        case "noscript" | "noframes":
            return replace(region, fallback=True)
        case _:
            landmark = region.landmark or (None if region.divided else Landmark(tag))
            return replace(region, divided=region.divided or tag == "aside", landmark=landmark)


def select_main_text(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of the main text of a page."""
    visible = [piece for piece in pieces if not piece.region.fallback]
    if not _text_length(visible):
        visible = list(pieces)
    body = [piece for piece in visible if not piece.region.is_boilerplate]
    if not _text_length(body):
        return visible
    main = [piece for piece in body if piece.region.main]
    if _text_length(main) * _MIN_OF_MAIN >= _text_length(body):
        return _add_title(body, main)
    articles = {piece.region.article for piece in body if piece.text}
    if len(articles - {0}) == 1:
        article = [piece for piece in body if piece.region.article]
        if _text_length(article) * _MIN_OF_ARTICLE >= _text_length(body):
            return _add_title(body, article)
    return body


def _text_length(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _add_title(body: Sequence[Piece], main: Sequence[Piece]) -> list[Piece]:
    """Put a title outside of the main part before it."""
    if any(piece.level == 1 for piece in main):
        return list(main)
    before = body[: next(index for index, piece in enumerate(body) if piece is main[0])]
    return [*(piece for piece in before if piece.level == 1), *main]
