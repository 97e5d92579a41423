"""Which format a source has: by its content where that is plain, else by the ending of its name."""

from __future__ import annotations

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
    """Say whether the ending of a name is one of a format that has a loader."""
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
    """Say whether an office document is wrapped with a password, as no archive can tell."""
    return data.startswith(_OLD_OFFICE) and _ENCRYPTED in data


def promises_text(name: str) -> bool:
    """Say whether the ending of a name is one of a format that is written as text."""
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
