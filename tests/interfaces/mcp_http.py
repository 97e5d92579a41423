"""A server for MCP over HTTP on loopback that records every byte it sends, and two clients."""

import itertools
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import truespan
from tests.interfaces.mcp_clients import HELLO, Session
from tests.support.http_server import NO_TLS
from truespan.errors import NotAllowed
from truespan.extensions.server.http.auth import Credentials
from truespan.extensions.server.http.mcp import McpApp
from truespan.extensions.server.mcp.caller import NOTHING_WRITTEN, AnonymousAccess, WritePermissions
from truespan.types.scope import OWNER
from truespan.types.token import Principal

VERSION = HELLO["protocolVersion"]
_NUMBERS = itertools.count(1)
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass
class Sent:
    """Everything that a server has sent: statuses, headers and bodies, as bytes."""

    pieces: list[bytes] = field(default_factory=list)

    def note(self, message: Message) -> None:
        self.pieces.append(message.get("body", b""))
        for name, value in message.get("headers", ()):
            self.pieces.append(name + b": " + value)

    def everything(self) -> bytes:
        return b"\n".join(self.pieces)


class Admitting:
    """Stands in for the HTTP server in front of MCP; records everything that is sent."""

    def __init__(self, app: ASGIApp, library: truespan.Library, sent: Sent) -> None:
        self._app, self._library, self._sent = app, library, sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            self._sent.note(message)
            await send(message)

        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        labels = Credentials.of(scope).labels()
        try:
            if given:
                principal = self._library.server.admit(given.removeprefix("Bearer "))
                principal = principal if labels is None else principal.for_audience(labels)
            else:
                principal = Principal(None, OWNER)
        except NotAllowed as refusal:
            refusal.raise_unless("unauthorized")
            return await Response(status_code=401)(scope, receive, noted)
        scope.setdefault("state", {})["principal"] = principal
        return await self._app(scope, receive, noted)


@dataclass(frozen=True)
class Address:
    """The address of a server, and everything it has sent."""

    url: str
    sent: Sent

    def post(
        self, body: Any, token: str | None = None, path: str = "", **headers: str
    ) -> httpx2.Response:
        """Send one message and return the whole answer."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.post(
            self.url + path,
            json=body,
            headers={**ACCEPT, **bearer(token), **spelled},
            timeout=60,
            verify=NO_TLS,
        )

    def request(self, method: str, token: str | None = None, **headers: str) -> httpx2.Response:
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.request(
            method,
            self.url,
            headers={**ACCEPT, **bearer(token), **spelled},
            timeout=60,
            verify=NO_TLS,
        )

    def begin(self, token: str | None = None, path: str = "") -> str:
        """Open a session and return its id."""
        answer = self.post(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}, token, path
        )
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    def call(
        self, session: str, method: str, token: str | None = None, path: str = "", **params: Any
    ) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": next(_NUMBERS), "method": method, "params": params}
        return self.post(
            body, token, path, mcp_session_id=session, mcp_protocol_version=str(VERSION)
        )


def bearer(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def message_of(answer: httpx2.Response) -> Any:
    """Return the last message of an answer, which may be a stream of events."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        return json.loads(lines[-1])
    return answer.json()


@contextmanager
def serving(
    library: truespan.Library,
    response: AnonymousAccess,
    *,
    sessions: bool = True,
    permissions: WritePermissions = NOTHING_WRITTEN,
) -> Iterator[Address]:
    """Serve a library on a free port of this machine."""
    sent = Sent()
    mcp = McpApp(library, response, sessions=sessions, permissions=permissions)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.lifetime():
            yield

    routes = [Route("/mcp", mcp), Route("/mcp/{place:path}", mcp)]
    app = Starlette(routes=routes, lifespan=lifespan)
    with running(_admitting(app, library, sent)) as url:
        yield Address(f"{url}/mcp", sent)


@contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """Run an application on a free port, and yield its address."""
    # It listens before the server runs, so that early connections wait and are not refused.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
    assert not thread.is_alive()


def _admitting(app: Starlette, library: truespan.Library, sent: Sent) -> ASGIApp:
    authenticated = Admitting(app, library, sent)

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        await (app if scope["type"] == "lifespan" else authenticated)(scope, receive, send)

    return wrapped


@contextmanager
def connected(url: str, token: str | None = None, mode: str = "legacy") -> Iterator[Session]:
    """Yield a session with a server over HTTP."""
    with start_blocking_portal() as portal:

        @asynccontextmanager
        async def connection() -> AsyncIterator[Client]:
            async with (
                httpx2.AsyncClient(headers=bearer(token), timeout=60, verify=NO_TLS) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                yield client

        with portal.wrap_async_context_manager(connection()) as client:
            yield Session(portal, client)
