"""The scale of similarities, and the scores of each distance on it.

Scores are float32 numbers, so thresholds are rounded to one before the two are compared: a score
that shows as 0.58 reaches a threshold of 0.58.
"""

from __future__ import annotations

from math import inf
from struct import pack, unpack

from truespan.model.profile import Distance

_MOST_DIGITS = 9
"""So many significant digits tell any two float32 numbers apart."""


def float32(value: float) -> float:
    """Return the float32 number nearest to `value`."""
    try:
        return unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return inf if value > 0 else -inf


def reaches(score: float, threshold: float) -> bool:
    """Tell whether a score is at or above a threshold, both as float32 numbers."""
    return float32(score) >= float32(threshold)


def shortest(value: float) -> float:
    """Return the number with the fewest digits that is the same float32 as `value`."""
    wanted = float32(value)
    for digits in range(1, _MOST_DIGITS):
        candidate = float(f"{wanted:.{digits}g}")
        if float32(candidate) == wanted:
            return candidate
    return float(f"{wanted:.{_MOST_DIGITS}g}")


def normalised(raw: float, distance: Distance) -> float:
    """Return a raw score as a similarity: a cosine as it is, a dot product as (raw + 1) / 2."""
    return (raw + 1) / 2 if distance is Distance.DOT else raw


def raw_score(similarity: float, distance: Distance) -> float:
    """Return the raw score that has this similarity."""
    return 2 * similarity - 1 if distance is Distance.DOT else similarity
