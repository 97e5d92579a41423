"""What goes wrong with a server, as errors of ours that quote nothing of its answer.

The client library has one class for requests that failed, one for statuses it did not expect, one
for a request to wait; it lets the errors of its JSON reader through, and has assertions for answers
that are empty. An answer may quote what was asked, so none of it goes into a message.
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
from truespan.providers.http import AddressRefused

REBUILD = "'truespan doctor --apply' rebuilds the index from the store."
_LATER = "Try again in a moment."

_WAITS = frozenset({408, 425, 429})
"""Refusals that another attempt may not meet; so may every status from 500 on."""
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
    """The server has no such collection: never to be taken for one that is empty."""

    def __init__(self) -> None:
        super().__init__("The index has no collection for this profile.", advice=REBUILD)


@contextmanager
def server_errors(doing: str) -> Iterator[None]:
    """Turn whatever a request to the server raises into an error of ours."""
    try:
        yield
    except TruespanError:
        raise
    except Exception as error:
        raise _told(error, doing) from None


def _told(error: Exception, doing: str) -> TruespanError:
    match error:
        case ResourceExhaustedResponse():
            return _busy(float(error.retry_after_s))
        case UnexpectedResponse():
            return _status(error, doing)
        case ResponseHandlingException():
            return _told(error.source, doing)
        case grpc.RpcError():
            return _code(error, doing)
        case QdrantException():
            # It asked for a pause in words that are no number.
            return _busy(None)
        case _:
            return _failure(error, doing)


def _failure(error: Exception, doing: str) -> TruespanError:
    """Tell of a request that was not sent, or not answered, or answered with no sense."""
    match error:
        case AddressRefused():
            return InvalidConfiguration(
                "The setting index_url leads to an address that is never an index's.",
                advice="Link-local, multicast and unspecified addresses are refused.",
            )
        case httpx.TimeoutException() | TimeoutError():
            reason = "did not answer in time"
        case httpx.ConnectError() if _untrusted(error):
            return InvalidConfiguration(
                "The index server shows a certificate that is not trusted.",
                advice="Check index_url, or name its certificates in qdrant_ca_file.",
            )
        case httpx.ConnectError() | socket.gaierror():
            reason = "cannot be reached"
        case httpx.TransportError() | OSError():
            reason = "closed the connection before its reply was complete"
        case ValueError() | AssertionError() | LookupError() | httpx.HTTPError():
            reason = "answered something that is no answer"
        case _:
            kind = type(error).__name__
            return IndexRefused(f"The index server could not {doing} ({kind}).")
    return IndexUnavailable(f"The index server {reason}.", advice=_LATER)


def _untrusted(error: BaseException) -> bool:
    # The HTTP client wraps what TLS found; the cause is somewhere beneath.
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
            f"The index server sends elsewhere (status {status}), which is not followed.",
            advice="Give the address it is at in index_url.",
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


def _seconds(spelled: str | None) -> float | None:
    try:
        return float(spelled) if spelled else None
    except ValueError:
        return None
