"""Calibrations that a world's holder measured and kept."""

from __future__ import annotations

from typing import Protocol

from truespan.model.calibrated import Calibration
from truespan.model.scope import Scope


class CalibrationStore(Protocol):
    """What was measured for a world's embedding profiles. It is for the world's holder alone.

    A number measured on all documents tells of all of them, so no reader's answer may depend on it.
    """

    def kept_calibration(self, scope: Scope) -> Calibration | None:
        """Return what was kept for the scope's profile; None when nothing was."""
        ...

    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        """Keep a calibration in the place of an earlier one."""
        ...

    def forget_calibration(self, scope: Scope) -> bool:
        """Forget what was kept; say whether there was anything."""
        ...
