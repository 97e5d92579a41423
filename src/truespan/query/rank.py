"""The order of results, which must not depend on the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from truespan.model.trail import Hit, Verified, Visible
from truespan.query.similarity import SCORE_DECIMALS


def rank(found: Sequence[Verified], k: int) -> list[Verified]:
    """Return the best `k`: by score at six decimals, then document number, then chunk index.

    Where words counted as well, their blend with the score comes first; chunks that were not
    blended follow.
    """
    return sorted(found, key=lambda one: _order(one, one.document.number, one.chunk.index))[:k]


def rank_visible(found: Iterable[Visible]) -> list[Visible]:
    """Return visible chunks in the same order."""
    return sorted(found, key=lambda one: _order(one, one.document, one.index))


def _order(found: Verified | Visible, document: int, index: int) -> tuple[bool, float, int, int]:
    fused = found.fused
    blend = None if fused is None else fused.blend
    score = found.score if blend is None else blend
    return (fused is not None and blend is None, -round(score, SCORE_DECIMALS), document, index)


def complete_until(hits: Sequence[Hit], wanted: int, *, exhausted: bool) -> int | None:
    """Return how many hits to look at so that the `wanted` best are among them, ties included.

    None when the list ends amid equal scores and the index has more: which of them it happened to
    return would then decide the result.
    """
    if len(hits) <= wanted:
        return len(hits) if exhausted else None
    last = round(hits[wanted - 1].score, SCORE_DECIMALS)
    for place in range(wanted, len(hits)):
        if round(hits[place].score, SCORE_DECIMALS) < last:
            return place
    return len(hits) if exhausted else None
