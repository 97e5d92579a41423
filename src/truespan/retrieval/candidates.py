"""Candidates for an answer: request -> vector -> hits -> verified -> visible, by rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

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
from truespan.retrieval.filters import DEFAULT_FILTER, defaults_left_nothing, narrowed_scope
from truespan.retrieval.fused import fetch_verified
from truespan.retrieval.metrics import tell_candidates
from truespan.retrieval.query_vector import query_vector
from truespan.retrieval.snapshot import existing, with_stable_snapshot
from truespan.retrieval.stages import rank, rank_visible, reveal
from truespan.types.answer import ANSWER_TOP_K, Retrieved, Shortlist, shortlist
from truespan.types.decision import DecisionSettings
from truespan.types.ids import WorldId
from truespan.types.request import RetrievalRequest
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World
from truespan.types.telemetry import Stage
from truespan.types.trust import Verified
from truespan.types.words import FUSED_WEIGHT

Rules: TypeAlias = Callable[[Scope], tuple[DecisionSettings, float]]
"""Gives, for a scope, the settings of the decision and the floor with which to search."""


@dataclass(frozen=True, slots=True)
class Finder:
    """What finding candidates needs. `rules` depend on the profile of what is searched."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    on_flaws: Callable[[Scope], None]
    rules: Rules
    aim: GenerationSelector = None
    fused_weight: float = FUSED_WEIGHT
    course: RequestTrace = NULL_OBSERVER

    def find(self, authority: Authority, world_ref: str, request: RetrievalRequest) -> Retrieved:
        """Return the best chunks at or above the floor, from one state of the world.

        Raises:
            WorldNotFound, NotAllowed, BlankQuery: before anything dearer.
            QueryTooLong: before the provider is asked.
            ProfileMismatch, InvalidConfiguration: the settings do not fit what is searched.
            ProviderUnavailable, IndexUnavailable, ...: something we depend on failed.
        """
        with self.course.stage(Stage.ADMITTED):
            world = existing(self.store, authority, world_ref, self.aim)
            if not authority.may(Verb.READ, world.id):
                raise NotAllowed("answer without a reader")
            if not (request.query or "").strip():
                raise BlankQuery
        found = with_stable_snapshot(
            self.store, authority, world, lambda latest: self._found(authority, latest, request)
        )
        tell_candidates(self.course, found)
        return signalled(self.store, found, self.on_flaws)

    def _found(self, authority: Authority, world: World, request: RetrievalRequest) -> Retrieved:
        if world.generation is None:
            return Retrieved(world, warnings=(NOTHING_EMBEDDED,))
        whole = Scope(authority, world.id, world.generation)
        with self.course.stage(Stage.SCOPED):
            shelf = self.store.shelf(whole, world)
            scope = narrowed_scope(whole, shelf, request)
            warnings = pending_notice(scope, shelf)
            in_scope = self.store.embedded_count(scope, world)
        if in_scope == 0:
            emptied = defaults_left_nothing(shelf, request)
            return Retrieved(
                world, scope, (), (*warnings, DEFAULT_FILTER if emptied else NOTHING_EMBEDDED)
            )
        warnings += approximate_notice(self.index, scope)
        settings, floor = self.rules(scope)
        excluded = settings.exclude_chunk_types_from_llm

        def listed(verified: list[Verified], course: RequestTrace = NULL_OBSERVER) -> Shortlist:
            with course.stage(Stage.VISIBLE):
                visible = [part for one in verified if (part := reveal(one, scope))]
            with course.stage(Stage.RANKED):
                return shortlist(rank_visible(visible), ANSWER_TOP_K, excluded)

        found = self._gathered(
            scope,
            world,
            request,
            k=min(ANSWER_TOP_K, in_scope),
            floor=floor,
            missing=lambda verified, _: listed(verified).missing,
        )
        chosen = listed(found.verified, self.course)
        return Retrieved(world, scope, chosen.chunks, tuple(warnings), tuple(found.flaws))

    def _gathered(
        self,
        scope: Scope,
        world: World,
        request: RetrievalRequest,
        *,
        k: int,
        floor: float,
        missing: Callable[[list[Verified], float], int],
    ) -> Gathered:
        """Gather by similarity or, where that was asked for, by words as well."""
        store, index, query = self.store, self.index, (request.query or "").strip()
        embedder = self.embedders(scope.profile)
        with self.course.stage(Stage.VECTOR):
            vector = query_vector(
                scope,
                query,
                embedder=embedder,
                cache=store,
                clock=self.clock,
                course=self.course,
            )
        return fetch_verified(
            store,
            index,
            scope,
            world,
            vector,
            query,
            k=k,
            floor=floor,
            missing=missing,
            weight=self.fused_weight if request.fused else None,
            course=self.course,
        )


def signalled(
    store: TrustedStore, found: Retrieved, on_flaws: Callable[[Scope], None]
) -> Retrieved:
    """Have what could not be trusted repaired, once the state that was looked at is settled."""
    if not found.flaws or found.scope is None:
        return found
    notices = signal(store, found.scope, found.flaws, on_flaws)
    return replace(found, warnings=(*found.warnings, *notices))


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, where it is asked, and how many chunks and different documents are wanted."""

    query: str
    passages: int
    documents: int
    language: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    among: tuple[str, ...] | None = None
    """Numbers, doc ids and names of the only documents that are looked at; None for all."""
    fused: bool = False
    """Whether the words of the query count for the order as well."""


@dataclass(slots=True)
class _Answer:
    scope: Scope | None = None
    found: Gathered = field(default_factory=Gathered)


@dataclass(frozen=True, slots=True)
class ExhaustiveSearcher:
    """What such a search needs. `on_flaws` is told when there is something to repair."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    on_flaws: Callable[[Scope], None]
    aim: GenerationSelector = None
    fused_weight: float = FUSED_WEIGHT

    def search(self, authority: Authority, world: WorldId, asked: Asked) -> list[Verified]:
        """Return verified chunks, best first, until enough documents are among them.

        Raises:
            NotAllowed: the caller may not read without a bound.
            BlankQuery, QueryTooLong: before the provider is asked.
            ProfileMismatch, ServiceError: as `Searcher` does.
        """
        record = existing(self.store, authority, world, self.aim)
        if not authority.may(Verb.READ, record.id):
            raise NotAllowed("evaluate without a reader")
        if not asked.query.strip():
            raise BlankQuery
        answer = with_stable_snapshot(
            self.store, authority, record, lambda latest: self._answer(authority, latest, asked)
        )
        if answer.scope is not None and answer.found.flaws:
            signal(self.store, answer.scope, answer.found.flaws, self.on_flaws)
        return rank(answer.found.verified, len(answer.found.verified))

    def _answer(self, authority: Authority, world: World, asked: Asked) -> _Answer:
        if world.generation is None:
            return _Answer()
        whole = Scope(authority, world.id, world.generation)
        scope = narrowed_scope(whole, self.store.shelf(whole, world), _filters(asked))
        if self.store.embedded_count(scope, world) == 0:
            return _Answer()
        return _Answer(scope, self._gathered(scope, world, asked))

    def _gathered(self, scope: Scope, world: World, asked: Asked) -> Gathered:
        embedder, query = self.embedders(scope.profile), asked.query.strip()
        vector = query_vector(scope, query, embedder=embedder, cache=self.store, clock=self.clock)
        k, missing = max(asked.passages, asked.documents), partial(_missing, asked)
        return fetch_verified(
            self.store,
            self.index,
            scope,
            world,
            vector,
            query,
            k=k,
            floor=None,
            missing=missing,
            weight=self.fused_weight if asked.fused else None,
        )


def _missing(asked: Asked, verified: list[Verified], _: float) -> int:
    documents = {one.document.number for one in verified}
    return max(asked.passages - len(verified), asked.documents - len(documents))


def _filters(asked: Asked) -> RetrievalRequest:
    return RetrievalRequest(
        query="?",
        language_constraint=asked.language,
        version_constraint=asked.version,
        documents=asked.among,
        tags=asked.tags,
    )
