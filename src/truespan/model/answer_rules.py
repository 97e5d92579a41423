"""What the operator laid down for answers, and what of it holds for one embedding profile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from truespan.errors import InvalidConfiguration
from truespan.model.calibrated import Calibration
from truespan.model.decision_settings import DecisionSettings
from truespan.model.profile import Distance, EmbeddingProfile


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """How answers are decided and what is kept of them.

    `distance` is what the operator expects of every profile, if anything. With `calibrated`, the
    thresholds measured for a profile stand in for the configured ones where there are any.
    """

    decision: DecisionSettings = field(default_factory=DecisionSettings)
    distance: Distance | None = None
    calibrated: bool = False
    log_queries: bool = False
    usage_days: int = 90
    usage_records: int = 10_000

    def for_profile(
        self, profile: EmbeddingProfile, measured: Calibration | None
    ) -> DecisionSettings:
        """Return the settings of decisions on what was found under a profile.

        `measured` is the calibration that counts for it, if there is one.

        Raises:
            InvalidConfiguration: the profile has another distance than the operator expects, or
                one for which there are no raw thresholds.
        """
        if self.distance not in (None, profile.distance):
            raise InvalidConfiguration(
                f"answer_retrieval_distance is {self.distance.value!r}, but vectors of {profile} "
                f"are compared by {profile.distance.value!r}.",
                advice="Set it to the distance of the embedding profile, or leave it empty.",
            )
        thresholds = measured.thresholds() if measured and self.calibrated else {}
        return replace(self.decision, distance=profile.distance, **thresholds)
