"""Vectors as little-endian float32 bytes, and as the numbers they stand for, bit for bit."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import cast

from truespan.types.chunk import Vector

LEAST_LENGTH = 1e-6
"""A vector shorter than this is taken for zero, here as in the checks that follow."""
NO_VECTOR = Vector(b"")
"""Stands for a vector that a provider did not give; every check on vectors refuses it."""


def numbers_of(vector: bytes) -> array[float]:
    """Return the numbers of a vector."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def bytes_of(numbers: Iterable[float]) -> bytes:
    """Return numbers as a vector; each must be one that a float32 can hold."""
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unit_vector(numbers: Sequence[float | None] | None) -> Vector:
    """Return a vector of length one, computed in double precision and rounded once.

    The profile's cosine is taken over unit vectors. Not every provider scales them, and some do not
    when dimensions are cut. What cannot be scaled stays as it is, and what is not all numbers is no
    vector, for the checks that follow to refuse: the other texts of a batch are not lost with it.
    """
    if numbers is None or None in numbers:
        return NO_VECTOR
    known = cast("Sequence[float]", numbers)
    length = math.hypot(*known)
    if not LEAST_LENGTH < length < math.inf:
        return Vector(bytes_of(known))
    return Vector(bytes_of(number / length for number in known))
