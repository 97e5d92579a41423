"""From curves to a calibration that the settings of a decision accept as it is.

The floor goes by passages: it keeps most of the relevant ones. The thresholds go by queries, since
a decision looks at the best passage of each: how often is something right found when the best one
scores so high? Where too few queries miss to tell, they go by passages as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from truespan.model.bundle import Notice
from truespan.model.calibrated import Calibration
from truespan.upkeep.calibrate import Calibration as Curve
from truespan.upkeep.calibrate import Unrelated, calibrate
from truespan.upkeep.evaluate import Evaluation, ScoredHit, scored_hits

UNRELATED_SHARE = 0.95
TIGHTENING = 0.1
"""How far short queries are tightened, as a share of the way from low to high: 0.03 of 0.3."""
GATE = 5 / 6
"""Where between low and high the similarity gate stands: 0.5 between 0.25 and 0.55."""
_DECIMALS = 10_000


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What golden queries say about a profile, and what follows from it, if anything does."""

    profile: str
    passages: Curve
    queries: Curve
    unrelated: Unrelated | None
    proposed: Calibration | None
    in_force: Calibration | None
    """What counts for the world's holder so far: kept earlier, or shipped with the profile."""
    notes: tuple[Notice, ...] = ()
    kept: bool = False


def best_hits(evaluation: Evaluation) -> list[ScoredHit]:
    """Return, of each judged query, its best score and whether it found anything right."""
    return [
        ScoredHit(max(hit.score for hit in result.hits), bool(result.metrics.hit))
        for result in evaluation.results
        if result.judged and result.hits
    ]


def curves_of(evaluation: Evaluation) -> tuple[Curve, Curve]:
    """Return the curve of passages and the curve of queries."""
    return calibrate(scored_hits(evaluation)), calibrate(best_hits(evaluation))


def propose(
    passages: Curve, queries: Curve, distribution: Unrelated, measured_on: str
) -> tuple[Calibration | None, tuple[Notice, ...]]:
    """Return a calibration, or None with every reason why there is none."""
    lasting = passages.proposal
    decided = queries.proposal if queries.proposal and queries.proposal.high else lasting
    if lasting is None or decided is None or decided.high is None:
        return None, (*passages.notes, *queries.notes)
    notes = () if decided is queries.proposal else (_BY_PASSAGES,)
    low = max(decided.low, lasting.floor)
    return settled(lasting.floor, low, decided.high, distribution, measured_on), notes


def settled(
    least: float, low: float, high: float, distribution: Unrelated, measured_on: str
) -> Calibration:
    """Return a calibration from its three measured numbers, rounded so that they still agree.

    Tightening and gate keep the proportions that the defaults of a decision have.
    """
    least, low = _down(least), _down(low)
    high = max(_up(high), low)
    step = TIGHTENING * (high - low)
    return Calibration(
        calibrated_floor=least,
        threshold_low=low,
        threshold_high=high,
        short_query_threshold_low=min(_up(low + step), 1.0),
        short_query_threshold_high=min(_up(high + step), 1.0),
        # Rounded down: a gate that reached the high threshold would let no hybrid answer through.
        min_similarity_for_hybrid=max(_down(low + GATE * (high - low)), low),
        unrelated_high=min(_up(distribution.quantile(UNRELATED_SHARE)), 1.0),
        measured_on=measured_on,
    )


def _down(value: float) -> float:
    return min(max(floor(round(value * _DECIMALS, 6)) / _DECIMALS, 0.0), 1.0)


def _up(value: float) -> float:
    return min(max(ceil(round(value * _DECIMALS, 6)) / _DECIMALS, 0.0), 1.0)


_BY_PASSAGES = Notice(
    "thresholds_by_passages",
    "Too few queries found nothing right, so the thresholds go by single passages: they are "
    "rather strict.",
)
