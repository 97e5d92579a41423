"""The scale of similarities: float32, as the index computes them."""

from __future__ import annotations

from struct import pack, unpack

SCORE_DECIMALS = 6


def as_float32(value: float) -> float:
    """Return the float32 number nearest to `value`: the one an index would compare with."""
    return unpack("<f", pack("<f", value))[0]


def shown(score: float) -> float:
    """Return a score as results show and rank it: within [0, 1], at six decimals.

    Rounding error can put a cosine a little outside the range; comparing happens before this.
    """
    return min(max(round(score, SCORE_DECIMALS), 0.0), 1.0)
