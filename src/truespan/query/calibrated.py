"""Which calibration counts for a request."""

from __future__ import annotations

from truespan.model.bundle import Notice
from truespan.model.calibrated import Calibration, shipped
from truespan.model.scope import Scope, Verb
from truespan.ports.calibration import CalibrationStore

LOW_FLOOR = Notice(
    "floor_does_not_discriminate",
    "Most unrelated text reaches this floor under the embedding profile in use; "
    "'truespan calibrate' proposes one that keeps it out.",
)


def calibration_of(store: CalibrationStore, scope: Scope) -> Calibration | None:
    """Return what the world's holder measured, else what is shipped with the profile.

    Readers get what is shipped: what was measured on whole documents tells of unread text.
    """
    whole = scope.position is None and scope.authority.may(Verb.READ, scope.world)
    kept = store.kept_calibration(scope) if whole else None
    return kept or shipped(scope.profile)


def floor_discriminates(store: CalibrationStore, scope: Scope, floor: float | None) -> bool | None:
    """Say whether a floor keeps unrelated text out; None where there is none, or none measured."""
    measured = None if floor is None else calibration_of(store, scope)
    return None if measured is None or floor is None else measured.discriminates(floor)
