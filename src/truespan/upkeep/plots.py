"""Plots as inline SVG: each with a title and a description, and legible without colour.

A plot is a picture to a screen reader, so its description says what the picture shows; the figures
behind it stand in the tables of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor

from truespan.upkeep.calibrate import CurvePoint, Proposal
from truespan.upkeep.compare import QueryChange, leading
from truespan.upkeep.evaluate import ScoredHit
from truespan.upkeep.markup import Markup, element, text

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
