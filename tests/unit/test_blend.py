"""The blend of two scores of a chunk, on scales that do not depend on the size of a world."""

import pytest
from msgspec.structs import replace

from tests.promises import proves
from truespan.retrieval.fused import Scale, scale_of
from truespan.types.profile import Calibration

MODEL = Calibration(
    calibrated_floor=0.5, threshold_low=0.5, threshold_high=0.6, short_query_threshold_low=0.5,
    short_query_threshold_high=0.6, min_similarity_for_hybrid=0.6, unrelated_high=0.5,
    measured_on="test",
)  # fmt: skip
SCALE = scale_of([0.9, 0.6], best_words=8.0, possible_words=18.0, calibration=MODEL)


def by_words(scale: Scale, bm25: float) -> float:
    """Return a blend in which similarity has no weight."""
    return scale.blend(1.0, bm25, 0.6)


def by_similarity(scale: Scale, similarity: float) -> float:
    """Return a blend in which words have no weight."""
    return scale.blend(0.0, 8.0, similarity)


@proves("search.blend")
def test_scale_of_a_known_model_does_not_depend_on_the_results() -> None:
    crowded = scale_of([0.9] * 100, best_words=8.0, possible_words=18.0, calibration=MODEL)
    assert crowded == SCALE
    assert by_similarity(SCALE, 0.5) == 0.0
    assert by_similarity(SCALE, 0.7) == pytest.approx(1.0)
    # Below what unrelated texts have, similarity still tells two chunks apart.
    assert by_similarity(SCALE, 0.3) < by_similarity(SCALE, 0.4) < 0.0


@pytest.mark.parametrize(
    ("score", "expected"), [(0.5, 0.5), (0.3, 0.0), (0.6, 1.0), (0.4, 0.0), (0.7, 1.0)]
)
def test_uncalibrated_scale_follows_the_closest_chunks(score: float, expected: float) -> None:
    useless = replace(MODEL, unrelated_high=0.7)
    for calibration in (None, useless):
        scale = scale_of([0.6, 0.5, 0.4], 1.0, 1.0, calibration)
        assert by_similarity(scale, score) == pytest.approx(expected)
        assert by_words(scale_of([0.6], 8.0, 18.0, calibration), 8.0) == 1.0


def test_blend_weighs_similarity_and_words() -> None:
    assert by_similarity(scale_of([0.5], 1.0, 1.0, None), 0.5) == 1.0
    assert by_similarity(scale_of([0.5], 1.0, 1.0, None), 0.4) == 0.0
    assert by_similarity(scale_of([], 1.0, 1.0, None), 0.0) == 1.0

    assert by_words(SCALE, 0.0) == 0.0
    assert by_words(SCALE, 8.0) == pytest.approx((8 / 12) ** 1.5, abs=1e-6)
    # Half of the words count for less than half.
    assert by_words(SCALE, 4.0) < by_words(SCALE, 8.0) / 2
    assert by_words(Scale(0.5, 0.7, 0.0, 0.0), 0.0) == 0.0

    assert SCALE.blend(0.0, 8.0, 0.6) == pytest.approx(0.5)
    assert SCALE.blend(1.0, 8.0, 0.6) == pytest.approx((8 / 12) ** 1.5, abs=1e-6)
    assert SCALE.blend(0.5, 8.0, 0.6) == pytest.approx((0.5 + (8 / 12) ** 1.5) / 2, abs=1e-6)
