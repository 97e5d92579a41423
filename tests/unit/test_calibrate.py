"""Calibration: floors and thresholds from judged similarities, or an honest refusal."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from truespan.engine.calibration import auc_of
from truespan.errors import InvalidArgument
from truespan.extensions.quality.calibrate import (
    Curve,
    calibrate,
    curve_of,
    largest_gain_test,
    unrelated_high,
)
from truespan.extensions.quality.evaluate import ScoredHit


def hits(right: Sequence[float], wrong: Sequence[float]) -> list[ScoredHit]:
    return [ScoredHit(one, True) for one in right] + [ScoredHit(one, False) for one in wrong]


def spread(start: float, end: float, count: int) -> list[float]:
    return [start + (end - start) * place / (count - 1) for place in range(count)]


def overlapping(seed: int, count: int = 200) -> list[ScoredHit]:
    """Return scores like those of a compressed model: relevant .58, irrelevant .45, and ties."""
    chance = random.Random(seed)
    return hits(
        [round(chance.gauss(0.58, 0.06), 3) for _ in range(count)],
        [round(chance.gauss(0.45, 0.05), 3) for _ in range(3 * count)],
    )


def codes(calibration: Curve) -> list[str]:
    return [note.code for note in calibration.notes]


@pytest.mark.parametrize("seed", range(8))
def test_floor_is_largest_and_high_threshold_least_that_fits(seed: int) -> None:
    given = overlapping(seed)
    right = [hit.score for hit in given if hit.relevant]

    def kept(threshold: float) -> float:
        return sum(score >= threshold for score in right) / len(right)

    def precision(threshold: float) -> float:
        left = [hit.relevant for hit in given if hit.score >= threshold]
        return sum(left) / len(left)

    proposal = calibrate(given).proposal

    assert proposal is not None
    assert proposal.high is not None
    scores = sorted({hit.score for hit in given})
    assert proposal.floor == max(score for score in scores if kept(score) >= 0.95)
    assert proposal.high == min(score for score in scores if precision(score) >= 0.9)
    assert proposal.floor <= proposal.low <= proposal.high


def test_calibration_does_not_depend_on_hit_order() -> None:
    given = overlapping(1)
    assert calibrate(given) == calibrate(given[::-1])


def test_low_threshold_has_the_best_balance() -> None:
    given = overlapping(2)
    calibration = calibrate(given)
    proposal = calibration.proposal
    assert proposal is not None
    assert proposal.high is not None

    def balance(threshold: float) -> float:
        left = [hit.relevant for hit in given if hit.score >= threshold]
        return 2 * sum(left) / (len(left) + sum(hit.relevant for hit in given))

    between = [
        point.threshold
        for point in calibration.curve
        if proposal.floor <= point.threshold <= proposal.high
    ]
    assert balance(proposal.low) == pytest.approx(max(map(balance, between)))
    assert proposal.floor < proposal.low < proposal.high


def test_separated_scores_put_all_thresholds_at_the_edge() -> None:
    proposal = calibrate(hits(spread(0.6, 0.8, 40), spread(0.2, 0.4, 40)), keep=1.0).proposal
    assert proposal is not None
    assert (proposal.floor, proposal.low, proposal.high) == (0.6, 0.6, 0.6)


def test_required_shares_are_respected() -> None:
    given = overlapping(3)
    strict = calibrate(given, keep=0.8, precision=0.95).proposal
    mild = calibrate(given, keep=0.99, precision=0.7).proposal
    assert strict is not None
    assert mild is not None
    assert strict.floor > mild.floor
    assert strict.high is not None
    assert mild.high is not None
    assert strict.high > mild.high


def test_scores_that_do_not_discriminate_give_no_proposal() -> None:
    same = spread(0.3, 0.7, 50)
    calibration = calibrate(hits(same, same))
    assert calibration.proposal is None
    assert calibration.auc == 0.5
    assert codes(calibration) == ["scores_do_not_discriminate"]
    assert calibration.curve


@pytest.mark.parametrize(("right", "wrong"), [(19, 100), (100, 19), (0, 50), (50, 0), (0, 0)])
def test_too_few_hits_of_a_kind_give_no_proposal(right: int, wrong: int) -> None:
    calibration = calibrate(hits([0.9] * right, [0.1] * wrong))
    assert calibration.proposal is None
    assert codes(calibration) == ["too_few_hits"]


def test_high_threshold_needs_precision_and_enough_hits() -> None:
    assert calibrate(hits([0.9] * 20, [0.1] * 20)).proposal is not None

    given = hits(spread(0.5, 0.7, 40), [*spread(0.2, 0.5, 60), *[0.8] * 20])
    calibration = calibrate(given)
    assert calibration.proposal is not None
    assert calibration.proposal.high is None
    assert codes(calibration) == ["precision_not_reached"]

    given = hits([*spread(0.5, 0.7, 40), 0.95, 0.96], [*spread(0.3, 0.5, 60), *[0.8] * 20])
    calibration = calibrate(given)
    assert calibration.proposal is not None
    assert calibration.proposal.high == 0.95
    assert codes(calibration) == ["high_rests_on_few_hits"]


def test_auc_counts_every_pair_and_a_tie_as_half() -> None:
    given = [ScoredHit(hit.score, hit.relevant) for hit in overlapping(5, 30)]
    pairs = [
        (one.score > other.score) + (one.score == other.score) / 2
        for one in given
        if one.relevant
        for other in given
        if not other.relevant
    ]

    right = [one.score for one in given if one.relevant]
    wrong = [one.score for one in given if not one.relevant]
    assert auc_of(right, wrong) == pytest.approx(sum(pairs) / len(pairs))


def test_curve_has_a_point_for_each_score() -> None:
    curve = curve_of(hits([0.9, 0.5], [0.5, 0.1]))
    assert [(one.threshold, one.relevant, one.irrelevant) for one in curve] == [
        (0.9, 1, 0), (0.5, 2, 1), (0.1, 2, 2),
    ]  # fmt: skip
    assert [one.precision for one in curve] == [1.0, 2 / 3, 0.5]
    assert [one.recall for one in curve] == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_non_finite_similarity_is_refused(score: float) -> None:
    with pytest.raises(InvalidArgument, match="finite"):
        calibrate(hits([0.5, score], [0.1]))


@pytest.mark.parametrize("share", [{"keep": 0.0}, {"keep": 1.5}, {"precision": math.nan}])
def test_share_out_of_range_is_refused(share: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        calibrate(overlapping(1), **share)


def test_unrelated_high_is_near_the_exact_count() -> None:
    chance = random.Random(7)
    scores = [chance.gauss(0.42, 0.03) for _ in range(2000)]
    counted = sum(score <= unrelated_high(scores) for score in scores) / len(scores)
    assert counted == pytest.approx(0.95, abs=0.001)
    assert unrelated_high([0.4, 0.4, 0.6]) == 0.6
    assert unrelated_high([0.4] * 20 + [0.6]) == 0.4


def test_contract_constants_separate_nothing_on_compressed_model() -> None:
    compressed = spread(0.36, 0.48, 500)
    assert 0.15 < 0.3 < min(compressed)
    assert unrelated_high(compressed) < 0.55


def test_largest_gain_test_accounts_for_the_choice() -> None:
    gains = [1.0] * 16 + [-1.0] * 7
    mixed = [
        [gain if (n * (row + 2)) % 7 else -gain for n, gain in enumerate(gains)] for row in range(6)
    ]

    alone = largest_gain_test([gains], seed=1)

    # One alternative: the share of the sums of 23 signs that are at least 9.
    assert alone == pytest.approx(sum(math.comb(23, n) for n in range(16, 24)) / 2**23, abs=0.01)
    assert largest_gain_test([gains, gains], seed=1) == alone
    assert largest_gain_test([gains, *mixed], seed=1) > 1.5 * alone
    assert largest_gain_test([gains], seed=1) == alone
    assert largest_gain_test([[0.0, 0.0], [0.0, 0.0]], seed=1) == 1.0
