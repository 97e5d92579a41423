"""Detection of the format of a source, and decoding of text."""

from __future__ import annotations

import codecs
import contextlib
import re
import struct
from enum import StrEnum

from truespan.errors import SourceEncrypted, SourceNotText, SourceRefused, SourceUnsupported


class Format(StrEnum):
    """The formats that have a parser."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    DOCX = "docx"
    PPTX = "pptx"
    ODT = "odt"
    ODP = "odp"
    RTF = "rtf"
    EPUB = "epub"
    PDF = "pdf"
    XLSX = "xlsx"
    XLSB = "xlsb"
    XLS = "xls"
    ODS = "ods"
    ZIP = "zip"
    NOTEBOOK = "notebook"
    CODE = "code"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    JSONL = "jsonl"
    EMAIL = "email"
    MAILBOX = "mailbox"
    IMAGE = "image"


_ENDINGS = {
    **dict.fromkeys((".txt", ".text"), Format.TEXT),
    **dict.fromkeys((".md", ".markdown"), Format.MARKDOWN),
    **dict.fromkeys((".html", ".htm", ".xhtml"), Format.HTML),
    **dict.fromkeys((".docx", ".docm", ".dotx"), Format.DOCX),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), Format.PPTX),
    **dict.fromkeys((".odt", ".ott", ".fodt"), Format.ODT),
    **dict.fromkeys((".odp", ".otp", ".fodp"), Format.ODP),
    ".rtf": Format.RTF,
    ".epub": Format.EPUB,
    ".pdf": Format.PDF,
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), Format.XLSX),
    ".xlsb": Format.XLSB,
    **dict.fromkeys((".xls", ".xlt"), Format.XLS),
    **dict.fromkeys((".ods", ".ots"), Format.ODS),
    ".zip": Format.ZIP,
    ".ipynb": Format.NOTEBOOK,
    ".eml": Format.EMAIL,
    **dict.fromkeys((".mbox", ".mbx"), Format.MAILBOX),
    **{
        f".{ending}": Format.CODE
        for ending in re.findall(
            r"\w+",
            "bash c cc cfg cjs coffee conf cpp cr cs cts cu cxx dart ex exs gd go gradle groovy h"
            " hh hpp hxx ini ino java jl js jsx kt kts lua mjs mts nim php pl pm properties proto"
            " ps1 psm1 py pyi pyw pyx r rake rb rs scala sh sol sql swift toml ts tsx yaml yml"
            " zig zsh",
        )
    },
    ".csv": Format.CSV,
    **dict.fromkeys((".tsv", ".tab"), Format.TSV),
    ".json": Format.JSON,
    **dict.fromkeys((".jsonl", ".ndjson"), Format.JSONL),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"), Format.IMAGE),
}
SHEETS = frozenset({Format.XLSX, Format.XLSB, Format.XLS, Format.ODS})
"""Formats of workbooks."""
SLIDES = frozenset({Format.PPTX, Format.ODP})
"""Formats of presentations."""
RECOGNISED = frozenset({Format.PDF, Format.IMAGE})
"""Formats whose text may need OCR."""
ARCHIVES = frozenset({Format.ZIP, Format.MAILBOX})
"""Formats of files that only contain other files."""
RECORDS = frozenset({Format.CSV, Format.TSV, Format.JSON, Format.JSONL})
"""Formats with records, each of which may be a document."""
HOLDERS = ARCHIVES | RECORDS | {Format.EMAIL}
"""Formats of files that may contain several documents."""
PICTURED = frozenset({Format.DOCX, Format.PPTX, Format.ODT, Format.ODP, Format.EPUB, Format.HTML})
"""Formats whose parsers find pictures."""
_ZIPPED = frozenset(
    {Format.DOCX, Format.PPTX, Format.ODT, Format.ODP, Format.EPUB, Format.ZIP}
    | {Format.XLSX, Format.XLSB, Format.ODS}
)
_LOOSE = frozenset({Format.TEXT, Format.HTML, Format.XLS, None})
"""Formats by name that the content may overrule. Many programs export tables as HTML and name them
`.xls`."""

_PDF = re.compile(rb"%PDF-\d")
_PDF_HEAD = 1024
"""Maximum offset of the PDF signature, since some mail programs add bytes before it."""
_HTML = re.compile(
    # A comment ends at its first end mark; otherwise matching could take exponential time.
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--(?:(?!-->).)*+-->\s*+)*+"
    rb"<(?:!doctype\s+html|html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_HTML_HEAD = 4096
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ZIP_END, _ZIP_END_ROOM = struct.Struct("<12xII2x"), 22 + 65535
_ZIP_ENTRY, _ZIP_ENTRY_MARK = struct.Struct("<28xHHH12x"), b"PK\x01\x02"
_IMAGE = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|II\*\x00|MM\x00\*|RIFF....WEBP|BM.{4}\x00{4}", re.DOTALL
)
_FIRST_BYTES = frozenset(bytes([byte]) for byte in b"P%{\xd0\xef< \t\n\r\v\f")
"""First bytes of archives, PDF, RTF, old Office files and pages."""
_EPUB_MARK = b"mimetypeapplication/epub+zip"
_EPUB_PLACE = slice(30, 30 + len(_EPUB_MARK))
_OPEN_DOCUMENTS = {
    b"mimetypeapplication/vnd.oasis.opendocument.text": Format.ODT,
    b"mimetypeapplication/vnd.oasis.opendocument.presentation": Format.ODP,
    b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet": Format.ODS,
}
_PARTS = {
    b"word/document": Format.DOCX,
    b"ppt/presentation": Format.PPTX,
    b"xl/workbook.bin": Format.XLSB,
    b"xl/workbook": Format.XLSX,
}
"""Parts that identify Office documents."""
_COMPOUND = struct.Struct("<30xH16xI24x109I")
_MAX_SECTORS = 1024
"""Maximum number of directory sectors of an old Office file that are read."""


def supported(name: str, pattern: str = "", *, ocr: bool = False) -> bool:
    """Return whether to parse a file found in a folder or by a pattern.

    Source code and configuration files need a pattern with their extension, such as `*.py`: a
    folder of documents often contains scripts. Images need `ocr`.
    """
    ending = _ending(name)
    named = _ENDINGS.get(ending)
    if named is Format.CODE:
        return _ending(f"*{pattern}") == ending
    return ocr if named is Format.IMAGE else named is not None


def format_by_name(name: str) -> Format | None:
    """Return the format that the ending of a name stands for."""
    return _ENDINGS.get(_ending(name))


def format_of(name: str, data: bytes) -> Format | None:
    """Return the format of a source; None if there is no parser for it.

    Archives, PDF, RTF and images are detected by their content under any name, and so is HTML saved
    as text. For all other formats the name decides.
    """
    named = _ENDINGS.get(_ending(name))
    if named is not None and named is not Format.PDF and data[:1] not in _FIRST_BYTES:
        return named
    if named is None and _IMAGE.match(data):
        return Format.IMAGE
    if data.startswith(_ZIP):
        if data[_EPUB_PLACE] == _EPUB_MARK:
            return Format.EPUB
        for mark, found in _OPEN_DOCUMENTS.items():
            if data.startswith(mark, _EPUB_PLACE.start):
                return found
        names = _zip_names(data)
        is_office = _has_part(names, data, b"[Content_Types].xml")
        for part, format in _PARTS.items():
            if _has_part(names, data, part):
                return format
        if is_office and b"wordprocessingml" in data:
            return Format.DOCX
        if is_office and b"presentationml" in data:
            return Format.PPTX
        if is_office and b"spreadsheetml" in data:
            return Format.XLSX
        if _has_part(names, data, b"META-INF/container.xml"):
            return Format.EPUB
        return named if named in _ZIPPED else None
    if _PDF.match(data) or (named is Format.PDF and _PDF.search(data, 0, _PDF_HEAD)):
        return Format.PDF
    if data.startswith(b"{\\rtf"):
        return Format.RTF
    if data.startswith(_OLD_OFFICE):
        return Format.XLS if _streams(data) & {"workbook", "book"} else None
    if named in _LOOSE and _HTML.match(data[:_HTML_HEAD]):
        return Format.HTML
    return named


def _zip_names(data: bytes) -> list[bytes] | None:
    """Return the names in the directory of an archive; None if it cannot be read.

    Documents are distinguished from other archives by their top-level parts, since a folder of an
    archive may contain the parts of a document too.
    """
    end = data.rfind(_ZIP[1], -_ZIP_END_ROOM)
    if end < 0 or end + _ZIP_END.size > len(data):
        return None
    size, offset = _ZIP_END.unpack_from(data, end)
    # Bytes before the archive shift the offset; sizes beyond 32 bits are stored elsewhere.
    at = end - size if data[end - size : end - size + 4] == _ZIP_ENTRY_MARK else offset
    names: list[bytes] = []
    while data.startswith(_ZIP_ENTRY_MARK, at) and at + _ZIP_ENTRY.size <= len(data):
        name, extra, comment = _ZIP_ENTRY.unpack_from(data, at)
        at += _ZIP_ENTRY.size
        names.append(data[at : at + name])
        at += name + extra + comment
    return names or None


def _has_part(names: list[bytes] | None, data: bytes, part: bytes) -> bool:
    """Return whether an archive has a part with this prefix; if damaged, whether it occurs."""
    return part in data if names is None else any(name.startswith(part) for name in names)


def is_archive(name: str) -> bool:
    """Return whether a file of this name only contains other files."""
    return _ENDINGS.get(_ending(name)) in ARCHIVES


def holds_records(name: str) -> bool:
    """Return whether a file of this name has records."""
    return _ENDINGS.get(_ending(name)) in RECORDS


def may_hold_members(name: str) -> bool:
    """Return whether a file of this name may contain several documents."""
    return _ENDINGS.get(_ending(name)) in HOLDERS


def explain_refusal(name: str, data: bytes) -> SourceRefused:
    """Return the error for a source without a known format."""
    if data.startswith(_OLD_OFFICE) and _ENCRYPTED in data:
        return SourceEncrypted(name)
    if _ending(name) == ".msg":
        return SourceUnsupported(name, advice="Save the message as .eml in Outlook.")
    texts = (Format.TEXT, Format.MARKDOWN, Format.HTML, Format.NOTEBOOK, Format.CODE, *RECORDS)
    promises_text = _ENDINGS.get(_ending(name)) in texts
    return SourceNotText(name) if promises_text else SourceUnsupported(name)


def _streams(data: bytes) -> set[str]:
    """Return the names of the streams of an old Office file, in lower case."""
    if len(data) < _COMPOUND.size:
        return set()
    shift, sector, *tables = _COMPOUND.unpack_from(data)
    size = 1 << min(max(shift, 7), 12)
    names: set[str] = set()
    for _ in range(_MAX_SECTORS):
        start = (sector + 1) * size
        for entry in range(start, min(start + size, len(data) - 127), 128):
            length = min(int.from_bytes(data[entry + 64 : entry + 66], "little"), 64)
            name = data[entry : entry + max(length - 2, 0)]
            names.add(name.decode("utf-16-le", "replace").lower())
        # Follow the allocation table to the next sector of the directory.
        table, place = divmod(sector * 4, size)
        if table >= len(tables):
            break
        at = (tables[table] + 1) * size + place
        sector = int.from_bytes(data[at : at + 4], "little")
        if sector >= len(data) // size:
            break
    return names


def _ending(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


# Longer marks first: the mark of UTF-32 begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_FORMATS = (
    b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"\x1f\x8b", b"BZh",
    b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\xd0\xcf\x11\xe0", b"{\\rtf", b"SQLite format 3\x00",
)  # fmt: skip
_TAR_MARK, _TAR_PLACE = b"ustar", 257

_NO_CONTROL = bytes(set(range(256)) - {*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F})
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MISREAD = re.compile("[\x80-\x84\x86-\x9f]")
_IN_1252 = re.compile("[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")


def decode(data: bytes) -> str | None:
    """Decode text; None if the data are not text.

    UTF-8 is the default, UTF-16 and UTF-32 need a byte order mark, and Windows-1252 is the fallback
    if there are no control characters.
    """
    if data.startswith(_OTHER_FORMATS) or data[_TAR_PLACE:].startswith(_TAR_MARK):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _check_text(_decode_strictly(data[len(mark) :], encoding))
    text = _decode_strictly(data, "utf-8")
    if text is not None:
        return _check_text(text)
    # Windows-1252 hardly ever contains valid UTF-8 sequences by chance. So if these outnumber the
    # invalid bytes, the data are damaged UTF-8, and invalid bytes become replacement characters.
    lenient = data.decode("utf-8", "surrogateescape")
    broken = len(re.findall("[\udc80-\udcff]", lenient))
    valid = len(re.findall("[^\x00-\x7f\udc80-\udcff]", lenient))
    if valid > broken:
        return _check_text(data.decode("utf-8", "replace"))
    return None if _CONTROL_BYTE.search(data) else _decode_strictly(data, "cp1252")


# Browsers decode these encodings as larger character sets, and pages rely on it.
_READ_AS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030",
    "gbk": "gb18030", "big5": "big5hkscs",
}  # fmt: skip
_ENCODINGS = re.compile(
    r"cp(?:125[0-8]|437|85\d|866|874|932|949)|iso8859-\d+|koi8-[rtu]|mac-(?:roman|cyrillic)"
    r"|euc_jp|iso2022_(?:jp|kr)|gb18030|big5hkscs|johab"
)
"""Allowed encodings. Python has further codecs, some of which do not encode text."""


def decode_declared(data: bytes, encoding: str) -> str | None:
    """Decode text in the declared encoding; as `decode` does if the encoding is unknown."""
    codec = ""
    with contextlib.suppress(LookupError, ValueError):
        codec = codecs.lookup(encoding).name
    codec = _READ_AS.get(codec, codec)
    return data.decode(codec, "replace") if _ENCODINGS.fullmatch(codec) else decode(data)


def _decode_strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _check_text(text: str | None) -> str | None:
    """Return `text`; None if more than a tenth of it are control characters.

    Windows-1252 characters decoded as Latin-1 are restored: typographic quotes and dashes became
    control characters, and cleaning would drop every apostrophe.
    """
    if text is None:
        return None
    # Deleting the other bytes and counting is many times as fast as searching.
    controls = len(text.encode("utf-8", "surrogatepass").translate(None, _NO_CONTROL))
    if controls * 10 > len(text):
        return None
    if text.isascii() or not _MISREAD.search(text):
        return text
    return _IN_1252.sub(lambda found: found[0].encode("latin-1").decode("cp1252"), text)
