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
from pathlib import Path
from typing import Any

from truespan.doors.mcp.engine import Engine, open_for_owner, open_for_reader
from truespan.errors import InvalidSettings

SIGNALS = {signal.SIGTERM: 0, signal.SIGINT: 130}
"""What ends the process, and its exit code then."""


def serve(folder: Path, world: str, *, reader: str | None, owner: bool) -> int:
    """Serve one reader of a world or, if that is said, its owner, until the client leaves.

    Raises:
        InvalidSettings: not exactly one of the two was said. A server that nobody bound to a
            reader must not come about by leaving something out.
        LibraryNotFound, InvalidConfiguration, WorldNotFound: before anything is served.
    """
    if owner == (reader is not None):
        raise InvalidSettings(
            "Say for whom the server is: a reader, or the owner who sees whole documents.",
            advice="Give '--reader NAME' or '--owner', one of the two.",
        )
    engine = (
        open_for_owner(folder, world) if reader is None else open_for_reader(folder, world, reader)
    )
    # The SDK takes a second to import. A wrong name is told before that.
    from truespan.doors.mcp.server import make_server
    from truespan.doors.mcp.tools import OWNING, READING

    _quiet_logs()
    try:
        asyncio.run(_talk(make_server(OWNING if owner else READING, engine), engine))
    except* BrokenPipeError:
        pass  # The client has gone; there is nobody to tell.
    finally:
        if not engine.close():
            _end(0)
    return 0


async def _talk(server: Any, engine: Engine) -> None:
    from mcp.server.stdio import stdio_server

    _end_on_signals(engine)
    async with stdio_server() as (incoming, outgoing):
        # The SDK moves the descriptors out of the way of stray output. What Python has buffered
        # would still come out at the end, when they are back.
        with contextlib.redirect_stdout(sys.stderr):
            await server.run(incoming, outgoing, server.create_initialization_options())


def _end_on_signals(engine: Engine) -> None:
    """End in order on a signal.

    The SDK waits for input on a thread that cannot be interrupted, so there is no other way out
    than to close the library and leave.
    """

    def leave(code: int) -> None:
        engine.close()
        _end(code)

    for number, code in SIGNALS.items():
        with contextlib.suppress(NotImplementedError):  # Windows ends processes without asking.
            asyncio.get_running_loop().add_signal_handler(number, leave, code)


def _end(code: int) -> None:
    """End at once, whatever other threads wait for. What was committed stays."""
    sys.stderr.flush()
    os._exit(code)


class _Outline(logging.Formatter):
    """Shows the fixed words of a record: its arguments and exceptions may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.name}: {record.msg}"


def _quiet_logs() -> None:
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(_Outline())
    logging.basicConfig(level=logging.WARNING, handlers=[shown], force=True)
