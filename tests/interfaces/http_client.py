"""An HTTP server on a thread of the test, and a client that can send malformed requests."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

import uvicorn

from truespan.engine.library import Library
from truespan.extensions.server.http.app import ServerOptions, make_app
from truespan.extensions.server.http.server import uvicorn_config

TIMEOUT = 60.0
VOLATILE = ("date",)
"""Headers that depend on the time of a reply."""

Pairs = Sequence[tuple[str, str | bytes]]


@dataclass(frozen=True)
class Response:
    """A reply: its status, its headers as they came, and its body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the only value of a header, or an empty string."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """Return the code of a problem; None for anything else."""
        is_problem = self.header("content-type") == "application/problem+json"
        return self.content["code"] if is_problem and self.body else None

    @property
    def shown(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """Return the reply without its date."""
        kept = tuple(pair for pair in self.headers if pair[0] not in VOLATILE)
        return self.status, kept, self.body

    def everything(self) -> bytes:
        """Return every byte of the reply, to search it for canaries."""
        lines = [f"{name}: {value}".encode("latin-1") for name, value in self.headers]
        return b"\n".join([*lines, self.body])


@dataclass
class Client:
    """A caller with a persistent connection."""

    port: int
    host: str = "127.0.0.1"
    _socket: socket.socket | None = field(default=None, repr=False)

    def send(
        self,
        method: str,
        target: str | bytes,
        *,
        token: str | bytes | None = None,
        headers: Pairs = (),
        body: bytes | None = None,
        hosts: Iterable[str | bytes] | None = None,
    ) -> Response:
        """Send one request, even a malformed one, and return the whole reply."""
        given: list[tuple[str, str | bytes]] = [
            ("host", host) for host in ((f"127.0.0.1:{self.port}",) if hosts is None else hosts)
        ]
        if token is not None:
            given.append(("authorization", b"Bearer " + as_bytes(token)))
        given += headers
        if body is not None:
            given.append(("content-length", str(len(body))))
        lines = [as_bytes(method) + b" " + as_bytes(target) + b" HTTP/1.1"]
        lines += [as_bytes(name) + b": " + as_bytes(value) for name, value in given]
        return self._exchange(method, b"\r\n".join([*lines, b"", body or b""]))

    def json(self, method: str, target: str, content: Any = None, **given: Any) -> Response:
        if content is None:
            return self.send(method, target, **given)
        headers = [("content-type", "application/json"), *given.pop("headers", ())]
        return self.send(
            method, target, headers=headers, body=json.dumps(content).encode(), **given
        )

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=TIMEOUT)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, method: str, message: bytes) -> Response:
        kept = self._socket is not None
        try:
            return self._asked(method, message)
        except (ConnectionError, BrokenPipeError):
            # The server may have closed the connection since the last request.
            self.close()
            if not kept:
                raise
            return self._asked(method, message)

    def _asked(self, method: str, message: bytes) -> Response:
        if self._socket is None:
            self._socket = self.connect()
        self._socket.sendall(message)
        response, stays = read_reply(self._socket, method)
        if not stays:
            self.close()
        return response


def as_bytes(value: str | bytes) -> bytes:
    """Return the bytes of a value; text is encoded as UTF-8."""
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def read_reply(connection: socket.socket, method: str = "GET") -> tuple[Response, bool]:
    """Read one whole reply, and return whether the connection stays open."""
    reply = HTTPResponse(connection, method=method)
    try:
        reply.begin()
        body = reply.read()
        headers = tuple((name.lower(), value) for name, value in reply.getheaders())
        return Response(reply.status, headers, body), not reply.will_close
    finally:
        reply.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most a minute."""
    waiting, end = threading.Event(), time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < end
        waiting.wait(0.01)


class _Quiet(uvicorn.Server):
    """A server that ends its streams when it stops, as the real one does."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)


@contextmanager
def serve_library(library: Library, serving: ServerOptions | None = None) -> Iterator[Client]:
    """Serve a library on a free port of this machine during a `with` block."""
    ending = asyncio.Event()
    application = make_app(library, serving or ServerOptions(), ending)
    # The protocol is named so that asyncio switches Nagle's delay off, as the real server does.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = _Quiet(uvicorn_config(application), ending)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        client = Client(listener.getsockname()[1])
        try:
            yield client
        finally:
            client.close()
            server.should_exit = True
            thread.join(30)
    assert not thread.is_alive()
    with suppress(AttributeError):
        assert application.is_idle()
