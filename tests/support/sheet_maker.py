"""Workbooks of cells that are given as values, written by hand: XLSX and ODS."""

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODF_NAMES = " ".join(
    f'xmlns:{name}="{_ODF}{place}:1.0"'
    for name, place in (
        ("office", "office"), ("table", "table"), ("text", "text"), ("style", "style"),
        ("draw", "drawing"),
    )
)  # fmt: skip
Cell = str | int | float | bool | None


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            plain = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, compress_type=plain)
    return buffer.getvalue()


def relations(*entries: tuple[str, str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="{id}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for id, kind, target in entries
    )
    return f'<Relationships xmlns="{_PACKAGE}">{rows}</Relationships>'


def letters(column: int) -> str:
    return (letters(column // 26 - 1) if column > 25 else "") + chr(65 + column % 26)


def cell(reference: str, value: Cell, style: int = 0) -> str:
    look = f' s="{style}"' if style else ""
    if value is None:
        return f'<c r="{reference}"{look}/>'
    if isinstance(value, bool):
        return f'<c r="{reference}"{look} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        text = f'<is><t xml:space="preserve">{escape(value, quote=False)}</t></is>'
        return f'<c r="{reference}"{look} t="inlineStr">{text}</c>'
    return f'<c r="{reference}"{look}><v>{value!r}</v></c>'


def rows(table: Sequence[Sequence[Cell]], top: int = 1, left: int = 0) -> str:
    """Return rows of cells, the first of them at this place; empty rows are left out."""
    return "".join(
        f'<row r="{number}">'
        + "".join(
            cell(f"{letters(column)}{number}", value)
            for column, value in enumerate(line, left)
            if value is not None
        )
        + "</row>"
        for number, line in enumerate(table, top)
        if any(value is not None for value in line)
    )


def sheet(data: str, before: str = "", after: str = "") -> str:
    """Return a sheet with these rows, and XML before and after them."""
    return (
        f'<worksheet xmlns="{_MAIN}" xmlns:r="{_OFFICE}">{before}<sheetData>{data}</sheetData>'
        f"{after}</worksheet>"
    )


def xlsx(
    sheets: Mapping[str, str],
    *,
    formats: Sequence[str] = (),
    strings: str = "",
    states: Mapping[str, str] | None = None,
    settings: str = "",
    names: str = "",
    extra: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return a workbook. Style n of a cell has the n-th of the formats, style 0 none."""
    states = states or {}
    entries = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" state="{states.get(name, "visible")}"'
        f' r:id="s{n}"/>'
        for n, name in enumerate(sheets, 1)
    )
    codes = "".join(
        f'<numFmt numFmtId="{200 + n}" formatCode="{escape(code)}"/>'
        for n, code in enumerate(formats)
        if not code.isdecimal()
    )
    looks = "".join(
        f'<xf numFmtId="{code if code.isdecimal() else 200 + n}"/>'
        for n, code in enumerate(formats)
    )
    targets = [
        (f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)
    ]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("a", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">{settings}'
            f"<sheets>{entries}</sheets>{names}</workbook>",
            "xl/_rels/workbook.xml.rels": relations(
                *targets, ("t", "styles", "styles.xml"), ("u", "sharedStrings", "strings.xml")
            ),
            "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><numFmts>{codes}</numFmts>'
            f'<cellXfs><xf numFmtId="0"/>{looks}</cellXfs></styleSheet>',
            "xl/strings.xml": f'<sst xmlns="{_MAIN}">{strings}</sst>',
            **{f"xl/worksheets/sheet{n}.xml": text for n, text in enumerate(sheets.values(), 1)},
            **(extra or {}),
        }
    )


def xlsb(
    sheets: Mapping[str, Sequence[Sequence[str | float]]], hidden: Sequence[str] = ()
) -> bytes:
    """Return an XLSB workbook, some of its sheets hidden."""

    def record(number: int, content: bytes = b"") -> bytes:
        low = bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])
        return low + bytes([len(content) & 0x7F | 0x80, len(content) >> 7]) + content

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def cells(row: Sequence[str | float]) -> bytes:
        return b"".join(
            record(6, struct.pack("<II", column, 0) + text(value))
            if isinstance(value, str)
            else record(5, struct.pack("<IId", column, 0, value))
            for column, value in enumerate(row)
        )

    entries, members = b"", dict[str, str | bytes]()
    for number, (name, table) in enumerate(sheets.items(), 1):
        state = struct.pack("<II", name in hidden, number)
        entries += record(0x9C, state + text(f"s{number}") + text(name))
        size = struct.pack("<IIII", 0, len(table) - 1, 0, max(map(len, table)) - 1)
        data = b"".join(
            record(0, struct.pack("<I", place) + bytes(13)) + cells(row)
            for place, row in enumerate(table)
        )
        members[f"xl/worksheets/sheet{number}.bin"] = (
            record(0x81) + record(0x94, size) + record(0x91) + data + record(0x92) + record(0x82)
        )
    targets = [
        (f"s{n}", "worksheet", f"worksheets/sheet{n}.bin") for n in range(1, 1 + len(sheets))
    ]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.bin": record(0x83) + record(0x8F) + entries + record(0x90) + record(0x84),
            "xl/_rels/workbook.bin.rels": relations(*targets),
            **members,
        }
    )


def ods(tables: str, styles: str = "", after: str = "") -> bytes:
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "content.xml": f"<office:document-content {_ODF_NAMES}>"
            f"<office:automatic-styles>{styles}</office:automatic-styles><office:body><office:spreadsheet>{tables}{after}"
            "</office:spreadsheet></office:body></office:document-content>",
            "META-INF/manifest.xml": "<manifest/>",
        }
    )
