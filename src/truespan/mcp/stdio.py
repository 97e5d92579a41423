"""MCP over standard input and output, in a process that the client starts.

The streams do what the SDK's own do, with three differences: reading can be ended from inside,
which signals need; a line that is not a message gets an error reply instead of silence; and a
message crosses threads once instead of three times.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, jsonrpc_message_adapter

import truespan
from truespan.mcp.server import SHUTDOWN_SECONDS, make_server, stderr_handler
from truespan.mcp.tools import OWNER_ROLE, READER_ROLE, CallerContext, Role
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, Verb

if TYPE_CHECKING:
    from truespan.library import Library


Value = TypeVar("Value")

_BLOCK = 1 << 16
FLUSH_SECONDS = 1.0
STDIN, STDOUT, STDERR = 0, 1, 2
PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'


@contextlib.contextmanager
def standard_pipes() -> Iterator[tuple[int, int]]:
    """Give standard input and output to the protocol exclusively.

    Meanwhile the usual descriptors are redirected: reading gives nothing, and whatever Python, a
    library or a child process prints goes to standard error.
    """
    sys.stdout.flush()
    source, target = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    try:
        # Python's own buffer would be flushed at the end, when the descriptors are restored.
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
        """Close the stream; closing it twice is allowed."""


class Outgoing(_Stream):
    """Messages to the client, written on a thread so that a slow client blocks nothing else."""

    def __init__(self, target: int, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="truespan-out", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message."""
        self.put(_encode(item))

    def put(self, line: bytes) -> None:
        """Queue a line."""
        self._lines.put(line)

    async def aclose(self) -> None:
        """Write the queued lines, within a time limit."""
        self._lines.put(None)
        self._thread.join(FLUSH_SECONDS)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._target, rest) :]
        except OSError:
            # The client has disconnected.
            self._on_broken()


class Incoming(_Stream):
    """Messages from the client, read on a thread until the pipe or this process ends."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[SessionMessage | None] = asyncio.Queue()

    def start(self, outgoing: Outgoing) -> None:
        """Start to read; lines that are not messages get an error reply."""
        # A daemon, because a thread that waits for a pipe cannot be woken.
        threading.Thread(target=self._read, args=(outgoing,), daemon=True).start()

    def end(self) -> None:
        """End the stream, as if the client had closed it."""
        # The loop is closed if the stream has ended already.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._messages.put_nowait, None)

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            EOFError: the stream has ended.
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
        partial_line = b""
        with contextlib.suppress(OSError, RuntimeError):
            while block := os.read(self._source, _BLOCK):
                *lines, partial_line = (partial_line + block).split(b"\n")
                for line in lines:
                    self._parse(line, outgoing)
            self._parse(partial_line, outgoing)
        self.end()

    def _parse(self, line: bytes, outgoing: Outgoing) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            outgoing.put(PARSE_ERROR)
            return
        self._loop.call_soon_threadsafe(self._messages.put_nowait, SessionMessage(message))


def _encode(item: SessionMessage) -> bytes:
    message = item.message
    if isinstance(message, JSONRPCResponse):
        # Results are the largest messages, and slow to encode with pydantic.
        response = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        return msgspec.json.encode(response) + b"\n"
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class OpenedLibrary:
    """A library opened with a narrow authority, and the context in which tools use it."""

    library: Library
    caller: CallerContext


def open_for_reader(folder: Path, world: str, reader: str) -> OpenedLibrary:
    """Open a library with an authority to read as this reader of this world only.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be opened.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
        name = found.reader(reader).name
    authority = OWNER.as_reader(WorldId(found.id), name)
    library = truespan.open(folder, authority=authority)
    return OpenedLibrary(library, CallerContext(library.world(found.id), name))


def open_for_owner(folder: Path, world: str) -> OpenedLibrary:
    """Open a library with an authority to read this world only.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be opened.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
    authority = OWNER.narrow(worlds=[WorldId(found.id)], verbs=[Verb.READ])
    library = truespan.open(folder, authority=authority)
    return OpenedLibrary(library, CallerContext(library.world(found.id)))


class EngineThread:
    """Opens a library and runs calls on it, one after another, on a thread of its own.

    Opening runs on that thread too, so that the client's first request is answered meanwhile. A
    running call that the client cancels runs to its end, and its result is dropped.
    """

    def __init__(self, open_library: Callable[[], OpenedLibrary]) -> None:
        self._open_library = open_library
        self._calls: queue.SimpleQueue[Callable[[CallerContext], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="truespan-engine", daemon=True)
        self._on_failure: Callable[[], None] | None = None
        self.failure: Exception | None = None
        """Why the library could not be opened."""

    def start(self, on_failure: Callable[[], None]) -> None:
        """Start to open the library; `on_failure` is called on the thread if that fails."""
        self._on_failure = on_failure
        self._thread.start()

    async def run(self, work: Callable[[CallerContext], Value]) -> Value:
        """Return the result of `work`, which must not raise."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()

        def deliver(value: Value) -> None:
            if not future.done():
                future.set_result(value)

        def call(caller: CallerContext) -> None:
            if not future.cancelled():
                value = work(caller)
                # The loop is closed if the client has disconnected.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(deliver, value)

        self._calls.put(call)
        return await future

    def close(self) -> bool:
        """Close the library; False if a call is still running."""
        self._calls.put(None)
        self._thread.join(SHUTDOWN_SECONDS)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            opened = self._open_library()
        except Exception as failure:
            self.failure = failure
            if self._on_failure:
                self._on_failure()
            return
        with opened.library:
            while (call := self._calls.get()) is not None:
                call(opened.caller)


SIGNALS = {signal.SIGTERM: 0, signal.SIGINT: 130}
"""The signals that end the process, and its exit codes."""


def serve_reader(folder: Path, world: str, reader: str) -> int:
    """Serve one reader of a world until the client disconnects, and return the exit code.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be opened.
    """
    return _serve(READER_ROLE, partial(open_for_reader, folder, world, reader))


def serve_owner(folder: Path, world: str) -> int:
    """Serve the owner of a world until the client disconnects, and return the exit code.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be opened.
    """
    return _serve(OWNER_ROLE, partial(open_for_owner, folder, world))


def _serve(role: Role, open_library: Callable[[], OpenedLibrary]) -> int:
    logging.basicConfig(level=logging.WARNING, handlers=[stderr_handler()], force=True)
    engine = EngineThread(open_library)
    with standard_pipes() as (source, target):
        code = asyncio.run(_run(role, engine, source, target))
        if not engine.close():
            # A call is still running and cannot be interrupted. What was committed stays.
            sys.stderr.flush()
            os._exit(code)
    if engine.failure:
        raise engine.failure
    return code


async def _run(role: Role, engine: EngineThread, source: int, target: int) -> int:
    """Serve until the client disconnects, a signal arrives, or the library cannot be opened."""
    codes: list[int] = []
    incoming = Incoming(source)
    outgoing = Outgoing(target, on_broken=incoming.end)

    def stop(code: int) -> None:
        codes.append(code)
        incoming.end()

    for number, code in SIGNALS.items():
        with contextlib.suppress(NotImplementedError):  # Windows has no such signals.
            asyncio.get_running_loop().add_signal_handler(number, stop, code)
    engine.start(on_failure=incoming.end)
    incoming.start(outgoing)
    server = make_server(role, lambda _, work: engine.run(work))
    await server.run(incoming, outgoing, server.create_initialization_options())
    return codes[0] if codes else 0
