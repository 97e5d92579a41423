"""What a PDF says of itself: title, authors, dates, language."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.ingest.clean import clean
from truespan.model.text import Properties

_LONGEST = 4096
_JUNK = re.compile(
    r"(?i)microsoft (?:word|powerpoint|excel) - .*|untitled.*|unbenannt.*|document\d*|dokument\d*"
    r"|presentation\d*|title|none|null|.*\.(?:docx?|dotx?|odt|rtf|tex|dvi|indd|qxd|pptx?|xlsx?|pdf)"
)
_DATE = re.compile(
    r"(?:D:)?(?P<year>\d{4})(?P<month>\d\d)?(?P<day>\d\d)?"
    r"(?P<time>\d{6}|\d{4})?\s*(?P<zone>Z|[+-]\d\d'?(?:\d\d)?'?)?"
)
_BETWEEN_AUTHORS = re.compile(r"\s*(?:;|\band\b|&|\n)\s*")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")


def properties_of(document: pdfium.PdfDocument) -> Properties:
    """Return what the file says of itself; what is plainly no title is left out."""
    title = _value(document, b"Title")
    language = _language(document)
    return Properties(
        title=title if title and not _JUNK.fullmatch(title) else None,
        authors=authors_of(_value(document, b"Author")),
        language=language if _LANGUAGE.fullmatch(language) else None,
        created=date_of(_value(document, b"CreationDate")),
        modified=date_of(_value(document, b"ModDate")),
        keywords=tuple(
            w for word in re.split("[,;]", _value(document, b"Keywords")) if (w := word.strip())
        ),
        description=_value(document, b"Subject") or None,
    )


def authors_of(written: str) -> tuple[str, ...]:
    """Return the names in a field that has room for one only.

    A comma divides names only if each part has several words: "Doe, Jane" is one person.
    """
    names = _BETWEEN_AUTHORS.split(written)
    if len(names) == 1 and all(" " in part.strip() for part in written.split(",")):
        names = written.split(",")
    return tuple(stripped for name in names if (stripped := name.strip(" ,")))


def date_of(written: str) -> str | None:
    """Return a date in the form of ISO 8601, as exact as it was written; None if it is none."""
    found = _DATE.fullmatch(written.strip())
    if not found:
        return None
    date = found["year"]
    for part, most in (("month", 12), ("day", 31)):
        if not found[part]:
            return date
        if not 1 <= int(found[part]) <= most:
            return None
        date += f"-{found[part]}"
    return date + _time(found["time"], found["zone"])


def _time(digits: str | None, zone: str | None) -> str:
    if not digits:
        return ""
    pairs = [digits[place : place + 2] for place in range(0, len(digits), 2)]
    if int(pairs[0]) > 23 or any(int(pair) > 59 for pair in pairs[1:]):
        return ""
    return "T" + ":".join([*pairs, "00"][:3]) + _zone(zone)


def _zone(zone: str | None) -> str:
    if not zone or zone == "Z":
        return zone or ""
    digits = re.sub("[^0-9]", "", zone).ljust(4, "0")
    return f"{zone[0]}{digits[:2]}:{digits[2:]}"


def wide_string(ask: Callable[[object, int], int]) -> str:
    """Return a string of PDFium's, which is asked for twice: how long it is, and for its bytes."""
    size = min(ask(None, 0), 2 * _LONGEST)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    ask(buffer, size)
    text = buffer.raw.decode("utf-16-le", "replace").split("\0")[0]
    return " ".join(clean(text).split())


def _value(document: pdfium.PdfDocument, key: bytes) -> str:
    return wide_string(lambda buffer, size: raw.FPDF_GetMetaText(document, key, buffer, size))


def _language(document: pdfium.PdfDocument) -> str:
    def ask(buffer: object, size: int) -> int:
        pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)) if buffer else None  # pyright: ignore
        return raw.FPDFCatalog_GetLanguage(document, pointer, size)

    return wide_string(ask)
