"""Evaluations, comparisons and calibrations as plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from truespan.evaluation.calibrate import CalibrationReport, Curve, CurvePoint
from truespan.evaluation.compare import Comparison, Verdict
from truespan.evaluation.evaluate import Evaluation, QueryResult, Totals
from truespan.evaluation.metrics import LABELS, NAMES
from truespan.types.profile import Calibration

QUERY_WIDTH = 40
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def evaluation_table(evaluation: Evaluation) -> str:
    """Return the means, the counts, and one line for each query."""
    totals = evaluation.totals
    heads = ("query", "", *(LABELS[name] for name in NAMES), "relevant", "other")
    rows = [_query_row(result) for result in evaluation.results]
    means = ("mean", "", *_figures([getattr(totals.metrics, name) for name in NAMES]), "", "")
    return f"{_heading(evaluation)}\n\n{_table([heads, *rows, means])}"


def summary_table(evaluation: Evaluation) -> str:
    """Return the means and the counts."""
    metrics = evaluation.totals.metrics
    rows = [(LABELS[name], format_number(getattr(metrics, name))) for name in NAMES]
    shown = [row for row in rows if row[1] != format_number(None)]
    return f"{_heading(evaluation)}\n\n{_table([('metric', 'mean'), *shown])}"


def _heading(evaluation: Evaluation) -> str:
    heading = f"{one_line(evaluation.name)}: {describe_counts(evaluation.totals)}"
    return "\n".join([heading, *(f"{one.code}: {one.message}" for one in evaluation.warnings)])


def comparison_table(comparison: Comparison, verdict: Verdict | None = None) -> str:
    """Return old against new for each metric, the queries that changed most, and the verdict."""
    heads = ("metric", "old", "new", "change", "better", "worse", "same", "p sign", "p random")
    rows = [
        (
            LABELS[one.name],
            *_figures([one.old, one.new]),
            format_change(one.difference),
            *map(str, (one.better, one.worse, one.same)),
            *_figures([one.sign_p, one.randomisation_p]),
        )
        for one in comparison.metrics
    ]
    names = f"{one_line(comparison.old_name)} -> {one_line(comparison.new_name)}"
    lines = [
        f"{names}: {describe_changes(comparison)}",
        "",
        _table([heads, *rows]),
        *_movers(comparison),
    ]
    return "\n".join([*lines, *(verdict_lines(verdict) if verdict else [])]).rstrip("\n") + "\n"


def calibration_lines(calibration: Curve) -> list[str]:
    """Return what is proposed, or why nothing is."""
    auc = "none" if calibration.auc is None else f"{calibration.auc:.3f}"
    found = f"{calibration.relevant} relevant and {calibration.irrelevant} irrelevant hits"
    lines = [f"{found}, AUC {auc}."]
    if proposal := calibration.proposal:
        high = "none" if proposal.high is None else f"{proposal.high:.4f}"
        lines.append(f"Floor {proposal.floor:.4f}, low {proposal.low:.4f}, high {high}.")
    return [*lines, *(note.message for note in calibration.notes)]


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return whether the gate holds, and every reason why not."""
    first = "The gate holds." if verdict.passed else "The gate does not hold:"
    return [first, *(f"- {one_line(reason.message)}" for reason in verdict.reasons)]


def describe_counts(totals: Totals) -> str:
    """Return how many queries there were of which kind, those that there are none of left out."""
    kinds = {
        "judged": totals.judged,
        "unjudged": totals.unjudged,
        "empty": totals.empty,
        "failed": totals.failed,
        "expected documents absent": totals.absent_documents,
    }
    shown = [f"{count} {kind}" for kind, count in kinds.items() if count]
    asked = "1 query" if totals.queries == 1 else f"{totals.queries} queries"
    return ", ".join([asked, *shown])


def describe_changes(comparison: Comparison) -> str:
    """Return how many queries got better or worse, and how many could not be compared."""
    kinds = {
        "unjudged": comparison.unjudged,
        "failed in the new": comparison.failed_new,
        "only in the old": len(comparison.only_old),
        "only in the new": len(comparison.only_new),
        "asked otherwise": len(comparison.asked_otherwise),
    }
    always = [f"{comparison.better} better", f"{comparison.worse} worse", f"{comparison.same} same"]
    return ", ".join([*always, *(f"{count} {kind}" for kind, count in kinds.items() if count)])


def one_line(text: str, width: int | None = None) -> str:
    """Return a text on one line, without what moves or hides characters, cut to a width."""
    spaced = " ".join(text.split())
    plain = "".join(one for one in spaced if unicodedata.category(one) not in _INVISIBLE)
    return plain if width is None or len(plain) <= width else plain[: width - 1] + "…"


def format_number(value: float | None, decimals: int = 4) -> str:
    """Return a figure, or a dash where there is none."""
    return "-" if value is None else f"{value:.{decimals}f}"


def format_change(value: float) -> str:
    """Return a difference with its sign; what rounds to nothing has none."""
    spelled = f"{value:+.4f}"
    return spelled.lstrip("+-") if not float(spelled) else spelled


def _query_row(result: QueryResult) -> tuple[str, ...]:
    state = result.error or ("unjudged" if not result.judged else str(result.state))
    return (
        one_line(f"{result.id} {result.query}", QUERY_WIDTH),
        "" if state == "answered" else state,
        *_figures([getattr(result.metrics, name) for name in NAMES]),
        *_figures([result.best_relevant, result.best_irrelevant]),
    )


def _movers(comparison: Comparison, most: int = 10) -> list[str]:
    """Return the queries that changed most, the worst first."""
    ordered = sorted(comparison.changes, key=lambda change: (-abs(change.difference), change.id))
    moved = [change for change in ordered if format_change(change.difference)[0] in "+-"][:most]
    rows = [
        (one_line(f"{change.id} {change.query}", QUERY_WIDTH), format_change(change.difference))
        for change in sorted(moved, key=lambda change: (change.difference, change.id))
    ]
    return [_table([("changed most", "nDCG or RR"), *rows])] if rows else []


def _figures(values: Sequence[float | None]) -> list[str]:
    return [format_number(value) for value in values]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines) + "\n"


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
        return (
            "Saved: it applies to callers who may read the whole world. Readers keep the default."
        )
    return "Nothing was changed; with --keep the proposal counts from then on."
