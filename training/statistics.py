"""Figures about scores: the area under a curve, shares beyond a threshold, their intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Labels = NDArray[np.bool_]

_DRAWS = 300


def auc(scores: Scores, labels: Labels) -> float:
    """Return the share of pairs in which the positive one has the higher score; a tie is half."""
    positive, negative = int(labels.sum()), int((~labels).sum())
    if not positive or not negative:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def passed_when_refused(scores: Scores, labels: Labels, refused: float) -> float:
    """Return the share of negatives above the threshold that refuses a share of the positives.

    It is not a number without positives or negatives, as a drawn sample may be.
    """
    if labels.all() or not labels.any():
        return float("nan")
    return float(np.mean(scores[~labels] > np.quantile(scores[labels], refused)))


def threshold_for_passed(scores: Scores, labels: Labels, passed: float) -> float:
    """Return the threshold above which a share of the negatives lies; not a number without any."""
    if labels.all():
        return float("nan")
    return float(np.quantile(scores[~labels], 1 - passed))


def interval(
    figure: Callable[[NDArray[np.intp]], float], groups: NDArray[np.int64], seed: int = 1
) -> tuple[float, float]:
    """Return the 95 % interval of a figure when its groups are drawn again."""
    generator = np.random.default_rng(seed)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    figures = []
    for _ in range(_DRAWS):
        drawn = generator.integers(0, len(members), len(members))
        figures.append(figure(np.concatenate([members[index] for index in drawn])))
    low, high = np.nanquantile(figures, (0.025, 0.975))
    return float(low), float(high)
