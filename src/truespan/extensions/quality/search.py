"""Searches and decisions that are graded: what a world finds and decides for a golden query."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.answering import Answerer
from truespan.errors import StoreDamaged
from truespan.observer import RequestTrace
from truespan.retrieval.filters import METADATA_DAMAGED
from truespan.retrieval.pipeline import Attempt, Pipeline
from truespan.retrieval.search import Rules, find_candidates, reveal_all
from truespan.retrieval.stages import Best, rank, reveal
from truespan.types.answer import Retrieved
from truespan.types.decision import Decision
from truespan.types.request import (
    MAX_QUERY_LENGTH,
    NO_FILTERS,
    Filters,
    Mode,
    RetrievalRequest,
    mode_in_force,
)
from truespan.types.scope import World
from truespan.types.trust import Verified, Visible


def search_documents(
    pipeline: Pipeline,
    query: str,
    filters: Filters,
    *,
    passages: int,
    documents: int,
    mode: Mode | None = None,
    rerank: bool | None = None,
) -> list[Verified]:
    """Return verified chunks, best first, until there are enough chunks and different documents.

    No floor applies: this is for evaluations. A reranker that fails is an error here, because the
    order without it must not be graded, and so are metadata that cannot be compared.
    """
    query = query.strip()
    world = pipeline.admit("evaluate without a reader", query, max_length=MAX_QUERY_LENGTH)
    stage = pipeline.rerank_stage(world, rerank, query)
    candidates = stage.candidates if stage else 0

    def select(verified: list[Verified]) -> Best:
        found = {chunk.document.number for chunk in verified}
        count = len(verified)
        missing = max(passages - count, documents - len(found), candidates - count)
        return Best(verified, missing, None)

    def search_latest(latest: World) -> Attempt:
        attempt = Attempt(latest, mode_in_force(mode, latest.defaults, query), query)
        scope = pipeline.scope(attempt, filters)
        if unreadable := next((n for n in attempt.warnings if n.code == METADATA_DAMAGED), None):
            raise StoreDamaged(unreadable.message)
        if scope is None:
            return attempt
        vector, attempt.states = pipeline.embed(scope, latest, query)
        k = max(passages, documents, candidates)
        found = pipeline.fetch(attempt, scope, vector, k=k, floor=None, select=select).found
        if stage is not None:
            ranked = rank(found, len(found))
            attempt.chunks = tuple(attempt.reorder(stage, reveal_all(ranked, scope)))
        return attempt

    attempt = pipeline.in_stable_world(world, search_latest)
    if stage is not None and stage.failure is not None:
        raise stage.failure
    if attempt.lost is not None:
        # The results of the whole index are unknown, so they cannot be graded.
        raise attempt.lost
    ranked = rank(attempt.fetched.verified, len(attempt.fetched.verified))
    ordered, scope = _in_order_of(attempt.chunks, ranked), attempt.scope
    if scope is None or not scope.names_place:
        return ordered
    # The text that is graded is the text that would be shown.
    shown = ((found, reveal(found, scope)) for found in ordered)
    return [replace(found, text="\n\n".join(part.text for part in parts)) for found, parts in shown]


def _in_order_of(reranked: Sequence[Visible], ranked: list[Verified]) -> list[Verified]:
    """Return verified chunks in the order in which a reranker ranked their visible parts."""
    if not reranked:
        return ranked
    found = {part.chunk.chunk_id: part for part in ranked}
    # Several parts of a chunk may be visible; the best of them counts.
    best = {part.chunk_id: part for part in reversed(reranked)}
    order = dict.fromkeys(part.chunk_id for part in reranked)
    return [replace(found[chunk_id], rerank=best[chunk_id].rerank) for chunk_id in order]


def decide_query(
    access: WorldAccess, query: str, *, filters: Filters = NO_FILTERS, rerank: bool | None = None
) -> Decision:
    """Return the decision on a question, without rewriting it and without a chat model."""
    request = RetrievalRequest(query=query, filters=filters, by_default=frozenset(), rerank=rerank)

    def find(trace: RequestTrace, _query: str, rules: Rules, _book: str | None) -> Retrieved:
        return find_candidates(access.pipeline.with_trace(trace), request, rules)

    answerer = Answerer(access.components, access.authority)
    return answerer.decide(answerer.ask(query, find, None, ()), reading=False)
