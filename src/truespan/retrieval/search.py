"""Search: one query over one world's embedded chunks, verified and explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from truespan.errors import BlankQuery, NotAllowed
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedders, TrustedStore, VectorIndex
from truespan.retrieval.fetch import (
    NOTHING_EMBEDDED,
    Gathered,
    approximate_notice,
    pending_notice,
    signal,
)
from truespan.retrieval.fused import fetch_verified
from truespan.retrieval.metrics import tell_search
from truespan.retrieval.pack import render
from truespan.retrieval.query_vector import LOW_FLOOR, floor_discriminates, query_vector, shown
from truespan.retrieval.snapshot import existing, with_stable_snapshot
from truespan.retrieval.stages import parent_id, rank
from truespan.types.bundle import Notice, Passage, Receipt, SearchResult
from truespan.types.chunk import ChunkKind
from truespan.types.ids import WorldId
from truespan.types.request import SearchRequest
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World
from truespan.types.telemetry import Stage
from truespan.types.trust import Verified
from truespan.types.words import FUSED_WEIGHT


@dataclass(frozen=True, slots=True)
class Searcher:
    """What a search needs. `on_flaws` is told when there is something to repair."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    on_flaws: Callable[[Scope], None]
    aim: GenerationSelector = None
    fused_weight: float = FUSED_WEIGHT
    course: RequestTrace = NULL_OBSERVER

    def search(self, authority: Authority, world_ref: str, request: SearchRequest) -> SearchResult:
        """Answer a request whose settings were checked when it was made.

        Each check stands before anything dearer: world, then k, then the query, then what there
        is to find, and only then the provider and the index.
        """
        began = self.clock.monotonic()
        with self.course.stage(Stage.ADMITTED):
            world = existing(self.store, authority, world_ref, self.aim)
            if not authority.may(Verb.READ, world.id):
                raise NotAllowed("search without a reader")
        if request.top_k == 0:
            return self._finished(_Answer(request, world.id), began)
        query = request.query.strip()
        if not query:
            raise BlankQuery
        answer = with_stable_snapshot(
            self.store,
            authority,
            world,
            lambda latest: self._answer(authority, latest, request, query),
        )
        if answer.found.flaws and answer.scope is not None:
            answer.warnings += signal(self.store, answer.scope, answer.found.flaws, self.on_flaws)
        return self._finished(answer, began)

    def _finished(self, answer: _Answer, began: float) -> SearchResult:
        with self.course.stage(Stage.RANKED):
            ranked = rank(answer.found.verified, answer.effective_k)
        with self.course.stage(Stage.BUNDLE):
            result = answer.finished(ranked, self.clock.monotonic() - began)
        tell_search(self.course, result)
        return result

    def _answer(
        self, authority: Authority, world: World, request: SearchRequest, query: str
    ) -> _Answer:
        answer = _Answer(request, world.id)
        self._fill(answer, authority, world, query)
        return answer

    def _fill(self, answer: _Answer, authority: Authority, world: World, query: str) -> None:
        if world.generation is None:
            answer.warnings.append(NOTHING_EMBEDDED)
            return
        scope = Scope(authority, world.id, world.generation)
        with self.course.stage(Stage.SCOPED):
            answer.in_scope = self.store.embedded_count(scope, world)
            answer.warnings += pending_notice(scope, self.store.shelf(scope, world))
        if answer.in_scope == 0:
            answer.warnings.append(NOTHING_EMBEDDED)
            return
        answer.scope = scope
        answer.warnings += approximate_notice(self.index, scope)
        answer.effective_k = min(answer.request.top_k, answer.in_scope)
        answer.discriminates = floor_discriminates(self.store, scope, answer.request.floor)
        with self.course.stage(Stage.VECTOR):
            vector = query_vector(
                scope,
                query,
                embedder=self.embedders(scope.profile),
                cache=self.store,
                clock=self.clock,
                course=self.course,
            )
        k, floor = answer.effective_k, answer.request.floor

        def missing(verified: list[Verified], _: float) -> int:
            return k - len(verified)

        answer.found = fetch_verified(
            self.store,
            self.index,
            scope,
            world,
            vector,
            query,
            k=k,
            floor=floor,
            missing=missing,
            weight=self.fused_weight if answer.request.fused else None,
            course=self.course,
        )


@dataclass(slots=True)
class _Answer:
    """A result while it is being put together; an empty one has the same members as a full one."""

    request: SearchRequest
    world: WorldId
    scope: Scope | None = None
    in_scope: int = 0
    effective_k: int = 0
    found: Gathered = field(default_factory=Gathered)
    warnings: list[Notice] = field(default_factory=list)
    discriminates: bool | None = None

    def finished(self, ranked: list[Verified], seconds: float) -> SearchResult:
        if not ranked and self.discriminates is False:
            self.warnings.append(LOW_FLOOR)
        full = len(ranked) == self.effective_k > 0
        counted = self.found.down_to(ranked[-1].score if full else None)
        passages = tuple(_passage(found, self.scope) for found in ranked if self.scope)
        return SearchResult(
            world=self.world,
            results=passages,
            context=render(one for one in passages if one.kind is not ChunkKind.FIGURE),
            requested_k=self.request.top_k,
            effective_k=self.effective_k,
            floor=self.request.floor,
            funnel=counted.funnel(self.in_scope, len(ranked)),
            skipped=counted.skipped(),
            warnings=tuple(self.warnings),
            processing_time_ms=int(seconds * 1000),
            floor_discriminates=self.discriminates,
        )


def _passage(found: Verified, scope: Scope) -> Passage:
    chunk, document, figure = found.chunk, found.document, found.chunk.figure
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
        page=chunk.page,
        figure_id=figure.figure_id if figure else None,
        image_ref=figure.image_ref if figure else None,
        parent_chunk_id=parent_id(found, scope),
        parent_chunk_local_index=figure.parent.index if figure and figure.parent else None,
        fused=found.fused,
    )
