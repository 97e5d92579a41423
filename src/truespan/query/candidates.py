"""Candidates for an answer: request -> vector -> hits -> verified -> visible, by rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from truespan.errors import BlankQuery, NotAllowed
from truespan.model.decision_settings import DecisionSettings
from truespan.model.names import Stage
from truespan.model.request import RetrievalRequest
from truespan.model.retrieved import ANSWER_TOP_K, Retrieved, Shortlist, shortlist
from truespan.model.scope import Aim, Authority, Scope, Verb, World
from truespan.model.trail import Verified
from truespan.model.words import FUSED_WEIGHT
from truespan.ports import UNWATCHED, Clock, Course, Embedders, TrustedStore, VectorIndex
from truespan.query.filters import DEFAULT_FILTER, defaults_left_nothing, narrowed_scope
from truespan.query.fused import gather_by
from truespan.query.gather import (
    NOTHING_EMBEDDED,
    Gathered,
    approximate_notice,
    pending_notice,
    signal,
)
from truespan.query.rank import rank_visible
from truespan.query.reveal import reveal
from truespan.query.settle import existing, in_one_state
from truespan.query.told import tell_candidates
from truespan.query.vector import query_vector

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
    aim: Aim = None
    fused_weight: float = FUSED_WEIGHT
    course: Course = UNWATCHED

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
        found = in_one_state(
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

        def listed(verified: list[Verified], course: Course = UNWATCHED) -> Shortlist:
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
        return gather_by(
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
