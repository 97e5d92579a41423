"""The words of a PDF page with their positions, joined into lines in reading order.

PDFium returns the characters of a page, with the spaces and line breaks it detects, and their
positions. Reading positions is the most expensive part, so only the first and the last character of
each word are located.
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

from truespan.text.clean import clean

MAX_SIDE = 2600
"""Maximum side in pixels of a picture whose text is recognised, as of an A4 page at 220 dpi; larger
ones are scaled down."""
_HYPHEN_AT_END = "\x02\ufffe"
"""PDFium writes this for a hyphen at the end of a line and the line break after it."""
_SOFT_HYPHEN = "\xad"
_WORD = re.compile(rf"[^\s{_HYPHEN_AT_END}]+[{_HYPHEN_AT_END}]?|[{_HYPHEN_AT_END}]|[\r\n]+")
_WIDE_GAP = 1.5
_Box = tuple[float, float, float, float]
_SAMPLES = 40
_EDGE = 2.0
_ACCENTS = {
    **dict.fromkeys("`ˋ", "\u0300"), **dict.fromkeys("´ˊ", "\u0301"),
    **dict.fromkeys("^ˆ", "\u0302"), **dict.fromkeys("~˜", "\u0303"),
    **dict.fromkeys("¯ˉ", "\u0304"), **dict.fromkeys("˚°", "\u030a"),
    "˘": "\u0306", "˙": "\u0307", "¨": "\u0308", "˝": "\u030b", "ˇ": "\u030c",
    "¸": "\u0327", "˛": "\u0328",
}  # fmt: skip
"""The accents that fonts have as characters of their own, and the marks that compose letters."""
_ACCENT = re.compile(f"[{''.join(map(re.escape, _ACCENTS))}]")
_MARKED = re.compile("[^\\W\\d_][\u0300-\u036f]+")
_DOTLESS = {"ı": "i", "ȷ": "j"}
_NOTHING = "\u2060"
"""Takes the place of an accent that became part of a letter; cleaning drops it."""
_COVERED = 0.6
"""Minimum overlap of an accent and its letter, as a share of the narrower one."""
_NEAR = 400
_MAX_LOST_ACCENTS = 100


class Line(NamedTuple):
    """A line or a part of one, upright. Heights grow upwards."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    first_width: float
    """The width of the first word, to check whether it had fitted on the line before."""
    pieces: tuple[str, ...] = ()
    """The texts that were joined across wide gaps, if there are several."""
    confidence: float | None = None
    """Confidence of OCR; None for text of the file."""
    spans: tuple[tuple[int, int], ...] = ()
    """Start and end of its characters on the page, by piece; empty for OCR."""

    @property
    def cells(self) -> int:
        """Number of pieces; a line of several pieces looks like a table row."""
        return len(self.pieces) or 1

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    def is_beside(self, other: Line) -> bool:
        shared = min(self.top, other.top) - max(self.bottom, other.bottom)
        return shared * 2 > min(self.height, other.height)


class _Word(NamedTuple):
    text: str
    left: float
    bottom: float
    right: float
    top: float
    ends_line: bool
    span: tuple[int, int] = (0, 0)


def read_lines(page: pdfium.PdfPage) -> tuple[list[Line], bool]:
    """Return the pieces of lines on a page in file order, and whether the page was rotated."""
    textpage = page.get_textpage()
    try:
        characters = read_characters(textpage)
        # The majority of a sample of characters determines the rotation in quarters.
        rotations: Counter[int] = Counter()
        for index in range(0, len(characters), max(1, len(characters) // _SAMPLES)):
            angle = raw.FPDFText_GetCharAngle(textpage, index)
            rotations[round(angle / (math.pi / 2)) % 4 if math.isfinite(angle) else 0] += 1
        rotation = rotations.most_common(1)[0][0] if rotations else 0
        characters = _compose_accents(textpage, characters, rotation)
        left, bottom, right, top = _rotate(page.get_bbox(), rotation)
        words = [
            word
            for word in _read_words(textpage, characters, rotation)
            # Words outside of the page are not visible.
            if not word.text
            or (
                (left - _EDGE <= word.right and word.left <= right + _EDGE)
                and (bottom - _EDGE <= word.top and word.bottom <= top + _EDGE)
            )
        ]
    finally:
        textpage.close()
    pieces: list[Line] = []
    piece: list[_Word] = []
    for word in words:
        if piece and (not word.text or _is_apart(piece[-1], word)):
            pieces += _join_words(piece)
            piece = []
        if word.text:
            piece.append(word)
            if word.ends_line:
                pieces += _join_words(piece)
                piece = []
    return pieces + (_join_words(piece) if piece else []), rotation != 0


def read_characters(textpage: pdfium.PdfTextPage) -> str:
    """Return exactly one character for each index of PDFium."""
    count = textpage.count_chars()
    if not count:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    written = raw.FPDFText_GetText(textpage, 0, count, buffer)
    text = bytes(buffer)[: 2 * max(written - 1, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) == count:
        return text
    # Characters of two units, or missing ones, shift the indexes, so each is read separately.
    codes = (raw.FPDFText_GetUnicode(textpage, index) for index in range(count))
    return "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)


def _compose_accents(textpage: pdfium.PdfTextPage, characters: str, rotation: int) -> str:
    """Compose accents with the letters below them, without changing the number of characters."""
    # TeX fonts have no "ä": the file draws an accent and then a letter below it. The accent of a
    # capital is raised, so PDFium may report it as a separate line. An accent beside other
    # characters stands for itself.
    if not _ACCENT.search(characters):
        return characters
    result = list(characters)
    lost = 0
    for found in _ACCENT.finditer(characters):
        place = found.start()
        mark, accent = _ACCENTS[found[0]], _read_box(textpage, place, rotation)
        beside = [i for i in (place + 1, place - 1) if 0 <= i < len(result)]
        letter = next((i for i in beside if _is_below(textpage, i, result, accent, rotation)), None)
        if letter is None and all(result[i].isspace() for i in beside):
            lost += 1
            near = range(max(0, place - _NEAR), min(place + _NEAR, len(result)))
            capitals = (i for i in near if lost <= _MAX_LOST_ACCENTS and result[i].isupper())
            letter = next(
                (i for i in capitals if _is_below(textpage, i, result, accent, rotation)), None
            )
        if letter is None:
            continue
        base = _DOTLESS.get(result[letter], result[letter])
        composed = unicodedata.normalize("NFC", base + mark)
        if len(composed) == 1:
            result[place], result[letter] = _NOTHING, composed
        elif letter in beside:
            first, second = sorted((place, letter))
            result[first], result[second] = base, mark
    return "".join(result)


def _is_below(
    textpage: pdfium.PdfTextPage, place: int, characters: list[str], accent: _Box, rotation: int
) -> bool:
    if not characters[place].isalpha() or characters[place] in _ACCENTS:
        return False
    letter = _read_box(textpage, place, rotation)
    height = letter[3] - letter[1]
    shared = min(letter[2], accent[2]) - max(letter[0], accent[0])
    narrower = min(letter[2] - letter[0], accent[2] - accent[0])
    return shared > 0 and shared >= _COVERED * narrower and abs(letter[1] - accent[1]) * 2 < height


def _read_box(textpage: pdfium.PdfTextPage, place: int, rotation: int) -> _Box:
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(textpage.raw, place, ctypes.byref(box))
    return _rotate((box.left, box.bottom, box.right, box.top), rotation)


def _read_words(textpage: pdfium.PdfTextPage, characters: str, rotation: int) -> Iterator[_Word]:
    box = raw.FS_RECTF()
    pointer = ctypes.byref(box)
    read_box = raw.FPDFText_GetLooseCharBox
    page = textpage.raw
    for found in _WORD.finditer(characters):
        text = found[0]
        if text[0] in "\r\n":
            yield _Word("", 0, 0, 0, 0, ends_line=True)
            continue
        read_box(page, found.start(), pointer)
        left, bottom, right, top = box.left, box.bottom, box.right, box.top
        if len(text) > 1:
            read_box(page, found.end() - 1, pointer)
            left, bottom = min(left, box.left), min(bottom, box.bottom)
            right, top = max(right, box.right), max(top, box.top)
        ends_line = text[-1] in _HYPHEN_AT_END
        text = text[:-1] + "-" if ends_line else text
        if rotation:
            left, bottom, right, top = _rotate((left, bottom, right, top), rotation)
        if not math.isfinite(left + bottom + right + top):
            # Broken fonts have positions that are not finite.
            position = (left, bottom, right, top)
            left, bottom, right, top = (
                value if math.isfinite(value) else 0.0 for value in position
            )
        yield _Word(
            text=text,
            left=left,
            bottom=bottom,
            right=right,
            top=top,
            ends_line=ends_line,
            span=found.span(),
        )


def _rotate(box: _Box, quarters: int) -> _Box:
    """Return a box on the page rotated so that its text is upright."""
    left, bottom, right, top = box
    match quarters:
        case 1:
            return -top, left, -bottom, right
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return bottom, -right, top, -left
    return box


def _is_apart(before: _Word, word: _Word) -> bool:
    height = max(before.top - before.bottom, word.top - word.bottom)
    gap = word.left - before.right
    if _is_right_to_left(before.text) and _is_right_to_left(word.text):
        gap = before.left - word.right
    return not -height < gap < _WIDE_GAP * height


def _is_right_to_left(text: str) -> bool:
    return not text.isascii() and any(
        unicodedata.bidirectional(char) in ("R", "AL") for char in text
    )


def _join_words(words: list[_Word]) -> list[Line]:
    """Join words to a piece of a line; empty if nothing visible is left."""
    joined = " ".join(word.text for word in words)
    if joined.endswith(_SOFT_HYPHEN):
        joined = f"{joined[:-1]}-"
    text = " ".join(clean(joined).split())
    if not text:
        return []
    if not text.isascii():
        text = _MARKED.sub(lambda found: unicodedata.normalize("NFC", found[0]), text)
    # In some fonts a word that begins or ends with a descender is higher.
    heights = Counter(round(word.top - word.bottom, 1) for word in words)
    often = max(heights.values()) / 2
    usual = min(height for height, count in heights.items() if count > often)
    first = next(word for word in words if round(word.top - word.bottom, 1) == usual)
    left, right = min(word.left for word in words), max(word.right for word in words)
    return [
        Line(
            text=text,
            left=left,
            right=right,
            bottom=first.bottom,
            top=first.top,
            first_width=words[0].right - words[0].left,
            spans=((words[0].span[0], words[-1].span[1]),),
        )
    ]


_FEW_JUMPS = 4
_JUMPS_SHARE = 0.1
_ROWS_ACROSS = 3
_LINES_OF_A_COLUMN = 4
_CHARS_OF_PROSE = 18
_FILLED = 0.6
_MAX_ACROSS = 0.3
_MAX_PIECES = 2000
"""Maximum number of pieces of a page for the search for columns, which is quadratic."""
_MAX_COLUMNS = 8


def sort_lines(pieces: Sequence[Line]) -> list[Line]:
    """Join the pieces of a page into lines in reading order."""
    # Sort by position if the order of the file jumps up and down the page, or often crosses the
    # gutter. Moving up and to the right leads to the next cell or column and does not count.
    jumps = sum(
        after.bottom > before.top and after.left < before.right
        for before, after in pairwise(pieces)
    )
    gutter = _find_gutter(pieces)
    across = gutter is not None and sum(
        before.right <= gutter <= after.left and after.is_beside(before)
        for before, after in pairwise(pieces)
    )
    if jumps > max(_FEW_JUMPS, _JUMPS_SHARE * len(pieces)) or across >= _ROWS_ACROSS:
        return list(sort_by_position(pieces))
    lines = _join_rows(pieces)
    if len(lines) < 3:
        return lines
    # Some programs write headers and footers first or last.
    if lines[-1].bottom > max(line.bottom for line in lines[:-1]):
        lines = [lines[-1], *lines[:-1]]
    if lines[0].top < min(line.top for line in lines[1:]):
        lines = [*lines[1:], lines[0]]
    return lines


def _join_rows(parts: Sequence[Line]) -> list[Line]:
    """Join adjacent pieces at the same height, as in a table row."""
    rows: list[Line] = []
    for piece in parts:
        before = rows[-1] if rows else None
        if before and piece.left >= before.right and piece.is_beside(before):
            bottom, top = min(before.bottom, piece.bottom), max(before.top, piece.top)
            text = f"{before.text} {piece.text}"
            pieces = (*(before.pieces or (before.text,)), *(piece.pieces or (piece.text,)))
            known = [c for c in (before.confidence, piece.confidence) if c is not None]
            rows[-1] = Line(
                text=text,
                left=before.left,
                right=piece.right,
                bottom=bottom,
                top=top,
                first_width=before.first_width,
                pieces=pieces,
                confidence=min(known, default=None),
                spans=before.spans + piece.spans,
            )
        else:
            rows.append(piece)
    return rows


def sort_by_position(pieces: Sequence[Line], depth: int = 0) -> Iterator[Line]:
    """Yield lines downwards, column by column; a line across the gutter ends both columns."""
    gutter = _find_gutter(pieces) if depth < _MAX_COLUMNS else None
    if gutter is None:
        rows: list[list[Line]] = []
        for piece in sorted(pieces, key=lambda piece: -piece.middle):
            if rows and piece.is_beside(rows[-1][0]):
                rows[-1].append(piece)
            else:
                rows.append([piece])
        yield from _join_rows([p for row in rows for p in sorted(row, key=lambda p: p.left)])
        return
    left: list[Line] = []
    right: list[Line] = []
    for piece in [*sorted(pieces, key=lambda piece: -piece.top), None]:
        if piece and piece.right <= gutter:
            left.append(piece)
        elif piece and piece.left >= gutter:
            right.append(piece)
        else:
            yield from sort_by_position(left, depth + 1)
            yield from sort_by_position(right, depth + 1)
            left, right = [], []
            if piece:
                yield piece


def _find_gutter(pieces: Sequence[Line]) -> float | None:
    """Return the middle of the widest gap between two columns of prose; None without columns."""
    # Columns of a table are not prose: their lines are short or leave much of their width empty.
    if not 2 * _LINES_OF_A_COLUMN <= len(pieces) <= _MAX_PIECES:
        return None
    # A gap begins where a piece ends and ends where another begins, so edges are enough.
    edges = sorted([(p.left, 1) for p in pieces] + [(p.right, -1) for p in pieces])
    best: tuple[float, float] | None = None
    crossing = 0
    for (start, change), (end, next_change) in pairwise(edges):
        crossing += change
        if not (change < 0 < next_change and end > start):
            continue
        middle = (start + end) / 2
        if crossing > _MAX_ACROSS * len(pieces):
            continue
        left = [piece for piece in pieces if piece.right <= middle]
        right = [piece for piece in pieces if piece.left >= middle]
        if not _is_prose(left) or not _is_prose(right):
            continue
        # The columns share at least half the height of the shorter one.
        left_top, left_bottom = max(p.top for p in left), min(p.bottom for p in left)
        right_top, right_bottom = max(p.top for p in right), min(p.bottom for p in right)
        shared = min(left_top, right_top) - max(left_bottom, right_bottom)
        is_gutter = shared * 2 >= min(left_top - left_bottom, right_top - right_bottom)
        if is_gutter and (best is None or end - start > best[0]):
            best = (end - start, middle)
    return best[1] if best else None


def _is_prose(column: Sequence[Line]) -> bool:
    if len(column) < _LINES_OF_A_COLUMN:
        return False
    width = max(piece.right for piece in column) - min(piece.left for piece in column)
    filled = median(piece.right - piece.left for piece in column)
    return filled >= _FILLED * width and median(len(p.text) for p in column) >= _CHARS_OF_PROSE
