"""JSON over HTTP to a provider that the operator named, and the errors for its failures.

Must hold: no redirect is followed, no proxy of the environment is used, and no error contains a
request's text, a reply's body or a key.
"""

from __future__ import annotations

import json
import re
import ssl
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, TypeVar

import msgspec

from truespan import errors
from truespan.core.cancel import CancelToken, current_cancel_token
from truespan.core.decoding import prepare
from truespan.ingest.embed import TimedOut
from truespan.protocols import Clock
from truespan.providers.limits import RateLimiter, slots_for
from truespan.providers.outbound import AddressRefused, Bounds, ClosedEarly, Connection, read_target

Kind = TypeVar("Kind")

_MAX_KEPT = 8
_PIECE = 1 << 16

_MAX_COMPLAINT_LENGTH = 20_000

_BATCH_TOO_LARGE = (
    r"max_tokens_per_request|tokens per request"
    r"|array_above_max_length|array too long"
    r"|maximum allowed batch size|batch size.{0,40}(?:exceed|too large)"
    r"|at most \d+ requests can be in one batch"
    r"|payload size exceeds|request too large|request entity too large"
)
_TEXT_TOO_LONG = (
    r"context_length_exceeded|exceed_context_size|maximum context length"
    r"|exceeds? .{0,60}context (?:length|size)|larger than the max\w* context"
    r"|too large to process|must have less than \d+ tokens"
    r"|input token count.{0,40}exceeds|maximum (?:input|sequence) length"
)
_NO_SUCH_MODEL = r"model_not_found|\bmodels?\b.{0,200}\b(?:not found|does not exist|not exist)"
_PERMANENT = (
    r"(?:unable|failed|error|cannot)\W+(?:to\W+)?load(?:ing)?\W+(?:the\W+)?(?:gguf|model)"
    r"|template .{0,60}(?:not supported|unsupported)|unsupported .{0,40}(?:template|architecture)"
    r"|unknown model architecture|more system memory .{0,60}available"
)
"""Messages of permanent failures that servers send with the status of a temporary one."""
_MAX_QUOTE_LENGTH = 200
_HIDDEN = r"\S*[/\\]\S*|\S{25,}"
"""Paths and words that may be keys; messages quote neither."""
_COMMON = 12
"""Minimum length of a run of characters that a quoted reply must not share with the request."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with any status. `server` describes the provider in messages."""

    server: str
    status: int
    body: bytes = field(repr=False)
    content_type: str
    retry_after: float | None
    sent: str = field(default="", repr=False, kw_only=True)
    """Body of the request; no message may contain a part of it."""

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def denied(self) -> bool:
        """Return whether the key was denied; Google calls an invalid key a bad request."""
        invalid = self.status == 400 and self.says("API_KEY_INVALID")
        return invalid or self.status in (401, 403)

    @property
    def words(self) -> str:
        """Return all texts in a JSON body of any structure; nothing if it is not JSON."""

        def texts(value: Any) -> list[str]:
            if isinstance(value, str):
                return [value]
            if isinstance(value, dict):
                value = list(value.values())
            return [text for part in value for text in texts(part)] if type(value) is list else []

        try:
            return " ".join(texts(msgspec.json.decode(self.body[: 1 << 20])))[
                :_MAX_COMPLAINT_LENGTH
            ]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ""

    def says(self, pattern: str) -> bool:
        """Return whether the texts match a pattern, which is compiled only after a failure."""
        return re.search(pattern, self.words, re.IGNORECASE) is not None

    @property
    def names_no_model(self) -> bool:
        return self.says(_NO_SUCH_MODEL)

    def size_refusal(self) -> errors.ProviderRefused | None:
        """Return the error for a reply that says that the request or a text in it is too large."""
        if self.status == 413 or self.says(_BATCH_TOO_LARGE):
            return errors.ProviderRefused.of(
                "provider_batch_too_large",
                f"A request is too large for {self.server} (status {self.status}).",
            )
        if self.says(_TEXT_TOO_LONG):
            return errors.TextTooLong(
                f"A text is too long for the model ({self.server}).",
                advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
            )
        return None

    def read(self, kind: type[Kind]) -> Kind:
        """Return the content of a reply; raise the error of a failed reply or of invalid JSON."""
        if not self.succeeded:
            raise self.failure()
        if self.content_type and "json" not in self.content_type.lower():
            raise errors.ProviderBadReply(f"{self.server} sent a reply that is not JSON.")
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(self.body, type=prepare(kind))
        try:
            # Some servers write NaN and infinity as numbers. Only their vector is lost.
            return msgspec.convert(json.loads(self.body), prepare(kind))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise errors.ProviderBadReply(
                f"{self.server} sent invalid or unexpected JSON."
            ) from None

    @property
    def quotable(self) -> str:
        """Return the start of the server's message; blank if it contains a part of the request."""
        text = " ".join(re.sub(_HIDDEN, "...", self.words).split())[:_MAX_QUOTE_LENGTH]
        text = "".join(filter(str.isprintable, text))
        parts = (text[at : at + _COMMON] for at in range(max(len(text) - _COMMON + 1, 1)))
        return "" if any(part in self.sent for part in parts) else text

    def failure(self) -> errors.ServiceError:
        if self.status >= 500 and self.says(_PERMANENT):
            says = f": {self.quotable}" if self.quotable else ""
            return errors.ProviderRefused(
                f"{self.server} cannot use the model (status {self.status}){says}",
                advice="Trying again does not help; see the server's log, or use another model.",
            )
        if self.status in PASSING:
            reason = "is too busy" if self.status == 429 else "failed"
            return errors.ProviderUnavailable(
                f"{self.server} {reason} (status {self.status}).", retry_after=self.retry_after
            )
        if 300 <= self.status < 400:
            return errors.ProviderRefused(
                f"{self.server} redirects (status {self.status}); redirects are not followed.",
                advice="Set the base URL to the provider's own URL.",
            )
        if self.status == 413:
            return errors.ProviderRefused.of(
                "provider_batch_too_large",
                f"A request is too large for {self.server} (status 413).",
            )
        if self.status in (401, 403):
            return errors.ProviderRefused(
                f"{self.server} denied access (status {self.status}).",
                advice="Check the key and its permissions.",
            )
        return errors.ProviderRefused(f"{self.server} refused the request (status {self.status}).")


@dataclass(frozen=True, slots=True)
class StreamedReply(Reply):
    """A reply: `body` has the body of a failure, `lines` the body of a success.

    Set `connection.begun` after the first piece of an answer: waits are shorter then.
    """

    lines: Iterator[bytes] = field(repr=False)
    connection: Connection = field(repr=False)
    close: Callable[[], None] = field(repr=False)


# Shared by threads: a connection is taken from the list of idle ones by `pop` and returned by
# `append`, both atomic; no other thread has it meanwhile.
class JsonClient:
    """A client of one provider. Threads may share it.

    Connections are reused, except those of streamed replies. `in_flight` is the maximum number of
    concurrent requests of all clients of the same address in this process.
    """

    def __init__(
        self,
        base_url: str,
        *,
        label: str,
        clock: Clock,
        bounds: Bounds | None = None,
        pace: RateLimiter | None = None,
        in_flight: int | None = None,
        start_advice: str = "Try again in a moment.",
        timeout_advice: str | None = None,
    ) -> None:
        self.target = read_target(base_url)
        self.server = f"{label} at {self.target.address}"
        self.bounds = bounds or Bounds()
        self._clock = clock
        self._pace = pace
        self._slots = None if in_flight is None else slots_for(self.target.address, in_flight)
        self._start_advice = start_advice
        self._timeout_advice = timeout_advice or start_advice
        self._idle: list[Connection] = []
        # Embedders have no close(), so the connections close with the last reference.
        weakref.finalize(self, _close_all, self._idle)

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Reply:
        return self._request("GET", path, None, headers)

    def post(
        self,
        path: str,
        payload: Any,
        *,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Reply:
        """Return the reply to a POST of `payload` as JSON, with any status.

        With a `deadline`, the wait for other requests to the same address counts as well.

        Raises:
            ProviderUnavailable: the provider was not reached, or did not answer in time.
            ProviderRefused: its address is refused or its certificate is not trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
        """
        return self._request("POST", path, msgspec.json.encode(payload), headers, deadline)

    def stream(
        self, path: str, payload: Any, *, headers: Mapping[str, str], deadline: float
    ) -> StreamedReply:
        """Send a POST of `payload` as JSON; return its reply, with only the head of a success.

        The whole reply must arrive by `deadline`. The caller closes the reply, which ends the
        request even if the reply is not complete. Raises as `post` does, and `Interrupted` if the
        request was cancelled.
        """
        body = msgspec.json.encode(payload)
        sent = headers_for(body, headers)
        connection = Connection(self.target, self.bounds, self._clock)
        connection.deadline = deadline
        token = current_cancel_token()
        with ExitStack() as stack:
            stack.callback(connection.close)
            token.add_callback(connection.hang_up)
            stack.callback(token.remove_callback, connection.hang_up)
            try:
                response = connection.ask("POST", self.target.path + path, body, sent)
                stack.enter_context(response)
                reply = self._read_reply(response, head_only=200 <= response.status < 300)
            except (OSError, HTTPException) as error:
                # A cancelled request is no failure of the provider.
                token.check()
                raise self._failure(error) from None
            close = stack.pop_all().close
        if not reply.succeeded:
            close()
            reply = replace(reply, sent=readable(body))
        return StreamedReply(
            **asdict(reply),
            lines=self._read_lines(connection, response, token),
            connection=connection,
            close=close,
        )

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        extra: Mapping[str, str] | None,
        deadline: float | None = None,
    ) -> Reply:
        headers = headers_for(body, extra)
        if self._pace is not None:
            self._pace.wait()
        wait = None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)
        try:
            with self._slots.hold(wait) if self._slots else nullcontext():
                if deadline is None:
                    deadline = self._clock.monotonic() + self.bounds.total_seconds
                return self._send(method, path, body, headers, deadline)
        except TimeoutError as error:
            raise self._failure(error) from None

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: float
    ) -> Reply:
        token = current_cancel_token()
        while True:
            connection = self._connection()
            connection.deadline = deadline
            token.add_callback(connection.hang_up)
            try:
                with connection.ask(method, self.target.path + path, body, headers) as response:
                    reply = self._read_reply(response)
            except BaseException as error:
                connection.close()
                # A cancelled request is no failure of the provider.
                token.check()
                if isinstance(error, ClosedEarly) and connection.kept:
                    # The connection was closed while idle, so no reply was started or lost.
                    continue
                if isinstance(error, OSError | HTTPException):
                    raise self._failure(error) from None
                raise
            finally:
                token.remove_callback(connection.hang_up)
            if not reply.succeeded:
                reply = replace(reply, sent=readable(body))
            usable = connection.sock is not None and not token.cancelled
            if usable and len(self._idle) < _MAX_KEPT:
                connection.kept = True
                self._idle.append(connection)
            else:
                connection.close()
            return reply

    def close(self) -> None:
        """Close idle connections; the next request opens a new one."""
        _close_all(self._idle)

    def _connection(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(self.target, self.bounds, self._clock)

    def _read_reply(self, response: HTTPResponse, *, head_only: bool = False) -> Reply:
        limit = self.bounds.body_bytes
        body: bytes | None = b""
        if not head_only:
            body = response.read(limit + 1) if (response.length or 0) <= limit else None
            if body is None or len(body) > limit:
                raise errors.ProviderBadReply(
                    f"{self.server} sent a reply of more than {limit >> 20} MiB."
                )
            if response.length:
                # Less arrived than was declared, which `http.client` does not report.
                raise IncompleteRead(b"")
        return Reply(
            server=self.server,
            status=response.status,
            body=body,
            content_type=response.headers.get("Content-Type", ""),
            retry_after=read_pause(response.headers.get("Retry-After", ""), self._clock.now()),
        )

    def _read_lines(
        self, connection: Connection, response: HTTPResponse, token: CancelToken
    ) -> Iterator[bytes]:
        room = self.bounds.body_bytes
        # Counted here, because not every version of `http.client` counts what is read like this.
        left = room + 1 if response.length is None else response.length
        pending = bytearray()
        while left:
            try:
                piece = response.read1(min(left, _PIECE))
            except (OSError, HTTPException) as error:
                token.check()
                if connection.begun and not isinstance(error, TimeoutError):
                    # The caller notices that the end of the answer is missing.
                    return
                raise self._failure(error) from None
            if not piece:
                # A cancelled request looks like the end of the reply.
                token.check()
                break
            left -= len(piece)
            room -= len(piece)
            *lines, rest = piece.split(b"\n")
            if lines:
                lines[0] = bytes(pending) + lines[0]
                pending.clear()
            pending += rest
            if room < 0 or len(pending) > self.bounds.line_bytes:
                raise errors.ProviderBadReply(f"{self.server} sent a reply that is too long.")
            yield from (line.removesuffix(b"\r") for line in lines)
        if pending:
            yield bytes(pending).removesuffix(b"\r")

    def _failure(self, error: OSError | HTTPException) -> errors.TruespanError:
        """Return the error for a failed connection."""
        # The message of the exception is not used: it may quote the request or the reply.
        if known := errors.resource_error(error):
            return known
        match error:
            case ssl.SSLCertVerificationError():
                return errors.ProviderRefused(
                    f"The certificate of {self.server} is not trusted.",
                    advice="Check the base URL and the certificates of this machine.",
                )
            case AddressRefused():
                return errors.ProviderRefused(
                    f"{self.server} resolves only to addresses that are refused.",
                    advice="Link-local, multicast, reserved and unspecified addresses are refused.",
                )
            case TimeoutError():
                return TimedOut(
                    f"{self.server} did not answer in time.", advice=self._timeout_advice
                )
            case ConnectionRefusedError():
                reason = "cannot be reached"
            case ConnectionError() | IncompleteRead():
                reason = "closed the connection before its reply was complete"
            case HTTPException():
                return errors.ProviderBadReply(f"{self.server} sent a reply that is not HTTP.")
            case _:
                reason = "cannot be reached"
        return errors.ProviderUnavailable(f"{self.server} {reason}.", advice=self._start_advice)


def _close_all(idle: list[Connection]) -> None:
    while idle:
        idle.pop().close()


def readable(body: bytes | None) -> str:
    """Return the body of a request as one line, to compare texts with it."""
    text = (body or b"").decode(errors="replace").replace("\\n", " ").replace('\\"', '"')
    return " ".join(text.split())


def sendable(text: str) -> str:
    """Return a text that can be encoded; lone surrogates are replaced."""
    return text.encode(errors="replace").decode()


def read_pause(value: str, now: float) -> float | None:
    """Return the seconds of a Retry-After, at most `MAX_PAUSE`; None if it is invalid."""
    # It is a number of seconds or a date. A date in the past means no pause.
    value = value.strip()
    if value.isascii() and value.isdigit():
        return MAX_PAUSE if len(value) > 4 else min(float(value), MAX_PAUSE)
    try:
        date = parsedate_to_datetime(value)
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return min(max(moment - now, 0.0), MAX_PAUSE)


def headers_for(body: bytes | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of a request; `extra` replace the usual ones."""
    headers = {"Accept": "application/json", "User-Agent": "truespan"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    for name, value in (extra or {}).items():
        if not (value.isascii() and value.isprintable()):
            # The error of `http.client` would quote the value, which may be a key.
            raise errors.InvalidConfiguration(f"The value of the header {name} cannot be sent.")
        headers[name] = value
    return headers
