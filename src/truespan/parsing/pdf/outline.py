"""The outline of a PDF: which line each of its entries begins at.

An entry points to a page, and mostly to a height on it. Programs do not agree on whether that is
the top of the heading, its foot, or some way above. So the line that reads like the entry's title
is taken if there is one on that page, the nearest to that height; else the first line below it.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.parsing.clean import clean
from truespan.parsing.pdf.paragraphs import Placed
from truespan.types.text import Place, Properties

_MOST_HEADING_LINES = 5
_NUMBER_BEFORE = re.compile("(?:chapter|section|part|appendix|kapitel|chapitre)?[0-9ivxlc]*[a-z]?")


class Entry(NamedTuple):
    """An entry of the outline. `page` counts from 1; None when it leads nowhere."""

    title: str
    level: int
    page: int | None
    height: float | None


class Structure(NamedTuple):
    """What begins at which line: places, and headings that read like their entry.

    The line after a heading is named among the places, too: no paragraph runs on out of a heading.
    `within` are the lines of headings but for the first.
    """

    places: dict[int, Place]
    headings: frozenset[int]
    within: frozenset[int]


class _Mark(NamedTuple):
    """Where an entry begins, and the line after its heading; the same one without a heading."""

    first: int
    end: int


class _Page(NamedTuple):
    number: int
    first: int
    end: int


def structure(lines: Sequence[Placed], entries: Sequence[Entry]) -> Structure:
    """Return what the outline says about the lines. Entries of the highest level are chapters, all
    others sections."""
    if not entries or not lines:
        return Structure({}, frozenset(), frozenset())
    marks = _Marks(lines).of(entries)
    found = [(mark, entry) for mark, entry in zip(marks, entries, strict=True) if mark]
    found.sort(key=lambda pair: pair[0].first)
    headings = frozenset(mark.first for mark, _ in found if mark.end > mark.first)
    inner = {number for mark, _ in found for number in range(mark.first + 1, mark.end)}
    places = _places(found)
    return Structure(places, headings, frozenset(inner - places.keys()))


def _places(found: Sequence[tuple[_Mark, Entry]]) -> dict[int, Place]:
    result: dict[int, Place] = {}
    chapter, section = None, None
    for mark, entry in found:
        if entry.level == 0:
            chapter, section = entry.title, None
        else:
            section = entry.title
        result[mark.first] = Place(chapter, section)
        result.setdefault(mark.end, Place(chapter, section))
    return result


class _Marks:
    """Finds the lines that entries point to."""

    def __init__(self, lines: Sequence[Placed]) -> None:
        self._lines = lines
        self._plain = [_plain(place.line.text) for place in lines]
        self._pages = _pages(lines)

    def of(self, entries: Sequence[Entry]) -> list[_Mark | None]:
        """Return the mark of each entry; None for one that points past the last line.

        An entry that leads nowhere holds those below it together: it begins where the next does.
        """
        marks: list[_Mark | None] = []
        following: _Mark | None = None
        for entry in reversed(entries):
            mark = self._mark(entry) if entry.page is not None else following
            marks.append(mark)
            following = mark and _Mark(mark.first, mark.first)
        return marks[::-1]

    def _mark(self, entry: Entry) -> _Mark | None:
        page = self._page_from(entry.page or 1)
        if page is None:
            return None
        if page.number != entry.page:
            return _Mark(page.first, page.first)
        return self._heading_on(page, entry) or self._line_below(page, entry)

    def _page_from(self, number: int) -> _Page | None:
        """Return the page of this number, or the next one that has lines."""
        found = bisect_left(self._pages, number, key=lambda page: page.number)
        return self._pages[found] if found < len(self._pages) else None

    def _heading_on(self, page: _Page, entry: Entry) -> _Mark | None:
        wanted = _plain(entry.title)
        found = [m for line in range(page.first, page.end) if (m := self._heading(line, wanted))]
        if not found:
            return None
        height = entry.height
        if height is None:
            return found[0]
        return min(found, key=lambda mark: abs(self._lines[mark.first].line.middle - height))

    def _heading(self, first: int, wanted: str) -> _Mark | None:
        """Return the lines from `first` on that together read like the wanted title."""
        read = ""
        page = self._lines[first].page
        for number in range(first, min(first + _MOST_HEADING_LINES, len(self._lines))):
            read += self._plain[number]
            if self._lines[number].page != page or len(read) > len(wanted) + 20 or not read:
                return None
            before = read.removesuffix(wanted)
            if wanted and read.endswith(wanted) and _NUMBER_BEFORE.fullmatch(before):
                return _Mark(first, number + 1)
            if not wanted.startswith(read) and not _NUMBER_BEFORE.fullmatch(read):
                return None
        return None

    def _line_below(self, page: _Page, entry: Entry) -> _Mark | None:
        if entry.height is None:
            return _Mark(page.first, page.first)
        for number in range(page.first, page.end):
            if self._lines[number].line.middle < entry.height:
                return _Mark(number, number)
        following = self._page_from(page.number + 1)
        return _Mark(following.first, following.first) if following else None


def _pages(lines: Sequence[Placed]) -> list[_Page]:
    result: list[_Page] = []
    for number, place in enumerate(lines):
        if result and result[-1].number == place.page:
            result[-1] = result[-1]._replace(end=number + 1)
        else:
            result.append(_Page(place.page, number, number + 1))
    return result


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


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
