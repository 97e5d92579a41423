"""Vectors of texts and states of words, stored as bytes: conversion, validation and similarity.

numpy is imported on first use to keep start-up fast.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from math import fsum, hypot, inf, sqrt
from operator import mul
from typing import TYPE_CHECKING, NewType, cast

from msgspec import Struct

from truespan.types.profile import Distance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MIN_NORM = 1e-6
"""Minimum length of a vector; a shorter one is treated as zero."""
Vector = NewType("Vector", bytes)
"""A vector as little-endian float32 numbers, exactly as it is stored and compared."""
NO_VECTOR = Vector(b"")
"""Placeholder for a missing vector; validation refuses it."""
_FEW = 16
"""Below this number of vectors, accumulating column by column is faster."""


def numbers_of(vector: bytes) -> array[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def bytes_of(numbers: Iterable[float]) -> bytes:
    """Return numbers as float32 bytes; each must be in the range of a float32."""
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unit_vector(numbers: Sequence[float | None] | None) -> Vector:
    """Return the unit vector of numbers, computed in double precision and rounded once.

    Not every provider returns unit vectors, and some do not if dimensions are cut. A vector that
    cannot be scaled is returned unchanged, and one with missing numbers becomes `NO_VECTOR`;
    validation then refuses it without losing the other texts of the batch.
    """
    if numbers is None or None in numbers:
        return NO_VECTOR
    known = cast("Sequence[float]", numbers)
    length = hypot(*known)
    if not MIN_NORM < length < inf:
        return Vector(bytes_of(known))
    return Vector(bytes_of(number / length for number in known))


def norm_of(vector: bytes) -> float:
    """Return the length of a vector; NaN or infinity if one of its numbers is not finite."""
    return hypot(*array("f", vector))


def is_sound(vector: bytes, dimensions: int) -> bool:
    """Return whether a vector has the right length, is finite and is not zero."""
    # The comparison also refuses NaN and infinity.
    return len(vector) == 4 * dimensions and MIN_NORM < norm_of(vector) < inf


def are_sound(vectors: Sequence[bytes], dimensions: int) -> list[bool]:
    """Return `is_sound` for each vector; ten times as fast for many vectors."""
    import numpy as np

    if not all(len(vector) == 4 * dimensions for vector in vectors):
        return [is_sound(vector, dimensions) for vector in vectors]
    rows = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), dimensions)
    # Squares of float32 numbers neither overflow nor underflow in float64.
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return ((norms > MIN_NORM) & (norms < inf)).tolist()


def cosine(first: bytes, second: bytes) -> float:
    """Return the cosine similarity of two vectors; 0 if their lengths differ or one is zero."""
    if len(first) != len(second):
        return 0.0
    norms = norm_of(first) * norm_of(second)
    return float(as_float64(first) @ as_float64(second)) / norms if 0 < norms < inf else 0.0


def similarity_of(a: Vector, b: Vector, distance: Distance) -> float:
    """Return the similarity of two unit vectors.

    It is summed in double precision one pair at a time, because a matrix product may round
    differently depending on the number of vectors.
    """
    raw = sum(map(mul, array("f", a), array("f", b)))
    return raw if distance is Distance.COSINE else (raw + 1) / 2


def similarities_of(a: Vector, others: Sequence[Vector], distance: Distance) -> list[float]:
    """Return the similarity of a unit vector to each of the others.

    The order of summation does not depend on the number of vectors, so no vector changes the
    similarity of another. For many vectors this is faster than one pair at a time.
    """
    import numpy as np

    if not others:
        return []
    columns = np.frombuffer(b"".join(others), "<f4").reshape(len(others), -1).T
    if len(others) < _FEW:
        products = columns.astype(np.float64)
        products *= as_float64(a)[:, None]
        sums = np.add.accumulate(products, axis=0)[-1]
    else:
        # Rows are added one by one; numpy would sum a single column in another order.
        products = columns.astype(np.float64, order="C")
        products *= as_float64(a)[:, None]
        sums = np.add.reduce(products, axis=0)
    return (sums if distance is Distance.COSINE else (sums + 1) / 2).tolist()


def mean_of(vectors: Sequence[Vector]) -> Vector:
    """Return the normalised mean of unit vectors; a single vector is returned unchanged."""
    if len(vectors) == 1:
        return vectors[0]
    sums = [
        fsum(numbers) for numbers in zip(*(array("f", vector) for vector in vectors), strict=True)
    ]
    norm = sqrt(fsum(number * number for number in sums)) or 1.0
    return Vector(array("f", [number / norm for number in sums]).tobytes())


def weighted_mean(vectors: Sequence[Vector], weights: Sequence[int]) -> Vector:
    """Return the weighted mean of sound vectors, scaled to length 1."""
    import numpy as np

    rows = np.stack([as_float64(vector) for vector in vectors])
    # Scale first, so that different lengths do not change the weights.
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.asarray(weights, dtype=np.float64) @ rows
    length = float(np.linalg.norm(total))
    # Vectors that cancel out have no mean; the caller's validation refuses the result.
    scaled = total / length if length > 0 else total
    return Vector(scaled.astype("<f4").tobytes())


def as_float64(vector: bytes) -> np.ndarray:
    """Return the numbers of a vector in double precision."""
    import numpy as np

    return np.frombuffer(vector, dtype="<f4").astype(np.float64)


STATE_SIZE = 128
"""Number of numbers in the row of a word."""
ROW_BYTES = STATE_SIZE // 2
MAX_WORDS = 256
"""Maximum number of rows of a text."""
RECIPE = "2"
"""Version of the rules for states; stored states of another version are computed again."""
ROW_SCALE, ROW_MAX = 24, 7
"""Factor of a number before it is rounded, and the maximum of the rounded number."""
MAX_PRODUCTS = 200_000
"""Maximum number of products that OpenBLAS computes on one thread, less a margin."""
ROW_ZERO = 8
"""Stored form of the number 0."""

WordStates = NewType("WordStates", bytes)
"""Packed rows of the distinct content words of a text, in the order of their first occurrence."""


class QueryStates(Struct, frozen=True):
    """States of the first distinct words of a query, stop words included.

    Words are folded as in `words.terms`, and not stemmed.
    """

    words: tuple[str, ...] = ()
    rows: bytes = b""
    """One packed row for each word; zeros for a word that the model does not read."""


def join_states(parts: Sequence[QueryStates]) -> QueryStates:
    """Return the states of a query from its parts; a repeated word keeps its first row."""
    rows: dict[str, bytes] = {}
    for part in parts:
        for number, word in enumerate(part.words):
            start = number * ROW_BYTES
            rows.setdefault(word, part.rows[start : start + ROW_BYTES])
    words = tuple(rows)[:MAX_WORDS]
    return QueryStates(words, b"".join(rows[word] for word in words))


def pack_rows(rows: np.ndarray) -> bytes:
    """Return unit rows, rounded to four bits a number; the first of two is in the low bits."""
    import numpy as np

    numbers = np.rint(rows * ROW_SCALE).clip(-ROW_MAX, ROW_MAX).astype(np.int8) + ROW_ZERO
    return (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8).tobytes()


def compare_rows(packed: bytes, others: bytes) -> NDArray[np.float64]:
    """Return the cosine of each packed row with each of the others.

    Products of whole numbers are exact, so that a cosine does not depend on the other rows.
    """
    import numpy as np

    pairs = np.frombuffer(packed + others, np.uint8).reshape(-1, ROW_BYTES)
    # Those in low bits, then those in high bits.
    numbers = np.empty((len(pairs), STATE_SIZE), np.float32)
    numbers[:, :ROW_BYTES], numbers[:, ROW_BYTES:] = pairs & 15, pairs >> 4
    numbers -= ROW_ZERO
    rows, columns = np.split(numbers, [len(packed) // ROW_BYTES])
    products = np.empty((len(rows), len(columns)))
    # Larger products would run on the threads of BLAS, which take longer to start.
    size, factor = max(MAX_PRODUCTS // columns.size, 1), np.ascontiguousarray(columns.T)
    for start in range(0, len(rows), size):
        products[start : start + size] = rows[start : start + size] @ factor
    squares = (np.einsum("ij,ij->i", one, one).astype(np.float64) for one in (rows, columns))
    # A row of zeros is similar to nothing.
    return products / np.maximum(np.sqrt(np.outer(*squares)), 1.0)
