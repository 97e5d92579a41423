"""The ASGI application: parse a request, authenticate it, run its operation on a thread, reply."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from truespan import errors
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.core.decoding import prepare
from truespan.extensions.server.http import bodies, replies
from truespan.extensions.server.http.auth import (
    LOCAL,
    Authenticator,
    AuthPolicy,
    Credentials,
    Gateway,
)
from truespan.extensions.server.http.mcp import McpApp
from truespan.extensions.server.http.openapi import document_operation
from truespan.extensions.server.http.operation import (
    JSON,
    CallContext,
    CancellableEvents,
    Event,
    Events,
    JobStream,
    Operation,
    Reply,
    Result,
)
from truespan.extensions.server.http.pages import PAGE_OPERATIONS
from truespan.extensions.server.http.pool import Pool
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.extensions.server.library import ReplayKey
from truespan.extensions.server.mcp.caller import NOTHING_WRITTEN, AnonymousAccess, WritePermissions
from truespan.settings import debugging
from truespan.types.telemetry import ACCESS
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.extensions.server.library import IdempotencyStore

THREADS = 16
CALLS_AT_ONCE = 4
"""One call at a time holds the interpreter; others meanwhile wait for the index or the store."""
UNIDENTIFIED = "unidentified"
"""The caller that all credentials share until they are known to be valid; no token has this id."""
STREAMS = 64
WAITING = 256
# Shared by threads: the token is never cancelled; its list of callbacks is changed under its lock.
_NEVER_CANCELLED = CancelToken()
_StoredReply = tuple[int, tuple[tuple[str, str], ...], str, bytes]
"""A reply as stored under its idempotency key: status, headers, media type and body."""


class Limits(Struct, frozen=True):
    """Limits in bytes and seconds."""

    body: int = 1 << 20
    upload: int = 512 << 20
    seconds: float = 120.0
    body_seconds: float = 60.0
    upload_seconds: float = 3600.0


class AppContext(replies.StreamContext, frozen=True):
    """The resources that all endpoints of a server share."""

    library: Library
    authenticator: Authenticator
    limits: Limits
    idempotency: IdempotencyStore
    default_world: str | None = None

    async def identify(self, credentials: Credentials, *, count: bool = False) -> Principal:
        """Return the caller; with `count`, count the request.

        Callers that were never identified take their turns together, so that a flood of invalid
        tokens delays none of the others.
        """
        authenticator = self.authenticator
        work = partial(authenticator.admit if count else authenticator.identify, credentials)
        caller = authenticator.recall(credentials) or UNIDENTIFIED
        return await self.pool.run(work, caller=caller, seconds=self.limits.seconds)

    async def find_caller(self, credentials: Credentials, *, again: bool) -> str | None:
        """Return the owner of a request's turns: its token or user, in any spelling.

        With `again`, credentials that were valid before are checked once more.
        """
        if not credentials.authorizations:
            return self.authenticator.identify(credentials).token
        known = None if again else self.authenticator.recall(credentials)
        return known or (await self.identify(credentials)).token


class Request(Struct, frozen=True):
    """A parsed request."""

    scope: Scope
    operation: Operation
    credentials: Credentials
    query: Any = None
    content: bytes = b""
    form: bodies.Form | None = None
    caller: str | None = None
    """The token or user whose turns the request takes; None for callers without a token."""

    def body(self) -> Any:
        """Return the body as the type that the operation takes; None if it takes none."""
        kind = self.operation.body_type
        if kind is None:
            return self.form
        return bodies.parse_json(kind, self.scope, self.content)

    def fingerprint(self) -> bytes:
        """Return a digest of method, path, query string and body."""
        scope, form = self.scope, self.form
        body = self.content if form is None else form.fingerprint()
        parts = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], body]
        return sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()

    def header(self, name: bytes) -> str | None:
        """Return the value of a header that may be sent once."""
        values = bodies.header(self.scope, name)
        if len(values) > 1:
            raise errors.InvalidArgument(f"The header {name.decode()} was sent more than once.")
        try:
            return values[0].decode() if values else None
        except UnicodeDecodeError:
            raise errors.InvalidArgument(f"The header {name.decode()} is not UTF-8.") from None


class Endpoint(Struct, frozen=True):
    """The operations of one path by method; an ASGI application."""

    app: AppContext
    operations: Mapping[str, Operation]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every failure is sent as a problem."""
        app, operation = self.app, None
        try:
            # HEAD is GET without a body, which the server drops.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            operation = self.operations.get(method)
            if operation is None:
                head = {"HEAD"} if "GET" in self.operations else set()
                raise errors.RequestRefused(
                    code="method_not_allowed", allowed=", ".join(sorted({*self.operations, *head}))
                )
            scope["truespan.operation"] = operation
            result = await self._handle(operation, scope, receive)
        except errors.TruespanError as error:
            for_openai = operation is not None and operation.names_error
            result = replies.openai_problem(error) if for_openai else replies.problem_reply(error)
        except asyncio.CancelledError:
            # The server is shutting down and has waited long enough; the client may retry.
            result = replies.problem_reply(errors.Overloaded())
        except Exception as error:
            result = replies.problem_reply(app.on_bug("request", error))
        if isinstance(result, Events):
            await replies.send_events(result, send, receive, app)
        elif isinstance(result, JobStream):
            await replies.send_job(result, send, receive, app)
        else:
            await replies.send_reply(result, send)

    async def _handle(self, operation: Operation, scope: Scope, receive: Receive) -> Result:
        query_string = b"" if operation.ignores_query else scope["query_string"]
        query = bodies.parse_query(operation.query_type, query_string)
        credentials, caller = Credentials.of(scope), None
        has_body = operation.body_type is not None
        if not operation.public:
            # An unknown caller is refused before a body is read that the server does not have yet.
            is_long = has_body and not bodies.is_short(scope)
            caller = await self.app.find_caller(credentials, again=is_long)
        if operation.takes_form:
            request = Request(scope, operation, credentials, query, caller=caller)
            return await self._handle_upload(request, receive)
        limits, pool = self.app.limits, self.app.pool
        content = await bodies.read_body(
            scope, receive, limit=limits.body, seconds=limits.body_seconds
        )
        # Some clients send an empty object with every request.
        if not has_body and content.strip() not in (b"", b"{}"):
            raise errors.InvalidArgument("This address takes no body.")
        request = Request(scope, operation, credentials, query, content, caller=caller)
        if operation.inline:
            return self._run(request, _NEVER_CANCELLED)
        if operation.streams:
            return await self._run_cancellable(request, receive)
        # A request that reads is cancelled when its time is over. One that writes runs to its end.
        token = _NEVER_CANCELLED if operation.writes else CancelToken()
        cancel = None if operation.writes else token.cancel
        work = partial(self._run, request, token)
        return await pool.run(work, caller=request.caller, seconds=limits.seconds, cancel=cancel)

    async def _run_cancellable(self, request: Request, receive: Receive) -> Result:
        """Run an operation on separate threads if it may wait for a model, else in turns.

        It is cancelled when the client disconnects or the time limit passes.
        """
        token = CancelToken()

        async def cancel_on_disconnect() -> None:
            await replies.wait_for_disconnect(receive)
            token.cancel()

        watching = asyncio.create_task(cancel_on_disconnect())
        try:
            work, caller = partial(self._run, request, token), request.caller
            in_turns, seconds = request.operation.in_turns, self.app.limits.seconds
            end = time.monotonic() + seconds
            pool = self.app.pool if in_turns else self.app.streams
            result = await pool.run(work, caller=caller, seconds=seconds)
            if not isinstance(result, Events):
                return result
            events = CancellableEvents(result.events, token)
            turns = replace(
                result, events=events, cancel=token.cancel, caller=caller, in_turns=in_turns
            )
            return turns if turns.streamed else await self._run_in_turns(turns, end)
        except BaseException:
            token.cancel()
            raise
        finally:
            # From here on, sending the events notices a disconnect.
            watching.cancel()

    async def _run_in_turns(self, reply: Events, end: float) -> Reply[Any]:
        """Produce all events, each in a turn of the caller, and return the last one's value."""
        event: Event | None = None
        work = partial(next, reply.events, None)
        while True:
            left = max(end - time.monotonic(), 0.0)
            following = await self.app.pool.run(work, caller=reply.caller, seconds=left)
            if following is None:
                break
            event = following
        if event is None:
            raise errors.InternalError("end of a reply")
        encode = partial(replies.encode_reply, Reply(event.value))
        return await self.app.pool.run(encode, caller=reply.caller)

    async def _handle_upload(self, request: Request, receive: Receive) -> Result:
        """Receive an upload; callers without permission are refused before the body is read."""
        limits, pool = self.app.limits, self.app.pool

        def check() -> Principal:
            principal = self.app.authenticator.identify(request.credentials)
            self._admit(request, principal)
            if request.operation.check is not None:
                request.operation.check(self._context(request, principal, _NEVER_CANCELLED))
            return principal

        principal = await pool.run(check, caller=request.caller, seconds=limits.seconds)
        parts = await bodies.read_form(
            request.scope, receive, limit=limits.upload, seconds=limits.upload_seconds
        )

        def ingest() -> Result:
            with bodies.open_form(parts) as form:
                return self._run_as(replace(request, form=form), form, principal, _NEVER_CANCELLED)

        return await pool.run(ingest, caller=request.caller, seconds=limits.seconds)

    def _run(self, request: Request, token: CancelToken) -> Result:
        """Authenticate the caller and run the operation, on a thread of the pool."""
        if request.operation.public:
            return self._run_as(request, request.body(), LOCAL, token)
        authenticator, credentials = self.app.authenticator, request.credentials
        principal = authenticator.identify(credentials)
        # An unknown caller learns nothing about the body, and a body that is wrong is not counted.
        body = request.body()
        self._admit(request, principal)
        result = self._run_as(request, body, principal, token)
        if not isinstance(result, JobStream):
            return result

        def poll() -> tuple[Event, bool]:
            # A token that is revoked in the meantime ends the stream.
            authenticator.identify(credentials)
            return result.poll()

        return replace(result, poll=poll, caller=request.caller)

    def _admit(self, request: Request, principal: Principal) -> None:
        self.app.authenticator.count(principal)
        # For the log of requests.
        request.scope["truespan.token"] = principal.name

    def _run_as(
        self, request: Request, body: Any, principal: Principal, token: CancelToken
    ) -> Result:
        operation, context = request.operation, self._context(request, principal, token)
        key = request.header(b"idempotency-key") if operation.writes else None
        if key is not None:
            return _run_once(self.app.idempotency, context, key, request, body)
        with use_cancel_token(token):
            result = operation.run(context, body, request.query)
        # Encoding is done here because it would block the event loop.
        return replies.encode_reply(result) if isinstance(result, Reply) else result

    def _context(self, request: Request, principal: Principal, token: CancelToken) -> CallContext:
        parameters: Mapping[str, str] = request.scope.get("path_params", {})
        try:
            path = {name: unquote(text, errors="strict") for name, text in parameters.items()}
        except UnicodeDecodeError:
            raise errors.InvalidArgument("The address is not UTF-8.") from None
        return CallContext(
            library=self.app.library.under(principal.authority),
            principal=principal,
            path=path,
            domain=request.header(b"x-rag-domain") if request.operation.domains else None,
            default_world=self.app.default_world,
            is_cancelled=lambda: token.cancelled,
            has_key=bool(bodies.header(request.scope, b"idempotency-key")),
            accepts=_accepted_type(request.scope),
            origin=_origin_of(request.scope),
        )


def _accepted_type(scope: Scope) -> str:
    """Return the first media type that a client accepts."""
    accepted = b",".join(bodies.header(scope, b"accept"))
    return accepted.partition(b",")[0].partition(b";")[0].strip().lower().decode("latin-1")


def _origin_of(scope: Scope) -> str:
    host = b"".join(bodies.header(scope, b"host")[:1]).decode("latin-1")
    return f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}".rstrip("/")


class AuthenticatedApp(Struct, frozen=True):
    """Authenticates callers of an ASGI application that answers requests itself."""

    app: AppContext
    inner: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its caller, or send a problem."""
        limits = self.app.limits
        try:
            bodies.check_length(scope, limits.body)
            credentials = Credentials.of(scope)
            try:
                principal = await self.app.identify(credentials, count=True)
            except errors.TruespanError:
                raise
            except Exception as error:
                raise self.app.on_bug("authentication", error) from None
            scope["truespan.token"] = principal.name
            scope["state"] = {**scope.get("state", {}), "principal": principal}
            limited = bodies.limit_body(receive, limits.body, limits.body_seconds)
            await self.inner(scope, limited, send)
        except errors.TruespanError as error:
            # The application reads the body before it sends anything, so this is the first reply.
            await replies.send_reply(replies.problem_reply(error), send)


def _run_once(
    store: IdempotencyStore, context: CallContext, key: str, request: Request, body: Any
) -> Reply[bytes]:
    """Run an operation with an idempotency key, or return the reply stored under that key."""

    def work() -> bytes:
        result = request.operation.run(context, body, request.query)
        if not isinstance(result, Reply) or result.media_type != JSON:
            raise errors.InvalidArgument("This operation takes no idempotency key.")
        reply = replies.encode_reply(result)
        return msgspec.msgpack.encode((reply.status, reply.headers, JSON, reply.value))

    replay_key = ReplayKey(context.principal.identity, key)
    data = store.run(replay_key, request.fingerprint(), work)
    status, headers, media_type, body = msgspec.msgpack.decode(data, type=prepare(_StoredReply))
    return Reply(body, status, headers, media_type)


class ServerOptions(Struct, frozen=True):
    """Options of a server."""

    auth: AuthPolicy = field(default_factory=AuthPolicy)
    limits: Limits = field(default_factory=Limits)
    world: str | None = None
    """The default world of requests."""
    mcp_reader: str | None = None
    """The reader that MCP serves to callers without a token."""
    mcp_owner: bool = False
    log_requests: bool = False
    """Whether each request is logged with its path and the name of its token."""
    mcp_permissions: WritePermissions = NOTHING_WRITTEN
    """Changes that MCP allows to callers whose token allows them too."""
    sessions: bool = True
    """Whether MCP may use sessions, which live in one process."""


class Application(Struct, frozen=True):
    """The application, and whether any of its calls is still running."""

    asgi: ASGIApp
    is_idle: Callable[[], bool]


def make_app(library: Library, options: ServerOptions, ending: asyncio.Event) -> Application:
    """Return the application. Its caller closes the library."""
    context = AppContext(
        library=library,
        authenticator=Authenticator(library, options.auth, time.monotonic),
        pool=Pool(THREADS, waiting=WAITING, name="truespan-call", at_once=CALLS_AT_ONCE),
        streams=Pool(STREAMS, waiting=0, name="truespan-stream"),
        limits=options.limits,
        idempotency=library.server.idempotency(),
        ending=ending,
        on_bug=partial(report_bug, library),
        default_world=options.world,
    )
    needs_token = options.auth.needs_token
    document = document_operation(OPERATIONS, needs_token=needs_token)
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, document, *PAGE_OPERATIONS):
        by_path.setdefault(operation.path, {})[operation.method] = operation
    apps: dict[str, ASGIApp] = {
        path: Endpoint(context, operations) for path, operations in by_path.items()
    }
    anonymous = AnonymousAccess(options.world, options.mcp_reader, options.mcp_owner)
    mcp = McpApp(
        library,
        anonymous,
        sessions=options.sessions,
        seconds=options.limits.seconds,
        permissions=options.mcp_permissions,
    )
    authenticated = AuthenticatedApp(context, mcp)
    apps |= {"/mcp": authenticated, "/mcp/{place:path}": authenticated}

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with mcp.lifetime():
            yield
        context.pool.close()
        context.streams.close()

    router = make_router(apps, _not_found, lifespan)
    if options.log_requests:
        logging.getLogger(ACCESS).setLevel(logging.INFO)
    gateway = Gateway(router, options.auth, time.monotonic, options.log_requests)
    return Application(gateway, lambda: context.pool.idle and context.streams.idle and mcp.idle)


def make_router(apps: Mapping[str, ASGIApp], not_found: ASGIApp, lifespan: Any = None) -> Router:
    """Return a router to the application of each path; a literal segment wins over a value.

    Starlette tries the routes in order, which takes 40 to 80 us of a request.
    """
    by_literals = sorted(apps, key=lambda path: [part[:1] == "{" for part in path.split("/")])
    routes = [Route(path, apps[path]) for path in by_literals]
    return Router(routes, redirect_slashes=False, default=not_found, lifespan=lifespan)


_ELSEWHERE = {
    "/v1/responses": "Use POST /v1/chat/completions: the Responses API is not supported.",
    "/v1/completions": "Use POST /v1/chat/completions with a list of messages.",
}
"""Advice for addresses of OpenAI that this server does not have."""


async def _not_found(scope: Scope, _receive: Receive, send: Send) -> None:
    error, advice = errors.NotFound("route"), _ELSEWHERE.get(scope["path"])
    if advice is None:
        await replies.send_reply(replies.problem_reply(error), send)
        return
    error.advice = advice
    await replies.send_reply(replies.openai_problem(error), send)


def report_bug(library: Library, place: str, error: Exception) -> errors.TruespanError:
    """Count and log an unexpected exception, without its message: it may quote a document."""
    if known := errors.resource_error(error):
        return known
    library.server.count_bug()
    # A log on a full disk must not cost the reply.
    with suppress(OSError):
        sys.stderr.write(f"truespan serve: {place}: unexpected {type(error).__name__}\n")
        if debugging():
            traceback.print_exception(error)
    return errors.InternalError("error")
