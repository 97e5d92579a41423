"""Derive floor, thresholds and minimum evidence from scores of golden queries.

Similarities of models differ, so a constant that works for one model is useless for another. If
the scores do not separate relevant from irrelevant hits, nothing is proposed.

The minimum evidence of an answer is derived too. The documents answer the judged queries, and not
those marked as absent. A threshold is right for a query if it answers the former or refuses the
latter. Both kinds count alike, however many there are of each. The best threshold is proposed only
if its gain is larger than chance explains, given that the best of several was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import shake_256
from itertools import compress, groupby
from math import ceil, isfinite

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.cancel import check_cancelled
from truespan.engine.calibration import MIN_AUC, auc_of, round_calibration
from truespan.errors import InvalidArgument
from truespan.extensions.quality.evaluate import (
    Evaluation,
    ScoredHit,
    scored_hits,
)
from truespan.types.bundle import Notice
from truespan.types.profile import Calibration, reaches

KEEP_SHARE = 0.95
PRECISION_SHARE = 0.9
MIN_HITS = 20
FEW_HITS = 10
UNRELATED_SHARE = 0.95
_ROUNDING = 1e-9
_SEED = 20_260_101
_ROUNDS = 10_000
_SCALE = 10**9
_LOWEST_BIT = bytes(value & 1 for value in range(256))


class CurvePoint(Struct, frozen=True):
    """Hits with a score of at least `threshold`."""

    threshold: float
    relevant: int
    irrelevant: int
    precision: float
    recall: float
    """Share of the relevant hits that reach the threshold."""

    @property
    def balance(self) -> float:
        """Return the harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class Proposal(Struct, frozen=True):
    """A floor and two thresholds, in ascending order."""

    floor: float
    low: float
    high: float | None
    """None if precision never reaches the required share."""


class Curve(Struct, frozen=True):
    """A curve, its AUC, and the proposed thresholds; None if nothing is proposed."""

    relevant: int
    irrelevant: int
    auc: float | None
    curve: tuple[CurvePoint, ...]
    proposal: Proposal | None
    notes: tuple[Notice, ...]


def unrelated_high(scores: Iterable[float]) -> float:
    """Return the similarity that 95 of 100 unrelated pairs do not exceed."""
    ascending = sorted(scores)
    return ascending[ceil(UNRELATED_SHARE * (len(ascending) - 1) - _ROUNDING)]


def calibrate(
    hits: Iterable[ScoredHit],
    *,
    keep: float = KEEP_SHARE,
    precision: float = PRECISION_SHARE,
    min_auc: float = MIN_AUC,
    min_hits: int = MIN_HITS,
) -> Curve:
    """Propose a floor that keeps the share `keep` of relevant hits, and two thresholds.

    The high threshold is the lowest one with `precision`. The low threshold lies between, at the
    best balance of precision and recall. With fewer than `min_hits` hits of either kind, or an
    AUC below `min_auc`, there is no proposal, and a note gives the reason.
    """
    for name, share in (("keep", keep), ("precision", precision), ("min_auc", min_auc)):
        if not 0.0 < share <= 1.0:
            raise InvalidArgument(f"{name} must be above 0.0 and at most 1.0.")
    hits = list(hits)
    curve = curve_of(hits)
    right, wrong = ([hit.score for hit in hits if hit.relevant is kind] for kind in (True, False))
    relevant, irrelevant = len(right), len(wrong)
    auc = auc_of(right, wrong) if right and wrong else None
    proposal, notes = None, ()
    if min(relevant, irrelevant) < min_hits or auc is None:
        message = (
            f"{relevant} relevant and {irrelevant} irrelevant hits are too few: at least "
            f"{min_hits} of each are needed."
        )
        notes = (Notice("too_few_hits", message),)
    elif auc < min_auc:
        message = f"The scores do not discriminate: AUC {auc:.3f}, at least {min_auc:g} needed."
        notes = (Notice("scores_do_not_discriminate", message),)
    else:
        proposal, notes = _propose_thresholds(curve, keep, precision)
    return Curve(
        relevant=relevant,
        irrelevant=irrelevant,
        auc=auc,
        curve=curve,
        proposal=proposal,
        notes=notes,
    )


def _propose_thresholds(
    curve: Sequence[CurvePoint], keep: float, precision: float
) -> tuple[Proposal, tuple[Notice, ...]]:
    """Return a proposal, with a note if it has no high threshold or few hits support it."""
    wanted = ceil(keep * curve[-1].relevant - _ROUNDING)
    floor = next(point.threshold for point in curve if point.relevant >= wanted)
    precise = [point.threshold for point in curve if point.precision >= precision - _ROUNDING]
    high = max(min(precise), floor) if precise else None
    between = [
        point
        for point in curve
        if floor <= point.threshold and (high is None or point.threshold <= high)
    ]
    # Of equal thresholds the lowest, which refuses as few hits as possible.
    low = max(between, key=lambda point: (point.balance, -point.threshold)).threshold
    notes = ()
    if high is None:
        best = max(point.precision for point in curve)
        message = f"Precision reaches {best:.2f} at most, not {precision:g}: no high threshold."
        notes = (Notice("precision_not_reached", message),)
    else:
        left = next(point for point in curve if point.threshold <= high)
        if (count := left.relevant + left.irrelevant) < FEW_HITS:
            message = f"Only {count} hits reach the high threshold: more queries may move it."
            notes = (Notice("high_rests_on_few_hits", message),)
    return Proposal(floor, low, high), notes


def curve_of(hits: Iterable[ScoredHit]) -> tuple[CurvePoint, ...]:
    """Return a point for each score that occurs, the highest first."""
    ordered = sorted(hits, key=lambda hit: -hit.score)
    if not all(isfinite(hit.score) for hit in ordered):
        raise InvalidArgument("Every similarity must be a finite number.")
    wanted = sum(hit.relevant for hit in ordered)
    relevant = irrelevant = 0
    curve = []
    for score, group in groupby(ordered, key=lambda hit: hit.score):
        verdicts = [hit.relevant for hit in group]
        relevant += sum(verdicts)
        irrelevant += len(verdicts) - sum(verdicts)
        share = relevant / wanted if wanted else 0.0
        precision = relevant / (relevant + irrelevant)
        curve.append(CurvePoint(score, relevant, irrelevant, precision, share))
    return tuple(curve)


class CalibrationReport(Struct, frozen=True):
    """Calibration of a profile by golden queries, with the proposal, if any."""

    profile: str
    passages: Curve
    queries: Curve
    proposed: Calibration | None
    in_force: Calibration | None
    """Calibration in use: stored in the world, or shipped with the profile."""
    evidence: EvidenceReport
    """Minimum evidence of an answer."""
    notes: tuple[Notice, ...] = ()
    kept: bool = False


def best_hits(evaluation: Evaluation) -> list[ScoredHit]:
    """Return the best score of each judged query, and whether it found anything expected."""
    return [
        ScoredHit(max(hit.score for hit in result.hits), bool(result.metrics.hit))
        for result in evaluation.results
        if result.judged and result.hits
    ]


def curves_of(evaluation: Evaluation) -> tuple[Curve, Curve]:
    """Return the curve of passages and the curve of queries."""
    return calibrate(scored_hits(evaluation)), calibrate(best_hits(evaluation))


def propose(
    passages: Curve, queries: Curve, unrelated_high: float, measured_on: str
) -> tuple[Calibration | None, tuple[Notice, ...]]:
    """Return a calibration, or None with all reasons."""
    lasting = passages.proposal
    decided = queries.proposal if queries.proposal and queries.proposal.high else lasting
    if lasting is None or decided is None or decided.high is None:
        return None, (*passages.notes, *queries.notes)
    low = max(decided.low, lasting.floor)
    found = round_calibration(lasting.floor, low, decided.high, unrelated_high, measured_on)
    if decided is queries.proposal:
        return found, ()
    message = (
        "Too few queries found nothing expected, so the thresholds are based on single passages "
        "and are rather strict."
    )
    return found, (Notice("thresholds_by_passages", message),)


MIN_QUERIES = 20
"""Minimum number of judged queries, and of absent ones, for a proposal of minimum evidence."""
MAX_P = 0.05
"""Maximum p-value of a gain that is proposed."""


STEPS = (-0.12, -0.1, -0.08, -0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12)
"""Distances of the compared thresholds from the current threshold."""


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
    """Threshold with the fewest errors; of several, the closest to the current threshold."""
    proposed: float | None = None
    """None if no threshold is clearly better than the current threshold."""
    present: int = 0
    """Number of queries that the documents answer."""
    absent: int = 0
    """Number of queries that are marked as absent."""
    p: float | None = None
    """p-value of the largest gain, corrected for the choice among thresholds; None without one."""
    points: tuple[EvidencePoint, ...] = ()
    message: str = "This world does not decide by evidence."
    """The proposal in words, or the reason why there is none."""


def propose_evidence(queries: Sequence[WeighedQuery], in_force: float) -> EvidenceReport:
    """Return the best threshold if it is significantly better than the current threshold."""
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
    p = largest_gain_test(gains, seed=_SEED)
    figures = (
        f"{_describe(best)} instead of {_describe(current)}, "
        f"{'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}"
    )
    if p > MAX_P:
        text = f"no clear difference. The best is {best.threshold:g}: {figures}"
        return replace(found, p=p, message=f"Keep {in_force:g}: {text}.")
    message = f"{best.threshold:g} instead of {in_force:g}: {figures}."
    return replace(found, p=p, proposed=best.threshold, message=message)


def largest_gain_test(gains: Sequence[Sequence[float]], *, seed: int) -> float:
    """Return the p-value of the largest mean gain of several alternatives over one baseline.

    Each row has the gains of one alternative, query by query. A round reverses the gains of some
    queries in all rows and counts if any row reaches the largest sum. So the p-value accounts for
    the choice: the best of several alternatives looks better by chance than a single one.
    """
    whole = [[round(value * _SCALE) for value in row] for row in gains]
    changed = [query for query in zip(*whole, strict=True) if any(query)]
    if not changed:
        return 1.0
    rows = list(zip(*changed, strict=True))
    totals = [sum(row) for row in rows]
    largest, extreme = max(totals), 0
    for reversals in _reversals(len(changed), seed):
        reached = (
            total - 2 * sum(compress(row, reversals))
            for row, total in zip(rows, totals, strict=True)
        )
        extreme += max(reached) >= largest
    return (extreme + 1) / (_ROUNDS + 1)


def _reversals(count: int, seed: int) -> Iterator[bytes]:
    """Yield, for each round, whether each of `count` differences is reversed."""
    bits = shake_256(f"truespan paired randomisation {seed}".encode())
    signs = bits.digest(count * _ROUNDS).translate(_LOWEST_BIT)
    for start in range(0, len(signs), count):
        check_cancelled()
        yield signs[start : start + count]


def _count_errors(
    present: Sequence[WeighedQuery], absent: Sequence[WeighedQuery], threshold: float
) -> EvidencePoint:
    refused = sum(not query.is_answered(threshold) for query in present)
    answered = sum(query.is_answered(threshold) for query in absent)
    return EvidencePoint(threshold, refused / len(present), answered / len(absent))


def _describe(point: EvidencePoint) -> str:
    return f"{point.refused:.1%} refused and {point.answered:.1%} of the absent answered"
