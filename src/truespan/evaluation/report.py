"""The report of an evaluation as HTML: for a file, and for the web page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec import UNSET, Struct, UnsetType

from truespan.evaluation.calibrate import Curve
from truespan.evaluation.compare import Comparison, Verdict
from truespan.evaluation.evaluate import LABELS, NAMES, Evaluation, QueryResult, scored_hits
from truespan.evaluation.plots import (
    Markup,
    draw_changes,
    draw_distribution,
    draw_thresholds,
    element,
    isolate,
    paragraph,
    scrollable,
    text,
)
from truespan.evaluation.tables import (
    calibration_lines,
    comparison_rows,
    describe_changes,
    describe_counts,
    format_number,
    mean_heads,
    mean_rows,
    query_rows,
    verdict_lines,
)
from truespan.types.receipt import SignedReceipt

MAX_ROWS = 1000
NAMES_SHOWN = 3
_WORDS = ("query", "state", "first found")
_HEADS = ("id", "query", "state", *LABELS.values(), "best relevant", "best other", "first found")
_CHANGE_HEADS = ("metric", "old", "new", "change", "better", "worse", "same", "p")
_CHANCE = (
    "p: the probability of so large a difference if both were equally good. A difference with a "
    "large p may be chance."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --quiet: #5a5a5a;
  --line: #c4c4c4; --good: #0b6e4f; --bad: #a63a0a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #14171a; --quiet: #a9b0b6;
  --line: #4a5158; --good: #6fd3ae; --bad: #ffb08a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1.5rem 0; } svg { width: 100%; min-width: 36rem; height: auto; }
figcaption { color: var(--quiet); }
.table-box, .plot-scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, .words { text-align: left; } svg text { fill: var(--ink); font-size: 12px; }
.axis { stroke: var(--line); } .mark { stroke: var(--ink); stroke-dasharray: 2 3; }
.curve { fill: none; stroke-width: 2; } .precision { stroke: var(--good); }
.recall { stroke: var(--bad); stroke-dasharray: 7 4; }
.hatch { stroke: var(--bad); stroke-width: 2; }
.hit, .better { fill: var(--good); } .same { fill: var(--quiet); }
.miss, .worse { stroke: var(--bad); stroke-width: .5; }
"""


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
    html: str | UnsetType = UNSET
    """Figures and plots as HTML, without the queries; only over HTTP, on request."""
    signed_receipt: SignedReceipt | UnsetType = UNSET
    """Signed receipt of everything else but `html`, if it was requested."""


def name_generation(evaluation: Evaluation) -> str:
    """Return the part of an evaluation's name that is its generation, such as `generation 2`."""
    parts = evaluation.name.split(", ")
    return next((part for part in parts if part.startswith("generation ")), evaluation.name)


def report_page(report: EvaluationReport) -> str:
    """Return a whole page, always the same for the same values: figures, plots, and queries."""
    if len(report.evaluations) == 1:
        results = report.evaluations[0].results
        queries = _table("Every query", _HEADS, map(_query_row, results[:MAX_ROWS]))
    else:
        rows = [
            [isolate(query), *map(text, figures)]
            for query, *figures in query_rows(report.evaluations)[:MAX_ROWS]
        ]
        heads = ("query", *report.names)
        queries = _table("Every query, by nDCG or reciprocal rank", heads, rows)
    left = len(report.evaluations[0].results) - MAX_ROWS
    more = [paragraph(f"{left} more queries are in the JSON form.")] if left > 0 else []
    parts = [
        element("h1", {}, text("Evaluation")),
        report_sections(report, level=2),
        element("h2", {}, text("Queries")),
        queries,
        *more,
    ]
    return _page(f"Evaluation of {report.title}", parts)


def report_sections(report: EvaluationReport, *, level: int = 3) -> Markup:
    """Return the figures and plots of a report, without its queries; headings have `level`."""
    return Markup("\n".join(_sections(report, f"h{level}")))


def _sections(report: EvaluationReport, heading: str) -> Iterator[Markup]:
    last = report.evaluations[-1]
    warnings = dict.fromkeys(each for found in report.evaluations for each in found.warnings)
    notes = [element("li", {"data-code": each.code}, text(each.message)) for each in warnings]
    means = [
        [_measured(label, last), *map(text, figures)]
        for label, *figures in mean_rows(report.evaluations, report.comparisons)
    ]
    heads = mean_heads(report.names)
    title = element(heading, {"id": "evaluate-name"}, isolate(report.title))
    yield _section(
        "means",
        element("div", {"class": "evaluate-title"}, title),
        paragraph(describe_counts(last.totals), "evaluate-totals"),
        *([element("ul", {"class": "notes"}, *notes)] if notes else []),
        _table("Means over the judged queries", heads, means, "figures-table means"),
        *([paragraph(_CHANCE, "hint")] if report.comparisons else []),
    )
    pairs = combinations(report.names, 2)
    for place, ((old, new), comparison) in enumerate(zip(pairs, report.comparisons, strict=False)):
        words = f"Change from {old} to {new}"
        rows = [list(map(text, row)) for row in comparison_rows(comparison)]
        key = f"changes-{place}" if place else "changes"
        yield _section(
            "comparison",
            element(heading, {}, text(words)),
            paragraph(describe_changes(comparison)),
            *([_gate(report.verdict)] if report.verdict else []),
            _table("Old against new, over the queries both have", _CHANGE_HEADS, rows),
            *([draw_changes(comparison.changes, words, key)] if comparison.changes else []),
        )
    hits = scored_hits(last)
    of = [text(" of "), isolate(last.name)] if len(report.evaluations) > 1 else []
    yield _section(
        "scores",
        element(heading, {}, text("Scores"), *of),
        draw_distribution(hits) if hits else paragraph("There are no hits.", "empty"),
        *(_thresholds(report.curve) if report.curve else []),
    )


def _measured(label: str, evaluation: Evaluation) -> Markup:
    """Return the label of a metric with its k, if all queries have the same, and their number."""
    name = next(name for name in NAMES if LABELS[name] == label)
    counted = [one for one in evaluation.results if getattr(one.metrics, name) is not None]
    found = {one.top_k for one in counted}
    if len(found) == 1:
        label = label.replace("@k", f"@{found.pop()}")
    queries = "1 query" if len(counted) == 1 else f"{len(counted)} queries"
    return Markup(f"{text(label)} {element('small', {}, text(queries))}")


def _section(part: str, *children: Markup) -> Markup:
    return element("section", {"class": "evaluate-part", "data-part": part}, *children)


def _gate(verdict: Verdict) -> Markup:
    first, *reasons = verdict_lines(verdict)
    listed = [element("li", {}, text(reason.removeprefix("- "))) for reason in reasons]
    return element(
        "div",
        {"class": f"evaluate-gate {'holds' if verdict.passed else 'fails'}"},
        element("p", {}, element("b", {}, text(first))),
        *([element("ul", {}, *listed)] if listed else []),
    )


def _thresholds(curve: Curve) -> Iterator[Markup]:
    lines = " ".join(calibration_lines(curve))
    yield paragraph(f"By passage, over all queries: {lines}")
    if curve.curve:
        yield draw_thresholds(curve.curve, curve.proposal)


def _page(title: str, parts: Iterable[Markup]) -> str:
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", {}, text(title)),
        # Ours, and without a character that could end the element.
        element("style", {}, Markup(_STYLE)),
    )
    main = element("main", {}, Markup("\n".join(parts)))
    page = element("html", {"lang": "en"}, head, Markup("\n"), element("body", {}, main))
    return f"<!doctype html>\n{page}\n"


def _query_row(result: QueryResult) -> list[Markup]:
    state = result.error or str(result.state) + ("" if result.judged else ", unjudged")
    numbers = [getattr(result.metrics, name) for name in NAMES]
    numbers += [result.best_relevant, result.best_irrelevant]
    names = [isolate(document.name) for document in result.documents[:NAMES_SHOWN]]
    return [
        text(result.id),
        isolate(result.query),
        text(state),
        *(text(format_number(number, 3)) for number in numbers),
        Markup(", ".join(names)),
    ]


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Markup]],
    kind: str = "figures-table",
) -> Markup:
    style = [{"class": "words"} if head in _WORDS else {} for head in heads]
    top = [
        element("th", {"scope": "col", **attributes}, text(head))
        for head, attributes in zip(heads, style, strict=True)
    ]
    body = []
    for first, *others in rows:
        cells = [
            element("td", attributes, cell)
            for cell, attributes in zip(others, style[1:], strict=True)
        ]
        body.append(element("tr", {}, element("th", {"scope": "row"}, first), *cells))
    table = element(
        "table",
        {},
        element("caption", {}, text(caption)),
        element("thead", {}, element("tr", {}, *top)),
        element("tbody", {}, *body),
    )
    return scrollable(caption, table, f"table-box {kind}")
