"""The processes that serve: one, or several on one library; begun, looked after, ended in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import uvicorn

import truespan
from truespan.doors.http.admission import LOOPBACK, Doorkeeping, is_loopback
from truespan.doors.http.app import Serving, make_app
from truespan.doors.http.doorway import Limits
from truespan.engine.library import Library
from truespan.errors import InvalidConfiguration, InvalidSettings
from truespan.model.token import TokenState
from truespan.settings import Settings, read_settings, share_metrics
from truespan.settings.catalogue import MEBIBYTE

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
    serving: Serving = field(default_factory=Serving)


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
    from truespan.doors.http.workers import supervise

    with _listening(service) as listener, TemporaryDirectory(prefix="truespan-") as shared:
        share_metrics(Path(shared))
        address = _address(service.host, listener)
        return supervise(prepared, listener, lambda: on_ready(address))


def work(
    service: Service, listener: socket.socket, library: Library, on_started: Callable[[], None]
) -> int:
    """Serve in this process, on a socket that listens already."""
    ending = asyncio.Event()
    application = make_app(library, service.serving, ending)
    config = uvicorn.Config(
        application.asgi,
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
    library.resume_waiting()
    _Server(config, ending, on_started).run(sockets=[listener])
    if not application.is_idle():
        # A call is still at work and cannot be interrupted. What was committed stays.
        library.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


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


def _prepared(service: Service, settings: Settings, library: Library) -> Serving:
    """Return how to serve, with what the settings say; refuse what would be open to everybody."""
    _check(service)
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
    wildcard = service.host in ("0.0.0.0", "::", "[::]")  # noqa: S104 -- told apart, not bound.
    named = frozenset(settings.http_hosts_listed) | ({service.host} - {"0.0.0.0", "::"})  # noqa: S104
    return replace(
        serving,
        sessions=service.workers == 1,
        keeping=Doorkeeping(
            hosts=LOOPBACK | frozenset(map(_as_host, named)),
            addresses=wildcard,
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
                advice="Choose another with --port; 0 takes one that is free.",
            ) from None
        listener.listen(BACKLOG)
        yield listener
    finally:
        listener.close()


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{_as_host(host.strip('[]'))}:{listener.getsockname()[1]}/"
