"""Connections to a provider that lead only to checked addresses and end by a deadline.

They are built on the standard library's `http.client`: every step of a request must end by one
total deadline and another thread must be able to cancel it, which needs the socket itself.
Measured, `httpx2` needs more code for that, almost twice the time for a request over loopback, and
ten times as long to import.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import Struct

from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock

_PORTS = {"http": 80, "https": 443}
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# Shared by threads: networks, which never change.
_IPV4_AT_END = tuple(
    map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
"""Networks whose addresses end with an IPv4 address: compatible, mapped, translated, NAT64."""


class Bounds(Struct, frozen=True):
    """Time and size limits of a request and its reply.

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
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}{self.path}"


def read_target(url: str) -> Target:
    """Return the parts of a base URL; only plain http and https URLs are accepted."""
    # The value is not quoted: a key may have been pasted into it.
    invalid = InvalidConfiguration(
        "The base URL of a provider must be http:// or https:// with a host.",
        advice="No user, password, query or fragment is allowed; e.g. http://127.0.0.1:11434.",
    )
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
    except ValueError:
        raise invalid from None
    plain = url.isascii() and url.isprintable() and " " not in url
    extra = parts.query or parts.fragment or "@" in parts.netloc
    if not plain or extra or parts.scheme not in _PORTS or not host or port == 0:
        raise invalid
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def is_allowed(address: str) -> bool:
    """Return whether a provider may be at an IP address."""
    # Ollama usually runs on loopback or in a private network. Link-local addresses are refused:
    # cloud machines get their credentials there.
    ip = ipaddress.ip_address(address.partition("%")[0])
    for target in (ip, embedded_ipv4(ip)):
        # Other reserved ranges of IPv6 include those that stand for IPv4 addresses.
        reserved = isinstance(target, ipaddress.IPv4Address) and target.is_reserved
        if target is not None and (
            target.is_link_local or target.is_multicast or target.is_unspecified or reserved
        ):
            return False
    return True


def embedded_ipv4(ip: _Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for; None for all others."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if any(ip in network for network in _IPV4_AT_END):
        # `::` and `::1` are addresses of their own.
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if int(ip) > 1 else None
    return ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


class AddressRefused(OSError):
    """An error: a host resolves only to refused addresses."""


class ClosedEarly(ConnectionError):
    """An error: the server closed the connection before the first byte of a reply."""


def resolve(
    host: str, port: int, allows: Callable[[str], bool] = is_allowed
) -> list[tuple[Any, ...]]:
    """Return the allowed addresses of a host as `getaddrinfo` does, or raise `AddressRefused`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [entry for entry in found if allows(str(entry[4][0]))]
    if not allowed:
        raise AddressRefused
    return allowed


class Connection(HTTPConnection):
    """A connection of which every step ends by `deadline` on `clock`.

    No single step takes longer than `read_seconds`, or `piece_seconds` once the reply has begun.
    """

    def __init__(
        self,
        target: Target,
        bounds: Bounds,
        clock: Clock,
        allows: Callable[[str], bool] = is_allowed,
    ) -> None:
        super().__init__(target.host, target.port)
        self._allows = allows
        self.default_port = _PORTS[target.scheme]
        self.deadline = 0.0
        self.begun = False
        self.kept = False
        """Whether the connection was kept after a complete reply."""
        self._hung_up = False
        self._opened: _LimitedSocket | None = None
        """Connected socket; `http.client` clears `sock` once the last reply has started."""
        self._secure = target.scheme == "https"
        self._bounds = bounds
        self._clock = clock

    def ask(self, method: str, path: str, body: bytes | None, headers: Any) -> HTTPResponse:
        """Send a request and return its reply after reading only its head."""
        try:
            self.request(method, path, body, headers)
            return self.getresponse()
        except ConnectionRefusedError:
            raise
        except (ConnectionError, ssl.SSLEOFError):
            raise ClosedEarly from None

    def connect(self) -> None:
        """Connect to an allowed address of the host."""
        # The host is resolved for each connection, and the checked address is the one connected to:
        # a DNS entry that changes in between has no effect.
        failure = OSError()
        for family, kind, protocol, _, address in resolve(self.host, self.port, self._allows):
            opened = _LimitedSocket(family, kind, protocol)
            try:
                opened.settimeout(self.wait(self._bounds.connect_seconds))
                opened.connect(address)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._secure:
                    tls = ssl.create_default_context()
                    tls.sslsocket_class = _LimitedTlsSocket
                    wrapped = tls.wrap_socket(opened, server_hostname=self.host)
                    opened = cast("_LimitedTlsSocket", wrapped)
                opened.connection = self
                self.sock = self._opened = opened
                return
            except BaseException as error:
                opened.close()
                if not isinstance(error, OSError):
                    raise
                failure = error
        raise failure

    def hang_up(self) -> None:
        """End the step that another thread waits for, and allow no further step."""
        self._hung_up = True
        if self._opened is not None:
            # Closing would leave the reading thread waiting. With TLS, too, the plain socket is
            # shut down: the TLS shutdown is for the thread that reads.
            with suppress(OSError):
                socket.socket.shutdown(self._opened, socket.SHUT_RDWR)

    def wait(self, longest: float = 0.0) -> float:
        """Return the seconds that the next step may block."""
        if self._hung_up:
            raise ConnectionAbortedError
        left = self.deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        usual = self._bounds.piece_seconds if self.begun else self._bounds.read_seconds
        return min(left, longest or usual)


class _LimitedSocket(socket.socket):
    """A socket with a time limit for each call of `http.client`."""

    connection: Connection

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.settimeout(self.connection.wait())
        super().sendall(data, flags)

    def recv_into(self, buffer: Any, nbytes: int | None = 0, flags: int = 0) -> int:
        self.settimeout(self.connection.wait())
        return super().recv_into(buffer, nbytes or 0, flags)


class _LimitedTlsSocket(_LimitedSocket, ssl.SSLSocket):
    """A connection with TLS."""
