"""Vectors as little-endian float32 bytes, and as the numbers they stand for, bit for bit."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable


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
