"""MCP over streamable HTTP, for readers and owners.

The gateway has checked Host and Origin, so the SDK's own check stays off: two lists could differ.
The target is selected for each request, so that a revoked or narrowed token takes effect at the
next request, also within a session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response

from truespan.errors import MethodNotAllowed, RouteNotFound, TruespanError
from truespan.http.replies import encode_reply, problem_reply
from truespan.mcp.server import (
    SHUTDOWN_SECONDS,
    Work,
    make_server,
    report_bug,
    restrict_logger,
)
from truespan.mcp.sessions import (
    AnonymousAccess,
    SessionLimiter,
    Target,
    TargetPath,
    select_target,
)
from truespan.mcp.tools import OWNER_ROLE, READER_ROLE, Role
from truespan.types.token import Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from truespan.library import Library

MAX_BODY_BYTES = 1 << 20
MAX_SESSIONS = 10_000
"""Of all callers together, for each role."""
IDLE_SECONDS = 30 * 60
MAX_CALLS = 32
"""Calls that run at the same time; others wait."""
METHODS = ("POST", "DELETE")
"""GET would open a stream of unrequested messages. There are none, and an open stream would delay
the shutdown."""
TARGET = "truespan.mcp"
"""The key of a request's target in its scope."""


class StreamableApp:
    """An ASGI application that serves readers and owners; enter `lifetime` around its use."""

    def __init__(self, library: Library, anonymous: AnonymousAccess, *, sessions: bool) -> None:
        self._library = library
        self._anonymous = anonymous
        self._sessions = sessions
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._calls: anyio.CapacityLimiter | None = None
        self._session_limiter = SessionLimiter()

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Serve while this is entered; at the end, running calls are waited for briefly."""
        self._calls = anyio.CapacityLimiter(MAX_CALLS)
        try:
            async with AsyncExitStack() as running:
                # Debug records of sse_starlette contain events, and so document text.
                for name in ("mcp", "sse_starlette"):
                    running.enter_context(restrict_logger(name))
                for role in (READER_ROLE, OWNER_ROLE):
                    manager = self._managers[role.name] = self._make_manager(role)
                    await running.enter_async_context(manager.run())
                yield
        finally:
            await _wait_for_calls(self._calls)

    @property
    def idle(self) -> bool:
        """Whether no call uses the library."""
        return self._calls is None or not self._calls.borrowed_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the caller's authority, or send a problem."""
        try:
            if scope["method"] not in METHODS:
                raise MethodNotAllowed(METHODS)
            target = await to_thread.run_sync(self._select, scope)
        except TruespanError as error:
            await _problem(error)(scope, receive, send)
            return
        except Exception as error:
            self._library.count_bug()
            await _problem(report_bug("target", error))(scope, receive, send)
            return
        answer: ASGIApp = self._managers[target.role.name].handle_request
        prepared = {**scope, TARGET: target, "user": _sdk_user(target)}
        if self._sessions:
            owner = str(target.session_owner)
            await self._session_limiter.answer(answer, owner, prepared, receive, send)
        else:
            await answer(prepared, receive, send)

    def _select(self, scope: Scope) -> Target:
        principal: Principal = scope["state"]["principal"]
        # Segments are decoded one by one: a name may contain a slash.
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        names = [unquote(part) for part in path.partition("/mcp")[2].split("/") if part]
        if len(names) > 2:
            raise RouteNotFound
        return select_target(self._library, self._anonymous, principal, TargetPath(*names))

    def _make_manager(self, role: Role) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            make_server(role, self._run),
            # Events stored for replay would be text that outlives the permission to see it.
            event_store=None,
            stateless=not self._sessions,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=MAX_SESSIONS,
        )

    async def _run(self, request: Any, work: Work) -> Any:
        """Run work on a thread; a call that its client cancels is finished and dropped."""
        target: Target = request.scope[TARGET]
        return await to_thread.run_sync(
            partial(work, target.caller), limiter=self._calls, abandon_on_cancel=True
        )


async def _wait_for_calls(calls: anyio.CapacityLimiter) -> None:
    """Wait until no call uses the library, which is about to be closed."""
    acquired: list[object] = []
    with anyio.move_on_after(SHUTDOWN_SECONDS, shield=True):
        for borrower in [object() for _ in range(MAX_CALLS)]:
            await calls.acquire_on_behalf_of(borrower)
            acquired.append(borrower)
    for borrower in acquired:
        calls.release_on_behalf_of(borrower)


def _sdk_user(target: Target) -> AuthenticatedUser:
    """Return the user that the SDK binds a session to: the same token, world and reader."""
    token, world, reader = target.session_owner
    # The SDK requires a token's text but does not use it, so it gets none.
    return AuthenticatedUser(
        AccessToken(token="", client_id=token, scopes=[], subject=f"{world}/{reader}")
    )


def _problem(error: TruespanError) -> Response:
    reply = encode_reply(problem_reply(error))
    return Response(reply.value, reply.status, dict(reply.headers), reply.media_type)
