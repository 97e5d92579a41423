"""Delimited text: CSV, TSV and their relatives as rows of cells, with the line each begins in.

The delimiter is the one of comma, semicolon, tab and bar that gives most rows of the beginning the
same number of cells; a first line `sep=;` names it. Cells may be quoted with `"`, doubled or after
a backslash inside, and then contain line breaks. If a quote is never closed, quotes are ordinary
characters, so that no row swallows the rest.

The first row is the header unless one of its cells looks like a value: a number (other than a year
beside words), a date, an e-mail address or a URL, or the value of the row below it. Lines with a
single cell before the first full row are text above the table.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from truespan.errors import SourceNotText
from truespan.parsing.clean import clean
from truespan.parsing.detect import decode
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_SAMPLE = 1 << 16
_DELIMITERS = ",;\t|"
_NO_DELIMITER, _END = "\x1f", "\x1e"
"""They occur in no text: the first makes one cell of a line."""
_LEAST_AGREEMENT = 0.6
"""The share of rows that must have the same number of cells; otherwise it is no table."""
_HINT = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[5-9]|20)[0-9]{2}")
_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,' \u00a0]*(?:[eE][+-]?[0-9]+)?\s?[%€$£]?"
    r"|[€$£]\s?[0-9][0-9.,]*"
    r"|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}(?:[T ][0-9:.,]+\S*)?"
    r"|\S+@\S+\.\S+"
    r"|[a-z]{2,6}://\S+",
    re.IGNORECASE,
)


class Row(NamedTuple):
    """The cells of a row, and the line that it begins in, counted from 1."""

    line: int
    cells: list[str]


class Dialect(NamedTuple):
    """How cells are divided and quoted."""

    delimiter: str
    escape: str | None = None
    quoted: bool = True


class Table(NamedTuple):
    """The rows of a file: those above the table, its header if it has one, and the rest."""

    above: list[Row]
    header: Row | None
    rows: list[Row]


def load_delimited(name: str, data: bytes, *, tabs: bool = False) -> Loaded:
    """Return a table as one block; each row begins a place of the unit `line`."""
    table = read_table(name, data, tabs=tabs)
    blocks = [
        Block(BlockKind.PARAGRAPH, " ".join(row.cells), pages=(PageStart(0, row.line, "line"),))
        for row in table.above
    ]
    rows = [table.header, *table.rows] if table.header else table.rows
    lines, pages, offset = [], [], 0
    for row in rows:
        line = " | ".join(row.cells)
        if "  " in line or not line.isprintable() or line != line.strip():
            line = " | ".join(" ".join(cell.split()) for cell in row.cells)
        pages.append(PageStart(offset, row.line, "line"))
        lines.append(line)
        offset += len(line) + 1
    if lines:
        header_rows = int(table.header is not None)
        text = "\n".join(lines)
        blocks.append(Block(BlockKind.TABLE, text, pages=tuple(pages), header_rows=header_rows))
    return Loaded(tuple(blocks))


def read_table(name: str, data: bytes, *, tabs: bool = False) -> Table:
    """Return the rows of a file with at least one cell that is not blank; raises SourceNotText."""
    text = decode_table(name, data)
    line = 1
    dialect: Dialect | None = None
    if hint := _HINT.match(text):
        text, line, dialect = text[hint.end() :], 2, Dialect(hint[1])
    dialect = dialect or find_dialect(text, tabs=tabs)
    rows = [row for row in _read(text, dialect, line) if any(map(str.strip, row.cells))]
    usual = _usual_width(rows[:1000])
    first = 0
    # A width of one is no table with text above it, but lines.
    while usual > 1 and first < len(rows) and _width(rows[first]) < 2:
        first += 1
    above, rows = rows[:first], rows[first:]
    header = rows[0] if _is_header(rows) else None
    return Table(above, header, rows[1:] if header else rows)


def decode_table(name: str, data: bytes) -> str:
    """Return the text of a file of records; UTF-16 is recognised without its mark, too."""
    text = decode(data)
    if text is None and b"\0" in data:
        head = data[:1000]
        even, odd = head[::2].count(0), head[1::2].count(0)
        encoding = "utf-16-le" if odd > even else "utf-16-be"
        # In the other half of the bytes of most writing there are hardly any zeros.
        if max(even, odd) > 4 * min(even, odd) and max(even, odd) * 4 > len(head):
            text = decode(b"\xef\xbb\xbf" + data.decode(encoding, "replace").encode())
    if text is None:
        raise SourceNotText(name)
    return text.removeprefix("\ufeff")


def find_dialect(text: str, *, tabs: bool = False) -> Dialect:
    """Return the dialect by which the beginning of a text is most like a table."""
    sample = text[:_SAMPLE]
    escapes = (None, "\\") if '\\"' in sample else (None,)
    best, best_score = Dialect("\t" if tabs else _NO_DELIMITER), (0.0, 0, 0)
    for place, delimiter in enumerate("\t,;|" if tabs else _DELIMITERS):
        if delimiter not in sample:
            continue
        for escape in escapes:
            dialect = Dialect(delimiter, escape)
            rows = _read(sample, dialect, cut=len(sample) < len(text))
            widths = [len(row.cells) for row in rows if any(map(str.strip, row.cells))]
            usual, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
            agreement = count / len(widths) if widths else 0.0
            # Rows may be too short or too long, but prose has a space after its commas.
            divided = sum(width > 1 for width in widths)
            is_ragged = divided >= 0.9 * len(widths) and f"{delimiter} " not in sample
            score = agreement, usual, -place
            if usual > 1 and (agreement >= _LEAST_AGREEMENT or is_ragged) and score > best_score:
                best, best_score = dialect, score
    return best


def _read(text: str, dialect: Dialect, line: int = 1, *, cut: bool = False) -> list[Row]:
    """Return the rows of a text, whose first line has this number; without quotes if one of them
    is never closed. The last row of a text that was `cut` is left out."""
    csv.field_size_limit(len(text) + 1000)
    reader = csv.reader(
        # An open quote takes in the line that ends the text.
        io.StringIO(f"{text}\n{_END}", newline=""),
        delimiter=dialect.delimiter,
        quotechar='"',
        escapechar=dialect.escape,
        doublequote=dialect.escape is None,
        quoting=csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE,
        skipinitialspace=dialect.delimiter != "\t",
    )
    rows: list[Row] = []
    start = line
    for cells in reader:
        rows.append(Row(start, cells))
        start = line + reader.line_num
    last = rows.pop()
    if cut:
        return rows[:-1]
    if last.cells != [_END]:
        return _read(text, Dialect(dialect.delimiter, quoted=False), line)
    return rows


def _width(row: Row) -> int:
    return sum(bool(cell.strip()) for cell in row.cells)


def _usual_width(rows: Sequence[Row]) -> int:
    return Counter(len(row.cells) for row in rows).most_common(1)[0][0] if rows else 0


def _is_header(rows: Sequence[Row]) -> bool:
    """Return whether the first of some rows names the columns of the others."""
    if len(rows) < 2 or len(rows[0].cells) < 2:
        return False
    cells = [clean(cell).strip() for cell in rows[0].cells]
    below = [clean(cell).strip() for cell in rows[1].cells]
    words = [cell for cell in cells if cell and not _VALUE.fullmatch(cell)]
    if any(_VALUE.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in cells):
        return False
    return bool(words) and not any(
        cell and cell == under for cell, under in zip(cells, below, strict=False)
    )
