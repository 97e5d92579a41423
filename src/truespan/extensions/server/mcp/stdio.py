"""MCP over standard input and output, in a process that the client starts.

The SDK's own streams cannot be used: they cannot be ended by a signal, they ignore a line that is
not a message instead of replying with an error, and they would write before the library is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from anyio import EndOfStream
from anyio.abc import ObjectReceiveStream, ObjectSendStream

import truespan
from truespan.core.strict_json import require_unique_keys
from truespan.extensions.server.mcp.caller import (
    NOTHING_WRITTEN,
    WRITING,
    CallerContext,
    Role,
    WritePermissions,
    narrow_caller,
)
from truespan.extensions.server.mcp.sdk import SessionMessage, types
from truespan.extensions.server.mcp.server import (
    SHUTDOWN_SECONDS,
    Work,
    make_server,
    parse_error,
    stderr_handler,
)
from truespan.extensions.server.mcp.tools import role_for
from truespan.types.audience import check_labels
from truespan.types.ids import WorldId
from truespan.types.request import check_reader_name
from truespan.types.scope import OWNER, Verb
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.engine.library import Library

_BLOCK = 1 << 16
FLUSH_SECONDS = 1.0
STDIN, STDOUT, STDERR = 0, 1, 2
SIGNALS = {signal.SIGTERM: 0, signal.SIGINT: 130}
"""The signals that end the process, and its exit codes."""


@contextlib.contextmanager
def standard_pipes() -> Iterator[tuple[int, int]]:
    """Give standard input and output to the protocol exclusively.

    Meanwhile the usual descriptors are redirected: reading gives nothing, and what Python, a
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


class Outgoing(ObjectSendStream[SessionMessage]):
    """Messages to the client, written on a thread so that a slow client blocks nothing else.

    Nothing is written before the library is open: a server that cannot serve sends nothing.
    """

    def __init__(
        self,
        target: int,
        opening: Future[Any],
        *,
        on_first: Callable[[], object],
        on_broken: Callable[[], None],
    ) -> None:
        self._target = target
        self._opening = opening
        self._on_first = on_first
        self._on_broken = on_broken
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="truespan-out", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCResponse):
            # Results are the largest messages, and slow to encode with pydantic.
            response = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
            self.put(msgspec.json.encode(response) + b"\n")
        else:
            line = message.model_dump_json(by_alias=True, exclude_unset=True)
            self.put(line.encode() + b"\n")

    def put(self, line: bytes) -> None:
        self._lines.put(line)

    async def aclose(self) -> None:
        """Write the queued lines, within a time limit."""
        self._lines.put(None)
        self._thread.join(FLUSH_SECONDS)

    def _write(self) -> None:
        if self._opening.exception():
            return
        try:
            is_first = True
            while (line := self._lines.get()) is not None:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._target, rest) :]
                if is_first:
                    is_first = False
                    self._on_first()
        except OSError:
            # The client has disconnected.
            self._on_broken()


class Incoming(ObjectReceiveStream[SessionMessage]):
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
        """Return the next message."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
            raise EndOfStream
        return message

    async def aclose(self) -> None:
        """Do nothing: the pipe belongs to the process."""

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
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            require_unique_keys(line)
        except ValueError as error:
            outgoing.put(parse_error(error) + b"\n")
            return
        self._loop.call_soon_threadsafe(self._messages.put_nowait, SessionMessage(message))


def open_narrowed(
    folder: Path,
    world: str | None,
    reader: str | None,
    permissions: WritePermissions = NOTHING_WRITTEN,
    audience: Sequence[str] | None = None,
) -> tuple[Library, CallerContext]:
    """Open a library with an authority to read one world only, or only as one of its readers.

    If the permissions let this caller write, the context has a second world for that.
    """
    with truespan.open(folder) as library:
        found = library.world(world, create=False)
        name = None if reader is None else check_reader_name(reader)
    world_id = WorldId(found.id)
    if permissions.allow(name):
        authority = OWNER.narrow(worlds=[world_id], verbs=[*WRITING, Verb.FOLLOW])
    elif name is None:
        authority = OWNER.narrow(worlds=[world_id], verbs=[Verb.READ])
    else:
        authority = OWNER.as_reader(world_id, name)
    if audience:
        authority = Principal(None, authority).for_audience(check_labels(audience)).authority
    library = truespan.open(folder, authority=authority)
    return library, narrow_caller(library, authority, world_id, name, permissions)


def serve_stdio(
    folder: Path,
    world: str | None,
    reader: str | None,
    permissions: WritePermissions = NOTHING_WRITTEN,
    audience: Sequence[str] | None = None,
) -> int:
    """Serve a reader of a world, or its owner, until the client disconnects; return the exit code.

    With an `audience`, only documents for everyone and for one of its labels are served.
    The library is opened, used and closed on one thread, and nothing is written before it is open.
    A running call that the client cancels runs to its end, and its result is dropped.
    """
    logging.basicConfig(level=logging.WARNING, handlers=[stderr_handler()], force=True)
    role = role_for(reader, permissions)
    engine = ThreadPoolExecutor(1, "truespan-engine")
    with standard_pipes() as (source, target):
        opening = engine.submit(open_narrowed, folder, world, reader, permissions, audience)

        def finish_start() -> object:
            return engine.submit(_finish_start, reader)

        code = asyncio.run(_run(role, engine, opening, source, target, finish_start))
        closing = engine.submit(lambda: opening.result()[0].close())
        if not wait([closing], SHUTDOWN_SECONDS).done:
            # A call is still running and cannot be interrupted. What was committed stays.
            sys.stderr.flush()
            os._exit(code)
    closing.result()
    return code


def _finish_start(reader: str | None) -> None:
    """Import the modules for a reader's first call while the client reads the first reply.

    From then on garbage is collected, except among the modules that are loaded.
    """
    if reader is not None:
        import truespan.engine.reader  # noqa: F401
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


async def _run(
    role: Role,
    engine: ThreadPoolExecutor,
    opening: Future[tuple[Library, CallerContext]],
    source: int,
    target: int,
    finish_start: Callable[[], object],
) -> int:
    """Serve until the client disconnects, a signal arrives, or the library cannot be opened."""
    loop, codes = asyncio.get_running_loop(), list[int]()
    incoming = Incoming(source)
    outgoing = Outgoing(target, opening, on_first=finish_start, on_broken=incoming.end)

    def stop(code: int) -> None:
        codes.append(code)
        incoming.end()

    def on_opened(opened: Future[Any]) -> None:
        if opened.exception():
            incoming.end()

    async def run(_request: Any, work: Work) -> Any:
        if not opening.done():
            await asyncio.wait({asyncio.wrap_future(opening)})
        if opening.exception():
            # The server is about to end, and the command reports the error.
            await asyncio.Event().wait()
        return await loop.run_in_executor(engine, work, opening.result()[1])

    for number, code in SIGNALS.items():
        loop.add_signal_handler(number, stop, code)
    opening.add_done_callback(on_opened)
    incoming.start(outgoing)
    server = make_server(role, run)
    await server.run(incoming, outgoing, server.create_initialization_options())
    return codes[0] if codes else 0
