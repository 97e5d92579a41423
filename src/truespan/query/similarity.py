"""The scale of similarities: float32, as the index computes them."""

from __future__ import annotations

from array import array
from operator import mul

from truespan.model.chunk import Vector
from truespan.model.profile import Distance

SCORE_DECIMALS = 6


def similarity_of(one: Vector, other: Vector, distance: Distance) -> float:
    """Return the similarity of two unit vectors, as a function of these two alone.

    Summed in double precision, one pair at a time: a faster product of many at once may round
    differently depending on how many there are.
    """
    raw = sum(map(mul, array("f", one), array("f", other)))
    return raw if distance is Distance.COSINE else (raw + 1) / 2


def shown(score: float) -> float:
    """Return a score as results show and rank it: within [0, 1], at six decimals.

    Rounding error can put a cosine a little outside the range; comparing happens before this.
    """
    return min(max(round(score, SCORE_DECIMALS), 0.0), 1.0)
