"""Evaluations, comparisons and calibrations as plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from truespan.upkeep.calibrate import Calibration
from truespan.upkeep.compare import Comparison, Verdict
from truespan.upkeep.evaluate import Evaluation, QueryResult, Totals
from truespan.upkeep.metrics import LABELS, NAMES

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
    rows = [(LABELS[name], figure(getattr(metrics, name))) for name in NAMES]
    shown = [row for row in rows if row[1] != figure(None)]
    return f"{_heading(evaluation)}\n\n{_table([('metric', 'mean'), *shown])}"


def _heading(evaluation: Evaluation) -> str:
    told = f"{one_line(evaluation.name)}: {counts(evaluation.totals)}"
    return "\n".join([told, *(f"{one.code}: {one.message}" for one in evaluation.warnings)])


def comparison_table(comparison: Comparison, verdict: Verdict | None = None) -> str:
    """Return old against new for each metric, the queries that changed most, and the verdict."""
    heads = ("metric", "old", "new", "change", "better", "worse", "same", "p sign", "p random")
    rows = [
        (
            LABELS[one.name],
            *_figures([one.old, one.new]),
            signed(one.difference),
            *map(str, (one.better, one.worse, one.same)),
            *_figures([one.sign_p, one.randomisation_p]),
        )
        for one in comparison.metrics
    ]
    names = f"{one_line(comparison.old_name)} -> {one_line(comparison.new_name)}"
    lines = [f"{names}: {changed(comparison)}", "", _table([heads, *rows]), *_movers(comparison)]
    return "\n".join([*lines, *(verdict_lines(verdict) if verdict else [])]).rstrip("\n") + "\n"


def calibration_lines(calibration: Calibration) -> list[str]:
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


def counts(totals: Totals) -> str:
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


def changed(comparison: Comparison) -> str:
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


def figure(value: float | None, decimals: int = 4) -> str:
    """Return a figure, or a dash where there is none."""
    return "-" if value is None else f"{value:.{decimals}f}"


def signed(value: float) -> str:
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
    moved = [change for change in ordered if signed(change.difference)[0] in "+-"][:most]
    rows = [
        (one_line(f"{change.id} {change.query}", QUERY_WIDTH), signed(change.difference))
        for change in sorted(moved, key=lambda change: (change.difference, change.id))
    ]
    return [_table([("changed most", "nDCG or RR"), *rows])] if rows else []


def _figures(values: Sequence[float | None]) -> list[str]:
    return [figure(value) for value in values]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines) + "\n"
