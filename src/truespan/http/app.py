"""The server's application: every address put together around one library."""

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
from truespan.http.auth import Admission, AuthPolicy
from truespan.http.endpoint import AdmittedDoor, AppContext, Endpoint, Limits, send_reply
from truespan.http.middleware import Gate
from truespan.http.openapi import description
from truespan.http.pool import Pool
from truespan.http.problems import problem_reply
from truespan.http.routes.table import CALLS, by_path
from truespan.mcp.http import mcp_app
from truespan.mcp.sessions import Told
from truespan.settings import debugging
from truespan.web.page import page_calls

if TYPE_CHECKING:
    from truespan.library import Library

THREADS = 16
STREAMS = 64
WAITING = 256


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server answers, as its operator said."""

    keeping: AuthPolicy = field(default_factory=AuthPolicy)
    limits: Limits = field(default_factory=Limits)
    world: str | None = None
    """The world that is meant where none is named."""
    mcp_reader: str | None = None
    """Whom MCP serves where no token says so."""
    mcp_owner: bool = False
    sessions: bool = True
    """Whether MCP may keep sessions, which live in one process."""


@dataclass(frozen=True, slots=True)
class Application:
    """The application, and whether anything in it is still at work."""

    asgi: ASGIApp
    is_idle: Callable[[], bool]


def make_app(library: Library, serving: ServerOptions, ending: asyncio.Event) -> Application:
    """Return the application. The library stays its caller's to close."""
    house = AppContext(
        library=library,
        admission=Admission(library, serving.keeping, time.monotonic),
        pool=Pool(THREADS, waiting=WAITING, name="truespan-call"),
        streams=Pool(STREAMS, waiting=0, name="truespan-stream"),
        limits=serving.limits,
        ending=ending,
        on_bug=partial(report_bug, library),
        default_world=serving.world,
    )
    calls = (*CALLS, *description(CALLS, needs_token=serving.keeping.needs_token), *page_calls())
    # Addresses are tried in their order; what is posted to is asked most.
    addresses = sorted(by_path(calls).items(), key=lambda entry: "POST" not in entry[1])
    routes = [Route(path, Endpoint(house, found)) for path, found in addresses]
    told = Told(serving.world, serving.mcp_reader, serving.mcp_owner)
    mcp = mcp_app(library, told, sessions=serving.sessions)
    admitted = AdmittedDoor(house, mcp)
    routes += [Route(path, admitted) for path in ("/mcp", "/mcp/{place:path}")]

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with mcp.lifetime():
            yield
        house.pool.close()
        house.streams.close()

    router = Router(routes, redirect_slashes=False, default=_nothing_here, lifespan=lifespan)
    gate = Gate(router, serving.keeping, time.monotonic)
    return Application(gate, lambda: house.pool.idle and house.streams.idle and mcp.idle)


async def _nothing_here(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send_reply(problem_reply(RouteNotFound()), send)


def report_bug(library: Library, place: str, error: Exception) -> TruespanError:
    """Count an exception that nobody foresaw as a bug, and tell nothing of what it says."""
    library.count_bug()
    sys.stderr.write(f"truespan serve: {place}: unexpected {type(error).__name__}\n")
    if debugging():
        traceback.print_exception(error)
    return InternalError("error")
