"""Propose the minimum evidence of an answer from golden queries.

The documents answer the judged queries, and not those marked as absent. A threshold is right for a
query if it answers the former or refuses the latter. Both kinds count alike, however many there are
of each. The best threshold is proposed only if its gain is larger than chance explains, given that
the best of several was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from truespan.evaluation.compare import SEED, largest_gain_test
from truespan.types.profile import reaches

STEPS = (-0.12, -0.1, -0.08, -0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12)
"""Distances of the compared thresholds from the one in force."""
MIN_QUERIES = 20
"""Minimum number of queries of either kind for a proposal."""
MAX_P = 0.05
"""Maximum p-value of a gain that is proposed."""


class WeighedQuery(Struct, frozen=True):
    """A golden query with the evidence of its best passage; None if nothing was found."""

    present: bool
    """Whether the documents answer the query."""
    score: float | None

    def is_answered(self, threshold: float) -> bool:
        return self.score is not None and reaches(self.score, threshold)


class EvidencePoint(Struct, frozen=True):
    """The errors of one threshold."""

    threshold: float
    refused: float
    """Share of the queries with an answer in the documents that are refused."""
    answered: float
    """Share of the absent queries that are answered."""

    @property
    def errors(self) -> float:
        """Return the mean of both shares."""
        return (self.refused + self.answered) / 2


class EvidenceReport(Struct, frozen=True):
    """Errors of golden queries over the minimum evidence, and the proposed minimum."""

    in_force: float | None = None
    """None if the world does not decide by evidence."""
    best: float | None = None
    """Threshold with the fewest errors; of several, the closest to the one in force."""
    proposed: float | None = None
    """None if no threshold is clearly better than the one in force."""
    present: int = 0
    """Number of queries that the documents answer."""
    absent: int = 0
    """Number of queries that are marked as absent."""
    p: float | None = None
    """p-value of the largest gain, corrected for the choice among thresholds; None without one."""
    points: tuple[EvidencePoint, ...] = ()
    message: str = "This world does not decide by evidence."
    """The proposal in words, or the reason why there is none."""


def propose_evidence(
    queries: Sequence[WeighedQuery], in_force: float, *, seed: int = SEED
) -> EvidenceReport:
    """Return the best threshold if it is better than the one in force beyond chance."""
    present = [query for query in queries if query.present]
    absent = [query for query in queries if not query.present]
    found = EvidenceReport(in_force, present=len(present), absent=len(absent))
    if min(len(present), len(absent)) < MIN_QUERIES:
        message = (
            f"Keep {in_force:g}: {len(present)} judged and {len(absent)} absent queries are too "
            f"few, at least {MIN_QUERIES} of each are needed."
        )
        return replace(found, message=message)
    thresholds = [round(in_force + step, 3) for step in STEPS if 0 <= in_force + step <= 1]
    points = tuple(_count_errors(present, absent, threshold) for threshold in thresholds)
    best = min(points, key=lambda one: (round(one.errors, 9), abs(one.threshold - in_force)))
    current = points[thresholds.index(round(in_force, 3))]
    found = replace(found, best=best.threshold, points=points)
    if best is current:
        message = f"Keep {in_force:g}: no other threshold is better ({_describe(current)})."
        return replace(found, message=message)
    gains = [
        [
            (query.is_answered(threshold) - query.is_answered(in_force))
            * (1 / len(present) if query.present else -1 / len(absent))
            for query in queries
        ]
        for threshold in thresholds
        if threshold != current.threshold
    ]
    p = largest_gain_test(gains, seed=seed)
    figures = (
        f"{_describe(best)} instead of {_describe(current)}, "
        f"{'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}"
    )
    if p > MAX_P:
        text = f"no clear difference. The best is {best.threshold:g}: {figures}"
        return replace(found, p=p, message=f"Keep {in_force:g}: {text}.")
    message = f"{best.threshold:g} instead of {in_force:g}: {figures}."
    return replace(found, p=p, proposed=best.threshold, message=message)


def _count_errors(
    present: Sequence[WeighedQuery], absent: Sequence[WeighedQuery], threshold: float
) -> EvidencePoint:
    refused = sum(not query.is_answered(threshold) for query in present)
    answered = sum(query.is_answered(threshold) for query in absent)
    return EvidencePoint(threshold, refused / len(present), answered / len(absent))


def _describe(point: EvidencePoint) -> str:
    return f"{point.refused:.1%} refused and {point.answered:.1%} of the absent answered"
