"""Compare two evaluations of the same golden queries, and decide whether the new one may replace
the old.

Only queries that ask and expect the same in both are compared. The others are listed, because a
comparison that silently leaves queries out means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from truespan.errors import InvalidSettings
from truespan.evaluation.evaluate import Evaluation, QueryResult, State
from truespan.evaluation.metrics import (
    EQUAL_WITHIN,
    LABELS,
    NAMES,
    QueryMetrics,
    mean,
    randomisation_test,
    sign_test,
)
from truespan.types.bundle import Notice

SEED = 20_260_101
ALLOWED_DROP = 0.01


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One query in both evaluations; `difference` is new less old of its leading figure.

    That is nDCG, or the reciprocal rank where only phrases are expected.
    """

    id: str
    query: str
    old: QueryMetrics
    new: QueryMetrics
    difference: float


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric over the queries that have it, and whether its change could be chance."""

    name: str
    old: float
    new: float
    queries: int
    better: int
    worse: int
    same: int
    sign_p: float
    randomisation_p: float

    @property
    def difference(self) -> float:
        """Return new less old."""
        return self.new - self.old


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes from one evaluation to another, over the queries they share."""

    old_name: str
    new_name: str
    changes: tuple[QueryChange, ...]
    metrics: tuple[MetricChange, ...]
    better: int
    worse: int
    same: int
    unjudged: int
    failed_old: int
    failed_new: int
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    asked_otherwise: tuple[str, ...]
    """Ids that both have, with another question or other expectations."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the new evaluation may replace the old, and every reason against it."""

    passed: bool
    reasons: tuple[Notice, ...]


def compare(old: Evaluation, new: Evaluation, *, seed: int = SEED) -> Comparison:
    """Compare query by query; `seed` decides which reversals the randomisation test tries."""
    before = {result.id: result for result in old.results}
    after = {result.id: result for result in new.results}
    shared = [result.id for result in new.results if result.id in before]
    otherwise = [id for id in shared if not _same_question(before[id], after[id])]
    pairs = [(before[id], after[id]) for id in shared if id not in set(otherwise)]
    judged = [(one, other) for one, other in pairs if one.judged and other.judged]
    changes = tuple(_change(*pair) for pair in judged)
    differences = [change.difference for change in changes]
    better, worse, same = _split(differences)
    return Comparison(
        old_name=old.name,
        new_name=new.name,
        changes=changes,
        metrics=tuple(_metric_changes(changes, seed)),
        better=better,
        worse=worse,
        same=same,
        unjudged=len(pairs) - len(judged),
        failed_old=sum(result.state is State.FAILED for result in old.results),
        failed_new=sum(result.state is State.FAILED for result in new.results),
        only_old=tuple(id for id in before if id not in after),
        only_new=tuple(id for id in after if id not in before),
        asked_otherwise=tuple(otherwise),
    )


def gate(comparison: Comparison, allowed_drop: float = ALLOWED_DROP) -> Verdict:
    """Judge whether no mean falls by more than `allowed_drop` and nothing escaped comparison.

    A drop within the allowance passes even if it is no chance, and one beyond it fails even if it
    may be: what is asked is how much worse answers may get, not how sure anybody is.
    """
    if not 0.0 <= allowed_drop <= 1.0:
        raise InvalidSettings("The allowed drop must lie between 0.0 and 1.0.")
    reasons = [*_incomparable(comparison), *_drops(comparison, allowed_drop)]
    return Verdict(not reasons, tuple(reasons))


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as values that JSON knows."""
    return msgspec.json.decode(msgspec.json.encode(comparison))


def comparison_from_dict(stored: Mapping[str, Any]) -> Comparison:
    """Return the comparison that `comparison_to_dict` made such values of."""
    try:
        return msgspec.convert(stored, Comparison)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"This is no comparison: {error}.") from None


def _same_question(old: QueryResult, new: QueryResult) -> bool:
    def asked(result: QueryResult) -> tuple[object, ...]:
        expected = sorted((one.document, one.grade) for one in result.expected)
        return (result.question, expected)

    return asked(old) == asked(new)


def _change(old: QueryResult, new: QueryResult) -> QueryChange:
    difference = leading(new.metrics) - leading(old.metrics)
    return QueryChange(new.id, new.query, old.metrics, new.metrics, difference)


def leading(metrics: QueryMetrics) -> float:
    """Return the figure by which a query counts as better or worse."""
    return (metrics.reciprocal_rank or 0.0) if metrics.ndcg is None else metrics.ndcg


def _split(differences: Sequence[float]) -> tuple[int, int, int]:
    """Return how many are better, worse and the same."""
    better = sum(value > EQUAL_WITHIN for value in differences)
    worse = sum(value < -EQUAL_WITHIN for value in differences)
    return better, worse, len(differences) - better - worse


def _metric_changes(changes: Sequence[QueryChange], seed: int) -> list[MetricChange]:
    found = []
    for name in NAMES:
        values = [(getattr(one.old, name), getattr(one.new, name)) for one in changes]
        pairs = [(old, new) for old, new in values if old is not None and new is not None]
        if pairs:
            found.append(_metric_change(name, pairs, seed))
    return found


def _metric_change(name: str, pairs: Sequence[tuple[float, float]], seed: int) -> MetricChange:
    differences = [new - old for old, new in pairs]
    better, worse, same = _split(differences)
    return MetricChange(
        name=name,
        old=mean(old for old, _ in pairs) or 0.0,
        new=mean(new for _, new in pairs) or 0.0,
        queries=len(pairs),
        better=better,
        worse=worse,
        same=same,
        sign_p=sign_test(better, worse),
        randomisation_p=randomisation_test(differences, seed=seed),
    )


def _incomparable(comparison: Comparison) -> list[Notice]:
    left_out = {
        "only in the old": comparison.only_old,
        "only in the new": comparison.only_new,
        "asked otherwise": comparison.asked_otherwise,
    }
    reasons = []
    if not comparison.changes:
        reasons.append(Notice("nothing_compared", "No judged query is in both evaluations."))
    if any(left_out.values()):
        counts = ", ".join(f"{len(ids)} {what}" for what, ids in left_out.items() if ids)
        reasons.append(Notice("queries_differ", f"Not all queries are in both: {counts}."))
    if comparison.failed_new:
        message = f"{comparison.failed_new} queries failed on {comparison.new_name}."
        reasons.append(Notice("queries_failed", message))
    return reasons


def _drops(comparison: Comparison, allowed: float) -> list[Notice]:
    return [
        Notice(
            "metric_dropped",
            f"{LABELS[one.name]} falls from {one.old:.4f} to {one.new:.4f}, by more than the "
            f"{allowed:g} allowed (p = {one.randomisation_p:.3f}).",
        )
        for one in comparison.metrics
        if -one.difference > allowed + EQUAL_WITHIN
    ]


def gate_generation(
    old: Evaluation | None,
    new: Evaluation,
    allowed_drop: float = ALLOWED_DROP,
    *,
    least_hit_rate: float = 0.0,
    seed: int = SEED,
) -> Verdict:
    """Judge a generation beside the one it would replace, or alone when it is the first.

    Alone it must have run every query, one at least of which is judged. Either way its hit rate
    must reach `least_hit_rate`, and some query must have found what it expects.
    """
    if not 0.0 <= least_hit_rate <= 1.0:
        raise InvalidSettings("The least hit rate must lie between 0.0 and 1.0.")
    verdict = gate(compare(old, new, seed=seed), allowed_drop) if old else _alone(new)
    reasons = (*verdict.reasons, *_too_few_hits(new, least_hit_rate))
    return Verdict(not reasons, reasons)


def _alone(new: Evaluation) -> Verdict:
    reasons = []
    if not new.totals.judged:
        reasons.append(Notice("nothing_judged", "No golden query says what it expects."))
    if new.totals.failed:
        message = f"{new.totals.failed} queries failed on {new.name}."
        reasons.append(Notice("queries_failed", message))
    return Verdict(not reasons, tuple(reasons))


def _too_few_hits(new: Evaluation, least: float) -> list[Notice]:
    reached = new.totals.metrics.hit or 0.0
    if not reached and new.totals.judged:
        return [Notice("nothing_hit", "No golden query found anything that it expects.")]
    if reached >= least:
        return []
    message = f"The {LABELS['hit']} is {reached:.4f}, below the {least:g} asked for."
    return [Notice("hit_rate_too_low", message)]
