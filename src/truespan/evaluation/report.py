"""The report of an evaluation as HTML: for a file, and for the web page.

Its text is escaped. Its plots are SVG, legible without colour. A plot is an image to a screen
reader, so its description says what it shows; the numbers behind it are in the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from itertools import combinations
from math import ceil, floor
from typing import NewType

from msgspec import UNSET, Struct, UnsetType

from truespan.evaluation.calibrate import Curve, CurvePoint, Proposal
from truespan.evaluation.compare import Comparison, QueryChange, Verdict, leading
from truespan.evaluation.evaluate import (
    LABELS,
    NAMES,
    Evaluation,
    QueryResult,
    ScoredHit,
    scored_hits,
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

Markup = NewType("Markup", str)
"""Text in which every character that is special in HTML was written by this module."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def text(value: object) -> Markup:
    """Return a value as escaped text; characters that no page may contain are replaced."""
    return Markup(escape(_UNFIT.sub("\ufffd", str(value)), quote=True))


def element(name: str, attributes: Mapping[str, object], *children: Markup) -> Markup:
    """Return an element; values of attributes are escaped, numbers cut to two decimals."""
    start = name
    for key, value in attributes.items():
        if isinstance(value, float):
            value = f"{value:.2f}".rstrip("0").rstrip(".")
        start += f' {key}="{text(value)}"'
    return Markup(f"<{start}>" + ("" if name == "meta" else f"{''.join(children)}</{name}>"))


def isolate(value: str) -> Markup:
    """Return text from outside so that its writing direction ends with it."""
    return element("bdi", {}, text(value))


def paragraph(value: str, kind: str = "") -> Markup:
    return element("p", {"class": kind} if kind else {}, text(value))


def scrollable(label: str, content: Markup, kind: str) -> Markup:
    """Return content that scrolls separately: shrunk to a narrow screen it would be illegible."""
    region = {"class": kind, "role": "region", "aria-label": label, "tabindex": 0}
    return element("div", region, content)


WIDTH, HEIGHT = 720.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 24.0, 44.0
BINS = 20
MAX_POINTS = 200
MAX_BARS = 300
"""The changes drawn; of more, those that changed most."""


def draw_distribution(hits: Sequence[ScoredHit]) -> Markup:
    """Draw the distribution of the scores of hits and of misses, each as shares of its total."""
    least, most = _range([hit.score for hit in hits])
    step = (most - least) / BINS
    shares: dict[str, list[float]] = {}
    for kind, relevant in (("hit", True), ("miss", False)):
        scores = [hit.score for hit in hits if hit.relevant is relevant]
        places = [int((score - least) / (most - least) * BINS) for score in scores]
        bins = [min(max(place, 0), BINS - 1) for place in places]
        shares[kind] = [bins.count(place) / max(len(bins), 1) for place in range(BINS)]
    tallest = max(map(max, shares.values())) or 1.0
    across, up = _across(least, most), _up(0.0, tallest)
    parts = _frame(least, most, 0.0, tallest, "similarity", "share")
    for kind, values in shares.items():
        for place, share in enumerate(values):
            if not share:
                continue
            start = least + place * step
            half = (across(start + step) - across(start)) / 2
            # Misses are drawn beside the hits.
            left = across(start) + (half if kind == "miss" else 0.0) + 1.0
            label = f"{kind}: {share:.1%} between {start:.3f} and {start + step:.3f}"
            height = max(up(0.0) - up(share), 0.5)
            width = max(half - 1.0, 1.0)
            parts.append(_bar("distribution", kind, left, up(share), width, height, label))
    for place, (kind, label) in enumerate((("hit", "relevant hits"), ("miss", "irrelevant hits"))):
        left = LEFT + 8 + 160.0 * place
        parts.append(_bar("distribution", kind, left, 5, 12, 10))
        parts.append(_label(left + 18, 14, label, "start"))
    relevant = sum(hit.relevant for hit in hits)
    return _figure(
        "distribution",
        "Scores of hits and misses",
        f"{relevant} relevant hits (filled) and {len(hits) - relevant} irrelevant ones (hatched), "
        f"by similarity from {least:.2f} to {most:.2f}.",
        parts,
    )


def draw_thresholds(curve: Sequence[CurvePoint], proposal: Proposal | None) -> Markup:
    """Draw precision and recall over the threshold, with proposed values as vertical lines."""
    points = list(curve)
    if len(curve) > MAX_POINTS:
        # As many points as can be distinguished: the first of each narrow strip, and the last.
        highest, lowest = curve[0].threshold, curve[-1].threshold
        strips: dict[int, CurvePoint] = {}
        for point in curve[:-1]:
            place = int((highest - point.threshold) / (highest - lowest) * MAX_POINTS)
            strips.setdefault(place, point)
        points = [*strips.values(), curve[-1]]
    least, most = _range([point.threshold for point in points])
    across, up = _across(least, most), _up(0.0, 1.0)
    parts = _frame(least, most, 0.0, 1.0, "threshold", "share")
    for name in ("precision", "recall"):
        places = ((across(point.threshold), up(getattr(point, name))) for point in points)
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(element("polyline", {"class": f"curve {name}", "points": drawn}))
    if proposal:
        proposed = {"floor": proposal.floor, "low": proposal.low, "high": proposal.high}
        marks = [(name, value) for name, value in proposed.items() if value is not None]
        # Each label is lower than the previous label.
        for place, (name, value) in enumerate(marks):
            x, height = across(value), TOP + 14 + 14 * place
            side, shift = ("end", -4) if x > WIDTH * 0.8 else ("start", 4)
            parts.append(_rule(x, TOP, x, HEIGHT - BOTTOM, "mark"))
            parts.append(_label(x + shift, height, f"{name} {value:.3f}", side))
    parts.append(_label(LEFT + 8, 14, "precision: solid line", "start"))
    parts.append(_label(LEFT + 168, 14, "recall: dashed line", "start"))
    return _figure(
        "threshold",
        "Precision and recall over the threshold",
        "Precision (solid) and the share of relevant hits kept (dashed), for each minimum "
        f"similarity from {least:.2f} to {most:.2f}.",
        parts,
    )


def draw_changes(changes: Sequence[QueryChange], title: str, key: str = "changes") -> Markup:
    """Draw the change of each query, from the worst to the best.

    `key` distinguishes the ids of several such plots on one page.
    """
    drawn = sorted(changes, key=lambda change: (-abs(change.difference), change.id))[:MAX_BARS]
    drawn.sort(key=lambda change: (change.difference, change.id))
    up = _up(-1.0, 1.0)
    width = (WIDTH - LEFT - RIGHT) / max(len(drawn), 1)
    parts = _frame(None, None, -1.0, 1.0, "queries, worst change first", "change")
    for place, change in enumerate(drawn):
        top, bottom = sorted((up(change.difference), up(0.0)))
        kind = "better" if change.difference > 0 else "worse" if change.difference < 0 else "same"
        old, new = leading(change.old), leading(change.new)
        label = f"{change.id}: {old:.3f} to {new:.3f} ({change.difference:+.3f})"
        left, height = LEFT + place * width, max(bottom - top, 1.0)
        parts.append(_bar(key, kind, left, top, max(width * 0.9, 0.5), height, label))
    worse, better = (sum(sign * change.difference > 0 for change in changes) for sign in (-1, 1))
    left_out = f" The {MAX_BARS} that changed most are drawn." if len(changes) > MAX_BARS else ""
    return _figure(
        key,
        title,
        f"New minus old for {len(changes)} queries, sorted: {worse} worse (hatched, below the "
        f"middle line), {better} better (filled, above it).{left_out}",
        parts,
    )


def _figure(key: str, title: str, description: str, parts: Sequence[Markup]) -> Markup:
    stroke = element("path", {"d": "M0 6 L6 0", "class": "hatch"})
    size = {"width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
    svg = element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "plot",
            "role": "img",
            "viewBox": f"0 0 {WIDTH:g} {HEIGHT:g}",
            "aria-labelledby": f"{key}-title {key}-description",
        },
        element("title", {"id": f"{key}-title"}, text(title)),
        element("desc", {"id": f"{key}-description"}, text(description)),
        element("defs", {}, element("pattern", {"id": f"{key}-hatching", **size}, stroke)),
        *parts,
    )
    caption = element("figcaption", {"class": "hint"}, text(f"{title}. {description}"))
    box = {"class": "plot-box", "data-plot": key.partition("-")[0]}
    return element("figure", box, scrollable(title, svg, "plot-scroll"), caption)


def _frame(
    least: float | None, most: float | None, low: float, high: float, across: str, up: str
) -> list[Markup]:
    """Draw the axes with their names and a few numbers."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        _label((LEFT + right) / 2, HEIGHT - 6, across, "middle"),
        _label(4, 14, up, "start"),
        _rule(LEFT, bottom, right, bottom),
        _rule(LEFT, TOP, LEFT, bottom),
    ]
    for share in (0.0, 0.5, 1.0):
        height = bottom - share * (bottom - TOP)
        parts.append(_label(LEFT - 6, height + 4, f"{low + share * (high - low):.2f}", "end"))
        parts.append(_rule(LEFT, height, right, height))
    if least is not None and most is not None:
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            place = LEFT + share * (right - LEFT)
            parts.append(_label(place, bottom + 16, f"{least + share * (most - least):.2f}"))
    return parts


def _bar(
    key: str, kind: str, x: float, y: float, width: float, height: float, label: str = ""
) -> Markup:
    shape: dict[str, object] = {"class": kind, "x": x, "y": y, "width": width, "height": height}
    if kind in ("miss", "worse"):
        # Hatching distinguishes the two kinds without colour.
        shape["fill"] = f"url(#{key}-hatching)"
    return element("rect", shape, *([element("title", {}, text(label))] if label else []))


def _label(x: float, y: float, words: str, anchor: str = "middle") -> Markup:
    return element("text", {"x": x, "y": y, "text-anchor": anchor}, text(words))


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> Markup:
    return element("line", {"class": kind, "x1": x1, "y1": y1, "x2": x2, "y2": y2})


def _scale(least: float, most: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - least) / (most - least) * (end - start)


_across = partial(_scale, start=LEFT, end=WIDTH - RIGHT)
_up = partial(_scale, start=HEIGHT - BOTTOM, end=TOP)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return round numbers around all values, never the same one twice."""
    if not values:
        return 0.0, 1.0
    least, most = floor(min(values) * 20) / 20, ceil(max(values) * 20) / 20
    return (least, most) if most > least else (least, least + 0.05)


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
