"""Errors for the failures of a Qdrant server.

They name the server and never quote a reply, because it may quote the request. The client library
has one class for failed requests, one for unexpected statuses and one for "too many requests"; it
passes errors of its JSON reader on and has assertions against empty replies.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx
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
from truespan.index.base import REBUILD
from truespan.providers.outbound import AddressRefused, Target

_LATER = "Try again in a moment."
_WAITS = frozenset({408, 425, 429})
"""Refusals that may be temporary, like every status from 500 on."""
WRITE, DELETE, CREATE = "write points", "delete points", "make a collection"
REMOVE, REWRITE = "remove a collection", "rewrite its segments"
_WRITING = frozenset({WRITE, DELETE, CREATE, REMOVE, REWRITE})
"""Operations that a read-only key does not allow."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""Reasons of a failed TLS handshake: the first bytes of the reply are no TLS."""
_Cause = TypeVar("_Cause", bound=BaseException)


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
"""Text in the reply of a cluster while the replicas of a collection are being created."""


@contextmanager
def server_errors(doing: str, address: Target | None) -> Iterator[None]:
    """Turn any exception of a request to the server into an error of ours."""
    try:
        yield
    except TruespanError:
        raise
    except Exception as error:
        raise _Failure(address, doing).error_for(error) from None


class _Failure:
    """A request that failed: the server it was sent to, and its purpose."""

    def __init__(self, target: Target | None, doing: str) -> None:
        self._doing = doing
        self._server = "The index server" + (f" {target.address}" if target else "")

    def error_for(self, error: Exception) -> TruespanError:
        if known := resource_error(error):
            return known
        match error:
            case ResourceExhaustedResponse():
                return self._busy(error.retry_after_s)
            case UnexpectedResponse():
                return self._error_for_status(error)
            case ResponseHandlingException():
                return self.error_for(error.source)
            case QdrantException():
                # The pause it asks for is not a number.
                return self._busy(None)
            case httpx.TransportError() | OSError():
                return self._error_for_connection(error)
            case ValueError() | AssertionError() | LookupError() | httpx.HTTPError():
                return self._unavailable("sent an invalid reply")
            case _:
                kind = type(error).__name__
                return IndexRefused(f"{self._server} could not {self._doing} ({kind}).")

    def _error_for_connection(self, error: Exception) -> TruespanError:
        if isinstance(error, AddressRefused):
            return InvalidConfiguration(
                f"{self._server}, named by index_url, has only addresses that are refused.",
                advice="Link-local, multicast, reserved and unspecified addresses are refused.",
            )
        if untrusted := _cause(error, ssl.SSLCertVerificationError):
            return self._untrusted(other_host="mismatch" in untrusted.verify_message)
        if (broken := _cause(error, ssl.SSLError)) and broken.reason in _NOT_TLS:
            return InvalidConfiguration(
                f"{self._server} speaks no TLS, and index_url says https://.",
                advice="Set index_url to http://, or to the right port.",
            )
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return self._unavailable("did not answer in time")
        if _cause(error, socket.gaierror):
            return self._unavailable("cannot be reached: its name does not resolve")
        if isinstance(error, httpx.ConnectError) and not broken:
            return self._unavailable("cannot be reached")
        return self._unavailable("closed the connection before its reply was complete")

    def _error_for_status(self, error: UnexpectedResponse) -> TruespanError:
        status = error.status_code or 0
        if status in (401, 403):
            forbidden = self._doing if status == 403 and self._doing in _WRITING else None
            return IndexKeyRefused(f"status {status}", forbidden)
        if status == 404:
            return CollectionMissing()
        if status == 429:
            return self._busy(error.headers.get("Retry-After"))
        if status == 500 and _NOT_READY.encode() in error.content:
            return ReplicasNotReady()
        if status >= 500 or status in _WAITS:
            return self._unavailable(f"could not {self._doing} (status {status})")
        if 300 <= status < 400:
            return IndexRefused(
                f"{self._server} redirects (status {status}); redirects are not followed.",
                advice="Set index_url to the server's own URL.",
            )
        return IndexRefused(f"{self._server} refused to {self._doing} (status {status}).")

    def _unavailable(self, reason: str) -> IndexUnavailable:
        return IndexUnavailable(f"{self._server} {reason}.", advice=_LATER)

    def _untrusted(self, *, other_host: bool) -> InvalidConfiguration:
        reason = "is for another host" if other_host else "is not trusted"
        return InvalidConfiguration(
            f"The certificate of {self._server.replace('The', 'the', 1)} {reason}.",
            advice="Set index_url to a host name that the certificate has."
            if other_host
            else "Check index_url, or name its certificates in qdrant_ca_file.",
        )

    def _busy(self, pause: str | float | None) -> IndexUnavailable:
        try:
            seconds = math.nan if pause is None else float(pause)
        except ValueError:
            seconds = math.nan
        return IndexUnavailable(
            f"{self._server} has too many requests.",
            retry_after=seconds if 0 <= seconds < math.inf else None,
            advice=_LATER,
        )


def _cause(error: BaseException | None, kind: type[_Cause]) -> _Cause | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error
