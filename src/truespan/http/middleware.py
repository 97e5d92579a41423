"""The gate before all addresses: hosts and origins, headers of every reply, a line in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truespan.errors import TruespanError
from truespan.http.auth import AuthPolicy
from truespan.http.bodies import header
from truespan.http.call import Call, Reply
from truespan.http.endpoint import send_reply
from truespan.http.problems import problem_reply
from truespan.types.telemetry import FIELDS, OTHER, SYSTEM, Event

_log = logging.getLogger(f"{SYSTEM}.http")
_log.addHandler(logging.NullHandler())

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_EXPOSED = b"X-Answer-Mode, X-RAG-Domain, Location, Retry-After, Mcp-Session-Id"
_METHODS = b"GET, HEAD, POST, PUT, DELETE"
_HEADERS = (
    b"Authorization, Content-Type, Idempotency-Key, X-RAG-Domain, "
    b"Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-Id"
)


class Gate:
    """Lets in what comes under our name and from our pages; an ASGI application around another."""

    def __init__(self, inner: ASGIApp, keeping: AuthPolicy, now: Callable[[], float]) -> None:
        self._inner = inner
        self._keeping = keeping
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began, told = self._now(), _Told(send)
        # Divided as it was sent: a name may hold a slash, which is spelled %2F in an address.
        scope["path"] = scope["raw_path"].decode("latin-1")
        try:
            told.origin = self._checked(scope)
        except TruespanError as error:
            await send_reply(problem_reply(error), told.send)
        else:
            if told.origin is not None and _is_preflight(scope):
                await send_reply(_preflight(), told.send)
            else:
                await self._inner(scope, receive, told.send)
        _record(scope, told.status, self._now() - began)

    def _checked(self, scope: Scope) -> str | None:
        """Return the foreign origin that may read the reply, if one asks."""
        host = self._keeping.check_host(header(scope, b"host"))
        fetched = {
            name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")
        }
        navigates = fetched.get(b"sec-fetch-mode") == b"navigate"
        # Following a link from another site to the page is harmless: it carries nothing.
        cross_site = fetched.get(b"sec-fetch-site") == b"cross-site" and not (
            scope["method"] in ("GET", "HEAD") and navigates
        )
        return self._keeping.check_origin(header(scope, b"origin"), host, cross_site=cross_site)


class _Told:
    """Sends a reply with the headers that every reply has, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.origin: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*self._headers(message)]}
        await self._send(message)

    def _headers(self, message: MutableMapping[str, Any]) -> list[tuple[bytes, bytes]]:
        given = list(message.get("headers", ()))
        names = {name for name, _ in given}
        given += [one for one in _ALWAYS if one[0] not in names]
        if b"cache-control" not in names:
            given.append((b"cache-control", b"no-store"))
        if self.origin is not None:
            given += [
                (b"access-control-allow-origin", self.origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]
        return given


def _is_preflight(scope: Scope) -> bool:
    asks = bool(header(scope, b"access-control-request-method"))
    return scope["method"] == "OPTIONS" and asks


def _preflight() -> Reply:
    headers = (
        ("access-control-allow-methods", _METHODS.decode()),
        ("access-control-allow-headers", _HEADERS.decode()),
        ("access-control-max-age", "600"),
    )
    return Reply(b"", 204, headers)


def _record(scope: Scope, status: int, seconds: float) -> None:
    """Write a line that names the call and not what was asked: an address may hold names."""
    if _log.isEnabledFor(logging.INFO):
        call = scope.get("truespan.call")
        name = call.name if isinstance(call, Call) else OTHER
        fields = {"call": name, "status": status, "seconds": round(seconds, 6)}
        _log.info(Event.HTTP_ANSWERED.value, extra={FIELDS: fields})
