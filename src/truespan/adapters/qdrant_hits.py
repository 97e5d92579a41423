"""What every Qdrant index does around a request: checks before it, similarities after it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from truespan.adapters.qdrant_score import float32, similarity
from truespan.adapters.vector_bytes import numbers_of
from truespan.errors import IndexRefused
from truespan.model.chunk import Vector
from truespan.model.ids import ChunkId, TextHash
from truespan.model.trail import Hit

T = TypeVar("T")


def hits_of(
    found: Sequence[tuple[str, float, str]], distance: str, floor: float | None
) -> list[Hit]:
    """Return ids, raw scores and hashes as hits; those below the floor are left out once more."""
    least = -math.inf if floor is None else float32(floor)
    scored = [(id, similarity(raw, distance), text_hash) for id, raw, text_hash in found]
    return [
        Hit(ChunkId(id), score, TextHash(text_hash))
        for id, score, text_hash in scored
        if score >= least
    ]


def check_length(vector: Vector, size: int) -> None:
    """Refuse a vector that the collection cannot hold."""
    if len(vector) != 4 * size:
        raise IndexRefused(
            f"A vector has {len(vector) / 4:g} dimensions; the collection has {size}."
        )


def check_vector(vector: Vector, size: int) -> None:
    """Refuse what an index would answer with an empty result, or could not even be sent."""
    check_length(vector, size)
    # The sum of float32 numbers fits a float64, so it is finite exactly when all of them are.
    if not math.isfinite(sum(numbers_of(vector))):
        raise IndexRefused("A vector holds numbers that are not finite.")


def slices(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """Give items in order, at most `size` at a time."""
    rest = iter(items)
    while part := tuple(islice(rest, size)):
        yield part
