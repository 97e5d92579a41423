"""What a measurement says: figures with their targets, one table, one JSON file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
"""Kept out of git: what runs leave behind, and what they need not make twice."""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure's ratio or, where it has none, on our own value."""

    bound: float
    at_least: bool = False

    def met_by(self, value: float) -> bool:
        """Say whether a value is on the right side of the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `ratio` is what the target speaks of, if there is one."""

    name: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        """Say whether the target was met; None where there is none."""
        judged = self.ours if self.ratio is None else self.ratio
        return None if self.target is None else self.target.met_by(judged)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    full: bool = False


Measure = Callable[[Options], list[Figure]]


def at_most(bound: float) -> Target:
    """Return the target of a figure that should be small."""
    return Target(bound)


def at_least(bound: float) -> Target:
    """Return the target of a figure that should be large."""
    return Target(bound, at_least=True)


def verdict(met: bool | None) -> str:
    """Return the word for a target that was met or not."""
    return "" if met is None else "met" if met else "MISSED"


HEAD = ("figure", "ours", "against", "theirs", "ratio", "target", "")


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines of aligned columns."""
    rows = [HEAD, *map(_row, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def markdown(figures: Sequence[Figure]) -> str:
    """Return the same table for a page of the documentation."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_row, figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        f"{_number(figure.ours)} {figure.unit}".strip(),
        figure.peer,
        "" if figure.theirs is None else f"{_number(figure.theirs)} {figure.unit}".strip(),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.target is None else str(figure.target),
        verdict(figure.met),
    )


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def run(module: str, about: str | None, measure: Measure) -> None:
    """Measure as the command line says, print the table, and keep the figures if told where."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--full", action="store_true", help="leave nothing out, however long")
    parser.add_argument("--into", type=Path, help="write the figures to this file, as JSON")
    given = parser.parse_args()
    figures = measure(Options(full=given.full))
    if given.into is None:
        print(table(figures) if figures else "nothing measured")
    else:
        write(given.into, {"figures": [asdict(figure) for figure in figures]})


def read(path: Path) -> list[Figure]:
    """Return figures that `run` wrote."""
    return [_figure(entry) for entry in json.loads(path.read_text())["figures"]]


def _figure(entry: dict) -> Figure:
    target = entry["target"]
    return Figure(**{**entry, "target": target and Target(**target)})


def write(path: Path, content: object) -> None:
    """Write text as it is, and anything else as JSON that people can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    path.write_text(text + "\n")


def say(lines: Iterable[str] | str) -> None:
    """Print what a person should know while a measurement runs."""
    for line in [lines] if isinstance(lines, str) else lines:
        print(f"  {line}", flush=True)
