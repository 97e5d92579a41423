"""Thresholds from the chunks of a world, for models without a measured calibration."""

import pytest

from tests.promises import proves
from truespan.engine.calibration import MIN_PAIRS, calibrate_from_pairs
from truespan.types.decision import DecisionSettings
from truespan.types.profile import Calibration, CalibrationOrigin, Distance


def pairs(middle: float, spread: float = 0.1, count: int = 100) -> list[float]:
    return [middle - spread + 2 * spread * place / (count - 1) for place in range(count)]


def measured(middle: float, distance: Distance = Distance.COSINE) -> Calibration:
    found = calibrate_from_pairs(pairs(middle + 0.2), pairs(middle), 500, distance)
    assert found is not None
    return found


@proves("calibration.from-documents")
def test_thresholds_follow_the_similarity_of_unrelated_chunks() -> None:
    rows = {0.65: (0.5675, 0.6455), 0.12: (0.276, 0.3964), 0.0: (0.21, 0.34)}
    for middle, (low, high) in rows.items():
        found = measured(middle)
        assert found.threshold_low == pytest.approx(low, abs=0.002), middle
        assert found.threshold_high == pytest.approx(high, abs=0.002), middle
        assert (found.origin, found.chunks) == (CalibrationOrigin.DOCUMENTS, 500)
        # A decision accepts them as they are.
        assert DecisionSettings(**found.thresholds()).threshold_low == found.threshold_low
        assert found.discriminates(found.threshold_low)


def test_pair_thresholds_are_near_the_shipped_ones() -> None:
    """The median of random pairs of chunks of books is 0.68 under the local model."""
    [known] = [found for found in _shipped() if found]
    found = measured(0.677)

    assert found.threshold_low == pytest.approx(known.threshold_low, abs=0.06)
    assert found.threshold_high == pytest.approx(known.threshold_high, abs=0.04)


def _shipped() -> list[Calibration | None]:
    from truespan.providers.local import LocalEmbedder, LocalModel

    return [LocalEmbedder(LocalModel()).profile.calibration]


def test_pairs_are_on_the_scale_of_similarities_or_unused() -> None:
    cosine, dot = measured(0.3), measured(0.3, Distance.DOT)
    assert dot.threshold_low == pytest.approx((cosine.threshold_low + 1) / 2, abs=1e-3)
    assert dot.threshold_high == pytest.approx((cosine.threshold_high + 1) / 2, abs=1e-3)
    few = pairs(0.3, count=MIN_PAIRS - 1)
    assert calibrate_from_pairs(few, pairs(0.1), 500) is None
    assert calibrate_from_pairs(pairs(0.3), few, 500) is None
    assert calibrate_from_pairs(pairs(0.3), pairs(0.3), 500) is None
    assert calibrate_from_pairs([], [], 0) is None
