"""Retrieve: context for a query, a selection, or a query within a selection, in budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from truespan.errors import BlankQuery, NotAllowed, ScopeViolation
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedders, TrustedStore, VectorIndex
from truespan.retrieval.fetch import (
    APPROXIMATE,
    NOTHING_EMBEDDED,
    Gathered,
    HitPager,
    approximate_notice,
    pending_notice,
)
from truespan.retrieval.filters import (
    DEFAULT_FILTER,
    defaults_left_nothing,
    narrowed_scope,
    occurrences,
)
from truespan.retrieval.fused import fetch_verified
from truespan.retrieval.pack import (
    FILTERED,
    RANKED,
    SEARCHED,
    VECTORIZED,
    Packed,
    RetrievalAttempt,
    RetrievalLog,
    bundled,
    pack,
    why_not_packed,
)
from truespan.retrieval.query_vector import (
    LOW_FLOOR,
    floor_discriminates,
    mean_of,
    query_vector,
    shown,
    similarity_of,
)
from truespan.retrieval.snapshot import RetrievalState, existing
from truespan.retrieval.stages import complete_until, rank_visible, reveal, verify
from truespan.types.bundle import ContextBundle, Located, NearMiss, Reason, WhyNot
from truespan.types.chunk import ChunkState, Vector
from truespan.types.document import CatalogEntry
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import float32
from truespan.types.request import MAX_CONTEXT_TOKENS, RELEVANCE_FLOOR, RetrievalRequest
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World, admits
from truespan.types.telemetry import Stage
from truespan.types.trust import Hit, Verified, Visible
from truespan.types.words import FUSED_WEIGHT

MOST_NEAR_MISSES = 5
MOST_SEARCHED_FOR_SELECTION = 50
"""Documents in which a selection is looked for; the ones that were found in come first."""


@dataclass(frozen=True, slots=True)
class Retriever:
    """What a retrieval needs. `parts_of` cuts a long text where sentences end, within a limit."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    on_flaws: Callable[[Scope], None]
    parts_of: Callable[[str, int], list[str]]
    aim: GenerationSelector = None
    fused_weight: float = FUSED_WEIGHT
    course: RequestTrace = NULL_OBSERVER

    def retrieve(
        self,
        authority: Authority,
        world_ref: str,
        request: RetrievalRequest,
        *,
        near_misses: bool = False,
    ) -> ContextBundle:
        """Return the one bundle that answers a request.

        A failure of something we depend on is a bundle with the status `error`; a request that
        cannot be answered at all raises.

        Raises:
            WorldNotFound, NotAllowed: before anything dearer.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        world = self._admitted(authority, world_ref, request)
        attempt = RetrievalAttempt(_account(request))
        return bundled(
            attempt,
            lambda: self._settle(attempt, authority, world, request, near_misses),
            self.clock,
            self.course,
        )

    def _admitted(self, authority: Authority, world_ref: str, request: RetrievalRequest) -> World:
        with self.course.stage(Stage.ADMITTED):
            world = existing(self.store, authority, world_ref, self.aim)
            if not authority.may(Verb.READ, world.id):
                raise NotAllowed("retrieve without a reader")
            _require_words(request)
            return world

    def why_not(
        self, authority: Authority, world_ref: str, request: RetrievalRequest, chunk_id: ChunkId
    ) -> Reason:
        """Say why a chunk is not among the results of a request.

        Raises as `retrieve` does; here a failure of something we depend on raises as well.
        """
        world = self._admitted(authority, world_ref, request)
        attempt = RetrievalAttempt(_account(request))
        reason = self._reason(attempt, authority, world, request, chunk_id)
        inexact = tuple(one for one in attempt.account.warnings if one == APPROXIMATE)
        return replace(reason, warnings=inexact)

    def _reason(
        self,
        attempt: RetrievalAttempt,
        authority: Authority,
        world: World,
        request: RetrievalRequest,
        chunk_id: ChunkId,
    ) -> Reason:
        try:
            self._settle(attempt, authority, world, request, False)
        except ScopeViolation:
            return Reason(WhyNot.UNRELATED)
        packed = why_not_packed(attempt.packed, chunk_id)
        if packed is not None or world.generation is None:
            return packed or Reason(WhyNot.ABSENT)
        whole = Scope(authority, world.id, world.generation)
        return self._why_not_found(whole, attempt.scope or whole, request, chunk_id)

    def _why_not_found(
        self, whole: Scope, scope: Scope, request: RetrievalRequest, chunk_id: ChunkId
    ) -> Reason:
        record = self.store.read_chunks(whole, [chunk_id]).get(chunk_id)
        if record is None or not record.live:
            return Reason(WhyNot.ABSENT)
        if record.state is not ChunkState.EMBEDDED or record.chunk is None:
            return Reason(WhyNot.NOT_EMBEDDED)
        hit = Hit(chunk_id, 0.0, record.chunk.text_hash)
        verified = verify([hit], {chunk_id: record}).verified
        if not verified:
            return Reason(WhyNot.NOT_TRUSTED)
        part = reveal(verified[0], scope)
        if part is None:
            return Reason(WhyNot.FILTERED)
        kept = self.store.vectors(whole, [part.text_hash]).get(part.text_hash)
        if kept is None:
            return Reason(WhyNot.NOT_EMBEDDED)
        parts = self._part_vectors(scope, request.selected_text)
        ranking = self._query_vector(scope, request.query) or mean_of(parts)
        score = similarity_of(ranking, kept, scope.profile.distance)
        if float32(score) < float32(RELEVANCE_FLOOR):
            return Reason(WhyNot.BELOW_FLOOR, shown(score))
        if request.query is not None and parts and not self._related(scope, [part], parts, {}):
            return Reason(WhyNot.UNRELATED, shown(score))
        return Reason(WhyNot.OUTRANKED, shown(score))

    def _settle(
        self,
        attempt: RetrievalAttempt,
        authority: Authority,
        world: World,
        request: RetrievalRequest,
        near_misses: bool,
    ) -> None:
        RetrievalState(self.store, authority, self.on_flaws).run(
            attempt,
            world,
            account=lambda: _account(request),
            fill=lambda latest: self._fill(attempt, authority, latest, request, near_misses),
        )

    def _fill(
        self,
        attempt: RetrievalAttempt,
        authority: Authority,
        world: World,
        request: RetrievalRequest,
        near_misses: bool,
    ) -> None:
        account = attempt.account
        if world.generation is None:
            account.warnings.append(NOTHING_EMBEDDED)
            return
        whole = Scope(authority, world.id, world.generation)
        with self.course.stage(Stage.SCOPED):
            shelf = self.store.shelf(whole, world)
            scope = attempt.scope = narrowed_scope(whole, shelf, request)
            account.in_scope = self.store.embedded_count(scope, world)
            account.warnings += pending_notice(scope, shelf)
        if account.in_scope == 0:
            emptied = defaults_left_nothing(shelf, request)
            account.warnings.append(DEFAULT_FILTER if emptied else NOTHING_EMBEDDED)
            return
        account.warnings += approximate_notice(self.index, scope)
        with self.course.stage(Stage.VECTOR):
            parts = self._part_vectors(scope, request.selected_text)
            ranking = self._query_vector(scope, request.query) or mean_of(parts)
        account.trace.append(VECTORIZED)
        self._choose(attempt, scope, world, request, ranking, parts)
        account.discriminates = floor_discriminates(self.store, scope, account.floor)
        if near_misses or not attempt.packed.chosen:
            with self.course.stage(Stage.NEAR_MISSES):
                account.near_misses = self._near_misses(scope, ranking)
            account.warnings += [LOW_FLOOR] if account.discriminates is False else []
        if request.selected_text is not None:
            readable = [entry for entry in shelf if admits(scope.documents, entry.number)]
            documents = _looked_in(readable, attempt.packed)
            with self.course.stage(Stage.LOCATED):
                account.located = tuple(self._located(scope, documents, request.selected_text))

    def _choose(
        self,
        attempt: RetrievalAttempt,
        scope: Scope,
        world: World,
        request: RetrievalRequest,
        ranking: Vector,
        parts: Sequence[Vector],
    ) -> None:
        """Search, verify and pack, fetching on while candidates have to be passed over."""
        account = attempt.account
        k = min(request.top_k, account.in_scope)
        scoped = parts if request.query is not None else ()
        near: dict[TextHash, bool] = {}

        def packed(verified: list[Verified], course: RequestTrace = NULL_OBSERVER) -> Packed:
            with course.stage(Stage.VISIBLE):
                visible = [part for one in verified if (part := reveal(one, scope))]
                related = self._related(scope, visible, scoped, near)
            with course.stage(Stage.RANKED):
                ranked = rank_visible(related)
            with course.stage(Stage.PACKED):
                return pack(ranked, k=k, budget=MAX_CONTEXT_TOKENS)

        found = self._gathered(
            scope,
            world,
            request,
            ranking,
            k=k,
            missing=lambda verified, _: packed(verified).missing(k),
        )
        account.trace += [SEARCHED, FILTERED, RANKED]
        attempt.packed = packed(found.verified, self.course)
        counted = found.down_to(attempt.packed.last)
        readable = sum(1 for one in counted.verified if reveal(one, scope))
        account.fetched = readable + len(counted.flaws)
        account.verified = readable
        account.reached = account.fetched > 0
        account.skipped = counted.skipped()
        attempt.flaws = found.flaws
        if scoped and readable and not any(near.values()):
            raise ScopeViolation

    def _gathered(
        self,
        scope: Scope,
        world: World,
        request: RetrievalRequest,
        ranking: Vector,
        *,
        k: int,
        missing: Callable[[list[Verified], float], int],
    ) -> Gathered:
        """Gather by similarity or, where that was asked for, by words as well."""
        words = request.query if request.fused else None
        return fetch_verified(
            self.store,
            self.index,
            scope,
            world,
            ranking,
            words or "",
            k=k,
            floor=RELEVANCE_FLOOR,
            missing=missing,
            weight=None if words is None else self.fused_weight,
            course=self.course,
        )

    def _related(
        self,
        scope: Scope,
        visible: list[Visible],
        parts: Sequence[Vector],
        near: dict[TextHash, bool],
    ) -> list[Visible]:
        """Keep the chunks that are related to some part of the selection."""
        if not parts:
            return visible
        unknown = [part.text_hash for part in visible if part.text_hash not in near]
        kept = self.store.vectors(scope, unknown) if unknown else {}
        distance = scope.profile.distance
        for text_hash in unknown:
            vector = kept.get(text_hash)
            near[text_hash] = vector is not None and any(
                similarity_of(vector, part, distance) >= RELEVANCE_FLOOR for part in parts
            )
        return [part for part in visible if near[part.text_hash]]

    def _query_vector(self, scope: Scope, query: str | None) -> Vector | None:
        if query is None:
            return None
        return query_vector(
            scope,
            query.strip(),
            embedder=self.embedders(scope.profile),
            cache=self.store,
            clock=self.clock,
            course=self.course,
        )

    def _part_vectors(self, scope: Scope, selection: str | None) -> list[Vector]:
        if selection is None:
            return []
        return [
            query_vector(
                scope,
                part,
                embedder=self.embedders(scope.profile),
                cache=self.store,
                clock=self.clock,
                course=self.course,
            )
            for part in self.parts_of(selection, scope.profile.input_limit)
        ]

    def _near_misses(self, scope: Scope, ranking: Vector) -> tuple[NearMiss, ...]:
        """Return the best verified chunks below the floor, inside the caller's rights."""
        supply = HitPager(self.index, scope, ranking, None, limit=64)
        while True:
            below = [hit for hit in supply.hits if hit.score < RELEVANCE_FLOOR]
            length = complete_until(below, MOST_NEAR_MISSES, exhausted=supply.exhausted)
            if length is not None:
                break
            supply.extend(0)
        ids = [hit.chunk_id for hit in below[:length]]
        verified = verify(
            below[:length], self.store.read_chunks(scope, ids) if ids else {}
        ).verified
        visible = (part for one in verified if (part := reveal(one, scope)))
        return tuple(
            NearMiss(part.chunk_id, shown(part.score), part.source, part.chapter)
            for part in rank_visible(visible)[:MOST_NEAR_MISSES]
        )

    def _located(
        self, scope: Scope, documents: Iterable[tuple[int, str]], selection: str
    ) -> Iterable[Located]:
        """Give the place of a selection in the first document that holds it."""
        for number, name in documents:
            text = self.store.canonical_text(scope, number)
            found = next(occurrences(selection, text), None)
            if found is not None:
                yield self._place_of(scope, number, name, found)
                return

    def _place_of(self, scope: Scope, number: int, name: str, span: tuple[int, int]) -> Located:
        outline = self.store.outline(scope, number)
        before = [entry for entry in outline if entry.start <= span[0]]
        chapter = (before[-1].chapter if before else None) or name
        section = (before[-1].section if before else None) or chapter
        first, last = self.store.sentences_across(scope, number, *span)
        return Located(number, name, chapter, section, first, last, *span)


def _looked_in(shelf: Sequence[CatalogEntry], packed: Packed) -> list[tuple[int, str]]:
    """Return documents in the order in which a selection is looked for in them."""
    likely = dict.fromkeys(part.document for part in packed.chosen)
    names = {entry.number: entry.name for entry in shelf}
    order = [*likely, *(number for number in names if number not in likely)]
    return [(number, names[number]) for number in order[:MOST_SEARCHED_FOR_SELECTION]]


def _account(request: RetrievalRequest) -> RetrievalLog:
    return RetrievalLog(request.query_type, request.top_k, RELEVANCE_FLOOR)


def _require_words(request: RetrievalRequest) -> None:
    for text in (request.query, request.selected_text):
        if text is not None and not text.strip():
            raise BlankQuery
