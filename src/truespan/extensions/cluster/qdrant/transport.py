"""Requests to the nodes of a Qdrant server, on connections that only lead to checked addresses.

A name is resolved for every connection, and the checked address is the one connected to. No proxy
is used, and the time and size of a reply are limited.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import httpcore
import httpx
from qdrant_client import QdrantClient

from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.cluster.qdrant import ServerOptions, server_targets
from truespan.protocols import Clock
from truespan.providers.outbound import AddressRefused, Target, resolve

_MAX_BYTES = 256 << 20
_MAX_CONNECTIONS = 64
_MAX_IDLE_CONNECTIONS = 16
_IDLE_SECONDS = 2.0
"""Qdrant closes an idle connection after 5 s; one that it is just closing must not be used."""
_AVOID_SECONDS = 30.0
"""Seconds during which a failed node is tried after all others."""
_READS = ("/query/batch", "/scroll", "/count", "/facet")
"""Path endings of POST requests that change nothing."""
_PROBE_SECONDS = 2.0
_TLS_RECORDS = (b"\x15", b"\x16")
"""The first byte of an alert and of a handshake message."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, AddressRefused)
"""Failures before anything of a request was sent."""


class NodesFailed(httpx.TransportError):
    """No node answered. `failures` has the failure of each node that was tried."""

    def __init__(self, failures: list[tuple[Target, Exception]]) -> None:
        super().__init__("No node answered.")
        self.failures = failures


# Shared by threads: the pools of connections may be used by threads; the current node and the
# times of failures are single values, and a late one only changes the order of nodes.
class GuardedTransport(httpx.BaseTransport):
    """Sends each request to one of several nodes, within one time limit. Threads may share it.

    A request goes to the node that answered last. If that fails, it goes to the next one, unless it
    is a write that may have been sent. Each node has an equal share of the remaining time; a write
    that was sent has all of it, because no other node is tried.
    """

    def __init__(
        self, nodes: Sequence[Target], tls: ssl.SSLContext | None, clock: Clock, *, seconds: float
    ) -> None:
        self._nodes = [_Node(target, tls, clock) for target in nodes]
        self._clock = clock
        self._seconds = seconds
        self._current = 0
        self._asked = threading.local()

    def last_node(self) -> Target:
        """Return the node that this thread used last."""
        return getattr(self._asked, "node", self._nodes[0].target)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its whole reply must arrive within the time limit."""
        # The server sends a compressed reply of more than a kilobyte in two parts, and delays the
        # second by 40 ms, until the first is acknowledged.
        request.headers["accept-encoding"] = "identity"
        deadline = self._clock.monotonic() + self._seconds
        failures: list[tuple[Target, Exception]] = []
        refused: tuple[Target, httpx.Response] | None = None
        order = self._order()
        for place, number in enumerate(order):
            node, now = self._nodes[number], self._clock.monotonic()
            if place and now >= deadline:
                break
            self._asked.node = node.target
            share = now + (deadline - now) / (len(order) - place)
            try:
                reply = node.send(request, share, deadline)
            except (httpx.TransportError, OSError) as error:
                if resource_error(error):
                    raise
                node.avoid()
                failures.append((node.target, error))
                if not (_is_read(request) or isinstance(error, _NOT_SENT)):
                    break
                continue
            if reply.status_code < 500:
                self._current = number
                return reply
            node.avoid()
            refused = node.target, reply
            if not _is_read(request):
                break
        if refused is not None:
            self._asked.node, reply = refused
            return reply
        raise NodesFailed(failures)

    def _order(self) -> list[int]:
        """Return the numbers of the nodes in the order in which to try them.

        Recently failed nodes come last, in the order of their failures.
        """
        now, count = self._clock.monotonic(), len(self._nodes)
        cycle = [number % count for number in range(self._current, self._current + count)]
        return sorted(cycle, key=lambda number: self._nodes[number].avoided_at(now))

    def close(self) -> None:
        for node in self._nodes:
            node.close()


class _Node(httpx.HTTPTransport):
    """Connections to one node, separate because a hanging node could use up all of them."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None, clock: Clock) -> None:
        # Without TLS, skip reading the certificates of the machine, which is slow.
        super().__init__(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self.target = target
        self._clock = clock
        self._failed_at: float | None = None
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_GuardedBackend(clock),
        )

    def avoid(self) -> None:
        """Try the other nodes first for a while."""
        self._failed_at = self._clock.monotonic()

    def avoided_at(self, now: float) -> float:
        """Return the time of a recent failure of the node; 0 without one."""
        failed = self._failed_at
        return 0.0 if failed is None or now - failed >= _AVOID_SECONDS else failed

    def send(self, request: httpx.Request, share: float, deadline: float) -> httpx.Response:
        """Return the complete reply. A write that was sent may take until `deadline`.

        A read is sent once more if the connection was closed before the first byte of its reply:
        the server may have been closing it because it was idle.
        """
        is_read = _is_read(request)
        end = share if is_read else deadline
        now = self._clock.monotonic()
        connecting, sent = max(share - now, 0.001), max(end - now, 0.001)
        request.url = request.url.copy_with(host=self.target.host, port=self.target.port)
        request.headers["host"] = request.url.netloc.decode()
        request.extensions["timeout"] = {
            "connect": connecting,
            "pool": connecting,
            "write": sent,
            "read": sent,
        }
        try:
            reply = self.handle_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not is_read:
                raise
            reply = self.handle_request(request)
        return self._complete(reply, end)

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

    Raises:
        OSError: `socket.gaierror`, `TimeoutError` or `AddressRefused`.
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


def speaks_tls(node: Target) -> bool:
    """Return whether a node answers a TLS greeting; nothing else is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    greeting = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), greeting, server_hostname=node.host).do_handshake()
    try:
        address, *_ = resolve_within(node.host, node.port, _PROBE_SECONDS)
        with socket.create_connection((address, node.port), _PROBE_SECONDS) as probe:
            probe.sendall(greeting.read())
            return probe.recv(1) in _TLS_RECORDS
    except OSError:
        return False


def open_client(
    options: ServerOptions, clock: Clock
) -> tuple[QdrantClient, Callable[[], Target | None]]:
    """Return a client that has sent nothing yet, and a function that returns the last node asked.

    Raises:
        InvalidConfiguration: the key, the certificates or the address cannot be used.
    """
    key = options.key.reveal()
    if not (key.isascii() and key.isprintable()):
        # The error of the client library would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces.",
        )
    targets = server_targets(options.url)
    tls = _tls_context(options) if targets[0].scheme == "https" else None
    transport = GuardedTransport(targets, tls, clock, seconds=options.timeout_seconds)
    client = QdrantClient(
        url=targets[0].url,
        timeout=options.timeout_seconds,
        # `api_key` would warn about a server on the same machine without TLS.
        headers={"api-key": key} if key else None,
        # The check would be another request, with its own client and proxies.
        check_compatibility=False,
        transport=transport,
        trust_env=False,
        follow_redirects=False,
    )
    return client, transport.last_node


def _tls_context(options: ServerOptions) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=options.ca_file or None)
    except (OSError, ValueError) as error:
        if known := resource_error(error):
            raise known from None
        raise InvalidConfiguration("The certificates of qdrant_ca_file cannot be used.") from None
