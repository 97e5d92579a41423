"""One path of the API: parse a request, authenticate it, run its operation on a thread, reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from truespan.cancel import CancelToken, use_cancel_token
from truespan.errors import InvalidSettings, MethodNotAllowed, Overloaded, TruespanError
from truespan.http import bodies
from truespan.http.auth import LOCAL, Authenticator
from truespan.http.operation import (
    JSON,
    CallContext,
    Event,
    Events,
    JobStream,
    Operation,
    Reply,
    Result,
)
from truespan.http.replies import (
    encode_reply,
    problem_reply,
    send_events,
    send_job,
    send_reply,
    wait_for_disconnect,
)
from truespan.types.token import Principal, ReplayKey

if TYPE_CHECKING:
    from truespan.http.pool import Pool
    from truespan.library import Library

_NEVER_CANCELLED = CancelToken()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in bytes and seconds."""

    body: int = 1 << 20
    upload: int = 512 << 20
    seconds: float = 120.0
    body_seconds: float = 60.0
    upload_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class AppContext:
    """What all endpoints of a server share."""

    library: Library
    authenticator: Authenticator
    pool: Pool
    streams: Pool
    limits: Limits
    ending: asyncio.Event
    on_bug: Callable[[str, Exception], TruespanError]
    default_world: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed request."""

    scope: Scope
    operation: Operation
    authorizations: list[bytes]
    body: Any = None
    query: Any = None
    fingerprint: Callable[[], bytes] = bytes

    def header(self, name: bytes) -> str | None:
        """Return the value of a header that may be sent once.

        Raises:
            InvalidSettings: it was sent more than once, or is not UTF-8.
        """
        values = bodies.header(self.scope, name)
        if len(values) > 1:
            raise InvalidSettings(f"The header {name.decode()} was sent more than once.")
        try:
            return values[0].decode() if values else None
        except UnicodeDecodeError:
            raise InvalidSettings(f"The header {name.decode()} is not UTF-8.") from None


class Endpoint:
    """The operations of one path by method; an ASGI application."""

    def __init__(self, app: AppContext, operations: Mapping[str, Operation]) -> None:
        self._app = app
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every failure is sent as a problem."""
        app = self._app
        try:
            # HEAD is GET without a body, which the server drops.
            operation = self._operations.get(
                "GET" if scope["method"] == "HEAD" else scope["method"]
            )
            if operation is None:
                head = {"HEAD"} if "GET" in self._operations else set()
                raise MethodNotAllowed({*self._operations, *head})
            scope["truespan.operation"] = operation
            result = await self._handle(operation, scope, receive)
        except TruespanError as error:
            result = problem_reply(error)
        except asyncio.CancelledError:
            # The server is shutting down and has waited long enough; the client may retry.
            result = problem_reply(Overloaded())
        except Exception as error:
            result = problem_reply(app.on_bug("request", error))
        if isinstance(result, Events):
            await send_events(result, send, receive, app.streams, app.ending, app.on_bug)
        elif isinstance(result, JobStream):
            await send_job(result, send, receive, app.pool, app.ending, app.on_bug)
        else:
            await send_reply(result, send)

    async def _handle(self, operation: Operation, scope: Scope, receive: Receive) -> Result:
        query = bodies.parse_query(operation.query_type, scope["query_string"])
        authorizations = bodies.header(scope, b"authorization")
        if operation.takes_form:
            request = Request(scope, operation, authorizations, query=query)
            return await self._handle_upload(request, receive)
        limits, authenticator = self._app.limits, self._app.authenticator
        has_body = operation.body_type is not None
        if authenticator.policy.needs_token and not operation.public and has_body:
            # No body is read before the caller is known.
            await self._app.pool.run(partial(authenticator.identify, authorizations))
        content = await bodies.read_body(
            scope, receive, limit=limits.body, seconds=limits.body_seconds
        )
        if not has_body and content.strip():
            raise InvalidSettings("This address takes no body.")
        body = bodies.parse_json(operation.body_type, scope, content) if has_body else None
        request = Request(
            scope, operation, authorizations, body, query, partial(_fingerprint, scope, content)
        )
        if operation.inline:
            return self._run(request, _NEVER_CANCELLED)
        if operation.streams:
            return await self._run_cancellable(request, receive)
        return await self._app.pool.run(
            partial(self._run, request, _NEVER_CANCELLED), seconds=limits.seconds
        )

    async def _run_cancellable(self, request: Request, receive: Receive) -> Result:
        """Run an operation that may wait for a model, on threads of their own.

        It is cancelled when the client disconnects or the time limit passes.
        """
        token = CancelToken()

        async def cancel_on_disconnect() -> None:
            await wait_for_disconnect(receive)
            token.cancel()

        watching = asyncio.create_task(cancel_on_disconnect())
        try:
            result = await self._app.streams.run(
                partial(self._run, request, token), seconds=self._app.limits.seconds
            )
        except BaseException:
            token.cancel()
            raise
        finally:
            watching.cancel()
        # From here on, sending the events notices a disconnect.
        return replace(result, cancel=token.cancel) if isinstance(result, Events) else result

    async def _handle_upload(self, request: Request, receive: Receive) -> Result:
        """Receive an upload; callers without permission are refused before the body is read."""
        limits, pool = self._app.limits, self._app.pool

        def check() -> Principal:
            principal = self._app.authenticator.admit(request.authorizations)
            if request.operation.check is not None:
                request.operation.check(self._context(request, principal, _NEVER_CANCELLED))
            return principal

        principal = await pool.run(check)
        parts = await bodies.read_form(
            request.scope, receive, limit=limits.upload, seconds=limits.upload_seconds
        )

        def ingest() -> Result:
            with bodies.open_form(parts) as form:
                complete = replace(
                    request,
                    body=form,
                    fingerprint=lambda: _fingerprint(request.scope, form.fingerprint()),
                )
                return self._run_as(complete, principal, _NEVER_CANCELLED)

        return await pool.run(ingest, seconds=limits.seconds)

    def _run(self, request: Request, token: CancelToken) -> Result:
        """Authenticate the caller and run the operation, on a thread of the pool."""
        if request.operation.public:
            return self._run_as(request, LOCAL, token)
        authenticator, authorizations = self._app.authenticator, request.authorizations
        result = self._run_as(request, authenticator.admit(authorizations), token)
        if not isinstance(result, JobStream):
            return result

        def poll() -> tuple[Event, bool]:
            # A token that is revoked in the meantime ends the stream.
            authenticator.identify(authorizations)
            return result.poll()

        return JobStream(poll, result.first)

    def _run_as(self, request: Request, principal: Principal, token: CancelToken) -> Result:
        operation, context = request.operation, self._context(request, principal, token)
        key = request.header(b"idempotency-key") if operation.writes else None
        if key is not None:
            return _run_once(context, key, request)
        with use_cancel_token(token):
            result = operation.run(context, request.body, request.query)
        # Encoding is done here because it would block the event loop.
        return encode_reply(result) if isinstance(result, Reply) else result

    def _context(self, request: Request, principal: Principal, token: CancelToken) -> CallContext:
        parameters: Mapping[str, str] = request.scope.get("path_params", {})
        try:
            path = {name: unquote(text, errors="strict") for name, text in parameters.items()}
        except UnicodeDecodeError:
            raise InvalidSettings("The address is not UTF-8.") from None
        return CallContext(
            library=self._app.library.under(principal.authority),
            principal=principal,
            path=path,
            domain=request.header(b"x-rag-domain") if request.operation.domains else None,
            default_world=self._app.default_world,
            is_cancelled=lambda: token.cancelled,
        )


class AuthenticatedApp:
    """Authenticates callers of an ASGI application that answers requests itself."""

    def __init__(self, app: AppContext, inner: ASGIApp) -> None:
        self._app = app
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its caller, or send a problem."""
        limits = self._app.limits
        try:
            bodies.check_length(scope, limits.body)
            principal = await self._authenticate(bodies.header(scope, b"authorization"))
            scope["state"] = {**scope.get("state", {}), "principal": principal}
            limited = bodies.limit_body(receive, limits.body, limits.body_seconds)
            await self._inner(scope, limited, send)
        except TruespanError as error:
            # The application reads the body before it sends anything, so this is the first reply.
            await send_reply(problem_reply(error), send)

    async def _authenticate(self, authorizations: list[bytes]) -> Principal:
        app = self._app
        try:
            return await app.pool.run(partial(app.authenticator.admit, authorizations))
        except TruespanError:
            raise
        except Exception as error:
            raise app.on_bug("authentication", error) from None


class _StoredReply(msgspec.Struct, frozen=True, array_like=True):
    """A reply as stored under its idempotency key."""

    status: int
    headers: tuple[tuple[str, str], ...]
    media_type: str
    body: bytes


def _run_once(context: CallContext, key: str, request: Request) -> Reply[bytes]:
    """Run an operation with an idempotency key, or return the reply stored under that key."""

    def work() -> bytes:
        result = request.operation.run(context, request.body, request.query)
        if not isinstance(result, Reply) or result.media_type != JSON:
            raise InvalidSettings("This operation takes no idempotency key.")
        reply = encode_reply(result)
        stored = _StoredReply(reply.status, reply.headers, reply.media_type, reply.value)
        return msgspec.msgpack.encode(stored)

    replay_key = ReplayKey(context.principal.token or "", key)
    data = context.library.run_idempotent(replay_key, request.fingerprint(), work)
    stored = msgspec.msgpack.decode(data, type=_StoredReply)
    return Reply(stored.body, stored.status, stored.headers, stored.media_type)


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    """Return a digest of a request's method, path, query string and body."""
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], body)
    return sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()
