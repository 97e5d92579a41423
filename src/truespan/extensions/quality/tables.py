"""Evaluations, comparisons and calibrations as plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from truespan.core.graphemes import shorten
from truespan.extensions.quality.calibrate import CalibrationReport, Curve
from truespan.extensions.quality.compare import Comparison, leading
from truespan.extensions.quality.evaluate import LABELS, NAMES, Evaluation, QueryMetrics, Totals
from truespan.types.document import Verdict

QUERY_WIDTH = 40
MOVERS = 10
"""Maximum number of listed queries that changed most."""
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_CALIBRATION_ROWS = (
    ("floor", "calibrated_floor"),
    ("threshold low", "threshold_low"),
    ("threshold high", "threshold_high"),
    ("short query low", "short_query_threshold_low"),
    ("short query high", "short_query_threshold_high"),
    ("similarity for hybrid", "min_similarity_for_hybrid"),
    ("unrelated, 95 of 100 below", "unrelated_high"),
)


def evaluation_table(evaluation: Evaluation) -> str:
    """Return the means, the counts, and one line for each query."""
    rows: list[Sequence[str]] = [
        ("query", "", *(LABELS[name] for name in NAMES), "relevant", "other")
    ]
    for result in evaluation.results:
        state = result.error or (str(result.state) if result.judged else "unjudged")
        rows.append(
            (
                one_line(f"{result.id} {result.query}", QUERY_WIDTH),
                "" if state == "answered" else state,
                *_metric_cells(result.metrics),
                format_number(result.best_relevant),
                format_number(result.best_irrelevant),
            )
        )
    rows.append(("mean", "", *_metric_cells(evaluation.totals.metrics), "", ""))
    return f"{_heading(evaluation)}\n\n{_table(rows)}"


def summary_table(evaluation: Evaluation) -> str:
    """Return the means and the counts."""
    cells = _metric_cells(evaluation.totals.metrics)
    means = zip(map(LABELS.__getitem__, NAMES), cells, strict=True)
    shown = [row for row in means if row[1] != format_number(None)]
    return f"{_heading(evaluation)}\n\n{_table([('metric', 'mean'), *shown])}"


def comparison_table(comparison: Comparison, verdict: Verdict | None = None) -> str:
    """Return old and new for each metric, the queries that changed most, and the verdict."""
    heads = ("metric", "old", "new", "change", "better", "worse", "same")
    names = f"{one_line(comparison.old_name)} -> {one_line(comparison.new_name)}"
    rows = [
        (
            LABELS[metric.name],
            format_number(metric.old),
            format_number(metric.new),
            format_change(metric.difference),
            *map(str, (metric.better, metric.worse, metric.same)),
        )
        for metric in comparison.metrics
    ]
    table = _table([heads, *rows])
    lines = [f"{names}: {describe_changes(comparison)}", "", table]
    ordered = sorted(comparison.changes, key=lambda change: (-abs(change.difference), change.id))
    moved = [change for change in ordered if format_change(change.difference)[0] in "+-"][:MOVERS]
    if moved:
        moved.sort(key=lambda change: (change.difference, change.id))
        movers = [
            (one_line(f"{change.id} {change.query}", QUERY_WIDTH), format_change(change.difference))
            for change in moved
        ]
        lines.append(_table([("changed most", "nDCG or RR"), *movers]))
    if verdict is not None:
        lines.append("The gate holds." if verdict.passed else "The gate does not hold:")
        lines += [f"- {one_line(reason.message)}" for reason in verdict.reasons]
    return "\n".join(lines).rstrip("\n") + "\n"


def modes_table(
    title: str,
    modes: Sequence[str],
    evaluations: Sequence[Evaluation],
    *,
    per_query: bool = False,
) -> str:
    """Return a column for each mode."""
    lines = [f"{one_line(title)}: {describe_counts(evaluations[0].totals)}", ""]
    if per_query:
        lines.append(_table([("query, nDCG or RR", *modes), *_query_rows(evaluations)]))
    lines.append(_table([("metric", *modes), *_mean_rows(evaluations)]).rstrip("\n"))
    for mode, evaluation in zip(modes, evaluations, strict=True):
        if failed := evaluation.totals.failed:
            lines.append(f"{failed} queries failed in the mode {mode}.")
    warnings = dict.fromkeys(warning for each in evaluations for warning in each.warnings)
    lines += [f"{warning.code}: {warning.message}" for warning in warnings]
    return "\n".join(lines) + "\n"


def _mean_rows(evaluations: Sequence[Evaluation]) -> list[tuple[str, ...]]:
    rows = []
    for name in NAMES:
        means = [getattr(evaluation.totals.metrics, name) for evaluation in evaluations]
        if all(mean is None for mean in means):
            continue
        rows.append((LABELS[name], *map(format_number, means)))
    return rows


def _query_rows(evaluations: Sequence[Evaluation]) -> list[tuple[str, ...]]:
    rows = []
    for results in zip(*(evaluation.results for evaluation in evaluations), strict=True):
        figures = [
            result.error or (format_number(leading(result.metrics)) if result.judged else "-")
            for result in results
        ]
        rows.append((one_line(f"{results[0].id} {results[0].query}", QUERY_WIDTH), *figures))
    return rows


def calibration_table(report: CalibrationReport) -> str:
    """Return how well scores separate hits, the thresholds beside the current ones."""
    lines = [report.profile, ""]
    for title, curve in (("By passages", report.passages), ("By queries", report.queries)):
        lines += [f"{title}: {' '.join(calibration_lines(curve))}", ""]
    lines += [note.message for note in report.notes]
    if report.proposed or report.in_force:
        lines.append(f"  {'':<27} {'proposed':>9} {'in force':>9}")
        for label, name in _CALIBRATION_ROWS:
            proposed, in_force = (
                format_number(getattr(calibration, name, None))
                for calibration in (report.proposed, report.in_force)
            )
            lines.append(f"  {label:<27} {proposed:>9} {in_force:>9}")
    lines += ["", f"Minimum evidence of an answer: {report.evidence.message}"]
    if report.evidence.proposed is not None:
        setting = f"answer_min_evidence = {report.evidence.proposed:g}"
        lines.append(f"To use it, write '{setting}' at the top of truespan.toml.")
    if report.proposed is None:
        ending = "No thresholds are proposed, and nothing was changed."
    elif report.kept:
        ending = (
            "Saved: it applies to callers who may read the whole world. Readers keep the default."
        )
    else:
        ending = "Nothing was changed; --keep saves the thresholds."
    return "\n".join([*lines, "", ending]) + "\n"


def calibration_lines(calibration: Curve) -> list[str]:
    """Return the proposal, or the reasons why there is none."""
    auc = "none" if calibration.auc is None else f"{calibration.auc:.3f}"
    found = f"{calibration.relevant} relevant and {calibration.irrelevant} irrelevant hits"
    lines = [f"{found}, AUC {auc}."]
    if proposal := calibration.proposal:
        high = "none" if proposal.high is None else f"{proposal.high:.4f}"
        lines.append(f"Floor {proposal.floor:.4f}, low {proposal.low:.4f}, high {high}.")
    return [*lines, *(note.message for note in calibration.notes)]


def describe_counts(totals: Totals) -> str:
    """Return the numbers of queries by kind; kinds without queries are left out."""
    kinds = {
        "judged": totals.judged,
        "unjudged": totals.unjudged,
        "empty": totals.empty,
        "failed": totals.failed,
        "expected documents absent": totals.absent_documents,
    }
    queries = "1 query" if totals.queries == 1 else f"{totals.queries} queries"
    return ", ".join([queries, *(f"{count} {kind}" for kind, count in kinds.items() if count)])


def describe_changes(comparison: Comparison) -> str:
    """Return the numbers of better, worse and equal queries, and of those not compared."""
    kinds = {
        "unjudged": comparison.unjudged,
        "failed in the new": comparison.failed_new,
        "only in the old": len(comparison.only_old),
        "only in the new": len(comparison.only_new),
        "with another question": len(comparison.changed_queries),
        "newly judged": len(comparison.newly_judged),
    }
    always = [f"{comparison.better} better", f"{comparison.worse} worse", f"{comparison.same} same"]
    return ", ".join([*always, *(f"{count} {kind}" for kind, count in kinds.items() if count)])


def one_line(text: str, width: int | None = None) -> str:
    """Return a text on one line without invisible characters, cut to a width."""
    spaced = " ".join(text.split())
    plain = "".join(char for char in spaced if unicodedata.category(char) not in _INVISIBLE)
    return plain if width is None else shorten(plain, width, "…")


def format_number(value: float | None, decimals: int = 4) -> str:
    """Return a number, or a dash for None."""
    return "-" if value is None else f"{value:.{decimals}f}"


def format_change(value: float) -> str:
    """Return a difference with its sign; zero has no sign."""
    formatted = f"{value:+.4f}"
    return formatted if float(formatted) else formatted.lstrip("+-")


def _heading(evaluation: Evaluation) -> str:
    heading = f"{one_line(evaluation.name)}: {describe_counts(evaluation.totals)}"
    warnings = (f"{warning.code}: {warning.message}" for warning in evaluation.warnings)
    return "\n".join([heading, *warnings])


def _metric_cells(metrics: QueryMetrics) -> list[str]:
    return [format_number(getattr(metrics, name)) for name in NAMES]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text; the first column is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines) + "\n"
