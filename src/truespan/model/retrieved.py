"""What was retrieved for an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from truespan.model.bundle import Notice
from truespan.model.chunk import ChunkKind
from truespan.model.scope import Scope, World
from truespan.model.trail import Flaw, Visible

ANSWER_TOP_K = 25


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Visible chunks by rank, the scope they were found in, and what the caller should know.

    Without a scope there was nothing to look in. `flaws` are hits that could not be trusted.
    """

    world: World
    scope: Scope | None = None
    chunks: tuple[Visible, ...] = ()
    warnings: tuple[Notice, ...] = ()
    flaws: tuple[Flaw, ...] = ()


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The best of what was found, at most as many as wanted.

    Chunks of excluded kinds take no place from the others: a model never sees them, and however
    many there are, the text behind them is looked at. `missing` says how many more it could take,
    `last` at which score it was full; None while it is not.
    """

    chunks: tuple[Visible, ...]
    missing: int
    last: float | None


def shortlist(ranked: Iterable[Visible], wanted: int, excluded: Collection[ChunkKind]) -> Shortlist:
    """Return the first `wanted` chunks of ranked ones, and as many excluded ones among them."""
    kept: list[Visible] = []
    counted = aside = 0
    for chunk in ranked:
        if chunk.kind in excluded:
            aside += 1
            if aside > wanted:
                continue
        else:
            counted += 1
        kept.append(chunk)
        if counted == wanted:
            return Shortlist(tuple(kept), 0, chunk.score)
    return Shortlist(tuple(kept), wanted - counted, None)
