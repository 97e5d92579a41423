"""Starting the server: check the options, then serve with one process or several."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from importlib.util import find_spec
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, TypeVar

import msgspec
import uvicorn
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors.multiprocess import Multiprocess

import truespan
from truespan import errors
from truespan.engine.library import Library
from truespan.extensions.server.http.app import Application, Limits, ServerOptions, make_app
from truespan.extensions.server.http.auth import LOOPBACK, AuthPolicy, is_loopback
from truespan.extensions.server.http.replies import PROBLEM, problem_reply
from truespan.settings import read_settings, share_metrics
from truespan.settings.catalogue import MEBIBYTE, Settings, split_list
from truespan.types.token import TokenState
from truespan.wiring.storage import is_on_server

T = TypeVar("T")

MAX_HEAD_BYTES = 1 << 16
"""Maximum size of the headers of a request."""
HEAD_SECONDS = 30.0


class BoundedConnection(HttpToolsProtocol):
    """A connection that limits the size of request headers and the time they take."""

    _head = 0
    _reading_head = True
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading_head:
            if self._head > MAX_HEAD_BYTES:
                self._refuse(
                    errors.RequestRefused(
                        code="request_too_large", limit=MAX_HEAD_BYTES, part="head"
                    ),
                    431,
                )
                return
            self._head += len(data)
        super().data_received(data)
        if self._reading_head and self._head_timer is None:
            self._start_timer()

    def on_message_begin(self) -> None:
        if not self._reading_head:
            self._head, self._reading_head = 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        loop: Any = self.loop
        timeout = errors.DeadlineExceeded(HEAD_SECONDS, "head")
        self._head_timer = loop.call_later(HEAD_SECONDS, self._refuse, timeout, 408)

    def _stop_timer(self) -> None:
        self._reading_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: errors.TruespanError, status: int) -> None:
        """Send a problem and close the connection; the status is the one HTTP has for headers."""
        self._stop_timer()
        if self.transport.is_closing():
            return
        title = HTTPStatus(status).phrase
        details = msgspec.structs.replace(problem_reply(error).value, status=status, title=title)
        body = msgspec.json.encode(details)
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {PROBLEM}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


SHUTDOWN_SECONDS = 10
"""Seconds that a shutdown waits for running requests."""
BACKLOG = 2048
ANSWER_SECONDS = 60
"""Maximum time that a worker process may not answer its supervisor."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[?[0-9a-f:.]+\]?", re.ASCII)
_ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 -- compared here; bound only if the operator says so.


class Service(Struct, frozen=True):
    """A library to serve, and the address."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8700
    workers: int = 1
    require_token: bool = False
    options: ServerOptions = field(default_factory=ServerOptions)


class Startup(Struct, frozen=True):
    """The announcement of a server that listens. A member that cannot be read is None."""

    address: str
    version: str
    worlds: list[str] | None
    requires_token: bool
    tokens: int | None
    """The number of active tokens."""
    processes: int
    queue: bool
    """Whether jobs wait for workers; otherwise the server runs them."""
    workers_running: bool | None
    log_format: str = "text"
    metrics: bool = True
    """Whether metrics are collected."""


def _can_collect_metrics() -> bool:
    """Return whether the extra `metrics` is installed."""
    return find_spec("prometheus_client") is not None


def serve(service: Service, on_ready: Callable[[Startup], None]) -> int:
    """Serve until a signal ends the server, and return the exit code.

    `on_ready` is called once the server listens.
    """
    settings = read_settings(service.folder)
    with truespan.open(service.folder, metrics=_can_collect_metrics(), logs=True) as library:
        configured = replace(service, options=_configure(service, settings, library))
        if service.workers == 1:
            with _listen(service) as listener:
                startup = _startup(configured, settings, listener, library)
                return _serve_here(configured, listener, library, lambda: on_ready(startup))
        startup = _startup(configured, settings, None, library)

    with _listen(service) as listener, TemporaryDirectory(prefix="truespan-") as shared:
        share_metrics(Path(shared))
        startup = replace(startup, address=_address(service.host, listener))
        return _serve_with_workers(configured, listener, lambda: on_ready(startup))


def _startup(
    service: Service, settings: Settings, listener: socket.socket | None, library: Library
) -> Startup:
    def read(value: Callable[[], T]) -> T | None:
        # Damage that requests can live with must not keep the server from starting.
        with contextlib.suppress(errors.TruespanError):
            return value()
        return None

    tokens, worlds = library.tokens, read(library.worlds)
    return Startup(
        address="" if listener is None else _address(service.host, listener),
        version=truespan.__version__,
        worlds=None if worlds is None else [world.name for world in worlds],
        requires_token=service.options.auth.needs_token,
        tokens=read(
            lambda: sum(tokens.state(token) is TokenState.ACTIVE for token in tokens.list())
        ),
        processes=service.workers,
        queue=library.has_workers,
        workers_running=read(lambda: library.world(worlds[0].id).jobs.has_workers())
        if worlds
        else None,
        log_format=settings.log.format,
        metrics=_can_collect_metrics(),
    )


def _configure(service: Service, settings: Settings, library: Library) -> ServerOptions:
    options = service.options
    if not 0 <= service.port <= 65535:
        raise errors.InvalidArgument("The port must be between 0 and 65535.")
    if not 1 <= service.workers <= 64:
        raise errors.InvalidArgument("The number of workers must be between 1 and 64.")
    if options.mcp_owner and options.mcp_reader is not None:
        raise errors.InvalidArgument(
            "MCP can serve a reader or the owner, not both.",
            advice="Give either --mcp-reader or --mcp-owner.",
        )
    check_names(settings)
    is_local = is_loopback(service.host)
    tokens = library.tokens
    has_callers = bool(settings.auth.issuer) or any(
        tokens.state(token) is TokenState.ACTIVE for token in tokens.list()
    )
    if not is_local and not has_callers:
        raise errors.InvalidArgument(
            f"Other machines could reach the library at {service.host}, and there is no token.",
            advice="Create one with 'truespan token create', or serve at 127.0.0.1.",
        )
    if options.world is not None or options.mcp_owner or options.mcp_reader is not None:
        # MCP without a token serves one world.
        # A name may be given to another world later; the id is fixed.
        options = replace(options, world=library.world(options.world, create=False).id)
    on_all_addresses = service.host.strip("[]") in _ALL_ADDRESSES
    hosts = {*split_list(settings.http.hosts), *(() if on_all_addresses else (service.host,))}
    return replace(
        options,
        sessions=service.workers == 1,
        auth=AuthPolicy(
            hosts=LOOPBACK | frozenset(_bracket_ipv6(host) for host in hosts),
            any_address=on_all_addresses,
            origins=frozenset(split_list(settings.http.origins)),
            needs_token=service.require_token or not is_local or bool(settings.auth.issuer),
            per_minute=settings.http.requests_per_minute
            if is_on_server(settings)
            else -(-settings.http.requests_per_minute // service.workers),
            shared=is_on_server(settings),
        ),
        limits=Limits(
            upload=settings.source_max_mib * MEBIBYTE,
            seconds=max(Limits().seconds, float(settings.chat.timeout_seconds)),
        ),
    )


def check_names(settings: Settings) -> None:
    """Refuse hosts and origins that no request could match."""
    for host in split_list(settings.http.hosts):
        if not _HOST.fullmatch(host):
            raise errors.InvalidConfiguration(
                f"http_hosts contains {host!r}, which is not a host name.",
                advice="Give names or addresses without scheme, port or '*'.",
            )
    for origin in split_list(settings.http.origins):
        scheme, _, rest = origin.partition("://")
        host, colon, port = rest.rpartition(":") if rest[-1:].isdigit() else (rest, "", "")
        is_host = _HOST.fullmatch(host if colon else rest) is not None
        if scheme not in ("http", "https") or not is_host or (colon and not port.isdecimal()):
            raise errors.InvalidConfiguration(
                f"http_origins contains {origin!r}, which is not an origin.",
                advice="Give scheme, host and port only, such as https://reader.example.org.",
            )


def _bracket_ipv6(host: str) -> str:
    """Return a host as in a Host header or a URL."""
    return f"[{host.strip('[]')}]" if ":" in host else host


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{_bracket_ipv6(host.strip('[]'))}:{listener.getsockname()[1]}/"


@contextlib.contextmanager
def _listen(service: Service) -> Iterator[socket.socket]:
    """Yield a listening socket, whose address can be announced."""
    host = service.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the explicit protocol asyncio does not disable Nagle's algorithm, which delays
    # replies on reused connections by 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, service.port))
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"Cannot listen on {_bracket_ipv6(host)}:{service.port}: {error.strerror}.",
                advice="Choose another with --host or --port; --port 0 takes a free port.",
            ) from None
        listener.listen(BACKLOG)
        yield listener


def _serve_here(
    service: Service, listener: socket.socket, library: Library, on_started: Callable[[], None]
) -> int:
    # Otherwise every malformed request is logged.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    ending = asyncio.Event()
    application = make_app(library, service.options, ending)
    library.server.resume_waiting()
    _Server(uvicorn_config(application), ending, on_started).run(sockets=[listener])
    # A call may still run that cannot be interrupted. What was committed stays.
    return 0


def uvicorn_config(application: Application) -> uvicorn.Config:
    return _config(application.asgi)


def _config(app: Callable[..., Any], **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=BACKLOG,
        timeout_worker_healthcheck=ANSWER_SECONDS,
        **options,
    )


class _Server(uvicorn.Server):
    """Reports when it listens and when it shuts down, and exits normally after a signal."""

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
        # Streams would otherwise delay the shutdown until their clients disconnect.
        self._ending.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Unlike uvicorn's own, this does not raise the signal again after the shutdown.
        signals = (signal.SIGINT, signal.SIGTERM)
        previous = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _serve_with_workers(
    service: Service, listener: socket.socket, on_started: Callable[[], None]
) -> int:
    """Serve with several processes; one that ends by itself is started again."""
    config = _config(_WorkerApp(service), factory=True, workers=service.workers)
    supervisor = Multiprocess(config, [listener])
    # The socket listens: requests wait until a process has opened the library.
    on_started()
    supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise errors.OperatorError(
            "A server process could not start.", advice="Its messages are above."
        )
    return 0


class _WorkerApp(Struct, frozen=True):
    """Opens the library in a worker process and makes the application, for as long as it serves."""

    service: Service

    def __call__(self) -> ASGIApp:
        try:
            library = truespan.open(self.service.folder, metrics=_can_collect_metrics(), logs=True)
        except errors.TruespanError as error:
            sys.stderr.write(f"truespan: {error}\n")
            raise SystemExit(STARTUP_FAILURE) from None
        ending = asyncio.Event()
        _set_on_signals(ending)
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        inner = make_app(library, self.service.options, ending).asgi
        library.server.resume_waiting()

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await inner(scope, receive, send)
            finally:
                if scope["type"] == "lifespan":
                    library.close()

        return serve


def _set_on_signals(ending: asyncio.Event) -> None:
    """Set an event when the process is to end: streams would otherwise delay its end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)

        def stop(number: int, frame: FrameType | None, handler: Any = handler) -> None:
            loop.call_soon_threadsafe(ending.set)
            handler(number, frame)

        signal.signal(number, stop)


def _stop_with_parent() -> None:
    """End a worker process whose parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        signal.raise_signal(signal.SIGTERM)
