"""PDF: text in reading order, paragraphs rebuilt from lines, the outline as chapters and sections.

Form fields, notes and attachments are not read, nor is anything run that a file brings along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.errors import (
    SourceBroken,
    SourceEmpty,
    SourceEncrypted,
    SourceScanned,
    SourceTooLarge,
)
from truespan.parsing.headings import Outline, is_contents, recognise, title_like
from truespan.parsing.pdf.lines import Line, in_reading_order, lines_of
from truespan.parsing.pdf.outline import Entry, Structure, properties_of, structure, wide_string
from truespan.parsing.pdf.paragraphs import Paragraph, paragraphs, placed, without_running_heads
from truespan.types.text import Block, BlockKind, Loaded, PageStart, Place

_MOST_PAGES = 20_000
_MOST_ENTRIES = 5_000
_MOST_OBJECTS = 1_000
_HARDLY_ANY_TEXT = 16
"""Letters of a page: a stamp or a page number, where the rest is a picture."""
_NOWHERE = Place(None, None)


def load_pdf(shown: str, data: bytes) -> Loaded:
    """Return the paragraphs of a PDF file.

    Raises:
        SourceRefused: it is locked, broken or has no text.
    """
    document = _opened(shown, data)
    try:
        return _loaded(shown, document)
    finally:
        document.close()


def _opened(shown: str, data: bytes) -> pdfium.PdfDocument:
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise SourceEncrypted(shown) from None
        raise SourceBroken(shown) from None
    if not len(document):
        raise SourceEmpty(shown)
    if len(document) > _MOST_PAGES:
        raise SourceTooLarge(shown)
    return document


def _loaded(shown: str, document: pdfium.PdfDocument) -> Loaded:
    pages: list[list[Line]] = []
    sideways: set[int] = set()
    pictures = broken = 0
    for number in range(len(document)):
        found = _page(document, number)
        if found is None:
            broken += 1
        lines, turned, pictured = found or ([], False, False)
        pages.append(lines)
        pictures += pictured
        if turned:
            sideways.add(number + 1)
    _refuse_without_text(shown, pages, pictures, broken)
    # On a page that was turned to read it, the heights of the outline are no heights.
    entries = [e._replace(height=None) if e.page in sideways else e for e in _entries(document)]
    properties = properties_of(document)
    return Loaded(
        tuple(_blocks(without_running_heads(pages), entries)),
        title=properties.title,
        properties=properties,
        warnings=tuple(_warnings(len(pages), pictures, broken)),
    )


def _page(document: pdfium.PdfDocument, number: int) -> tuple[list[Line], bool, bool] | None:
    """Return the lines of a page, whether it was turned, and whether it holds a picture instead of
    text; None when it cannot be read."""
    try:
        page = document[number]
    except pdfium.PdfiumError:
        return None
    try:
        found = lines_of(page)
        letters = sum(len(piece.text) for piece in found.pieces)
        pictured = letters < _HARDLY_ANY_TEXT and _has_picture(page)
        return in_reading_order(found.pieces), found.turned, pictured
    except pdfium.PdfiumError:
        return None
    finally:
        page.close()


def _has_picture(page: pdfium.PdfPage) -> bool:
    found = islice(page.get_objects(max_depth=3), _MOST_OBJECTS)
    try:
        return any(isinstance(one, pdfium.PdfImage) for one in found)
    except pdfium.PdfiumError:
        return False


def _refuse_without_text(
    shown: str, pages: Sequence[Sequence[Line]], pictures: int, broken: int
) -> None:
    letters = sum(len(line.text) for lines in pages for line in lines)
    if broken == len(pages):
        raise SourceBroken(shown)
    if pictures and letters < _HARDLY_ANY_TEXT * len(pages) and pictures * 2 >= len(pages):
        raise SourceScanned(shown)
    if not letters:
        raise SourceEmpty(shown)


def _warnings(pages: int, pictures: int, broken: int) -> Iterator[str]:
    if pictures:
        yield f"{pictures} of {pages} pages hold pictures and hardly any text."
    if broken:
        yield f"{broken} of {pages} pages could not be read."


def _entries(document: pdfium.PdfDocument) -> list[Entry]:
    return [_entry(mark) for mark in islice(document.get_toc(), _MOST_ENTRIES)]


def _entry(mark: pdfium.PdfBookmark) -> Entry:
    title = wide_string(lambda buffer, size: raw.FPDFBookmark_GetTitle(mark, buffer, size))
    destination = mark.get_dest()
    page = destination.get_index() if destination else None
    if destination is None or page is None:
        return Entry(title, mark.level, None, None)
    return Entry(title, mark.level, page + 1, _height(destination))


def _height(destination: pdfium.PdfDest) -> float | None:
    """Return the height on its page that a destination names; 0 stands for "as it is"."""
    view, numbers = destination.get_view()
    match view, numbers:
        case raw.PDFDEST_VIEW_XYZ, [_, height, *_]:
            return height or None
        case ((raw.PDFDEST_VIEW_FITH | raw.PDFDEST_VIEW_FITBH), [height, *_]):
            return height or None
        case raw.PDFDEST_VIEW_FITR, [_, _, _, height]:
            return height or None
    return None


def _blocks(pages: Sequence[Sequence[Line]], entries: Sequence[Entry]) -> Iterator[Block]:
    lines = placed(pages)
    known = structure(lines, [entry for entry in entries if entry.title])
    found = list(paragraphs(lines, known.places, known.within))
    # Whether there is an outline must not be told by what stands before its first entry.
    first = min(known.places, default=len(lines))
    before = [paragraph for paragraph in found if paragraph.first < first]
    yield from _by_headings(before)
    yield from _by_outline(found[len(before) :], known)


def _by_outline(found: Sequence[Paragraph], known: Structure) -> Iterator[Block]:
    place = _NOWHERE
    for paragraph in found:
        place = known.places.get(paragraph.first, place)
        kind = BlockKind.HEADING if paragraph.first in known.headings else _kind(paragraph)
        yield Block(kind, paragraph.text, *place, pages=paragraph.pages)


def _by_headings(found: Sequence[Paragraph]) -> Iterator[Block]:
    """Give blocks that no outline speaks of, with the chapters that their text tells by itself.

    That is decided as in plain text, by the words alone: a large font is no proof of a heading.
    """
    outline = Outline()
    number = 0
    while number < len(found):
        paragraph = found[number]
        number += 1
        text, pages = paragraph.text, paragraph.pages
        heading = outline.enter(text, blank_lines=paragraph.blank_lines)
        if heading and heading.bare and number < len(found):
            title = found[number]
            if title_like(title.text) and not recognise(title.text) and not is_contents(title.text):
                outline.add_title(title.text)
                shift = len(text) + 2
                pages += tuple(PageStart(p.offset + shift, p.page) for p in title.pages)
                text, number = f"{text}\n\n{title.text}", number + 1
        kind = BlockKind.HEADING if heading else _kind(paragraph)
        yield Block(kind, text, outline.chapter, outline.section, pages=pages)


def _kind(paragraph: Paragraph) -> BlockKind:
    return BlockKind.LIST if paragraph.bulleted else BlockKind.PARAGRAPH
