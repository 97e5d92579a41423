"""Passages, and blocks with their chapters and sections, for the parsers of office formats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from truespan.text.contents import ContentsFinder
from truespan.types.text import Block, BlockKind, Figure, PageStart, PlacedFigure

TITLE_LEVEL = 0
INDENT = "  "
_MAX_LEVEL = 10
_NOTES = "Notes: "
_MAX_INDENT = 20
_HEADING = re.compile(
    "(?:heading|[uü]?berschrift|titre|t[ií]?tulo|titolo|kop|rubrik|overskrift|otsikko|nadpis"
    "|nag[lł]?[oó]?wek|заголовок|标题|標題|見出し|제목)[ _-]?([1-9])",
    re.IGNORECASE,
)
_KINDS = {
    "caption": BlockKind.CAPTION,
    **dict.fromkeys(("quote", "intense quote", "block text", "quotations"), BlockKind.QUOTE),
    **dict.fromkeys(
        ("code", "source code", "preformatted text", "html preformatted"), BlockKind.CODE
    ),
}
_KINDS |= {name.replace(" ", ""): kind for name, kind in _KINDS.items()}
"""Block kinds by style name, and by style id, which has no spaces."""
_CONTENTS_STYLE = re.compile(
    r"toc ?[1-9]|toc ?heading|contents ?(?:[1-9]|10|heading)|table ?of ?figures"
    r"|table ?of ?authorities|toa ?heading"
    r"|(?:(?:figure|illustration|table|object|user|alphabetical) ?)?index ?(?:[1-9]|heading)",
    re.IGNORECASE,
)
"""Styles of entries and headings of tables of contents, lists of figures and indexes."""
_SPACE = re.compile(r"\s+")


class Passage(NamedTuple):
    """Text and the figures in it, by ascending offset."""

    text: str
    figures: tuple[PlacedFigure, ...] = ()

    @property
    def blank(self) -> bool:
        return not self.figures and (not self.text or self.text.isspace())

    def strip(self) -> Passage:
        if not self.figures:
            text = self.text.strip()
            return self if text is self.text else Passage(text)
        return self._cut(len(self.text) - len(self.text.lstrip()), self.text.strip())

    def trim(self) -> Passage:
        """Remove blank lines at both ends."""
        # The indentation of the first line is kept (it matters in code), unless a figure precedes
        # the first word.
        if not self.text[:1].isspace():
            return self.strip()
        margin = len(self.text) - len(self.text.lstrip())
        if self.figures and self.figures[0].offset <= margin:
            return self.strip()
        begin = self.text.rfind("\n", 0, margin) + 1
        return self._cut(begin, self.text[begin:].rstrip())

    def _cut(self, begin: int, text: str) -> Passage:
        """Keep `text`, which begins at `begin`; figures outside move to its ends."""
        moved = (
            (max(0, min(offset - begin, len(text))), figure) for offset, figure in self.figures
        )
        return Passage(text, tuple(PlacedFigure(*placed) for placed in moved))

    def on_one_line(self) -> Passage:
        """Replace each run of white space with one space."""
        if not self.figures:
            return Passage(" ".join(self.text.split()))
        parts, figures, start, length = [], [], 0, 0
        for place, figure in self.figures:
            parts.append(_SPACE.sub(" ", self.text[start:place]))
            length += len(parts[-1])
            figures.append(PlacedFigure(length, figure))
            start = place
        parts.append(_SPACE.sub(" ", self.text[start:]))
        return Passage("".join(parts), tuple(figures)).strip()

    def indent(self, first: str, rest: str) -> Passage:
        """Put `first` before the first line and `rest` before each other line."""
        text = first + self.text.replace("\n", f"\n{rest}")
        moved: list[PlacedFigure] = []
        start, added = 0, len(first)
        for place, figure in self.figures:
            added += len(rest) * self.text.count("\n", start, place)
            start = place
            moved.append(PlacedFigure(place + added, figure))
        return Passage(text, tuple(moved))


class PassageParts(Struct):
    """The text and figures of a paragraph that is being read."""

    parts: list[str] = field(default_factory=list)
    figures: list[tuple[int, Figure]] = field(default_factory=list)
    """Figures, each with the index of the following part."""

    def passage(self) -> Passage:
        if not self.figures:
            return Passage("".join(self.parts)).trim()
        figures: list[PlacedFigure] = []
        length = start = 0
        for index, figure in self.figures:
            length += sum(map(len, self.parts[start:index]))
            start = index
            figures.append(PlacedFigure(length, figure))
        return Passage("".join(self.parts), tuple(figures)).trim()


def join(passages: Iterable[Passage], separator: str) -> Passage:
    texts: list[str] = []
    figures: list[PlacedFigure] = []
    start = 0
    for passage in passages:
        texts.append(passage.text)
        figures += (PlacedFigure(start + offset, figure) for offset, figure in passage.figures)
        start += len(passage.text) + len(separator)
    return Passage(separator.join(texts), tuple(figures))


class TableLines:
    """The rows of a table as lines of text.

    The cells of a nested table are joined by commas, and its rows by semicolons. Figures of a row
    without text move to the next row.
    """

    def __init__(self, *, nested: bool = False) -> None:
        self._between_cells, self._between_rows = (", ", "; ") if nested else (" | ", "\n")
        self._lines: list[Passage] = []
        self._header_rows = 0
        self._pending: tuple[Figure, ...] = ()

    def add_row(self, cells: list[Passage], *, is_header: bool = False, repeats: int = 1) -> None:
        """Add a row without the cells at its end that have no text."""
        # Their figures follow the text of the row: a picture does not change the text.
        count = len(cells)
        while count and not cells[count - 1].text.strip():
            count -= 1
        last = tuple(placed.figure for cell in cells[count:] for placed in cell.figures)
        if not count:
            self._pending += last
            return
        text, figures = join(cells[:count], self._between_cells)
        before = tuple(PlacedFigure(0, figure) for figure in self._pending)
        after = tuple(PlacedFigure(len(text), figure) for figure in last)
        self._lines += [Passage(text, before + figures + after)] * repeats
        self._header_rows += is_header
        self._pending = ()

    def passage(self) -> Passage:
        text, figures = join(self._lines, self._between_rows)
        after = tuple(PlacedFigure(len(text), figure) for figure in self._pending)
        return Passage(text, figures + after)

    @property
    def header_rows(self) -> int:
        """Number of header rows; 0 if there are no other rows."""
        return self._header_rows if self._header_rows < len(self._lines) else 0


class BlockWriter(Struct):
    """Converts passages to blocks in reading order.

    The chapter of a block depends only on the text before it. A title before all headings is the
    title of the document and its first chapter. After it, headings at the highest level so far
    begin chapters, and lower ones begin sections.
    """

    blocks: list[Block] = field(default_factory=list)
    title: str | None = None
    in_note: bool = False
    """Whether the passages belong to a note, whose headings begin no chapter."""
    _prefix: str = ""
    """Prefix of the next text, such as "Notes: " on a slide."""
    _pages: tuple[PageStart, ...] = ()
    _chapter: str | None = None
    _section: str | None = None
    _top_level: int = _MAX_LEVEL
    _contents: ContentsFinder = field(default_factory=ContentsFinder)

    def add(
        self,
        passage: Passage,
        *,
        kind: BlockKind = BlockKind.PARAGRAPH,
        level: int | None = None,
        marker: str | None = None,
        list_level: int = 0,
        in_contents: bool = False,
        is_contents: bool = False,
    ) -> None:
        """Add a paragraph, a heading of `level`, or a list item with `marker`."""
        # An item with the marker "" continues the previous item. A contents list (`in_contents`)
        # has no headings; `is_contents` is true if the style is one of contents lists.
        if passage.blank:
            return
        marked = in_contents or is_contents
        if level is not None and not in_contents and not self.in_note and passage.text:
            passage = passage.on_one_line()
            passage = passage.indent(f"{marker} ", "") if marker else passage
            kind = BlockKind.HEADING
            if self._is_contents(kind, passage.text, marked, level):
                self._add_block(kind, passage, is_contents=True)
                return
            if level == TITLE_LEVEL and self._chapter is None:
                self.title = self._chapter = passage.text
            elif level <= self._top_level:
                self._chapter, self._section = passage.text, None
                self._top_level = level
            else:
                self._section = passage.text
        elif marker is not None:
            margin = INDENT * min(list_level, _MAX_INDENT)
            rest = margin + INDENT
            passage = passage.strip().indent(f"{margin}{marker} " if marker else rest, rest)
            kind = BlockKind.LIST
        elif self.in_note:
            # Most notes begin with a space after their number.
            passage = passage.strip()
        is_contents = False
        if kind is not BlockKind.HEADING:
            is_contents = self._is_contents(kind, passage.text, marked)
        self._add_block(kind, passage, is_contents)

    def add_table(
        self, passage: Passage, header_rows: int = 0, *, in_contents: bool = False
    ) -> None:
        is_contents = self._is_contents(BlockKind.TABLE, passage.text, in_contents)
        self._add_block(BlockKind.TABLE, passage, is_contents, header_rows)

    def begin_slide(self, number: int, title: str, chapter: str | None = None) -> None:
        """Begin a slide; its title, if any, is the first block and the section of the others."""
        self._chapter, self._section = chapter, title or f"Slide {number}"
        self._pages = (PageStart(0, number, "slide"),)
        if title:
            kind = BlockKind.HEADING
            self._add_block(kind, Passage(title), self._is_contents(kind, title, False, level=1))

    def begin_notes(self) -> None:
        """Begin the speaker notes of a slide; see `end_notes`."""
        self.in_note, self._prefix = True, _NOTES

    def end_notes(self) -> None:
        self.in_note, self._prefix = False, ""

    def _is_contents(self, kind: BlockKind, text: str, marked: bool, level: int = 0) -> bool:
        if self.in_note or not text:
            return marked
        return self._contents.enter(text, kind, level=level, marked=marked)

    def _add_block(
        self, kind: BlockKind, passage: Passage, is_contents: bool = False, header_rows: int = 0
    ) -> None:
        if not passage.blank:
            kind = BlockKind.FOOTNOTE if self.in_note else kind
            if self._prefix and passage.text:
                passage, self._prefix = passage.strip().indent(self._prefix, ""), ""
            self.blocks.append(
                Block(
                    kind=kind,
                    text=passage.text,
                    chapter=self._chapter,
                    section=self._section,
                    figures=passage.figures,
                    pages=self._pages,
                    is_contents=is_contents,
                    header_rows=header_rows,
                )
            )
            self._pages = ()


def heading_level(style: str) -> int | None:
    found = _HEADING.fullmatch(style)
    return int(found[1]) if found else None


def style_kind(style: str) -> BlockKind | None:
    """Return the block kind of a style by its name or id; None for plain text."""
    return _KINDS.get(style.lower())


def is_contents_style(style: str) -> bool:
    return bool(_CONTENTS_STYLE.fullmatch(style))
