"""The engine behind the tools: opened under an authority, asked on one thread, closed in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import truespan
from truespan.model.ids import WorldId
from truespan.model.scope import OWNER, Verb

if TYPE_CHECKING:
    from truespan.library import Library

Answer = TypeVar("Answer")

PATIENCE = 1.5
"""Seconds that a running call is waited for at the end; clients kill after two."""


class Engine:
    """A library and what of it the tools are given: a reader, or a world.

    The engine is synchronous and the server is not, so calls run on a thread, one after another. A
    call that its client gave up runs to its end there, and its result is dropped.
    """

    def __init__(self, library: Library, subject: Any) -> None:
        self._library = library
        self._subject = subject
        self._thread = ThreadPoolExecutor(1, "truespan-engine")
        self._busy = threading.Lock()

    async def run(self, call: Callable[[Any], Answer]) -> Answer:
        """Return what a call gives."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._alone, call)

    def close(self) -> bool:
        """Let go of the library; False if a call is still at work on it."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if not self._busy.acquire(timeout=PATIENCE):
            return False
        self._library.close()
        return True

    def _alone(self, call: Callable[[Any], Answer]) -> Answer:
        with self._busy:
            return call(self._subject)


def open_for_reader(folder: Path, world: str, reader: str) -> Engine:
    """Open a library so that it can be read as this reader of this world, and in no other way.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound, InvalidSettings: it cannot be.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
        name = found.reader(reader).name
        authority = OWNER.as_reader(WorldId(found.id), name)
    library = truespan.open(folder, authority=authority)
    return Engine(library, library.world(found.id).reader(name))


def open_for_owner(folder: Path, world: str) -> Engine:
    """Open a library so that this world can be searched, and nothing else be done.

    Raises:
        LibraryNotFound, InvalidConfiguration, WorldNotFound: it cannot be.
    """
    with truespan.open(folder) as library:
        found = library.world(world)
        authority = OWNER.narrow(worlds=[WorldId(found.id)], verbs=[Verb.READ])
    library = truespan.open(folder, authority=authority)
    return Engine(library, library.world(found.id))
