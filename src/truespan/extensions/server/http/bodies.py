"""Request bodies and query strings: read within limits, then parsed as the declared types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect
from msgspec import Struct, field
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Message, Receive, Scope

from truespan import errors
from truespan.core.decoding import prepare
from truespan.core.strict_json import (
    JsonError,
    parse_json_object,
    parse_number,
    parse_whole_number,
    require_unique_keys,
)
from truespan.extensions.server.arguments import (
    MAX_SHOWN_NAME_LENGTH,
    describe,
    explain_error,
    parse_arguments,
    rename_arguments,
)
from truespan.extensions.server.http.requests import DocumentLabels, Label
from truespan.types.arguments import DOCUMENT_ARGUMENTS
from truespan.types.source import MAX_URL_LENGTH

FORM = "multipart/form-data"
MAX_QUERY_STRING = 8192
MAX_FILES = 100
MAX_FIELDS = 200
MAX_FIELD_BYTES = 32 * 1024
_BLOCK = 1 << 20
_SHORT_DIGITS = 4
"""A body of less than 10,000 bytes: uvicorn reads up to 64 KiB before the application asks."""
_ADVICE = (
    f"Send at most {MAX_FILES} parts named file, and fields of at most {MAX_FIELD_BYTES} bytes."
)


def header(scope: Scope, name: bytes) -> list[bytes]:
    """Return the values of a header, in the order in which they were sent."""
    return [value for key, value in scope["headers"] if key == name]


def media_type(scope: Scope) -> str:
    """Return the media type of the body, without its parameters."""
    values = header(scope, b"content-type")
    return values[0].decode("latin-1").partition(";")[0].strip().lower() if values else ""


UPLOAD_SETTING = "source_max_mib"
"""The setting that limits uploads."""


def check_length(scope: Scope, limit: int, setting: str = "") -> None:
    """Refuse a body whose Content-Length is over the limit, before it is read."""
    announced = header(scope, b"content-length")
    # Compared by its length first: Python refuses to convert numbers of thousands of digits.
    if announced and announced[0].isdigit():
        digits = announced[0].lstrip(b"0") or b"0"
        if len(digits) > len(str(limit)) or int(digits) > limit:
            raise _too_large(limit, setting)


def _too_large(limit: int, setting: str) -> errors.RequestRefused:
    advice = f"Send less at once, or raise {setting} in the server's settings." if setting else None
    return errors.RequestRefused(code="request_too_large", limit=limit, part="body", advice=advice)


def limit_body(
    receive: Receive, limit: int, seconds: float | None = None, setting: str = ""
) -> Receive:
    """Wrap `receive` so that it refuses a body that is too long or takes too long."""
    length, complete = 0, False
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

    async def receive_limited() -> Message:
        nonlocal length, complete
        try:
            async with asyncio.timeout_at(None if complete else deadline):
                message = await receive()
        except TimeoutError:
            raise errors.DeadlineExceeded(seconds or 0.0, "body") from None
        length += len(message.get("body", b""))
        complete = complete or not message.get("more_body", False)
        if length > limit:
            raise _too_large(limit, setting)
        return message

    return receive_limited


async def _stream_body(
    scope: Scope, receive: Receive, limit: int, setting: str
) -> AsyncGenerator[bytes, None]:
    """Yield the body in the pieces in which it arrives."""
    check_length(scope, limit, setting)
    receive_limited = limit_body(receive, limit, setting=setting)
    while True:
        message = await receive_limited()
        if message["type"] == "http.disconnect":
            raise errors.Interrupted
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def is_short(scope: Scope) -> bool:
    """Return whether the body is so short that the server has read it ahead of the application."""
    announced = header(scope, b"content-length")
    return bool(announced) and len(announced[0]) <= _SHORT_DIGITS and announced[0].isdigit()


async def read_body(scope: Scope, receive: Receive, *, limit: int, seconds: float) -> bytes:
    """Return the whole body, within a limit of bytes and seconds."""
    if not header(scope, b"content-length") and not header(scope, b"transfer-encoding"):
        return b""
    try:
        async with asyncio.timeout(seconds):
            pieces = _stream_body(scope, receive, limit, "")
            return b"".join([piece async for piece in pieces])
    except TimeoutError:
        raise errors.DeadlineExceeded(seconds, "body") from None


def parse_json(kind: type, scope: Scope, body: bytes) -> Any:
    """Return a JSON body as the type that an operation takes."""
    if media_type(scope) != "application/json":
        raise errors.RequestRefused(code="media_type_unsupported", wanted="application/json")
    try:
        value = _decode(kind, body)
        require_unique_keys(body)
    except msgspec.ValidationError as error:
        raise errors.InvalidArgument(explain_error(error, kind)) from None
    except JsonError as error:
        raise errors.InvalidArgument(f"The body cannot be used: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.InvalidArgument("The body is not JSON.") from None
    return value


def _decode(kind: type, body: bytes) -> Any:
    """Return a JSON body as a type; other names are translated if decoding fails."""
    try:
        return msgspec.json.decode(body, type=prepare(kind), strict=True)
    except msgspec.ValidationError:
        values = msgspec.json.decode(body)
        if not isinstance(values, dict) or rename_arguments(kind, values) == values:
            raise
        return parse_arguments(kind, values)


def parse_query(kind: type | None, query_string: bytes) -> Any:
    """Return a query string as the type that an operation takes; None if it takes none."""
    if not query_string:
        return None if kind is None else _default_query(kind)
    if len(query_string) > MAX_QUERY_STRING:
        raise errors.RequestRefused(
            code="request_too_large", limit=MAX_QUERY_STRING, part="query string"
        )
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
        )
    except (UnicodeDecodeError, ValueError):
        raise errors.InvalidArgument("The query string is not UTF-8.") from None
    if kind is None:
        if pairs:
            raise errors.InvalidArgument("This address takes no query string.")
        return None
    values = dict(pairs)
    if len(values) != len(pairs):
        seen = [name for name, _ in pairs]
        name = next(name for name in seen if seen.count(name) > 1)[:MAX_SHOWN_NAME_LENGTH]
        raise errors.InvalidArgument(f"The argument {name!r} occurs twice in the query string.")
    return _convert(kind, values)


# Shared by threads: a cache of tables that are only read.
@cache
def _number_fields(kind: type) -> dict[str, Callable[[str], float | None]]:
    """Return the numeric arguments of a type, each with its parser."""
    readers: dict[type, Callable[[str], float | None]] = {
        msgspec.inspect.IntType: parse_whole_number,
        msgspec.inspect.FloatType: parse_number,
    }
    found: dict[str, Callable[[str], float | None]] = {}
    for member in getattr(msgspec.inspect.type_info(kind), "fields", ()):
        kinds = getattr(member.type, "types", (member.type,))
        for one in kinds:
            # A type with a description is wrapped.
            one = one.type if isinstance(one, msgspec.inspect.Metadata) else one
            if type(one) in readers:
                found[member.encode_name] = readers[type(one)]
    return found


# Shared by threads: a cache of the arguments that an empty query string stands for; their types
# are frozen.
@cache
def _default_query(kind: type) -> Any:
    """Return the value of an empty query string. Threads share it, because the types are frozen."""
    return _convert(kind, {})


def _convert(kind: type, values: dict[str, Any]) -> Any:
    """Return text values as a type; numbers and booleans are parsed."""
    for name, read in _number_fields(kind).items():
        if name in values:
            number = read(values[name])
            if number is None:
                raise errors.InvalidArgument(
                    f"The argument {name!r} is wrong: it is not a decimal number.",
                    advice="Write it like 5 or -1, without signs, spaces or exponents.",
                )
            values[name] = number
    try:
        return msgspec.convert(values, prepare(kind), strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidArgument(explain_error(error, kind)) from None


class Declaration(DocumentLabels, frozen=True, kw_only=True):
    """Declared properties of uploaded documents."""

    title: Annotated[Label, describe(DOCUMENT_ARGUMENTS["title"])] | None = None
    source_url: (
        Annotated[str, describe(DOCUMENT_ARGUMENTS["source_url"], max_length=MAX_URL_LENGTH)] | None
    ) = None
    metadata: (
        Annotated[dict[str, Any], describe(DOCUMENT_ARGUMENTS["metadata"], "A JSON object.")] | None
    ) = None
    fields: (
        Annotated[dict[str, Any], describe(DOCUMENT_ARGUMENTS["fields"], "A JSON object.")] | None
    ) = None
    ocr: Annotated[bool, describe(DOCUMENT_ARGUMENTS["ocr"])] | None = None
    hidden_sheets: Annotated[bool, describe(DOCUMENT_ARGUMENTS["hidden_sheets"])] | None = None
    copies: (
        Annotated[Literal["keep", "refuse", "link"], describe(DOCUMENT_ARGUMENTS["copies"])] | None
    ) = None
    running_heads: Annotated[bool, describe(DOCUMENT_ARGUMENTS["running_heads"])] | None = None


class Form(Struct, frozen=True):
    """An upload: files, and the declared properties of the documents."""

    files: tuple[tuple[str, BinaryIO], ...]
    declared: dict[str, Any] = field(default_factory=dict)

    def fingerprint(self) -> bytes:
        """Return a digest of files and fields; the order of the parts' bytes does not matter."""
        digest = sha256(msgspec.json.encode(self.declared, order="sorted"))
        for name, file in self.files:
            content = sha256()
            while block := file.read(_BLOCK):
                content.update(block)
            file.seek(0)
            digest.update(len(name).to_bytes(4) + name.encode() + content.digest())
        return digest.digest()


class _FormParser(MultiPartParser):
    """Remembers whether the form was complete; a truncated form would lose files silently."""

    complete = False

    def on_end(self) -> None:
        self.complete = True

    def close_files(self) -> None:
        """Close every file, also of a part that is incomplete."""
        for file in self._files_to_close_on_error:
            file.close()


async def read_form(scope: Scope, receive: Receive, *, limit: int, seconds: float) -> FormData:
    """Return the parts of a form; files are in spooled temporary files."""
    if media_type(scope) != FORM:
        raise errors.RequestRefused(code="media_type_unsupported", wanted=FORM)
    parser = _FormParser(
        Headers(scope=scope),
        _stream_body(scope, receive, limit, UPLOAD_SETTING),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        async with asyncio.timeout(seconds):
            parts = await parser.parse()
        if not parser.complete:
            raise errors.InvalidArgument("The form ends before its last part.", advice=_ADVICE)
        return parts
    except BaseException as error:
        parser.close_files()
        if isinstance(error, TimeoutError):
            raise errors.DeadlineExceeded(seconds, "body") from None
        if isinstance(error, OSError):
            refusal = errors.InvalidConfiguration(
                f"The folder for temporary files cannot be used: {error.strerror}.",
                advice="Set TMPDIR to a folder that the server may write to.",
            )
            raise errors.resource_error(error) or refusal from None
        if isinstance(error, MultiPartException | KeyError | ValueError):
            raise errors.InvalidArgument("The form is malformed.", advice=_ADVICE) from None
        raise


@contextmanager
def open_form(parts: FormData) -> Iterator[Form]:
    """Yield the validated files and fields of a form; its files are closed afterwards."""
    items = parts.multi_items()
    uploads = [(name, value) for name, value in items if isinstance(value, UploadFile)]
    try:
        if not uploads or any(name != "file" for name, _ in uploads):
            raise errors.InvalidArgument("Send at least one file, in parts named file.")
        fields = [(name, value) for name, value in items if isinstance(value, str)]
        lists = {"tags", "audience"}
        values: dict[str, Any] = {name: value for name, value in fields if name not in lists}
        repeated = [(name, value) for name, value in fields if name in lists]
        if len(values) + len(repeated) != len(fields):
            raise errors.InvalidArgument("A field is repeated in the form.")
        for name in values.keys() & {"metadata", "fields"}:
            try:
                values[name] = parse_json_object(values[name])
            except JsonError as error:
                raise errors.InvalidArgument(f"The field {name} is wrong: {error}.") from None
        for name, value in repeated:
            values.setdefault(name, []).append(value)
        declared = _convert(Declaration, values)
        files = tuple((file.filename or "", file.file) for _, file in uploads)
        yield Form(files, msgspec.structs.asdict(declared))
    finally:
        for _, upload in uploads:
            upload.file.close()
