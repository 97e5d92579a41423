"""Numbers that separate for one embedding profile, measured, beside the constants of the contract.

Models spread similarities differently: a floor that keeps unrelated text out under one lets all of
it pass under another. What is shipped here was measured with a script of the project, and each
value says on what. It belongs to the very bytes of a model: for any other there is nothing to ship.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from truespan.errors import InvalidSettings
from truespan.model.profile import EmbeddingProfile
from truespan.model.scale import reaches


@dataclass(frozen=True, slots=True)
class Calibration:
    """A floor and thresholds for one embedding profile, on the scale of similarities.

    The fields that `DecisionSettings` has as well are named as there, and it accepts them as they
    are: `thresholds` returns those.
    """

    calibrated_floor: float
    threshold_low: float
    threshold_high: float
    short_query_threshold_low: float
    short_query_threshold_high: float
    min_similarity_for_hybrid: float
    unrelated_high: float
    """The similarity that 95 of 100 unrelated pairs of query and passage stay below."""
    measured_on: str

    def __post_init__(self) -> None:
        numbers = self._numbers()
        if not all(isfinite(value) and 0.0 <= value <= 1.0 for value in numbers.values()):
            raise InvalidSettings("Every number of a calibration lies between 0.0 and 1.0.")

    def discriminates(self, floor: float) -> bool:
        """Say whether a floor separates anything: whether it keeps most unrelated text out.

        Where related and unrelated text overlap, the calibrated floor is as good as it gets.
        """
        return reaches(floor, min(self.unrelated_high, self.calibrated_floor))

    def thresholds(self) -> dict[str, Any]:
        """Return the settings of a decision that this calibration has values for."""
        others = ("calibrated_floor", "unrelated_high")
        return {name: value for name, value in self._numbers().items() if name not in others}

    def _numbers(self) -> dict[str, float]:
        names = [field.name for field in fields(self) if field.name != "measured_on"]
        return {name: getattr(self, name) for name in names}


def shipped(profile: EmbeddingProfile) -> Calibration | None:
    """Return what was measured for a profile's model, if it was."""
    return _SHIPPED.get((profile.provider, profile.model, profile.revision))


_BGE_SMALL_INT8 = "sha256:eebfc995049fdcf1375c0566248463e60fdba846e31a987a42ce9cc564a834a9"
_SHIPPED: dict[tuple[str, str, str], Calibration] = {
    ("local", "BAAI/bge-small-en-v1.5", _BGE_SMALL_INT8): Calibration(
        calibrated_floor=0.5335,
        threshold_low=0.5617,
        threshold_high=0.6441,
        short_query_threshold_low=0.57,
        short_query_threshold_high=0.6524,
        min_similarity_for_hybrid=0.6303,
        unrelated_high=0.4863,
        measured_on="SciFact (5,183 abstracts, 300 claims) and the example novella (37 questions)",
    ),
}
