"""JSON over HTTP to a provider that the operator named, and what each failure is called.

Owns: requests, the size of a reply, and the errors for statuses and broken connections.
Does not own: what a provider's own words mean; its adapter looks at a reply before it reads it.
Must hold: no redirect is followed, no proxy of the environment is used, and no message holds a
request's text, a reply's body or a key.
"""

from __future__ import annotations

import io
import ipaddress
import json
import re
import socket
import ssl
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from truespan.cancel import CancelToken, current_cancel_token
from truespan.errors import (
    BatchTooLarge,
    InvalidConfiguration,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    ServiceError,
    TextTooLong,
)
from truespan.ingest.embed import RateLimiter
from truespan.protocols import Clock

_MOST_READ = 20_000
"""Characters of a complaint that are looked at: none that is meant to be read is longer."""

_BATCH_TOO_LARGE = re.compile(
    r"max_tokens_per_request|tokens per request"
    r"|array_above_max_length|array too long"
    r"|maximum allowed batch size|batch size.{0,40}(?:exceed|too large)"
    r"|at most \d+ requests can be in one batch"
    r"|payload size exceeds|request too large|request entity too large",
    re.IGNORECASE,
)
_TEXT_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length"
    r"|exceeds? .{0,60}context (?:length|size)|larger than the max\w* context"
    r"|too large to process|must have less than \d+ tokens"
    r"|input token count.{0,40}exceeds|maximum (?:input|sequence) length",
    re.IGNORECASE,
)
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|\bmodels?\b.{0,200}\b(?:not found|does not exist|not exist)", re.IGNORECASE
)


def words_of(reply: Reply) -> str:
    """Return every piece of text in the body of a reply, which may be of any shape."""
    try:
        return " ".join(_texts(msgspec.json.decode(reply.body[: 1 << 20])))[:_MOST_READ]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _texts(part)]


def size_refusal(reply: Reply) -> ProviderRefused | None:
    """Return the error for a reply that says the request or a text in it is too large."""
    words = words_of(reply)
    if reply.status == 413 or _BATCH_TOO_LARGE.search(words):
        return BatchTooLarge(f"A request is larger than {reply.who} takes (status {reply.status}).")
    if _TEXT_TOO_LONG.search(words):
        return TextTooLong(
            f"A text is longer than the model reads ({reply.who}).",
            advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
        )
    return None


def names_no_model(reply: Reply) -> bool:
    """Say whether a reply says that there is no such model."""
    return _NO_SUCH_MODEL.search(words_of(reply)) is not None


_PORTS = {"http": 80, "https": 443}
_MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long one request may take and how much may come back.

    A model may have to be loaded before the first byte comes, so a single read may take long; the
    total is over the whole request. Between the pieces of a reply that comes in pieces the wait is
    `piece_seconds`, and a line of it may have `line_bytes`.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 120.0
    total_seconds: float = 300.0
    body_bytes: int = 32 << 20
    piece_seconds: float = 60.0
    line_bytes: int = 1 << 20


class Target(NamedTuple):
    """Where a provider is reached."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> str:
        """Return host and port, as messages may show them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the base URL in one spelling."""
        return f"{self.scheme}://{self.address}{self.path}"


def read_target(url: str) -> Target:
    """Return the parts of a base URL.

    Raises:
        InvalidConfiguration: it is not a plain http or https address, or it carries a password.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
    except ValueError:
        raise _misspelt() from None
    plain = url.isascii() and url.isprintable() and " " not in url
    extra = parts.query or parts.fragment or "@" in parts.netloc
    if not plain or extra or parts.scheme not in _PORTS or not host or port == 0:
        raise _misspelt()
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _misspelt() -> InvalidConfiguration:
    # The value is not repeated: a key may have been pasted into it.
    return InvalidConfiguration(
        "The base URL of a provider must be http:// or https:// with a host.",
        advice="It takes no user, password, query or fragment, as in http://127.0.0.1:11434.",
    )


def is_allowed(address: str) -> bool:
    """Say whether a provider may live at an address.

    Loopback and private networks are where Ollama lives. Link-local addresses are not: there the
    machines of a cloud find their credentials.
    """
    where = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(where, ipaddress.IPv6Address):
        # The other reserved ranges of version 6 include those that lead to version 4.
        where = where.ipv4_mapped or where
    reserved = isinstance(where, ipaddress.IPv4Address) and where.is_reserved
    return not (where.is_link_local or where.is_multicast or where.is_unspecified or reserved)


class AddressRefused(OSError):
    """A name leads only to addresses that are never a provider's."""


class ClosedEarly(ConnectionError):
    """The other side closed the connection before the first byte of a reply."""


class Connection(HTTPConnection):
    """A connection whose every step ends by `deadline`, on the clock it was given.

    No single step takes longer than `patience`.
    """

    def __init__(self, target: Target, bounds: Bounds, clock: Clock) -> None:
        super().__init__(target.host, target.port)
        self.default_port = _PORTS[target.scheme]
        self.deadline = 0.0
        self.patience = bounds.read_seconds
        self._hung_up = False
        self._opened: socket.socket | None = None
        """What was connected; `sock` is forgotten as soon as the last reply on it has begun."""
        self._tls = ssl.create_default_context() if target.scheme == "https" else None
        self._bounds = bounds
        self._clock = clock

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> HTTPResponse:
        """Send a request and return its reply, of which only the head has been read."""
        try:
            self.request(method, path, body, headers)
            return self.getresponse()
        except ConnectionRefusedError:
            raise
        except (ConnectionError, ssl.SSLEOFError):
            raise ClosedEarly from None

    def connect(self) -> None:
        """Connect to an address of the host.

        The name is resolved anew each time, and the address that was checked is the one that is
        connected to: a name that changes its mind in between gains nothing.
        """
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        failure: OSError = AddressRefused()
        for family, kind, protocol, _, address in found:
            if not is_allowed(str(address[0])):
                continue
            try:
                opened = self._opened = self._open(socket.socket(family, kind, protocol), address)
            except OSError as error:
                failure = error
            else:
                self.sock = cast(socket.socket, _Bounded(opened, self))
                return
        raise failure

    def _open(self, plain: socket.socket, address: Any) -> socket.socket:
        try:
            plain.settimeout(self.wait(self._bounds.connect_seconds))
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(plain, server_hostname=self.host) if self._tls else plain
        except BaseException:
            plain.close()
            raise

    def hang_up(self) -> None:
        """End whatever step another thread waits in, and let no other begin."""
        self._hung_up = True
        if self._opened is not None:
            # Closing would leave whoever reads waiting. With TLS, too, it is the plain socket that
            # is shut: the other one's own way is for the thread that reads.
            with suppress(OSError):
                socket.socket.shutdown(self._opened, socket.SHUT_RDWR)

    def wait(self, longest: float | None = None) -> float:
        """Return for how long the next step may block."""
        if self._hung_up:
            raise ConnectionAbortedError
        left = self.deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, longest or self.patience)


class _Bounded:
    """The part of a socket that an HTTP connection uses, each call of it bounded in time."""

    def __init__(self, inner: socket.socket, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    def sendall(self, content: bytes) -> None:
        self._inner.settimeout(self._connection.wait())
        self._inner.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:
        del mode  # A reply is only ever read.
        raw = self._inner.makefile("rb", buffering=0)
        return io.BufferedReader(_BoundedReader(raw, self._inner, self._connection))

    def close(self) -> None:
        self._inner.close()


class _BoundedReader(io.RawIOBase):
    """What comes in, each read of it bounded in time."""

    def __init__(self, raw: socket.SocketIO, inner: socket.socket, connection: Connection) -> None:
        self._raw, self._inner, self._connection = raw, inner, connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._inner.settimeout(self._connection.wait())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class IdleConnections:
    """Connections that wait for the next request, of whichever thread; the newest goes first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        """Return one that was kept, if any."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def put(self, connection: Connection) -> None:
        """Keep one whose reply was read to its end, unless it is closed or enough are kept."""
        with self._lock:
            if connection.sock is not None and len(self._idle) < _MOST_KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close all that are kept."""
        while (connection := self.take()) is not None:
            connection.close()


Kind = TypeVar("Kind")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a failure that may be over when the request is sent again."""
LONGEST_PAUSE = 300.0
"""Seconds of a pause that are believed when a provider asks for one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whatever its status. `who` names the provider in messages."""

    who: str
    status: int
    body: bytes = field(repr=False)
    content_type: str
    retry_after: float | None

    @property
    def succeeded(self) -> bool:
        """Say whether the status is one of success."""
        return 200 <= self.status < 300

    def read(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that succeeded.

        Raises:
            ProviderUnavailable: the status is one that may pass, or asks for a pause.
            ProviderRefused: it is any other that is not a success.
            ProviderBadReply: it is a success, but not JSON, or JSON of another shape.
        """
        if not self.succeeded:
            raise self.failure()
        if self.content_type and "json" not in self.content_type.lower():
            raise ProviderBadReply(f"{self.who} answered with something that is not JSON.")
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._read_loosely(kind)

    def _read_loosely(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that is JSON but for NaN and infinity.

        Some servers write them down as if they were numbers. They cost the vector they are in, not
        all that came with it.
        """
        try:
            return msgspec.convert(json.loads(self.body), kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ProviderBadReply(
                f"{self.who} answered with JSON that is broken or of another shape."
            ) from None

    def failure(self) -> ServiceError:
        """Return the error that a status other than success stands for."""
        if self.status in PASSING:
            reason = "is too busy" if self.status == 429 else "failed"
            return ProviderUnavailable(
                f"{self.who} {reason} (status {self.status}).", retry_after=self.retry_after
            )
        if 300 <= self.status < 400:
            return ProviderRefused(
                f"{self.who} points elsewhere (status {self.status}); redirects are not followed.",
                advice="Set the base URL to where the provider really is.",
            )
        if self.status == 413:
            return BatchTooLarge(f"A request is larger than {self.who} takes (status 413).")
        if self.status in (401, 403):
            return ProviderRefused(
                f"{self.who} denied access (status {self.status}).",
                advice="Check the key and what it may be used for.",
            )
        return ProviderRefused(f"{self.who} refused the request (status {self.status}).")


class JsonClient:
    """Asks one provider. Several threads may share it; idle connections are kept for the next."""

    def __init__(
        self,
        base_url: str,
        *,
        label: str,
        clock: Clock,
        bounds: Bounds | None = None,
        pace: RateLimiter | None = None,
        start_advice: str = "Try again in a moment.",
    ) -> None:
        self.target = read_target(base_url)
        self.who = f"{label} at {self.target.address}"
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._pace = pace
        self._start_advice = start_advice
        self._idle = IdleConnections()
        # Nobody closes an embedder, so whoever lets go of the last reference shuts the door.
        weakref.finalize(self, self._idle.clear)

    def close(self) -> None:
        """Close the connections that are kept; the next request opens one again."""
        self._idle.clear()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a GET; raises as `post` does."""
        return self._ask("GET", path, None, headers)

    def post(self, path: str, payload: Any, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a POST of `payload` as JSON, whatever its status.

        Raises:
            ProviderUnavailable: it was not reached, or did not answer in time.
            ProviderRefused: its address or its certificate is not one to be trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
        """
        return self._ask("POST", path, msgspec.json.encode(payload), headers)

    def _ask(
        self, method: str, path: str, body: bytes | None, extra: Mapping[str, str] | None
    ) -> Reply:
        request = (method, self.target.path + path, body, headers_for(body, extra))
        if self._pace is not None:
            self._pace.wait()
        deadline = self._clock.monotonic() + self._bounds.total_seconds
        try:
            if (kept := self._idle.take()) is not None:
                try:
                    return self._exchange(kept, deadline, request)
                except ClosedEarly:
                    # It had been closed while it lay idle, so no reply was begun or lost.
                    pass
            fresh = Connection(self.target, self._bounds, self._clock)
            return self._exchange(fresh, deadline, request)
        except (OSError, HTTPException) as error:
            raise self._failure(error) from None

    def _exchange(
        self,
        connection: Connection,
        deadline: float,
        request: tuple[str, str, bytes | None, dict[str, str]],
    ) -> Reply:
        try:
            connection.deadline = deadline
            with connection.ask(*request) as response:
                reply = self._reply(response)
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return reply

    def _reply(self, response: HTTPResponse) -> Reply:
        limit = self._bounds.body_bytes
        declared_size = response.length or 0
        body = response.read(limit + 1) if declared_size <= limit else None
        if body is None or len(body) > limit:
            raise ProviderBadReply(f"{self.who} answered with more than {limit >> 20} MiB.")
        if response.length:
            # Less came than was declared, and the library below keeps silent about that.
            raise IncompleteRead(b"")
        return Reply(
            who=self.who,
            status=response.status,
            body=body,
            content_type=response.headers.get("Content-Type", ""),
            retry_after=read_pause(response.headers.get("Retry-After", ""), self._clock.now()),
        )

    def _failure(self, error: OSError | HTTPException) -> ServiceError:
        """Return what a failure of the connection is called.

        The words of the exception are not used: they may quote what was sent or received.
        """
        match error:
            case ssl.SSLCertVerificationError():
                return ProviderRefused(
                    f"{self.who} shows a certificate that is not trusted.",
                    advice="Check the base URL and the certificates of this machine.",
                )
            case AddressRefused():
                return ProviderRefused(
                    f"{self.who} has an address that is never a provider's.",
                    advice="Link-local, multicast and unspecified addresses are refused.",
                )
            case TimeoutError():
                reason = "did not answer in time"
            case ConnectionRefusedError() | socket.gaierror():
                reason = "cannot be reached"
            case ConnectionError() | IncompleteRead():
                reason = "closed the connection before its reply was complete"
            case HTTPException():
                return ProviderBadReply(f"{self.who} answered with something that is not HTTP.")
            case _:
                reason = "cannot be reached"
        return ProviderUnavailable(f"{self.who} {reason}.", advice=self._start_advice)


def sendable(text: str) -> str:
    """Return a text that has a UTF-8 form: half a surrogate pair has none."""
    return text.encode(errors="replace").decode()


def read_pause(value: str, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, at most `LONGEST_PAUSE`; None for nonsense.

    It is a number of seconds or a date, and a date that has passed asks for no pause at all.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return LONGEST_PAUSE if len(value) > 4 else min(float(value), LONGEST_PAUSE)
    try:
        date = parsedate_to_datetime(value)
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return min(max(moment - now, 0.0), LONGEST_PAUSE)


def headers_for(body: bytes | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of a request; `extra` go before the usual ones.

    Raises:
        InvalidConfiguration: a value cannot be sent.
    """
    headers = {"Accept": "application/json", "User-Agent": "truespan"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    for name, value in (extra or {}).items():
        if not (value.isascii() and value.isprintable()):
            # The library below would quote the value, which may be a key, in its own error.
            raise InvalidConfiguration(f"The value of the header {name} cannot be sent.")
        headers[name] = value
    return headers


_PIECE = 1 << 16


class StreamClient(JsonClient):
    """Asks one provider for replies that come in pieces. Several threads may share it."""

    @property
    def bounds(self) -> Bounds:
        """Return how long a reply may take, and how much may come."""
        return self._bounds

    def stream(
        self, path: str, payload: Any, *, headers: Mapping[str, str], deadline: float
    ) -> StreamedReply:
        """Send a POST of `payload` as JSON; return its reply, of a success only the head of it.

        Whatever of it comes must have come by `deadline`. Whoever gets a reply closes it.

        Raises:
            ProviderUnavailable: it was not reached, or did not answer in time.
            ProviderRefused: its address or its certificate is not one to be trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
            Interrupted: whoever asked does not wait any more.
        """
        body = msgspec.json.encode(payload)
        connection = Connection(self.target, self._bounds, self._clock)
        connection.deadline = deadline
        leaving = current_cancel_token()
        leaving.tell(connection.hang_up)
        try:
            sent = headers_for(body, headers)
            response = connection.ask("POST", self.target.path + path, body, sent)
            return self._begun(connection, response, leaving)
        except BaseException as error:
            leaving.forget(connection.hang_up)
            connection.close()
            if isinstance(error, OSError | HTTPException):
                # A request that was ended from here is no failure of the other side.
                leaving.check()
                raise self._failure(error) from None
            raise

    def _begun(
        self, connection: Connection, response: HTTPResponse, leaving: CancelToken
    ) -> StreamedReply:
        incoming = Incoming(self, connection, response, leaving)
        if not 200 <= response.status < 300:
            with closing(incoming):
                return StreamedReply.of(self._reply(response), incoming)
        head = Reply(
            who=self.who,
            status=response.status,
            body=b"",
            content_type=response.headers.get("Content-Type", ""),
            retry_after=None,
        )
        return StreamedReply.of(head, incoming)

    def failure_within(self, error: OSError | HTTPException, *, begun: bool) -> ServiceError:
        """Return what a failure is called that comes after the head of a reply.

        One that has begun to speak and breaks off has said something that is not to be believed.
        """
        if begun and not isinstance(error, TimeoutError):
            return broken_off(self.who)
        return self._failure(error)


def broken_off(who: str) -> ProviderBadReply:
    """Return the error for a reply without an end."""
    return ProviderBadReply(
        f"{who} broke off before the end of its reply.", advice="What came is not the whole of it."
    )


@dataclass(frozen=True, slots=True)
class StreamedReply(Reply):
    """A reply of which the head has come; the rest is in `body` if it failed, else `incoming`."""

    incoming: Incoming = field(repr=False)

    @classmethod
    def of(cls, reply: Reply, incoming: Incoming) -> StreamedReply:
        """Return a reply with what is to come of it."""
        return cls(
            reply.who, reply.status, reply.body, reply.content_type, reply.retry_after, incoming
        )

    def close(self) -> None:
        """End the request, whether or not all of its reply has come."""
        self.incoming.close()


class Incoming:
    """What is to come of a reply."""

    def __init__(
        self,
        client: StreamClient,
        connection: Connection,
        response: HTTPResponse,
        leaving: CancelToken,
    ) -> None:
        self._leaving = leaving
        self._client = client
        self._connection = connection
        self._response = response
        self._left = response.length
        """Bytes of the body that are still to come; None where its length was not declared."""
        self._room = client.bounds.body_bytes
        self._begun = False

    def close(self) -> None:
        """Close the connection, so that the provider does not go on for nobody."""
        self._leaving.forget(self._connection.hang_up)
        self._response.close()
        self._connection.close()

    def begin(self) -> None:
        """Take note that the provider speaks: from now on pauses are shorter."""
        self._begun = True
        self._connection.patience = self._client.bounds.piece_seconds

    def lines(self) -> Iterator[bytes]:
        """Give each line without its end, also the last one if nothing ends it.

        Raises:
            ProviderUnavailable: nothing more came in time.
            ProviderBadReply: a line or the whole is too long, or it broke off.
            Interrupted: whoever asked does not wait any more.
        """
        pending = bytearray()
        while piece := self._read():
            if b"\n" not in piece:
                pending += piece
            else:
                first, *others = piece.split(b"\n")
                yield _line(pending + first)
                yield from map(_line, others[:-1])
                pending = bytearray(others[-1])
            if len(pending) > self._client.bounds.line_bytes:
                raise self._too_large()
        if pending:
            yield _line(pending)

    def _read(self) -> bytes:
        """Return what came next, at most `_PIECE` bytes; nothing at the end of the body."""
        most = _PIECE if self._left is None else min(self._left, _PIECE)
        if not most:
            return b""
        try:
            piece = self._response.read1(most)
        except (OSError, HTTPException) as error:
            self._leaving.check()
            raise self._client.failure_within(error, begun=self._begun) from None
        if not piece:
            # What was ended from here looks like an end of the reply's own.
            self._leaving.check()
        self._room -= len(piece)
        if self._room < 0:
            raise self._too_large()
        if self._left is not None:
            # Not every version of the library below counts what is read in this way.
            self._left -= len(piece)
        return piece

    def _too_large(self) -> ProviderBadReply:
        return ProviderBadReply(f"{self._client.who} said more in one reply than is taken.")


def _line(content: bytes | bytearray) -> bytes:
    return bytes(content).removesuffix(b"\r")
