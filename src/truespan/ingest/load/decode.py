"""From bytes to text, or the refusal to call them text."""

from __future__ import annotations

import codecs
import re

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
