"""Readers and owners over streamable HTTP: each request as whoever sends it may be answered.

Host and Origin were checked before a request comes here; the SDK's own check of them stays off,
because two lists would come to differ. What a request is for is chosen anew each time, so that a
token that was revoked or narrowed counts at the next request, also in a session that is open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
import msgspec
from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response

from truespan.errors import MethodNotAllowed, RouteNotFound, TruespanError
from truespan.http.replies import problem_reply
from truespan.mcp.context import PATIENCE
from truespan.mcp.server import Work, make_server, unforeseen
from truespan.mcp.sessions import Chosen, Place, Sessions, Told, choose
from truespan.mcp.stdio import outlined
from truespan.mcp.tools import OWNING, READING, Role
from truespan.types.token import Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from truespan.library import Library

MOST_BODY = 1 << 20
"""Bytes of a request: the longest selection that may be asked about is far shorter."""
MOST_SESSIONS = 10_000
"""Of all callers together, for each role."""
IDLE_SECONDS = 30 * 60
MOST_CALLS = 32
"""Calls at work at once; the others wait."""
METHODS = ("POST", "DELETE")
"""There is no stream to be got: nothing is sent that was not asked for, and a stream that stays
open would hold up the end of the server."""
CHOSEN = "truespan.mcp"
"""Where in a request's scope stands what it is for."""


class Streamable:
    """An ASGI application that serves readers and owners. It works while its lifetime lasts."""

    def __init__(self, library: Library, told: Told, *, sessions: bool) -> None:
        self._library = library
        self._told = told
        self._sessions = sessions
        self._served: dict[str, StreamableHTTPSessionManager] = {}
        self._calls: anyio.CapacityLimiter | None = None
        self._opened = Sessions()

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Serve while this is entered; at the end, running calls are waited for a moment."""
        self._calls = anyio.CapacityLimiter(MOST_CALLS)
        try:
            async with AsyncExitStack() as running:
                # The second one's debug lines hold every event whole, and so the text of documents.
                for name in ("mcp", "sse_starlette"):
                    running.enter_context(outlined(name))
                for role in (READING, OWNING):
                    self._served[role.name] = self._serving(role)
                    await running.enter_async_context(self._served[role.name].run())
                yield
        finally:
            await self._settle(self._calls)

    @property
    def idle(self) -> bool:
        """Say whether no call is at work on the library."""
        return self._calls is None or not self._calls.borrowed_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as whoever asks may be answered, or say what would have to change."""
        try:
            if scope["method"] not in METHODS:
                raise MethodNotAllowed(METHODS)
            chosen = await to_thread.run_sync(self._choose, scope)
            answering: ASGIApp = self._served[chosen.role.name].handle_request
        except TruespanError as error:
            chosen, answering = None, _problem(error)
        except Exception as error:
            self._library.count_bug()
            chosen, answering = None, _problem(unforeseen("choice", error))
        seen = {**scope, CHOSEN: chosen, "user": _holder(chosen) if chosen else None}
        if chosen is None or not self._sessions:
            await answering(seen, receive, send)
        else:
            await self._opened.answer(answering, str(chosen.holder), seen, receive, send)

    def _choose(self, scope: Scope) -> Chosen:
        principal: Principal = scope["state"]["principal"]
        return choose(self._library, self._told, principal, _place(scope))

    def _serving(self, role: Role) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            make_server(role, self._run),
            # What is kept to be sent again would be text that outlives the right to see it.
            event_store=None,
            stateless=not self._sessions,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=MOST_BODY,
            max_sessions=MOST_SESSIONS,
        )

    async def _run(self, request: Any, work: Work) -> Any:
        """Do the work on a thread; a call that its client gave up is finished and forgotten."""
        chosen: Chosen = request.scope[CHOSEN]
        return await to_thread.run_sync(
            partial(work, chosen.seat), limiter=self._calls, abandon_on_cancel=True
        )

    async def _settle(self, calls: anyio.CapacityLimiter) -> None:
        """Wait until no call is at work on the library, which is about to be closed."""
        places = [object() for _ in range(MOST_CALLS)]
        taken: list[object] = []
        with anyio.move_on_after(PATIENCE, shield=True):
            for place in places:
                await calls.acquire_on_behalf_of(place)
                taken.append(place)
        for place in taken:
            calls.release_on_behalf_of(place)


def _place(scope: Scope) -> Place:
    """Return what the address names. Its pieces are decoded one by one: names may hold slashes."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    pieces = [unquote(piece) for piece in path.partition("/mcp")[2].split("/") if piece]
    if len(pieces) > 2:
        raise RouteNotFound
    return Place(*pieces)


def _holder(chosen: Chosen) -> AuthenticatedUser:
    """Return whom the SDK binds a session to: the same token, world and reader, or nobody."""
    token, world, reader = chosen.holder
    # The SDK wants a token's text here and does nothing with it; it does not get one.
    return AuthenticatedUser(
        AccessToken(token="", client_id=token, scopes=[], subject=f"{world}/{reader}")
    )


def _problem(error: TruespanError) -> Response:
    reply = problem_reply(error)
    body = msgspec.json.encode(reply.value)
    return Response(body, reply.status, dict(reply.headers), reply.media_type)
