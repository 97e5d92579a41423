"""An evaluation as one HTML page that needs nothing else: no script, no request, no other file.

It shows queries, ids, names and figures. No word of a document can be in it, because none is in an
evaluation. All that somebody else wrote goes through `markup.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from truespan.upkeep.calibrate import Calibration
from truespan.upkeep.compare import Comparison, Verdict
from truespan.upkeep.evaluate import Evaluation, QueryResult, scored_hits
from truespan.upkeep.evaluation_table import (
    calibration_lines,
    changed,
    counts,
    figure,
    signed,
    verdict_lines,
)
from truespan.upkeep.markup import Markup, element, foreign, joined, text
from truespan.upkeep.metrics import LABELS, NAMES
from truespan.upkeep.plots import changes_plot, distribution_plot, threshold_plot

MOST_ROWS = 1000
NAMES_SHOWN = 3
_WORDS = ("query", "state", "first found")
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
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; white-space: nowrap; }
th, td { padding: .2rem .6rem; text-align: right;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, .words { text-align: left; } svg text { fill: var(--ink); font-size: 12px; }
.axis { stroke: var(--line); } .mark { stroke: var(--ink); stroke-dasharray: 2 3; }
.curve { fill: none; stroke-width: 2; } .precision { stroke: var(--good); }
.recall { stroke: var(--bad); stroke-dasharray: 7 4; }
.hatch { stroke: var(--bad); stroke-width: 2; }
.hit, .better { fill: var(--good); } .same { fill: var(--quiet); }
.miss { fill: url(#distribution-hatching); stroke: var(--bad); }
.worse { fill: url(#changes-hatching); stroke: var(--bad); stroke-width: .5; }
"""


def report_page(
    evaluation: Evaluation,
    *,
    comparison: Comparison | None = None,
    verdict: Verdict | None = None,
    calibration: Calibration | None = None,
) -> str:
    """Return the page: figures, plots, and every query; with old against new where that is known.

    The same values give the same page, byte for byte.
    """
    title = f"Evaluation of {evaluation.name}"
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
    main = element(
        "main",
        {},
        joined(
            element("h1", {}, text("Evaluation of "), foreign(evaluation.name)),
            element("p", {}, text(counts(evaluation.totals))),
            *(element("p", {}, text(one.message)) for one in evaluation.warnings),
            _means(evaluation),
            _comparison(comparison, verdict) if comparison else Markup(""),
            _scores(evaluation, calibration),
            _queries(evaluation),
        ),
    )
    page = element("html", {"lang": "en"}, head, Markup("\n"), element("body", {}, main))
    return f"<!doctype html>\n{page}\n"


def _means(evaluation: Evaluation) -> Markup:
    metrics = evaluation.totals.metrics
    rows = [[text(LABELS[name]), text(figure(getattr(metrics, name)))] for name in NAMES]
    return _table("Means over the judged queries", ("metric", "mean"), rows)


def _comparison(comparison: Comparison, verdict: Verdict | None) -> Markup:
    heads = ("metric", "old", "new", "change", "better", "worse", "same", "p (random)")
    rows = [
        [
            text(LABELS[one.name]),
            *map(text, (figure(one.old), figure(one.new), signed(one.difference))),
            *map(text, (one.better, one.worse, one.same, figure(one.randomisation_p))),
        ]
        for one in comparison.metrics
    ]
    names = (foreign(comparison.old_name), text(" to "), foreign(comparison.new_name))
    return joined(
        element("h2", {}, text("Change from "), *names),
        element("p", {}, text(changed(comparison))),
        *(element("p", {}, text(line)) for line in (verdict_lines(verdict) if verdict else ())),
        _table("Old against new, over the queries both have", heads, rows),
        changes_plot(comparison.changes) if comparison.changes else Markup(""),
    )


def _scores(evaluation: Evaluation, calibration: Calibration | None) -> Markup:
    hits = scored_hits(evaluation)
    parts = [element("h2", {}, text("Scores"))]
    parts.append(distribution_plot(hits) if hits else element("p", {}, text("There are no hits.")))
    if calibration is not None:
        parts.append(element("p", {}, text("By single passages, of whatever query:")))
        parts.extend(element("p", {}, text(line)) for line in calibration_lines(calibration))
        if calibration.curve:
            parts.append(threshold_plot(calibration.curve, calibration.proposal))
    return joined(*parts)


def _queries(evaluation: Evaluation) -> Markup:
    shown = evaluation.results[:MOST_ROWS]
    left = len(evaluation.results) - len(shown)
    heads = ("id", "query", "state", *LABELS.values(), "best relevant", "best other", "first found")
    table = _table("Every query", heads, map(_query_row, shown))
    more = element("p", {}, text(f"{left} more queries are in the JSON form.")) if left else None
    return joined(element("h2", {}, text("Queries")), table, more or Markup(""))


def _query_row(result: QueryResult) -> list[Markup]:
    names = [foreign(one.name) for one in result.documents[:NAMES_SHOWN]]
    state = result.error or str(result.state) + ("" if result.judged else ", unjudged")
    return [
        text(result.id),
        foreign(result.query),
        text(state),
        *(text(figure(getattr(result.metrics, name), 3)) for name in NAMES),
        text(figure(result.best_relevant, 3)),
        text(figure(result.best_irrelevant, 3)),
        Markup(", ".join(names)),
    ]


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Markup]]) -> Markup:
    """Return a table that scrolls by itself, so that a narrow screen shows all of it."""
    top = element("tr", {}, *(element("th", _column(head), text(head)) for head in heads))
    body = [
        element("tr", {}, element("th", {"scope": "row"}, row[0]), *map(_cell, heads[1:], row[1:]))
        for row in rows
    ]
    table = element(
        "table",
        {},
        element("caption", {}, text(caption)),
        element("thead", {}, top),
        element("tbody", {}, *body),
    )
    region = {"class": "scroll", "role": "region", "aria-label": caption, "tabindex": 0}
    return element("div", region, table)


def _column(head: str) -> dict[str, object]:
    return {"scope": "col", "class": "words"} if head in _WORDS else {"scope": "col"}


def _cell(head: str, content: Markup) -> Markup:
    return element("td", {"class": "words"} if head in _WORDS else {}, content)
