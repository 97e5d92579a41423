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
from truespan.types.ids import WorldId
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

CONFIRM_SECONDS = 180.0
"""How long a model is taken to be unchanged."""


class _World(NamedTuple):
    world: WorldId
    generation: int


class ModelCheck:
    """Confirms the models of remote embedders. Threads may share one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._confirmed: dict[_World, float] = {}
        self._turns: Iterator[int] = count()

    def confirm(self, store: Store, clock: Clock, scope: Scope, embedder: Embedder) -> bool:
        """Confirm a model, unless an earlier confirmation counts; return whether that was done.

        A local model needs no confirmation: it is identified by the digest of its files.

        Raises:
            ModelDrifted: the model embeds a known text differently than when the world was built.
        """
        if not embedder.limits.joint:
            return True
        world, now = _World(scope.world, scope.generation.number), clock.monotonic()
        with self._lock:
            last = self._confirmed.get(world)
            if last is not None and now - last < CONFIRM_SECONDS:
                return False
            # Until this is decided, nothing counts as confirmed.
            self._confirmed.pop(world, None)
            turn = next(self._turns)
        self._compare(store, clock, scope, embedder, turn)
        with self._lock:
            self._confirmed[world] = now
        return True

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
