"""Comparison of the number of points in the index with the store.

A search relies on the index for similarity. An index that lost points returns less, which looks
like a query that nothing matches. If a search returned less than it could have, the points in its
scope are counted and compared with the store.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.protocols import Clock, VectorIndex
from truespan.types.scope import Scope, World

if TYPE_CHECKING:
    from truespan.store import Store

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
            return missing if store.is_unchanged(world) else 0
        with self._lock:
            if len(self._trusted) >= _MAX_TRUSTED:
                self._trusted.clear()
            self._trusted[key] = now
        return 0
