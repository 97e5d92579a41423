"""The HTML report of an evaluation, with plots as inline SVG that are legible without colour.

A plot is an image to a screen reader, so its description says what it shows; the numbers behind it
are in the tables of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor
from typing import NewType

from truespan.evaluation.calibrate import Curve, CurvePoint, Proposal
from truespan.evaluation.compare import Comparison, QueryChange, Verdict, leading
from truespan.evaluation.evaluate import Evaluation, QueryResult, ScoredHit, scored_hits
from truespan.evaluation.metrics import LABELS, NAMES
from truespan.evaluation.tables import (
    calibration_lines,
    describe_changes,
    describe_counts,
    format_change,
    format_number,
    verdict_lines,
)

Markup = NewType("Markup", str)
"""Text in which every character that is special in HTML was written by this module."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = {"meta", "br"}


def text(value: object) -> Markup:
    """Return a value as escaped text; characters that no page may contain are replaced."""
    return Markup(escape(_UNFIT.sub("\ufffd", str(value)), quote=True))


def foreign(value: str) -> Markup:
    """Return text from outside, isolated so that its writing direction ends with it."""
    return element("bdi", {}, text(value))


def element(name: str, attributes: Mapping[str, object], *children: Markup) -> Markup:
    """Return an element; values of attributes are escaped, numbers cut to two decimals."""
    spelled = "".join(f' {key}="{_spelled(value)}"' for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{''.join(children)}</{name}>")


def joined(*parts: Markup) -> Markup:
    """Return parts one below the other."""
    return Markup("\n".join(part for part in parts if part))


def _spelled(value: object) -> Markup:
    return text(f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value)


WIDTH, HEIGHT = 720.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 24.0, 44.0
BINS = 20
MOST_POINTS = 200
MOST_BARS = 300
"""The changes drawn; of more, those that changed most."""

Scale = Callable[[float], float]


def distribution_plot(hits: Sequence[ScoredHit]) -> Markup:
    """Draw how the scores of hits and of misses are spread, each as shares of its own kind."""
    scores = [hit.score for hit in hits]
    least, most = _range(scores)
    kinds = {"hit": True, "miss": False}
    shares = {
        kind: _shares([hit.score for hit in hits if hit.relevant is wanted], least, most)
        for kind, wanted in kinds.items()
    }
    tallest = max(max(values) for values in shares.values()) or 1.0
    across, up = _across(least, most), _up(0.0, tallest)
    step = (most - least) / BINS
    bars = [
        _bar(kind, share, least + place * step, step, across, up)
        for kind in kinds
        for place, share in enumerate(shares[kind])
        if share
    ]
    relevant = sum(hit.relevant for hit in hits)
    return _figure(
        "distribution",
        "Scores of hits and misses",
        f"{relevant} relevant hits (filled) and {len(hits) - relevant} irrelevant ones (hatched), "
        f"by similarity from {least:.2f} to {most:.2f}.",
        [*_frame(least, most, 0.0, tallest, "similarity", "share"), *bars, *_legend()],
    )


def threshold_plot(curve: Sequence[CurvePoint], proposal: Proposal | None) -> Markup:
    """Draw precision and recall over the threshold, with what is proposed as upright lines."""
    points = _thinned(curve)
    least, most = _range([point.threshold for point in points])
    across, up = _across(least, most), _up(0.0, 1.0)
    marks = _marks(proposal, across) if proposal else []
    lines = [
        _line("precision", [(across(one.threshold), up(one.precision)) for one in points]),
        _line("recall", [(across(one.threshold), up(one.recall)) for one in points]),
    ]
    legend = [
        _label(LEFT + 8, 14, "precision: solid line", "start"),
        _label(LEFT + 168, 14, "recall: dashed line", "start"),
    ]
    return _figure(
        "threshold",
        "Precision and recall over the threshold",
        "Precision (solid) and the share of relevant hits kept (dashed), for each least "
        f"similarity from {least:.2f} to {most:.2f}.",
        [*_frame(least, most, 0.0, 1.0, "threshold", "share"), *lines, *marks, *legend],
    )


def changes_plot(changes: Sequence[QueryChange]) -> Markup:
    """Draw by how much each query changed, from the worst to the best."""
    most = sorted(changes, key=lambda one: (-abs(one.difference), one.id))[:MOST_BARS]
    ordered = sorted(most, key=lambda one: (one.difference, one.id))
    up = _up(-1.0, 1.0)
    width = (WIDTH - LEFT - RIGHT) / max(len(ordered), 1)
    bars = [
        _change_bar(change, LEFT + place * width, width, up) for place, change in enumerate(ordered)
    ]
    worse, better = (sum(sign * one.difference > 0 for one in changes) for sign in (-1, 1))
    left_out = f" The {MOST_BARS} that changed most are drawn." if len(changes) > MOST_BARS else ""
    return _figure(
        "changes",
        "Change of each query",
        f"New less old for {len(changes)} queries, sorted: {worse} worse (hatched, below the "
        f"middle line), {better} better (filled, above it).{left_out}",
        [*_frame(None, None, -1.0, 1.0, "queries, worst change first", "change"), *bars],
    )


def _figure(key: str, title: str, description: str, parts: Sequence[Markup]) -> Markup:
    svg = element(
        "svg",
        {
            "role": "img",
            "viewBox": f"0 0 {WIDTH:g} {HEIGHT:g}",
            "aria-labelledby": f"{key}-title {key}-description",
        },
        element("title", {"id": f"{key}-title"}, text(title)),
        element("desc", {"id": f"{key}-description"}, text(description)),
        _hatching(key),
        element("g", {"class": f"plot {key}"}, *parts),
    )
    caption = element("figcaption", {}, text(f"{title}. {description}"))
    # On a narrow screen a plot scrolls by itself: shrunk to fit, its words could not be read.
    region = {"class": "scroll", "role": "region", "aria-label": title, "tabindex": 0}
    return element("figure", {}, element("div", region, svg), caption)


def _hatching(key: str) -> Markup:
    stroke = element("path", {"d": "M0 6 L6 0", "class": "hatch"})
    size = {"width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
    return element("defs", {}, element("pattern", {"id": f"{key}-hatching", **size}, stroke))


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


def _bar(kind: str, share: float, start: float, step: float, across: Scale, up: Scale) -> Markup:
    """Draw how many of a kind score between `start` and the next step; misses beside the hits."""
    half = (across(start + step) - across(start)) / 2
    shape = {
        "x": across(start) + (half if kind == "miss" else 0.0) + 1.0,
        "y": up(share),
        "width": max(half - 1.0, 1.0),
        "height": max(up(0.0) - up(share), 0.5),
    }
    label = f"{kind}: {share:.1%} between {start:.3f} and {start + step:.3f}"
    return element("rect", {"class": kind, **shape}, element("title", {}, text(label)))


def _change_bar(change: QueryChange, left: float, width: float, up: Scale) -> Markup:
    top, bottom = sorted((up(change.difference), up(0.0)))
    kind = "better" if change.difference > 0 else "worse" if change.difference < 0 else "same"
    label = (
        f"{change.id}: {leading(change.old):.3f} to {leading(change.new):.3f} "
        f"({change.difference:+.3f})"
    )
    shape = {
        "x": left,
        "y": top,
        "width": max(width * 0.9, 0.5),
        "height": max(bottom - top, 1.0),
    }
    return element("rect", {"class": kind, **shape}, element("title", {}, text(label)))


def _marks(proposal: Proposal, across: Scale) -> list[Markup]:
    """Draw the proposed floor and thresholds; each label stands lower than the one before."""
    named = {"floor": proposal.floor, "low": proposal.low, "high": proposal.high}
    there = [(name, value) for name, value in named.items() if value is not None]
    parts = []
    for place, (name, value) in enumerate(there):
        where = across(value)
        side = "end" if where > WIDTH * 0.8 else "start"
        shift = -4 if side == "end" else 4
        parts.append(_rule(where, TOP, where, HEIGHT - BOTTOM, "mark"))
        parts.append(_label(where + shift, TOP + 14 + 14 * place, f"{name} {value:.3f}", side))
    return parts


def _legend() -> list[Markup]:
    parts = []
    for place, (kind, words) in enumerate((("hit", "relevant hits"), ("miss", "irrelevant hits"))):
        left = LEFT + 8 + 160.0 * place
        parts.append(element("rect", {"class": kind, "x": left, "y": 5, "width": 12, "height": 10}))
        parts.append(_label(left + 18, 14, words, "start"))
    return parts


def _line(kind: str, places: Sequence[tuple[float, float]]) -> Markup:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return element("polyline", {"class": f"curve {kind}", "points": points})


def _label(x: float, y: float, words: str, anchor: str = "middle") -> Markup:
    return element("text", {"x": x, "y": y, "text-anchor": anchor}, text(words))


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> Markup:
    return element("line", {"class": kind, "x1": x1, "y1": y1, "x2": x2, "y2": y2})


def _across(least: float, most: float) -> Scale:
    return lambda value: LEFT + (value - least) / (most - least) * (WIDTH - LEFT - RIGHT)


def _up(least: float, most: float) -> Scale:
    bottom = HEIGHT - BOTTOM
    return lambda value: bottom - (value - least) / (most - least) * (bottom - TOP)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return round numbers around all values, never the same one twice."""
    if not values:
        return 0.0, 1.0
    least, most = floor(min(values) * 20) / 20, ceil(max(values) * 20) / 20
    return (least, most) if most > least else (least, least + 0.05)


def _shares(scores: Sequence[float], least: float, most: float) -> list[float]:
    counts = [0] * BINS
    for score in scores:
        place = int((score - least) / (most - least) * BINS)
        counts[min(max(place, 0), BINS - 1)] += 1
    return [count / max(len(scores), 1) for count in counts]


def _thinned(curve: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return as many points as can be told apart: of each narrow strip the first, and the last."""
    if len(curve) <= MOST_POINTS:
        return list(curve)
    most, least = curve[0].threshold, curve[-1].threshold
    strips: dict[int, CurvePoint] = {}
    for point in curve[:-1]:
        strips.setdefault(int((most - point.threshold) / (most - least) * MOST_POINTS), point)
    return [*strips.values(), curve[-1]]


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
    calibration: Curve | None = None,
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
            element("p", {}, text(describe_counts(evaluation.totals))),
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
    rows = [[text(LABELS[name]), text(format_number(getattr(metrics, name)))] for name in NAMES]
    return _table("Means over the judged queries", ("metric", "mean"), rows)


def _comparison(comparison: Comparison, verdict: Verdict | None) -> Markup:
    heads = ("metric", "old", "new", "change", "better", "worse", "same", "p (random)")
    rows = [
        [
            text(LABELS[one.name]),
            *map(
                text,
                (format_number(one.old), format_number(one.new), format_change(one.difference)),
            ),
            *map(text, (one.better, one.worse, one.same, format_number(one.randomisation_p))),
        ]
        for one in comparison.metrics
    ]
    names = (foreign(comparison.old_name), text(" to "), foreign(comparison.new_name))
    return joined(
        element("h2", {}, text("Change from "), *names),
        element("p", {}, text(describe_changes(comparison))),
        *(element("p", {}, text(line)) for line in (verdict_lines(verdict) if verdict else ())),
        _table("Old against new, over the queries both have", heads, rows),
        changes_plot(comparison.changes) if comparison.changes else Markup(""),
    )


def _scores(evaluation: Evaluation, calibration: Curve | None) -> Markup:
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
        *(text(format_number(getattr(result.metrics, name), 3)) for name in NAMES),
        text(format_number(result.best_relevant, 3)),
        text(format_number(result.best_irrelevant, 3)),
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
