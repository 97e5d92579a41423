"""Filling an empty index from the vectors that the store keeps; no provider is asked anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from truespan.model.chunk import PendingChunk
from truespan.model.scope import Scope
from truespan.ports import TrustedStore, VectorIndex

_PAGE = 512


def refill(store: TrustedStore, index: VectorIndex, scope: Scope) -> int:
    """Write every pending chunk of the world that a vector is kept of, in all its generations.

    Returns how many were written. The rest stays pending, for whoever may ask a provider.
    """
    return sum(
        _refill(store, index, replace(scope, generation=kept.generation))
        for kept in store.kept_generations(scope)
    )


def _refill(store: TrustedStore, index: VectorIndex, scope: Scope) -> int:
    if index.prepare(scope):
        store.forget_index(scope)
    done = 0
    for chunks in _pending(store, scope):
        points = [chunk.point(chunk.vector) for chunk in chunks if chunk.vector is not None]
        if points:
            index.upsert(scope, points)
            index.flush(scope)
            kept = {point.chunk_id for point in points}
            store.mark_embedded(scope, [chunk for chunk in chunks if chunk.chunk_id in kept])
        done += len(points)
    return done


def _pending(store: TrustedStore, scope: Scope) -> Iterator[list[PendingChunk]]:
    for ref in store.unfinished(scope):
        after = -1
        while page := store.pending(scope, ref, after=after, limit=_PAGE):
            after = page[-1].index
            yield page
