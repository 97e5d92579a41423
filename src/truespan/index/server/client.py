"""Connections of the client library: each leads to an address that was looked at first.

The library brings its own HTTP client. It is given a transport that resolves a name anew for every
connection and connects to the address it has checked, uses no proxy, and bounds how long and how
large a reply may be; redirects are never followed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx
from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock
from truespan.providers.http import AddressRefused, Target, is_allowed, read_target
from truespan.types.ids import WorldId
from truespan.types.token import Secret

STANDARD_PORT = 6333


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All that an operator may choose about a Qdrant server.

    Shards, replicas and the write factor count when a collection is made; the server keeps them.
    """

    url: str
    key: Secret = field(default_factory=lambda: Secret(""))
    ca_file: Path | None = None
    """Certificates to trust in place of those of this machine."""
    grpc: bool = False
    grpc_port: int = 6334
    timeout_seconds: int = 30
    prefix: str = "truespan_"
    """What the names of this library's collections begin with; no two libraries share one."""
    shards: int = 1
    replicas: int = 1
    write_factor: int = 1
    """How many replicas must have taken a write before it counts as done."""
    read_consistency: str = ""
    """How many replicas must agree on what is read; blank for any one of them."""
    write_ordering: str = "medium"
    approximate: frozenset[WorldId] = frozenset()
    """Worlds that are searched through a graph and small numbers, except for readers."""


def server_target(url: str) -> Target:
    """Return the parts of the server's address.

    Raises:
        InvalidConfiguration: it is not a plain http or https address, or it carries a password.
    """
    try:
        target = read_target(url)
    except InvalidConfiguration:
        raise InvalidConfiguration(
            "The setting index_url must be http:// or https:// with a host.",
            advice="It takes no user, password, query or fragment, as in http://127.0.0.1:6333.",
        ) from None
    return target if urlsplit(url).port else target._replace(port=STANDARD_PORT)


_MOST_BYTES = 256 << 20
_MOST_CONNECTIONS = 64
_MOST_KEPT = 16
_KEPT_SECONDS = 5.0


class GuardedTransport(httpx.HTTPTransport):
    """The usual transport, over connections that were looked at, for replies that end."""

    def __init__(self, tls: ssl.SSLContext | None, clock: Clock, *, seconds: float) -> None:
        # Without TLS none of its certificates need to be read, which takes a while.
        super().__init__(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._clock = clock
        self._seconds = seconds
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_KEPT,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_Guarded(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its reply must have ended when the time is over."""
        deadline = self._clock.monotonic() + self._seconds
        reply = super().handle_request(request)
        reply.stream = _Bounded(reply.stream, deadline, self._clock)
        return reply


class _Guarded(httpcore.SyncBackend):
    """Connects to the address that was checked, not to a name that may change its mind."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = AddressRefused()
        for address in allowed_addresses(host, port):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def allowed_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a name that an index may live at.

    Raises:
        OSError: the name has no address at all.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    return [address for address in addresses if is_allowed(address)]


class _Bounded(httpx.SyncByteStream):
    """A reply that is given up when it takes too long or grows too large."""

    def __init__(self, inner: Any, deadline: float, clock: Clock) -> None:
        self._inner, self._deadline, self._clock = inner, deadline, clock

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._inner:
            size += len(piece)
            if self._clock.monotonic() > self._deadline:
                raise httpx.ReadTimeout("The reply did not end in time.")
            if size > _MOST_BYTES:
                raise httpx.ReadError("The reply is too large.")
            yield piece

    def close(self) -> None:
        self._inner.close()


def open_client(options: ServerOptions, clock: Clock) -> QdrantClient:
    """Return a client that has sent nothing yet.

    Raises:
        InvalidConfiguration: the address or the certificates cannot be used.
    """
    target = server_target(options.url)
    secure = target.scheme == "https"
    certificates = _certificates(options.ca_file) if secure else None
    tls = _context(certificates) if secure else None
    return QdrantClient(
        url=target.url,
        prefer_grpc=options.grpc,
        grpc_port=options.grpc_port,
        timeout=options.timeout_seconds,
        # Not as `api_key`: that warns whoever runs the server beside Truespan, without TLS.
        headers=_headers(options.key),
        # The check would be one more request, through a client and proxies of its own.
        check_compatibility=False,
        grpc_options=_channel(certificates),
        transport=GuardedTransport(tls, clock, seconds=options.timeout_seconds),
        trust_env=False,
        follow_redirects=False,
    )


def _headers(key: Secret) -> dict[str, str] | None:
    if not key:
        return None
    value = key.reveal()
    if not (value.isascii() and value.isprintable()):
        # Further down, the error that this leads to would quote the key.
        raise InvalidConfiguration(
            "The key of the index server holds characters that cannot be sent.",
            advice="Look for line breaks and spaces that were copied along with it.",
        )
    return {"api-key": value}


def check_channel(options: ServerOptions) -> None:
    """Look at the address that a gRPC channel will lead to; it resolves the name by itself.

    Raises:
        AddressRefused: no index lives there.
        OSError: the name has no address.
    """
    target = server_target(options.url)
    if options.grpc and not allowed_addresses(target.host, options.grpc_port):
        raise AddressRefused


def _channel(certificates: bytes | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {"grpc.enable_http_proxy": 0}
    return chosen | ({"root_certificates": certificates} if certificates else {})


def _certificates(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path else None
    except OSError:
        raise _unusable() from None


def _context(certificates: bytes | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates.decode() if certificates else None)
    except (ssl.SSLError, ValueError):
        raise _unusable() from None


def _unusable() -> InvalidConfiguration:
    return InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.")
