"""Spreadsheets: each sheet is a chapter with tables of displayed cell values.

`layout` divides the filled cells of a sheet into tables and lines of text. Formulas have their
stored results. Hidden sheets, rows and columns are left out unless requested.

Adjacent cells, also across hidden rows and columns, belong together. A blank row ends a table. A
blank column does if the right side has its own row labels, since blank columns are also used for
spacing. A short line above a table is its title and the section.

Rows are processed in order, and no row changes the result for the rows before it. So a title is the
section of the rows after it, once one of them confirms it: a row of several cells, a sentence, or
any row after a blank row. A row has a blank cell for each column used so far. Whether tables are
side by side is decided by the first row of the right table and the row below it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, field

from truespan.types.text import Block, BlockKind, PageStart


class Row(NamedTuple):
    """A row with filled cells. `order` is its number without hidden rows."""

    number: int
    order: int
    columns: tuple[int, ...]
    """Columns of the cells, ascending from 0; rows of the same shape share the tuple."""
    cells: Sequence[str]


class Area(NamedTuple):
    """A rectangle of cells: rows from 1, columns from 0, both ends included."""

    top: int
    left: int
    bottom: int
    right: int


class Note(NamedTuple):
    """A comment, a text box or a chart at a cell."""

    row: int
    column: int
    text: str


class Sheet(Struct):
    """The content of one sheet."""

    name: str
    rows: list[Row] = field(default_factory=list)
    hidden_columns: frozenset[int] = frozenset()
    merged: list[Area] = field(default_factory=list)
    headers: list[Area] = field(default_factory=list)
    """Header rows of tables declared by the workbook."""
    frozen_rows: int = 0
    """Number of frozen rows at the top."""
    comments: list[Note] = field(default_factory=list)
    boxes: list[Note] = field(default_factory=list)


def column_name(column: int) -> str:
    """Return the letters of a column."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")


def column_index(letters: str) -> int:
    """Return the index of a column by its letters, from 0."""
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - 64
    return index - 1


def read_area(reference: str) -> Area | None:
    """Parse a reference such as `A1:F9`; None if it is invalid."""
    first, _, last = reference.partition(":")
    start, end = REFERENCE.fullmatch(first), REFERENCE.fullmatch(last or first)
    if not start or not end:
        return None
    return Area(
        int(start[2]), column_index(start[1].upper()), int(end[2]), column_index(end[1].upper())
    )


def layout(sheet: Sheet) -> list[Block]:
    """Return the blocks of a sheet in reading order."""
    writer = _Writer(sheet)
    boxes = sorted(sheet.boxes)
    regions = list(_split_rows(sheet.rows))
    for region in regions:
        while boxes and boxes[0].row < region[0].number:
            writer.add_box(boxes.pop(0))
        writer.add_region(region, _MAX_DEPTH)
        writer.add_comments(region[-1].number)
    for box in boxes:
        writer.add_box(box)
    writer.add_comments(None)
    return writer.blocks


_MAX_DEPTH = 3
"""Maximum number of times a region is divided by columns and rows, which bounds the time."""
_MAX_TITLE_LENGTH = 120
_MAX_ENTRY_LENGTH = 80
"""Maximum length of list entries; a column of longer texts is prose."""
_MAX_HEADERS = 5
_MAX_PARTS = 40
"""Maximum number of tables side by side; further columns belong to the last table."""
_MAX_MERGED = 200
"""Maximum number of merged cells of a row that are considered."""
_MAX_BLANK = 20
"""Maximum number of blank cells for each filled cell so far; with more, blanks are left out."""
_FREE_BLANK = 100_000
_USUAL_NAME = re.compile(
    r"(?:Sheet|Tabelle|Feuil|Feuille|Hoja|Foglio|Planilha|Folha|Blad|Ark|Arkusz|List|Munka|Лист"
    r"|Taul|Sayfa|シート|工作表|시트)[ _]?[0-9]+",
    re.IGNORECASE,
)
"""Default sheet names."""
_YEAR = re.compile(r"(?:19|20|21)[0-9]{2}")
_QUANTITY = re.compile(r"[^\w%]*[0-9][0-9.,:'\s/%E+-]*[^\w]{0,3}%?|#[A-Z/0!?]+|TRUE|FALSE")
_LINE_BREAK = re.compile(r"(?<!\s)\s*[\n\r\v\f\u2028\u2029]\s*+")
_SENTENCE = re.compile(r"[.!?:;,。！？…]$")


def _split_rows(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for index in range(1, len(rows)):
        if rows[index].order != rows[index - 1].order + 1:
            yield rows[start:index]
            start = index
    if rows:
        yield rows[start:]


class _Writer:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._section: str | None = None
        self._title: str | None = None
        """Last short line, which may be the title of the following rows."""
        self._titled = False
        """Whether the section or title applies to the next rows after a blank row."""
        self._comments = sorted(sheet.comments, reverse=True)
        self._wide: dict[int, list[Area]] = {}
        for area in sheet.merged:
            if area.right > area.left:
                areas = self._wide.setdefault(area.top, [])
                if len(areas) < _MAX_MERGED:
                    areas.append(area)
        self._headers = {(area.top, area.left): area for area in sheet.headers}
        self.blocks: list[Block] = []
        if not _USUAL_NAME.fullmatch(sheet.name) and sheet.name.strip():
            # The name of a sheet is not in a cell.
            pages = (PageStart(0, 0, "row A:A"),)
            self.blocks.append(Block(BlockKind.HEADING, sheet.name, sheet.name, pages=pages))

    def add_region(self, rows: Sequence[Row], depth: int) -> None:
        """Write consecutive rows, divided by columns and again by rows."""
        if not self._titled:
            self._section = self._title = None
        self._confirm_title()
        start = next((at for at, row in enumerate(rows) if len(row.columns) > 1), len(rows))
        self._add_lines(rows[:start])
        if start == len(rows):
            return
        self._confirm_title()
        starts = self._find_starts(rows[start:]) if depth else []
        if len(starts) > 1:
            # Tables side by side share at most one title above all of them.
            section = self._section
            for part in _divide_columns(rows[start:], starts):
                for region in _split_rows(part):
                    self._section, self._titled = section, section is not None
                    self.add_region(region, depth - 1)
        else:
            self._add_rows(rows[start:])
        self._titled = False

    def _confirm_title(self) -> None:
        if self._title is not None:
            self._section, self._title = self._title, None

    def _add_lines(self, rows: Sequence[Row]) -> None:
        """Write rows of one cell each: a title, lines of text, or the entries of a list."""
        entries: list[Row] = []
        for index, row in enumerate(rows):
            text = row.cells[0]
            if index == 0 and _may_be_title(text):
                self._title, self._titled = _LINE_BREAK.sub(" ", text), True
                entries.append(row)
            elif len(text) > _MAX_ENTRY_LENGTH or _SENTENCE.search(text):
                self._add_entries(entries)
                entries = []
                self._confirm_title()
                self._add_text(BlockKind.PARAGRAPH, row)
            else:
                entries.append(row)
        self._add_entries(entries)
        if self._title is not None and len(entries) > 1:
            # The first entry of a list is not the title of rows after a blank row.
            self._titled = False

    def _add_entries(self, rows: Sequence[Row]) -> None:
        if len(rows) == 1 and self._title is not None:
            self._add_text(BlockKind.HEADING, rows[0])
        elif rows:
            self._add_table(rows, 0)

    def _find_starts(self, rows: Sequence[Row]) -> list[int]:
        """Return the first column of each of the tables side by side."""
        hidden = self._sheet.hidden_columns
        right = rows[0].columns[0]
        starts = [right]
        for row, below in pairwise(rows):
            if row.columns[-1] <= right or len(starts) == _MAX_PARTS:
                continue
            new = sorted({column for column in row.columns + below.columns if column > right})
            for group in _group_columns(new, hidden):
                if group[0] > row.columns[-1]:
                    break
                is_apart = any(between not in hidden for between in range(right + 1, group[0]))
                if is_apart and right > starts[-1] and _stands_alone(row, below, group):
                    starts.append(group[0])
                right = group[-1]
        return starts

    def _add_rows(self, rows: Sequence[Row]) -> None:
        """Write rows as tables. A line of text or a declared header ends a table."""
        table: list[Row] = []
        for row in rows:
            area = self._headers.get((row.number, row.columns[0]))
            is_remark = _is_remark(row, rows[0])
            if table and (is_remark or (area and area.right >= row.columns[-1])):
                self._add_table(table, self._count_headers(table))
                table = []
            if is_remark:
                self._add_text(BlockKind.PARAGRAPH, row)
            else:
                table.append(row)
        if table:
            self._add_table(table, self._count_headers(table))

    def _add_text(self, kind: BlockKind, row: Row) -> None:
        column = column_name(row.columns[0])
        text = row.cells[0] if kind is BlockKind.PARAGRAPH else _LINE_BREAK.sub(" ", row.cells[0])
        start = PageStart(0, row.number, f"row {column}:{column_name(row.columns[-1])}")
        self.blocks.append(Block(kind, text, self._sheet.name, self._section, pages=(start,)))

    def _count_headers(self, rows: Sequence[Row]) -> int:
        top, most = rows[0], min(_MAX_HEADERS, len(rows) - 1)
        area = self._headers.get((top.number, top.columns[0]))
        if area:
            count = area.bottom - area.top + 1
            return min(sum(row.number <= area.bottom for row in rows[:count]), len(rows))
        frozen = sum(row.number <= self._sheet.frozen_rows for row in rows[: _MAX_HEADERS + 1])
        if 0 < frozen <= _MAX_HEADERS:
            return min(frozen, most)
        count = 0
        while count < most:
            row = rows[count]
            if not _may_head(row):
                break
            count += 1
            if row.number not in self._wide:
                break
        if count != 1:
            return count
        # The row below must not be wider, except for the empty corner above its label.
        columns = {*top.columns, *rows[1].columns}
        return int(columns - self._spanned(top) <= {min(columns)} and len(columns) > 1)

    def _spanned(self, row: Row) -> set[int]:
        """Return the columns of a row and those that merged cells cover up to the next cell."""
        columns = {*row.columns}
        for area in self._wide.get(row.number, ()):
            if area.left in columns:
                after = bisect_right(row.columns, area.left)
                stop = row.columns[after] if after < len(row.columns) else area.left + 1
                columns.update(range(area.left, min(area.right + 1, stop)))
        return columns

    def _add_table(self, rows: Sequence[Row], header_rows: int) -> None:
        used: list[int] = []
        first = rows[0].columns[0]
        if first and any(area.left == first for area in self._wide.get(rows[0].number, ())):
            # The row labels are below the empty corner beside a merged cell.
            used.append(first - 1)
        slots: dict[tuple[int, ...], list[int]] = {}
        cells = filled = 0
        lines: list[str] = []
        pages: list[PageStart] = []
        left = right = first
        unit = ""
        offset = 0
        for row in rows:
            shape = row.columns
            # Only as wide as the rows so far, so that a label does not depend on later rows.
            if not unit or shape[0] < left or shape[-1] > right:
                left, right = min(left, shape[0]), max(right, shape[-1])
                unit = f"row {column_name(left)}:{column_name(right)}"
            if shape not in slots or row.number in self._wide:
                if _insert(used, sorted(self._spanned(row))):
                    slots.clear()
                slots[shape] = [bisect_left(used, column) for column in shape]
            slot = slots[shape]
            cells, filled = cells + slot[-1] + 1, filled + len(slot)
            if slot[-1] == len(slot) - 1 or cells > _MAX_BLANK * filled + _FREE_BLANK:
                line = " | ".join(row.cells)
            else:
                texts = [""] * (slot[-1] + 1)
                for place, text in zip(slot, row.cells, strict=True):
                    texts[place] = text
                line = " | ".join(texts)
            if "\n" in line or "\r" in line:
                line = _LINE_BREAK.sub(" ", line)
            pages.append(PageStart(offset, row.number, unit))
            lines.append(line)
            offset += len(line) + 1
        self.blocks.append(
            Block(
                BlockKind.TABLE,
                "\n".join(lines),
                self._sheet.name,
                self._section,
                pages=tuple(pages),
                header_rows=header_rows,
            )
        )

    def add_comments(self, last: int | None) -> None:
        """Write the comments of cells up to a row."""
        while self._comments and (last is None or self._comments[-1].row <= last):
            note = self._comments.pop()
            column = column_name(note.column)
            start = PageStart(0, note.row, f"row {column}:{column}")
            text = f"{column}{note.row}: {note.text}"
            self.blocks.append(
                Block(BlockKind.FOOTNOTE, text, self._sheet.name, self._section, pages=(start,))
            )

    def add_box(self, box: Note) -> None:
        """Write the text of a box or the titles of a chart."""
        column = column_name(box.column)
        start = PageStart(0, box.row, f"row {column}:{column}")
        self._titled = False
        self.blocks.append(
            Block(BlockKind.PARAGRAPH, box.text, self._sheet.name, None, pages=(start,))
        )


def _insert(used: list[int], columns: Sequence[int]) -> bool:
    """Add columns to the used ones; return whether one precedes a used column."""
    moved = False
    for column in columns:
        at = bisect_left(used, column)
        if at == len(used):
            used.append(column)
        elif used[at] != column:
            used.insert(at, column)
            moved = True
    return moved


def _group_columns(columns: Sequence[int], hidden: frozenset[int]) -> list[list[int]]:
    """Group columns that are adjacent or separated only by hidden columns."""
    groups: list[list[int]] = []
    for column in columns:
        last = groups[-1][-1] if groups else column - 2
        if groups and all(between in hidden for between in range(last + 1, column)):
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _stands_alone(row: Row, below: Row, group: Sequence[int]) -> bool:
    """Return whether columns have a header and, in the row below, a row label."""
    start = bisect_left(row.columns, group[0])
    texts = row.cells[start : bisect_right(row.columns, group[-1])]
    label = bisect_left(below.columns, group[0])
    if len(group) < 2 or not texts or any(map(_is_quantity, texts)):
        return False
    has_label = label < len(below.columns) and below.columns[label] == group[0]
    return has_label and not _is_quantity(below.cells[label])


def _divide_columns(rows: Sequence[Row], starts: Sequence[int]) -> list[list[Row]]:
    """Return the rows of each table that starts at one of the columns."""
    divided: list[list[Row]] = [[] for _ in starts]
    cuts: dict[tuple[int, ...], list[tuple[int, int, int, tuple[int, ...]]]] = {}
    for row in rows:
        shape = row.columns
        if shape not in cuts:
            cuts[shape] = _cut(shape, starts)
        for part, start, end, columns in cuts[shape]:
            divided[part].append(Row(row.number, row.order, columns, row.cells[start:end]))
    return divided


def _cut(
    shape: tuple[int, ...], starts: Sequence[int]
) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """Return the division of the cells of a shape among parts that start at the columns."""
    pieces: list[tuple[int, int, int, tuple[int, ...]]] = []
    begin = 0
    for part in range(len(starts)):
        end = begin
        limit = starts[part + 1] if part + 1 < len(starts) else None
        while end < len(shape) and (limit is None or shape[end] < limit):
            end += 1
        if end > begin:
            pieces.append((part, begin, end, shape[begin:end]))
        begin = end
    return pieces


def _is_quantity(text: str) -> bool:
    """Return whether a cell is a number, a date, a boolean or an error."""
    return bool(_QUANTITY.fullmatch(text))


def _may_be_title(text: str) -> bool:
    is_short = len(text) <= _MAX_TITLE_LENGTH
    return is_short and not _SENTENCE.search(text) and not _is_quantity(text)


def _may_head(row: Row) -> bool:
    """Return whether a row may be a table header: names and years only."""
    named = sum(not _is_quantity(text) for text in row.cells)
    years = sum(bool(_YEAR.fullmatch(text)) for text in row.cells)
    return named + years == len(row.cells) and (named > 0 or years > 1)


def _is_remark(row: Row, top: Row) -> bool:
    """Return whether a row of a table is a line of text."""
    if len(row.cells) > 1 or row.columns[0] > top.columns[0] or len(top.cells) < 2:
        return False
    text = row.cells[0]
    return len(text) > _MAX_ENTRY_LENGTH or (len(text.split()) > 3 and bool(_SENTENCE.search(text)))
