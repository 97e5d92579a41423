"""The client library of Qdrant, on connections that only lead to checked addresses.

The library brings its own HTTP client. It gets a transport that resolves the host for every
connection and connects to the address it has checked, uses no proxy, and limits the time and size
of a reply. Redirects are never followed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpcore
import httpx
from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration
from truespan.index.server.options import ServerOptions, server_target
from truespan.protocols import Clock
from truespan.providers.outbound import AddressRefused, is_allowed
from truespan.types.token import Secret

_MOST_BYTES = 256 << 20
_MOST_CONNECTIONS = 64
_MOST_KEPT = 16
_KEPT_SECONDS = 5.0
_UNUSABLE = "The certificates of qdrant_ca_file cannot be used."


class GuardedTransport(httpx.HTTPTransport):
    """The usual transport, with checked addresses and limited replies."""

    def __init__(self, tls: ssl.SSLContext | None, clock: Clock, *, seconds: float) -> None:
        # Without TLS no certificates need to be read, which takes a while.
        super().__init__(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._clock = clock
        self._seconds = seconds
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_KEPT,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_GuardedBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its whole reply must arrive within the time limit."""
        deadline = self._clock.monotonic() + self._seconds
        reply = super().handle_request(request)
        reply.stream = _LimitedStream(reply.stream, deadline, self._clock)
        return reply


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to the checked address, not to a name that may resolve differently later."""

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
    """Return the addresses of a host at which an index may be.

    Raises:
        OSError: the host has no address at all.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    return [address for address in addresses if is_allowed(address)]


class _LimitedStream(httpx.SyncByteStream):
    """A reply that fails when it takes too long or grows too large."""

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
        # Not as `api_key`: that warns about a server on the same machine without TLS.
        headers=_headers(options.key),
        # The check would be another request, through a client and proxies of its own.
        check_compatibility=False,
        grpc_options={"grpc.enable_http_proxy": 0}
        | ({"root_certificates": certificates} if certificates else {}),
        transport=GuardedTransport(tls, clock, seconds=options.timeout_seconds),
        trust_env=False,
        follow_redirects=False,
    )


def _headers(key: Secret) -> dict[str, str] | None:
    if not key:
        return None
    value = key.reveal()
    if not (value.isascii() and value.isprintable()):
        # The error that this leads to further down would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces that were copied along.",
        )
    return {"api-key": value}


def check_channel(options: ServerOptions) -> None:
    """Check the address of a gRPC channel, which resolves the host by itself.

    Raises:
        AddressRefused: no index may be there.
        OSError: the host has no address.
    """
    target = server_target(options.url)
    if options.grpc and not allowed_addresses(target.host, options.grpc_port):
        raise AddressRefused


def _certificates(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path else None
    except OSError:
        raise InvalidConfiguration(_UNUSABLE) from None


def _context(certificates: bytes | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates.decode() if certificates else None)
    except (ssl.SSLError, ValueError):
        raise InvalidConfiguration(_UNUSABLE) from None
