"""Plots of evaluations as SVG in HTML, legible without colour; and HTML whose text is escaped.

A plot is an image to a screen reader, so its description says what it shows; the numbers behind it
are in the tables of the report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from math import ceil, floor
from typing import NewType

from truespan.evaluation.calibrate import CurvePoint, Proposal
from truespan.evaluation.compare import QueryChange, leading
from truespan.evaluation.evaluate import ScoredHit

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
    """Return content that scrolls by itself: shrunk to a narrow screen it could not be read."""
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
            # Misses stand beside the hits.
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
        # Each label stands lower than the one before.
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

    `key` tells the ids of several such plots on one page apart.
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
