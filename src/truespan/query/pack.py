"""Choosing what fits: by score, within the budget, saying nothing twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from truespan.model.chunk import ChunkKind
from truespan.model.trail import Visible
from truespan.query.render import Shown

LEFT_OUT = ("excluded_kind", "duplicate_passage", "over_budget")


@dataclass(slots=True)
class Packed:
    """The chosen chunks by rank, and the ones that were passed over, by reason."""

    chosen: list[Visible] = field(default_factory=list)
    left_out: dict[str, list[Visible]] = field(default_factory=dict)

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

    A chunk that is too large is passed over, and the next one gets its chance; none is cut to fit.
    One that lies wholly within earlier ones is a repetition.
    """
    packed, shown, left = Packed(), Shown(), budget
    for part in ranked:
        if len(packed.chosen) == k:
            break
        reason = _reason(part, shown, left, excluded)
        if reason is not None:
            packed.left_out.setdefault(reason, []).append(part)
            continue
        packed.chosen.append(part)
        shown.add(part.document, part.start, part.end)
        left -= part.tokens
    return packed


def _reason(part: Visible, shown: Shown, left: int, excluded: Collection[ChunkKind]) -> str | None:
    """Return why a chunk is passed over; None when it is taken."""
    if part.kind in excluded:
        return "excluded_kind"
    fresh = shown.uncovered(part.document, part.start, part.end)
    if not any(part.text[a - part.start : b - part.start].strip() for a, b in fresh):
        return "duplicate_passage"
    return "over_budget" if part.tokens > left else None
