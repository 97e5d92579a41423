"""Propose the weight of words in hybrid search from golden queries.

The weight with the best mean is proposed only if its gain is larger than chance explains, given
that the best of several weights was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from truespan.evaluation.compare import SEED, largest_gain_test, leading
from truespan.evaluation.evaluate import LABELS, Evaluation, State, mean

WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Weights that are measured, besides the one in force."""
MIN_QUERIES = 20
"""Minimum number of judged queries for a proposal."""
MAX_P = 0.05
"""Maximum p-value of a gain that is proposed."""


class WeightMean(Struct, frozen=True):
    """Mean of the leading metric with one weight."""

    weight: float
    mean: float


class WeightReport(Struct, frozen=True):
    """Means of golden queries over the weight of words, and the proposed weight."""

    in_force: float
    best: float
    """Weight with the highest mean."""
    proposed: float | None
    """None if no weight is clearly better than the one in force."""
    metric: str
    """Label: nDCG for queries with expected documents, MRR for those with phrases alone."""
    queries: int
    """Number of judged queries that failed with no weight."""
    p: float | None
    """p-value of the largest gain, corrected for the choice among weights; None without a gain."""
    means: tuple[WeightMean, ...]
    message: str = ""
    """The proposal in words, or the reason why there is none."""


def propose_weight(
    evaluations: Mapping[float, Evaluation], in_force: float, *, seed: int = SEED
) -> WeightReport:
    """Return the best weight if it is better than the one in force beyond chance.

    `evaluations` are those of the same queries by weight, the one in force included.
    """
    rows = list(zip(*(evaluation.results for evaluation in evaluations.values()), strict=True))
    rows = [row for row in rows if all(one.judged and one.state is not State.FAILED for one in row)]
    names = {"ndcg" if row[0].metrics.ndcg is not None else "reciprocal_rank" for row in rows}
    metric = " and ".join(LABELS[name] for name in sorted(names))
    values = {
        weight: [leading(row[place].metrics) for row in rows]
        for place, weight in enumerate(evaluations)
    }
    means = {weight: mean(column) or 0.0 for weight, column in values.items()}
    # Of equal means, the weight in force or the closest to it.
    best = max(means, key=lambda weight: (round(means[weight], 9), -abs(weight - in_force)))
    p = None
    if len(rows) >= MIN_QUERIES and best != in_force:
        current = values.pop(in_force)
        gains = [
            [new - old for new, old in zip(column, current, strict=True)]
            for column in values.values()
        ]
        p = largest_gain_test(gains, seed=seed)
    found = WeightReport(
        in_force=in_force,
        best=best,
        proposed=best if p is not None and p <= MAX_P else None,
        metric=metric,
        queries=len(rows),
        p=p,
        means=tuple(WeightMean(weight, value) for weight, value in means.items()),
    )
    return replace(found, message=_explain(found, means))


def _explain(report: WeightReport, means: Mapping[float, float]) -> str:
    """Return the proposal in words, or the reason why there is none."""
    current, best, p = report.in_force, report.best, report.p
    if report.queries < MIN_QUERIES:
        return (
            f"Keep {current:g}: {report.queries} judged queries are too few, at least "
            f"{MIN_QUERIES} are needed."
        )
    if p is None:
        figures = f"{report.metric} {means[current]:.3f}, {report.queries} queries"
        return f"Keep {current:g}: no other weight is better ({figures})."
    figures = (
        f"{report.metric} {means[best]:.3f} instead of {means[current]:.3f}, "
        f"{'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}, {report.queries} queries"
    )
    if report.proposed is None:
        return f"Keep {current:g}: no clear difference. The best is {best:g}: {figures}."
    return f"{best:g} instead of {current:g}: {figures}."
