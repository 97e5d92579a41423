"""Bodies and query strings: read within limits, and checked by the type that a call takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive, Scope

from truespan.doors.arguments import explained
from truespan.errors import (
    DeadlineExceeded,
    Interrupted,
    InvalidSettings,
    MediaTypeUnsupported,
    RequestTooLarge,
)

LONGEST_QUERY_STRING = 8192


def header(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of a header."""
    return [value for key, value in scope["headers"] if key == name]


def media_type(scope: Scope) -> str:
    """Return the kind of the body, without its parameters."""
    values = header(scope, b"content-type")
    return values[0].decode("latin-1").partition(";")[0].strip().lower() if values else ""


async def pieces(scope: Scope, receive: Receive, limit: int) -> AsyncGenerator[bytes, None]:
    """Give the body as it comes.

    Raises:
        RequestTooLarge: it is longer than allowed, or says that it will be.
        Interrupted: whoever sent it has gone.
    """
    check_length(scope, limit)
    counted = limited(receive, limit)
    while True:
        message = await counted()
        if message["type"] == "http.disconnect":
            raise Interrupted
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def check_length(scope: Scope, limit: int) -> None:
    """Refuse a body that says it will be too long, before it comes."""
    announced = header(scope, b"content-length")
    if announced and announced[0].isdigit() and int(announced[0]) > limit:
        raise RequestTooLarge(limit)


def limited(receive: Receive, limit: int, seconds: float | None = None) -> Receive:
    """Return what receives the same messages, and refuses a body that is too long, or too late."""
    length, whole = 0, False
    late = None if seconds is None else asyncio.get_running_loop().time() + seconds

    async def counted() -> Message:
        nonlocal length, whole
        try:
            async with asyncio.timeout_at(None if whole else late):
                message = await receive()
        except TimeoutError:
            raise DeadlineExceeded(seconds or 0.0) from None
        length += len(message.get("body", b""))
        whole = whole or not message.get("more_body", False)
        if length > limit:
            raise RequestTooLarge(limit)
        return message

    return counted


async def whole_body(scope: Scope, receive: Receive, *, limit: int, seconds: float) -> bytes:
    """Return the body, if it comes whole and in time. Nearly always that is one message."""
    check_length(scope, limit)
    came: list[bytes] = []
    length, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                piece, more = await _piece(receive)
                came.append(piece)
                length += len(piece)
                if length > limit:
                    raise RequestTooLarge(limit)
    except TimeoutError:
        raise DeadlineExceeded(seconds) from None
    return b"".join(came)


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """Return the next piece of a body, and whether more of it comes."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Interrupted
    return message.get("body", b""), message.get("more_body", False)


def read_json(kind: type, scope: Scope, body: bytes) -> Any:
    """Return a JSON body as the type that a call takes.

    Raises:
        MediaTypeUnsupported: it does not say that it is JSON.
        InvalidSettings: it is not, or has a member that is wrong.
    """
    if media_type(scope) != "application/json":
        raise MediaTypeUnsupported("application/json")
    try:
        return msgspec.json.decode(body, type=kind, strict=True)
    except msgspec.ValidationError as refusal:
        raise InvalidSettings(explained(str(refusal), kind)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidSettings("The body is not JSON.") from None


def read_query(kind: type | None, query_string: bytes) -> Any:
    """Return a query string as the type that a call takes.

    Raises:
        InvalidSettings: a name is unknown, comes twice, or has a wrong value.
    """
    pairs = _pairs(query_string)
    names = [name for name, _ in pairs]
    if kind is None:
        if names:
            raise InvalidSettings("This address takes no query string.")
        return None
    if len(names) != len(set(names)):
        raise InvalidSettings("A name stands twice in the query string.")
    return convert(kind, pairs)


def convert(kind: type, pairs: Iterable[tuple[str, Any]]) -> Any:
    """Return named texts as a type; numbers and switches are read from their spelling."""
    try:
        return msgspec.convert(dict(pairs), kind, strict=False)
    except msgspec.ValidationError as refusal:
        raise InvalidSettings(explained(str(refusal), kind)) from None


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    if len(query_string) > LONGEST_QUERY_STRING:
        raise RequestTooLarge(LONGEST_QUERY_STRING)
    try:
        return parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
        )
    except (UnicodeDecodeError, ValueError):
        raise InvalidSettings("The query string is not UTF-8.") from None
