"""MCP over HTTP, as the server mounts it at `/mcp`: light until somebody asks.

Whoever admits requests has put the caller into `scope["state"]["principal"]`. The protocol's
library takes more than a second to load, which a server that is never asked for MCP need not
spend; so the first request loads it, on a thread, and waits for that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from truespan.mcp.sessions import Told

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from truespan.library import Library
    from truespan.mcp.streamable import Streamable

__all__ = ["McpApp", "Told", "mcp_app"]


def mcp_app(library: Library, told: Told, *, sessions: bool = True) -> McpApp:
    """Return the application for `/mcp` and all below it; `lifetime` must be entered around it.

    With several processes at one address `sessions` must be off: a session lives in the process
    that began it. Then every request stands alone.
    """
    return McpApp(library, told, sessions=sessions)


class McpApp:
    """An ASGI application that loads what it needs when it is first asked."""

    def __init__(self, library: Library, told: Told, *, sessions: bool) -> None:
        self._library = library
        self._told = told
        self._sessions = sessions
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._serving: Streamable | None = None

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Serve while this is entered; at the end, running calls are waited for a moment."""
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(self._serve_when_wanted)
            try:
                yield
            finally:
                waiting.cancel_scope.cancel()

    @property
    def idle(self) -> bool:
        """Say whether no call is at work on the library, also of clients that have gone."""
        return self._serving is None or self._serving.idle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self._wanted.set()
        await self._ready.wait()
        assert self._serving is not None
        await self._serving(scope, receive, send)

    async def _serve_when_wanted(self) -> None:
        await self._wanted.wait()
        serving = await to_thread.run_sync(self._loaded)
        async with serving.lifetime():
            self._serving = serving
            self._ready.set()
            await anyio.sleep_forever()

    def _loaded(self) -> Streamable:
        from truespan.mcp.streamable import Streamable

        return Streamable(self._library, self._told, sessions=self._sessions)
