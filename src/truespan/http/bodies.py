"""Uploads: files and fields of a form, kept in spooled files until the engine takes them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Message, Receive, Scope

from truespan.arguments import explained
from truespan.errors import (
    DeadlineExceeded,
    InternalError,
    Interrupted,
    InvalidSettings,
    MediaTypeUnsupported,
    RequestTooLarge,
    StorageFull,
    TruespanError,
)
from truespan.http.call import FORM
from truespan.http.schemas import Body, Label
from truespan.types.source import Upload

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


MOST_FILES = 100
MOST_FIELDS = 200
LONGEST_FIELD = 4096
_BLOCK = 1 << 20
_ADVICE = (
    f"Send at most {MOST_FILES} parts named file, and fields of at most {LONGEST_FIELD} bytes."
)


class Declaration(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller says of the documents that are uploaded."""

    kind: Annotated[Literal["document", "book"], Meta(description="What it is read as.")] | None = (
        None
    )
    title: Label | None = None
    language: Label | None = None
    version: Label | None = None
    chunking: Label | None = None
    tags: list[Label] | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """What was uploaded, and what was said of it."""

    files: tuple[tuple[str, BinaryIO], ...]
    declared: dict[str, Any] = field(default_factory=dict)

    @property
    def uploads(self) -> list[Upload]:
        """Return the files as the engine takes them."""
        return [Upload(name, content) for name, content in self.files]

    def fingerprint(self) -> bytes:
        """Return a digest of all that was sent; how it was divided into parts does not count."""
        whole = sha256(msgspec.json.encode(self.declared, order="sorted"))
        for name, file in self.files:
            content = sha256()
            while block := file.read(_BLOCK):
                content.update(block)
            file.seek(0)
            whole.update(len(name).to_bytes(4) + name.encode() + content.digest())
        return whole.digest()


async def read_form(scope: Scope, receive: Receive, *, limit: int, seconds: float) -> FormData:
    """Return a form as it came.

    Raises:
        MediaTypeUnsupported: the body is no form.
        InvalidSettings: it cannot be read as one.
    """
    if media_type(scope) != FORM:
        raise MediaTypeUnsupported(FORM)
    parser = _WholeForm(
        Headers(scope=scope),
        pieces(scope, receive, limit),
        max_files=MOST_FILES,
        max_fields=MOST_FIELDS,
        max_part_size=LONGEST_FIELD,
    )
    try:
        return await _parsed(parser, seconds)
    except BaseException:
        parser.let_go()
        raise


async def _parsed(parser: _WholeForm, seconds: float) -> FormData:
    try:
        async with asyncio.timeout(seconds):
            found = await parser.parse()
    except TimeoutError:
        raise DeadlineExceeded(seconds) from None
    except OSError as error:
        raise _unwritten(error) from None
    except (MultiPartException, KeyError, ValueError, UnicodeDecodeError):
        raise InvalidSettings("The form cannot be read.", advice=_ADVICE) from None
    if not parser.ended:
        raise InvalidSettings("The form ends before its last part.", advice=_ADVICE)
    return found


def _unwritten(error: OSError) -> TruespanError:
    """Say whether files that come could not be kept for lack of room."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return InternalError("error of the folder for temporary files")
    return StorageFull(0, 0)


class _WholeForm(MultiPartParser):
    """Notices whether a form came to its end; one that was cut would lose files in silence."""

    ended = False

    def on_end(self) -> None:
        """Take note of the end."""
        self.ended = True

    def let_go(self) -> None:
        """Close every file, also of a part that did not come whole."""
        for file in self._files_to_close_on_error:
            file.close()


@contextmanager
def opened(parts: FormData) -> Iterator[Form]:
    """Give a form's files and fields, checked; its files are closed afterwards.

    Raises:
        InvalidSettings: there is no file, or a field that nobody knows.
    """
    try:
        yield _form(parts)
    finally:
        for _, value in parts.multi_items():
            if isinstance(value, UploadFile):
                value.file.close()


def _form(parts: FormData) -> Form:
    items = parts.multi_items()
    files = [value for name, value in items if isinstance(value, UploadFile) and name == "file"]
    others = [name for name, value in items if isinstance(value, UploadFile) and name != "file"]
    if not files or others:
        raise InvalidSettings("Send at least one file, in parts named file.")
    fields = [(name, value) for name, value in items if isinstance(value, str)]
    single = [name for name, _ in fields if name != "tags"]
    if len(single) != len(set(single)):
        raise InvalidSettings("A field stands twice in the form.")
    told: dict[str, Any] = {name: value for name, value in fields if name != "tags"}
    tags = [value for name, value in fields if name == "tags"]
    declared = convert(Declaration, (told | ({"tags": tags} if tags else {})).items())
    named = tuple((file.filename or "", file.file) for file in files)
    return Form(named, msgspec.structs.asdict(declared))
