"""Messages of protocol buffers: their fields.

Must hold: a message that is cut off or malformed raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

Buffer = TypeVar("Buffer", bytes, memoryview)
"""Bytes, of which parts are copied, or a view of bytes for large messages."""

_MAX_BITS = 70
"""Maximum number of bits of a number, seven in each byte."""


def read_fields(message: Buffer) -> Iterator[tuple[int, int | Buffer]]:
    """Yield number and value of each field: a number, or the bytes of any other value."""
    start, end = 0, len(message)
    while start < end:
        tag, start = read_number(message, start)
        if tag & 7 == 0:
            value, start = read_number(message, start)
            yield tag >> 3, value
            continue
        if tag & 7 == 2:
            length, start = read_number(message, start)
        elif tag & 7 in (1, 5):
            length = 8 if tag & 7 == 1 else 4
        else:
            raise ValueError("A field has an unknown type.")
        if length > end - start:
            raise ValueError("A field ends after its message.")
        yield tag >> 3, message[start : start + length]
        start += length


def read_messages(message: Buffer, wanted: int) -> Iterator[Buffer]:
    """Yield the bytes of each field with a number."""
    for number, value in read_fields(message):
        if number == wanted and not isinstance(value, int):
            yield value


def read_number(view: bytes | memoryview, start: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it."""
    value = shift = 0
    while start < len(view) and shift < _MAX_BITS:
        byte = view[start]
        start += 1
        if byte < 128:
            return value | byte << shift, start
        value |= (byte & 127) << shift
        shift += 7
    raise ValueError("A number does not end.")
