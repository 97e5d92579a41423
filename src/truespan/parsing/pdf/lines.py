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
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from truespan.parsing.clean import clean

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


_FEW_JUMPS = 4
_JUMPS_SHARE = 0.1
_ROWS_ACROSS = 3
_LINES_OF_A_COLUMN = 4
_CHARS_OF_PROSE = 18
_FILLED = 0.6
_MOST_ACROSS = 0.3
_MOST_PIECES = 2000
"""A page with more is no page that somebody reads; looking for columns on it would take long."""
_MOST_COLUMNS = 8


def in_reading_order(pieces: Sequence[Line]) -> list[Line]:
    """Return the lines of a page in the order in which they are read."""
    gutter = _gutter(pieces)
    if _jumps_about(pieces) or (gutter is not None and _goes_across(pieces, gutter)):
        return list(_by_place(pieces))
    return _margins_outside(_rows(pieces))


def _rows(pieces: Sequence[Line]) -> list[Line]:
    """Join neighbours that stand side by side into one line, as in the row of a table."""
    rows: list[Line] = []
    for piece in pieces:
        if rows and piece.left >= rows[-1].right and piece.beside(rows[-1]):
            rows[-1] = _order_joined(rows[-1], piece)
        else:
            rows.append(piece)
    return rows


def _order_joined(before: Line, after: Line) -> Line:
    bottom, top = min(before.bottom, after.bottom), max(before.top, after.top)
    text, cells = f"{before.text} {after.text}", before.cells + after.cells
    return Line(text, before.left, after.right, bottom, top, before.first_width, cells)


def _margins_outside(lines: list[Line]) -> list[Line]:
    """Put a line first that stands above all others, and last that stands below them.

    Some programs write what stands in the margins before or after everything else.
    """
    if len(lines) < 3:
        return lines
    highest = max(line.bottom for line in lines[:-1])
    if lines[-1].bottom > highest:
        lines = [lines[-1], *lines[:-1]]
    lowest = min(line.top for line in lines[1:])
    if lines[0].top < lowest:
        lines = [*lines[1:], lines[0]]
    return lines


def _jumps_about(pieces: Sequence[Line]) -> bool:
    """Say whether the file shows its lines in an order in which nobody reads."""
    jumps = sum(after.bottom > before.top for before, after in pairwise(pieces))
    return jumps > max(_FEW_JUMPS, _JUMPS_SHARE * len(pieces))


def _goes_across(pieces: Sequence[Line], gutter: float) -> bool:
    """Say whether line after line is followed by its neighbour beyond the gutter."""
    across = sum(
        before.right <= gutter <= after.left and after.beside(before)
        for before, after in pairwise(pieces)
    )
    return across >= _ROWS_ACROSS


def _by_place(pieces: Sequence[Line], depth: int = 0) -> Iterator[Line]:
    """Give lines from top to bottom; where there are columns, one after the other.

    A line that crosses the gutter, as a heading does, ends the columns above it.
    """
    gutter = _gutter(pieces) if depth < _MOST_COLUMNS else None
    if gutter is None:
        yield from _rows(_sorted_by_row(pieces))
        return
    columns: tuple[list[Line], list[Line]] = ([], [])
    for piece in sorted(pieces, key=lambda piece: -piece.top):
        if piece.right <= gutter:
            columns[0].append(piece)
        elif piece.left >= gutter:
            columns[1].append(piece)
        else:
            yield from _columns(columns, depth + 1)
            columns = ([], [])
            yield piece
    yield from _columns(columns, depth + 1)


def _columns(columns: tuple[list[Line], list[Line]], depth: int) -> Iterator[Line]:
    for column in columns:
        yield from _by_place(column, depth)


def _sorted_by_row(pieces: Sequence[Line]) -> list[Line]:
    """Sort from top to bottom, and what stands at one height from left to right."""
    rows: list[list[Line]] = []
    for piece in sorted(pieces, key=lambda piece: -piece.middle):
        if rows and piece.beside(rows[-1][0]):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return [piece for row in rows for piece in sorted(row, key=lambda piece: piece.left)]


def _gutter(pieces: Sequence[Line]) -> float | None:
    """Return where the gap between two columns of prose lies; None when there are none.

    Columns of a table are not prose: their lines are short, or leave much of their width empty.
    """
    if not 2 * _LINES_OF_A_COLUMN <= len(pieces) <= _MOST_PIECES:
        return None
    best: tuple[float, float] | None = None
    for left, right, crossing in _gaps(pieces):
        middle = (left + right) / 2
        if crossing > _MOST_ACROSS * len(pieces) or not _divides(pieces, middle):
            continue
        if best is None or right - left > best[0]:
            best = (right - left, middle)
    return best[1] if best else None


def _gaps(pieces: Sequence[Line]) -> Iterator[tuple[float, float, int]]:
    """Give each stretch of the width that few pieces cross, with how many do.

    Only where a piece ends and the next begins can a gap be, so the edges are all there is to try.
    """
    edges = sorted(
        [(piece.left, 1) for piece in pieces] + [(piece.right, -1) for piece in pieces],
        key=lambda edge: (edge[0], edge[1]),
    )
    covering = 0
    for (place, change), (following, next_change) in pairwise(edges):
        covering += change
        if change < 0 < next_change and following > place:
            yield place, following, covering


def _divides(pieces: Sequence[Line], gutter: float) -> bool:
    left = [piece for piece in pieces if piece.right <= gutter]
    right = [piece for piece in pieces if piece.left >= gutter]
    return _is_prose(left) and _is_prose(right) and _side_by_side(left, right)


def _is_prose(column: Sequence[Line]) -> bool:
    if len(column) < _LINES_OF_A_COLUMN:
        return False
    width = max(piece.right for piece in column) - min(piece.left for piece in column)
    filled = median(piece.right - piece.left for piece in column)
    return filled >= _FILLED * width and median(len(p.text) for p in column) >= _CHARS_OF_PROSE


def _side_by_side(left: Sequence[Line], right: Sequence[Line]) -> bool:
    """Say whether two columns share at least half the height of the shorter one."""
    left_top, left_bottom = max(p.top for p in left), min(p.bottom for p in left)
    right_top, right_bottom = max(p.top for p in right), min(p.bottom for p in right)
    shared = min(left_top, right_top) - max(left_bottom, right_bottom)
    return shared * 2 >= min(left_top - left_bottom, right_top - right_bottom)
