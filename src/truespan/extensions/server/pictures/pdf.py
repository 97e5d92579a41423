"""Pictures of PDF pages, with the places of sentences.

Sentences are found among the lines that the parser reads, in its order, by their letters and
digits. Everything else that the parser changes, such as spaces and hyphens, does not count.
"""

from __future__ import annotations

import ctypes
import math
import struct
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.errors import SourceRefused
from truespan.parsing.formats.pdf.lines import Line, read_characters, read_lines, sort_lines
from truespan.types.picture import Box, PictureRequest, Rendering

_PIXELS_PER_POINT = 2.0
_MAX_PIXELS = 4_000_000
_MAX_SIDE = 4000
_BYTES_PER_PIXEL = 3
_NEIGHBOURS = 3
"""Number of characters after the last one that could touch it."""
_DOTLESS = str.maketrans("ıȷ", "ij")

_Pixels = tuple[int, int, int, int]


def draw_page(data: bytes, request: PictureRequest) -> Rendering | None:
    """Draw a page of a PDF file; None if there is no such page.

    With `only_parts`, the result is also None if one of the parts is not found: it is then unknown
    where on the page the text ends.
    """
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError:
        raise SourceRefused("source_broken", request.name) from None
    try:
        if not 1 <= request.page <= len(document):
            return None
        page = document[request.page - 1]
        try:
            return _draw(page, request)
        finally:
            page.close()
    except pdfium.PdfiumError:
        raise SourceRefused("source_broken", request.name) from None
    finally:
        document.close()


def _draw(page: pdfium.PdfPage, request: PictureRequest) -> Rendering | None:
    width, height = page.get_size()
    if not (math.isfinite(width + height) and width > 0 and height > 0):
        raise SourceRefused("source_broken", request.name)
    scale = min(
        _PIXELS_PER_POINT, math.sqrt(_MAX_PIXELS / (width * height)), _MAX_SIDE / max(width, height)
    )
    size = math.ceil(width * scale), math.ceil(height * scale)
    if min(size) < 1 or max(size) > _MAX_SIDE + 1:
        raise SourceRefused("source_too_large", request.name)
    lines = sort_lines(read_lines(page)[0])
    textpage = page.get_textpage()
    try:
        characters = read_characters(textpage)
        parts = find_parts(characters, lines, request.parts)
        if request.only_parts and not all(parts):
            return None
        boxes = tuple(tuple(_line_boxes(page, textpage, part, size)) for part in parts)
        kept: list[_Pixels] = []
        hidden: list[_Pixels] = []
        if request.only_parts:
            places = sorted({place for part in parts for line in part for place in line})
            last = max((place for line in parts[-1] for place in line), default=-1)
            kept = [
                _pixels(page, _ink_of(textpage, place), size, margin=int(place != last))
                for place in places
            ]
            # Without a space between them, the next character touches the last one.
            following = range(last + 1, min(last + 1 + _NEIGHBOURS, len(characters)))
            hidden = [
                _pixels(page, _ink_of(textpage, place), size)
                for place in following
                if place not in places and not characters[place].isspace()
            ]
            _remove_others(page, textpage, places)
    finally:
        textpage.close()
    pixels = _render(page, scale, size, with_annotations=not request.only_parts)
    if request.only_parts:
        pixels = _keep_only(pixels, size, kept, hidden)
    return Rendering("image/png", *size, boxes, _to_png(pixels, size))


def find_parts(
    characters: str, lines: Sequence[Line], parts: Sequence[str]
) -> list[list[list[int]]]:
    """Return the characters of each part by line; empty for a part that is not found.

    A part begins where the part before it ends, or at the beginning of a later line: running heads
    between them are not part of the text. So a part is found without reading later text.
    """
    spots = [
        (letter, number, place)
        for number, line in enumerate(lines)
        for start, end in line.spans
        for place in range(start, end)
        for letter in fold_letters(characters[place])
    ]
    letters = "".join(letter for letter, _, _ in spots)
    # Letters before each line, of which some begin a line.
    counts = [0] * (len(lines) + 1)
    for _, number, _ in spots:
        counts[number + 1] += 1
    starts = sorted(set(accumulate(counts)))
    found: list[list[list[int]]] = []
    cursor = 0
    for part in parts:
        wanted = fold_letters(part)
        begins = (
            start
            for start in (cursor, *(start for start in starts if start > cursor))
            if letters.startswith(wanted, start)
        )
        start = next(begins, None) if wanted else None
        if start is None:
            found.append([])
            continue
        cursor = start + len(wanted)
        by_line: dict[int, list[int]] = {}
        for _, number, place in spots[start:cursor]:
            by_line.setdefault(number, []).append(place)
        last_line, closing = next(reversed(by_line)), _closing_marks(part)
        found.append(
            [
                _with_marks(characters, lines[n], by_line[n], closing if n == last_line else None)
                for n in by_line
            ]
        )
    # A part without letters, such as a row of dots, has no place and leaves no doubt.
    return [[[]] if not fold_letters(part) else at for part, at in zip(parts, found, strict=True)]


def fold_letters(text: str) -> str:
    """Return the letters and digits of a text in the form used for comparison."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_DOTLESS)).casefold()
    return "".join(filter(str.isalnum, decomposed))


def _closing_marks(part: str) -> str:
    """Return the punctuation after the last letter of a part."""
    letters = [place for place, char in enumerate(part) if char.isalnum()]
    return "".join(part[letters[-1] + 1 :].split()) if letters else ""


def _with_marks(
    characters: str, line: Line, places: Sequence[int], closing: str | None
) -> list[int]:
    """Return the visible characters from the first to the last place, with adjacent punctuation.

    After the last place only the `closing` marks follow, if they are known: others belong to what
    comes next, which may be unread.
    """
    first, last = min(places), max(places)
    whole = [range(start, end) for start, end in line.spans]
    inside = {place for span in whole for place in span}
    while first - 1 in inside and _is_punctuation(characters[first - 1]):
        first -= 1
    end = len(characters) if closing is None else last + 1 + len(closing)
    while last + 1 in inside and last + 1 < end and _is_punctuation(characters[last + 1]):
        if closing is not None and not _is_same(characters[last + 1], closing[last + 1 - end]):
            break
        last += 1
    return [
        place
        for span in whole
        for place in span
        if first <= place <= last and not characters[place].isspace()
    ]


def _is_same(char: str, other: str) -> bool:
    return unicodedata.normalize("NFKC", char) == unicodedata.normalize("NFKC", other)


def _is_punctuation(char: str) -> bool:
    return not char.isspace() and not char.isalnum()


def _line_boxes(
    page: pdfium.PdfPage,
    textpage: pdfium.PdfTextPage,
    part: Sequence[Sequence[int]],
    size: tuple[int, int],
) -> Iterator[Box]:
    """Yield the box of each line of a part, as shares of the page."""
    box = raw.FS_RECTF()
    for places in part:
        around: _Pixels | None = None
        for place in places:
            raw.FPDFText_GetLooseCharBox(textpage.raw, place, ctypes.byref(box))
            own = _pixels(page, (box.left, box.bottom, box.right, box.top), size, margin=0)
            around = own if around is None else _around(around, own)
        if around is not None:
            left, top, right, bottom = around
            width, height = size
            shares = left / width, top / height, right / width, bottom / height
            yield tuple(round(share, 5) for share in shares)  # pyright: ignore[reportReturnType]


def _around(one: _Pixels, other: _Pixels) -> _Pixels:
    left, top = min(one[0], other[0]), min(one[1], other[1])
    return left, top, max(one[2], other[2]), max(one[3], other[3])


def _ink_of(textpage: pdfium.PdfTextPage, place: int) -> tuple[float, float, float, float]:
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    raw.FPDFText_GetCharBox(textpage.raw, place, left, right, bottom, top)
    return left.value, bottom.value, right.value, top.value


def _pixels(
    page: pdfium.PdfPage, box: Sequence[float], size: tuple[int, int], *, margin: int = 1
) -> _Pixels:
    """Return a box of the page in pixels of the picture: left, top, right and bottom."""
    corners: list[tuple[int, int]] = []
    for x, y in ((box[0], box[1]), (box[2], box[3])):
        across, down = ctypes.c_int(), ctypes.c_int()
        if math.isfinite(x + y):
            raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        corners.append((across.value, down.value))
    (left, right), (top, bottom) = (sorted(pair) for pair in zip(*corners, strict=True))
    width, height = size
    return (
        *(max(0, min(left - margin, width)), max(0, min(top - margin, height))),
        *(max(0, min(right + margin, width)), max(0, min(bottom + margin, height))),
    )


def _remove_others(
    page: pdfium.PdfPage, textpage: pdfium.PdfTextPage, places: Sequence[int]
) -> None:
    """Remove the objects of a page that draw none of the characters.

    A text object may also draw other characters, and a form any objects; `_keep_only` hides those.
    """
    kept: set[int] = set()
    for place in places:
        found = raw.FPDFText_GetTextObject(textpage.raw, place)
        if found:
            kept.add(ctypes.addressof(found.contents))
    for item in list(page.get_objects(max_depth=1)):
        own = ctypes.addressof(item.raw.contents)
        if own not in kept and raw.FPDFPageObj_GetType(item.raw) != raw.FPDF_PAGEOBJ_FORM:
            page.remove_obj(item)


def _render(
    page: pdfium.PdfPage, scale: float, size: tuple[int, int], *, with_annotations: bool
) -> bytes:
    """Return the pixels of a page from the top, in red, green and blue."""
    bitmap = page.render(
        scale,  # pyright: ignore[reportArgumentType]
        may_draw_forms=False,
        draw_annots=with_annotations,
        rev_byteorder=True,
        force_bitmap_format=raw.FPDFBitmap_BGR,
    )
    width, height = size
    if (bitmap.width, bitmap.height) != size:
        raise AssertionError("PDFium rounds the size of a page up.")
    drawn, row = bytes(bitmap.buffer), width * _BYTES_PER_PIXEL
    return b"".join(
        drawn[start : start + row] for start in range(0, height * bitmap.stride, bitmap.stride)
    )


def _keep_only(
    pixels: bytes, size: tuple[int, int], kept: Sequence[_Pixels], hidden: Sequence[_Pixels]
) -> bytes:
    """Return white pixels with the visible parts of the kept boxes of a picture."""
    width, height = size
    row = width * _BYTES_PER_PIXEL
    white = b"\xff" * (height * row)
    result = bytearray(white)
    for source, boxes in ((pixels, kept), (white, hidden)):
        for left, top, right, bottom in boxes:
            for line in range(top, bottom):
                start = line * row + left * _BYTES_PER_PIXEL
                end = line * row + right * _BYTES_PER_PIXEL
                result[start:end] = source[start:end]
    return bytes(result)


def _to_png(pixels: bytes, size: tuple[int, int]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    width, height = size
    row = width * _BYTES_PER_PIXEL
    lines = b"".join(b"\0" + pixels[at : at + row] for at in range(0, len(pixels), row))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 6))
        + chunk(b"IEND", b"")
    )
