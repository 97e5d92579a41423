"""What goes between a parser and its child, through two pipes.

Bytes and text pass as they are, behind their lengths: a big document is written once and read once.
The child is not believed. The parent knows the most it may answer before it reads a byte, the
answer must have the shape of a loaded source, and of an error only its kind and advice are taken.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import msgspec

from truespan.errors import LoaderCrashed, SourceRefused
from truespan.types.text import Loaded

GREETING = b"T"
"""The first byte of a child that has started; whatever ends it later, starting works."""

BEGUN = b"B"
"""Comes before each answer: the question was seen. A child that ends earlier ended by itself."""

_ORDER = struct.Struct(">IQ?QIdQ")
_ANSWER = struct.Struct(">??Q")
_LONGEST_REFUSAL = 4096


class Limits(NamedTuple):
    """What one document may cost: bytes of memory, seconds, and bytes of the answer."""

    memory: int
    cpu: int
    wall: float
    output: int


class Order(NamedTuple):
    """The head of a request. The name and the document follow it."""

    name_length: int
    size: int
    images: bool
    limits: Limits


class Refusal(msgspec.Struct, array_like=True, gc=False):
    """Why there is no document: the name of an error, advice that differs from its own, and where
    a bug showed itself, which is a place in our code and holds nothing of the document."""

    kind: str
    advice: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was received; `last` when the child ends after it."""

    loaded: bool
    last: bool
    content: bytes = field(repr=False)


class AnswerTooLong(Exception):
    """The child has more to say than it may."""


def send_order(
    stream: IO[bytes], name: str, document: bytes, limits: Limits, *, images: bool
) -> None:
    """Write a request."""
    encoded = name.encode("utf-8", "surrogatepass")
    head = _ORDER.pack(len(encoded), len(document), images, *limits)
    stream.write(head + encoded)
    stream.write(document)
    stream.flush()


def receive_order(stream: IO[bytes]) -> Order | None:
    """Read the head of a request; None when there will be no more."""
    head = stream.read(_ORDER.size)
    if len(head) < _ORDER.size:
        return None
    name_length, size, images, *limits = _ORDER.unpack(head)
    return Order(name_length, size, images, Limits(*limits))


def receive_name(stream: IO[bytes], order: Order) -> str:
    """Read the name, which follows the head."""
    return _exactly(stream, order.name_length).decode("utf-8", "surrogatepass")


def receive_document(stream: IO[bytes], order: Order) -> bytes:
    """Read the document, which follows the name."""
    return _exactly(stream, order.size)


def send_answer(stream: IO[bytes], content: bytes, *, loaded: bool, last: bool) -> None:
    """Write an answer."""
    stream.write(_ANSWER.pack(loaded, last, len(content)))
    stream.write(content)
    stream.flush()


def receive_answer(stream: IO[bytes], longest: int) -> Answer:
    """Read an answer.

    Raises:
        EOFError: the child ended first.
        AnswerTooLong: it announced more than it may send.
    """
    loaded, last, length = _ANSWER.unpack(_exactly(stream, _ANSWER.size))
    if length > (longest if loaded else _LONGEST_REFUSAL):
        raise AnswerTooLong
    return Answer(loaded, last, _exactly(stream, length))


def encode(message: Loaded | Refusal) -> bytes:
    """Return the bytes of what is answered."""
    return msgspec.msgpack.encode(message)


_loaded = msgspec.msgpack.Decoder(Loaded)
_refusal = msgspec.msgpack.Decoder(Refusal)


def decode_loaded(content: bytes) -> Loaded:
    """Return what a source holds, if the bytes have that shape."""
    return _loaded.decode(content)


def decode_refusal(content: bytes, shown: str) -> SourceRefused:
    """Return the error that stands for a source; an unknown kind counts as a crash."""
    refusal = _refusal.decode(content)
    error = _kinds().get(refusal.kind, LoaderCrashed)(shown, advice=refusal.advice)
    if refusal.trace:
        error.add_note(refusal.trace)
    return error


def _kinds() -> dict[str, type[SourceRefused]]:
    found = {SourceRefused.__name__: SourceRefused}
    for kind in SourceRefused.__subclasses__():
        found[kind.__name__] = kind
    return found


def _exactly(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content
