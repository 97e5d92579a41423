"""PDF parser: paragraphs in reading order, with the outline as chapters and sections.

Form fields, annotations and attachments are not read, and no scripts are run.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan import errors
from truespan.parsing.formats.pdf.lines import MAX_SIDE, Line, read_lines, sort_lines
from truespan.parsing.formats.pdf.paragraphs import (
    Placed,
    common_words,
    describe_recognised,
    join_paragraphs,
    place_lines,
)
from truespan.parsing.formats.pdf.running_heads import remove_running_heads
from truespan.parsing.formats.text import to_blocks
from truespan.tables import import_member, tables
from truespan.text.clean import clean
from truespan.text.contents import ContentsFinder
from truespan.text.headings import first_words, letters_of
from truespan.types.text import Block, BlockKind, Loaded, Place, Properties

_DOTS_PER_POINT = 200 / 72
_MAX_ODD_CHARACTERS, _MAX_MIXED, _MIN_KNOWN = 0.3, 0.5, 0.02
_ENOUGH_WORDS, _MIN_WORD_LENGTH = 20, 3
_AROUND_WORDS = "\"'’‘“”()[]{}.,;:!?-–—"
_MIXED = re.compile(r"[^\W\d_][^\w\s’'./@:-]|[^\w\s’'./@:-][^\W\d_]|[^\W\d_]\d|\d[^\W\d_]")
_MAX_PAGES = 20_000
_MAX_ENTRIES = 5_000
_MAX_OBJECTS = 1_000
_HARDLY_ANY_TEXT = 16
"""Minimum number of characters of a page with text; a page with fewer and a picture is a scan."""


def load_pdf(name: str, data: bytes, *, ocr: bool = False, running_heads: bool = False) -> Loaded:
    """Parse a PDF file or raise `SourceRefused`."""
    # With `ocr`, text is recognised on pages without text or with garbled text. With
    # `running_heads`, running heads and page numbers stay in the text.
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise errors.SourceRefused("source_encrypted", name) from None
        raise errors.SourceRefused("source_broken", name) from None
    if not len(document):
        raise errors.SourceRefused("source_empty", name)
    if len(document) > _MAX_PAGES:
        raise errors.SourceRefused("source_too_large", name)
    try:
        return _load_pages(name, document, ocr, running_heads)
    finally:
        document.close()


def _load_pages(name: str, document: pdfium.PdfDocument, ocr: bool, running_heads: bool) -> Loaded:
    pages: list[list[Line]] = []
    to_recognise: list[int] = []
    rotated: set[int] = set()
    pictures = broken = 0
    for number in range(len(document)):
        page = _read_page(document, number)
        if page is None:
            broken += 1
        lines, is_rotated, is_picture = page or ([], False, False)
        pages.append(lines)
        if ocr and (is_picture or is_garbled([line.text for line in lines])):
            to_recognise.append(number)
        else:
            pictures += is_picture
        if is_rotated:
            rotated.add(number + 1)
    warnings: list[str] = []
    if to_recognise:
        warnings += _recognise(document, pages, to_recognise)
        rotated |= {number + 1 for number in to_recognise}
    letters = sum(len(line.text) for lines in pages for line in lines)
    if broken == len(pages):
        raise errors.SourceRefused("source_broken", name)
    if pictures and letters < _HARDLY_ANY_TEXT * len(pages) and pictures * 2 >= len(pages):
        raise errors.SourceRefused("source_scanned", name)
    if not letters:
        raise errors.SourceRefused("source_empty", name)
    if pictures:
        warnings.append(f"{pictures} of {len(pages)} pages have pictures and hardly any text.")
    if broken:
        warnings.append(f"{broken} of {len(pages)} pages could not be read.")
    entries = [_read_entry(mark) for mark in islice(document.get_toc(), _MAX_ENTRIES)]
    # The heights of the outline do not apply to pages that were rotated.
    entries = [e._replace(height=None) if e.page in rotated else e for e in entries]
    properties = read_properties(document)
    removed: list[str] = []
    if not running_heads:
        pages, removed = remove_running_heads(pages, _read_labels(document))
    if removed:
        warnings.append(f"{len(removed)} lines were left out as running heads or page numbers.")
    return Loaded(
        tuple(_to_blocks(pages, entries)),
        title=properties.title,
        properties=properties,
        warnings=tuple(warnings),
        removed=tuple(removed),
    )


def _read_labels(document: pdfium.PdfDocument) -> list[str]:
    """Return the label of each page; its number if it has no label."""
    labels: list[str] = []
    for number in range(len(document)):
        label = _read_string(
            lambda buffer, size, page=number: raw.FPDF_GetPageLabel(document, page, buffer, size)
        )
        labels.append(label or str(number + 1))
    return labels


def _read_page(document: pdfium.PdfDocument, number: int) -> tuple[list[Line], bool, bool] | None:
    """Return the lines of a page, whether it was rotated, and whether it is a picture."""
    # Returns None if the page is broken.
    try:
        page = document[number]
    except pdfium.PdfiumError:
        return None
    try:
        pieces, rotated = read_lines(page)
        letters = sum(len(piece.text) for piece in pieces)
        is_picture = False
        if letters < _HARDLY_ANY_TEXT:
            with contextlib.suppress(pdfium.PdfiumError):
                objects = islice(page.get_objects(max_depth=3), _MAX_OBJECTS)
                is_picture = any(isinstance(item, pdfium.PdfImage) for item in objects)
        return sort_lines(pieces), rotated, is_picture
    except pdfium.PdfiumError:
        return None
    finally:
        page.close()


def is_garbled(lines: Sequence[str]) -> bool:
    """Return whether the text of a page differs from its appearance."""
    # Fonts without a character map cause that. Most characters are then unknown or private, or
    # words contain digits and signs.
    text = "".join(lines)
    odd = sum(char == "\ufffd" or unicodedata.category(char) in ("Co", "Cn") for char in text)
    if odd > _MAX_ODD_CHARACTERS * len(text):
        return True
    words = [word.strip(_AROUND_WORDS) for line in lines for word in line.split()]
    words = [word for word in words if len(word) >= _MIN_WORD_LENGTH]
    if len(words) < _ENOUGH_WORDS:
        return False
    mixed = sum(_MIXED.search(word) is not None for word in words)
    known = sum(word.casefold() in common_words() for word in words)
    return mixed > _MAX_MIXED * len(words) and known < _MIN_KNOWN * len(words)


def _recognise(
    document: pdfium.PdfDocument, pages: list[list[Line]], numbers: Sequence[int]
) -> Iterator[str]:
    """Replace the text of pages by recognised text, if there is any; yield warnings."""
    recognition = tables().text_recognition
    assert recognition is not None, "text recognition was requested, although there is none"
    recogniser = import_member(recognition.make)()
    for number in numbers:
        page = document[number]
        try:
            scale = min(_DOTS_PER_POINT, MAX_SIDE / max(*page.get_size(), 1.0))
            rendered = page.render(scale, force_bitmap_format=raw.FPDFBitmap_BGR)  # pyright: ignore[reportArgumentType]
            lines = recogniser.find_lines(rendered.to_numpy(), scale)
        except pdfium.PdfiumError:
            continue
        finally:
            page.close()
        # A page with a drawing may have a title as text and nothing to recognise.
        if lines:
            pages[number] = lines
    yield from describe_recognised(pages)


def _read_entry(mark: pdfium.PdfBookmark) -> Entry:
    title = _read_string(lambda buffer, size: raw.FPDFBookmark_GetTitle(mark, buffer, size))
    destination = mark.get_dest()
    page = destination.get_index() if destination else None
    if destination is None or page is None:
        return Entry(title, mark.level, None, None)
    match destination.get_view():
        case (
            (raw.PDFDEST_VIEW_XYZ, [_, height, *_])
            | ((raw.PDFDEST_VIEW_FITH | raw.PDFDEST_VIEW_FITBH), [height, *_])
            | (raw.PDFDEST_VIEW_FITR, [_, _, _, height])
        ):
            # A height of 0 means that it is not specified.
            return Entry(title, mark.level, page + 1, height or None)
    return Entry(title, mark.level, page + 1, None)


def _to_blocks(pages: Sequence[Sequence[Line]], entries: Sequence[Entry]) -> Iterator[Block]:
    lines = place_lines(pages)
    structure = match_outline(lines, [entry for entry in entries if entry.title])
    paragraphs = list(join_paragraphs(lines, structure.places, structure.within))
    # The text before the first entry must not depend on the outline.
    first = min(structure.places, default=len(lines))
    before = [paragraph for paragraph in paragraphs if paragraph.first < first]
    # Headings are recognised by their words, as in plain text; a large font proves nothing.
    yield from to_blocks(before)
    place, contents = Place(None, None), ContentsFinder()
    for paragraph in paragraphs[len(before) :]:
        place = structure.places.get(paragraph.first, place)
        kind = BlockKind.LIST if paragraph.bulleted else BlockKind.PARAGRAPH
        if paragraph.first in structure.headings:
            kind = BlockKind.HEADING
        text, blank_lines = paragraph.text, paragraph.blank_lines
        is_contents = contents.enter(text, kind, blank_lines=blank_lines)
        yield Block(
            kind, text, place.chapter, place.section, pages=paragraph.pages, is_contents=is_contents
        )


_MAX_HEADING_LINES = 5
_NUMBER_BEFORE = re.compile("(?:chapter|section|part|appendix|kapitel|chapitre)?[0-9ivxlc]*[a-z]?")


class Entry(NamedTuple):
    """An entry of the outline. `page` counts from 1; None if the entry has no destination."""

    title: str
    level: int
    page: int | None
    height: float | None


class Structure(NamedTuple):
    """Places by their first line, and the first lines of headings.

    The line after a heading has a place too, so that no paragraph continues a heading. `within` are
    the lines of headings except the first.
    """

    places: dict[int, Place]
    headings: frozenset[int]
    within: frozenset[int]


def match_outline(lines: Sequence[Placed], entries: Sequence[Entry]) -> Structure:
    """Find the lines that the outline points to. Top-level entries are chapters, others sections.

    Programs disagree on whether the height of an entry is the top or the bottom of the heading, or
    above it. So the line of that page that matches the title and is nearest to the height is used;
    without a match, the first line below the height.
    """
    plain = [letters_of(line.line.text) for line in lines]
    found: list[tuple[range, Entry]] = []
    following: range | None = None
    for entry in reversed(entries):
        # An entry without a destination groups the next ones and begins where the next one does.
        heading = following if entry.page is None else _find_heading(entry, lines, plain)
        following = None if heading is None else range(heading.start, heading.start)
        if heading is not None:
            found.append((heading, entry))
    found.reverse()
    found.sort(key=lambda pair: pair[0].start)
    places: dict[int, Place] = {}
    chapter, section = None, None
    chapter_level = 0
    for (heading, entry), after in zip(found, [*found[1:], None], strict=False):
        # A title that does not occur there may reveal unread text. If the title of a part does
        # not, its chapters have no part.
        if not heading and after and after[0].start == heading.start:
            chapter_level = max(after[1].level, chapter_level)
            continue
        title = entry.title if heading else first_words(lines[heading.start].line.text)
        if entry.level <= chapter_level:
            chapter, section, chapter_level = title, None, entry.level
        else:
            section = title
        places[heading.start] = Place(chapter, section)
        places.setdefault(heading.stop, Place(chapter, section))
    headings = frozenset(heading.start for heading, _ in found if heading)
    inner = {number for heading, _ in found for number in heading[1:]}
    return Structure(places, headings, frozenset(inner - places.keys()))


def _find_heading(entry: Entry, lines: Sequence[Placed], plain: Sequence[str]) -> range | None:
    """Return the lines of the heading of an entry; an empty range if only its place is known."""
    # Returns None if the entry points past the last line.
    page = entry.page or 1
    first = bisect_left(lines, page, key=lambda line: line.page)
    if first == len(lines):
        return None
    end = bisect_left(lines, page + 1, key=lambda line: line.page)
    title, height = letters_of(entry.title), entry.height
    headings: list[range] = []
    for number in range(first, end):
        following = plain[number : min(number + _MAX_HEADING_LINES, end)]
        if count := _match_title(title, following):
            headings.append(range(number, number + count))
    if headings and height is not None:
        return min(headings, key=lambda found: abs(lines[found.start].line.middle - height))
    if headings:
        return headings[0]
    if height is not None and first < end:
        below = (number for number in range(first, end) if lines[number].line.middle < height)
        first = next(below, end)
    return range(first, first) if first < len(lines) else None


def _match_title(title: str, lines: Sequence[str]) -> int:
    """Return the number of lines that match the title; 0 if they do not."""
    read = ""
    for count, line in enumerate(lines, 1):
        read += line
        if len(read) > len(title) + 20 or not read:
            return 0
        before = read.removesuffix(title)
        if title and read.endswith(title) and _NUMBER_BEFORE.fullmatch(before):
            return count
        if not title.startswith(read) and not _NUMBER_BEFORE.fullmatch(read):
            return 0
    return 0


_MAX_STRING = 4096
_JUNK = re.compile(
    r"(?i)microsoft (?:word|powerpoint|excel) - .*|untitled.*|unbenannt.*|document\d*|dokument\d*"
    r"|presentation\d*|title|none|null|\(?(?:anonymous|unspecified|unknown|author)\)?"
    r"|.*\.(?:docx?|dotx?|odt|rtf|tex|dvi|indd|qxd|pptx?|xlsx?|pdf)"
)
_DATE = re.compile(
    r"(?:D:)?(?P<year>\d{4})(?P<month>\d\d)?(?P<day>\d\d)?"
    r"(?P<time>\d{6}|\d{4})?\s*(?P<zone>Z|[+-]\d\d'?(?:\d\d)?'?)?"
)
_BETWEEN_AUTHORS = re.compile(r"(?<!\s)\s*(?:;|\band\b|&|\n)\s*+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")


def read_properties(document: pdfium.PdfDocument) -> Properties:
    """Return the metadata of the file without placeholders of programs."""

    def read(key: bytes) -> str:
        return _read_string(lambda buffer, size: raw.FPDF_GetMetaText(document, key, buffer, size))

    def read_language(buffer: object, size: int) -> int:
        pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)) if buffer else None  # pyright: ignore
        return raw.FPDFCatalog_GetLanguage(document, pointer, size)

    title, subject, language = read(b"Title"), read(b"Subject"), _read_string(read_language)
    keywords = (word.strip() for word in re.split("[,;]", read(b"Keywords")))
    return Properties(
        title=title if title and not _JUNK.fullmatch(title) else None,
        authors=parse_authors(read(b"Author")),
        language=language if _LANGUAGE.fullmatch(language) else None,
        created=parse_date(read(b"CreationDate")),
        modified=parse_date(read(b"ModDate")),
        keywords=tuple(word for word in keywords if word),
        description=subject if subject and not _JUNK.fullmatch(subject) else None,
    )


def parse_authors(text: str) -> tuple[str, ...]:
    """Split authors; a comma separates only full names, since "Doe, Jane" is one person."""
    names = _BETWEEN_AUTHORS.split(text)
    if len(names) == 1 and all(" " in part.strip() for part in text.split(",")):
        names = text.split(",")
    stripped = (name.strip(" ,") for name in names)
    return tuple(name for name in stripped if name and not _JUNK.fullmatch(name))


def parse_date(text: str) -> str | None:
    """Return a PDF date in ISO 8601 with the same precision; None if it is invalid."""
    found = _DATE.fullmatch(text.strip())
    if not found:
        return None
    date = found["year"]
    for part, largest in (("month", 12), ("day", 31)):
        if not found[part]:
            return date
        if not 1 <= int(found[part]) <= largest:
            return None
        date += f"-{found[part]}"
    time, zone = found["time"] or "", found["zone"] or ""
    pairs = [time[index : index + 2] for index in range(0, len(time), 2)]
    if not pairs or int(pairs[0]) > 23 or any(int(pair) > 59 for pair in pairs[1:]):
        return date
    if zone not in ("", "Z"):
        digits = re.sub("[^0-9]", "", zone).ljust(4, "0")
        zone = f"{zone[0]}{digits[:2]}:{digits[2:]}"
    return f"{date}T{':'.join([*pairs, '00'][:3])}{zone}"


def _read_string(call: Callable[[object, int], int]) -> str:
    """Read a string from PDFium, which is called twice: for the length and for the bytes."""
    size = min(call(None, 0), 2 * _MAX_STRING)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    call(buffer, size)
    text = buffer.raw.decode("utf-16-le", "replace").split("\0")[0]
    return " ".join(clean(text).split())
