"""Which parts of a page are its text, and which are the furniture around it.

Nothing a person would read may be lost, so what is in doubt is kept. Furniture is what says so of
itself, and a header, footer or side note of the page that is made of links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from truespan.parsing.html.inline import PLACE, Flow, Inline, PlacedMark, collapsed
from truespan.types.text import BlockKind, Properties

_DEEPEST = 20
"""Levels that are indented. Deeper ones stay at this margin, so that it cannot outgrow the text."""
_ROMAN = (
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
)
_LARGEST_ROMAN = 3999
_LARGEST = 10**9


@dataclass(slots=True, eq=False)
class PageList:
    """A list that is being read; only its end tells where a reversed one began to count."""

    ordered: bool = False
    style: str = "1"
    start: int | None = None
    backwards: bool = False
    _count: int = 0
    _known: tuple[int, int] | None = None
    """The last item that was given a number, as its place and that number."""

    def next_item(self, value: int | None) -> Item:
        """Return the next item; `value` is the number it is given, if any."""
        if value is not None:
            self._known = self._count, value
        self._count += 1
        return Item(self, self._count - 1, self._known)

    def first(self) -> int:
        """Return the number that counting begins with."""
        if self.start is not None:
            return self.start
        return self._count if self.backwards else 1


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One item. Its mark is asked for when the whole list was read."""

    list: PageList | None
    place: int = 0
    known: tuple[int, int] | None = None

    def mark(self) -> str:
        """Return what stands before the text of the item."""
        if self.list is None:
            return ""
        if not self.list.ordered:
            return "- "
        origin, number = self.known or (0, self.list.first())
        steps = origin - self.place if self.list.backwards else self.place - origin
        return f"{_numeral(number + steps, self.list.style)}. "


TERM = Item(None)
"""The item of a list of definitions that is defined: it stands at the margin without a mark."""


def ordered_list(attributes: Mapping[str, str]) -> PageList:
    """Return an ordered list as its attributes describe it."""
    return PageList(
        ordered=True,
        style=attributes.get("type", "1"),
        start=whole_number(attributes.get("start")),
        backwards="reversed" in attributes,
    )


def whole_number(text: str | None) -> int | None:
    """Return the number that an attribute gives, or None."""
    try:
        number = int(text) if text and len(text) < 20 else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < _LARGEST else None


def indented(flow: Flow, depth: int, item: Item | None) -> Flow:
    """Put the mark of an item before its first text, and the rest below that text."""
    margin = "  " * (min(depth, _DEEPEST) - 1)
    first, rest = margin + (item.mark() if item else "  "), f"{margin}  "
    marks: list[PlacedMark] = []
    lines = done = 0
    for offset, mark in flow.marks:
        lines += flow.text.count("\n", done, offset)
        done = offset
        marks.append(PlacedMark(len(first) + offset + lines * len(rest), mark))
    return Flow(first + flow.text.replace("\n", f"\n{rest}"), tuple(marks))


def _numeral(number: int, style: str) -> str:
    if style in ("a", "A") and number > 0:
        written = _letters(number)
    elif style in ("i", "I") and 0 < number <= _LARGEST_ROMAN:
        written = _roman(number)
    else:
        return str(number)
    return written.upper() if style.isupper() else written


def _letters(number: int) -> str:
    written = ""
    while number:
        number, letter = divmod(number - 1, 26)
        written = chr(ord("a") + letter) + written
    return written


def _roman(number: int) -> str:
    written = ""
    for value, sign in _ROMAN:
        times, number = divmod(number, value)
        written += sign * times
    return written


_LONGEST_CELL = 2000
"""Characters in one cell beyond which nobody would write it into a row."""
_OWN_BLOCKS = frozenset({BlockKind.HEADING, BlockKind.TABLE, BlockKind.CODE})


class Content(Protocol):
    """What stands in a cell."""

    @property
    def kind(self) -> BlockKind: ...
    @property
    def text(self) -> str: ...
    def shown(self) -> Flow: ...


ContentT = TypeVar("ContentT", bound=Content)


@dataclass(slots=True, eq=False)
class Table(Generic[ContentT]):
    """A table that is being read. What stands in no cell is a row of its own, except captions that
    come before all rows: they lead the table."""

    layout: bool = False
    captions: list[ContentT] = field(default_factory=list)
    outside: list[ContentT] = field(default_factory=list)
    """The place for what stands in no cell; another one after each cell."""
    _rows: list[list[list[ContentT]]] = field(default_factory=list)

    def begin_row(self) -> None:
        """Begin a row."""
        self.gather()
        self._rows.append([])

    def begin_cell(self) -> list[ContentT]:
        """Begin a cell, and return the place for what stands in it."""
        if self.gather() or not self._rows:
            self._rows.append([])
        cell: list[ContentT] = []
        self._rows[-1].append(cell)
        return cell

    def gather(self) -> bool:
        """Take in what stood in no cell; say whether it is a row now."""
        if not self.outside:
            return False
        found, self.outside = self.outside, []
        # Words keep their order, so only what stands before all else in a table leads it.
        leading = 0
        if not self._rows:
            kinds = (content.kind is BlockKind.CAPTION for content in found)
            leading = next((place for place, it in enumerate(kinds) if not it), len(found))
        self.captions += found[:leading]
        loose = found[leading:]
        if loose:
            self._rows.append([loose])
        return bool(loose)

    def contents(self) -> Iterator[ContentT]:
        """Give what stands in the cells, one after the other."""
        for row in self._rows:
            for cell in row:
                yield from cell

    @property
    def is_layout(self) -> bool:
        """Say whether its cells are parts of a page rather than values.

        So they are when the page says so, when they hold blocks that cannot stand in a line, and
        when no row has more than one of them.
        """
        if self.layout or all(sum(map(bool, row)) < 2 for row in self._rows):
            return True
        return any(_is_part(cell) for row in self._rows for cell in row)

    def joined(self) -> Flow:
        """Return its rows as lines, and cells with a bar between two of them."""
        rows = [_plain_row(row) for row in self._rows if any(row)]
        if None not in rows:
            return Flow("\n".join(row for row in rows if row))
        lines = Inline()
        for row in self._rows:
            if any(row):
                lines.begin_line()
                _add_row(lines, row)
        return lines.take()


def _is_part(cell: Sequence[Content]) -> bool:
    length = 0
    for content in cell:
        if content.kind in _OWN_BLOCKS:
            return True
        length += len(content.text)
    return length > _LONGEST_CELL


def _plain_row(row: Sequence[Sequence[Content]]) -> str | None:
    """Return a row as `_add_row` would write it; None if it has marks.

    Hardly any row has, and this is several times as fast for the many small ones.
    """
    cells: list[str] = []
    for cell in row:
        flows = [content.shown() for content in cell]
        if any(flow.marks for flow in flows):
            return None
        cells.append(" ".join([flow.text for flow in flows]))
    line = collapsed(" | ".join(cells)).strip(" ")
    return None if PLACE in line else line


def _add_row(lines: Inline, row: Sequence[Sequence[Content]]) -> None:
    cells = Inline()
    for place, cell in enumerate(row):
        if place:
            cells.add(" | ")
        for content in cell:
            cells.add_flow(content.shown())
            cells.add(" ")
    lines.add_flow(cells.take(breaks=False))


_AUTHORS = ("author", "dc.creator", "dcterms.creator", "citation_author", "article:author")
_CREATED = (
    "article:published_time",
    "dcterms.created",
    "dcterms.issued",
    "dc.date.issued",
    "dc.date",
    "dcterms.date",
    "citation_publication_date",
    "datepublished",
    "date",
)
_MODIFIED = (
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "dc.date.modified",
    "datemodified",
    "last-modified",
)
_KEYWORDS = ("keywords", "dc.subject", "dcterms.subject", "article:tag", "citation_keywords")
_DESCRIPTION = ("description", "og:description", "dc.description", "dcterms.description")
_PUBLISHER = ("dc.publisher", "dcterms.publisher", "citation_publisher", "og:site_name")
_TITLE = ("og:title", "dc.title", "dcterms.title", "citation_title")
_LANGUAGE = ("dc.language", "dcterms.language", "content-language")
_LONGEST = 2000
_MOST = 100


@dataclass(slots=True)
class Head:
    """What has been read of it so far. The first of several values is the one that counts."""

    title: str | None = None
    language: str | None = None
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def meta(self, attributes: Mapping[str, str]) -> None:
        """Take a `meta` element."""
        content = one_line(attributes.get("content"))
        if not content:
            return
        for attribute in ("name", "property", "itemprop", "http-equiv"):
            if name := attributes.get(attribute):
                values = self._fields.setdefault(name.strip().lower(), [])
                if len(values) < _MOST:
                    values.append(content)

    def properties(self) -> Properties:
        """Return what the page declares."""
        return Properties(
            title=self.title or self._first(_TITLE),
            authors=tuple(name for name in self._all(_AUTHORS) if "://" not in name),
            language=self.language or self._first(_LANGUAGE),
            created=self._first(_CREATED),
            modified=self._first(_MODIFIED),
            keywords=tuple(self._keywords()),
            description=self._first(_DESCRIPTION),
            publisher=self._first(_PUBLISHER),
        )

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((self._fields[name][0] for name in names if name in self._fields), None)

    def _all(self, names: tuple[str, ...]) -> list[str]:
        """Return the values of all these fields, each once."""
        return list(dict.fromkeys(value for name in names for value in self._fields.get(name, ())))

    def _keywords(self) -> list[str]:
        words = (word.strip() for line in self._all(_KEYWORDS) for word in line.split(","))
        return list(dict.fromkeys(word for word in words if word))


def one_line(text: str | None) -> str | None:
    """Return a declared value on one line and not too long, or None when there is nothing in it."""
    return " ".join(text[: 2 * _LONGEST].split())[:_LONGEST] or None if text else None


_LONG_ENOUGH_TO_READ = 1000
"""Characters outside links that make even a list of links worth reading."""
_LEAST_OF_MAIN, _LEAST_OF_ARTICLE = 4, 2
"""What is called the main part is believed to be if it holds this part of the text, or more."""
_NOTICES = ("©", "(c) ", "copyright", "all rights reserved")
_LONG_NOTICE = 600


@dataclass(slots=True, eq=False)
class MainRegion:
    """A header, footer or side note of the page as a whole, and what speaks against it."""

    tag: str
    letters: int = 0
    linked: int = 0
    has_navigation: bool = False
    has_title: bool = False
    has_notice: bool = False

    def count(self, text: str, linked: bool) -> None:
        """Take note of text in it."""
        self.letters += len(text)
        if linked:
            self.linked += len(text)
        elif self.tag == "footer" and not self.has_notice:
            self.has_notice = any(notice in text.lower() for notice in _NOTICES)

    @property
    def is_furniture(self) -> bool:
        """Say whether nobody would miss it."""
        unlinked = self.letters - self.linked
        if self.has_title or unlinked > _LONG_ENOUGH_TO_READ:
            return False
        linked = self.has_navigation or self.linked > unlinked
        return linked or (self.has_notice and self.letters < _LONG_NOTICE)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Where on a page a piece of it stands. `article` counts the outermost articles from 1."""

    main: bool = False
    article: int = 0
    navigation: bool = False
    fallback: bool = False
    divided: bool = False
    """Within a part that has its own header and footer, which are then part of its text."""
    landmark: MainRegion | None = None


PAGE = Region()


class Placed(Protocol):
    """What `main_text` looks at."""

    @property
    def text(self) -> str: ...
    @property
    def level(self) -> int: ...
    @property
    def region(self) -> Region: ...


PieceT = TypeVar("PieceT", bound=Placed)


def enter(region: Region, tag: str, articles: int) -> Region:
    """Return the region that begins with an element; `articles` were met before."""
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
            landmark = region.landmark or (None if region.divided else MainRegion(tag))
            return replace(region, divided=region.divided or tag == "aside", landmark=landmark)


def main_text(pieces: Sequence[PieceT]) -> list[PieceT]:
    """Return the pieces that are the text of a page."""
    shown = [piece for piece in pieces if not piece.region.fallback]
    if not _weight(shown):
        shown = list(pieces)
    body = [piece for piece in shown if not _is_furniture(piece.region)]
    if not _weight(body):
        return shown
    main = [piece for piece in body if piece.region.main]
    if _weight(main) * _LEAST_OF_MAIN >= _weight(body):
        return _with_title(body, main)
    articles = {piece.region.article for piece in body if piece.text}
    if len(articles - {0}) == 1:
        article = [piece for piece in body if piece.region.article]
        if _weight(article) * _LEAST_OF_ARTICLE >= _weight(body):
            return _with_title(body, article)
    return body


def _is_furniture(region: Region) -> bool:
    return region.navigation or bool(region.landmark and region.landmark.is_furniture)


def _weight(pieces: Sequence[Placed]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _with_title(body: Sequence[PieceT], chosen: Sequence[PieceT]) -> list[PieceT]:
    """Put the title of the page before its main part, where it stands outside of it."""
    if any(piece.level == 1 for piece in chosen):
        return list(chosen)
    before = body[: next(place for place, piece in enumerate(body) if piece is chosen[0])]
    return [*(piece for piece in before if piece.level == 1), *chosen]
