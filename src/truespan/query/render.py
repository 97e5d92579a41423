"""The context a model is given: chunk text and nothing else."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from truespan.model.trail import Verified

SEPARATOR = "\n\n"


def render(passages: Sequence[Verified]) -> str:
    """Join the passages in their order; what overlaps an earlier one is not said twice.

    Repetition is told by code-point intervals of the same document, never by comparing text: two
    equal sentences in two places are both there.
    """
    shown: dict[tuple[int, int], list[tuple[int, int]]] = {}
    parts: list[str] = []
    for passage in passages:
        chunk = passage.chunk
        taken = shown.setdefault((passage.document.number, passage.document.revision), [])
        for start, end in uncovered(taken, chunk.start, chunk.end):
            part = passage.text[start - chunk.start : end - chunk.start].strip()
            if part:
                parts.append(part)
        insort(taken, (chunk.start, chunk.end))
    return SEPARATOR.join(parts)


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
