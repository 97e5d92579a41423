"""The vectors of queries that this process has and the store does not have yet.

The vector of a remote model is written to the store only after the model has been confirmed since.
Until then, and while other writers keep the store busy, it is used from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, field

from truespan.errors import StorageFull, StoreBusy
from truespan.types.chunk import QueryEntry, Vector
from truespan.types.ids import WorldId
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

MAX_RECENT = 256
"""Maximum number of query vectors of a world that wait for their model, or for the store."""


class _Recent(Struct):
    waiting: dict[str, QueryEntry] = field(default_factory=dict)
    """Those whose model has not been confirmed since."""
    confirmed: dict[str, QueryEntry] = field(default_factory=dict)
    """Those that can be written."""


class RecentQueries:
    """Query vectors by world and generation. Threads may share one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._worlds: dict[tuple[WorldId, int], _Recent] = {}

    def find(self, scope: Scope, key: str, *, now: float, ttl: float) -> Vector | None:
        """Return a vector that is strictly younger than `ttl`, as the store does."""
        with self._lock:
            recent = self._worlds.get((scope.world, scope.generation.number))
            found = recent and (recent.waiting.get(key) or recent.confirmed.get(key))
        return found.vector if found and 0 <= now - found.embedded_at < ttl else None

    def waiting(self, scope: Scope) -> list[QueryEntry]:
        """Return the vectors that the next confirmation of their model covers."""
        with self._lock:
            recent = self._worlds.get((scope.world, scope.generation.number))
            return [*recent.waiting.values()] if recent else []

    def add(self, scope: Scope, entries: Iterable[QueryEntry], *, confirmed: bool) -> None:
        """Keep vectors until they are written; of too many, the oldest are dropped."""
        with self._lock:
            recent = self._worlds.setdefault((scope.world, scope.generation.number), _Recent())
            chosen = recent.confirmed if confirmed else recent.waiting
            for entry in entries:
                recent.waiting.pop(entry.key, None)
                chosen[entry.key] = entry
            for key in [*chosen][: max(len(chosen) - MAX_RECENT, 0)]:
                del chosen[key]

    def discard_waiting(self, scope: Scope) -> None:
        """Drop the vectors whose model turned out to be another one."""
        with self._lock:
            if recent := self._worlds.get((scope.world, scope.generation.number)):
                recent.waiting.clear()

    def write(self, store: Store, scope: Scope, now: float) -> None:
        """Write confirmed vectors to the store, unless it is full or busy: nothing waits for it."""
        world = scope.world, scope.generation.number
        with self._lock:
            recent = self._worlds.get(world)
            entries = [*recent.confirmed.values()] if recent else []
        if not entries:
            return
        with suppress(StorageFull, StoreBusy):
            store.cache_queries(scope, entries, now=now)
            with self._lock:
                recent = self._worlds.get(world, _Recent())
                for entry in entries:
                    if recent.confirmed.get(entry.key) is entry:
                        del recent.confirmed[entry.key]
                if not recent.waiting and not recent.confirmed:
                    self._worlds.pop(world, None)
