"""Detection of the format of a source, and decoding of text."""

from __future__ import annotations

import codecs
import contextlib
import re
import struct
from functools import cache

from truespan.errors import SourceRefused
from truespan.parsing.formats import HTML, PDF, all_formats, formats_by_ending
from truespan.tables import FileFormat, import_member

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
_FIRST_BYTES = frozenset(bytes([byte]) for byte in b"P%\xef< \t\n\r\v\f")
_ZIP_MARK_PLACE = 30
_CONTENT_TYPES = b"[Content_Types].xml"

ENDINGS_OF_TYPES = {
    "application/epub+zip": ".epub",
    "application/json": ".json",
    "application/msword": ".doc",
    "application/pdf": ".pdf",
    "application/rtf": ".rtf",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/xhtml+xml": ".html",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/rtf": ".rtf",
}
"""Endings of content types that web pages and attachments of messages state."""


def supported(name: str, pattern: str = "", *, ocr: bool = False) -> bool:
    """Return whether to parse a file found in a folder or by a pattern."""
    # Source code and configuration files need a pattern with their extension, such as `*.py`: a
    # folder of documents often contains scripts. Images need `ocr`.
    named = format_by_name(name)
    if named.needs_pattern:
        return _ending(f"*{pattern}") == _ending(name)
    return bool(named.load) and (ocr or not named.only_ocr)


def format_by_name(name: str) -> FileFormat:
    """Return the format that the ending of a name stands for; one without a loader if unknown."""
    return formats_by_ending().get(_ending(name)) or FileFormat("")


def format_of(name: str, data: bytes) -> FileFormat | None:
    """Return the format of a source; None if there is no loader for it."""
    # Archives, PDF and images are detected by their content under any name, and so are HTML saved
    # as text and formats with a mark. For all other formats the name decides.
    named = formats_by_ending().get(_ending(name))
    if named not in (None, PDF) and data[:1] not in _first_bytes():
        return named
    if data.startswith(_ZIP):
        return _zip_format(data) or (named if named and named.is_zip else None)
    if _PDF.match(data) or (named is PDF and _PDF.search(data, 0, _PDF_HEAD)):
        return PDF
    for each in all_formats():
        if each.mark and data.startswith(each.mark):
            return each if not each.recognise or import_member(each.recognise)(data) else None
        if named is None and each.mark_pattern and each.mark_pattern.match(data):
            return each
    if (named is None or named.yields_to_content) and _HTML.match(data[:_HTML_HEAD]):
        return HTML
    return named


def known_format(name: str, data: bytes) -> FileFormat:
    """Return the format of a source; one without a name and a loader if it is unknown."""
    return format_of(name, data) or FileFormat("")


# Shared by threads: a cache of sets, which never change.
@cache
def _first_bytes() -> frozenset[bytes]:
    """Return the first bytes of files whose content may overrule their ending."""
    return _FIRST_BYTES | {each.mark[:1] for each in all_formats() if each.mark}


def _zip_format(data: bytes) -> FileFormat | None:
    """Return the format of an archive by its members; None if it is none of a document."""
    formats = all_formats()
    for each in formats:
        if each.zip_mark and data.startswith(each.zip_mark, _ZIP_MARK_PLACE):
            return each
    names = _zip_names(data)
    # The longest beginning first: that of one format may begin with that of another.
    for each in sorted(formats, key=lambda each: -len(each.zip_part)):
        if each.zip_part and _has_part(names, data, each.zip_part):
            return each
    if not _has_part(names, data, _CONTENT_TYPES):
        return None
    return next((each for each in formats if each.zip_word and each.zip_word in data), None)


def _zip_names(data: bytes) -> list[bytes] | None:
    """Return the names in the directory of an archive; None if it cannot be read."""
    # Documents are distinguished from other archives by their top-level parts, since a folder of an
    # archive may contain the parts of a document too.
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


def may_hold_members(name: str) -> bool:
    """Return whether a file of this name may contain several documents."""
    return bool(format_by_name(name).open)


def explain_refusal(name: str, data: bytes) -> SourceRefused:
    if data.startswith(_OLD_OFFICE) and _ENCRYPTED in data:
        return SourceRefused("source_encrypted", name)
    if _ending(name) == ".msg":
        return SourceRefused(
            "source_unsupported", name, advice="Save the message as .eml in Outlook."
        )
    is_text = format_by_name(name).is_text
    return SourceRefused("source_not_text" if is_text else "source_unsupported", name)


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
    """Decode text; None if the data are not text."""
    # UTF-8 is the default, UTF-16 and UTF-32 need a byte order mark, and Windows-1252 is the
    # fallback if there are no control characters.
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


def require_text(name: str, data: bytes) -> str:
    text = decode(data)
    if text is None:
        raise SourceRefused("source_not_text", name)
    return text


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
    """Return `text`; None if more than a tenth of it are control characters."""
    # Windows-1252 characters decoded as Latin-1 are restored: typographic quotes and dashes became
    # control characters, and cleaning would drop every apostrophe.
    if text is None:
        return None
    # Deleting the other bytes and counting is many times as fast as searching.
    controls = len(text.encode("utf-8", "surrogatepass").translate(None, _NO_CONTROL))
    if controls * 10 > len(text):
        return None
    if text.isascii() or not _MISREAD.search(text):
        return text
    return _IN_1252.sub(lambda found: found[0].encode("latin-1").decode("cp1252"), text)
