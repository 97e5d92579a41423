"""The two pipes of a server that a client started: one line of JSON is one message.

They do what the SDK's own do and hand over the same messages, with three differences: reading can
be ended from inside, which a signal needs; a line that is no message is answered with an error,
not with silence; and a message crosses threads once, not three times.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, jsonrpc_message_adapter

from truespan.mcp.context import Engine, Opened, open_for_owner, open_for_reader
from truespan.mcp.server import make_server
from truespan.mcp.tools import OWNING, READING, Role


class Outline(logging.Formatter):
    """Shows the fixed words of a record: its arguments and exceptions may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's words without what was filled in."""
        return f"{record.levelname.lower()}: {record.name}: {record.msg}"


def outlines() -> logging.Handler:
    """Return what writes outlines of records to standard error."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(Outline())
    return shown


@contextmanager
def outlined(name: str) -> Iterator[None]:
    """Show warnings of a logger and those below it in outline, and pass nothing on to others."""
    logger, shown = logging.getLogger(name), outlines()
    before = (logger.level, logger.propagate)
    logger.addHandler(shown)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(shown)
        logger.level, logger.propagate = before


BLOCK = 1 << 16
FLUSHING_SECONDS = 1.0
STDIN, STDOUT, STDERR = 0, 1, 2
NOT_A_MESSAGE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'


@contextlib.contextmanager
def standard_pipes() -> Iterator[tuple[int, int]]:
    """Give standard input and output for the protocol, and nobody else.

    Meanwhile the usual descriptors lead elsewhere: whoever reads finds nothing, and whatever is
    printed, by Python, by a library or by a child process, goes to standard error.
    """
    sys.stdout.flush()
    source, target = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    try:
        # Python's own buffer would come out at the end, when the descriptors are back.
        with contextlib.redirect_stdout(sys.stderr):
            yield source, target
    finally:
        os.dup2(target, STDOUT)
        os.dup2(source, STDIN)


class _Stream:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go; a stream that is closed twice stays closed."""


class Outgoing(_Stream):
    """Messages to the client, written on a thread: a client that reads slowly holds up nobody."""

    def __init__(self, target: int, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="truespan-out", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        """Have a message written soon, after those before it."""
        self.put(_encoded(item))

    def put(self, line: bytes) -> None:
        """Have a line written soon."""
        self._lines.put(line)

    async def aclose(self) -> None:
        """Write what is waiting, within a moment."""
        self._lines.put(None)
        self._thread.join(FLUSHING_SECONDS)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._target, left) :]
        except OSError:
            # The client has gone; there is nobody to tell.
            self._on_broken()


class Incoming(_Stream):
    """Messages from the client, read on a thread until the pipe or this process ends."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[SessionMessage | None] = asyncio.Queue()

    def begin(self, outgoing: Outgoing) -> None:
        """Start to read; lines that are no messages are answered at once."""
        # A daemon, because nothing can wake a thread that waits for a pipe.
        threading.Thread(target=self._read, args=(outgoing,), daemon=True).start()

    def end(self) -> None:
        """Let the stream end, as if the client had closed it."""
        # When the loop is closed, it has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._messages.put_nowait, None)

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            EOFError: there will be none, however often it is asked.
        """
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
            raise EOFError
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EOFError:
            raise StopAsyncIteration from None

    def _read(self, outgoing: Outgoing) -> None:
        begun = b""
        with contextlib.suppress(OSError, RuntimeError):
            while block := os.read(self._source, BLOCK):
                *lines, begun = (begun + block).split(b"\n")
                for line in lines:
                    self._take(line, outgoing)
            self._take(begun, outgoing)
        self.end()

    def _take(self, line: bytes, outgoing: Outgoing) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            outgoing.put(NOT_A_MESSAGE)
            return
        self._loop.call_soon_threadsafe(self._messages.put_nowait, SessionMessage(message))


def _encoded(item: SessionMessage) -> bytes:
    message = item.message
    if isinstance(message, JSONRPCResponse):
        # By far the largest messages, and the ones that take long to encode otherwise.
        whole = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        return msgspec.json.encode(whole) + b"\n"
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


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
