"""The growth of costs as one SVG picture: four panels, both axes by powers of ten.

Who cannot tell the colours tells the lines by their marks and dashes; the figures stand in the
table beside the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

Row = dict[str, Any]

WIDTH, HEIGHT = 960, 680
PANEL_WIDTH, PANEL_HEIGHT = 400, 220
LEFT, TOP = 64, 72
GAP_X, GAP_Y = 76, 84


@dataclass(frozen=True, slots=True)
class Line:
    """How a kind of library is drawn."""

    label: str
    colour: str
    dash: str
    mark: str


LINES = {
    ("sqlite", "one"): Line("SQLite, 1 world", "#1b5e8c", "", "circle"),
    ("sqlite", "many"): Line("SQLite, 1,000 worlds", "#b3541e", "6 4", "square"),
    ("postgres", "one"): Line("PostgreSQL, 1 world", "#3d7a3d", "2 3", "triangle"),
    ("postgres", "many"): Line("PostgreSQL, 1,000 worlds", "#7a3d7a", "10 3 2 3", "cross"),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """What one panel shows of each row."""

    title: str
    path: tuple[str, ...]

    def value(self, row: Row) -> float:
        """Return what is drawn."""
        found: Any = row
        for name in self.path:
            found = found[name]
        return float(found)


PANELS = (
    Panel("ingest, CPU microseconds a chunk", ("ingest_cpu",)),
    Panel("one more document, CPU milliseconds", ("alone_cpu",)),
    Panel("retrieval, p50 in milliseconds", ("retrieval", "p50")),
    Panel("the engine alone, p50 in milliseconds", ("raw", "p50")),
)


@dataclass(frozen=True, slots=True)
class Axis:
    """Powers of ten on a stretch of the picture."""

    low: int
    high: int
    start: float
    length: float

    def place(self, value: float) -> float:
        """Return where a value lies."""
        share = (log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return self.start + share * self.length

    @property
    def ticks(self) -> list[float]:
        """Return the powers that are written beside it."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def plotted(rows: Sequence[Row]) -> str:
    """Return the picture."""
    panels = [part for place, panel in enumerate(PANELS) for part in drawn(place, panel, rows)]
    body = "\n".join([*legend(rows), *panels])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12" fill="#222">\n'
        "<title>How cost grows with the number of chunks</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>'
    )


def drawn(place: int, panel: Panel, rows: Sequence[Row]) -> Iterator[str]:
    """Draw one panel: frame, ticks, and a line for each kind of library."""
    left = LEFT + place % 2 * (PANEL_WIDTH + GAP_X)
    top = TOP + place // 2 * (PANEL_HEIGHT + GAP_Y)
    across = Axis(*powers(row["chunks"] for row in rows), left, PANEL_WIDTH)
    bottom = top + PANEL_HEIGHT
    upward = Axis(*powers(panel.value(row) for row in rows), bottom, -PANEL_HEIGHT)
    yield (
        f'<rect x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" '
        'fill="none" stroke="#888"/>'
    )
    yield text(left, top - 10, panel.title, "start", bold=True)
    for tick in across.ticks:
        yield text(across.place(tick), bottom + 16, f"{tick:,.0f}", "middle")
    yield text(left + PANEL_WIDTH / 2, bottom + 32, "chunks", "middle")
    for tick in upward.ticks:
        height = upward.place(tick)
        yield f'<path d="M{left} {height:.1f}h{PANEL_WIDTH}" stroke="#ddd"/>'
        yield text(left - 6, height + 4, f"{tick:,g}", "end")
    for kind, line in LINES.items():
        points = [
            (across.place(row["chunks"]), upward.place(panel.value(row)))
            for row in rows
            if (row["store"], row["shape"]) == kind
        ]
        yield from traced(line, points)


def traced(line: Line, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Draw a line through its points, and a mark on each."""
    if len(points) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield (
            f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2" '
            f'stroke-dasharray="{line.dash}"/>'
        )
    for x, y in points:
        yield mark(line, x, y)


def mark(line: Line, x: float, y: float) -> str:
    """Return the sign of a line at one place."""
    shapes = {
        "circle": f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        "square": f"M{x - 4.5:.1f} {y - 4.5:.1f}h9v9h-9z",
        "triangle": f"M{x:.1f} {y - 6:.1f}l6 10h-12z",
        "cross": f"M{x - 5:.1f} {y - 1.5:.1f}h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
    }
    return f'<path d="{shapes[line.mark]}" fill="{line.colour}"/>'


def legend(rows: Sequence[Row]) -> Iterator[str]:
    """Draw what each mark stands for, of those that occur."""
    kinds = {(row["store"], row["shape"]) for row in rows}
    for place, line in enumerate(line for kind, line in LINES.items() if kind in kinds):
        x = LEFT + place * 215
        yield from traced(line, [(x, 24.0), (x + 28, 24.0)])
        yield text(x + 38, 28, line.label, "start")


def text(x: float, y: float, content: str, anchor: str, *, bold: bool = False) -> str:
    """Return a piece of writing."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{content}</text>'


def powers(values: Iterator[float]) -> tuple[int, int]:
    """Return the powers of ten between which all values lie."""
    logs = [log10(value) for value in values if value > 0] or [0.0]
    low = floor(min(logs) + 0.02)
    return low, max(ceil(max(logs) - 0.02), low + 1)
