"""The client library of Qdrant, on connections that only lead to checked addresses.

The library brings its own HTTP client. It gets a transport that resolves the host for every
connection and connects to the address it has checked, uses no proxy, and limits the time and size
of a reply. Redirects are never followed.

Failures become errors of ours, which never quote a reply, because it may quote the request. The
library has one class for failed requests, one for unexpected statuses and one for "too many
requests"; it passes errors of its JSON reader on and has assertions against empty replies.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import httpcore
import httpx
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexUnavailable,
    InvalidConfiguration,
    TruespanError,
    resource_error,
)
from truespan.index.calls import REBUILD
from truespan.index.server import ServerOptions, server_targets
from truespan.protocols import Clock
from truespan.providers.outbound import AddressRefused, Target, resolve

_MOST_BYTES = 256 << 20
_MOST_CONNECTIONS = 64
_MOST_KEPT = 16
_KEPT_SECONDS = 2.0
"""Qdrant closes an idle connection after 5 s; one that it is just closing must not be used."""
_READS = ("/query/batch", "/scroll", "/count", "/facet")
"""The ends of the paths of requests that change nothing, although they are sent with POST."""
_RECONNECT_MS = 1000
"""After an outage gRPC would wait up to two minutes before it connects again."""


class GuardedTransport(httpx.HTTPTransport):
    """The usual transport, with checked addresses and limited replies, to one node or several.

    A request goes to the node that answered last. If that cannot be reached it goes to the next
    one, and so does a read that fails on the way.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        clock: Clock,
        *,
        seconds: float,
        nodes: Sequence[Target] = (),
    ) -> None:
        # Without TLS no certificates need to be read, which takes a while.
        super().__init__(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._clock = clock
        self._seconds = seconds
        self._nodes = nodes
        self._current = 0
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_KEPT,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_GuardedBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its whole reply must arrive within the time limit.

        A read is sent once more if the connection was closed before the first byte of its reply:
        the server may have been closing it because it was idle.
        """
        # A compressed reply of more than a kilobyte leaves the server in two parts, and the second
        # waits for the system to confirm the first: 40 ms.
        request.headers["accept-encoding"] = "identity"
        deadline = self._clock.monotonic() + self._seconds
        first, count = self._current, max(1, len(self._nodes))
        for number in range(first, first + count):
            try:
                reply = self._send(self._to_node(request, number % count))
            except httpx.TransportError as error:
                not_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                is_last = number == first + count - 1 or self._clock.monotonic() >= deadline
                if is_last or not (not_sent or _is_read(request)):
                    raise
                continue
            self._current = number % count
            reply.stream = _LimitedStream(reply.stream, deadline, self._clock)
            return reply
        raise AssertionError("the last node answers or fails")

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return super().handle_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not _is_read(request):
                raise
            return super().handle_request(request)

    def _to_node(self, request: httpx.Request, number: int) -> httpx.Request:
        """Return the request with the address of a node; the client knows the first node only."""
        if not number:
            return request
        node = self._nodes[number]
        url = request.url.copy_with(host=node.host, port=node.port)
        headers = httpx.Headers(request.headers)
        headers["host"] = url.netloc.decode()
        return httpx.Request(
            request.method,
            url,
            headers=headers,
            stream=request.stream,
            extensions=request.extensions,
        )


def _is_read(request: httpx.Request) -> bool:
    return request.method == "GET" or request.url.path.endswith(_READS)


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
        for address in dict.fromkeys(str(found[4][0]) for found in resolve(host, port)):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


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
    """Return a client that has sent nothing yet, or refuse a key or certificates."""
    key = options.key.reveal()
    if not (key.isascii() and key.isprintable()):
        # The error that this leads to further down would quote the key.
        raise InvalidConfiguration(
            "The key of the index server contains characters that cannot be sent.",
            advice="Check it for line breaks and spaces that were copied along.",
        )
    targets = server_targets(options.url)
    target = targets[0]
    if options.grpc and len(targets) > 1:
        raise InvalidConfiguration(
            "Several nodes in index_url need REST.",
            advice="Set qdrant_grpc = false, or name one node or a load balancer.",
        )
    certificates: bytes | None = None
    tls: ssl.SSLContext | None = None
    if target.scheme == "https":
        try:
            certificates = options.ca_file.read_bytes() if options.ca_file else None
            tls = ssl.create_default_context(cadata=certificates.decode() if certificates else None)
        except (OSError, ValueError) as error:
            if known := resource_error(error):
                raise known from None
            raise InvalidConfiguration(
                "The certificates of qdrant_ca_file cannot be used."
            ) from None
    return QdrantClient(
        url=target.url,
        prefer_grpc=options.grpc,
        grpc_port=options.grpc_port,
        timeout=options.timeout_seconds,
        # Not as `api_key`: that warns about a server on the same machine without TLS.
        headers={"api-key": key} if key else None,
        # The check would be another request, through a client and proxies of its own.
        check_compatibility=False,
        grpc_options={
            "grpc.enable_http_proxy": 0,
            "grpc.initial_reconnect_backoff_ms": _RECONNECT_MS,
            "grpc.max_reconnect_backoff_ms": _RECONNECT_MS,
        }
        | ({"root_certificates": certificates} if certificates else {}),
        transport=GuardedTransport(tls, clock, seconds=options.timeout_seconds, nodes=targets),
        trust_env=False,
        follow_redirects=False,
    )


def check_channel(options: ServerOptions) -> None:
    """Refuse addresses of a gRPC channel, which resolves the host by itself."""
    if options.grpc:
        resolve(server_targets(options.url)[0].host, options.grpc_port)


_LATER = "Try again in a moment."
_WAITS = frozenset({408, 425, 429})
"""Refusals that may be temporary, like every status from 500 on."""
WRITE, DELETE, CREATE = "write points", "delete points", "make a collection"
REMOVE, REWRITE = "remove a collection", "rewrite its segments"
_WRITING = frozenset({WRITE, DELETE, CREATE, REMOVE, REWRITE})
"""What a read-only key does not allow."""
_KEY_CODES = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_FINAL_CODES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


class CollectionMissing(IndexRefused):
    """The server has no such collection; not the same as an empty one."""

    def __init__(self) -> None:
        super().__init__("The index has no collection for this profile.", advice=REBUILD)


class ReplicasNotReady(IndexUnavailable):
    """No replica of a collection in a cluster can be read yet."""

    def __init__(self) -> None:
        super().__init__(
            "The index server cannot read the collection yet: no replica of it is ready.",
            advice=_LATER,
        )


_NOT_READY = "read operations failed"
"""Stands in the reply of a cluster while the replicas of a collection are being created."""


@contextmanager
def server_errors(doing: str) -> Iterator[None]:
    """Turn any exception of a request to the server into an error of ours."""
    try:
        yield
    except TruespanError:
        raise
    except Exception as error:
        raise _error_for(error, doing) from None


def _error_for(error: Exception, doing: str) -> TruespanError:
    if known := resource_error(error):
        return known
    match error:
        case ResourceExhaustedResponse():
            return _busy(error.retry_after_s)
        case UnexpectedResponse():
            return _status_error(error, doing)
        case ResponseHandlingException():
            return _error_for(error.source, doing)
        case grpc.RpcError():
            return _code_error(error, doing)
        case QdrantException():
            # The pause it asks for is not a number.
            return _busy(None)
        # From here on the request was not sent, not answered, or answered with nonsense.
        case AddressRefused():
            return InvalidConfiguration(
                "The setting index_url resolves only to addresses that are refused.",
                advice="Link-local, multicast, reserved and unspecified addresses are refused.",
            )
        case httpx.TimeoutException() | TimeoutError():
            reason = "did not answer in time"
        case httpx.ConnectError() if _is_untrusted(error):
            return _untrusted()
        case httpx.ConnectError() | socket.gaierror():
            reason = "cannot be reached"
        case httpx.TransportError() | OSError():
            reason = "closed the connection before its reply was complete"
        case ValueError() | AssertionError() | LookupError() | httpx.HTTPError():
            reason = "sent an invalid reply"
        case _:
            kind = type(error).__name__
            return IndexRefused(f"The index server could not {doing} ({kind}).")
    return IndexUnavailable(f"The index server {reason}.", advice=_LATER)


def _is_untrusted(error: BaseException | None) -> bool:
    # The HTTP client wraps the TLS error; it is somewhere in the chain of causes.
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _untrusted() -> InvalidConfiguration:
    return InvalidConfiguration(
        "The certificate of the index server is not trusted.",
        advice="Check index_url, or name its certificates in qdrant_ca_file.",
    )


def _status_error(error: UnexpectedResponse, doing: str) -> TruespanError:
    status = error.status_code or 0
    if status in (401, 403):
        forbidden = doing if status == 403 and doing in _WRITING else None
        return IndexKeyRefused(f"status {status}", forbidden)
    if status == 404:
        return CollectionMissing()
    if status == 429:
        return _busy(error.headers.get("Retry-After"))
    if status == 500 and _NOT_READY.encode() in error.content:
        return ReplicasNotReady()
    if status >= 500 or status in _WAITS:
        return IndexUnavailable(
            f"The index server could not {doing} (status {status}).", advice=_LATER
        )
    if 300 <= status < 400:
        return IndexRefused(
            f"The index server redirects (status {status}); redirects are not followed.",
            advice="Set index_url to the server's own URL.",
        )
    return IndexRefused(f"The index server refused to {doing} (status {status}).")


def _code_error(error: grpc.RpcError, doing: str) -> TruespanError:
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() or "") if isinstance(error, grpc.Call) else ""
    if code is grpc.StatusCode.UNAVAILABLE and "CERTIFICATE_VERIFY_FAILED" in details:
        return _untrusted()
    if code in _KEY_CODES:
        known = code is grpc.StatusCode.PERMISSION_DENIED
        return IndexKeyRefused(code.name, doing if known and doing in _WRITING else None)
    if code is grpc.StatusCode.NOT_FOUND:
        return CollectionMissing()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return _busy(None)
    if code is grpc.StatusCode.INTERNAL and _NOT_READY in details:
        return ReplicasNotReady()
    if code in _FINAL_CODES:
        return IndexRefused(f"The index server refused to {doing} ({code.name}).")
    return IndexUnavailable(f"The index server could not {doing} ({code.name}).", advice=_LATER)


def _busy(pause: str | float | None) -> IndexUnavailable:
    try:
        seconds = math.nan if pause is None else float(pause)
    except ValueError:
        seconds = math.nan
    return IndexUnavailable(
        "The index server has too many requests.",
        retry_after=seconds if 0 <= seconds < math.inf else None,
        advice=_LATER,
    )
