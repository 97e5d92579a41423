"""Messages between the index process and its clients, as MessagePack.

A client greets with `Hello`; then each `Call` names a method of `IndexCalls` and carries its
arguments, and is answered with a `Result` or an error. The annotations of the method decide which
arguments and results are valid. Nothing outside that table can be called.
"""

from __future__ import annotations

import functools
import os
from multiprocessing.connection import Connection
from typing import Any, TypeAlias, get_type_hints

import msgspec
from msgspec import Raw, Struct

from truespan.errors import (
    IndexRefused,
    IndexSchemaMismatch,
    IndexUnavailable,
    StorageFull,
    TooManyOpenFiles,
    TruespanError,
)
from truespan.index.calls import IndexCalls

VERSION = 1
"""Changes whenever a call does. The greeting and its replies are the same in every version."""

MAX_MESSAGE_SIZE = 256 << 20
_LENGTH_BYTES = 4
_FIRST_BLOCK, _BLOCK = 1 << 16, 1 << 20
"""Maximum number of bytes of one read: before the length of a message is known, and after."""

RETIRE = "retire"
"""Asks the process to end cleanly; all other calls are calls of the index."""


class Hello(Struct, tag=True, array_like=True):
    """The first message: the client's version and the identity of its folder."""

    version: int
    folder: str


class Welcome(Struct, tag=True, array_like=True):
    pid: int


class Retiring(Struct, tag=True, array_like=True):
    """The process is ending and ignored the request; another process will take it."""


class Refused(Struct, tag=True, array_like=True):
    message: str
    advice: str = ""


class Failed(Struct, tag=True, array_like=True):
    """An error whose class has its own constructor: the name of the class and the arguments."""

    error: str
    values: list[int | str]


class Call(Struct, array_like=True):
    """The name of a method and its encoded arguments."""

    name: str
    arguments: Raw


class Result(Struct, tag=True, array_like=True):
    """The encoded result of the method."""

    value: Raw


Reply: TypeAlias = Welcome | Retiring | Refused | Failed | Result

encode = msgspec.msgpack.Encoder().encode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_call = msgspec.msgpack.Decoder(Call).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode

CALLS = {name: method for name, method in vars(IndexCalls).items() if not name.startswith("_")}
"""The table of calls: every method of `IndexCalls`."""


def receive(connection: Connection) -> bytes:
    """Return the next message; OSError or EOFError if none arrives in time."""
    # `recv_bytes` reads the length apart from the rest. Here a short message takes one read, after
    # which no other thread has to give the interpreter back. Neither side sends a second message
    # before the reply to the first.
    message, total, is_known = bytearray(), _LENGTH_BYTES, False
    while len(message) < total:
        size = min(total - len(message), _BLOCK) if is_known else _FIRST_BLOCK
        part = os.read(connection.fileno(), size)
        if not part:
            raise EOFError
        message += part
        if not is_known and len(message) >= _LENGTH_BYTES:
            total = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], signed=True)
            if not 0 <= total - len(message) <= MAX_MESSAGE_SIZE:
                raise OSError("a message of this length is not expected")
            is_known = True
    return bytes(memoryview(message)[_LENGTH_BYTES:])


def decode_arguments(call: Call) -> tuple[Any, ...]:
    """Return the arguments of a call, or refuse those that its annotations do not allow."""
    if call.name not in CALLS:
        raise IndexRefused("The index process has no such call.")
    try:
        return _argument_decoder(call.name).decode(call.arguments)
    except msgspec.DecodeError:
        raise IndexRefused(f"The arguments of the call {call.name!r} are invalid.") from None


# Shared by threads: caches of msgspec decoders, which keep no state between calls.
@functools.cache
def _argument_decoder(name: str) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
    hints = get_type_hints(CALLS[name])
    types = tuple(kind for parameter, kind in hints.items() if parameter != "return")
    return msgspec.msgpack.Decoder(tuple[types])


# Shared by threads: as above.
@functools.cache
def result_decoder(name: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(get_type_hints(CALLS[name])["return"] if name in CALLS else None)


_ERRORS = {
    "full": StorageFull,
    "descriptors": TooManyOpenFiles,
    "mismatch": IndexSchemaMismatch,
    "unavailable": IndexUnavailable,
}


def reply_for(error: TruespanError) -> Reply:
    """Return the reply that carries an error to the client."""
    match error:
        case StorageFull():
            return Failed("full", [error.free, error.reserve])
        case TooManyOpenFiles():
            return Failed("descriptors", [])
        case IndexSchemaMismatch():
            return Failed("mismatch", [error.expected, error.found])
        case IndexUnavailable():
            return Failed("unavailable", [error.message])
        case _:
            return Refused(error.message, error.advice)


def error_from(reply: Reply) -> TruespanError:
    """Return the error that a reply carries."""
    match reply:
        case Failed(name, values) if name in _ERRORS:
            return _ERRORS[name](*values)
        case Refused(message, advice):
            return IndexRefused(message, advice=advice)
        case _:
            return IndexRefused("The index process sent a reply that does not fit the request.")
