"""Failures of a Qdrant server as errors of ours, which never quote its replies.

The client library has one class for failed requests, one for unexpected statuses and one for
"too many requests"; it passes errors of its JSON reader on and has assertions against empty
replies. A reply may quote the request, so no part of it goes into a message.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexUnavailable,
    InvalidConfiguration,
    TruespanError,
)
from truespan.index.calls import REBUILD
from truespan.providers.outbound import AddressRefused

_LATER = "Try again in a moment."

_WAITS = frozenset({408, 425, 429})
"""Refusals that may be temporary, like every status from 500 on."""
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
    match error:
        case ResourceExhaustedResponse():
            return _busy(float(error.retry_after_s))
        case UnexpectedResponse():
            return _status(error, doing)
        case ResponseHandlingException():
            return _error_for(error.source, doing)
        case grpc.RpcError():
            return _code(error, doing)
        case QdrantException():
            # The pause it asks for is not a number.
            return _busy(None)
        case _:
            return _failure(error, doing)


def _failure(error: Exception, doing: str) -> TruespanError:
    """Return the error for a request that was not sent, not answered, or answered with nonsense."""
    match error:
        case AddressRefused():
            return InvalidConfiguration(
                "The setting index_url resolves only to addresses that are refused.",
                advice="Link-local, multicast, reserved and unspecified addresses are refused.",
            )
        case httpx.TimeoutException() | TimeoutError():
            reason = "did not answer in time"
        case httpx.ConnectError() if _untrusted(error):
            return InvalidConfiguration(
                "The certificate of the index server is not trusted.",
                advice="Check index_url, or name its certificates in qdrant_ca_file.",
            )
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


def _untrusted(error: BaseException) -> bool:
    # The HTTP client wraps the TLS error; it is somewhere in the chain of causes.
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return True
        inner = inner.__cause__ or inner.__context__
    return False


def _status(error: UnexpectedResponse, doing: str) -> TruespanError:
    status = error.status_code or 0
    if status in (401, 403):
        return IndexKeyRefused(f"status {status}")
    if status == 404:
        return CollectionMissing()
    if status == 429:
        return _busy(_seconds(error.headers.get("Retry-After")))
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


def _code(error: grpc.RpcError, doing: str) -> TruespanError:
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    if code in _KEY_CODES:
        return IndexKeyRefused(code.name)
    if code is grpc.StatusCode.NOT_FOUND:
        return CollectionMissing()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return _busy(None)
    if code in _FINAL_CODES:
        return IndexRefused(f"The index server refused to {doing} ({code.name}).")
    return IndexUnavailable(f"The index server could not {doing} ({code.name}).", advice=_LATER)


def _busy(pause: float | None) -> IndexUnavailable:
    known = pause is not None and math.isfinite(pause) and pause >= 0
    return IndexUnavailable(
        "The index server has too many requests.",
        retry_after=pause if known else None,
        advice=_LATER,
    )


def _seconds(value: str | None) -> float | None:
    try:
        return float(value) if value else None
    except ValueError:
        return None
