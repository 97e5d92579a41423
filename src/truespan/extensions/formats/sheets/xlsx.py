"""XLSX, XLSM and XLTX: the displayed value of each cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.extensions.formats.sheets import (
    REFERENCE,
    Note,
    Row,
    Sheet,
    column_index,
    layout,
    read_area,
)
from truespan.extensions.formats.sheets.number_format import BUILT_IN, compile_format, show_plain
from truespan.parsing.archive import Archive
from truespan.parsing.formats.ooxml import MC, A, OfficePackage, Part, R, Relation, read_properties
from truespan.parsing.xml import iterate_xml, local
from truespan.types.text import Block, Loaded

_FORMATS = "http://schemas.openxmlformats.org"
S = f"{{{_FORMATS}/spreadsheetml/2006/main}}"
C = f"{{{_FORMATS}/drawingml/2006/chart}}"

_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_ON = ("1", "true")
_THREADED = "[Threaded comment]"

Show = Callable[[str], str]


def load_xlsx(name: str, data: bytes, *, hidden_sheets: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden_sheets` includes hidden parts."""
    package = OfficePackage(name, Archive(name, data))
    main = package.read_main("xl/workbook.xml", f"{S}workbook")
    book = _Book(name, package, hidden=hidden_sheets)
    from_1904 = any(each.get("date1904") in _ON for each in main.root.iterfind(f"{S}workbookPr"))
    book.read_styles(main.find_related("styles"), from_1904)
    book.read_strings(main.find_related("sharedStrings"))
    blocks: list[Block] = []
    titles = _print_titles(main.root)
    for index, entry in enumerate(main.root.iterfind(f"{S}sheets/{S}sheet")):
        if entry.get("state", "visible") != "visible" and not hidden_sheets:
            book.hidden_sheets += 1
            continue
        target = main.target_of(entry.get(f"{R}id", ""))
        sheet = Sheet(entry.get("name", ""), frozen_rows=titles.get(index, 0))
        try:
            if target:
                book.read_sheet(sheet, target)
        except SourceRefused as refused:
            refused.raise_unless("source_broken")
            book.broken += 1
            continue
        blocks += layout(sheet)
    if book.broken and not blocks:
        raise SourceRefused("source_broken", name)
    properties = read_properties(package, language=None)
    return Loaded(
        tuple(blocks), title=properties.title, properties=properties, warnings=book.warnings()
    )


class _Book(Struct):
    name: str
    package: OfficePackage
    hidden: bool
    strings: list[str] = field(default_factory=list)
    numbers: dict[str, Show] = field(default_factory=dict)
    """Formatters of numbers by style; styles without an entry have the general format."""
    hidden_sheets: int = 0
    hidden_lines: int = 0
    broken: int = 0
    unknown: int = 0

    def warnings(self) -> tuple[str, ...]:
        found = (
            (self.hidden_sheets, "Hidden sheets left out"),
            (self.hidden_lines, "Hidden rows and columns left out"),
            (self.broken, "Damaged sheets left out"),
            (self.unknown, "Formulas without a stored result"),
        )
        return tuple(f"{reason}: {count}." for count, reason in found if count)

    def read_styles(self, member: str | None, from_1904: bool) -> None:
        part = self.package.read_part(member)
        if part is None:
            return
        codes = dict(BUILT_IN)
        for element in part.root.iterfind(f"{S}numFmts/{S}numFmt"):
            number, code = element.get("numFmtId", ""), element.get("formatCode", "")
            if number.isdecimal() and (int(number) not in BUILT_IN or int(number) > 36):
                codes[int(number)] = code
        for index, element in enumerate(part.root.iterfind(f"{S}cellXfs/{S}xf")):
            number = element.get("numFmtId", "")
            code = codes.get(int(number), "") if number.isdecimal() else ""
            if show := compile_format(code, from_1904):
                self.numbers[str(index)] = _read_number(show)

    def read_strings(self, member: str | None) -> None:
        content = self._read(member)
        if content is None:
            return
        found = iterate_xml(self.name, content, "{*}si")
        self.strings = [_clean("".join(_texts(element))) for element in found]

    def formatter(self, style: str, kind: str) -> Show:
        """Return a formatter for cells of a style and type."""
        if kind in ("", "n"):
            return self.numbers.get(style, show_plain)
        if kind == "b":
            return lambda value: {"1": "TRUE", "0": "FALSE"}.get(value, value)
        if kind == "d":
            return lambda value: value.removesuffix("T00:00:00").replace("T", " ")
        return self._find_string if kind == "s" else _clean

    def _find_string(self, number: str) -> str:
        """Return a shared string; empty if it does not exist."""
        place = int(number) if number.isdecimal() and len(number) < 10 else len(self.strings)
        return self.strings[place] if place < len(self.strings) else ""

    def read_sheet(self, sheet: Sheet, member: str) -> None:
        """Read the cells, comments, boxes and charts of a sheet."""
        content = self._read(member)
        if content is None:
            raise SourceRefused("source_broken", self.name)
        rows = _Rows(self, sheet)
        tags = ("row", "col", "pane", "mergeCell", "autoFilter")
        for element in iterate_xml(self.name, content, *(f"{{*}}{tag}" for tag in tags)):
            if local(element) == "row":
                rows.read(element)
            else:
                self._read_setting(sheet, element)
        rows.finish()
        relations = self.package.relations_of(self.package.archive.find(member) or member)
        for relation in relations.values():
            if not relation.external:
                self._read_related(sheet, relation)
        # Threaded comments have copies for older programs.
        threads = [note for note in sheet.comments if not note.text.startswith(_THREADED)]
        sheet.comments = threads or sheet.comments
        if not self.hidden:
            numbers = {row.number for row in sheet.rows}
            sheet.comments = [
                note
                for note in sheet.comments
                if note.column not in sheet.hidden_columns
                and (note.row not in rows.hidden or note.row in numbers)
            ]

    def _read(self, member: str | None) -> bytes | None:
        found = self.package.archive.find(member) if member else None
        return self.package.archive.read(found) if found else None

    def _read_setting(self, sheet: Sheet, element: etree._Element) -> None:
        tag = local(element)
        if tag == "col" and element.get("hidden") in _ON and not self.hidden:
            first, last = element.get("min", ""), element.get("max", "")
            if first.isdecimal() and last.isdecimal():
                columns = range(max(int(first[:6]) - 1, 0), min(int(last[:6]), 16384))
                sheet.hidden_columns |= frozenset(columns)
        elif tag == "pane" and element.get("state", "").startswith("frozen"):
            count = element.get("ySplit", "0").partition(".")[0]
            if count.isdecimal() and len(count) < 8:
                sheet.frozen_rows = max(sheet.frozen_rows, int(count))
        elif tag == "mergeCell" and (area := read_area(element.get("ref", ""))):
            sheet.merged.append(area)
        elif tag == "autoFilter" and (area := read_area(element.get("ref", ""))):
            sheet.headers.append(area._replace(bottom=area.top))

    def _read_related(self, sheet: Sheet, relation: Relation) -> None:
        if relation.kind not in ("comments", "threadedComment", "table", "drawing"):
            return
        try:
            part = self.package.read_part(relation.target)
        except SourceRefused:
            part = None
        if part is None:
            self.package.left_out += 1
            return
        if relation.kind == "table":
            area = read_area(part.root.get("ref", ""))
            count = part.root.get("headerRowCount", "1")
            if area and count.isdecimal() and 0 < int(count[:3]) < 10:
                sheet.headers.append(area._replace(bottom=area.top + int(count) - 1))
            return
        if relation.kind == "drawing":
            sheet.boxes += self._read_drawing(part)
            return
        for element in part.root.iter(
            f"{{*}}{'comment' if relation.kind == 'comments' else relation.kind}"
        ):
            found = REFERENCE.fullmatch(element.get("ref", ""))
            text = _clean("".join(_texts(element)))
            if found and text:
                sheet.comments.append(Note(int(found[2]), column_index(found[1].upper()), text))

    def _read_drawing(self, drawing: Part) -> Iterator[Note]:
        """Yield the texts of the boxes and charts of a drawing."""
        for anchor in drawing.root:
            row, column = 1, 0
            for element in anchor.iterfind("{*}from/{*}row"):
                row = int(element.text) + 1 if (element.text or "").isdecimal() else 1
            for element in anchor.iterfind("{*}from/{*}col"):
                column = int(element.text) if (element.text or "").isdecimal() else 0
            lines = _paragraphs(anchor)
            for chart in anchor.iter(f"{C}chart"):
                target = drawing.target_of(chart.get(f"{R}id", ""))
                part = self.package.read_new_part(target) if target else None
                for title in part.root.iter(f"{C}title") if part else ():
                    lines += _paragraphs(title)
            if lines:
                yield Note(row, min(column, 16383), "\n".join(lines))


class _Rows:
    """Collects the rows of a sheet that have something to show."""

    def __init__(self, book: _Book, sheet: Sheet) -> None:
        self._book, self._sheet = book, sheet
        self._formatters: dict[tuple[str, str], Show] = {}
        self._columns: dict[str, int] = {}
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._last = 0
        self._ascending = True
        self.hidden: set[int] = set()

    def read(self, element: etree._Element) -> None:
        """Add a row."""
        number = element.get("r", "")
        row = int(number) if number.isdecimal() and len(number) < 8 else self._last + 1
        self._ascending = self._ascending and row > self._last
        self._last = row
        if element.get("hidden") in _ON and not self._book.hidden:
            self.hidden.add(row)
            return
        cells: dict[int, str] = {}
        column = -1
        for cell in element:
            column = self._find_column(cell.get("r", ""), column + 1)
            if text := self._read_cell(cell):
                cells[column] = text
        hidden = self._sheet.hidden_columns
        shape = tuple(sorted(column for column in cells if column not in hidden))
        if shape:
            shape = self._shapes.setdefault(shape, shape)
            texts = [cells[column] for column in shape]
            self._sheet.rows.append(Row(row, row - len(self.hidden), shape, texts))

    def _find_column(self, reference: str, following: int) -> int:
        """Return the column of a reference such as `B7`; `following` if it is invalid."""
        letters = reference.rstrip("0123456789")
        if letters not in self._columns:
            if not REFERENCE.fullmatch(reference):
                return following
            self._columns[letters] = column_index(letters.replace("$", "").upper())
        return self._columns[letters]

    def _read_cell(self, cell: etree._Element) -> str:
        value, has_formula = "", False
        for child in cell:
            tag = local(child)
            if tag == "v":
                value = child.text or value
            elif tag == "is":
                value = "".join(_texts(child))
            elif tag == "f":
                has_formula = True
        if not value:
            self._book.unknown += has_formula
            return ""
        key = cell.get("s", ""), cell.get("t", "")
        if key not in self._formatters:
            self._formatters[key] = self._book.formatter(*key)
        return self._formatters[key](value)

    def finish(self) -> None:
        """Sort the rows, and count hidden rows and columns."""
        if not self._ascending:
            self._sheet.rows = [
                row._replace(order=row.number)
                for row in sorted(self._sheet.rows, key=lambda r: r.number)
            ]
        self._book.hidden_lines += len(self.hidden)
        if self._sheet.rows and self._sheet.hidden_columns:
            last = max(row.columns[-1] for row in self._sheet.rows)
            self._book.hidden_lines += sum(c <= last for c in self._sheet.hidden_columns)


def _read_number(show: Callable[[float], str]) -> Show:
    """Return a formatter of numbers in text form."""

    def shown(value: str) -> str:
        if not value:
            return ""
        try:
            return show(float(value))
        except (ValueError, OverflowError):
            return value

    return shown


def _texts(element: etree._Element) -> Iterator[str]:
    """Yield the runs of a text without phonetic hints."""
    for child in element:
        tag = local(child)
        if tag in ("t", "text") and not len(child):
            yield child.text or ""
        elif tag not in ("rPh", "rPr"):
            yield from _texts(child)


def _paragraphs(element: etree._Element) -> list[str]:
    lines: list[str] = []
    for paragraph in element.iter(f"{A}p"):
        if next(paragraph.iterancestors(f"{MC}Fallback"), None) is None:
            text = "".join(run.text or "" for run in paragraph.iter(f"{A}t")).strip()
            lines += [text] if text else []
    return lines


def _clean(text: str) -> str:
    if "_x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return text.strip()


_TITLE_ROWS = re.compile(r"\$1:\$([0-9]{1,2})(?:$|,)")


def _print_titles(root: etree._Element) -> dict[int, int]:
    """Return the number of rows at the top that repeat on each printed page, by sheet."""
    found: dict[int, int] = {}
    for element in root.iterfind(f"{S}definedNames/{S}definedName"):
        place = element.get("localSheetId", "")
        rows = _TITLE_ROWS.search(element.text or "")
        if element.get("name") == "_xlnm.Print_Titles" and place.isdecimal() and rows:
            found[int(place[:6])] = int(rows[1])
    return found
