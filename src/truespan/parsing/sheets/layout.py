"""From the filled cells of a sheet to blocks: tables, their titles, and lines of text.

Cells that touch, or that only hidden rows and columns divide, belong together. A blank row ends a
table, and a blank column does where the right side has row labels of its own: a column that is left
blank for looks divides nothing. A short line above a table is its title and names the section.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from truespan.types.text import Block, BlockKind, PageStart


class Row(NamedTuple):
    """A row with filled cells. `order` is its number without the hidden rows before it."""

    number: int
    order: int
    columns: tuple[int, ...]
    """The columns of the cells, from 0, ascending; rows of the same shape share the tuple."""
    cells: Sequence[str]


class Area(NamedTuple):
    """A rectangle of cells: rows from 1, columns from 0, both ends included."""

    top: int
    left: int
    bottom: int
    right: int


class Note(NamedTuple):
    """A comment of a cell, or a text box or chart that begins at a cell."""

    row: int
    column: int
    text: str


class Sheet(Struct):
    """What a reader found in one sheet."""

    name: str
    rows: list[Row] = field(default_factory=list)
    hidden_columns: frozenset[int] = frozenset()
    merged: list[Area] = field(default_factory=list)
    headers: list[Area] = field(default_factory=list)
    """The rows that the workbook declares to be headers of tables."""
    frozen_rows: int = 0
    """How many rows stay visible when the sheet is scrolled."""
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
    """Return the number of a column by its letters, from 0."""
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - 64
    return index - 1


def read_area(reference: str) -> Area | None:
    """Return the cells of a reference such as `A1:F9`; None if it is none."""
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
        writer.add_region(region, _DEEPEST)
        writer.add_comments(region[-1].number)
    for box in boxes:
        writer.add_box(box)
    writer.add_comments(None)
    return writer.blocks


_DEEPEST = 3
"""How often a region is divided again, by columns and by rows: more would not be linear."""
_LONGEST_TITLE = 120
_LONGEST_ENTRY = 80
"""A column of longer texts is prose."""
_MOST_HEADERS = 5
_SAMPLE = 12
"""How many rows decide what a table looks like."""
_MOST_PARTS = 40
"""More groups of columns than this are the columns of one table."""
_MOST_MERGED = 200
"""How many merged cells of a row are considered."""
_MOST_BLANK = 20
"""How many blank cells a table may have for each filled one; else its blanks are left out."""
_FREE_BLANK = 100_000
_USUAL_NAME = re.compile(
    r"(?:Sheet|Tabelle|Feuil|Feuille|Hoja|Foglio|Planilha|Folha|Blad|Ark|Arkusz|List|Munka|Лист"
    r"|Taul|Sayfa|シート|工作表|시트)[ _]?[0-9]+",
    re.IGNORECASE,
)
"""The names that programs give, which say nothing."""
_YEAR = re.compile(r"(?:19|20|21)[0-9]{2}")
_QUANTITY = re.compile(r"[^\w%]*[0-9][0-9.,:'\s/%E+-]*[^\w]{0,3}%?|#[A-Z/0!?]+|TRUE|FALSE")
_LINE_BREAK = re.compile(r"\s*[\n\r\v\f\u2028\u2029]\s*")
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
        self._titled = False
        """Whether the last thing written was a title, so that it belongs to what follows."""
        self._comments = sorted(sheet.comments, reverse=True)
        self._wide: dict[int, list[Area]] = {}
        for area in sheet.merged:
            if area.right > area.left:
                areas = self._wide.setdefault(area.top, [])
                if len(areas) < _MOST_MERGED:
                    areas.append(area)
        self._headers = {(area.top, area.left): area for area in sheet.headers}
        self.blocks: list[Block] = []
        if not _USUAL_NAME.fullmatch(sheet.name) and sheet.name.strip():
            self.blocks.append(Block(BlockKind.HEADING, sheet.name, sheet.name))

    def add_region(self, rows: Sequence[Row], depth: int) -> None:
        """Write rows that follow each other, divided by columns and again by rows."""
        parts = self._split_columns(rows) if depth else []
        if len(parts) > 1:
            # What stands side by side has one heading at most, which is above all of it.
            section = self._section if self._titled else None
            for part in parts:
                for region in _split_rows(part):
                    self._section, self._titled = section, section is not None
                    self.add_region(region, depth - 1)
            return
        if not self._titled:
            self._section = None
        start = self._count_lines(rows)
        for index in range(start):
            self._add_line(rows[index], first=index == 0)
        end = len(rows)
        while end > start + 1 and _is_remark(rows[end - 1], rows[start]):
            end -= 1
        if start < end:
            self._add_tables(rows[start:end])
            self._titled = False
        for row in rows[end:]:
            self._add_text(BlockKind.PARAGRAPH, row)

    def _split_columns(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Return the rows of each table that stands beside another; one part if there is none."""
        shapes = Counter(row.columns for row in rows)
        used = sorted({column for shape in shapes for column in shape})
        hidden = self._sheet.hidden_columns
        groups: list[list[int]] = []
        previous = -2
        for column in used:
            if groups and all(between in hidden for between in range(previous + 1, column)):
                groups[-1].append(column)
            else:
                groups.append([column])
            previous = column
        if not 2 <= len(groups) <= _MOST_PARTS or len(rows) < 2:
            return []
        parts = [groups[0]]
        for group in groups[1:]:
            if len(parts[-1]) > 1 and len(group) > 1 and self._stands_alone(rows, group):
                parts.append(group)
            else:
                parts[-1] = parts[-1] + group
        if len(parts) < 2:
            return []
        starts = [part[0] for part in parts]
        divided: list[list[Row]] = [[] for _ in parts]
        cuts: dict[tuple[int, ...], list[tuple[int, int, int, tuple[int, ...]]]] = {}
        for row in rows:
            shape = row.columns
            if shape not in cuts:
                cuts[shape] = _cut(shape, starts)
            for part, start, end, columns in cuts[shape]:
                divided[part].append(Row(row.number, row.order, columns, row.cells[start:end]))
        return divided

    def _stands_alone(self, rows: Sequence[Row], group: Sequence[int]) -> bool:
        """Return whether columns have a header and labels of their own, as a table has."""
        labels: list[str] = []
        headed = False
        for row in rows[: _SAMPLE * 10]:
            start = bisect_left(row.columns, group[0])
            texts = row.cells[start : bisect_right(row.columns, group[-1])]
            if texts and not headed:
                headed = True
                if any(map(_is_quantity, texts)):
                    return False
            elif texts and row.columns[start] == group[0]:
                labels.append(texts[0])
        words = sum(not _is_quantity(label) for label in labels)
        return bool(labels) and words * 2 > len(labels)

    def _count_lines(self, rows: Sequence[Row]) -> int:
        """Return how many rows at the beginning are titles or lines of text, above a table."""
        wide = next((index for index, row in enumerate(rows) if len(row.columns) > 1), None)
        if wide is None:
            entries = len(rows) > 1 and len({row.columns for row in rows}) == 1
            return 0 if entries and not self._is_prose(rows) else len(rows)
        below = rows[wide]
        for index in range(wide):
            column, text = rows[index].columns[0], rows[index].cells[0]
            if column <= below.columns[0]:
                if _is_quantity(text):
                    return index
                continue
            # Above the middle: the title of a table, if it is merged across most of it.
            merged = [
                area for area in self._wide.get(rows[index].number, ()) if area.left == column
            ]
            if not merged or (merged[0].right - column + 1) * 2 <= len(below.columns):
                return index
        return wide

    def _is_prose(self, rows: Sequence[Row]) -> bool:
        """Return whether a single column holds text to read rather than the entries of a list."""
        sample = rows[: _SAMPLE * 4]
        long = sum(
            len(row.cells[0]) > _LONGEST_ENTRY or bool(_SENTENCE.search(row.cells[0]))
            for row in sample
        )
        return long * 3 >= len(sample)

    def _add_line(self, row: Row, *, first: bool) -> None:
        text = row.cells[0]
        is_title = (
            first
            and len(text) <= _LONGEST_TITLE
            and not _SENTENCE.search(text)
            and not _is_quantity(text)
        )
        if is_title:
            self._section = _LINE_BREAK.sub(" ", text)
            self._titled = True
        self._add_text(BlockKind.HEADING if is_title else BlockKind.PARAGRAPH, row)

    def _add_text(self, kind: BlockKind, row: Row) -> None:
        column = column_name(row.columns[0])
        text = row.cells[0] if kind is BlockKind.PARAGRAPH else _LINE_BREAK.sub(" ", row.cells[0])
        start = PageStart(0, row.number, f"row {column}:{column_name(row.columns[-1])}")
        self.blocks.append(Block(kind, text, self._sheet.name, self._section, pages=(start,)))

    def _add_tables(self, rows: Sequence[Row]) -> None:
        """Write rows as a table, or several if the workbook says that another one begins."""
        starts = [0]
        for index in range(1, len(rows)):
            area = self._headers.get((rows[index].number, rows[index].columns[0]))
            if area and area.right >= rows[index].columns[-1]:
                starts.append(index)
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            part = rows[start:end]
            self._add_table(part, self._count_headers(part))

    def _count_headers(self, rows: Sequence[Row]) -> int:
        """Return how many of the first rows are the header."""
        top, most = rows[0], min(_MOST_HEADERS, len(rows) - 1)
        area = self._headers.get((top.number, top.columns[0]))
        if area:
            count = area.bottom - area.top + 1
            return min(sum(row.number <= area.bottom for row in rows[:count]), len(rows))
        frozen = sum(row.number <= self._sheet.frozen_rows for row in rows[: most + 1])
        if 0 < frozen <= most:
            return frozen
        count = 0
        while count < most:
            row = rows[count]
            if not _may_head(row):
                break
            count += 1
            if row.number not in self._wide:
                break
        if not count:
            return 0
        columns = {column for row in rows[:_SAMPLE] for column in row.columns}
        last = max(columns)
        filled = {column for row in rows[:count] for column in row.columns}
        spanned = {
            column
            for row in rows[:count]
            for area in self._wide.get(row.number, ())
            for column in range(area.left, min(area.right, last) + 1)
        }
        missing = columns - filled - spanned
        # The corner above the labels of the rows is often empty.
        return count if missing <= {min(columns)} and len(columns) > 1 else 0

    def _add_table(self, rows: Sequence[Row], header_rows: int) -> None:
        shapes = Counter(row.columns for row in rows)
        used = sorted({column for shape in shapes for column in shape})
        places = {column: place for place, column in enumerate(used)}
        slots = {shape: [places[column] for column in shape] for shape in shapes}
        cells = sum(count * (slots[shape][-1] + 1) for shape, count in shapes.items())
        filled = sum(count * len(shape) for shape, count in shapes.items())
        sparse = cells > _MOST_BLANK * filled + _FREE_BLANK
        lines: list[str] = []
        pages: list[PageStart] = []
        left = right = rows[0].columns[0]
        unit = ""
        offset = 0
        for row in rows:
            shape = row.columns
            # Only as wide as the rows so far: the label of a row must not tell what follows.
            if not unit or shape[0] < left or shape[-1] > right:
                left, right = min(left, shape[0]), max(right, shape[-1])
                unit = f"row {column_name(left)}:{column_name(right)}"
            slot = slots[shape]
            if sparse or slot[-1] == len(slot) - 1:
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
        place = self._sheet.name, self._section
        self.blocks.append(
            Block(
                BlockKind.TABLE,
                "\n".join(lines),
                *place,
                pages=tuple(pages),
                header_rows=header_rows,
            )
        )

    def add_comments(self, last: int | None) -> None:
        """Write the comments of cells up to a row, after the text that they belong to."""
        while self._comments and (last is None or self._comments[-1].row <= last):
            note = self._comments.pop()
            column = column_name(note.column)
            start = PageStart(0, note.row, f"row {column}:{column}")
            text = f"{column}{note.row}: {note.text}"
            place = self._sheet.name, self._section
            self.blocks.append(Block(BlockKind.FOOTNOTE, text, *place, pages=(start,)))

    def add_box(self, box: Note) -> None:
        """Write the text of a box or the titles of a chart."""
        column = column_name(box.column)
        start = PageStart(0, box.row, f"row {column}:{column}")
        self._titled = False
        self.blocks.append(
            Block(BlockKind.PARAGRAPH, box.text, self._sheet.name, None, pages=(start,))
        )


def _cut(
    shape: tuple[int, ...], starts: Sequence[int]
) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """Return how the cells of a shape are divided among parts that begin at these columns."""
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
    """Return whether a cell holds a number, a date, a truth value or an error."""
    return bool(_QUANTITY.fullmatch(text))


def _may_head(row: Row) -> bool:
    """Return whether a row could be the header of a table: names, and years at most."""
    named = sum(not _is_quantity(text) for text in row.cells)
    years = sum(bool(_YEAR.fullmatch(text)) for text in row.cells)
    return named + years == len(row.cells) and (named > 0 or years > 1)


def _is_remark(row: Row, top: Row) -> bool:
    """Return whether the last row of a table is a line of text below it."""
    if len(row.cells) > 1 or row.columns[0] > top.columns[0] or len(top.cells) < 2:
        return False
    text = row.cells[0]
    return len(text) > _LONGEST_ENTRY or (len(text.split()) > 3 and bool(_SENTENCE.search(text)))
