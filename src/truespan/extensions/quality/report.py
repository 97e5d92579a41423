"""The report of an evaluation: what was measured, once or several times, and compared."""

from __future__ import annotations

from msgspec import Struct

from truespan.extensions.quality.calibrate import Curve
from truespan.extensions.quality.compare import Comparison
from truespan.extensions.quality.evaluate import Evaluation
from truespan.types.document import Verdict


class EvaluationReport(Struct, frozen=True):
    """Golden queries as asked once or several times, and every two of the times compared.

    `evaluations` are in the order of the modes, or the old generation before the new one.
    `comparisons` are in the order of their pairs: the first with the second, the first with the
    third, and so on.
    """

    title: str
    evaluations: tuple[Evaluation, ...]
    names: tuple[str, ...] = ("mean",)
    """Modes or generations of several evaluations."""
    comparisons: tuple[Comparison, ...] = ()
    verdict: Verdict | None = None
    """Whether the new generation may replace the old; None without an old one."""
    curve: Curve | None = None
    """Precision and recall over the threshold, in the last evaluation."""


def name_generation(evaluation: Evaluation) -> str:
    parts = evaluation.name.split(", ")
    return next((part for part in parts if part.startswith("generation ")), evaluation.name)
