"""The body of a document: its blocks in reading order, each in its chapter and section."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import lxml.etree as etree

from truespan.parsing.docx.inline import Inline, Line, NoteMark, Passage, joined
from truespan.parsing.docx.package import (
    ALTERNATIVES,
    DROPPED,
    PPR,
    PROPERTIES,
    RPR,
    SDT,
    TBL,
    TC,
    TR,
    VAL,
    A,
    P,
    Package,
    Part,
    Pictures,
    W,
    chosen,
    only,
    switch,
)
from truespan.parsing.docx.styles import (
    TITLE_LEVEL,
    Lists,
    Style,
    Styles,
    list_place,
    outline_level,
)
from truespan.types.text import Block, BlockKind, PlacedFigure

_ALT_CHUNK = f"{W}altChunk"
_PARAGRAPHS = (P, f"{A}p")
_BLOCKS = frozenset({*_PARAGRAPHS, TBL, _ALT_CHUNK})
_CONTENTS = "table of contents"

Read = Callable[[etree._Element], Passage]
"""Reads a paragraph of a cell."""


def is_paragraph(element: etree._Element) -> bool:
    """Say whether an element is a paragraph, of a document or of a drawing."""
    return element.tag in _PARAGRAPHS


def blocks_in(
    container: etree._Element, listed: bool = False
) -> Iterator[tuple[etree._Element, bool]]:
    """Give the paragraphs and tables in a container, through all that wraps them.

    With each comes whether a control around it says that it is a table of contents.
    """
    for child in container:
        tag = child.tag
        if tag in _BLOCKS:
            yield child, listed
        elif tag == ALTERNATIVES:
            for option in chosen(child):
                yield from blocks_in(option, listed)
        elif tag not in DROPPED and tag not in PROPERTIES:
            yield from blocks_in(child, listed or (tag == SDT and _is_contents(child)))


def only_cell(table: etree._Element) -> etree._Element | None:
    """Return the cell of a table that has one alone, and so is a frame around what it holds."""
    rows = list(_within(table, TR))
    cells = list(_within(rows[0], TC)) if len(rows) == 1 else []
    return cells[0] if len(cells) == 1 else None


def read_table(table: etree._Element, read: Read) -> Passage:
    """Return a table as lines; what a merged cell holds stands once, where it begins."""
    return _stacked((_row(row, read, " | ") for row in _rows(table)), "\n")


def _nested(table: etree._Element, read: Read) -> Passage:
    return _stacked((_row(row, read, ", ") for row in _rows(table)), "; ")


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    return (row for row in _within(table, TR) if not _is_gone(row))


def _row(row: etree._Element, read: Read, between: str) -> Passage:
    cells = [_cell(cell, read) for cell in _within(row, TC)]
    while cells and cells[-1].blank:
        cells.pop()
    if all(not cell.text for cell in cells):
        return joined(cells, "")
    return joined(cells, between)


def _cell(cell: etree._Element, read: Read) -> Passage:
    found = (
        read(element) if is_paragraph(element) else _nested(element, read)
        for element, _ in blocks_in(cell)
        if element.tag != _ALT_CHUNK
    )
    return joined([passage for passage in found if not passage.blank], " ").on_one_line()


def _stacked(rows: Iterable[Passage], between: str) -> Passage:
    """Put rows below each other; one with pictures alone leaves them where the next one begins."""
    lines: list[Passage] = []
    waiting: tuple[PlacedFigure, ...] = ()
    for row in rows:
        if not row.text:
            waiting += row.figures
            continue
        here = tuple(PlacedFigure(0, found.figure) for found in waiting)
        lines.append(Passage(row.text, here + row.figures))
        waiting = ()
    whole = joined(lines, between)
    end = tuple(PlacedFigure(len(whole.text), found.figure) for found in waiting)
    return Passage(whole.text, whole.figures + end)


def _within(container: etree._Element, wanted: str) -> Iterator[etree._Element]:
    """Give the rows of a table or the cells of a row, through all that wraps them."""
    for child in container:
        tag = child.tag
        if tag == wanted:
            yield child
        elif tag == ALTERNATIVES:
            for option in chosen(child):
                yield from _within(option, wanted)
        elif tag not in DROPPED and tag not in PROPERTIES and tag not in _BLOCKS:
            yield from _within(child, wanted)


def _is_gone(row: etree._Element) -> bool:
    """Say whether a row was deleted, or is hidden."""
    for properties in row.iterchildren(f"{W}trPr"):
        if next(properties.iterchildren(f"{W}del"), None) is not None:
            return True
        return bool(switch(properties, f"{W}hidden"))
    return False


def _is_contents(control: etree._Element) -> bool:
    for properties in control.iterchildren(f"{W}sdtPr"):
        for gallery in properties.iter(f"{W}docPartGallery"):
            return gallery.get(f"{W}val", "").strip().lower() == _CONTENTS
    return False


_STYLE_ID, _LIST, _OUTLINE = f"{W}pStyle", f"{W}numPr", f"{W}outlineLvl"
_LOWEST_LEVEL = 10
_INDENT = "  "


class _Shape(NamedTuple):
    """What a paragraph is by its properties."""

    style: Style
    level: int | None = None
    list_id: int | None = None
    list_level: int = 0
    merges: bool = False
    """Whether its end was deleted, so that it goes on in the next paragraph."""


@dataclass(slots=True)
class Places:
    """The chapter and section that the reading has come to, decided by nothing that follows.

    A title before all headings is the title of the document, and its first chapter. After it the
    highest level so far makes chapters, lower ones make sections.
    """

    title: str | None = None
    chapter: str | None = None
    section: str | None = None
    _top: int = _LOWEST_LEVEL

    def enter(self, level: int, text: str) -> None:
        """Take the next heading."""
        if level == TITLE_LEVEL and self.chapter is None:
            self.title = self.chapter = text
        elif level <= self._top:
            self.chapter, self.section, self._top = text, None, level
        else:
            self.section = text


@dataclass(slots=True)
class Body:
    """Makes blocks of the stories of a document."""

    package: Package
    styles: Styles
    lists: Lists
    pictures: Pictures
    notes: dict[NoteMark, tuple[etree._Element, Part]]
    blocks: list[Block] = field(default_factory=list)
    places: Places = field(default_factory=Places)
    _waiting: deque[NoteMark] = field(default_factory=deque)
    _in_note: bool = False
    _unended: Line | None = None
    _shapes: dict[str | None, _Shape] = field(default_factory=dict)

    def tell(self, container: etree._Element, part: Part, *, headings: bool = True) -> None:
        """Take a story: the body, a text box, a note, or what a frame holds."""
        outer, self._unended = self._unended, None
        inline = Inline(part, self.package, self.styles, self.pictures)
        for element, listed in blocks_in(container):
            if is_paragraph(element):
                self._paragraph(element, inline, headings and not listed)
            elif element.tag == TBL:
                self._end_line()
                self._table(element, inline)
            else:
                self.package.left_out += 1
        self._end_line()
        self._unended = outer

    def _paragraph(self, element: etree._Element, inline: Inline, headings: bool) -> None:
        text = None if self._unended else inline.plain_text(element)
        if text is not None:
            self._block(self._plain_shape(element), Passage(text).trimmed(), headings)
            return
        shape = self._shape(element)
        line = self._unended or Line()
        self._unended, line.hidden = None, shape.style.hidden
        # Asked before and after: the field of a table of contents may begin here, or end here.
        listed = inline.fields.in_contents
        inline.read(element, line)
        if shape.merges:
            self._unended = line
            return
        listed = listed or inline.fields.in_contents
        self._block(shape, line.passage(), headings and not listed)
        self._follow(line)

    def _end_line(self) -> None:
        line, self._unended = self._unended, None
        if line:
            self._block(_Shape(Style()), line.passage(), headings=False)
            self._follow(line)

    def _block(self, shape: _Shape, passage: Passage, headings: bool) -> None:
        mark = self._mark(shape)
        if passage.blank:
            return
        level = shape.level if headings and not self._in_note and passage.text else None
        if level is not None:
            passage = _marked(passage.on_one_line(), mark)
            self.places.enter(level, passage.text)
            kind = BlockKind.HEADING
        elif mark is not None:
            kind, passage = BlockKind.LIST, _item(passage.stripped(), mark, shape.list_level)
        else:
            kind = shape.style.kind
            # The space that begins most notes sets off a number which only a page shows.
            passage = passage.stripped() if self._in_note else passage
        self._add(kind, passage)

    def _add(self, kind: BlockKind, passage: Passage) -> None:
        if not passage.blank:
            kind = BlockKind.FOOTNOTE if self._in_note else kind
            chapter, section = self.places.chapter, self.places.section
            self.blocks.append(Block(kind, passage.text, chapter, section, passage.figures))

    def _table(self, table: etree._Element, inline: Inline) -> None:
        cell = only_cell(table)
        if cell is not None:
            # Whether another row follows must not decide the chapter of what stands before it.
            self.tell(cell, inline.part, headings=False)
            return
        hanging = Line()
        self._add(BlockKind.TABLE, read_table(table, self._cell_reader(inline, hanging)))
        self._follow(hanging)

    def _cell_reader(self, inline: Inline, hanging: Line) -> Read:
        """Return what reads a paragraph of a cell; what hangs on it waits for the table's end."""

        def read(paragraph: etree._Element) -> Passage:
            text = inline.plain_text(paragraph)
            if text is not None:
                return self._with_mark(self._plain_shape(paragraph), Passage(text))
            shape, line = self._shape(paragraph), Line()
            line.hidden = shape.style.hidden
            inline.read(paragraph, line)
            hanging.notes += line.notes
            hanging.boxes += line.boxes
            return self._with_mark(shape, line.passage())

        return read

    def _with_mark(self, shape: _Shape, passage: Passage) -> Passage:
        mark = self._mark(shape)
        return passage if passage.blank else _marked(passage.stripped(), mark)

    def _mark(self, shape: _Shape) -> str | None:
        return self.lists.mark(shape.list_id, shape.list_level) if shape.list_id else None

    def _follow(self, line: Line) -> None:
        """Add what hangs on a paragraph or table: its notes, then its boxes."""
        if line.notes:
            self._waiting.extend(line.notes)
            if not self._in_note:
                self._add_notes()
        for box in line.boxes:
            self.tell(box.content, box.part)

    def _add_notes(self) -> None:
        # One after the other, not within each other: notes may refer to notes without end.
        self._in_note = True
        while self._waiting:
            content, part = self.notes.pop(self._waiting.popleft(), (None, None))
            if content is not None and part is not None:
                self.tell(content, part)
        self._in_note = False

    def _plain_shape(self, paragraph: etree._Element) -> _Shape:
        """Return the shape of a paragraph that has a style and nothing else to decide it."""
        properties = paragraph[0] if len(paragraph) else None
        first = properties[0] if properties is not None and len(properties) else None
        if first is None or first.tag != _STYLE_ID:
            return self._shape(paragraph)
        style_id = first.get(VAL)
        if style_id not in self._shapes:
            self._shapes[style_id] = self._shape(paragraph)
        return self._shapes[style_id]

    def _shape(self, paragraph: etree._Element) -> _Shape:
        properties = paragraph[0] if len(paragraph) else None
        if properties is None or properties.tag != PPR:
            style = self.styles.style(None)
            return self._listed(_Shape(style, style.level), None, None, None)
        style_id, direct, merges = None, (None, None), False
        level: tuple[int | None, bool] = (None, False)
        for found in properties:
            tag = found.tag
            if tag == _STYLE_ID:
                style_id = found.get(VAL)
            elif tag == _LIST:
                direct = list_place(properties)
            elif tag == _OUTLINE:
                level = outline_level(properties)
            elif tag == RPR:
                merges = any(only(found, f"{W}{gone}") is not None for gone in ("del", "moveFrom"))
        style = self.styles.style(style_id)
        decided = level[0] if level[1] and style.level != TITLE_LEVEL else style.level
        return self._listed(_Shape(style, decided, merges=merges), style_id, *direct)

    def _listed(
        self, shape: _Shape, style_id: str | None, list_id: int | None, level: int | None
    ) -> _Shape:
        """Add the list that a paragraph is in by itself, or else by its style."""
        number = shape.style.list_id if list_id is None else list_id
        if not number:
            return shape
        if level is None:
            level = self.lists.level_of_style(number, style_id)
        if level is None:
            level = shape.style.list_level or 0
        return shape._replace(list_id=number, list_level=level)


def _item(passage: Passage, mark: str, level: int) -> Passage:
    margin = _INDENT * level
    return passage.indented(f"{margin}{mark} " if mark else margin + _INDENT, margin + _INDENT)


def _marked(passage: Passage, mark: str | None) -> Passage:
    return passage.indented(f"{mark} ", "") if mark else passage


def notes_of(
    parts: Iterable[tuple[str, Part | None]],
) -> dict[NoteMark, tuple[etree._Element, Part]]:
    """Return the notes in the parts that hold them, without the lines that set them off."""
    notes: dict[NoteMark, tuple[etree._Element, Part]] = {}
    for kind, part in parts:
        if part is None:
            continue
        for note in part.root.iterchildren(f"{W}{kind}"):
            if note.get(f"{W}type", "normal") == "normal":
                notes.setdefault(NoteMark(kind, note.get(f"{W}id", "")), (note, part))
    return notes
