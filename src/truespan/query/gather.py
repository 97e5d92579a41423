"""Hits that hold: fetched past whatever has to be skipped, until there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from truespan.errors import StorageFull, StoreBusy
from truespan.model.bundle import Funnel, Notice, Skipped
from truespan.model.chunk import ChunkRecord, Vector
from truespan.model.ids import ChunkId
from truespan.model.scope import Scope
from truespan.model.trail import Flaw, Hit, Verified
from truespan.ports import TrustedStore, VectorIndex
from truespan.query.rank import complete_until
from truespan.query.similarity import as_float32
from truespan.query.verify import verify

SLACK = 8
"""Hits asked for beyond k: enough to see the score fall in nearly every search."""

NOT_RECORDED = Notice(
    "repair_not_recorded",
    "Damage was found and skipped, but could not be recorded for repair just now.",
)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found and believed, and what was not."""

    verified: list[Verified] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)

    def funnel(self, in_scope: int, returned: int) -> Funnel:
        """Return the counts of each stage.

        Hits of revisions that are not in force do not count: how many there were depends on work
        that this caller may not know of.
        """
        fetched = len(self.verified) + len(self.flaws)
        return Funnel(in_scope, fetched, len(self.verified), returned)

    def skipped(self) -> tuple[Skipped, ...]:
        """Return how many hits were left out, by reason."""
        counts = Counter(flaw.kind.value for flaw in self.flaws)
        return tuple(Skipped(code, count) for code, count in sorted(counts.items()))


def gather(
    store: TrustedStore,
    index: VectorIndex,
    scope: Scope,
    vector: Vector,
    *,
    k: int,
    floor: float | None,
    missing: Callable[[list[Verified]], int],
) -> Gathered:
    """Fetch and verify until `missing` says that nothing is missing, ties at the end included.

    Each row is read once. `missing` is given all that was verified so far and answers how many
    more are needed at least.
    """
    records: dict[ChunkId, ChunkRecord] = {}
    limit, wanted, seen = k + SLACK, k, -1
    while True:
        found = index.search(scope, vector, limit=limit, floor=floor)
        hits = _admissible(found, floor)
        # An index that pads its answers must not keep us asking: no new hit, no more to come.
        exhausted = len(found) < limit or len(hits) == seen
        seen = len(hits)
        length = complete_until(hits, wanted, exhausted=exhausted)
        if length is not None:
            fresh = [hit.chunk_id for hit in hits[:length] if hit.chunk_id not in records]
            records.update(store.read_chunks(scope, fresh) if fresh else {})
            verdict = verify(hits[:length], records)
            still = missing(verdict.verified)
            if still <= 0 or (exhausted and length == len(hits)):
                return Gathered(verdict.verified, verdict.flaws)
            wanted = length + still
        if length is None or wanted > len(hits):
            limit = max(limit * 2, wanted + SLACK)


def _admissible(found: Sequence[Hit], floor: float | None) -> list[Hit]:
    """Drop what an index that is wrong could add: scores below the floor, NaN, repeated ids.

    The index was asked for exactly this; asking is not a guarantee.
    """
    least = -1.0 if floor is None else as_float32(floor)
    unique: dict[ChunkId, Hit] = {}
    for hit in found:
        if as_float32(hit.score) >= least - (1e-5 if floor is None else 0.0):
            unique.setdefault(hit.chunk_id, hit)
    return sorted(unique.values(), key=lambda hit: -hit.score)


def signal(
    store: TrustedStore,
    scope: Scope,
    flaws: Sequence[Flaw],
    on_flaws: Callable[[Scope], None],
) -> list[Notice]:
    """Commit the marks that a later repair goes by; the answer does not depend on it."""
    try:
        store.record_flaws(scope, flaws)
    except (StorageFull, StoreBusy):
        return [NOT_RECORDED]
    on_flaws(scope)
    return []
