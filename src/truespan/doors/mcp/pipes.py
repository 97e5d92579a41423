"""The two pipes of a server that a client started: one line of JSON is one message.

They do what the SDK's own do and hand over the same messages, with three differences: reading can
be ended from inside, which a signal needs; a line that is no message is answered with an error,
not with silence; and a message crosses threads once, not three times.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import msgspec
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, jsonrpc_message_adapter

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
