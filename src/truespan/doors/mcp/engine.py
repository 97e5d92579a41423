"""The engine behind the tools: opened under an authority, asked on one thread, closed in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import truespan
from truespan.model.ids import WorldId
from truespan.model.scope import OWNER, Verb

if TYPE_CHECKING:
    from truespan.library import Library, World
    from truespan.reader import Reader

Answer = TypeVar("Answer")

PATIENCE = 1.5
"""Seconds that a running call is waited for at the end; clients kill after two."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A library under a narrow authority, and what of it the tools are given."""

    library: Library
    subject: Reader | World


class Engine:
    """Opens a library and runs calls on it, one after another, on a thread of its own.

    The engine is synchronous and the server is not. Opening runs there too, so that the client's
    first request is answered meanwhile. A call that its client gave up runs to its end, and its
    result is dropped.
    """

    def __init__(self, opening: Callable[[], Opened]) -> None:
        self._thread = ThreadPoolExecutor(1, "truespan-engine")
        self._busy = threading.Lock()
        self.opening: Future[Opened] = self._thread.submit(self._alone, opening)

    async def run(self, call: Callable[[Any], Answer]) -> Answer:
        """Return what a call gives.

        Raises:
            TruespanError: the library could not be opened.
        """
        work = self._thread.submit(self._alone, lambda: call(self.opening.result().subject))
        return await asyncio.wrap_future(work)

    def close(self) -> bool:
        """Let go of the library; False if a call is still at work on it."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if not self._busy.acquire(timeout=PATIENCE):
            return False
        if self.opening.done() and self.opening.exception() is None:
            self.opening.result().library.close()
        return True

    def _alone(self, work: Callable[[], Answer]) -> Answer:
        with self._busy:
            return work()


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
    return Opened(library, library.world(found.id).reader(name))


def open_for_owner(folder: Path, world: str) -> Opened:
    """Open a library so that this world can be searched, and nothing else be done.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
    authority = OWNER.narrow(worlds=[WorldId(found.id)], verbs=[Verb.READ])
    library = truespan.open(folder, authority=authority)
    return Opened(library, library.world(found.id))
