"""Metrics of a ranking, their averages, and tests of significance.

The formulas are those of trec_eval, so that the numbers compare with published ones: precision
divides by k even if fewer documents were returned, gains are the grades themselves, and documents
without a judgement count as irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import shake_256
from itertools import compress
from math import comb, fsum, log2

NDCG_CUT = 10


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """The metrics of one query; None where there is nothing to judge by.

    A query that expects documents has all but `phrase_hit`, one that expects phrases has that; hit
    and reciprocal rank go by the documents, or by passages where phrases alone are expected.
    """

    hit: float | None = None
    reciprocal_rank: float | None = None
    recall: float | None = None
    precision: float | None = None
    ndcg: float | None = None
    phrase_hit: float | None = None


NAMES = tuple(field.name for field in fields(QueryMetrics))
"""Every metric, in the order in which tables show them."""
LABELS = {
    "hit": "hit rate",
    "reciprocal_rank": "MRR",
    "recall": "recall@k",
    "precision": "precision@k",
    "ndcg": f"nDCG@{NDCG_CUT}",
    "phrase_hit": "phrase hits",
}


def document_metrics(ranking: Sequence[str], grades: Mapping[str, int], top_k: int) -> QueryMetrics:
    """Return the metrics of a ranking without repetitions; none if no document is relevant."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    if not relevant:
        return QueryMetrics()
    rank = first_rank(document in relevant for document in ranking[:top_k])
    found = len(relevant.intersection(ranking[:top_k]))
    return QueryMetrics(
        hit=float(rank is not None),
        reciprocal_rank=1 / rank if rank else 0.0,
        recall=found / len(relevant),
        precision=found / top_k,
        ndcg=ndcg(ranking, grades),
    )


def phrase_metrics(rank: int | None) -> QueryMetrics:
    """Return the metrics of a query by the rank of the first passage that contains a phrase."""
    hit = float(rank is not None)
    return QueryMetrics(hit=hit, reciprocal_rank=1 / rank if rank else 0.0, phrase_hit=hit)


def first_rank(holds: Iterable[bool]) -> int | None:
    """Return the place, counted from 1, of the first true value; None if there is none."""
    return next((place for place, one in enumerate(holds, start=1) if one), None)


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], cut: int = NDCG_CUT) -> float:
    """Return the discounted gain of the first `cut` places as a share of the best possible."""
    ideal = sorted(grades.values(), reverse=True)[:cut]
    gains = [grades.get(document, 0) for document in ranking[:cut]]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return fsum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def normalize_text(text: str) -> str:
    """Return a text as phrases are compared: in one case, white space and line breaks as one."""
    return " ".join(text.casefold().split())


def phrase_matcher(phrases: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a passage contains any of these phrases."""
    wanted = [normalize_text(phrase) for phrase in phrases]

    def holds(passage: str) -> bool:
        plain = normalize_text(passage)
        return any(phrase in plain for phrase in wanted)

    return holds


def averages(judged: Sequence[QueryMetrics]) -> QueryMetrics:
    """Return each metric's mean over the queries that have it; None if none has."""
    return QueryMetrics(**{name: mean(getattr(one, name) for one in judged) for name in NAMES})


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are there; None when there is none."""
    there = [value for value in values if value is not None]
    return fsum(there) / len(there) if there else None


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
