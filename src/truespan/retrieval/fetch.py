"""Fetch hits from the index and verify them against the store, until there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.protocols import VectorIndex
from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.retrieval.stages import complete_until, failures_in_scope, keep_in_scope, verify
from truespan.types.bundle import Notice, Skipped
from truespan.types.chunk import ChunkRecord, StoredChunk
from truespan.types.ids import ChunkId
from truespan.types.profile import float32
from truespan.types.scope import Scope
from truespan.types.telemetry import Stage
from truespan.types.text import PlacedSentence
from truespan.types.trust import Hit, VerificationFailure, Verified
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.words.query import WordQuery

SLACK = 8
"""Hits requested beyond k: enough to see the score fall in nearly every search."""


class Selection(Protocol):
    """A choice from chunks. `missing` is the minimum number of further chunks that it needs."""

    @property
    def missing(self) -> int: ...


SelectionT = TypeVar("SelectionT", bound=Selection)
Select: TypeAlias = Callable[[list[Verified]], SelectionT]
"""Chooses from all chunks that were verified so far."""


class Fetched(Struct, frozen=True):
    """Verified hits, and the hits that failed verification."""

    verified: list[Verified] = field(default_factory=list)
    failures: list[VerificationFailure] = field(default_factory=list)
    changes: int | None = None
    """Change count of the world, if it came with the last read of the store."""
    notices: tuple[Notice, ...] = ()
    """Notices about the words of the query: none occur, or similar ones were searched for."""
    seen: int | None = None
    """Number of points in the index at or above the floor, if fewer than wanted."""
    unreturned: int = 0
    """Number of chunks named by the words of the query that the index did not return."""
    words: WordQuery | None = None
    """Words that chunks were compared with; None in a search by similarity alone."""

    def down_to(self, last: float | None) -> Fetched:
        """Return the hits that score at least as much as the last result; all if it is None.

        The number of hits beyond the last result depends on what was skipped, including hits of
        inactive revisions. The caller must not learn about those.
        """
        if last is None:
            return self
        least = round(last, SCORE_DECIMALS)
        return Fetched(
            [found for found in self.verified if round(found.score, SCORE_DECIMALS) >= least],
            [failed for failed in self.failures if round(failed.score, SCORE_DECIMALS) >= least],
        )

    def skipped(self) -> tuple[Skipped, ...]:
        if not self.failures:
            return ()
        counts = Counter(failed.kind.value for failed in self.failures)
        return tuple(Skipped(code, count) for code, count in sorted(counts.items()))


class HitPager:
    """The best hits of one query to the index, extended when more are needed."""

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
        """Query the index; `first` replaces the first query, not the following ones."""
        self._query = lambda limit: index.search(scope, vector, limit=limit, floor=floor)
        self._floor = floor
        self._limit = limit
        found = (first or self._query)(limit)
        self.hits = drop_invalid_hits(found, floor)
        self.exhausted = len(found) < limit

    def extend(self, wanted: int) -> None:
        """Query again for at least twice as many hits as before."""
        self._limit = max(self._limit * 2, wanted + SLACK)
        before, found = len(self.hits), self._query(self._limit)
        self.hits = drop_invalid_hits(found, self._floor)
        # An index that pads its replies must not cause endless queries: no new hit ends them.
        self.exhausted = len(found) < self._limit or len(self.hits) == before


def start_hits(
    index: VectorIndex, scope: Scope, vector: Vector, floor: float | None, *, limit: int
) -> Callable[[], HitPager]:
    """Query the index, and return a function that waits for its hits."""
    wait = index.start_search(scope, vector, limit=limit, floor=floor)
    return lambda: HitPager(index, scope, vector, floor, limit=limit, first=lambda _: wait())


def drop_invalid_hits(found: Sequence[Hit], floor: float | None) -> list[Hit]:
    """Drop hits below the floor, with a NaN score or a repeated id; return the others by score.

    The query asked for exactly this, but the index may be wrong.
    """
    least = -1.0 - 1e-5 if floor is None else float32(floor)
    unique: dict[ChunkId, Hit] = {}
    for hit in found:
        # Rounding to single precision can only lift a lower score to the floor.
        if hit.score >= least or float32(hit.score) >= least:
            unique.setdefault(hit.chunk_id, hit)
    return sorted(unique.values(), key=lambda hit: -hit.score)


def read_chunks(
    deps: RetrievalDeps, scope: Scope, ids: Sequence[ChunkId], *, word_states: bool = False
) -> dict[ChunkId, ChunkRecord]:
    """Return the stored records of chunks.

    A sentence of which a chunk has only a part is cut to that part. For a reader, vectors are read
    as well, since they decide the order.
    """
    store, records = deps.store, dict[ChunkId, ChunkRecord]()
    if ids and scope.position is not None:
        return store.read_chunks(scope, ids, vectors=True)
    if ids:
        records = store.read_chunks(scope, ids, word_states=word_states)
    for chunk_id, record in records.items():
        if (chunk := record.chunk) is not None and chunk.sentences:
            sentences = tuple(_cut(deps, chunk, sentence) for sentence in chunk.sentences)
            records[chunk_id] = replace(record, chunk=replace(chunk, sentences=sentences))
    return records


def changes_in(read: Mapping[ChunkId, ChunkRecord]) -> int | None:
    """Return the change count of the world at the time of a read; None if no row was read."""
    return next((record.changes for record in read.values()), None)


def _cut(deps: RetrievalDeps, chunk: StoredChunk, sentence: PlacedSentence) -> PlacedSentence:
    start, end = max(sentence.start, chunk.start), min(sentence.end, chunk.end)
    if (start, end) == (sentence.start, sentence.end):
        return sentence
    # The text is not verified yet. If it is damaged, the chunk is dropped later.
    text = chunk.data.decode(errors="replace")[start - chunk.start : end - chunk.start]
    return replace(sentence, start=start, end=end, tokens=deps.count_tokens(text))


def fetch_by_similarity(
    deps: RetrievalDeps,
    scope: Scope,
    vector: Vector,
    *,
    k: int,
    floor: float | None,
    select: Select[SelectionT],
) -> tuple[Fetched, SelectionT]:
    """Fetch and verify the hits closest to a vector until `select` has enough of them."""
    with deps.trace.stage(Stage.HITS):
        pager = HitPager(deps.index, scope, vector, floor, limit=k + SLACK)
    return fetch_pages(deps, scope, pager, k=k, select=select, records={})


def fetch_pages(
    deps: RetrievalDeps,
    scope: Scope,
    pager: HitPager,
    *,
    k: int,
    select: Select[SelectionT],
    records: dict[ChunkId, ChunkRecord],
) -> tuple[Fetched, SelectionT]:
    """Verify the hits of a pager, with ties at the end, until `select` has enough of them.

    Each row is read once; `records` has the rows that were read before. The selection is of all
    chunks that are returned.
    """
    wanted, changes = k, None
    while True:
        hits = pager.hits
        length = complete_until(hits, wanted, exhausted=pager.exhausted)
        if length is None:
            with deps.trace.stage(Stage.HITS):
                pager.extend(wanted)
            continue
        with deps.trace.stage(Stage.VERIFIED):
            unread = [hit.chunk_id for hit in hits[:length] if hit.chunk_id not in records]
            if unread:
                read = read_chunks(deps, scope, unread)
                records.update(read)
                changes = changes_in(read)
            outcome = verify(hits[:length], records)
            verified = outcome.verified
            failures = failures_in_scope(outcome, records, scope)
            if scope.position is None:
                verified = keep_in_scope(verified, scope)
        with deps.trace.stage(Stage.ENOUGH):
            selected = select(verified)
        if selected.missing <= 0 or (pager.exhausted and length == len(hits)):
            # The tail may make up the number of a reader's results.
            few = pager.exhausted and (selected.missing > 0 or scope.position is not None)
            seen = len(hits) if few else None
            return Fetched(verified, failures, changes, seen=seen), selected
        wanted = length + selected.missing
