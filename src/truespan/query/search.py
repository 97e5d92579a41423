"""Search: one query over one world's embedded chunks, verified and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from truespan.errors import BlankQuery, StorageFull, StoreBusy, WorldNotFound
from truespan.model.bundle import Funnel, Notice, Passage, Receipt, SearchResult, Skipped
from truespan.model.chunk import ChunkRecord, Vector
from truespan.model.ids import ChunkId, WorldId
from truespan.model.request import SearchRequest
from truespan.model.scope import Authority, Scope, World
from truespan.model.trail import Flaw, Hit, Verified
from truespan.ports import Clock, Embedder, TrustedStore, VectorIndex
from truespan.query.rank import complete_until, rank
from truespan.query.render import render
from truespan.query.similarity import as_float32, shown
from truespan.query.vector import query_vector
from truespan.query.verify import verify

ATTEMPTS = 8
"""How often a search is done again because the world changed under it."""
SLACK = 8
"""Hits asked for beyond k: enough to see the score fall in nearly every search."""

NOTHING_EMBEDDED = Notice("no_embedded_chunks", "This world has no embedded chunks yet.")
NOT_RECORDED = Notice(
    "repair_not_recorded",
    "Damage was found and skipped, but could not be recorded for repair just now.",
)


@dataclass(frozen=True, slots=True)
class Searcher:
    """What a search needs. `on_flaws` is told when there is something to repair."""

    store: TrustedStore
    index: VectorIndex
    embedder: Embedder
    clock: Clock
    on_flaws: Callable[[Scope], None]

    def search(self, authority: Authority, world_ref: str, request: SearchRequest) -> SearchResult:
        """Answer a request whose settings were checked when it was made.

        Each check stands before anything dearer: world, then k, then the query, then what there
        is to find, and only then the provider and the index.
        """
        began = self.clock.monotonic()
        world = self.store.find_world(authority, world_ref)
        if world is None:
            raise WorldNotFound(world_ref)
        if request.top_k == 0:
            return _Answer(request, world.id).finished(self.clock.monotonic() - began)
        query = request.query.strip()
        if not query:
            raise BlankQuery
        answer = self._settled(authority, world, request, query)
        if answer.flaws and answer.scope is not None:
            self._signal(answer, answer.scope)
        return answer.finished(self.clock.monotonic() - began)

    def _settled(
        self, authority: Authority, world: World, request: SearchRequest, query: str
    ) -> _Answer:
        """Answer from one state of the world.

        Index and store are two reads. A document that is replaced between them would be seen half
        or not at all; the world's count of changes tells, and the search is done again.
        """
        answer = _Answer(request, world.id)
        for _ in range(ATTEMPTS):
            answer = _Answer(request, world.id)
            self._fill(answer, authority, world, query)
            latest = self.store.find_world(authority, world.id)
            if latest is None:
                raise WorldNotFound(world.id)
            if latest.changes == world.changes:
                return answer
            world = latest
        return answer

    def _fill(self, answer: _Answer, authority: Authority, world: World, query: str) -> None:
        if world.generation is None:
            answer.warnings.append(NOTHING_EMBEDDED)
            return
        scope = Scope(authority, world.id, world.generation)
        answer.in_scope = self.store.embedded_count(scope, world)
        if answer.in_scope == 0:
            answer.warnings.append(NOTHING_EMBEDDED)
            return
        answer.scope = scope
        answer.effective_k = min(answer.request.top_k, answer.in_scope)
        vector = query_vector(
            scope, query, embedder=self.embedder, cache=self.store, clock=self.clock
        )
        self._gather(answer, scope, vector)

    def _gather(self, answer: _Answer, scope: Scope, vector: Vector) -> None:
        """Fetch, past whatever has to be skipped, until k verified chunks and their ties are in."""
        k, floor = answer.effective_k, answer.request.floor
        records: dict[ChunkId, ChunkRecord] = {}
        limit, wanted, seen = k + SLACK, k, -1
        while True:
            found = self.index.search(scope, vector, limit=limit, floor=floor)
            hits = _admissible(found, floor)
            # An index that pads its answers must not keep us asking: no new hit, no more to come.
            exhausted = len(found) < limit or len(hits) == seen
            seen = len(hits)
            length = complete_until(hits, wanted, exhausted=exhausted)
            if length is not None:
                fresh = [hit.chunk_id for hit in hits[:length] if hit.chunk_id not in records]
                records.update(self.store.read_chunks(scope, fresh) if fresh else {})
                verdict = verify(hits[:length], records)
                answer.take(hits[:length], verdict.verified, verdict.flaws)
                if len(verdict.verified) >= k or (exhausted and length == len(hits)):
                    return
                wanted = length + k - len(verdict.verified)
            if length is None or wanted > len(hits):
                limit = max(limit * 2, wanted + SLACK)

    def _signal(self, answer: _Answer, scope: Scope) -> None:
        """Commit the marks that a later repair goes by; the answer does not depend on it."""
        try:
            self.store.record_flaws(scope, answer.flaws)
        except (StorageFull, StoreBusy):
            answer.warnings.append(NOT_RECORDED)
            return
        self.on_flaws(scope)


def _admissible(found: Sequence[Hit], floor: float) -> list[Hit]:
    """Drop what an index that is wrong could add: scores below the floor, NaN, repeated ids.

    The index was asked for exactly this; asking is not a guarantee.
    """
    least = as_float32(floor)
    unique: dict[ChunkId, Hit] = {}
    for hit in found:
        if as_float32(hit.score) >= least:
            unique.setdefault(hit.chunk_id, hit)
    return sorted(unique.values(), key=lambda hit: -hit.score)


@dataclass(slots=True)
class _Answer:
    """A result while it is being put together; an empty one has the same members as a full one."""

    request: SearchRequest
    world: WorldId
    scope: Scope | None = None
    in_scope: int = 0
    effective_k: int = 0
    fetched: int = 0
    verified: list[Verified] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)

    def take(self, hits: Sequence[Hit], verified: list[Verified], flaws: list[Flaw]) -> None:
        self.fetched, self.verified, self.flaws = len(hits), verified, flaws

    def finished(self, seconds: float) -> SearchResult:
        ranked = rank(self.verified, self.effective_k)
        skipped = Counter(flaw.kind.value for flaw in self.flaws)
        return SearchResult(
            world=self.world,
            results=tuple(_passage(found, self.scope) for found in ranked if self.scope),
            context=render(ranked),
            requested_k=self.request.top_k,
            effective_k=self.effective_k,
            floor=self.request.floor,
            funnel=Funnel(self.in_scope, self.fetched, len(self.verified), len(ranked)),
            skipped=tuple(Skipped(code, count) for code, count in sorted(skipped.items())),
            warnings=tuple(self.warnings),
            processing_time_ms=int(seconds * 1000),
        )


def _passage(found: Verified, scope: Scope) -> Passage:
    chunk, document = found.chunk, found.document
    chapter = chunk.chapter or document.title
    return Passage(
        chunk_id=chunk.chunk_id,
        score=shown(found.score),
        document=document.number,
        doc_id=document.doc_id,
        source=document.name,
        title=document.title,
        chapter=chapter,
        section=chunk.section or chapter,
        index=chunk.index,
        start=chunk.start,
        end=chunk.end,
        first_sid=chunk.first_sid,
        last_sid=chunk.last_sid,
        kind=chunk.kind,
        text=found.text,
        overlap_text=chunk.overlap_text,
        token_count=chunk.tokens,
        receipt=Receipt(
            chunk.text_hash, scope.profile.id, scope.generation.number, document.revision
        ),
    )
