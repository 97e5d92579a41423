"""The ASGI application: all routes around one library."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from truespan.errors import InternalError, RouteNotFound, TruespanError
from truespan.http.auth import Authenticator, AuthPolicy, Gateway
from truespan.http.endpoint import AppContext, AuthenticatedApp, Endpoint, Limits
from truespan.http.openapi import document_operation
from truespan.http.operation import Operation
from truespan.http.pool import Pool
from truespan.http.replies import problem_reply, send_reply
from truespan.http.routes import OPERATIONS
from truespan.mcp.http import McpApp
from truespan.mcp.sessions import AnonymousAccess
from truespan.settings import debugging
from truespan.web.page import PAGE_OPERATIONS

if TYPE_CHECKING:
    from truespan.library import Library

THREADS = 16
STREAMS = 64
WAITING = 256


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server answers requests."""

    auth: AuthPolicy = field(default_factory=AuthPolicy)
    limits: Limits = field(default_factory=Limits)
    world: str | None = None
    """The world of requests that name none."""
    mcp_reader: str | None = None
    """The reader that MCP serves to callers without a token."""
    mcp_owner: bool = False
    sessions: bool = True
    """Whether MCP may use sessions, which live in one process."""


@dataclass(frozen=True, slots=True)
class Application:
    """The application, and whether any of its calls is still running."""

    asgi: ASGIApp
    is_idle: Callable[[], bool]


def make_app(library: Library, options: ServerOptions, ending: asyncio.Event) -> Application:
    """Return the application. Its caller closes the library."""
    context = AppContext(
        library=library,
        authenticator=Authenticator(library, options.auth, time.monotonic),
        pool=Pool(THREADS, waiting=WAITING, name="truespan-call"),
        streams=Pool(STREAMS, waiting=0, name="truespan-stream"),
        limits=options.limits,
        ending=ending,
        on_bug=partial(report_bug, library),
        default_world=options.world,
    )
    document = document_operation(OPERATIONS, needs_token=options.auth.needs_token)
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, document, *PAGE_OPERATIONS):
        by_path.setdefault(operation.path, {})[operation.method] = operation
    # Routes are tried in order; those with POST are used most.
    paths = sorted(by_path, key=lambda path: "POST" not in by_path[path])
    routes = [Route(path, Endpoint(context, by_path[path])) for path in paths]
    anonymous = AnonymousAccess(options.world, options.mcp_reader, options.mcp_owner)
    mcp = McpApp(library, anonymous, sessions=options.sessions)
    authenticated = AuthenticatedApp(context, mcp)
    routes += [Route(path, authenticated) for path in ("/mcp", "/mcp/{place:path}")]

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with mcp.lifetime():
            yield
        context.pool.close()
        context.streams.close()

    router = Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)
    gateway = Gateway(router, options.auth, time.monotonic)
    return Application(gateway, lambda: context.pool.idle and context.streams.idle and mcp.idle)


async def _not_found(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send_reply(problem_reply(RouteNotFound()), send)


def report_bug(library: Library, place: str, error: Exception) -> TruespanError:
    """Count and log an unexpected exception, without its message: it may quote a document."""
    library.count_bug()
    sys.stderr.write(f"truespan serve: {place}: unexpected {type(error).__name__}\n")
    if debugging():
        traceback.print_exception(error)
    return InternalError("error")
