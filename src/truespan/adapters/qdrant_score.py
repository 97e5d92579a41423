"""Qdrant's raw scores and our similarity scale, and the floor as Qdrant must be told it.

Cosine is the similarity itself; a dot product of unit vectors is mapped to (raw + 1) / 2. Scores
are float32 numbers, so a floor is rounded to one: the score that shows as 0.3 reaches a floor of
0.3. Nothing here clamps, since a clamped score could cross a floor.
"""

from __future__ import annotations

import struct

from truespan.model.scale import float32

_SIGN = 0x8000_0000
_ROUNDED_AWAY = 2**-52


def similarity(raw: float, distance: str) -> float:
    """Return a raw score of this distance on the similarity scale."""
    return raw if distance == "cosine" else (raw + 1) / 2


def threshold(floor: float, distance: str) -> float:
    """Return the raw score threshold that keeps every hit at `floor`.

    Qdrant keeps what lies strictly above its threshold, so it is told the next smaller number. That
    may let through a little more than `floor` does: callers hold each similarity against
    `float32(floor)` once again.
    """
    least = float32(floor)
    if distance == "cosine":
        return _next_smaller(least)
    # Raw scores a hair below zero are lost in (raw + 1) / 2 and come out as exactly 0.5.
    return _next_smaller(float32(2 * least - 1 - _ROUNDED_AWAY))


def _next_smaller(value: float) -> float:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if value == 0:
        bits = _SIGN | 1
    elif bits & _SIGN:
        bits += 1
    else:
        bits -= 1
    return struct.unpack("<f", struct.pack("<I", bits))[0]
