"""What a world has to say to a query without any floor: the ranking that golden queries judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from truespan.errors import BlankQuery, NotAllowed
from truespan.model.ids import WorldId
from truespan.model.request import RetrievalRequest
from truespan.model.scope import Aim, Authority, Scope, Verb, World
from truespan.model.trail import Verified
from truespan.model.words import FUSED_WEIGHT
from truespan.ports import Clock, Embedders, TrustedStore, VectorIndex
from truespan.query.filters import narrowed_scope
from truespan.query.fused import gather_by
from truespan.query.gather import Gathered, signal
from truespan.query.rank import rank
from truespan.query.settle import existing, in_one_state
from truespan.query.vector import query_vector


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
    aim: Aim = None
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
        answer = in_one_state(
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
        return gather_by(
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
