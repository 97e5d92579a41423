"""What a look at vectors tells: that one is sound, how alike two are, what several share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truespan.model.chunk import Vector

LEAST_NORM = 1e-6


def is_sound(vector: Vector, dimensions: int) -> bool:
    """Say whether a vector has the right length, is finite and is not zero."""
    if len(vector) != dimensions * 4:
        return False
    numbers = np.frombuffer(vector, dtype="<f4").astype(np.float64)
    square = float(numbers @ numbers)
    # One comparison catches everything: NaN and infinity survive squaring and summing.
    return LEAST_NORM**2 < square < float("inf")


def cosine(one: Vector, other: Vector) -> float:
    """Return how alike two vectors are; 0 if they cannot be compared."""
    if len(one) != len(other):
        return 0.0
    first = np.frombuffer(one, dtype="<f4").astype(np.float64)
    second = np.frombuffer(other, dtype="<f4").astype(np.float64)
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if 0 < norms < float("inf") else 0.0


def mean(vectors: Sequence[Vector], weights: Sequence[int]) -> Vector:
    """Return the weighted mean of sound vectors, with the length one.

    Each vector counts by its direction and its weight, so a provider that does not scale its
    vectors makes no part of a text louder than another.
    """
    rows = np.stack([np.frombuffer(vector, dtype="<f4") for vector in vectors]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.asarray(weights, dtype=np.float64) @ rows
    length = float(np.linalg.norm(total))
    # Parts that cancel out have no common direction; the check on vectors refuses what is left.
    scaled = total / length if length > 0 else total
    return Vector(scaled.astype("<f4").tobytes())
