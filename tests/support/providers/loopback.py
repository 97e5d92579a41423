"""A server on the loopback that remembers every request and obeys `fault`.

A fault is a function that sees a request first and may answer in the server's place.
"""

import json
import socket
import ssl
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.support.worlds import vector_of


@dataclass(frozen=True)
class Asked:
    """A recorded request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """A reply. `pieces` are sent as they come, without a length; `cut` ends a body too early."""

    status: int = 200
    content: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json; charset=utf-8"
    pieces: Iterable[bytes] | None = None
    cut: int | None = None

    def encoded(self) -> bytes:
        return json.dumps(self.content).encode() if self.body is None else self.body


@dataclass
class Raw:
    """Bytes sent in place of an HTTP reply, after which the connection is closed."""

    pieces: Iterable[bytes] = ()


Reaction = Answer | Raw
Fault = Callable[[Asked], Reaction | None]


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """As many may knock at once as tests have threads; with the usual five some are turned away."""


class Loopback:
    """A server on 127.0.0.1. Use it in a `with` statement."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.fault: Fault | None = None
        self.connections = 0
        """How many connections were ever opened."""
        self._open: set[socket.socket] = set()
        self._arrived = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _conversation(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, asked: Asked) -> Reaction:
        raise NotImplementedError

    def react(self, asked: Asked) -> Reaction:
        with self._arrived:
            self.asked.append(asked)
            self._arrived.notify_all()
        return (self.fault and self.fault(asked)) or self.answer(asked)

    def to(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == path]

    def wait_for(self, path: str, count: int) -> int:
        """Return the number of requests to a path, after at least `count` or a timeout.

        A client that gives up early may have sent a request that is yet to be read here.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: len(self.to(path)) >= count, timeout=10)
            return len(self.to(path))

    def hang_up(self) -> None:
        """Close every idle connection, as a restarted server does."""
        for connection in list(self._open):
            # Its own thread may have closed it already.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Stop listening on the port and cut all connections."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self.hang_up()

    def __enter__(self):
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _conversation(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connections += 1
            server._open.add(self.request)

        def finish(self) -> None:
            server._open.discard(self.request)
            super().finish()

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                # The other side had enough, as it should in some of the tests.
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(server.react(Asked(self.command, self.path, headers, body)))

        do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815

        def _send(self, reaction: Reaction) -> None:
            if isinstance(reaction, Raw):
                self.close_connection = True
                self._send_pieces(reaction.pieces)
                return
            self.send_response(reaction.status)
            if reaction.content_type:
                self.send_header("Content-Type", reaction.content_type)
            for name, value in reaction.headers.items():
                self.send_header(name, value)
            if reaction.pieces is not None:
                self.send_header("Connection", "close")
                self.end_headers()
                self._send_pieces(reaction.pieces)
                return
            body = reaction.encoded()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: reaction.cut])
            self.close_connection = self.close_connection or reaction.cut is not None

        def _send_pieces(self, pieces: Iterable[bytes]) -> None:
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()

    return Conversation


def drops(content: bytes) -> Iterator[bytes]:
    """Send a reply byte by byte, and then white space forever."""
    yield from (content[place : place + 1] for place in range(len(content)))
    while True:
        yield b" "


def numbers_of(text: str, dimensions: int) -> list[float]:
    return list(array("f", vector_of(text, dimensions)))
