"""ODS and OTS: the paragraphs of each cell, which are its displayed value."""

from __future__ import annotations

from collections.abc import Iterator

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.extensions.formats.odf import read_member, read_properties
from truespan.extensions.formats.odf.lists import DRAW, OFFICE, STYLE, TABLE, TEXT
from truespan.extensions.formats.sheets import Area, Note, Row, Sheet, layout, read_area
from truespan.extensions.formats.sheets.number_format import show_plain
from truespan.parsing.archive import Archive
from truespan.parsing.xml import iterate_xml, local
from truespan.types.text import Loaded

_CELL, _COVERED = f"{TABLE}table-cell", f"{TABLE}covered-table-cell"
_PARAGRAPH, _NOTE = f"{TEXT}p", f"{OFFICE}annotation"
_LAST_COLUMN = 16384
_LAST_ROW = 1 << 20
_MAX_REPEATED = 2_000_000
"""Maximum number of filled cells that repetition adds to a workbook."""


def load_ods(name: str, data: bytes, *, hidden_sheets: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden_sheets` includes hidden parts."""
    archive = Archive(name, data)
    content = archive.read("content.xml")
    if content is None:
        raise SourceRefused("source_broken", name)
    if b"encryption-data" in (archive.read("META-INF/manifest.xml") or b""):
        raise SourceRefused("source_encrypted", name)
    book = _Book(name, hidden=hidden_sheets)
    book.read(content)
    blocks = [block for sheet in book.sheets for block in layout(sheet)]
    properties = read_properties(read_member(name, archive, "meta.xml"))
    return Loaded(
        tuple(blocks), title=properties.title, properties=properties, warnings=book.warnings()
    )


class _Book(Struct):
    name: str
    hidden: bool
    sheets: list[Sheet] = field(default_factory=list)
    hidden_sheets: int = 0
    hidden_lines: int = 0
    _hidden_styles: set[str] = field(default_factory=set)
    _repeated: int = 0
    _shapes: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    # State of the current sheet:
    _table: etree._Element | None = None
    _sheet: Sheet = field(default_factory=lambda: Sheet(""))
    _number: int = 0
    _hidden_rows: int = 0
    _column: int = 0
    _header: tuple[int, int] | None = None

    def warnings(self) -> tuple[str, ...]:
        found = (
            (self.hidden_sheets, "Hidden sheets left out"),
            (self.hidden_lines, "Hidden rows and columns left out"),
        )
        return tuple(f"{reason}: {count}." for count, reason in found if count)

    def read(self, content: bytes) -> None:
        tags = ("table", "table-row", "table-column", "shapes", "database-range")
        names = [f"{TABLE}{tag}" for tag in tags]
        for element in iterate_xml(self.name, content, *names, f"{STYLE}style"):
            match local(element):
                case "style":
                    for child in element.iterchildren(f"{STYLE}table-properties"):
                        if child.get(f"{TABLE}display") == "false":
                            self._hidden_styles.add(element.get(f"{STYLE}name", ""))
                case "table-column":
                    self._enter(element)
                    self._read_column(element)
                case "table-row":
                    self._enter(element)
                    self._read_row(element)
                case "shapes":
                    self._enter(element)
                    self._sheet.boxes += _boxes(element, 1, 0)
                case "table":
                    if element is self._table:
                        self._leave()
                case _:
                    self._read_range(element)

    def _enter(self, element: etree._Element) -> None:
        """Begin a sheet at its first element."""
        table = next(element.iterancestors(f"{TABLE}table"), None)
        if table is None or table is self._table:
            return
        self._table = table
        self._sheet = Sheet(table.get(f"{TABLE}name", ""))
        self._number = self._hidden_rows = self._column = 0
        self._header = None

    def _leave(self) -> None:
        assert self._table is not None
        sheet = self._sheet
        if self._header:
            top, bottom = self._header
            last = max((row.columns[-1] for row in sheet.rows), default=0)
            first = min((row.columns[0] for row in sheet.rows), default=0)
            sheet.headers.append(Area(top, first, bottom, last))
        is_hidden = self._table.get(f"{TABLE}style-name") in self._hidden_styles
        if is_hidden and not self.hidden:
            self.hidden_sheets += 1
        else:
            self.sheets.append(sheet)
            self.hidden_lines += self._hidden_rows + len(sheet.hidden_columns)
        self._table = None

    def _read_column(self, element: etree._Element) -> None:
        count = _repeats(element, "columns", _LAST_COLUMN)
        end = min(self._column + count, _LAST_COLUMN)
        if element.get(f"{TABLE}visibility", "visible") != "visible" and not self.hidden:
            self._sheet.hidden_columns |= frozenset(range(self._column, end))
        self._column = end

    def _read_row(self, element: etree._Element) -> None:
        first = self._number + 1
        count = _repeats(element, "rows", _LAST_ROW)
        self._number += count
        if self._number > _LAST_ROW + count:
            return
        if element.get(f"{TABLE}visibility", "visible") != "visible" and not self.hidden:
            self._hidden_rows += count
            return
        sheet, hidden = self._sheet, self._sheet.hidden_columns
        columns: list[int] = []
        texts: list[str] = []
        column = 0
        for cell in element.iterchildren(_CELL, _COVERED):
            repeats = 1
            attributes = cell.attrib
            if f"{TABLE}number-columns-repeated" in attributes:
                repeats = _repeats(cell, "columns", _LAST_COLUMN)
            if len(attributes) and cell.tag == _CELL:
                text = self._read_cell(cell, first, column)
                if text:
                    self._repeated += repeats - 1
                    for place in range(column, min(column + repeats, _LAST_COLUMN)):
                        if place not in hidden:
                            columns.append(place)
                            texts.append(text)
            elif len(cell) and cell.tag == _CELL:
                text = self._read_cell(cell, first, column)
                if text and column not in hidden and column < _LAST_COLUMN:
                    columns.append(column)
                    texts.append(text)
            column += repeats
        if not texts:
            return
        self._repeated += len(texts) * (count - 1)
        if self._repeated > _MAX_REPEATED:
            raise SourceRefused("source_unsafe", self.name)
        shape = tuple(columns)
        shape = self._shapes.setdefault(shape, shape)
        parent = element.getparent()
        if parent is not None and parent.tag == f"{TABLE}table-header-rows":
            top = self._header[0] if self._header else first
            self._header = top, self._number
        for number in range(first, first + count):
            sheet.rows.append(Row(number, number - self._hidden_rows, shape, texts))

    def _read_cell(self, cell: etree._Element, row: int, column: int) -> str:
        lines: list[str] = []
        for child in cell:
            if child.tag == _PARAGRAPH:
                lines.append(child.text or "" if not len(child) else "".join(_runs(child)))
            elif child.tag == _NOTE:
                note = "\n".join("".join(_runs(p)).strip() for p in child.iter(_PARAGRAPH)).strip()
                if note:
                    self._sheet.comments.append(Note(row, column, note))
            elif isinstance(child.tag, str) and child.tag.startswith(DRAW):
                self._sheet.boxes += _boxes(child, row, column)
        across = _repeats(cell, "columns", _LAST_COLUMN, "spanned")
        down = _repeats(cell, "rows", _LAST_ROW, "spanned")
        if across > 1 or down > 1:
            self._sheet.merged.append(Area(row, column, row + down - 1, column + across - 1))
        text = "\n".join(lines).strip()
        return text or (_value(cell) if not lines else "")

    def _read_range(self, element: etree._Element) -> None:
        """Record the header of a database range."""
        if element.get(f"{TABLE}contains-header") == "false":
            return
        name, _, address = element.get(f"{TABLE}target-range-address", "").rpartition(":")
        sheet_name, _, first = name.rpartition(".")
        area = read_area(f"{first}:{address.rpartition('.')[2]}")
        for sheet in self.sheets:
            if area and sheet.name == sheet_name.strip("$'").replace("''", "'"):
                sheet.headers.append(area._replace(bottom=area.top))


def _repeats(element: etree._Element, what: str, most: int, how: str = "repeated") -> int:
    text = element.get(f"{TABLE}number-{what}-{how}", "1")
    return min(max(int(text), 1), most) if text.isdecimal() and len(text) < 10 else 1


def _value(cell: etree._Element) -> str:
    """Return the value of a cell without text, which some programs omit."""
    for name in ("string-value", "date-value", "time-value", "boolean-value"):
        if value := cell.get(f"{OFFICE}{name}"):
            return value.upper() if name == "boolean-value" else value
    value = cell.get(f"{OFFICE}value", "")
    return show_plain(value) if value else ""


def _runs(element: etree._Element) -> Iterator[str]:
    """Yield the text of a paragraph, with its spaces, tabs and line breaks."""
    yield element.text or ""
    for child in element:
        if child.tag == f"{TEXT}s":
            count = child.get(f"{TEXT}c", "1")
            yield " " * min(int(count) if count.isdecimal() and len(count) < 6 else 1, 100)
        elif child.tag == f"{TEXT}tab":
            yield "\t"
        elif child.tag == f"{TEXT}line-break":
            yield "\n"
        elif child.tag not in (_NOTE, f"{TEXT}ruby-text"):
            yield from _runs(child)
        yield child.tail or ""


def _boxes(element: etree._Element, row: int, column: int) -> Iterator[Note]:
    """Yield the text of each shape that has any."""
    text = "\n".join("".join(_runs(p)).strip() for p in element.iter(_PARAGRAPH)).strip()
    if text:
        yield Note(row, column, text)
