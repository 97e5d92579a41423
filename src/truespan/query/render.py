"""The context a model is given: chunk text and nothing else."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

SEPARATOR = "\n\n"


class Showable(Protocol):
    """Text that stands at a place of a document."""

    @property
    def document(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def text(self) -> str: ...


@dataclass(slots=True)
class Shown:
    """Which parts of which documents were shown already, as code-point intervals.

    Repetition is told by place, never by comparing text: two equal sentences in two places are both
    there. All parts of a document are of one revision, since a response sees one state of a world.
    """

    _taken: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def uncovered(self, document: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of an interval was not shown yet, in order."""
        return uncovered(self._taken.get(document, ()), start, end)

    def add(self, document: int, start: int, end: int) -> None:
        """Take note of an interval that is shown."""
        insort(self._taken.setdefault(document, []), (start, end))


def render(parts: Iterable[Showable]) -> str:
    """Join texts in their order; what overlaps an earlier one is not said twice."""
    shown = Shown()
    pieces: list[str] = []
    for part in parts:
        for start, end in shown.uncovered(part.document, part.start, part.end):
            piece = part.text[start - part.start : end - part.start].strip()
            if piece:
                pieces.append(piece)
        shown.add(part.document, part.start, part.end)
    return SEPARATOR.join(pieces)


def uncovered(taken: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return what of [start, end) none of the sorted intervals covers, in order."""
    left: list[tuple[int, int]] = []
    for begin, finish in taken[: bisect_left(taken, (end, end))]:
        if begin > start:
            left.append((start, begin))
        start = max(start, finish)
        if start >= end:
            return left
    left.append((start, end))
    return left
