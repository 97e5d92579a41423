"""Compare two evaluations of the same golden queries, and judge whether the new one is as good.

Only queries with the same question and expectations in both are compared. The others are listed,
because a comparison that silently leaves queries out means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from truespan.extensions.quality.evaluate import (
    LABELS,
    NAMES,
    Evaluation,
    QueryMetrics,
    QueryResult,
    State,
    mean,
)
from truespan.types.bundle import Notice
from truespan.types.document import Verdict
from truespan.types.request import check_share

ALLOWED_DROP = 0.01
"""Maximum drop of a mean of golden queries below that of the replaced generation."""
EQUAL_WITHIN = 1e-9
"""Maximum difference that counts as rounding."""


class QueryChange(Struct, frozen=True):
    """One query in both evaluations."""

    id: str
    query: str
    old: QueryMetrics
    new: QueryMetrics
    difference: float
    """New minus old nDCG, or reciprocal rank if only phrases are expected."""


class MetricChange(Struct, frozen=True):
    """Change of one metric over the queries that have it."""

    name: str
    old: float
    new: float
    queries: int
    better: int
    worse: int
    same: int

    @property
    def difference(self) -> float:
        """Return new minus old."""
        return self.new - self.old


class Comparison(Struct, frozen=True):
    """Changes from one evaluation to another, over their common queries."""

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
    changed_queries: tuple[str, ...]
    """Ids of both evaluations whose question or expectations differ."""
    newly_judged: tuple[str, ...] = ()
    """Ids of queries whose expected document was absent in the old evaluation, which found nothing.

    They cannot get worse, so only the new evaluation counts them.
    """


def compare(old: Evaluation, new: Evaluation) -> Comparison:
    """Compare query by query."""
    before = {result.id: result for result in old.results}
    after = {result.id: result for result in new.results}
    shared = [(before[id], result) for id, result in after.items() if id in before]
    pairs = [pair for pair in shared if _ask_the_same(*pair)]
    judged = [pair for pair in pairs if pair[0].judged and pair[1].judged]
    newly_judged = tuple(
        result.id
        for earlier, result in judged
        if {*earlier.absent} - {*result.absent} and not earlier.metrics.hit
    )
    changes = tuple(
        QueryChange(
            result.id,
            result.query,
            earlier.metrics,
            result.metrics,
            leading(result.metrics) - leading(earlier.metrics),
        )
        for earlier, result in judged
        if result.id not in newly_judged
    )
    better, worse, same = _count_changes([change.difference for change in changes])
    compared = {result.id for _, result in pairs}
    return Comparison(
        old_name=old.name,
        new_name=new.name,
        changes=changes,
        metrics=tuple(_metric_changes(changes)),
        better=better,
        worse=worse,
        same=same,
        unjudged=len(pairs) - len(judged),
        failed_old=sum(result.state is State.FAILED for result in old.results),
        failed_new=sum(result.state is State.FAILED for result in new.results),
        only_old=tuple(id for id in before if id not in after),
        only_new=tuple(id for id in after if id not in before),
        changed_queries=tuple(result.id for _, result in shared if result.id not in compared),
        newly_judged=newly_judged,
    )


def leading(metrics: QueryMetrics) -> float:
    """Return the metric that decides whether a query is better or worse."""
    return (metrics.reciprocal_rank or 0.0) if metrics.ndcg is None else metrics.ndcg


def _ask_the_same(old: QueryResult, new: QueryResult) -> bool:
    """Return whether two results have the same question and expectations.

    An absent document is recorded under the name in the query, a present one under its key, so only
    the grades of documents that were absent are compared.
    """
    if old.question != new.question:
        return False
    known = {expected for expected in old.expected if expected.document not in old.absent}
    later = [expected.grade for expected in new.expected if expected not in known]
    absent = [expected.grade for expected in old.expected if expected not in known]
    return known <= {*new.expected} and sorted(later) == sorted(absent)


def _count_changes(differences: Sequence[float]) -> tuple[int, int, int]:
    better = sum(value > EQUAL_WITHIN for value in differences)
    worse = sum(value < -EQUAL_WITHIN for value in differences)
    return better, worse, len(differences) - better - worse


def _metric_changes(changes: Sequence[QueryChange]) -> Iterator[MetricChange]:
    for name in NAMES:
        values = [(getattr(change.old, name), getattr(change.new, name)) for change in changes]
        pairs = [(old, new) for old, new in values if old is not None and new is not None]
        if not pairs:
            continue
        better, worse, same = _count_changes([new - old for old, new in pairs])
        yield MetricChange(
            name=name,
            old=mean(old for old, _ in pairs) or 0.0,
            new=mean(new for _, new in pairs) or 0.0,
            queries=len(pairs),
            better=better,
            worse=worse,
            same=same,
        )


def gate(comparison: Comparison, allowed_drop: float = ALLOWED_DROP) -> Verdict:
    """Check that no mean drops by more than `allowed_drop` and all queries were compared."""
    # A drop above the allowance fails even if it may be chance.
    check_share("The allowed drop", allowed_drop)
    left_out = {
        "only in the old": comparison.only_old,
        "only in the new": comparison.only_new,
        "with another question": comparison.changed_queries,
    }
    reasons = []
    if not comparison.changes and not comparison.newly_judged:
        reasons.append(Notice("nothing_compared", "No judged query is in both evaluations."))
    if any(left_out.values()):
        counts = ", ".join(f"{len(ids)} {what}" for what, ids in left_out.items() if ids)
        reasons.append(Notice("queries_differ", f"Not all queries are in both: {counts}."))
    if comparison.failed_new:
        message = f"{comparison.failed_new} queries failed on {comparison.new_name}."
        reasons.append(Notice("queries_failed", message))
    for metric in comparison.metrics:
        if -metric.difference > allowed_drop + EQUAL_WITHIN:
            message = (
                f"{LABELS[metric.name]} falls from {metric.old:.4f} to {metric.new:.4f}, by more "
                f"than the {allowed_drop:g} allowed."
            )
            reasons.append(Notice("metric_dropped", message))
    return Verdict(not reasons, tuple(reasons))


def gate_generation(
    old: Evaluation | None,
    new: Evaluation,
    allowed_drop: float = ALLOWED_DROP,
    *,
    min_hit_rate: float = 0.0,
) -> Verdict:
    """Compare a generation with the generation that it would replace, if any."""
    # Without an earlier generation, every query must have run, and at least one must be judged. In
    # both cases the hit rate must reach `min_hit_rate`, and some query must have found a document.
    check_share("The minimum hit rate", min_hit_rate)
    reasons: list[Notice] = []
    if old:
        reasons += gate(compare(old, new), allowed_drop).reasons
    else:
        if not new.totals.judged:
            reasons.append(Notice("nothing_judged", "No golden query has expectations."))
        if new.totals.failed:
            message = f"{new.totals.failed} queries failed on {new.name}."
            reasons.append(Notice("queries_failed", message))
    hit_rate = new.totals.metrics.hit or 0.0
    if not hit_rate and new.totals.judged:
        message = "No golden query found an expected document or phrase."
        reasons.append(Notice("nothing_hit", message))
    elif hit_rate < min_hit_rate:
        message = f"The {LABELS['hit']} is {hit_rate:.4f}, below the {min_hit_rate:g} asked for."
        reasons.append(Notice("hit_rate_too_low", message))
    return Verdict(not reasons, tuple(reasons))
