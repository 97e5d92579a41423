"""XLSX, XLSM and XLTX: the displayed value of each cell.

Cells are found by a regular expression if the XML has the usual form, which is several times as
fast as an XML parser, and by a parser otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from html import unescape
from itertools import pairwise

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceBroken, SourceRefused
from truespan.parsing.archive import Archive
from truespan.parsing.formats.ooxml import MC, A, OfficePackage, R, Relation, read_properties
from truespan.parsing.formats.sheets.layout import (
    REFERENCE,
    Note,
    Row,
    Sheet,
    column_index,
    column_name,
    layout,
    read_area,
)
from truespan.parsing.formats.sheets.number_format import (
    BUILT_IN,
    compile_format,
    is_date_format,
    show_plain,
    text_format,
)
from truespan.parsing.xml import is_plain_xml, iterate_xml, local, parse_xml
from truespan.types.text import Block, Loaded

_FORMATS = "http://schemas.openxmlformats.org"
S = f"{{{_FORMATS}/spreadsheetml/2006/main}}"
C = f"{{{_FORMATS}/drawingml/2006/chart}}"

_CELL = re.compile(
    # The most frequent form first.
    r'(<c r="([A-Z]{1,3})[0-9]{1,7}"([^<>]*)>(?:<v>([^<]*)</v></c>|(?<=/>)'
    r"|(?:<f[^<]*(?:</f>|(?<=/>)))?"
    r"(?:<v/>|(?:<v(?: [^<>]*)?>|<is><t(?: [^<>]*)?>)([^<]*)</(?:v|t></is)>)?</c>))"
)
_STYLE, _TYPE = re.compile(r'\ss="([0-9]+)"'), re.compile(r'\st="([a-zA-Z]+)"')
_ROW = re.compile(r'<row r="([0-9]{1,7})"([^<>]*)>')
_WINDOW = 1 << 22
_STRING = re.compile(
    r"(<si>(?:<t(?: [^<>]*)?>([^<]*)</t></si>|((?:[^<]++|<(?!/?si>))*+)</si>)|<si/>)"
)
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_HIDDEN = re.compile(r' hidden="(?:1|true)"')
_THREADED = "[Threaded comment]"
_MAX_DATES = 20_000

Show = Callable[[str], str]


def load_xlsx(name: str, data: bytes, *, hidden: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden` includes hidden parts."""
    package = OfficePackage(name, Archive(name, data))
    main = package.read_main("xl/workbook.xml", f"{S}workbook")
    book = _Book(name, package, hidden=hidden)
    book.read_styles(main.find_related("styles"), _is_on(main.root, "workbookPr", "date1904"))
    book.read_strings(main.find_related("sharedStrings"))
    blocks: list[Block] = []
    titles = _print_titles(main.root)
    for index, entry in enumerate(main.root.iterfind(f"{S}sheets/{S}sheet")):
        if entry.get("state", "visible") != "visible" and not hidden:
            book.hidden_sheets += 1
            continue
        relation = main.relations.get(entry.get(f"{R}id", ""))
        sheet = Sheet(entry.get("name", ""), frozen_rows=titles.get(index, 0))
        try:
            if relation and not relation.external:
                book.read_sheet(sheet, relation.target)
        except SourceBroken:
            book.broken += 1
            continue
        blocks += layout(sheet)
    if book.broken and not blocks:
        raise SourceBroken(name)
    properties = read_properties(package, language=None)
    return Loaded(
        tuple(blocks), title=properties.title, properties=properties, warnings=book.warnings()
    )


class _Book(Struct):
    name: str
    package: OfficePackage
    hidden: bool
    strings: _Strings = field(default_factory=lambda: _Strings())
    numbers: dict[str, Show] = field(default_factory=dict)
    """Formatters of numbers by style; styles without an entry have the general format."""
    frames: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Literals before and after texts, by style."""
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
                # Dates are slow to format and repeat often.
                shown = _read_number(show)
                is_date = is_date_format(code)
                self.numbers[str(index)] = lru_cache(_MAX_DATES)(shown) if is_date else shown
            if frame := text_format(code):
                self.frames[str(index)] = frame

    def read_strings(self, member: str | None) -> None:
        content = self._read(member)
        if content is None:
            return
        texts: list[str] | None = None
        start, end = content.find(b"<si>"), content.rfind(b"</sst>")
        if 0 < start < end and is_plain_xml(content):
            text = content[start:end].decode("utf-8", "replace")
            found = _STRING.findall(text)
            if sum([len(whole) for whole, _, _ in found]) == len(text):
                texts = self._join_runs(found)
        if texts is None:
            found = iterate_xml(self.name, content, "{*}si")
            texts = [_clean("".join(_texts(element))) for element in found]
        self.strings = _Strings(zip(map(str, range(len(texts))), texts, strict=True))

    def _join_runs(self, found: Sequence[tuple[str, str, str]]) -> list[str]:
        if not any(rich or "&" in simple or "_x" in simple for _, simple, rich in found):
            return [simple.strip() for _, simple, _ in found]
        strings: list[str] = []
        for whole, simple, rich in found:
            if rich:
                root = parse_xml(self.name, f'<x xmlns:x14="x">{whole}</x>'.encode())
                strings.append(_clean("".join(_texts(root))))
            elif "&" in simple or "_x" in simple:
                strings.append(_decode(simple))
            else:
                strings.append(simple.strip())
        return strings

    def show(self, style: str, kind: str, *, decoded: bool) -> Show:
        """Return a formatter for cells of a style and type.

        `decoded` values come from an XML parser.
        """
        before, after = self.frames.get(style, ("", ""))
        if kind in ("", "n"):
            return self.numbers.get(style, _show_number)
        if kind == "s":
            strings = self.strings.__getitem__
            if style not in self.frames:
                return strings
            return lambda value: f"{before}{strings(value)}{after}" if strings(value) else ""
        read = _clean if decoded else _decode
        if kind == "b":
            return lambda value: {"1": "TRUE", "0": "FALSE"}.get(value, value)
        if kind == "d":
            return lambda value: value.removesuffix("T00:00:00").replace("T", " ")
        if style not in self.frames:
            return read
        return lambda value: f"{before}{read(value)}{after}" if value else ""

    def read_sheet(self, sheet: Sheet, member: str) -> None:
        """Read the cells, comments, boxes and charts of a sheet."""
        content = self._read(member)
        if content is None:
            raise SourceBroken(self.name)
        rows = _Rows(self, sheet)
        if not self._read_plain(sheet, rows, content):
            rows = _Rows(self, sheet, decoded=True)
            self._read_any(sheet, rows, content)
        rows.finish()
        relations = self.package.relations_of(self.package.archive.find(member) or member)
        for relation in relations.values():
            if not relation.external:
                self._read_related(sheet, relation)
        sheet.comments = _without_copies(sheet.comments)
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

    def _read_plain(self, sheet: Sheet, rows: _Rows, content: bytes) -> bool:
        """Read a sheet with a regular expression; return False if its XML has another form."""
        start, end = content.find(b"<sheetData>"), content.rfind(b"</sheetData>")
        if start < 0 or end < start or not is_plain_xml(content):
            return False
        frame = parse_xml(self.name, content[:start] + b"<sheetData/>" + content[end + 12 :])
        for element in frame.iter():
            self._read_setting(sheet, element)
        start += len(b"<sheetData>")
        at = start
        while at < end:
            # Up to the last row of the window, or the end of a larger row.
            stop = end if at + _WINDOW >= end else content.rfind(b"<row", at + 1, at + _WINDOW)
            if stop < 0:
                stop = content.find(b"<row", at + _WINDOW, end)
                stop = end if stop < 0 else stop
            for part in content[at:stop].decode("utf-8", "replace").split("</row>"):
                place = 0
                # Rows without cells may precede the row.
                while row := _ROW.match(part, place):
                    place = row.end()
                    cells = _CELL.findall(part, place) if part[place - 2] != "/" else []
                    rows.add(int(row[1]), row[2], cells)
                    place += sum([len(cell[0]) for cell in cells])
                if place != len(part):
                    # Unusual XML must be parsed.
                    return False
            at = stop
        if b"<f" in content:
            self.unknown += content.count(b"<v></v>") + content.count(b"<v/>")
            self.unknown += content.count(b"</f></c>")
        return True

    def _read_any(self, sheet: Sheet, rows: _Rows, content: bytes) -> None:
        tags = ("row", "col", "pane", "mergeCell", "autoFilter")
        last = 0
        for element in iterate_xml(self.name, content, *(f"{{*}}{tag}" for tag in tags)):
            if local(element) != "row":
                self._read_setting(sheet, element)
                continue
            number = element.get("r", "")
            last = int(number) if number.isdecimal() and len(number) < 8 else last + 1
            attributes = ' hidden="1"' if element.get("hidden") in ("1", "true") else ""
            cells: list[Sequence[str]] = []
            column = -1
            for cell in element:
                found = REFERENCE.fullmatch(cell.get("r", ""))
                column = column_index(found[1].upper()) if found else column + 1
                value = ""
                for child in cell:
                    tag = local(child)
                    if tag == "v":
                        value = child.text or value
                    elif tag == "is":
                        value = "".join(_texts(child))
                style, kind = cell.get("s", ""), cell.get("t", "")
                about = (f' s="{style}"' if style else "") + (f' t="{kind}"' if kind else "")
                cells.append(("", column_name(column), about, value, ""))
            rows.add(last, attributes, cells)

    def _read_setting(self, sheet: Sheet, element: etree._Element) -> None:
        tag = local(element)
        if tag == "col" and element.get("hidden") in ("1", "true") and not self.hidden:
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
            sheet.boxes += self._read_drawing(part.root, part.relations)
            return
        for element in part.root.iter(
            f"{{*}}{'comment' if relation.kind == 'comments' else relation.kind}"
        ):
            found = REFERENCE.fullmatch(element.get("ref", ""))
            text = _clean("".join(_texts(element)))
            if found and text:
                sheet.comments.append(Note(int(found[2]), column_index(found[1].upper()), text))

    def _read_drawing(self, root: etree._Element, relations: dict[str, Relation]) -> Iterator[Note]:
        """Yield the texts of the boxes and charts of a drawing."""
        for anchor in root:
            row, column = 1, 0
            for element in anchor.iterfind("{*}from/{*}row"):
                row = int(element.text) + 1 if (element.text or "").isdecimal() else 1
            for element in anchor.iterfind("{*}from/{*}col"):
                column = int(element.text) if (element.text or "").isdecimal() else 0
            lines = _paragraphs(anchor)
            for chart in anchor.iter(f"{C}chart"):
                relation = relations.get(chart.get(f"{R}id", ""))
                part = None
                if relation and not relation.external:
                    part = self.package.read_new_part(relation.target)
                for title in part.root.iter(f"{C}title") if part else ():
                    lines += _paragraphs(title)
            if lines:
                yield Note(row, min(column, 16383), "\n".join(lines))


class _Strings(dict[str, str]):
    """Shared strings by number; a missing one is empty."""

    def __missing__(self, key: str) -> str:
        return ""


class _Shows(dict[str, Show]):
    """Formatters by the attributes of a cell."""

    def __init__(self, book: _Book, decoded: bool) -> None:
        super().__init__()
        self._book, self._decoded = book, decoded

    def __missing__(self, attributes: str) -> Show:
        style, kind = _STYLE.search(attributes), _TYPE.search(attributes)
        self[attributes] = self._book.show(
            style[1] if style else "", kind[1] if kind else "", decoded=self._decoded
        )
        return self[attributes]


class _Rows:
    """Collects the rows of a sheet that have something to show."""

    def __init__(self, book: _Book, sheet: Sheet, *, decoded: bool = False) -> None:
        self._book, self._sheet = book, sheet
        self._shows = _Shows(book, decoded)
        self._shapes: dict[tuple[str, ...], tuple[int, ...] | None] = {}
        self._last = 0
        self._ascending = True
        self.hidden: set[int] = set()
        sheet.rows, sheet.merged, sheet.headers = [], [], []

    def add(self, number: int, attributes: str, cells: Sequence[Sequence[str]]) -> None:
        """Add a row; a cell has its source, column, attributes, and value in one of two forms."""
        if number <= self._last:
            self._ascending = False
        self._last = number
        if attributes and not self._book.hidden and _HIDDEN.search(attributes):
            self.hidden.add(number)
            return
        shows = self._shows
        texts = [shows[about](value or other) for _, _, about, value, other in cells]
        key = tuple([cell[1] for cell in cells])
        if "" in texts:
            key = tuple([column for column, text in zip(key, texts, strict=True) if text])
            texts = [text for text in texts if text]
        if not key:
            return
        if key not in self._shapes:
            indexes = tuple(map(column_index, key))
            ascending = all(a < b for a, b in pairwise(indexes))
            self._shapes[key] = indexes if ascending else None
        shape = self._shapes[key]
        hidden_columns = self._sheet.hidden_columns
        if shape is None or hidden_columns:
            pairs = dict(sorted(zip(map(column_index, key), texts, strict=True)))
            pairs = {c: text for c, text in pairs.items() if c not in hidden_columns}
            shape, texts = tuple(pairs), list(pairs.values())
            if not shape:
                return
        self._sheet.rows.append(Row(number, number - len(self.hidden), shape, texts))

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


def _show_number(value: str) -> str:
    """Return a number in the general format; a short number is unchanged."""
    if value.isdecimal() and len(value) < 16:
        return value
    if len(value) < 12 and "E" not in value and "e" not in value and value[-1:] != "0":
        return value
    return show_plain(value)


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


def _without_copies(notes: Sequence[Note]) -> list[Note]:
    """Drop the copies of threaded comments for older programs."""
    return [note for note in notes if not note.text.startswith(_THREADED)] or list(notes)


def _decode(text: str) -> str:
    """Decode XML entities and escapes."""
    if "&" in text:
        text = unescape(text)
    return _clean(text) if "_x" in text else text.strip()


def _clean(text: str) -> str:
    if "_x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return text.strip()


def _is_on(root: etree._Element, tag: str, attribute: str) -> bool:
    return any(found.get(attribute) in ("1", "true") for found in root.iterfind(f"{S}{tag}"))


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
