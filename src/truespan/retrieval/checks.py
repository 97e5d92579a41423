"""Checks that are repeated only after a while: the model of a provider, the points of the index.

A provider may swap the model behind a name, and another model of the same dimensions gives vectors
that fit and mean nothing. Every world stores the vectors of a few known texts (`PROBES`). One of
them is embedded again after the first query of a process, and then every few minutes. Vectors of
queries that are embedded in between are cached as unconfirmed. The next confirmation by any process
covers them; if the model has changed, they are removed.

A search relies on the index for similarity. An index that lost points returns less, which looks
like a query that nothing matches. If a search returned less than it could have, the points in its
scope are counted and compared with the store.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from truespan.errors import ModelDrifted, StorageFull, StoreBusy
from truespan.protocols import Clock, Embedder, VectorIndex
from truespan.types.chunk import QueryEntry
from truespan.types.ids import WorldId
from truespan.types.scope import Scope, World

if TYPE_CHECKING:
    from truespan.store import Store

CONFIRM_SECONDS = 180.0
"""Time for which a confirmed model counts as unchanged."""


def name_model(scope: Scope, embedder: Embedder) -> str:
    """Return a digest of the model of a scope and of the address where it is reached."""
    return sha256(f"{scope.profile.id} {embedder.endpoint}".encode()).hexdigest()


class _World(NamedTuple):
    world: WorldId
    generation: int


def _world_of(scope: Scope) -> _World:
    return _World(scope.world, scope.generation.number)


# Shared by threads: its tables are changed under a lock, which is not held while a model is asked;
# two threads may confirm a model at once.
class ModelCheck:
    """Confirms the models of remote embedders. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._confirmed: dict[_World, float] = {}
        self._known: set[_World] = set()
        self._turns: Iterator[int] = count()

    def confirm(self, store: Store, clock: Clock, scope: Scope, embedder: Embedder) -> bool:
        """Confirm a model, unless an earlier confirmation counts; return whether that was done.

        A confirmation covers the queries that were cached before it. A local model needs none: it
        is identified by the digest of its files.

        Raises:
            ModelDrifted: the model embeds a known text differently than when the world was built.
                The unconfirmed queries are removed from the cache.
        """
        if not embedder.limits.probed:
            return True
        world, now = _world_of(scope), clock.monotonic()
        with self._lock:
            last = self._confirmed.get(world)
            if last is not None and now - last < CONFIRM_SECONDS:
                return False
            # The model counts as unconfirmed until the comparison ends.
            self._confirmed.pop(world, None)
            turn = next(self._turns)
        model = name_model(scope, embedder)
        # Queries that are cached during the comparison may be those of another model.
        covered = store.records.unconfirmed_queries(scope, model)
        try:
            self._compare(store, clock, scope, embedder, turn)
        except ModelDrifted:
            store.records.discard_unconfirmed_queries(scope, model)
            raise
        with self._lock:
            self._confirmed[world] = now
            self._known.add(world)
        if covered:
            with suppress(StorageFull, StoreBusy):
                store.records.confirm_queries(scope, covered)
        return True

    def knows(self, scope: Scope) -> bool:
        """Return whether this process has confirmed the model of a scope at any time."""
        with self._lock:
            return _world_of(scope) in self._known

    def forget(self, scope: Scope) -> None:
        """Require a new confirmation at the next query, since the provider failed meanwhile."""
        with self._lock:
            self._confirmed.pop(_world_of(scope), None)

    def _compare(
        self, store: Store, clock: Clock, scope: Scope, embedder: Embedder, turn: int
    ) -> None:
        from truespan.ingest.embed import check_probe

        probes = store.records.probes(scope)
        if probes:
            names = sorted(probes)
            check_probe(embedder, clock, probes, names[turn % len(names)])


MAX_RECENT = 256
"""Maximum number of query vectors of a world that wait for the store."""


# Shared by threads: its tables are changed under a lock, which is not held while the store is
# written; two threads may write the same vectors.
class RecentQueries:
    """Query vectors that wait while other writers keep the store busy, by world and generation.

    Threads may share one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._worlds: dict[_World, dict[str, QueryEntry]] = {}

    def find(self, scope: Scope, key: str, *, now: float, ttl: float) -> QueryEntry | None:
        """Return a query that is strictly younger than `ttl`, as the store does."""
        with self._lock:
            found = self._worlds.get(_world_of(scope), {}).get(key)
        return found if found and 0 <= now - found.embedded_at < ttl else None

    def add(self, scope: Scope, entry: QueryEntry) -> None:
        """Keep a vector until it is written; beyond the maximum, drop the oldest."""
        with self._lock:
            recent = self._worlds.setdefault(_world_of(scope), {})
            recent[entry.key] = entry
            for key in [*recent][: max(len(recent) - MAX_RECENT, 0)]:
                del recent[key]

    def discard_unconfirmed(self, scope: Scope) -> None:
        """Drop the vectors of a model that has changed."""
        with self._lock:
            recent = self._worlds.get(_world_of(scope), {})
            for entry in [*recent.values()]:
                if entry.unconfirmed:
                    del recent[entry.key]

    def write(self, store: Store, scope: Scope, now: float) -> None:
        """Write the vectors to the store, unless it is full or busy."""
        world = _world_of(scope)
        with self._lock:
            entries = [*self._worlds.get(world, {}).values()]
        if not entries:
            return
        with suppress(StorageFull, StoreBusy):
            store.records.cache_queries(scope, entries, now=now)
            with self._lock:
                recent = self._worlds.get(world, {})
                for entry in entries:
                    if recent.get(entry.key) is entry:
                        del recent[entry.key]
                if not recent:
                    self._worlds.pop(world, None)


TRUSTED_SECONDS = 10.0
"""Time for which a complete index is not counted again, if a search found something."""
_MAX_TRUSTED = 1024


# Shared by threads: its table is changed under a lock, which is not held while the index is asked;
# two threads may count at once.
class CompletenessCheck:
    """Counts points, and remembers complete scopes for a while. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._trusted: dict[Hashable, float] = {}

    def missing_points(
        self,
        store: Store,
        index: VectorIndex,
        clock: Clock,
        scope: Scope,
        world: World,
        stored: int,
        *,
        repeat: bool,
    ) -> int:
        """Return the number of the `stored` chunks of a scope that have no point.

        With `repeat`, points are counted even if the scope was complete a moment ago. Only points
        in the documents of the scope are counted, and only up to its position: a reader learns
        nothing about text past it.
        """
        scope = replace(scope, chapter=None, section=None)
        key = scope.tenant, scope.documents, scope.position, stored
        now = clock.monotonic()
        with self._lock:
            if not repeat and now - self._trusted.get(key, -TRUSTED_SECONDS) < TRUSTED_SECONDS:
                return 0
        missing = stored - index.count_within(scope)
        if missing > 0:
            # A document that was deleted meanwhile has neither chunks nor points.
            return missing if store.worlds.is_unchanged(world) else 0
        with self._lock:
            if len(self._trusted) >= _MAX_TRUSTED:
                self._trusted.clear()
            self._trusted[key] = now
        return 0
