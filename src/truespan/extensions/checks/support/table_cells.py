"""Cells of the tables in a passage: the row and column of a number or a name.

    City   | Rent | Deposit        headings
    Berlin | 300  | 900            label, cells

A claim about Berlin is not supported by a number of another row. A row matters if the claim
mentions a label, a column if it mentions a heading.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from truespan.text.tables import BAR, is_table

Words: TypeAlias = frozenset[str]
_LETTER = re.compile(r"[^\W\d_]")
_VALUE = re.compile(r"\d")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")


class Table(Struct, frozen=True):
    """Words of row labels and column headings, and the cells with numbers."""

    labels: tuple[Words, ...]
    headings: tuple[Words, ...]
    numeric: frozenset[tuple[int, int]]


class Claim(Struct, frozen=True):
    """Words of a claim, and the rows and columns that it mentions, computed once for a table."""

    words: Words
    _rows: dict[int, set[int]] = field(default_factory=dict)
    _columns: dict[int, set[int]] = field(default_factory=dict)

    def rows(self, table: Table) -> set[int]:
        if id(table) not in self._rows:
            self._rows[id(table)] = _mentioned(table.labels, self.words)
        return self._rows[id(table)]

    def columns(self, table: Table) -> set[int]:
        if id(table) not in self._columns:
            self._columns[id(table)] = _mentioned(table.headings, self.words)
        return self._columns[id(table)]


class Cell(Struct, frozen=True):
    """A cell that is neither a heading nor a row label."""

    table: Table
    row: int
    column: int

    @property
    def words(self) -> Words:
        """Return the words of the row's label and of the column's heading."""
        headings = self.table.headings
        heading = headings[self.column] if self.column < len(headings) else frozenset[str]()
        return self.table.labels[self.row] | heading

    def fits_row(self, claim: Claim) -> bool:
        """Return whether a claim is about this row, or mentions no row."""
        rows = claim.rows(self.table)
        return not rows or self.row in rows

    def fits_column(self, claim: Claim) -> bool:
        """Return whether a claim is about this column, or mentions no column with numbers."""
        columns = claim.columns(self.table)
        numeric = {column for column in columns if (self.row, column) in self.table.numeric}
        return not numeric or self.column in numeric


class TableCells(Struct, frozen=True):
    """Cells of a text by their offset; None for headings, labels and text between tables."""

    starts: tuple[int, ...]
    cells: tuple[Cell | None, ...]
    headings: Words
    """Words of all column headings."""

    def at(self, offset: int) -> Cell | None:
        place = bisect_right(self.starts, offset) - 1
        return self.cells[place] if place >= 0 else None


def find_cells(text: str, words_of: Callable[[str], Words]) -> TableCells:
    """Return the cells of the tables in a text; `words_of` returns the words of a cell."""
    found: list[tuple[int, Cell | None]] = []
    headings: Words = frozenset()
    start = 0
    for paragraph in text.split("\n\n") if "|" in text else ():
        lines = paragraph.split("\n")
        if is_table(lines):
            rows = [list(_split_row(line)) for line in lines]
            table, first = _read_table(rows, words_of)
            headings = headings.union(*table.headings)
            found += _place_cells(rows, table, first, start)
        found.append((start + len(paragraph), None))
        start += len(paragraph) + 2
    return TableCells(
        tuple(place for place, _ in found), tuple(cell for _, cell in found), headings
    )


def _split_row(line: str) -> Iterator[tuple[int, str]]:
    start = 0
    for bar in BAR.finditer(line):
        yield start, line[start : bar.start()]
        start = bar.end()
    yield start, line[start:]


def _read_table(
    rows: Sequence[Sequence[tuple[int, str]]], words_of: Callable[[str], Words]
) -> tuple[Table, int]:
    """Return the table and its first row after the header."""
    header = [cell for _, cell in rows[0]]
    is_header = len(header) > 1 and not any(
        _VALUE.search(cell) and not _YEAR.fullmatch(cell.strip()) for cell in header[1:]
    )
    first = int(is_header)
    headings = tuple(map(words_of, header)) if is_header else ()
    labels = tuple(words_of(row[_label_of(row)][1]) for row in rows)
    numeric = frozenset(
        (place, column)
        for place, row in enumerate(rows)
        for column, (_, cell) in enumerate(row)
        if _VALUE.search(cell)
    )
    return Table(labels, (frozenset(), *headings[1:]), numeric), first


def _label_of(row: Sequence[tuple[int, str]]) -> int:
    """Return the column of a row label: the first cell with a letter."""
    return next((place for place, (_, cell) in enumerate(row) if _LETTER.search(cell)), 0)


def _place_cells(
    rows: Sequence[Sequence[tuple[int, str]]], table: Table, first: int, start: int
) -> Iterator[tuple[int, Cell | None]]:
    for place, row in enumerate(rows):
        label = _label_of(row)
        for column, (begin, _) in enumerate(row):
            is_value = place >= first and column != label
            yield start + begin, Cell(table, place, column) if is_value else None
        start += row[-1][0] + len(row[-1][1]) + 1


def _mentioned(names: Sequence[Words], claim: Words) -> set[int]:
    """Return the names that a claim mentions: by words that no other name has, else by any word."""
    counts = Counter(word for name in set(names) for word in name)
    shared = {place for place, name in enumerate(names) if name & claim}
    own = {place for place in shared if any(counts[word] == 1 for word in names[place] & claim)}
    return own or shared
