"""JSON over HTTP to a provider that the operator named, and the errors for its failures.

Owns: requests, the size of a reply, and the errors for statuses and broken connections.
Does not own: the meaning of a provider's own messages; its module examines a reply first.
Must hold: no redirect is followed, no proxy of the environment is used, and no error contains a
request's text, a reply's body or a key.

It is built on the standard library's `http.client`: every step of a request must end by one total
deadline and another thread must be able to cancel it, which needs the socket itself, and a client
library with its own pool would take five times as long to import.
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

_LONGEST_COMPLAINT = 20_000
"""Characters of an error reply that are examined; no readable message is longer."""

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
    """Return all texts in the JSON body of a reply, whatever its structure."""
    try:
        return " ".join(_texts(msgspec.json.decode(reply.body[: 1 << 20])))[:_LONGEST_COMPLAINT]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _texts(part)]


def size_refusal(reply: Reply) -> ProviderRefused | None:
    """Return the error for a reply that says that the request or a text in it is too large."""
    words = words_of(reply)
    if reply.status == 413 or _BATCH_TOO_LARGE.search(words):
        return BatchTooLarge(f"A request is too large for {reply.server} (status {reply.status}).")
    if _TEXT_TOO_LONG.search(words):
        return TextTooLong(
            f"A text is too long for the model ({reply.server}).",
            advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
        )
    return None


def names_no_model(reply: Reply) -> bool:
    """Return whether a reply says that there is no such model."""
    return _NO_SUCH_MODEL.search(words_of(reply)) is not None


_PORTS = {"http": 80, "https": 443}
_MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long one request may take and how large its reply may be.

    A model may have to be loaded before the first byte arrives, so a single read may take long;
    `total_seconds` limits the whole request. In a streamed reply, `piece_seconds` limits the wait
    between two pieces and `line_bytes` the length of a line.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 120.0
    total_seconds: float = 300.0
    body_bytes: int = 32 << 20
    piece_seconds: float = 60.0
    line_bytes: int = 1 << 20


class Target(NamedTuple):
    """The parts of a provider's base URL."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> str:
        """Return host and port for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the normalized base URL."""
        return f"{self.scheme}://{self.address}{self.path}"


def read_target(url: str) -> Target:
    """Return the parts of a base URL.

    Raises:
        InvalidConfiguration: it is not a plain http or https URL, or it has a password.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
    except ValueError:
        raise _invalid_url() from None
    plain = url.isascii() and url.isprintable() and " " not in url
    extra = parts.query or parts.fragment or "@" in parts.netloc
    if not plain or extra or parts.scheme not in _PORTS or not host or port == 0:
        raise _invalid_url()
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _invalid_url() -> InvalidConfiguration:
    # The value is not quoted: a key may have been pasted into it.
    return InvalidConfiguration(
        "The base URL of a provider must be http:// or https:// with a host.",
        advice="No user, password, query or fragment is allowed; e.g. http://127.0.0.1:11434.",
    )


def is_allowed(address: str) -> bool:
    """Return whether a provider may be at an IP address.

    Ollama usually runs on loopback or in a private network. Link-local addresses are refused:
    cloud machines get their credentials there.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # Other reserved ranges of IPv6 include those that map to IPv4.
        ip = ip.ipv4_mapped or ip
    reserved = isinstance(ip, ipaddress.IPv4Address) and ip.is_reserved
    return not (ip.is_link_local or ip.is_multicast or ip.is_unspecified or reserved)


class AddressRefused(OSError):
    """A host resolves only to addresses that are refused."""


class ClosedEarly(ConnectionError):
    """The server closed the connection before the first byte of a reply."""


class Connection(HTTPConnection):
    """A connection whose every step ends by `deadline`, on the given clock.

    No single step takes longer than `patience`.
    """

    def __init__(self, target: Target, bounds: Bounds, clock: Clock) -> None:
        super().__init__(target.host, target.port)
        self.default_port = _PORTS[target.scheme]
        self.deadline = 0.0
        self.patience = bounds.read_seconds
        self._hung_up = False
        self._opened: socket.socket | None = None
        """The connected socket; `http.client` clears `sock` once the last reply has started."""
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
        """Connect to an allowed address of the host.

        The host is resolved for each connection, and the checked address is the one connected to:
        a DNS entry that changes in between has no effect.
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
                self.sock = cast("socket.socket", _Bounded(opened, self))
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
        """End the step that another thread waits in, and allow no further one."""
        self._hung_up = True
        if self._opened is not None:
            # Closing would leave the reading thread waiting. With TLS, too, the plain socket is
            # shut down: the TLS shutdown is for the thread that reads.
            with suppress(OSError):
                socket.socket.shutdown(self._opened, socket.SHUT_RDWR)

    def wait(self, longest: float | None = None) -> float:
        """Return how long the next step may block."""
        if self._hung_up:
            raise ConnectionAbortedError
        left = self.deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, longest or self.patience)


class _Bounded:
    """The part of a socket that `http.client` uses, with a time limit for each call."""

    def __init__(self, inner: socket.socket, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    def sendall(self, content: bytes) -> None:
        self._inner.settimeout(self._connection.wait())
        self._inner.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:
        del mode  # Replies are only read.
        raw = self._inner.makefile("rb", buffering=0)
        return io.BufferedReader(_BoundedReader(raw, self._inner, self._connection))

    def close(self) -> None:
        self._inner.close()


class _BoundedReader(io.RawIOBase):
    """The incoming data, with a time limit for each read."""

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
    """Connections that wait for the next request of any thread; the newest is used first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        """Return an idle connection, if there is one."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def put(self, connection: Connection) -> None:
        """Keep a connection whose reply was read completely, if it is open and there is room."""
        with self._lock:
            if connection.sock is not None and len(self._idle) < _MOST_KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close all idle connections."""
        while (connection := self.take()) is not None:
            connection.close()


Kind = TypeVar("Kind")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of failures that may be temporary."""
LONGEST_PAUSE = 300.0
"""The longest pause, in seconds, that a provider may ask for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with any status. `server` describes the provider in messages."""

    server: str
    status: int
    body: bytes = field(repr=False)
    content_type: str
    retry_after: float | None

    @property
    def succeeded(self) -> bool:
        """Return whether the status is a success."""
        return 200 <= self.status < 300

    def read(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that succeeded.

        Raises:
            ProviderUnavailable: the failure may be temporary.
            ProviderRefused: it failed for another reason.
            ProviderBadReply: it succeeded, but is not JSON, or has unexpected content.
        """
        if not self.succeeded:
            raise self.failure()
        if self.content_type and "json" not in self.content_type.lower():
            raise ProviderBadReply(f"{self.server} sent a reply that is not JSON.")
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._read_loosely(kind)

    def _read_loosely(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that is JSON except for NaN and infinity.

        Some servers write them as numbers. Only their vector is lost, not the whole reply.
        """
        try:
            return msgspec.convert(json.loads(self.body), kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ProviderBadReply(f"{self.server} sent invalid or unexpected JSON.") from None

    def failure(self) -> ServiceError:
        """Return the error for a status that is not a success."""
        if self.status in PASSING:
            reason = "is too busy" if self.status == 429 else "failed"
            return ProviderUnavailable(
                f"{self.server} {reason} (status {self.status}).",
                retry_after=self.retry_after,
            )
        if 300 <= self.status < 400:
            return ProviderRefused(
                f"{self.server} redirects (status {self.status}); redirects are not followed.",
                advice="Set the base URL to the provider's own URL.",
            )
        if self.status == 413:
            return BatchTooLarge(f"A request is too large for {self.server} (status 413).")
        if self.status in (401, 403):
            return ProviderRefused(
                f"{self.server} denied access (status {self.status}).",
                advice="Check the key and what it may be used for.",
            )
        return ProviderRefused(f"{self.server} refused the request (status {self.status}).")


class JsonClient:
    """Sends requests to one provider and reuses connections. Threads may share it."""

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
        self.server = f"{label} at {self.target.address}"
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._pace = pace
        self._start_advice = start_advice
        self._idle = IdleConnections()
        # Embedders have no close(), so the connections close with the last reference.
        weakref.finalize(self, self._idle.clear)

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        self._idle.clear()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a GET; raises as `post` does."""
        return self._ask("GET", path, None, headers)

    def post(self, path: str, payload: Any, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a POST of `payload` as JSON, whatever its status.

        Raises:
            ProviderUnavailable: the provider was not reached, or did not answer in time.
            ProviderRefused: its address is refused or its certificate is not trusted.
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
                    # It was closed while idle, so no reply was started or lost.
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
            raise ProviderBadReply(f"{self.server} sent a reply of more than {limit >> 20} MiB.")
        if response.length:
            # Less arrived than was declared, which `http.client` does not report.
            raise IncompleteRead(b"")
        return Reply(
            server=self.server,
            status=response.status,
            body=body,
            content_type=response.headers.get("Content-Type", ""),
            retry_after=read_pause(response.headers.get("Retry-After", ""), self._clock.now()),
        )

    def _failure(self, error: OSError | HTTPException) -> ServiceError:
        """Return the error for a failed connection.

        The message of the exception is not used: it may quote the request or the reply.
        """
        match error:
            case ssl.SSLCertVerificationError():
                return ProviderRefused(
                    f"The certificate of {self.server} is not trusted.",
                    advice="Check the base URL and the certificates of this machine.",
                )
            case AddressRefused():
                return ProviderRefused(
                    f"{self.server} resolves only to addresses that are refused.",
                    advice="Link-local, multicast, reserved and unspecified addresses are refused.",
                )
            case TimeoutError():
                reason = "did not answer in time"
            case ConnectionRefusedError() | socket.gaierror():
                reason = "cannot be reached"
            case ConnectionError() | IncompleteRead():
                reason = "closed the connection before its reply was complete"
            case HTTPException():
                return ProviderBadReply(f"{self.server} sent a reply that is not HTTP.")
            case _:
                reason = "cannot be reached"
        return ProviderUnavailable(f"{self.server} {reason}.", advice=self._start_advice)


def sendable(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair is replaced."""
    return text.encode(errors="replace").decode()


def read_pause(value: str, now: float) -> float | None:
    """Return the seconds of a Retry-After, at most `LONGEST_PAUSE`; None if it is invalid.

    It is a number of seconds or a date. A date in the past means no pause.
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
    """Return the headers of a request; `extra` replace the usual ones.

    Raises:
        InvalidConfiguration: a value cannot be sent.
    """
    headers = {"Accept": "application/json", "User-Agent": "truespan"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    for name, value in (extra or {}).items():
        if not (value.isascii() and value.isprintable()):
            # The error of `http.client` would quote the value, which may be a key.
            raise InvalidConfiguration(f"The value of the header {name} cannot be sent.")
        headers[name] = value
    return headers


_PIECE = 1 << 16


class StreamClient(JsonClient):
    """Sends requests for streamed replies to one provider. Threads may share it."""

    @property
    def bounds(self) -> Bounds:
        """Return the limits of a request."""
        return self._bounds

    def stream(
        self, path: str, payload: Any, *, headers: Mapping[str, str], deadline: float
    ) -> StreamedReply:
        """Send a POST of `payload` as JSON; return its reply, of a success only the head.

        The whole reply must arrive by `deadline`. The caller closes the reply.

        Raises:
            ProviderUnavailable: the provider was not reached, or did not answer in time.
            ProviderRefused: its address is refused or its certificate is not trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
            Interrupted: the request was cancelled.
        """
        body = msgspec.json.encode(payload)
        connection = Connection(self.target, self._bounds, self._clock)
        connection.deadline = deadline
        token = current_cancel_token()
        token.add_callback(connection.hang_up)
        try:
            sent = headers_for(body, headers)
            response = connection.ask("POST", self.target.path + path, body, sent)
            return self._start_reply(connection, response, token)
        except BaseException as error:
            token.remove_callback(connection.hang_up)
            connection.close()
            if isinstance(error, OSError | HTTPException):
                # A cancelled request is no failure of the provider.
                token.check()
                raise self._failure(error) from None
            raise

    def _start_reply(
        self, connection: Connection, response: HTTPResponse, token: CancelToken
    ) -> StreamedReply:
        incoming = Incoming(self, connection, response, token)
        if not 200 <= response.status < 300:
            with closing(incoming):
                return StreamedReply.of(self._reply(response), incoming)
        head = Reply(
            server=self.server,
            status=response.status,
            body=b"",
            content_type=response.headers.get("Content-Type", ""),
            retry_after=None,
        )
        return StreamedReply.of(head, incoming)

    def failure_within(self, error: OSError | HTTPException, *, begun: bool) -> ServiceError:
        """Return the error for a failure after the head of a reply.

        A reply that stops after its first piece is incomplete and must not be used.
        """
        if begun and not isinstance(error, TimeoutError):
            return incomplete_error(self.server)
        return self._failure(error)


def incomplete_error(server: str) -> ProviderBadReply:
    """Return the error for a reply that stopped before its end."""
    return ProviderBadReply(
        f"{server} broke off before the end of its reply.", advice="The reply is incomplete."
    )


@dataclass(frozen=True, slots=True)
class StreamedReply(Reply):
    """A reply with its head; the rest is in `body` if it failed, otherwise in `incoming`."""

    incoming: Incoming = field(repr=False)

    @classmethod
    def of(cls, reply: Reply, incoming: Incoming) -> StreamedReply:
        """Return a reply together with its incoming body."""
        return cls(
            reply.server,
            reply.status,
            reply.body,
            reply.content_type,
            reply.retry_after,
            incoming,
        )

    def close(self) -> None:
        """End the request, even if its reply is not complete."""
        self.incoming.close()


class Incoming:
    """The incoming body of a streamed reply."""

    def __init__(
        self,
        client: StreamClient,
        connection: Connection,
        response: HTTPResponse,
        token: CancelToken,
    ) -> None:
        self._token = token
        self._client = client
        self._connection = connection
        self._response = response
        self._left = response.length
        """Bytes of the body still to arrive; None if its length is not declared."""
        self._room = client.bounds.body_bytes
        self._begun = False

    def close(self) -> None:
        """Close the connection, so that the provider stops generating."""
        self._token.remove_callback(self._connection.hang_up)
        self._response.close()
        self._connection.close()

    def begin(self) -> None:
        """Record that the reply has started: from now on waits are shorter."""
        self._begun = True
        self._connection.patience = self._client.bounds.piece_seconds

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line break, also an unterminated last one.

        Raises:
            ProviderUnavailable: nothing more arrived in time.
            ProviderBadReply: a line or the whole reply is too long, or it is incomplete.
            Interrupted: the request was cancelled.
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
        """Return the next piece of at most `_PIECE` bytes; empty at the end of the body."""
        most = _PIECE if self._left is None else min(self._left, _PIECE)
        if not most:
            return b""
        try:
            piece = self._response.read1(most)
        except (OSError, HTTPException) as error:
            self._token.check()
            raise self._client.failure_within(error, begun=self._begun) from None
        if not piece:
            # A cancelled request looks like the end of the reply.
            self._token.check()
        self._room -= len(piece)
        if self._room < 0:
            raise self._too_large()
        if self._left is not None:
            # Not every version of `http.client` counts bytes that are read this way.
            self._left -= len(piece)
        return piece

    def _too_large(self) -> ProviderBadReply:
        return ProviderBadReply(f"{self._client.server} sent a reply that is too long.")


def _line(content: bytes | bytearray) -> bytes:
    return bytes(content).removesuffix(b"\r")
