"""E-mail: messages (EML) and mailboxes (MBOX), with the parser of the standard library.

The text of a message is its plain text, or its HTML if that has far more words, after the usual
header lines. Forwarded messages and quoted earlier messages are part of the text; attachments are
separate documents.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from hashlib import sha256
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from truespan import errors
from truespan.core.graphemes import shorten
from truespan.parsing.detect import (
    ENDINGS_OF_TYPES,
    decode,
    decode_declared,
    format_by_name,
    supported,
)
from truespan.parsing.formats.html import load_html
from truespan.text.clean import clean
from truespan.types.source import Member, Refusal
from truespan.types.text import Block, BlockKind, Loaded, Properties

if TYPE_CHECKING:
    _Part = Message[Any, Any]

MAX_ATTACHMENTS = 200
"""Maximum number of attachments that are read of a message."""
MAX_MESSAGES = 100_000
"""Maximum number of messages in a mailbox."""
_MAX_LEVELS = 30
_MAX_HEADER_LENGTH = 1000
_MAX_ADDRESSES = 50
"""Maximum number of addresses; the metadata of a document are limited to 16 KiB."""
_KNOWN = ("from", "to", "subject", "date", "message-id", "received", "mime-version", "content-type")
_DOUBLE_BREAK = re.compile(rb"\n\r?\n")


def load_message(name: str, data: bytes) -> Loaded:
    """Return the text of a message without its attachments, or raise `SourceRefused`."""
    message = _parse(name, data)
    headers = _read_headers(message)
    reader = _Reader(name)
    reader.read(message, 0)
    if reader.encrypted and not reader.has_text:
        raise errors.SourceRefused("source_encrypted", name)
    properties = Properties(
        title=headers.subject,
        authors=tuple(sender.name or sender.address for sender in headers.senders),
        created=headers.date,
        language=headers.language,
    )
    return Loaded(tuple(reader.blocks), headers.subject, properties)


def open_message(name: str, data: bytes) -> Iterator[Member | None]:
    """Yield the message as the file itself, and its attachments; see `parsing.members`."""
    message = _parse(name, data)
    headers = _read_headers(message)
    yield Member("", data, declared={"metadata": headers.to_metadata()})
    yield from _read_attachments(message, headers, "")


_SEPARATOR = re.compile(
    rb"^From [^\n]*[0-9]:[0-9]{2}[^\n]*\n(?=[!-9;-~]{1,100}:|>From )", re.MULTILINE
)
_ANY_SEPARATOR = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n")
_ESCAPED = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_MESSAGE_ID = re.compile(rb"^message-id:\s*<?([^\s<>]{1,500})", re.IGNORECASE | re.MULTILINE)
_MULTIPART = re.compile(rb"^content-type:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE)


def refuse_empty_mailbox(name: str, data: bytes) -> NoReturn:  # noqa: ARG001 -- as loaders are called
    """Raise an error for a mailbox without messages; the messages of others are the documents."""
    raise errors.SourceRefused("source_empty", name, advice="The mailbox has no messages.")


def open_mailbox(name: str, data: bytes) -> Iterator[Member | None]:
    """Yield the messages of a mailbox, each with its attachments; see `parsing.members`.

    A message is named by its Message-ID, or by a hash of its content, so that it remains the same
    document when other messages change. A copy of a message is skipped.
    """
    starts = [found.span() for found in _SEPARATOR.finditer(data)]
    starts = starts or [found.span() for found in _ANY_SEPARATOR.finditer(data)]
    if not starts:
        raise errors.SourceRefused(
            "source_not_text", name, advice="A mailbox begins with a line such as 'From ...'."
        )
    if len(starts) > MAX_MESSAGES:
        advice = f"It has {len(starts)} messages; split it into files of at most {MAX_MESSAGES}."
        raise errors.SourceRefused("source_too_large", name, advice=advice)
    ends = [start for start, _ in starts[1:]] + [len(data)]
    seen: Counter[str] = Counter()
    copies: set[bytes] = set()
    for (_, start), end in zip(starts, ends, strict=True):
        # A blank line at the end separates messages and is not part of one.
        content = _ESCAPED.sub(b"", data[start:end]).rstrip(b"\r\n") + b"\n"
        digest = sha256(content)
        if digest.digest() in copies:
            yield None
            continue
        copies.add(digest.digest())
        body = _DOUBLE_BREAK.search(content)
        head = content[: body.end()] if body else content
        found = _MESSAGE_ID.search(head)
        base = _file_name(found[1].decode("ascii", "replace").replace("/", "_")) if found else ""
        base = base or f"message-{digest.hexdigest()[:16]}"
        seen[base.lower()] += 1
        if seen[base.lower()] > 1:
            base = f"{base}-{digest.hexdigest()[:16]}"
        try:
            # The body is parsed later unless there are attachments.
            message = _parse(name, content if _MULTIPART.search(head) else head)
            headers = _read_headers(message)
        except errors.SourceRefused as refused:
            yield Member(f"{base}.eml", content, refusal=Refusal(refused.code))
            continue
        yield Member(f"{base}.eml", content, declared={"metadata": headers.to_metadata()})
        yield from _read_attachments(message, headers, f"{base}.eml")


def _parse(name: str, data: bytes) -> _Part:
    # Some programs write a byte order mark or blank lines before the headers.
    data = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    try:
        message: _Part = message_from_bytes(data)
    except RecursionError:
        raise errors.SourceRefused("source_unsafe", name) from None
    except (MessageError, ValueError, LookupError, AssertionError) as error:
        # The parser accepts nearly everything, but some input makes it fail.
        raise errors.SourceRefused("source_not_text", name) from error
    if not any(header in message for header in _KNOWN) and decode(data) is None:
        raise errors.SourceRefused("source_not_text", name)
    return message


class _Address(NamedTuple):
    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.name} <{self.address}>" if self.name and self.address else "".join(self)


class _Headers(Struct, frozen=True):
    """Headers of a message. The date is in ISO 8601."""

    subject: str | None
    senders: tuple[_Address, ...]
    to: tuple[_Address, ...]
    cc: tuple[_Address, ...]
    date: str | None
    date_shown: str
    message_id: str
    in_reply_to: str
    language: str | None

    def to_metadata(self, message: str = "message_id") -> dict[str, Any]:
        """Return the metadata; `message` is the key of the message id."""
        fields = {
            "from": [sender.address for sender in self.senders],
            "from_name": [sender.name for sender in self.senders if sender.name],
            "to": [each.address for each in self.to],
            "cc": [each.address for each in self.cc],
            "date": self.date,
            "subject": self.subject,
            message: self.message_id,
            "in_reply_to": self.in_reply_to,
        }
        known: dict[str, Any] = {}
        for key, value in fields.items():
            values = [each for each in value if each] if isinstance(value, list) else value
            if values:
                is_one = isinstance(values, list) and len(values) == 1
                known[key] = values[0] if is_one else values
        return known

    def lines(self) -> list[str]:
        """Return the header lines that a mail program shows above a message."""
        shown = {
            "From": ", ".join(map(str, self.senders)),
            "To": ", ".join(map(str, self.to)),
            "Cc": ", ".join(map(str, self.cc)),
            "Date": self.date_shown,
            "Subject": self.subject,
        }
        return [f"{label}: {value}" for label, value in shown.items() if value]


def _read_headers(message: _Part) -> _Headers:
    values: dict[str, list[str]] = {}
    for name, value in message.raw_items():
        values.setdefault(name.lower(), []).append(str(value))

    def first(name: str) -> str:
        return _decode_words(values[name][0]) if name in values else ""

    def addresses(name: str) -> tuple[_Address, ...]:
        # Names are decoded after splitting, because they may contain commas.
        whole = [value[: 100 * _MAX_HEADER_LENGTH] for value in values.get(name, ())]
        try:
            pairs = getaddresses([_unfold(value) for value in whole])
        except (ValueError, IndexError, RecursionError):
            pairs = []
        found = [_Address(_decode_words(label), _decode_words(address)) for label, address in pairs]
        found = [each for each in found if any(each)]
        if not found and whole:
            found = [_Address(_decode_words(value), "") for value in whole]
        return tuple(found[:_MAX_ADDRESSES])

    date = first("date")
    return _Headers(
        subject=first("subject") or None,
        senders=addresses("from") or addresses("sender"),
        to=addresses("to"),
        cc=addresses("cc"),
        date=_read_date(date),
        date_shown=date,
        message_id=first("message-id").strip("<> "),
        in_reply_to=first("in-reply-to").strip("<> "),
        language=first("content-language").partition(",")[0].strip() or None,
    )


def _unfold(value: str) -> str:
    return value.replace("\r", "").replace("\n", "")


def _decode_words(value: str) -> str:
    """Return a header on one line with its encoded words decoded."""
    value = _unfold(value)[: 20 * _MAX_HEADER_LENGTH]
    if not value.isascii():
        # Bytes beyond ASCII are represented by surrogates.
        raw = value.encode("utf-8", "surrogateescape")
        value = decode(raw) or raw.decode("cp1252", "replace")
    if "=?" in value:
        try:
            pieces = decode_header(value)
        except (MessageError, ValueError):
            pieces = []
        if pieces:
            value = "".join(
                piece if isinstance(piece, str) else _decode_text(piece, charset or "")
                for piece, charset in pieces
            )
    return shorten(" ".join(clean(value).split()), _MAX_HEADER_LENGTH)


def _read_date(value: str) -> str | None:
    """Return a date in ISO 8601; None if it cannot be read."""
    try:
        moment: datetime = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            # "-0000" is UTC with an unknown time zone of the sender.
            moment = moment.replace(tzinfo=UTC)
        offset = moment.utcoffset()
        if offset is None or offset.total_seconds() % 60 or abs(offset.total_seconds()) >= 86_400:
            moment = moment.astimezone(UTC)
        return moment.isoformat(timespec="seconds")
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


_UNSURE = re.compile(r"(?i)(?:us-)?ascii|iso[-_]?8859-1|latin-?1|windows-1252|utf-?8|unknown.*")


def _decode_text(data: bytes, charset: str) -> str:
    """Decode text in the declared charset, or by detection if the charset is unreliable."""
    # Programs declare these charsets if they do not know the encoding.
    stated = "" if _UNSURE.fullmatch(charset) else charset
    return decode_declared(data, stated) or data.decode("cp1252", "replace")


def _content(part: _Part) -> bytes:
    try:
        content = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        content = None
    if isinstance(content, bytes):
        return content
    payload = part.get_payload()
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _children(part: _Part) -> list[_Part]:
    payload: Any = part.get_payload()
    found = payload if isinstance(payload, list) else ()
    return [child for child in found if isinstance(child, Message)]


class _Reader(Struct):
    """Converts a message to blocks."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    encrypted: bool = False
    has_text: bool = False
    """Whether the message has text other than headers."""
    _chapter: str | None = None
    """Subject of the current forwarded message."""

    def read(self, message: _Part, level: int) -> None:
        """Add a message with its headers."""
        headers = _read_headers(message)
        names = [name for part in _leaves(message) if (name := _attached_name(part))]
        if level and headers.subject:
            self._chapter = headers.subject
            self._add(Block(BlockKind.HEADING, headers.subject))
        lines = headers.lines()
        if names:
            further = len(names) - MAX_ATTACHMENTS
            names[MAX_ATTACHMENTS:] = [f"and {further} more"] if further > 0 else []
            lines.append(f"Attachments: {', '.join(names)}")
        self._add(Block(BlockKind.PARAGRAPH, "\n".join(lines)))
        self._read_part(message, level)

    def _read_part(self, part: _Part, level: int) -> None:
        if level > _MAX_LEVELS:
            raise errors.SourceRefused("source_unsafe", self.name)
        kind = part.get_content_type()
        children = _children(part)
        if kind in ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"):
            self.encrypted = True
        elif kind == "message/delivery-status" and children:
            text = "\n\n".join(
                "\n".join(f"{label}: {_decode_words(value)}" for label, value in child.raw_items())
                for child in children
            )
            self._add_plain(text, flowed=False, deleted=False)
        elif part.get_content_maintype() == "message" and children:
            chapter = self._chapter
            for child in children:
                self.read(child, level + 1)
            self._chapter = chapter
        elif kind == "multipart/alternative":
            self._read_best(children, level)
        elif kind in ("multipart/related", "multipart/signed"):
            for child in children[:1]:
                self._read_part(child, level + 1)
        elif children:
            for child in children:
                self._read_part(child, level + 1)
        elif not _is_attachment(part):
            text = _decode_text(_content(part), str(part.get_content_charset("")))
            if kind in ("text/html", "application/xhtml+xml"):
                self._add_html(text)
            else:
                flowed = str(part.get_param("format", "")).lower() == "flowed"
                deleted = str(part.get_param("delsp", "")).lower() == "yes"
                self._add_plain(text, flowed=flowed, deleted=deleted)

    def _read_best(self, children: Sequence[_Part], level: int) -> None:
        """Add the plain text alternative, or another one with more than twice the words."""
        best: _Reader | None = None
        most = 0
        for child in children:
            if child.get_content_type() in ("text/calendar", "text/x-amp-html") and best:
                continue
            reader = _Reader(self.name, _chapter=self._chapter)
            reader._read_part(child, level + 1)
            self.encrypted = self.encrypted or reader.encrypted
            words = sum(len(block.text.split()) for block in reader.blocks)
            if words > 2 * most:
                best, most = reader, words
        if best:
            self.blocks += best.blocks
            self.has_text = True

    def _add(self, block: Block) -> None:
        if block.text.strip():
            self.blocks.append(replace(block, chapter=block.chapter or self._chapter))

    def _add_html(self, text: str) -> None:
        content = codecs.BOM_UTF8 + text.encode("utf-8", "replace")
        try:
            blocks = load_html(self.name, content, images=False, whole=True).blocks
        except errors.SourceRefused:
            blocks = (Block(BlockKind.PARAGRAPH, text),)
        for block in blocks:
            self.has_text = self.has_text or bool(block.text.strip())
            self._add(replace(block, figures=(), pages=(), is_contents=False))

    def _add_plain(self, text: str, *, flowed: bool, deleted: bool) -> None:
        lines = clean(text).split("\n")
        quoted = _join_flowed(lines, deleted) if flowed else [_unquote(line) for line in lines]
        for (is_quote, is_blank), group in groupby(
            quoted, lambda pair: (pair[0] > 0, not pair[1].strip())
        ):
            if not is_blank:
                kind = BlockKind.QUOTE if is_quote else BlockKind.PARAGRAPH
                self._add(Block(kind, "\n".join(line for _, line in group)))
                self.has_text = True


_MARKERS = re.compile(r"(?:> ?)+")


def _unquote(line: str) -> tuple[int, str]:
    """Return the quote depth of a line, and its text."""
    found = _MARKERS.match(line)
    return (found[0].count(">"), line[found.end() :]) if found else (0, line)


def _join_flowed(lines: Sequence[str], deleted: bool) -> list[tuple[int, str]]:
    """Join the lines of flowed paragraphs (RFC 3676).

    A line that ends with a space continues on the next line of the same quote depth. With
    `deleted`, the space is removed.
    """
    joined: list[tuple[int, list[str]]] = []
    continues = False
    for line in lines:
        depth = len(line) - len(line.lstrip(">"))
        text = line[depth:].removeprefix(" ")
        is_signature = text == "-- "
        if continues and joined[-1][0] == depth and not is_signature:
            joined[-1][1].append(text)
        else:
            joined.append((depth, [text]))
        continues = text.endswith(" ") and not is_signature
        if continues and deleted:
            joined[-1][1][-1] = text[:-1]
    return [(depth, "".join(parts)) for depth, parts in joined]


_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')
_MAX_NAME_LENGTH = 150
_HIDDEN = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature"}
    | {"application/pgp-encrypted", "application/x-pkcs7-signature"}
)


def _leaves(part: _Part, *, nested: bool = False, level: int = 0) -> Iterator[_Part]:
    """Yield the leaf parts of a message; with `nested`, also those of attached messages."""
    if level > 3 * _MAX_LEVELS:
        return
    children = _children(part)
    for child in children:
        if nested or child.get_content_maintype() != "message":
            yield from _leaves(child, nested=nested, level=level + 1)
    if not children:
        yield part


def _is_attachment(part: _Part) -> bool:
    if part.get_content_disposition() == "attachment":
        return True
    is_text = part.get_content_maintype() in ("text", "multipart", "message")
    return not is_text and part.get_content_type() != "application/xhtml+xml"


def _attached_name(part: _Part) -> str:
    """Return the name of an attachment; empty for other parts and inline pictures."""
    if not _is_attachment(part) or part.get_content_type() in _HIDDEN:
        return ""
    try:
        name = part.get_filename()
    except (ValueError, LookupError, AssertionError):
        name = None
    is_picture = part.get_content_maintype() == "image"
    if is_picture and part.get_content_disposition() != "attachment":
        return ""
    shown = _file_name(_decode_words(name)) if name else ""
    return shown or f"attachment{ENDINGS_OF_TYPES.get(part.get_content_type(), '')}"


def _file_name(name: str) -> str:
    """Return a valid file name; empty if nothing is left."""
    name = name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in _NOT_IN_NAMES.sub("_", name) if char.isprintable())
    stem, dot, ending = printable.strip(" .").rpartition(".")
    if dot and stem and len(ending) < 10:
        return f"{shorten(stem, _MAX_NAME_LENGTH, '')}.{ending}"
    return shorten(printable.strip(" ."), _MAX_NAME_LENGTH, "")


def _read_attachments(message: _Part, headers: _Headers, parent: str) -> Iterator[Member | None]:
    """Yield the attachments of a message, including those of attached messages."""
    seen: Counter[str] = Counter()
    folder = f"{parent.removesuffix('.eml')}/" if parent else ""
    declared = {"metadata": headers.to_metadata("message")}
    attached = (
        (part, name) for part in _leaves(message, nested=True) if (name := _attached_name(part))
    )
    for part, name in islice(attached, MAX_ATTACHMENTS):
        ending = "" if supported(name) else ENDINGS_OF_TYPES.get(part.get_content_type(), "")
        if not supported(f"{name}{ending}") or format_by_name(f"{name}{ending}").only_members:
            yield None
            continue
        seen[name.lower()] += 1
        if seen[name.lower()] > 1:
            stem, dot, last = name.rpartition(".")
            number = seen[name.lower()]
            name = f"{stem} ({number}).{last}" if dot else f"{name} ({number})"
        yield Member(f"{folder}{name}", _content(part), ending, declared, parent)
    if further := sum(1 for _ in attached):
        advice = (
            f"The message has {MAX_ATTACHMENTS + further}; the first {MAX_ATTACHMENTS} are read."
        )
        refusal = Refusal("source_too_large", advice)
        yield Member(f"{folder}{further} further attachments", parent=parent, refusal=refusal)
