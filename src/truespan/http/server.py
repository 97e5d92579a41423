"""Serving: what the operator said is checked, and then one process or several serve."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import truespan
from truespan.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidConfiguration,
    InvalidSettings,
    RequestTooLarge,
    TruespanError,
)
from truespan.http.app import Application, ServerOptions, make_app
from truespan.http.auth import LOOPBACK, AuthPolicy, is_loopback
from truespan.http.endpoint import Limits
from truespan.http.problems import PROBLEM, problem_reply
from truespan.library import Library
from truespan.settings import read_settings, share_metrics
from truespan.settings.catalogue import MEBIBYTE, Settings
from truespan.types.token import TokenState

if TYPE_CHECKING:
    pass


LONGEST_HEAD = 1 << 16
"""Bytes after which no more of a head is read; what came in one piece is read whole."""
HEAD_SECONDS = 30.0


class BoundedConnection(HttpToolsProtocol):
    """A connection whose requests begin within bounds, or end it."""

    _head = 0
    _reading_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head has grown too long."""
        if self._reading_head:
            if self._head > LONGEST_HEAD:
                self._refuse(RequestTooLarge(LONGEST_HEAD), 431)
                return
            self._head += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        if not self._reading_head:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on."""
        self._stop_waiting()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head, self._reading_head = 0, True
        loop: Any = self.loop
        self._late = loop.call_later(HEAD_SECONDS, self._on_late)

    def _stop_waiting(self) -> None:
        self._reading_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _on_late(self) -> None:
        self._refuse(DeadlineExceeded(HEAD_SECONDS), 408)

    def _refuse(self, error: TruespanError, status: int) -> None:
        """Say why, and leave. Statuses of heads are the protocol's own."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        title = HTTPStatus(status).phrase
        told = msgspec.structs.replace(problem_reply(error).value, status=status, title=title)
        body = msgspec.json.encode(told)
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {PROBLEM}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


PATIENCE = 10
"""Seconds that running requests are waited for at the end."""
BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Service:
    """What is to be served, and how."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8700
    workers: int = 1
    require_token: bool = False
    serving: ServerOptions = field(default_factory=ServerOptions)


def work(
    service: Service, listener: socket.socket, library: Library, on_started: Callable[[], None]
) -> int:
    """Serve in this process, on a socket that listens already."""
    # Requests that cannot be read are the senders' business, and there may be many.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    ending = asyncio.Event()
    application = make_app(library, service.serving, ending)
    library.resume_waiting()
    _Server(config_of(application), ending, on_started).run(sockets=[listener])
    if not application.is_idle():
        # A call is still at work and cannot be interrupted. What was committed stays.
        library.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def config_of(application: Application) -> uvicorn.Config:
    """Return how uvicorn serves an application."""
    return uvicorn.Config(
        application.asgi,
        http=BoundedConnection,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=PATIENCE,
        backlog=BACKLOG,
    )


class _Server(uvicorn.Server):
    """Tells when it listens and when it is about to end, and takes signals as the usual end."""

    def __init__(
        self, config: uvicorn.Config, ending: asyncio.Event, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ending = ending
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams would hold the server up for as long as their clients like.
        self._ending.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def leave(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        taken = (signal.SIGINT, signal.SIGTERM)
        earlier = {number: signal.signal(number, leave) for number in taken}
        try:
            yield
        finally:
            for number, handling in earlier.items():
                signal.signal(number, handling)


MOST_RESTARTS = 10
"""How often processes that end by themselves are begun again before something must be wrong."""
STARTING_SECONDS = 60.0
_SPAWN = multiprocessing.get_context("spawn")


def supervise(service: Service, listener: socket.socket, on_ready: Callable[[], None]) -> int:
    """Serve with several processes until a signal comes, and return the exit code.

    Raises:
        InternalError: they do not start, or end by themselves again and again.
    """
    return _Crew(service, listener).run(on_ready)


class _Crew:
    def __init__(self, service: Service, listener: socket.socket) -> None:
        self._service = service
        self._listener = listener
        self._started = _SPAWN.Semaphore(0)
        self._leaving = threading.Event()
        self._bell, self._ring = _SPAWN.Pipe(duplex=False)
        self._workers: list[BaseProcess] = []

    def run(self, on_ready: Callable[[], None]) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._leave)
        try:
            self._workers = [self._begun() for _ in range(self._service.workers)]
            self._await_start()
            if not self._leaving.is_set():
                on_ready()
            self._keep()
        finally:
            self._end()
        return 0

    def _leave(self, *_: Any) -> None:
        if not self._leaving.is_set():
            self._leaving.set()
            self._ring.send_bytes(b".")

    def _begun(self) -> BaseProcess:
        worker = _SPAWN.Process(
            target=_work, args=(self._service, self._listener, self._started), daemon=False
        )
        worker.start()
        return worker

    def _await_start(self) -> None:
        for _ in self._workers:
            while not self._started.acquire(timeout=0.2):
                if self._leaving.is_set():
                    return
                if any(worker.exitcode is not None for worker in self._workers):
                    raise InternalError("end of a worker that was starting")

    def _keep(self) -> None:
        """Begin again what ends by itself, until it is time to leave."""
        restarts = 0
        while not self._leaving.is_set():
            wait([self._bell, *(worker.sentinel for worker in self._workers)])
            for place, worker in enumerate(self._workers):
                if worker.exitcode is None or self._leaving.is_set():
                    continue
                restarts += 1
                if restarts > MOST_RESTARTS:
                    raise InternalError("end of worker after worker")
                self._workers[place] = self._begun()

    def _end(self) -> None:
        for worker in self._workers:
            if worker.exitcode is None:
                worker.terminate()
        for worker in self._workers:
            worker.join()


def _work(service: Service, listener: socket.socket, started: Any) -> None:
    """Serve in a process of its own, for as long as the one that began it is there."""

    try:
        with truespan.open(service.folder, metrics=True, logs=True) as library:
            threading.Thread(target=_end_with_parent, daemon=True).start()
            work(service, listener, library, lambda: started.release())
    except TruespanError as error:
        raise SystemExit(f"truespan: {error}") from None
    except KeyboardInterrupt:
        return


def _end_with_parent() -> None:
    """Leave in order when the parent is gone: nobody else would end this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        signal.raise_signal(signal.SIGTERM)


_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[?[0-9a-f:.]+\]?", re.ASCII)
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 -- told apart here, and bound only if somebody asks.


def serve(service: Service, on_ready: Callable[[str], None]) -> int:
    """Serve until a signal comes, and return the exit code; `on_ready` is told the address.

    Raises:
        LibraryNotFound, InvalidConfiguration, InvalidSettings, WorldNotFound: it cannot be.
    """
    settings = read_settings(service.folder)
    with truespan.open(service.folder, metrics=True, logs=True) as library:
        prepared = replace(service, serving=_prepared(service, settings, library))
        if service.workers == 1:
            with _listening(service) as listener:
                address = _address(service.host, listener)
                return work(prepared, listener, library, lambda: on_ready(address))

    with _listening(service) as listener, TemporaryDirectory(prefix="truespan-") as shared:
        share_metrics(Path(shared))
        address = _address(service.host, listener)
        return supervise(prepared, listener, lambda: on_ready(address))


def _prepared(service: Service, settings: Settings, library: Library) -> ServerOptions:
    """Return how to serve, with what the settings say; refuse what would be open to everybody."""
    _check(service)
    _check_names(settings)
    local = is_loopback(service.host)
    needs_token = service.require_token or not local
    if not local and not _has_tokens(library):
        raise InvalidSettings(
            f"At {service.host} others could reach the library, and no token has been made.",
            advice="Make one with 'truespan token create', or serve at 127.0.0.1.",
        )
    serving = service.serving
    if serving.world is not None:
        # Names may change hands; from here on the world is meant by its id.
        serving = replace(serving, world=library.world(serving.world).id)
    everywhere = service.host.strip("[]") in _EVERYWHERE
    named = {*settings.http_hosts_listed, *(() if everywhere else (service.host,))}
    return replace(
        serving,
        sessions=service.workers == 1,
        keeping=AuthPolicy(
            hosts=LOOPBACK | frozenset(map(_as_host, named)),
            addresses=everywhere,
            origins=frozenset(settings.http_origins_listed),
            needs_token=needs_token,
            per_minute=-(-settings.http_requests_per_minute // service.workers),
        ),
        limits=Limits(
            body=settings.http_body_max_kib * 1024,
            upload=settings.source_max_mib * MEBIBYTE,
            seconds=float(settings.http_timeout_seconds),
        ),
    )


def _check(service: Service) -> None:
    serving = service.serving
    if not 0 <= service.port <= 65535:
        raise InvalidSettings("A port lies between 0 and 65535.")
    if not 1 <= service.workers <= 64:
        raise InvalidSettings("There can be 1 to 64 workers.")
    if serving.mcp_owner and serving.mcp_reader is not None:
        raise InvalidSettings(
            "MCP is for a reader or for the owner, not for both.",
            advice="Give --mcp-reader or --mcp-owner, one of the two.",
        )
    if serving.world is None and (serving.mcp_owner or serving.mcp_reader is not None):
        raise InvalidSettings("Say which world MCP is for.", advice="Give --world NAME.")


def _check_names(settings: Settings) -> None:
    """Refuse names that no request would ever match, however they were meant.

    Raises:
        InvalidConfiguration: one of them is no host, or no origin.
    """
    for host in settings.http_hosts_listed:
        if not _HOST.fullmatch(host):
            raise InvalidConfiguration(
                f"http_hosts has {host!r}, which is no name of a host.",
                advice="Give names or addresses alone, without scheme, port or '*'.",
            )
    for origin in settings.http_origins_listed:
        scheme, _, rest = origin.partition("://")
        host, colon, port = rest.rpartition(":") if rest[-1:].isdigit() else (rest, "", "")
        plain = _HOST.fullmatch(host if colon else rest) is not None
        if scheme not in ("http", "https") or not plain or (colon and not port.isdecimal()):
            raise InvalidConfiguration(
                f"http_origins has {origin!r}, which is no origin.",
                advice="Give scheme, host and port alone, such as https://reader.example.org.",
            )


def _has_tokens(library: Library) -> bool:
    tokens = library.tokens
    return any(tokens.state(record) is TokenState.ACTIVE for record in tokens.list())


def _as_host(name: str) -> str:
    """Return a name as it stands in a Host header."""
    return f"[{name.strip('[]')}]" if ":" in name else name


@contextlib.contextmanager
def _listening(service: Service) -> Iterator[socket.socket]:
    """Give a socket that listens, so that whoever is told of the address is not turned away.

    Raises:
        InvalidConfiguration: the address is taken, or not of this machine.
    """
    host = service.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol in so many words: without it asyncio leaves Nagle's delay on, and a reply
    # on a connection that is kept takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, service.port))
        except OSError as error:
            raise InvalidConfiguration(
                f"Nothing can be served at {service.host}, port {service.port}: {error.strerror}.",
                advice="Choose another with --host or --port; port 0 takes one that is free.",
            ) from None
        listener.listen(BACKLOG)
        yield listener
    finally:
        listener.close()


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{_as_host(host.strip('[]'))}:{listener.getsockname()[1]}/"
