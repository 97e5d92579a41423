"""A connection to an address that the operator named; every step of it ends by a deadline.

The standard library bounds single reads, so a reply that comes drop by drop would never end. Here
the socket is asked for the time that is left before each step.
"""

from __future__ import annotations

import io
import ipaddress
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from threading import Lock
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from truespan.errors import InvalidConfiguration
from truespan.ports import Clock

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
