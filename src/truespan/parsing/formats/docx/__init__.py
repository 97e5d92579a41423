"""DOCX parser: the visible text of a document in reading order, without duplicates.

Included: tracked insertions, text boxes, content controls, notes (after the paragraph that refers
to them) and the positions of pictures. Excluded: deletions, hidden text, comments, headers and
footers.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.parsing.archive import Archive
from truespan.parsing.blocks import TITLE_LEVEL, BlockWriter, Passage, TableLines, join
from truespan.parsing.formats.docx.inline import Box, Inline, Line, NoteRef, is_contents_field
from truespan.parsing.formats.docx.styles import (
    DROPPED,
    PROPERTIES,
    VAL,
    Lists,
    Style,
    Styles,
    Tag,
    child_value,
    flag,
    has_header_row,
    read_list_position,
    read_outline_level,
)
from truespan.parsing.formats.drawing import is_chart, write_chart
from truespan.parsing.formats.ooxml import (
    ALTERNATIVES,
    A,
    OfficePackage,
    Part,
    Pictures,
    W,
    first_child,
    read_properties,
    select_alternative,
)
from truespan.text.headings import is_prose
from truespan.types.text import Loaded


def load_docx(name: str, data: bytes, *, images: bool) -> Loaded:
    """Parse a DOCX file or raise `SourceRefused`; `images` includes the bytes of pictures."""
    try:
        package = OfficePackage(name, Archive(name, data))
        main = package.read_main("word/document.xml", f"{W}document")
        styles, numbering, footnotes, endnotes = (
            package.read_part(main.find_related(kind))
            for kind in ("styles", "numbering", "footnotes", "endnotes")
        )
        pictures = Pictures(package.archive, images)
        notes: dict[NoteRef, Box] = {}
        for kind, part in (("", main), ("footnote", footnotes), ("endnote", endnotes)):
            if part is None:
                continue
            pictures.count_relations(part)
            for note in part.root.iterchildren(f"{W}{kind}") if kind else ():
                # Other types are separator lines above the notes of a page.
                if note.get(f"{W}type", "normal") == "normal":
                    notes.setdefault((kind, note.get(f"{W}id", "")), (note, part))
        body = Body(
            package,
            Styles(styles.root if styles else None),
            Lists(numbering.root if numbering else None),
            pictures,
            notes,
        )
        for content in main.root.iterchildren(f"{W}body"):
            body.read(content, main)
        properties = read_properties(package, language=body.styles.language)
    except RecursionError as error:
        # The depth limit of the XML parser should prevent this.
        raise SourceRefused("source_unsafe", name) from error
    warnings = pictures.warnings()
    if package.left_out:
        warnings.append(f"Parts that are damaged or in another format: {package.left_out}.")
    return Loaded(
        blocks=tuple(body.writer.blocks),
        title=body.writer.title or properties.title,
        properties=properties,
        images=tuple(pictures.images),
        pictures=pictures.counts(),
        warnings=tuple(warnings),
    )


_ALT_CHUNK = f"{W}altChunk"
_PARAGRAPHS = (Tag.PARAGRAPH, f"{A}p")
_BLOCKS = frozenset({*_PARAGRAPHS, Tag.TABLE, _ALT_CHUNK})
_CONTENTS = "table of contents"
_HEADER = f"{W}tblHeader"
_LABEL = re.compile(r"(?!\d)(?=.*[^\W\d]|#\Z).{1,60}")
"""Text of a cell that may be a column name."""


def _find(
    container: etree._Element, wanted: Container[str], in_contents: bool = False
) -> Iterator[tuple[etree._Element, bool]]:
    """Yield the wanted elements in a container, and whether they are in a table of contents."""
    for child in container:
        tag = child.tag
        if tag in wanted:
            yield child, in_contents
        elif tag == ALTERNATIVES:
            for option in select_alternative(child):
                yield from _find(option, wanted, in_contents)
        elif tag not in DROPPED and tag not in PROPERTIES and tag not in _BLOCKS:
            galleries = (
                gallery.get(VAL, "").strip().lower()
                for properties in (child.iterchildren(f"{W}sdtPr") if tag == Tag.CONTROL else ())
                for gallery in properties.iter(f"{W}docPartGallery")
            )
            yield from _find(child, wanted, in_contents or next(galleries, "") == _CONTENTS)


def _read_table(
    table: etree._Element, read: Callable[[etree._Element], Passage], *, nested: bool = False
) -> TableLines:
    """Read a table; `read` returns the text of a paragraph."""
    # The text of a merged cell appears once, where the cell begins. Deleted and hidden rows are
    # left out.
    lines = TableLines(nested=nested)
    in_header = True
    for row, _ in _find(table, (Tag.ROW,)):
        properties = first_child(row, f"{W}trPr")
        if properties is not None and (
            first_child(properties, f"{W}del") is not None or flag(properties, f"{W}hidden")
        ):
            continue
        # Only the first rows of a table can repeat on each page.
        in_header = in_header and properties is not None and bool(flag(properties, _HEADER))
        cells: list[Passage] = []
        for cell, _ in _find(row, (Tag.CELL,)):
            passages = (
                read(block)
                if block.tag in _PARAGRAPHS
                else _read_table(block, read, nested=True).passage()
                for block, _ in _find(cell, _BLOCKS)
                if block.tag != _ALT_CHUNK
            )
            filled = [passage for passage in passages if not passage.blank]
            cells.append(join(filled, " ").on_one_line())
        lines.add_row(cells, is_header=in_header)
    return lines


def _is_contents_entry(paragraph: etree._Element) -> bool:
    """Return whether a paragraph is an entry of a table of contents that is no longer a field."""
    for child in paragraph.iterchildren(f"{W}hyperlink", f"{W}fldSimple"):
        if child.get(f"{W}anchor", "").startswith("_Toc") or is_contents_field(
            child.get(f"{W}instr", "")
        ):
            return True
    return False


_STYLE_ID, _LIST, _OUTLINE = f"{W}pStyle", f"{W}numPr", f"{W}outlineLvl"
_FRAME = f"{W}framePr"


class _Format(NamedTuple):
    """Properties of a paragraph that determine its block."""

    style: Style
    level: int | None = None
    list_id: int | None = None
    list_level: int = 0
    merges: bool = False
    """Whether the text continues in the next paragraph, after a deleted mark or a drop cap."""


class Body(Struct):
    """Converts the paragraphs and tables of a document to blocks, in reading order."""

    package: OfficePackage
    styles: Styles
    lists: Lists
    pictures: Pictures
    notes: dict[NoteRef, Box]
    writer: BlockWriter = field(default_factory=BlockWriter)
    _pending_notes: deque[NoteRef] = field(default_factory=deque)
    _unfinished: Line | None = None

    def read(self, container: etree._Element, part: Part, *, headings: bool = True) -> None:
        """Add the blocks of a container: the body, a text box, a note or a frame."""
        outer, self._unfinished = self._unfinished, None
        inline = Inline(part, self.package, self.styles, self.pictures)
        for element, in_contents in _find(container, _BLOCKS):
            if element.tag in _PARAGRAPHS:
                self._add_paragraph(element, inline, headings, in_contents)
            elif element.tag == Tag.TABLE:
                self._finish_line()
                self._add_table(element, inline, in_contents)
            else:
                self.package.left_out += 1
        self._finish_line()
        self._unfinished = outer

    def _add_paragraph(
        self, element: etree._Element, inline: Inline, headings: bool, in_contents: bool
    ) -> None:
        in_contents = in_contents or _is_contents_entry(element)
        format = self._read_format(element)
        line = self._unfinished or Line()
        self._unfinished, line.hidden = None, format.style.hidden
        # Checked before and after: the field of a table of contents may start or end in the
        # paragraph.
        in_contents = in_contents or inline.fields.in_contents
        inline.read(element, line)
        if format.merges:
            self._unfinished = line
            return
        in_contents = in_contents or inline.fields.in_contents
        passage = line.passage()
        if in_contents and is_prose(passage.text):
            # The field of a table of contents was never closed.
            inline.fields.end_contents()
            in_contents = False
        self._add_passage(format, passage, headings, in_contents)
        self._add_attachments(line)

    def _finish_line(self) -> None:
        line, self._unfinished = self._unfinished, None
        if line:
            self._add_passage(_Format(Style()), line.passage(), headings=False)
            self._add_attachments(line)

    def _add_passage(
        self, format: _Format, passage: Passage, headings: bool, in_contents: bool = False
    ) -> None:
        # Blank items count too, so the marker is requested first.
        marker = self.lists.next_marker(format.list_id, format.list_level)
        self.writer.add(
            passage,
            kind=format.style.kind,
            level=format.level if headings else None,
            marker=marker,
            list_level=format.list_level,
            in_contents=in_contents,
            is_contents=format.style.is_contents,
        )

    def _add_table(self, table: etree._Element, inline: Inline, in_contents: bool) -> None:
        rows = list(_find(table, (Tag.ROW,)))
        cells = list(_find(rows[0][0], (Tag.CELL,))) if len(rows) == 1 else []
        if len(cells) == 1:
            # A table with one cell is a frame. Its headings are ignored, because a following row
            # must not change the chapter of the text before it.
            self.read(cells[0][0], inline.part, headings=False)
            return
        attachments = Line()

        def read(paragraph: etree._Element) -> Passage:
            """Read a paragraph of a cell; its notes and boxes follow after the table."""
            format = self._read_format(paragraph)
            line = Line(hidden=format.style.hidden)
            inline.read(paragraph, line)
            attachments.notes += line.notes
            attachments.boxes += line.boxes
            passage = line.passage()
            marker = self.lists.next_marker(format.list_id, format.list_level)
            if passage.blank:
                return passage
            passage = passage.strip()
            return passage.indent(f"{marker} ", "") if marker else passage

        lines = _read_table(table, read)
        passage, header_rows = lines.passage(), lines.header_rows
        if not header_rows and "\n" in passage.text:
            header_rows = int(self._begins_with_header(table, passage.text))
        self.writer.add_table(passage, header_rows, in_contents=in_contents)
        self._add_attachments(attachments)

    def _begins_with_header(self, table: etree._Element, text: str) -> bool:
        """Return whether the table look marks the first row as a header."""
        # Word sets the mark for each new table. If the table style does not format the first row,
        # the mark counts only if each cell of the row is a label.
        properties = first_child(table, f"{W}tblPr")
        look = None if properties is None else first_child(properties, f"{W}tblLook")
        if properties is None or look is None or not has_header_row(look):
            return False
        if self.styles.formats_first_row(child_value(properties, f"{W}tblStyle")):
            return True
        cells = text.partition("\n")[0].split(" | ")
        return len(cells) > 1 and all(map(_LABEL.fullmatch, cells))

    def _add_attachments(self, line: Line) -> None:
        self._pending_notes.extend(line.notes)
        if self._pending_notes and not self.writer.in_note:
            # A queue instead of recursion, because notes may refer to each other.
            self.writer.in_note = True
            while self._pending_notes:
                if note := self.notes.pop(self._pending_notes.popleft(), None):
                    self.read(*note)
            self.writer.in_note = False
        for root, part in line.boxes:
            if is_chart(root):
                write_chart(root, self.writer)
            else:
                self.read(root, part)

    def _read_format(self, paragraph: etree._Element) -> _Format:
        style_id, list_id, list_level, merges = None, None, None, False
        level, has_level = None, False
        properties = paragraph[0] if len(paragraph) else None
        if properties is None or properties.tag != Tag.PARAGRAPH_PROPERTIES:
            properties = ()
        for child in properties:
            tag = child.tag
            if tag == _STYLE_ID:
                style_id = child.get(VAL)
            elif tag == _LIST:
                list_id, list_level = read_list_position(properties)
            elif tag == _OUTLINE:
                level, has_level = read_outline_level(properties)
            elif tag == Tag.RUN_PROPERTIES:
                merges = merges or any(
                    first_child(child, f"{W}{name}") is not None for name in ("del", "moveFrom")
                )
            elif tag == _FRAME:
                merges = merges or child.get(f"{W}dropCap", "none") != "none"
        style = self.styles.find(style_id)
        if not has_level or style.level == TITLE_LEVEL:
            level = style.level
        # The list is set by the paragraph or by its style.
        list_id = style.list_id if list_id is None else list_id
        if not list_id:
            return _Format(style, level, merges=merges)
        if list_level is None:
            list_level = self.lists.level_of_style(list_id, style_id)
        if list_level is None:
            list_level = style.list_level or 0
        return _Format(style, level, list_id, list_level, merges)
