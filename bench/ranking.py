"""How good a ranking is, given which documents are relevant: nDCG and recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from statistics import fmean

Judgements = Mapping[str, int]
"""The grade of each relevant document; what is not named has none."""


def ndcg(ranking: Sequence[str], judged: Judgements, cut: int = 10) -> float:
    """Return the discounted gain of the first `cut` places as a share of the best possible."""
    gains = [judged.get(document, 0) for document in ranking[:cut]]
    best = sorted(judged.values(), reverse=True)[:cut]
    return _discounted(gains) / _discounted(best)


def recall(ranking: Sequence[str], judged: Judgements, cut: int = 10) -> float:
    """Return the share of relevant documents among the first `cut` places."""
    relevant = {document for document, grade in judged.items() if grade > 0}
    return len(relevant.intersection(ranking[:cut])) / len(relevant)


def averages(
    rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Judgements]
) -> tuple[float, float]:
    """Return nDCG@10 and recall@10 over all judged queries."""
    pairs = [(rankings[query], judged) for query, judged in judgements.items()]
    return fmean(ndcg(*pair) for pair in pairs), fmean(recall(*pair) for pair in pairs)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains))
