"""From bytes to text, or the refusal to call them text."""

from __future__ import annotations

import codecs
import re
from enum import StrEnum


class Format(StrEnum):
    """The formats that have a loader."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    DOCX = "docx"
    EPUB = "epub"
    PDF = "pdf"


_ENDINGS = {
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".docx": Format.DOCX,
    ".docm": Format.DOCX,
    ".dotx": Format.DOCX,
    ".epub": Format.EPUB,
    ".pdf": Format.PDF,
}
_LOOSE = frozenset({Format.TEXT, Format.HTML, None})
"""What a name promises without binding: the beginning of the content may say otherwise."""

_PDF = re.compile(rb"%PDF-\d")
_PDF_HEAD = 1024
"""Readers of PDF look for its mark within this many bytes, and so do mail programs that pad it."""
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_HTML_HEAD = 4096
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_EPUB_MARK = b"mimetypeapplication/epub+zip"
_EPUB_PLACE = slice(30, 30 + len(_EPUB_MARK))


def is_known_ending(name: str) -> bool:
    """Return whether the ending of a name is one of a format that has a loader."""
    return _ending(name) in _ENDINGS


def format_of(name: str, data: bytes) -> Format | None:
    """Return the format of a source; None when there is no loader for it.

    What begins like an archive or a PDF is one, whatever it is called. A page saved as text is
    still a page. Everything else is what its name says.
    """
    named = _ENDINGS.get(_ending(name))
    if data.startswith(_ZIP):
        return _archived(named, data)
    if _PDF.match(data) or (named is Format.PDF and _PDF.search(data, 0, _PDF_HEAD)):
        return Format.PDF
    if data.startswith(_OLD_OFFICE):
        return None
    if named in _LOOSE and _HTML.match(data[:_HTML_HEAD]):
        return Format.HTML
    return named


def is_encrypted_office(data: bytes) -> bool:
    """Return whether an office document is wrapped with a password, as no archive can tell."""
    return data.startswith(_OLD_OFFICE) and _ENCRYPTED in data


def promises_text(name: str) -> bool:
    """Return whether the ending of a name is one of a format that is written as text."""
    return _ENDINGS.get(_ending(name)) in (Format.TEXT, Format.MARKDOWN, Format.HTML)


def _archived(named: Format | None, data: bytes) -> Format | None:
    if data[_EPUB_PLACE] == _EPUB_MARK:
        return Format.EPUB
    if b"word/document" in data or b"wordprocessingml" in data:
        return Format.DOCX
    if b"META-INF/container.xml" in data:
        return Format.EPUB
    return named if named in (Format.DOCX, Format.EPUB) else None


def _ending(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_FORMATS = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x7fELF",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
    b"\xd0\xcf\x11\xe0",
    b"{\\rtf",
    b"SQLite format 3\x00",
)
_TAR_MARK, _TAR_PLACE = b"ustar", 257

_NO_CONTROL = bytes(set(range(256)) - {*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F})
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MISREAD = re.compile("[\x80-\x84\x86-\x9f]")
_IN_1252 = re.compile("[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")


def decode(data: bytes) -> str | None:
    """Return the text that `data` encode, or None when they are no text.

    UTF-8 is assumed, UTF-16 and UTF-32 need their byte order mark, and Windows-1252 is what is left
    when no byte could be a control character.
    """
    if data.startswith(_OTHER_FORMATS) or data[_TAR_PLACE:].startswith(_TAR_MARK):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _plausible(_strict(data[len(mark) :], encoding))
    text = _strict(data, "utf-8")
    return _plausible(text) if text is not None else _not_quite_utf8(data)


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _plausible(text: str | None) -> str | None:
    """Return `text` unless more than a tenth of it are control characters, as no writing has."""
    if text is None or _controls(text) * 10 > len(text):
        return None
    return text if text.isascii() or not _MISREAD.search(text) else _restored(text)


def _controls(text: str) -> int:
    # Bytes that are left over are counted many times faster than characters that are looked for.
    return len(text.encode("utf-8", "surrogatepass").translate(None, _NO_CONTROL))


def _restored(text: str) -> str:
    """Read again the characters that someone else took from Windows-1252 for Latin-1.

    Typographic quotes and dashes became control characters that way. Cleaning would drop them, and
    with them every apostrophe.
    """
    return _IN_1252.sub(lambda found: found[0].encode("latin-1").decode("cp1252"), text)


def _not_quite_utf8(data: bytes) -> str | None:
    """Return the text of bytes that are no valid UTF-8: damaged UTF-8, or Windows-1252.

    Hardly any text in Windows-1252 holds a valid sequence of UTF-8 by chance. So where valid ones
    outnumber the broken bytes, those are damage, and each comes out as a replacement character.
    """
    lenient = data.decode("utf-8", "surrogateescape")
    broken = len(re.findall("[\udc80-\udcff]", lenient))
    valid = len(re.findall("[^\x00-\x7f\udc80-\udcff]", lenient))
    if valid > broken:
        return _plausible(data.decode("utf-8", "replace"))
    return None if _CONTROL_BYTE.search(data) else _strict(data, "cp1252")
