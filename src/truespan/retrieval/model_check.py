"""Whether a provider still has the model that a world was embedded with.

A provider may swap the model behind a name, and another model of the same dimensions gives vectors
that fit and mean nothing. Every world stores the vectors of a few known texts (`PROBES`). One of
them is embedded again after the first query of a process, and then every few minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from truespan.protocols import Clock, Embedder
from truespan.types.chunk import Vector
from truespan.types.ids import WorldId
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

CONFIRM_SECONDS = 180.0
"""How long a model is taken to be unchanged."""
MOST_WAITING = 256
"""Query vectors of a world that wait to be cached."""


class QueryEntry(NamedTuple):
    """The vector of a query, and its key in the cache."""

    key: str
    vector: Vector


class _World(NamedTuple):
    world: WorldId
    generation: int


class ModelCheck:
    """Confirms the models of remote embedders. Threads may share one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._confirmed: dict[_World, float] = {}
        self._waiting: dict[_World, list[QueryEntry]] = {}
        self._turns: Iterator[int] = count()

    def confirm(
        self, store: Store, clock: Clock, scope: Scope, embedder: Embedder, entry: QueryEntry
    ) -> list[QueryEntry]:
        """Return the query vectors that may be cached now: those of a model confirmed since.

        `entry` was just embedded. While an earlier confirmation counts, it waits for the next one.

        Raises:
            ModelDrifted: the model embeds a known text differently than when the world was built.
        """
        if not embedder.limits.joint:
            # A local model is identified by the digest of its files.
            return [entry]
        world, now = _World(scope.world, scope.generation.number), clock.monotonic()
        with self._lock:
            last = self._confirmed.get(world)
            if last is not None and now - last < CONFIRM_SECONDS:
                waiting = self._waiting.setdefault(world, [])
                del waiting[: max(len(waiting) + 1 - MOST_WAITING, 0)]
                waiting.append(entry)
                return []
            # Until this is decided, nothing counts as confirmed.
            earlier = self._waiting.pop(world, [])
            self._confirmed.pop(world, None)
            turn = next(self._turns)
        self._compare(store, clock, scope, embedder, turn)
        with self._lock:
            self._confirmed[world] = now
        return [*earlier, entry]

    def forget(self, scope: Scope) -> None:
        """Confirm the model again at the next query: its provider failed, so it may be another."""
        with self._lock:
            self._confirmed.pop(_World(scope.world, scope.generation.number), None)

    def _compare(
        self, store: Store, clock: Clock, scope: Scope, embedder: Embedder, turn: int
    ) -> None:
        from truespan.ingest.embed import check_probe

        probes = store.probes(scope)
        if probes:
            names = sorted(probes)
            check_probe(embedder, clock, probes, names[turn % len(names)])
