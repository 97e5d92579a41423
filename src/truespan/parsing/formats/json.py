"""JSON and JSON Lines: a block for each record, with a line `field: value` for each field.

Nested fields have paths such as `address.city`, and items of a list of objects have numbers. Long
or multi-line values are separate paragraphs. The records of a file are its lines, the items of its
top-level list, or the members of its top-level object; a member that is a list of objects has a
record for each item. Numbers keep their spelling. A line that is not JSON is text, and so is the
rest of a file after an invalid item. Neither changes a record before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from truespan.core.strict_json import parse_number, parse_whole_number
from truespan.errors import SourceRefused
from truespan.parsing.formats.delimited import decode_table
from truespan.types.text import Block, BlockKind, Loaded, PageStart

MAX_DEPTH = 100
LONG_VALUE = 300
"""Length above which a value is a paragraph."""
_MAX_PATH_LENGTH = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_LIST_OF_OBJECTS = re.compile(r"\[[ \t\r\n]*\{")
_PARAGRAPHS = re.compile(r"\n\s*\n")


class Pairs(list[tuple[str, Any]]):
    """The members of an object in order; a name may repeat."""


class Record(NamedTuple):
    """A value with its line and the path of the list that contains it."""

    line: int
    value: Any
    path: str = ""
    fault: str = ""
    """Reason why the line is not JSON; then the value is its text."""
    is_part: bool = False
    """Whether the record consists of members of the top-level object of the file."""


class _Nothing:
    """A type without values."""


class Number(str):
    """A number in its original spelling."""


# Shared by threads: decoders of the standard library, whose only state is a table of the keys
# seen; two threads may fill and empty it at once, and only memory depends on it.
_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_float=Number, parse_int=Number, parse_constant=Number
)


def load_json(name: str, data: bytes, *, lines: bool = False) -> Loaded:
    """Return the records of a JSON file, or with `lines` of JSON Lines, as blocks."""
    text = _decode(name, data)
    try:
        records = list(_read_lines(text) if lines else _Scanner(text).read())
        blocks = list(_to_blocks(records))
    except RecursionError:
        raise SourceRefused("source_unsafe", name) from None
    faults = sum(bool(record.fault) for record in records)
    lines_are = "1 line is" if faults == 1 else f"{faults} lines are"
    warning = f"{lines_are} not JSON and read as text."
    return Loaded(tuple(blocks), warnings=(warning,) if faults else ())


def load_json_lines(name: str, data: bytes) -> Loaded:
    return load_json(name, data, lines=True)


def read_json(name: str, data: bytes, *, lines: bool = False) -> Iterator[Record]:
    """Yield the records of a file; text that is not JSON is a record with a fault."""
    text = _decode(name, data)
    try:
        # JSON Lines files are often named .json too.
        records = None if lines else _read_whole(text)
        yield from _read_lines(text) if records is None else records
    except RecursionError:
        raise SourceRefused("source_unsafe", name) from None


def _decode(name: str, data: bytes) -> str:
    return decode_table(name, data).replace("\r\n", "\n").replace("\r", "\n")


def _read_lines(text: str, first: int = 1, wanted: type = object) -> Iterator[Record]:
    """Yield the value of each line; a line is text if it is not JSON of the wanted type."""
    for number, line in enumerate(text.split("\n"), first):
        if not line.strip():
            continue
        try:
            value = _DECODER.decode(line.strip(" \t\r\x1e"))
        except json.JSONDecodeError as error:
            yield Record(number, line, fault=f"{error.msg} at column {error.colno}")
        else:
            fault = "" if isinstance(value, wanted) else "Expecting an object"
            yield Record(number, line if fault else value, fault=fault)


def _read_whole(text: str) -> list[Record] | None:
    """Return the records of consecutive JSON values; None if the text is not JSON."""
    try:
        scan = _Scanner(text)
        records = list(scan.records()) if scan.peek() else []
        if scan.peek():
            scan = _Scanner(text)
            records = [Record(*value) for value in scan.values()]
    except json.JSONDecodeError:
        return None
    return records


class _Scanner:
    """Scans a JSON text value by value with line numbers."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._line, self._counted = 1, 0
        self._single, self._single_line = Pairs(), 0
        """Members of an object that are single values, and the line of the first."""
        self._unread = 0
        """Offset of the first value that is not in a record yet."""

    def read(self) -> Iterator[Record]:
        """Yield the records of all values; the rest after an invalid value is read line by line."""
        # If the invalid value is on one line, later lines may be objects. Otherwise they are text.
        while self.peek():
            start = self._unread = self._at
            try:
                yield from self.records()
            except json.JSONDecodeError:
                yield from self._end_single()
                rest, line = self._text[self._unread :], self._text.count("\n", 0, self._unread) + 1
                is_line = self._text.find("\n", start, self._unread) < 0
                yield from _read_lines(rest, line, list if is_line else _Nothing)
                return

    def peek(self) -> str:
        """Return the next character after white space; empty at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def values(self) -> Iterator[tuple[int, Any]]:
        while self.peek():
            yield self._line_here(), self._value()

    def records(self) -> Iterator[Record]:
        """Yield the items of a list, the members of an object, or the value itself."""
        first, line = self.peek(), self._line_here()
        if first == "[":
            yield from (Record(number, value) for number, value in self._items())
        elif first == "{":
            yield from self._members()
        else:
            yield Record(line, self._value())

    def _members(self) -> Iterator[Record]:
        """Yield the members of an object; single values are combined."""
        for _ in self._each("{", "}"):
            here = self._line_here()
            key = self._value()
            if not isinstance(key, str) or self.peek() != ":":
                raise json.JSONDecodeError("Expecting a name or a value", "", 0)
            self._at += 1
            inner = self.peek()
            if _LIST_OF_OBJECTS.match(self._text, self._at):
                yield from self._end_single()
                for number, value in self._items():
                    yield Record(number, value, key)
                continue
            value = self._value()
            if inner == "{":
                yield from self._end_single()
                yield Record(here, Pairs([(key, value)]), is_part=True)
                continue
            self._single_line = self._single_line if self._single else here
            self._single.append((key, value))
        yield from self._end_single()

    def _end_single(self) -> Iterator[Record]:
        if self._single:
            yield Record(self._single_line, self._single, is_part=True)
            self._single = Pairs()

    def _items(self) -> Iterator[tuple[int, Any]]:
        for _ in self._each("[", "]"):
            line = self._line_here()
            yield line, self._value()

    def _each(self, opening: str, closing: str) -> Iterator[None]:
        """Yield before each item between two brackets."""
        if self.peek() != opening:
            raise json.JSONDecodeError("Expecting a name or a value", "", 0)
        self._at += 1
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            self.peek()
            yield
            following = self.peek()
            # Before the first item, the bracket and the name count as unread too.
            self._unread = self._at + (following == ",")
            self._at += 1
            if following == closing:
                return
            if following != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", "", 0)

    def _value(self) -> Any:
        self.peek()
        value, self._at = _DECODER.raw_decode(self._text, self._at)
        return value

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _to_blocks(records: Sequence[Record]) -> Iterator[Block]:
    """Yield the blocks of records, with the name of a list of objects as a heading."""
    path = ""
    texts: list[Record] = []
    for record in records:
        if record.fault:
            texts.append(record)
            continue
        yield from _text_block(texts)
        texts.clear()
        if record.path != path:
            path = record.path
            if name := replace_surrogates(path):
                pages = (PageStart(0, record.line, "line"),)
                section = name[:_MAX_PATH_LENGTH]
                yield Block(BlockKind.HEADING, name, None, section, pages=pages)
        yield from _record_blocks(record)
    yield from _text_block(texts)


def _text_block(records: Sequence[Record]) -> Iterator[Block]:
    """Yield lines that are not JSON, such as a comment, unchanged."""
    pages: list[PageStart] = []
    lines, offset = [replace_surrogates(str(record.value)) for record in records], 0
    for record, line in zip(records, lines, strict=True):
        pages.append(PageStart(offset, record.line, "line"))
        offset += len(line) + 1
    if lines:
        yield Block(BlockKind.CODE, "\n".join(lines), pages=tuple(pages))


def _record_blocks(record: Record) -> Iterator[Block]:
    """Yield the short fields of a record as one block, then each long field."""
    pages = (PageStart(0, record.line, "line"),)
    section = replace_surrogates(record.path[:_MAX_PATH_LENGTH]) or None
    short: list[str] = []
    long: list[tuple[str, str]] = []
    for name, value in flatten(record.value):
        if len(value) > LONG_VALUE or "\n" in value:
            long.append((name, value.strip()))
        else:
            short.append(f"{name}: {value}" if name else value)
    if short:
        text = replace_surrogates("\n".join(short))
        yield Block(BlockKind.LIST, text, None, section, pages=pages)
    for name, value in long:
        for number, part in enumerate(_PARAGRAPHS.split(value)):
            text = f"{name}: {part}" if name and not number else part
            yield Block(BlockKind.PARAGRAPH, replace_surrogates(text), None, section, pages=pages)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can contain but no encoding can."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def flatten(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the path and text of each single value in order; a list of single values is one."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, Pairs):
        for name, inner in value:
            # Cut, because the path is repeated for each value.
            full = f"{path[:_MAX_PATH_LENGTH]}.{name}" if path else name
            if isinstance(inner, str):
                # Fast path: nearly all values are strings.
                if inner:
                    yield full, inner
            else:
                yield from flatten(inner, full, depth + 1)
    elif isinstance(value, list):
        items = cast(list[Any], value)
        if any(isinstance(item, list) for item in items):
            above = f"{path[:_MAX_PATH_LENGTH]}." if path else ""
            for number, item in enumerate(items, 1):
                yield from flatten(item, f"{above}{number}", depth + 1)
        elif items:
            yield path, ", ".join(map(to_text, items))
    elif value is not None and value != "":
        yield path, to_text(value)


def to_plain(value: Any) -> Any:
    """Return a value with plain dicts and numbers."""
    if isinstance(value, Pairs):
        return {replace_surrogates(name): to_plain(inner) for name, inner in value}
    if isinstance(value, list):
        return [to_plain(inner) for inner in cast(list[Any], value)]
    if isinstance(value, Number):
        number = parse_whole_number(value)
        return parse_number(value) if number is None else number
    return replace_surrogates(value) if isinstance(value, str) else value


def to_text(value: Any) -> str:
    """Return a single value as in JSON, without quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
