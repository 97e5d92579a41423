"""Whether a generation may be promoted, judged by what golden queries found in it."""

from __future__ import annotations

from truespan.errors import InvalidSettings
from truespan.model.bundle import Notice
from truespan.upkeep.compare import ALLOWED_DROP, SEED, Verdict, compare, gate
from truespan.upkeep.evaluate import Evaluation
from truespan.upkeep.metrics import LABELS


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
