"""The engine behind the tools: opened under an authority, asked on one thread, closed in order."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import truespan
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, Verb
from truespan.types.telemetry import Stage

if TYPE_CHECKING:
    from truespan.library import Library
    from truespan.reader import Reader
    from truespan.world import World


@dataclass(frozen=True, slots=True)
class CallerContext:
    """A world whose authority allows what the seat is for and nothing else."""

    world: World
    reader: str | None = None

    def subject(self, on_stage: Callable[[Stage], None] | None = None) -> Reader | World:
        """Return what the tools are given; `on_stage` hears which stage a call comes to."""
        from truespan.observer import StageListener

        world = self.world if on_stage is None else self.world.observed_by(StageListener(on_stage))
        return world if self.reader is None else world.reader(self.reader)


Answer = TypeVar("Answer")

PATIENCE = 1.5
"""Seconds that a running call is waited for at the end; clients kill after two."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A library under a narrow authority, and the place in it from which calls are made."""

    library: Library
    seat: CallerContext


class Engine:
    """Opens a library and runs calls on it, one after another, on a thread of its own.

    The engine is synchronous and the server is not. Opening runs there too, so that the client's
    first request is answered meanwhile. A call that its client gave up runs to its end, if it has
    begun, and its result is dropped.
    """

    def __init__(self, opening: Callable[[], Opened]) -> None:
        self._opening = opening
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="truespan-engine", daemon=True)
        self._on_failure: Callable[[], None] | None = None
        self.failure: Exception | None = None
        """Why the library could not be opened."""

    def begin(self, on_failure: Callable[[], None]) -> None:
        """Start to open the library; `on_failure` is called, on the thread, if that fails."""
        self._on_failure = on_failure
        self._thread.start()

    async def run(self, work: Callable[[CallerContext], Answer]) -> Answer:
        """Return what `work` makes of the reader or world; it must not raise."""
        loop = asyncio.get_running_loop()
        call = _Call(work, loop, loop.create_future())
        self._calls.put(call)
        return await call.answer

    def close(self) -> bool:
        """Let go of the library; False if a call is still at work on it."""
        self._calls.put(None)
        self._thread.join(PATIENCE)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            opened = self._opening()
        except Exception as failure:
            self.failure = failure
            if self._on_failure:
                self._on_failure()
            return
        with opened.library:
            while (call := self._calls.get()) is not None:
                call.run(opened.seat)


@dataclass(frozen=True, slots=True)
class _Call:
    work: Callable[[CallerContext], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]

    def run(self, seat: CallerContext) -> None:
        """Do the work, unless nobody waits for it any more, and hand the answer to the loop."""
        if not self.answer.cancelled():
            found = self.work(seat)
            # When the loop is closed, the client has gone.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._settle, found)

    def _settle(self, found: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(found)


def open_for_reader(folder: Path, world: str, reader: str) -> Opened:
    """Open a library so that it can be read as this reader of this world, and in no other way.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
        name = found.reader(reader).name
    authority = OWNER.as_reader(WorldId(found.id), name)
    library = truespan.open(folder, authority=authority)
    return Opened(library, CallerContext(library.world(found.id), name))


def open_for_owner(folder: Path, world: str) -> Opened:
    """Open a library so that this world can be searched, and nothing else be done.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
    authority = OWNER.narrow(worlds=[WorldId(found.id)], verbs=[Verb.READ])
    library = truespan.open(folder, authority=authority)
    return Opened(library, CallerContext(library.world(found.id)))
