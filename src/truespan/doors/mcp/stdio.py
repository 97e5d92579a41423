"""The server process that a client starts: it ends when its input ends, and on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from truespan.doors.mcp.engine import Engine, Opened, open_for_owner, open_for_reader
from truespan.doors.mcp.logs import outlines
from truespan.doors.mcp.pipes import Incoming, Outgoing, standard_pipes
from truespan.doors.mcp.server import make_server
from truespan.doors.mcp.tools import OWNING, READING, Role

SIGNALS = {signal.SIGTERM: 0, signal.SIGINT: 130}
"""What ends the process, and its exit code then."""


def serve_reader(folder: Path, world: str, reader: str) -> int:
    """Serve one reader of a world until the client leaves, and return the exit code.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be.
    """
    return _serve(READING, partial(open_for_reader, folder, world, reader))


def serve_owner(folder: Path, world: str) -> int:
    """Serve the owner of a world until the client leaves, and return the exit code.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be.
    """
    return _serve(OWNING, partial(open_for_owner, folder, world))


def _serve(role: Role, opening: Callable[[], Opened]) -> int:
    _quiet_logs()
    engine = Engine(opening)
    with standard_pipes() as (source, target):
        code = asyncio.run(_talk(role, engine, source, target))
        if not engine.close():
            # A call is still at work and cannot be interrupted. What was committed stays.
            sys.stderr.flush()
            os._exit(code)
    if engine.failure:
        raise engine.failure
    return code


async def _talk(role: Role, engine: Engine, source: int, target: int) -> int:
    """Serve until the client leaves, a signal comes, or the library turns out not to open."""
    codes: list[int] = []
    incoming = Incoming(source)
    outgoing = Outgoing(target, on_broken=incoming.end)

    def leave(code: int) -> None:
        codes.append(code)
        incoming.end()

    for number, code in SIGNALS.items():
        with contextlib.suppress(NotImplementedError):  # Windows ends processes without asking.
            asyncio.get_running_loop().add_signal_handler(number, leave, code)
    engine.begin(on_failure=incoming.end)
    incoming.begin(outgoing)
    server = make_server(role, lambda _, work: engine.run(work))
    await server.run(incoming, outgoing, server.create_initialization_options())
    return codes[0] if codes else 0


def _quiet_logs() -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[outlines()], force=True)
