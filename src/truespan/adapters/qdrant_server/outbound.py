"""Connections of the client library: each leads to an address that was looked at first.

The library brings its own HTTP client. It is given a transport that resolves a name anew for every
connection and connects to the address it has checked, uses no proxy, and bounds how long and how
large a reply may be; redirects are never followed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

from truespan.adapters.providers.http_connection import AddressRefused, is_allowed
from truespan.ports import Clock

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
