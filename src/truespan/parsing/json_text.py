"""JSON and JSON Lines as text: a block for each record, with a line `field: value` for each field.

Fields of nested objects have paths such as `address.city`, and the items of a list of objects
numbers. Long values, and those of several lines, are paragraphs of their own after the name of
their field. The records of a file are the items of its top list, or its lines; in an object each
member is one, and each item of a member that is a list of objects. Numbers stay as they are
spelled. A line that is not JSON is text, and so is a file of which most lines are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from truespan.errors import SourceUnsafe
from truespan.parsing.delimited import decode_table
from truespan.strict_json import parse_number, parse_whole_number
from truespan.types.text import Block, BlockKind, Loaded, PageStart

MOST_DEPTH = 100
"""How deep objects and lists may be nested."""
LONG_VALUE = 300
"""Characters from which on a value is a paragraph."""
_LONGEST_PATH = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_LIST_OF_OBJECTS = re.compile(r"\[[ \t\r\n]*\{")
_PARAGRAPHS = re.compile(r"\n\s*\n")


class Pairs(list[tuple[str, Any]]):
    """The members of an object in their order; a name may occur twice."""


class Record(NamedTuple):
    """A value of a file with the path of the list or object that it is in, and its line."""

    line: int
    value: Any
    path: str = ""
    fault: str = ""
    """Why the line is not JSON; then the value is its text."""
    is_part: bool = False
    """Whether it is a member of the one object that the file consists of, or several of them."""


class Number(str):
    """A number as it is spelled."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_float=Number, parse_int=Number, parse_constant=Number
)


def load_json(name: str, data: bytes, *, lines: bool = False) -> Loaded:
    """Return the records of a JSON file, or with `lines` of JSON Lines, as blocks.

    Raises:
        SourceNotText: the bytes are not text.
        SourceUnsafe: it is nested deeper than any record.
    """
    records = list(read_json(name, data, lines=lines))
    faults = sum(bool(record.fault) for record in records)
    if faults * 2 > len(records):
        # JSON with comments, say, or a damaged file.
        pages: list[PageStart] = []
        rows = [make_sound(str(record.value)) for record in records]
        offset = 0
        for record, row in zip(records, rows, strict=True):
            pages.append(PageStart(offset, record.line, "line"))
            offset += len(row) + 1
        blocks = [Block(BlockKind.CODE, "\n".join(rows), pages=tuple(pages))]
    else:
        try:
            blocks = list(_to_blocks(records))
        except RecursionError:
            raise SourceUnsafe(name) from None
    warning = f"{faults} of its lines are not JSON and were read as text."
    return Loaded(tuple(blocks), warnings=(warning,) if faults else ())


def read_json(name: str, data: bytes, *, lines: bool = False) -> Iterator[Record]:
    """Yield the records of a file; what is no JSON is a record of text with a fault.

    Raises:
        SourceNotText: the bytes are not text.
        SourceUnsafe: it is nested deeper than any record.
    """
    text = decode_table(name, data).replace("\r\n", "\n").replace("\r", "\n")
    try:
        # A file of one object for each line is often named .json, too.
        records = None if lines else _read_whole(text)
        yield from _read_lines(text) if records is None else records
    except RecursionError:
        raise SourceUnsafe(name) from None


def _read_lines(text: str) -> Iterator[Record]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = _DECODER.decode(line.strip(" \t\r\x1e"))
        except json.JSONDecodeError as error:
            yield Record(number, line, fault=f"{error.msg} at column {error.colno}")
        else:
            yield Record(number, value)


def _read_whole(text: str) -> list[Record] | None:
    """Return the records of one JSON value, or of several one after the other; None if the text
    is neither."""
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
    """Goes through a JSON text value by value, and knows the line of each."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._line, self._counted = 1, 0

    def peek(self) -> str:
        """Return the first character of what follows; empty at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield all values, one after the other, with their lines."""
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
        """Yield the members of an object; those that are single values together."""
        single, line = Pairs(), 0
        for _ in self._each("{", "}"):
            here = self._line_here()
            key = self._value()
            if not isinstance(key, str) or self.peek() != ":":
                raise json.JSONDecodeError("Expecting a name or a value", "", 0)
            self._at += 1
            inner = self.peek()
            if _LIST_OF_OBJECTS.match(self._text, self._at):
                if single:
                    yield Record(line, single, is_part=True)
                    single = Pairs()
                for number, value in self._items():
                    yield Record(number, value, key)
                continue
            value = self._value()
            if inner == "{":
                if single:
                    yield Record(line, single, is_part=True)
                    single = Pairs()
                yield Record(here, Pairs([(key, value)]), is_part=True)
                continue
            line = line if single else here
            single.append((key, value))
        if single:
            yield Record(line, single, is_part=True)

    def _items(self) -> Iterator[tuple[int, Any]]:
        for _ in self._each("[", "]"):
            line = self._line_here()
            yield line, self._value()

    def _each(self, opening: str, closing: str) -> Iterator[None]:
        """Stop before each item between two brackets."""
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
    """Yield the blocks of records; the name of a list of objects is a heading above them."""
    path = ""
    for record in records:
        if record.path != path:
            path = record.path
            if name := make_sound(path):
                pages = (PageStart(0, record.line, "line"),)
                section = name[:_LONGEST_PATH]
                yield Block(BlockKind.HEADING, name, None, section, pages=pages)
        yield from _record_blocks(record)


def _record_blocks(record: Record) -> Iterator[Block]:
    """Yield the short fields of a record as one block, then each long one."""
    pages = (PageStart(0, record.line, "line"),)
    section = make_sound(record.path[:_LONGEST_PATH]) or None
    short: list[str] = []
    long: list[tuple[str, str]] = []
    for name, value in flatten(record.value):
        if len(value) > LONG_VALUE or "\n" in value:
            long.append((name, value.strip()))
        else:
            short.append(f"{name}: {value}" if name else value)
    if short:
        text = make_sound("\n".join(short))
        yield Block(BlockKind.LIST, text, None, section, pages=pages)
    for name, value in long:
        for number, part in enumerate(_PARAGRAPHS.split(value)):
            text = f"{name}: {part}" if name and not number else part
            yield Block(BlockKind.PARAGRAPH, make_sound(text), None, section, pages=pages)


def make_sound(text: str) -> str:
    """Replace halves of characters, which JSON can spell and no encoding has."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def flatten(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each single value, in order; lists of single values are one.

    Raises:
        RecursionError: it is nested too deep.
    """
    if depth > MOST_DEPTH:
        raise RecursionError
    if isinstance(value, Pairs):
        for name, inner in value:
            # Cut, because the name of an object is repeated with each value in it.
            full = f"{path[:_LONGEST_PATH]}.{name}" if path else name
            if isinstance(inner, str):
                # Nearly all values are.
                if inner:
                    yield full, inner
            else:
                yield from flatten(inner, full, depth + 1)
    elif isinstance(value, list):
        items = cast(list[Any], value)
        if any(isinstance(item, list) for item in items):
            above = f"{path[:_LONGEST_PATH]}." if path else ""
            for number, item in enumerate(items, 1):
                yield from flatten(item, f"{above}{number}", depth + 1)
        elif items:
            yield path, ", ".join(map(to_text, items))
    elif value is not None and value != "":
        yield path, to_text(value)


def to_plain(value: Any) -> Any:
    """Return a value with dictionaries and numbers in place of what keeps their spelling."""
    if isinstance(value, Pairs):
        return {make_sound(name): to_plain(inner) for name, inner in value}
    if isinstance(value, list):
        return [to_plain(inner) for inner in cast(list[Any], value)]
    if isinstance(value, Number):
        number = parse_whole_number(value)
        return parse_number(value) if number is None else number
    return make_sound(value) if isinstance(value, str) else value


def to_text(value: Any) -> str:
    """Return a single value as it is spelled in JSON, without quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
