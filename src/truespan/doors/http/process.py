"""One process that serves: from a socket that listens to the end of its last request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import uvicorn

from truespan.doors.http.app import Application, Serving, make_app
from truespan.doors.http.connection import BoundedConnection
from truespan.engine.library import Library

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
