"""Admission of requests: host, origin, token and rate, checked before a request is handled."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from msgspec import Struct, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truespan import errors
from truespan.extensions.server.http.bodies import header
from truespan.extensions.server.http.operation import Operation, Reply
from truespan.extensions.server.http.replies import problem_reply, send_reply
from truespan.types.audience import check_labels
from truespan.types.scope import OWNER
from truespan.types.telemetry import ACCESS, FIELDS, OTHER, SYSTEM, Event
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.engine.library import Library

_log = logging.getLogger(f"{SYSTEM}.http")
_log.addHandler(logging.NullHandler())
_access_log = logging.getLogger(ACCESS)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOCAL = Principal(None, OWNER)
"""A caller without a token on a server that needs none."""
_MAX_RATED_CALLERS = 10_000
_MAX_KNOWN_CALLERS = 10_000
_MAX_PATH_LENGTH = 1000
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECRET = re.compile(r"(ts_[0-9a-f]{16}_)[A-Za-z0-9_-]+")
"""A token that was put into a path by mistake; its id is no secret."""
_DEFAULT_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_EXPOSED_HEADERS = (
    b"X-Answer-Mode, X-RAG-Domain, Location, Retry-After, X-Request-Id, Mcp-Session-Id"
)
_PREFLIGHT = Reply(
    b"",
    204,
    (
        ("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        (
            "access-control-allow-headers",
            "Authorization, Content-Type, Idempotency-Key, X-RAG-Domain, "
            "X-Truespan-Audience, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-Id",
        ),
        ("access-control-max-age", "600"),
    ),
)


class Credentials(Struct, frozen=True):
    """The headers of a request that say who the caller is, before they are checked."""

    authorizations: list[bytes]
    audiences: list[bytes]

    @classmethod
    def of(cls, scope: Scope) -> Credentials:
        return cls(header(scope, b"authorization"), header(scope, b"x-truespan-audience"))

    def digest(self) -> bytes:
        """Return a digest that stands for the token, which is not kept in memory."""
        return hashlib.sha256(b"\0".join(self.authorizations)).digest()

    def labels(self) -> frozenset[str] | None:
        """Return the labels that the request is narrowed to; None if it names none.

        Labels are separated by commas and percent-encoded. An empty header means no label.
        """
        if not self.audiences:
            return None
        if len(self.audiences) > 1:
            # One of them may come from the client of an application, and not from the application.
            raise errors.InvalidArgument("The header X-Truespan-Audience was sent more than once.")
        try:
            parts = self.audiences[0].decode("ascii").split(",")
            given = [unquote(part.strip(), errors="strict") for part in parts if part.strip()]
        except UnicodeDecodeError:
            raise errors.InvalidArgument(
                "The header X-Truespan-Audience is not percent-encoded UTF-8.",
                advice="Encode commas, percent signs and all but ASCII in a label as %XX.",
            ) from None
        return check_labels(given)


class AuthPolicy(Struct, frozen=True):
    """Accepted hosts and origins, whether a token is needed, and the rate limit."""

    hosts: frozenset[str] = LOOPBACK
    any_address: bool = False
    """Whether any IP address is accepted as host, for a server that listens on all of them."""
    origins: frozenset[str] = frozenset()
    needs_token: bool = False
    per_minute: int = 0
    """Requests a token may send per minute; 0 for no limit."""
    shared: bool = False
    """Whether all processes on one store count together."""

    def check_host(self, hosts: Iterable[bytes]) -> str:
        """Return the host of a request."""
        # DNS rebinding lets a page of another site reach this server, but only under its name.
        values = [host.decode("latin-1") for host in hosts]
        name = _strip_port(values[0]) if len(values) == 1 else ""
        if name in self.hosts or (self.any_address and _parse_address(name) is not None):
            return values[0].lower()
        raise errors.NotAllowed.of("host_refused")

    def check_origin(self, origins: list[bytes], host: str, *, cross_site: bool) -> str | None:
        """Return the foreign origin that may read the reply; None for the server's own pages."""
        if not origins and not cross_site:
            return None
        origin = origins[0].decode("latin-1").lower() if len(origins) == 1 else ""
        if origin in self.origins:
            return origin
        if origin not in (f"http://{host}", f"https://{host}"):
            raise errors.NotAllowed.of("origin_refused")
        return None


# Shared by threads: the rates and the identities of callers are changed under a lock.
class Authenticator(Struct):
    """Identifies callers by their tokens and limits their rates. Threads may share it."""

    library: Library
    policy: AuthPolicy
    now: Callable[[], float]
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)
    _known: dict[bytes, str] = field(default_factory=dict)
    """Ids of the tokens and users that credentials were valid for, by the digest of these."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, credentials: Credentials) -> Principal:
        """Return the caller, and count the request."""
        principal = self.identify(credentials)
        self.count(principal)
        return principal

    def count(self, principal: Principal) -> None:
        """Count a request of a caller, or refuse it if there were too many."""
        per_minute = self.policy.per_minute
        if principal.token is not None and per_minute and self.policy.shared:
            wait = self.library.server.count_request(principal.token, per_minute)
            if wait:
                raise errors.TooManyRequests(wait)
        elif principal.token is not None and per_minute:
            self._count(principal.token)

    def identify(self, credentials: Credentials) -> Principal:
        """Return the caller, narrowed to the labels of the request, without counting it."""
        principal = self._authenticate(credentials.authorizations)
        if principal.token is not None:
            self._remember(credentials, principal.token)
        labels = credentials.labels()
        return principal if labels is None else principal.for_audience(labels)

    def recall(self, credentials: Credentials) -> str | None:
        """Return the token or user that credentials were valid for; None if they never were.

        It identifies the queue of a request, and grants nothing: they may have expired since.
        """
        return self._known.get(credentials.digest())

    def _remember(self, credentials: Credentials, caller: str) -> None:
        with self._lock:
            self._known[credentials.digest()] = caller
            if len(self._known) > _MAX_KNOWN_CALLERS:
                self._known.pop(next(iter(self._known)))

    def _authenticate(self, authorizations: list[bytes]) -> Principal:
        if not authorizations:
            if self.policy.needs_token:
                raise errors.NotAllowed.of("unauthorized")
            return LOCAL
        scheme, _, secret = authorizations[0].decode("latin-1").partition(" ")
        # An invalid header is never treated as a missing one: that would make the caller the owner.
        if len(authorizations) != 1 or scheme.lower() != "bearer":
            raise errors.NotAllowed.of("unauthorized")
        return self.library.server.admit(secret.strip())

    def _count(self, caller: str) -> None:
        """Add a request to the caller's leaky bucket, or refuse it if the bucket is full."""
        size, now = float(self.policy.per_minute), self.now()
        with self._lock:
            level, at = self._levels.pop(caller, (0.0, now))
            level = max(0.0, level - (now - at) * size / 60)
            is_full = level + 1 > size
            self._levels[caller] = (level if is_full else level + 1, now)
            if len(self._levels) > _MAX_RATED_CALLERS:
                self._levels.pop(next(iter(self._levels)))
        if is_full:
            raise errors.TooManyRequests((level + 1 - size) * 60 / size)


class Gateway(Struct, frozen=True):
    """Checks host and origin, adds the headers of every reply, and logs; wraps an ASGI app."""

    inner: ASGIApp
    policy: AuthPolicy
    now: Callable[[], float]
    log_requests: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        started, status, origin = self.now(), 0, None
        request_id = _request_id(scope) if self.log_requests else None
        # Routing uses the encoded path: a name may contain a slash, encoded as %2F.
        scope["path"] = scope["raw_path"].decode("latin-1")

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                names = {name for name, _ in headers}
                headers += [entry for entry in _DEFAULT_HEADERS if entry[0] not in names]
                if request_id is not None:
                    headers.append((b"x-request-id", request_id.encode()))
                if origin is not None:
                    headers += [
                        (b"access-control-allow-origin", origin.encode("latin-1")),
                        (b"access-control-expose-headers", _EXPOSED_HEADERS),
                        (b"vary", b"Origin"),
                    ]
                message = {**message, "headers": headers}
            await send(message)

        try:
            origin = self._check(scope)
        except errors.TruespanError as error:
            await send_reply(problem_reply(error), send_with_headers)
        else:
            requested = header(scope, b"access-control-request-method")
            if origin is not None and scope["method"] == "OPTIONS" and requested:
                await send_reply(_PREFLIGHT, send_with_headers)
            else:
                await self.inner(scope, receive, send_with_headers)
        seconds = self.now() - started
        operation = scope.get("truespan.operation")
        name = operation.name if isinstance(operation, Operation) else OTHER
        if request_id is not None:
            fields = {
                "method": scope["method"],
                "path": _loggable_path(scope["raw_path"]),
                "call": name,
                "status": status,
                "ms": round(seconds * 1000, 1),
                "request_id": request_id,
                "token": scope.get("truespan.token"),
            }
            _access_log.info(Event.HTTP_REQUEST.value, extra={FIELDS: fields})
        elif _log.isEnabledFor(logging.INFO):
            # Never log the path: it may contain names.
            fields = {"call": name, "status": status, "seconds": round(seconds, 6)}
            _log.info(Event.HTTP_ANSWERED.value, extra={FIELDS: fields})

    def _check(self, scope: Scope) -> str | None:
        """Return the foreign origin that may read the reply, if there is one."""
        host = self.policy.check_host(header(scope, b"host"))
        # A link from another site to the page is harmless: it carries no data.
        follows_link = scope["method"] in ("GET", "HEAD") and (
            header(scope, b"sec-fetch-mode")[-1:] == [b"navigate"]
        )
        is_cross_site = header(scope, b"sec-fetch-site")[-1:] == [b"cross-site"]
        return self.policy.check_origin(
            header(scope, b"origin"), host, cross_site=is_cross_site and not follows_link
        )


def _request_id(scope: Scope) -> str:
    """Return the id that a proxy gave the request, or a new one."""
    given = header(scope, b"x-request-id")
    is_usable = len(given) == 1 and _REQUEST_ID.fullmatch(given[0])
    return given[0].decode("ascii") if is_usable else uuid4().hex[:16]


def _loggable_path(raw: bytes) -> str:
    """Return a path without anything that a log must not have: control characters and secrets."""
    path = quote(raw[:_MAX_PATH_LENGTH], safe="/%!$&'()*+,;=:@-._~")
    return _SECRET.sub(r"\1***", path)


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _strip_port(host: str) -> str:
    """Return a Host header in lower case without its port; empty if it is malformed."""
    name, bracket, port = host.lower().rpartition("]")
    if bracket:
        is_valid = not port or (port.startswith(":") and port[1:].isdecimal())
        return name + bracket if is_valid else ""
    name, colon, port = host.lower().partition(":")
    return name if not colon or port.isdecimal() else ""
