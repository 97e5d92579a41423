"""Requests to a Qdrant server, on connections that only lead to checked addresses.

A name is resolved for every connection, and the checked address is the one connected to. No proxy
is used, and the time and size of a reply are limited.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any

import httpcore
import httpx
from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.cluster.qdrant import ServerOptions, server_target
from truespan.protocols import Clock
from truespan.providers.outbound import AddressRefused, resolve

_MAX_BYTES = 256 << 20
_MAX_CONNECTIONS = 64
_MAX_IDLE_CONNECTIONS = 16
_IDLE_SECONDS = 2.0
"""Qdrant closes an idle connection after 5 s; one that it is just closing must not be used."""
_READS = ("/query/batch", "/scroll", "/count", "/facet")
"""Path endings of POST requests that change nothing."""


# Shared by threads: the pool of connections may be used by threads.
class GuardedTransport(httpx.HTTPTransport):
    """Sends each request within one time limit, and limits the size of its reply."""

    def __init__(self, tls: ssl.SSLContext | None, clock: Clock, *, seconds: float) -> None:
        # Without TLS, skip reading the certificates of the machine, which is slow.
        super().__init__(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._clock = clock
        self._seconds = seconds
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_GuardedBackend(clock),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its whole reply must arrive within the time limit.

        A read is sent once more if the connection was closed before the first byte of its reply:
        the server may have been closing it because it was idle.
        """
        # The server sends a compressed reply of more than a kilobyte in two parts, and delays the
        # second by 40 ms, until the first is acknowledged.
        request.headers["accept-encoding"] = "identity"
        steps = ("connect", "pool", "write", "read")
        request.extensions["timeout"] = dict.fromkeys(steps, self._seconds)
        deadline = self._clock.monotonic() + self._seconds
        try:
            reply = super().handle_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not _is_read(request):
                raise
            reply = super().handle_request(request)
        return self._complete(reply, deadline)

    def _complete(self, reply: httpx.Response, deadline: float) -> httpx.Response:
        pieces: list[bytes] = []
        size = 0
        try:
            for piece in reply.stream:  # type: ignore[union-attr] # this transport is synchronous
                pieces.append(piece)
                size += len(piece)
                if self._clock.monotonic() > deadline:
                    raise httpx.ReadTimeout("The reply did not end in time.")
                if size > _MAX_BYTES:
                    raise httpx.ReadError("The reply is too large.")
        finally:
            reply.close()
        body = httpx.ByteStream(b"".join(pieces))
        return httpx.Response(reply.status_code, headers=reply.headers, stream=body)


def _is_read(request: httpx.Request) -> bool:
    return request.method == "GET" or request.url.path.endswith(_READS)


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to the checked address, not to a name that may resolve differently later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to one of the addresses of a host; all attempts share the timeout."""
        seconds = timeout or 0.0
        deadline = self._clock.monotonic() + seconds
        try:
            addresses = resolve_within(host, port, seconds)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        except socket.gaierror as error:
            raise httpcore.ConnectError from error
        failure: Exception = AddressRefused()
        for tried, address in enumerate(addresses):
            share = (deadline - self._clock.monotonic()) / (len(addresses) - tried)
            if share <= 0:
                raise httpcore.ConnectTimeout
            try:
                return super().connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def resolve_within(host: str, port: int, seconds: float) -> list[str]:
    """Return the checked addresses of a host.

    The system's resolver has no time limit, so a separate thread waits for it.
    """
    replies: SimpleQueue[list[str] | Exception] = SimpleQueue()

    def look_up() -> None:
        try:
            found = [str(entry[4][0]) for entry in resolve(host, port)]
            replies.put(list(dict.fromkeys(found)))
        except Exception as error:
            replies.put(error)

    threading.Thread(target=look_up, name="truespan-resolve", daemon=True).start()
    try:
        reply = replies.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(reply, Exception):
        raise reply
    return reply


def open_client(options: ServerOptions, clock: Clock) -> QdrantClient:
    """Return a client that has sent nothing yet."""
    key = options.key.reveal()
    if not (key.isascii() and key.isprintable()):
        # The error of the client library would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces.",
        )
    target = server_target(options.url)
    tls = _tls_context(options) if target.scheme == "https" else None
    return QdrantClient(
        url=target.url,
        timeout=options.timeout_seconds,
        # `api_key` would warn about a server on the same machine without TLS.
        headers={"api-key": key} if key else None,
        # The check would be another request, with its own client and proxies.
        check_compatibility=False,
        transport=GuardedTransport(tls, clock, seconds=options.timeout_seconds),
        trust_env=False,
        follow_redirects=False,
    )


def _tls_context(options: ServerOptions) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=options.ca_file or None)
    except (OSError, ValueError) as error:
        if known := resource_error(error):
            raise known from None
        raise InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.") from None
