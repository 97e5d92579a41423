"""Whether paired differences could be chance: two tests that give the same answer every time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_256
from itertools import compress
from math import comb

EQUAL_WITHIN = 1e-9
"""Differences of means and figures that are rounding, not change."""
ROUNDS = 10_000
_EXACT_UP_TO = 16
_SCALE = 10**9
_LOWEST_BIT = bytes(value & 1 for value in range(256))


def sign_test(better: int, worse: int) -> float:
    """Return how likely so uneven a split is, or a more uneven one, if both were as likely.

    Exact and two-sided; queries that did not change tell nothing and are left out.
    """
    count = better + worse
    tail = sum(comb(count, place) for place in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**count)


def randomisation_test(differences: Sequence[float], *, seed: int, rounds: int = ROUNDS) -> float:
    """Return how likely so large a mean difference is if each difference might as well be reversed.

    Two-sided. With few differences every way of reversing them is tried; with more, as many as
    there are `rounds`, chosen by `seed` alone. Sums are of whole numbers, so that neither the
    order of adding nor the machine decides a tie.
    """
    whole = [round(value * _SCALE) for value in differences if abs(value) > EQUAL_WITHIN]
    if len(whole) <= _EXACT_UP_TO:
        return _exact(whole)
    total = sum(whole)
    bits = shake_256(f"truespan paired randomisation {seed}".encode())
    signs = bits.digest(len(whole) * rounds).translate(_LOWEST_BIT)
    extreme = sum(
        abs(total - 2 * sum(compress(whole, signs[start : start + len(whole)]))) >= abs(total)
        for start in range(0, len(signs), len(whole))
    )
    return (extreme + 1) / (rounds + 1)


def _exact(whole: Sequence[int]) -> float:
    """Return the same over every way of reversing, by how often each sum comes out."""
    sums = {0: 1}
    for value in whole:
        spread: dict[int, int] = {}
        for reached, count in sums.items():
            for step in (reached + value, reached - value):
                spread[step] = spread.get(step, 0) + count
        sums = spread
    extreme = sum(count for reached, count in sums.items() if abs(reached) >= abs(sum(whole)))
    return extreme / 2 ** len(whole)
