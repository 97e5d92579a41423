"""The order in which the lines of a PDF page are read.

The programs that make such files write their text in reading order nearly always, columns one after
the other. So that order is kept, unless the page speaks against it: it jumps about, or it goes
through two columns of prose row by row. Then the places decide, column by column from the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from truespan.ingest.load.pdf.lines import Line

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
            rows[-1] = _joined(rows[-1], piece)
        else:
            rows.append(piece)
    return rows


def _joined(before: Line, after: Line) -> Line:
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
