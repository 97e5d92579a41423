"""Calibrations: shipped ones, proposals from golden queries, and their use in decisions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.worlds import WORDS
from truespan.engine.calibration import round_calibration
from truespan.errors import InvalidArgument
from truespan.extensions.quality.calibrate import (
    best_hits,
    calibrate,
    curves_of,
    propose,
    unrelated_high,
)
from truespan.extensions.quality.evaluate import Found, ScoredHit, evaluate
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.types.arguments import DEFAULT_FLOOR
from truespan.types.decision import DecisionSettings
from truespan.types.profile import Calibration
from truespan.types.request import RELEVANCE_FLOOR

FAR = unrelated_high([number / 100 for number in range(30, 50)])
shares = st.floats(0.0, 1.0, allow_nan=False)


def made(**changes: Any) -> Calibration:
    numbers: dict[str, Any] = {
        "calibrated_floor": 0.5, "threshold_low": 0.55, "threshold_high": 0.65,
        "short_query_threshold_low": 0.56, "short_query_threshold_high": 0.66,
        "min_similarity_for_hybrid": 0.6, "unrelated_high": 0.45, "measured_on": "nothing",
    }  # fmt: skip
    return Calibration(**{**numbers, **changes})


def local_calibration() -> Calibration:
    found = LocalEmbedder(LocalModel()).profile.calibration
    assert found is not None
    return found


def test_shipped_calibration_is_valid_and_discriminates() -> None:
    found = local_calibration()
    assert DecisionSettings(**found.thresholds()).threshold_low == found.threshold_low
    assert found.calibrated_floor <= found.threshold_low < found.threshold_high
    assert found.unrelated_high <= found.calibrated_floor
    found = local_calibration()
    assert not found.discriminates(DEFAULT_FLOOR)
    assert not found.discriminates(RELEVANCE_FLOOR)
    assert found.discriminates(found.calibrated_floor)
    assert found.discriminates(found.unrelated_high)


def test_calibration_belongs_to_its_bytes_and_floor() -> None:
    profile = LocalEmbedder(LocalModel()).profile
    assert replace(profile, revision="sha256:other").calibration is None
    assert WORDS.calibration is None
    overlapping = made(unrelated_high=0.6)
    assert overlapping.discriminates(0.5)
    assert not overlapping.discriminates(0.4999)
    assert not made().discriminates(0.4499)
    assert made().discriminates(0.45)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_number_off_the_scale_is_refused(value: float) -> None:
    with pytest.raises(InvalidArgument):
        made(threshold_low=value)


@given(st.tuples(shares, shares, shares), st.lists(shares, min_size=1))
def test_any_measured_calibration_is_valid_for_decisions(
    numbers: tuple[float, float, float], scores: list[float]
) -> None:
    least, low, high = sorted(numbers)
    found = round_calibration(least, low, high, max(scores), "chance")
    settings = DecisionSettings(**found.thresholds())
    assert settings.threshold_low <= settings.threshold_high
    assert found.calibrated_floor <= found.threshold_low
    assert found.short_query_threshold_low >= found.threshold_low
    assert found.short_query_threshold_high >= found.threshold_high
    assert abs(found.threshold_low - low) <= 1e-4


@given(st.lists(st.tuples(shares, st.booleans()), min_size=40, max_size=120))
def test_any_proposed_calibration_is_valid_for_decisions(hits: list[tuple[float, bool]]) -> None:
    curve = calibrate([ScoredHit(*hit) for hit in hits], min_auc=0.01, min_hits=5)
    proposed, notes = propose(curve, curve, FAR, "chance")
    if proposed is None:
        assert notes
    else:
        DecisionSettings(**proposed.thresholds())


def test_proportions_of_the_default_settings_are_kept() -> None:
    usual = DecisionSettings()
    found = round_calibration(0.2, usual.threshold_low, usual.threshold_high, 0.9, "defaults")
    assert DecisionSettings(**found.thresholds()) == usual


def test_thresholds_follow_the_best_passage_of_each_query() -> None:
    golden = [GoldenQuery(str(number), f"query {number}", (Expected("a"),)) for number in range(80)]

    def search(query: GoldenQuery) -> list[Found]:
        right = int(query.id) % 2
        score = 0.7 + int(query.id) / 1000 if right else 0.5
        return [Found("a" if right else "b", "", score, ""), Found("c", "", 0.69, "")]

    evaluation = evaluate("x", golden, search)
    passages, queries = curves_of(evaluation)
    proposed, notes = propose(passages, queries, FAR, "these")

    assert best_hits(evaluation)[:2] == [ScoredHit(0.69, False), ScoredHit(0.701, True)]
    assert proposed is not None
    assert (proposed.threshold_low, proposed.threshold_high) == (0.705, 0.705)
    assert (proposed.measured_on, notes) == ("these", ())


def test_thresholds_lie_above_the_floor_and_follow_passages_if_few_miss() -> None:
    strict = [ScoredHit(0.8, True)] * 30 + [ScoredHit(0.75, False)] * 30
    lax = [ScoredHit(0.6, True)] * 30 + [ScoredHit(0.5, False)] * 30
    proposed, _ = propose(calibrate(strict), calibrate(lax), FAR, "")
    assert proposed is not None
    assert proposed.calibrated_floor == proposed.threshold_low == proposed.threshold_high == 0.8

    hits = [ScoredHit(0.8 + n / 1000, True) for n in range(30)]
    hits += [ScoredHit(0.4 + n / 1000, False) for n in range(30)]
    passages, queries = calibrate(hits), calibrate(hits[:30])
    proposed, notes = propose(passages, queries, FAR, "")
    assert proposed is not None
    assert proposed.threshold_high == pytest.approx(0.8, abs=0.01)
    assert [note.code for note in notes] == ["thresholds_by_passages"]


def test_floor_and_unrelated_scores_follow_the_measured_ones() -> None:
    few = calibrate([ScoredHit(0.5, True), ScoredHit(0.4, False)])
    proposed, notes = propose(few, few, FAR, "")
    assert proposed is None
    assert {note.code for note in notes} == {"too_few_hits"}


def test_unrelated_score_is_the_95th_percentile() -> None:
    assert unrelated_high([number / 1000 for number in range(1001)]) == 0.95
