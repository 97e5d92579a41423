"""MCP over HTTP, mounted at `/mcp`; the SDK is loaded with the first request.

Loading the SDK takes more than a second, which a server that gets no MCP requests saves. The
caller is in `scope["state"]["principal"]`, put there by the application that authenticates.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from msgspec import Struct, field

from truespan.extensions.server.mcp.caller import NOTHING_WRITTEN, WritePermissions

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from truespan.engine.library import Library
    from truespan.extensions.server.http.streamable import StreamableApp
    from truespan.extensions.server.mcp.caller import AnonymousAccess


# Shared by threads: changed by the event loop only.
class McpApp(Struct):
    """The ASGI application for `/mcp` and everything below; enter `lifetime` around its use.

    With several processes at one address `sessions` must be off, because a session lives in the
    process that started it. Then every request is independent.
    """

    library: Library
    anonymous: AnonymousAccess
    sessions: bool = True
    seconds: float = 120.0
    """The time for a call."""
    permissions: WritePermissions = NOTHING_WRITTEN
    _requested: anyio.Event = field(default_factory=anyio.Event)
    _loaded: anyio.Event = field(default_factory=anyio.Event)
    _app: StreamableApp | None = None

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Serve while this is entered; at the end, running calls are waited for briefly."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load_on_request)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    @property
    def idle(self) -> bool:
        """Whether no call uses the library, also of clients that have disconnected."""
        return self._app is None or self._app.idle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._requested.set()
        await self._loaded.wait()
        assert self._app is not None
        await self._app(scope, receive, send)

    async def _load_on_request(self) -> None:
        def load() -> StreamableApp:
            from truespan.extensions.server.http.streamable import StreamableApp

            return StreamableApp(
                self.library,
                self.anonymous,
                sessions=self.sessions,
                seconds=self.seconds,
                permissions=self.permissions,
            )

        await self._requested.wait()
        app = await to_thread.run_sync(load)
        async with app.lifetime():
            self._app = app
            self._loaded.set()
            await anyio.sleep_forever()
