"""The words of a PDF page and where they stand, joined into pieces of lines.

PDFium gives the characters of a page, with the spaces and line ends it finds between them, and the
place of each. Asking for places costs more than all the rest, so only the first and the last
character of each word are asked for.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.ingest.clean import clean

_HYPHEN_AT_END = "\x02\ufffe"
"""What PDFium puts for a hyphen at the end of a line, instead of the hyphen and the line end."""
_SOFT_HYPHEN = "\xad"
_WORD = re.compile(rf"[^\s{_HYPHEN_AT_END}]+[{_HYPHEN_AT_END}]?|[{_HYPHEN_AT_END}]|[\r\n]+")
_WIDE_GAP = 1.5
"""A gap that no space leaves, in heights of a line: what follows may be another column."""
_SAMPLES = 40
_EDGE = 2.0


class Line(NamedTuple):
    """A line or a piece of one, upright. Heights grow upwards, as on the page."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    first_width: float
    """How wide the first word is: would it have fitted on the line before?"""
    cells: int = 1
    """How many pieces it was joined from: with several, it looks like the row of a table."""

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    def beside(self, other: Line) -> bool:
        """Say whether both stand at one height."""
        shared = min(self.top, other.top) - max(self.bottom, other.bottom)
        return shared * 2 > min(self.height, other.height)


class PageLines(NamedTuple):
    """The pieces of lines on a page, in the order in which the file shows them."""

    pieces: list[Line]
    turned: bool
    """Whether the page was turned to read it, so that heights of its file do not apply."""


class _Word(NamedTuple):
    text: str
    left: float
    bottom: float
    right: float
    top: float
    ends_line: bool


def lines_of(page: pdfium.PdfPage) -> PageLines:
    """Return what is written on a page, within its borders."""
    textpage = page.get_textpage()
    try:
        characters = _characters(textpage)
        turn = _turn(textpage, len(characters))
        box = _turned(page.get_bbox(), turn)
        words = [word for word in _words(textpage, characters, turn) if _within(word, box)]
    finally:
        textpage.close()
    return PageLines(list(_pieces(words)), turned=turn != 0)


def _characters(textpage: pdfium.PdfTextPage) -> str:
    """Return one character for each that PDFium counts, so that places can be asked for."""
    count = textpage.count_chars()
    if not count:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    written = raw.FPDFText_GetText(textpage, 0, count, buffer)
    text = bytes(buffer)[: 2 * max(written - 1, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) == count:
        return text
    # Characters that take two units, or are left out, shift all that follow: ask for each one.
    codes = (raw.FPDFText_GetUnicode(textpage, place) for place in range(count))
    return "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)


def _turn(textpage: pdfium.PdfTextPage, count: int) -> int:
    """Return by how many quarters the writing on a page is turned, as most of a sample is."""
    step = max(1, count // _SAMPLES)
    quarters: Counter[int] = Counter()
    for place in range(0, count, step):
        angle = raw.FPDFText_GetCharAngle(textpage, place)
        quarters[round(angle / (math.pi / 2)) % 4 if math.isfinite(angle) else 0] += 1
    return quarters.most_common(1)[0][0] if quarters else 0


def _words(textpage: pdfium.PdfTextPage, characters: str, turn: int) -> Iterator[_Word]:
    box = raw.FS_RECTF()
    pointer = ctypes.byref(box)
    place_of = raw.FPDFText_GetLooseCharBox
    page = textpage.raw
    for found in _WORD.finditer(characters):
        text = found[0]
        if text[0] in "\r\n":
            yield _Word("", 0, 0, 0, 0, ends_line=True)
            continue
        place_of(page, found.start(), pointer)
        left, bottom, right, top = box.left, box.bottom, box.right, box.top
        if len(text) > 1:
            place_of(page, found.end() - 1, pointer)
            left, bottom = min(left, box.left), min(bottom, box.bottom)
            right, top = max(right, box.right), max(top, box.top)
        ends_line = text[-1] in _HYPHEN_AT_END
        text = text[:-1] + "-" if ends_line else text
        place = _turned((left, bottom, right, top), turn)
        yield _Word(text, *map(_number, place), ends_line=ends_line)


def _turned(
    box: tuple[float, float, float, float], quarters: int
) -> tuple[float, float, float, float]:
    """Return a box as it stands once the page is turned so that its writing is upright."""
    left, bottom, right, top = box
    match quarters:
        case 1:
            return -top, left, -bottom, right
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return bottom, -right, top, -left
    return box


def _within(word: _Word, box: tuple[float, float, float, float]) -> bool:
    """Say whether a word can be seen: what stands beyond the borders of the page cannot."""
    left, bottom, right, top = box
    if not word.text:
        return True
    beyond = word.right < left - _EDGE or word.left > right + _EDGE
    return not (beyond or word.top < bottom - _EDGE or word.bottom > top + _EDGE)


def _pieces(words: list[_Word]) -> Iterator[Line]:
    """Give the pieces of lines: a line end divides them, and so does a wide gap."""
    piece: list[_Word] = []
    for word in words:
        if piece and (not word.text or _apart(piece[-1], word)):
            yield from _joined(piece)
            piece = []
        if word.text:
            piece.append(word)
            if word.ends_line:
                yield from _joined(piece)
                piece = []
    if piece:
        yield from _joined(piece)


def _apart(before: _Word, word: _Word) -> bool:
    height = max(before.top - before.bottom, word.top - word.bottom)
    gap = word.left - before.right
    if _runs_left(before.text) and _runs_left(word.text):
        gap = before.left - word.right
    return not -height < gap < _WIDE_GAP * height


def _runs_left(text: str) -> bool:
    """Say whether a word is of a script that is written from right to left."""
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def _joined(words: list[_Word]) -> Iterator[Line]:
    joined = " ".join(word.text for word in words)
    if joined.endswith(_SOFT_HYPHEN):
        joined = f"{joined[:-1]}-"
    text = " ".join(clean(joined).split())
    if not text:
        return
    usual = Counter(round(word.top - word.bottom, 1) for word in words).most_common(1)[0][0]
    first = next(word for word in words if round(word.top - word.bottom, 1) == usual)
    yield Line(
        text,
        min(word.left for word in words),
        max(word.right for word in words),
        first.bottom,
        first.top,
        words[0].right - words[0].left,
    )


def _number(value: float) -> float:
    """Return a place that can be compared: broken fonts have letters at places that are none."""
    return value if math.isfinite(value) else 0.0
