"""Hits that hold: fetched past whatever has to be skipped, until there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from truespan.errors import StorageFull, StoreBusy
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import TrustedStore, VectorIndex
from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.retrieval.stages import complete_until, verify
from truespan.types.bundle import Funnel, Notice, Skipped
from truespan.types.chunk import ChunkRecord, Vector
from truespan.types.document import DocumentCatalog
from truespan.types.ids import ChunkId
from truespan.types.profile import float32
from truespan.types.scope import Scope
from truespan.types.telemetry import Stage
from truespan.types.trust import Hit, VerificationFailure, Verified

SLACK = 8
"""Hits asked for beyond k: enough to see the score fall in nearly every search."""

NOTHING_EMBEDDED = Notice("no_embedded_chunks", "Nothing in scope is embedded.")
NOT_RECORDED = Notice(
    "repair_not_recorded",
    "Damage was found and skipped, but could not be recorded for repair just now.",
)

APPROXIMATE = Notice(
    "approximate_search",
    "This world is searched approximately, as its operator chose: something close may be missing, "
    "and what other worlds hold may decide what.",
)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found and believed, and what was not."""

    verified: list[Verified] = field(default_factory=list)
    flaws: list[VerificationFailure] = field(default_factory=list)

    def down_to(self, last: float | None) -> Gathered:
        """Return what lies at or above the score of the last result; all of it when None.

        How far beyond that was fetched depends on what had to be passed over on the way, also on
        hits of revisions that are not in force: work that this caller may not know of.
        """
        if last is None:
            return self
        least = round(last, SCORE_DECIMALS)
        return Gathered(
            [one for one in self.verified if round(one.score, SCORE_DECIMALS) >= least],
            [flaw for flaw in self.flaws if round(flaw.score, SCORE_DECIMALS) >= least],
        )

    def funnel(self, in_scope: int, returned: int) -> Funnel:
        """Return the counts of each stage."""
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
    missing: Callable[[list[Verified], float], int],
    course: RequestTrace = NULL_OBSERVER,
) -> Gathered:
    """Fetch and verify until `missing` says that nothing is missing, ties at the end included.

    Each row is read once. `missing` is given all that was verified so far and the score above which
    nothing is unseen, and answers how many more are needed at least.
    """
    with course.stage(Stage.HITS):
        supply = HitPager(index, scope, vector, floor, limit=k + SLACK)
    return gather_from(store, scope, supply, k=k, missing=missing, records={}, course=course)


def gather_from(
    store: TrustedStore,
    scope: Scope,
    supply: HitPager,
    *,
    k: int,
    missing: Callable[[list[Verified], float], int],
    records: dict[ChunkId, ChunkRecord],
    course: RequestTrace = NULL_OBSERVER,
) -> Gathered:
    """Gather from a supply that was asked already; `records` are rows that were read already."""
    wanted = k
    while True:
        hits = supply.hits
        length = complete_until(hits, wanted, exhausted=supply.exhausted)
        if length is None:
            with course.stage(Stage.HITS):
                supply.extend(wanted)
            continue
        with course.stage(Stage.VERIFIED):
            fresh = [hit.chunk_id for hit in hits[:length] if hit.chunk_id not in records]
            records.update(store.read_chunks(scope, fresh) if fresh else {})
            verdict = verify(hits[:length], records)
        with course.stage(Stage.ENOUGH):
            still = missing(verdict.verified, hits[length - 1].score if length else -1.0)
        if still <= 0 or (supply.exhausted and length == len(hits)):
            return Gathered(verdict.verified, verdict.flaws)
        wanted = length + still


class HitPager:
    """The best hits of one request to the index, as many as were needed so far."""

    def __init__(
        self,
        index: VectorIndex,
        scope: Scope,
        vector: Vector,
        floor: float | None,
        *,
        limit: int,
        first: Callable[[int], list[Hit]] | None = None,
    ) -> None:
        """Ask for the first hits; `first` asks in its own way, and for more than these."""
        self._ask = lambda most: index.search(scope, vector, limit=most, floor=floor)
        self._floor = floor
        self._limit = limit
        self.hits: list[Hit] = []
        self.exhausted = False
        self._take((first or self._ask)(limit))

    def extend(self, wanted: int) -> None:
        """Fetch at least twice as many as before."""
        self._limit = max(self._limit * 2, wanted + SLACK)
        before = len(self.hits)
        self._take(self._ask(self._limit))
        # An index that pads its answers must not keep us asking: no new hit, no more to come.
        self.exhausted = self.exhausted or len(self.hits) == before

    def _take(self, found: Sequence[Hit]) -> None:
        self.hits = admissible(found, self._floor)
        self.exhausted = len(found) < self._limit


def admissible(found: Sequence[Hit], floor: float | None) -> list[Hit]:
    """Drop what an index that is wrong could add: scores below the floor, NaN, repeated ids.

    The index was asked for exactly this; asking is not a guarantee.
    """
    least = -1.0 if floor is None else float32(floor)
    unique: dict[ChunkId, Hit] = {}
    for hit in found:
        if float32(hit.score) >= least - (1e-5 if floor is None else 0.0):
            unique.setdefault(hit.chunk_id, hit)
    return sorted(unique.values(), key=lambda hit: -hit.score)


def signal(
    store: TrustedStore,
    scope: Scope,
    flaws: Sequence[VerificationFailure],
    on_flaws: Callable[[Scope], None],
) -> list[Notice]:
    """Commit the marks that a later repair goes by; the answer does not depend on it."""
    try:
        store.record_flaws(scope, flaws)
    except (StorageFull, StoreBusy):
        return [NOT_RECORDED]
    on_flaws(scope)
    return []


def approximate_notice(index: VectorIndex, scope: Scope) -> list[Notice]:
    """Say so when the search that follows is not exact: the operator waived that for this world."""
    return [APPROXIMATE] if index.approximate(scope) else []


def pending_notice(scope: Scope, shelf: DocumentCatalog) -> list[Notice]:
    """Say so when chunks in scope wait to be embedded: the answer is not from all of them."""
    waiting = shelf.pending(scope.documents)
    if not waiting:
        return []
    text = f"{waiting} chunks in scope are not embedded; 'truespan repair' sees to them."
    return [Notice("chunks_pending", text)]
