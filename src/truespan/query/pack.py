"""Choosing what fits: by score, within the budget, saying nothing twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from truespan.model.bundle import Reason, WhyNot
from truespan.model.chunk import ChunkKind
from truespan.model.ids import ChunkId
from truespan.model.trail import Visible
from truespan.query.render import Shown
from truespan.query.similarity import shown

OVER_BUDGET = "over_budget"
EXCLUDED = "excluded_kind"
PATIENCE = 64
"""Candidates that may be too large for what is left of the budget before it counts as full."""


@dataclass(slots=True)
class Packed:
    """The chosen chunks by rank, and the ones that were passed over, by reason."""

    chosen: list[Visible] = field(default_factory=list)
    left_out: dict[str, list[Visible]] = field(default_factory=dict)
    last: float | None = None
    """The score at which choosing ended; None when there was nothing left to choose from."""

    def missing(self, k: int) -> int:
        """Return how many more chunks are needed at least; none when choosing has ended."""
        return k - len(self.chosen) if self.last is None else 0

    @property
    def tokens(self) -> int:
        """Return the tokens of all chosen chunks."""
        return sum(part.tokens for part in self.chosen)


def pack(
    ranked: Sequence[Visible],
    *,
    k: int,
    budget: int,
    excluded: Collection[ChunkKind] = (ChunkKind.FIGURE,),
) -> Packed:
    """Take the best that fit, at most `k` and `budget` tokens in all.

    A chunk that is too large is passed over, and the next ones get their chance; none is cut to
    fit. One that lies wholly within earlier ones is a repetition.
    """
    packed, shown, left = Packed(), Shown(), budget
    for part in ranked:
        reason = _reason(part, shown, left, excluded)
        if reason is None:
            packed.chosen.append(part)
            shown.add(part.document, part.start, part.end)
            left -= part.tokens
        else:
            packed.left_out.setdefault(reason, []).append(part)
        if len(packed.chosen) == k or len(packed.left_out.get(OVER_BUDGET, ())) == PATIENCE:
            packed.last = part.score
            break
    return packed


def _reason(part: Visible, shown: Shown, left: int, excluded: Collection[ChunkKind]) -> str | None:
    """Return why a chunk is passed over; None when it is taken."""
    if part.kind in excluded:
        return EXCLUDED
    fresh = shown.uncovered(part.document, part.start, part.end)
    if not any(part.text[a - part.start : b - part.start].strip() for a, b in fresh):
        return "duplicate_passage"
    return OVER_BUDGET if part.tokens > left else None


def why_not_packed(packed: Packed, chunk_id: ChunkId) -> Reason | None:
    """Return what packing had to say of a chunk; None when it never came that far."""
    for part in packed.chosen:
        if part.chunk_id == chunk_id:
            return Reason(WhyNot.RETURNED, shown(part.score))
    for code, parts in packed.left_out.items():
        for part in parts:
            if part.chunk_id == chunk_id:
                return Reason(WhyNot(code), shown(part.score))
    return None
