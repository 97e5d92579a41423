"""JSON over HTTP to a provider that the operator named, and what each failure is called.

Owns: requests, the size of a reply, and the errors for statuses and broken connections.
Does not own: what a provider's own words mean; its adapter looks at a reply before it reads it.
Must hold: no redirect is followed, no proxy of the environment is used, and no message holds a
request's text, a reply's body or a key.
"""

from __future__ import annotations

import json
import socket
import ssl
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, TypeVar

import msgspec

from truespan.adapters.providers.http_connection import (
    AddressRefused,
    Bounds,
    ClosedEarly,
    Connection,
    IdleConnections,
    read_target,
)
from truespan.errors import (
    BatchTooLarge,
    InvalidConfiguration,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    ServiceError,
)
from truespan.ingest.embed.pace import Pace
from truespan.ports import Clock

Kind = TypeVar("Kind")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a failure that may be over when the request is sent again."""
LONGEST_PAUSE = 300.0
"""Seconds of a pause that are believed when a provider asks for one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whatever its status. `who` names the provider in messages."""

    who: str
    status: int
    body: bytes = field(repr=False)
    content_type: str
    retry_after: float | None

    @property
    def succeeded(self) -> bool:
        """Say whether the status is one of success."""
        return 200 <= self.status < 300

    def read(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that succeeded.

        Raises:
            ProviderUnavailable: the status is one that may pass, or asks for a pause.
            ProviderRefused: it is any other that is not a success.
            ProviderBadReply: it is a success, but not JSON, or JSON of another shape.
        """
        if not self.succeeded:
            raise self.failure()
        if self.content_type and "json" not in self.content_type.lower():
            raise ProviderBadReply(f"{self.who} answered with something that is not JSON.")
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._read_loosely(kind)

    def _read_loosely(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply that is JSON but for NaN and infinity.

        Some servers write them down as if they were numbers. They cost the vector they are in, not
        all that came with it.
        """
        try:
            return msgspec.convert(json.loads(self.body), kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ProviderBadReply(
                f"{self.who} answered with JSON that is broken or of another shape."
            ) from None

    def failure(self) -> ServiceError:
        """Return the error that a status other than success stands for."""
        if self.status in PASSING:
            reason = "is too busy" if self.status == 429 else "failed"
            return ProviderUnavailable(
                f"{self.who} {reason} (status {self.status}).", retry_after=self.retry_after
            )
        if 300 <= self.status < 400:
            return ProviderRefused(
                f"{self.who} points elsewhere (status {self.status}); redirects are not followed.",
                advice="Set the base URL to where the provider really is.",
            )
        if self.status == 413:
            return BatchTooLarge(f"A request is larger than {self.who} takes (status 413).")
        if self.status in (401, 403):
            return ProviderRefused(
                f"{self.who} denied access (status {self.status}).",
                advice="Check the key and what it may be used for.",
            )
        return ProviderRefused(f"{self.who} refused the request (status {self.status}).")


class JsonClient:
    """Asks one provider. Several threads may share it; idle connections are kept for the next."""

    def __init__(
        self,
        base_url: str,
        *,
        label: str,
        clock: Clock,
        bounds: Bounds | None = None,
        pace: Pace | None = None,
        start_advice: str = "Try again in a moment.",
    ) -> None:
        self.target = read_target(base_url)
        self.who = f"{label} at {self.target.address}"
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._pace = pace
        self._start_advice = start_advice
        self._idle = IdleConnections()
        # Nobody closes an embedder, so whoever lets go of the last reference shuts the door.
        weakref.finalize(self, self._idle.clear)

    def close(self) -> None:
        """Close the connections that are kept; the next request opens one again."""
        self._idle.clear()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a GET; raises as `post` does."""
        return self._ask("GET", path, None, headers)

    def post(self, path: str, payload: Any, *, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the reply to a POST of `payload` as JSON, whatever its status.

        Raises:
            ProviderUnavailable: it was not reached, or did not answer in time.
            ProviderRefused: its address or its certificate is not one to be trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
        """
        return self._ask("POST", path, msgspec.json.encode(payload), headers)

    def _ask(
        self, method: str, path: str, body: bytes | None, extra: Mapping[str, str] | None
    ) -> Reply:
        request = (method, self.target.path + path, body, headers_for(body, extra))
        if self._pace is not None:
            self._pace.wait()
        deadline = self._clock.monotonic() + self._bounds.total_seconds
        try:
            if (kept := self._idle.take()) is not None:
                try:
                    return self._exchange(kept, deadline, request)
                except ClosedEarly:
                    # It had been closed while it lay idle, so no reply was begun or lost.
                    pass
            fresh = Connection(self.target, self._bounds, self._clock)
            return self._exchange(fresh, deadline, request)
        except (OSError, HTTPException) as error:
            raise self._failure(error) from None

    def _exchange(
        self,
        connection: Connection,
        deadline: float,
        request: tuple[str, str, bytes | None, dict[str, str]],
    ) -> Reply:
        try:
            connection.deadline = deadline
            with connection.ask(*request) as response:
                reply = self._reply(response)
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return reply

    def _reply(self, response: HTTPResponse) -> Reply:
        limit = self._bounds.body_bytes
        declared_size = response.length or 0
        body = response.read(limit + 1) if declared_size <= limit else None
        if body is None or len(body) > limit:
            raise ProviderBadReply(f"{self.who} answered with more than {limit >> 20} MiB.")
        if response.length:
            # Less came than was declared, and the library below keeps silent about that.
            raise IncompleteRead(b"")
        return Reply(
            who=self.who,
            status=response.status,
            body=body,
            content_type=response.headers.get("Content-Type", ""),
            retry_after=read_pause(response.headers.get("Retry-After", ""), self._clock.now()),
        )

    def _failure(self, error: OSError | HTTPException) -> ServiceError:
        """Return what a failure of the connection is called.

        The words of the exception are not used: they may quote what was sent or received.
        """
        match error:
            case ssl.SSLCertVerificationError():
                return ProviderRefused(
                    f"{self.who} shows a certificate that is not trusted.",
                    advice="Check the base URL and the certificates of this machine.",
                )
            case AddressRefused():
                return ProviderRefused(
                    f"{self.who} has an address that is never a provider's.",
                    advice="Link-local, multicast and unspecified addresses are refused.",
                )
            case TimeoutError():
                reason = "did not answer in time"
            case ConnectionRefusedError() | socket.gaierror():
                reason = "cannot be reached"
            case ConnectionError() | IncompleteRead():
                reason = "closed the connection before its reply was complete"
            case HTTPException():
                return ProviderBadReply(f"{self.who} answered with something that is not HTTP.")
            case _:
                reason = "cannot be reached"
        return ProviderUnavailable(f"{self.who} {reason}.", advice=self._start_advice)


def sendable(text: str) -> str:
    """Return a text that has a UTF-8 form: half a surrogate pair has none."""
    return text.encode(errors="replace").decode()


def read_pause(value: str, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, at most `LONGEST_PAUSE`; None for nonsense.

    It is a number of seconds or a date, and a date that has passed asks for no pause at all.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return LONGEST_PAUSE if len(value) > 4 else min(float(value), LONGEST_PAUSE)
    try:
        date = parsedate_to_datetime(value)
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return min(max(moment - now, 0.0), LONGEST_PAUSE)


def headers_for(body: bytes | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of a request; `extra` go before the usual ones.

    Raises:
        InvalidConfiguration: a value cannot be sent.
    """
    headers = {"Accept": "application/json", "User-Agent": "truespan"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    for name, value in (extra or {}).items():
        if not (value.isascii() and value.isprintable()):
            # The library below would quote the value, which may be a key, in its own error.
            raise InvalidConfiguration(f"The value of the header {name} cannot be sent.")
        headers[name] = value
    return headers
