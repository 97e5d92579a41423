"""Calibrations as plain text for a terminal: the curve, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.model.calibrated import Calibration
from truespan.upkeep.calibrate import CurvePoint
from truespan.upkeep.evaluation_table import calibration_lines
from truespan.upkeep.propose import CalibrationReport

ROWS = 16
_BAR = 20
_ROWS = (
    ("floor", "calibrated_floor"),
    ("threshold low", "threshold_low"),
    ("threshold high", "threshold_high"),
    ("short query low", "short_query_threshold_low"),
    ("short query high", "short_query_threshold_high"),
    ("similarity for hybrid", "min_similarity_for_hybrid"),
    ("unrelated, 95 of 100 below", "unrelated_high"),
)


def calibration_table(report: CalibrationReport) -> str:
    """Return both curves, and what is proposed beside what counts so far."""
    lines = [report.profile, ""]
    for title, curve in (("By passages", report.passages), ("By queries", report.queries)):
        lines += [f"{title}: {' '.join(calibration_lines(curve))}", *curve_lines(curve.curve), ""]
    lines += [note.message for note in report.notes]
    lines += [*_numbers(report.proposed, report.in_force), ""]
    return "\n".join([*lines, _ending(report)]) + "\n"


def curve_lines(curve: Sequence[CurvePoint], rows: int = ROWS) -> list[str]:
    """Return what is left at evenly spread thresholds, precision and recall as bars."""
    if not curve:
        return []
    head = f"  {'score':>6}  {'right':>6} {'other':>6}  {'precision':<{_BAR + 6}}recall"
    most, least = curve[0].threshold, curve[-1].threshold
    step = (most - least) / max(rows - 1, 1)
    wanted = [most - step * row for row in range(rows)] if step else [least]
    return [head, *(_row(curve, threshold) for threshold in wanted)]


def _row(curve: Sequence[CurvePoint], threshold: float) -> str:
    kept = [point for point in curve if point.threshold >= threshold - 1e-9]
    point = kept[-1] if kept else curve[0]
    return (
        f"  {threshold:>6.3f}  {point.relevant:>6} {point.irrelevant:>6}  "
        f"{_bar(point.precision)} {point.precision:.2f} {_bar(point.recall)} {point.recall:.2f}"
    )


def _bar(share: float) -> str:
    filled = round(share * _BAR)
    return "#" * filled + "." * (_BAR - filled)


def _numbers(proposed: Calibration | None, in_force: Calibration | None) -> list[str]:
    if proposed is None and in_force is None:
        return []
    lines = [f"  {'':<27} {'proposed':>9} {'in force':>9}"]
    for label, name in _ROWS:
        values = [getattr(one, name) if one else None for one in (proposed, in_force)]
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        lines.append(f"  {label:<27} {cells[0]:>9} {cells[1]:>9}")
    return lines


def _ending(report: CalibrationReport) -> str:
    if report.proposed is None:
        return "Nothing is proposed, and nothing was changed."
    if report.kept:
        return "Kept: from now on this counts for whoever may read the whole world."
    return "Nothing was changed; with --keep the proposal counts from then on."
