"""Delimited text: CSV, TSV and similar formats as rows of cells with line numbers.

The delimiter is the most frequent of comma, semicolon, tab and bar in the first line that is not
prose. It is chosen again until two consecutive rows have the same number of cells. A first line
`sep=;` declares it. Cells may be quoted with `"`, which is doubled or escaped by a backslash
inside, and may then contain line breaks. After an unclosed quote, quotes are ordinary characters,
so that no row consumes the rest.

The first row is the header unless one of its cells looks like a value: a number (other than a year
beside words), a date, an e-mail address, a URL, or the same value as the cell below. Lines with a
single cell before the first row with several cells are text above the table.

No row changes the result for the rows before it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from truespan.errors import SourceRefused
from truespan.parsing.detect import decode
from truespan.text.clean import clean
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_DELIMITERS = ",;\t|"
_ANY_DELIMITER = re.compile(r"[,;\t|]")
_NO_DELIMITER, _END = "\x1f", "\x1e"
"""Characters that occur in no text; with the first as delimiter, a line is one cell."""
_QUOTED = re.compile(r'(?P<before>(?:^|[,;\t|]) ?)"(?:[^"]|"")*+"?')
_DECIMAL_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9])")
_MAX_WORDS = 8
"""Maximum number of words of a cell in a line that has a space after each comma."""
_HINT = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[5-9]|20)[0-9]{2}")
_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,' \u00a0]*(?:[eE][+-]?[0-9]+)?\s?[%€$£]?"
    r"|[€$£]\s?[0-9][0-9.,]*"
    r"|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}(?:[T ][0-9:.,]\S*)?"
    r"|[^\s@]++@[^\s@.]++\.\S+"
    r"|[a-z]{2,6}://\S+",
    re.IGNORECASE,
)


class Row(NamedTuple):
    """The cells of a row, and its first line, counted from 1."""

    line: int
    cells: list[str]


class Dialect(NamedTuple):
    """Delimiter and quoting of cells."""

    delimiter: str
    escape: str | None = None
    quoted: bool = True


class Table(NamedTuple):
    """The rows of a file; `earlier` are rows with another delimiter, such as a title."""

    above: list[Row]
    earlier: list[list[Row]]
    header: Row | None
    rows: list[Row]


def load_delimited(name: str, data: bytes, *, tabs: bool = False) -> Loaded:
    """Parse a file: the text above the table is one block, and the table is another."""
    table = read_table(name, data, tabs=tabs)
    above = [Row(row.line, [cell for cell in row.cells if cell.strip()]) for row in table.above]
    rows = [table.header, *table.rows] if table.header else table.rows
    earlier = (_to_block(part, int(_is_header(part))) for part in table.earlier)
    found = (_to_block(above, 0), *earlier, _to_block(rows, int(table.header is not None)))
    return Loaded(tuple(filter(None, found)))


def load_tabs(name: str, data: bytes) -> Loaded:
    return load_delimited(name, data, tabs=True)


def _to_block(rows: Sequence[Row], header_rows: int) -> Block | None:
    lines, pages, offset = [], [], 0
    for row in rows:
        line = " | ".join(row.cells)
        if "  " in line or not line.isprintable() or line != line.strip():
            line = " | ".join(" ".join(cell.split()) for cell in row.cells)
        pages.append(PageStart(offset, row.line, "line"))
        lines.append(line)
        offset += len(line) + 1
    text = "\n".join(lines)
    return (
        Block(BlockKind.TABLE, text, pages=tuple(pages), header_rows=header_rows) if rows else None
    )


def read_table(name: str, data: bytes, *, tabs: bool = False) -> Table:
    """Return the rows of a file that are not blank; raises SourceRefused."""
    text = decode_table(name, data)
    dialect: Dialect | None = None
    if hint := _HINT.match(text):
        text, dialect = text[hint.end() :], Dialect(hint[1])
    reader = _RowReader(text, dialect, first=2 if hint else 1, tabs=tabs)
    rows = [row for row in reader.read() if any(map(str.strip, row.cells))]
    first = next((at for at, row in enumerate(rows) if _width(row) > 1), len(rows))
    parts: list[list[Row]] = [[]]
    for row in rows[first:]:
        if parts[-1] and row.line in reader.decided:
            parts.append([])
        parts[-1].append(row)
    *earlier, last = parts
    header = last[0] if _is_header(last) else None
    return Table(rows[:first], earlier, header, last[1:] if header else last)


def decode_table(name: str, data: bytes) -> str:
    """Decode a file of records; UTF-16 without a byte order mark is detected too."""
    text = decode(data)
    if text is None and b"\0" in data:
        head = data[:1000]
        even, odd = head[::2].count(0), head[1::2].count(0)
        encoding = "utf-16-le" if odd > even else "utf-16-be"
        # In UTF-16 text of most scripts, zeros are nearly all in one half of the bytes.
        if max(even, odd) > 4 * min(even, odd) and max(even, odd) * 4 > len(head):
            text = decode(b"\xef\xbb\xbf" + data.decode(encoding, "replace").encode())
    if text is None:
        raise SourceRefused("source_not_text", name)
    return text.removeprefix("\ufeff")


class _RowReader:
    """Reads rows in order, and detects the delimiter and quoting."""

    def __init__(self, text: str, dialect: Dialect | None, *, first: int, tabs: bool) -> None:
        csv.field_size_limit(len(text) + 1000)
        self._lines = io.StringIO(text, newline="").readlines()
        self._dialect = dialect or Dialect(_NO_DELIMITER)
        self._first, self._tabs = first, tabs
        self._settled = dialect is not None
        """Whether the delimiter is certain."""
        self._may_escape = '\\"' in text
        """Whether the first escaped quote is still ahead."""
        self._width = 0
        """Number of cells of the last row that is not blank."""
        self._rows: list[Row] = []
        self.decided: set[int] = set()
        """Lines at which a delimiter was chosen."""

    def read(self) -> list[Row]:
        at = 0
        while at < len(self._lines):
            at = self._read_from(at)
        return self._rows

    def _read_from(self, at: int) -> int:
        """Read rows; return the line at which reading continues in another dialect."""
        reader, start, end = self._open(at, self._dialect), at, len(self._lines)
        for cells in reader:
            stop = at + reader.line_num
            if stop > end:
                # An open quote includes the end mark of the text.
                self._dialect = self._dialect._replace(quoted=False)
                return start
            if not self._settled or self._may_escape:
                other = self._reconsider(start, stop, cells)
                if other != self._dialect:
                    self._dialect = other
                    return start
            self._rows.append(Row(start + self._first, cells))
            start = stop
        return end

    def _open(self, at: int, dialect: Dialect) -> Any:
        return csv.reader(
            chain(islice(self._lines, at, None), [_END]),
            delimiter=dialect.delimiter,
            quotechar='"',
            escapechar=dialect.escape,
            doublequote=dialect.escape is None,
            quoting=csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE,
            skipinitialspace=dialect.delimiter != "\t",
        )

    def _reconsider(self, start: int, stop: int, cells: list[str]) -> Dialect:
        """Return the dialect for the lines of a row with these cells in the current dialect."""
        if not cells:
            return self._dialect
        dialect, width, before = self._dialect, len(cells), self._width
        if self._may_escape and any('\\"' in line for line in self._lines[start:stop]):
            self._may_escape = False
            escaped = dialect._replace(escape="\\")
            reader = self._open(start, escaped)
            if width != before == len(next(reader)) and start + reader.line_num <= len(self._lines):
                return escaped
        if not self._settled:
            self._settled = width == before > 1
            line = self._lines[start]
            if not self._settled and _ANY_DELIMITER.search(line):
                delimiter = find_delimiter(line, self._tabs) or dialect.delimiter
                if delimiter != dialect.delimiter:
                    self.decided.add(start + self._first)
                    return Dialect(delimiter)
        self._width = width
        return dialect


def find_delimiter(line: str, tabs: bool = False) -> str | None:
    """Return the most frequent delimiter of a line; None for prose or a line without any."""
    bare = _QUOTED.sub(r"\g<before>", line.rstrip("\r\n"))
    best, best_score = None, 0
    for delimiter in "\t,;|" if tabs else _DELIMITERS:
        count, spaced = bare.count(delimiter), bare.count(f"{delimiter} ")
        if delimiter == "," and any(other in bare for other in ";\t|"):
            count -= len(_DECIMAL_COMMA.findall(bare))
        if delimiter in ",;" and count == spaced and (tabs or _is_prose(bare, delimiter)):
            continue
        # In prose, commas are followed by spaces.
        score = 2 * count - spaced
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _is_prose(line: str, delimiter: str) -> bool:
    parts = line.split(delimiter)
    return line.rstrip().endswith((".", "!", "?", ":")) or any(
        len(part.split()) > _MAX_WORDS for part in parts
    )


def _width(row: Row) -> int:
    return sum(bool(cell.strip()) for cell in row.cells)


def _is_header(rows: Sequence[Row]) -> bool:
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
