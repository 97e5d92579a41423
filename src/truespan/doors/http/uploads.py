"""Uploads: files and fields of a form, kept in spooled files until the engine takes them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from msgspec import Meta
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive, Scope

from truespan.doors.http.bodies import convert, media_type, pieces
from truespan.doors.http.call import FORM
from truespan.doors.http.shapes import Body, Label
from truespan.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidSettings,
    MediaTypeUnsupported,
    StorageFull,
    TruespanError,
)
from truespan.model.upload import Upload

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
