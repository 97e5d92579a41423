"""The server process: standard input and output carry the protocol, everything else goes to stderr.

It ends when its input ends, as the protocol asks of it, and on a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import NoReturn

from mcp.server.stdio import stdio_server

from truespan.doors.mcp.engine import Engine, Opened, open_for_owner, open_for_reader
from truespan.doors.mcp.server import make_server
from truespan.doors.mcp.tools import OWNING, READING, Role
from truespan.doors.wire import status_of
from truespan.errors import InternalError, TruespanError

SIGNALS = {signal.SIGTERM: 0, signal.SIGINT: 130}
"""What ends the process, and its exit code then."""


def serve_reader(folder: Path, world: str, reader: str) -> None:
    """Serve one reader of a world until the client leaves.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be.
    """
    _serve(READING, partial(open_for_reader, folder, world, reader))


def serve_owner(folder: Path, world: str) -> None:
    """Serve the owner of a world until the client leaves.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be.
    """
    _serve(OWNING, partial(open_for_owner, folder, world))


def _serve(role: Role, opening: Callable[[], Opened]) -> None:
    _quiet_logs()
    engine = Engine(opening)
    try:
        asyncio.run(_talk(role, engine))
    except* BrokenPipeError:
        pass  # The client has gone; there is nobody to tell.
    if not engine.close():
        _end(0)
    if error := engine.opening.exception():
        raise error


async def _talk(role: Role, engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    for number, code in SIGNALS.items():
        with contextlib.suppress(NotImplementedError):  # Windows ends processes without asking.
            loop.add_signal_handler(number, _leave, engine, code)
    asyncio.wrap_future(engine.opening).add_done_callback(_require)
    server = make_server(role, engine)
    async with stdio_server() as (incoming, outgoing):
        # The SDK moves the descriptors out of the way of stray output. What Python has buffered
        # would still come out at the end, when they are back.
        with contextlib.redirect_stdout(sys.stderr):
            await server.run(incoming, outgoing, server.create_initialization_options())


def _leave(engine: Engine, code: int) -> NoReturn:
    """End on a signal: let go of the library, then go.

    The SDK waits for input on a thread that cannot be interrupted, so there is no way out through
    the event loop.
    """
    engine.close()
    _end(code)


def _require(opening: Future[Opened] | asyncio.Future[Opened]) -> None:
    """End with a clear line if the library could not be opened: there is nothing to serve."""
    if opening.cancelled() or (failure := opening.exception()) is None:
        return
    error = failure if isinstance(failure, TruespanError) else InternalError(type(failure).__name__)
    sys.stderr.write(f"truespan: {error}\n")
    _end(status_of(error).exit_code)


def _end(code: int) -> NoReturn:
    """End at once, whatever other threads wait for. What was committed stays."""
    sys.stderr.flush()
    os._exit(code)


class _Outline(logging.Formatter):
    """Shows the fixed words of a record: its arguments and exceptions may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's words without what was filled in."""
        return f"{record.levelname.lower()}: {record.name}: {record.msg}"


def _quiet_logs() -> None:
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(_Outline())
    logging.basicConfig(level=logging.WARNING, handlers=[shown], force=True)
