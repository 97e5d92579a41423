"""Search, retrieval and answers over a whole world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from truespan.arguments import SearchArguments
from truespan.errors import (
    BlankQuery,
    CredentialsMissing,
    DocumentNotFound,
    DomainNotFound,
    IndexKeyRefused,
    IndexRefused,
    IndexUnavailable,
    InternalError,
    Interrupted,
    InvalidSettings,
    NotAllowed,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    QueryTooLong,
    RecordNotFound,
    ScopeViolation,
    StoreDamaged,
    WorldNotFound,
)
from truespan.http import schemas
from truespan.http.operation import CallContext, Event, Events, Reply, Routes
from truespan.http.replies import bundle_reply
from truespan.types.answer import Answer, AnswerEvent, Finished, Piece, Started
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.decision import Decision
from truespan.world import World

QUERY_ERRORS = (
    WorldNotFound,
    NotAllowed,
    InvalidSettings,
    BlankQuery,
    QueryTooLong,
    CredentialsMissing,
    ProviderUnavailable,
    ProviderRefused,
    ProviderBadReply,
    IndexUnavailable,
    IndexRefused,
    IndexKeyRefused,
    ProfileMismatch,
    StoreDamaged,
)
"""The errors of every operation that searches."""
QUESTION = {"query": "Who wound the great clock?"}
CHUNK = {"chunk_id": "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"}
_WORLD = "/v1/worlds/{world}"
_ANSWER: dict[str, Any] = {
    "errors": (*QUERY_ERRORS, DomainNotFound, DocumentNotFound),
    "domains": True,
    "example": QUESTION,
}

routes = Routes("Asking", "Search a world, retrieve context from it, and ask it questions.")


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A decision recomputed from its record, and whether it equals the recorded one."""

    decision: Decision
    same: bool | None


@routes.post(
    _WORLD + "/search",
    errors=(*QUERY_ERRORS, DomainNotFound),
    domains=True,
    example=QUESTION | {"top_k": 5},
)
def search(context: CallContext, body: SearchArguments) -> Reply[SearchResult]:
    """Search for the passages closest to a query.

    Returns passages ordered by similarity, each verified when it was read, and the number of
    candidates left after each stage.
    """
    return Reply(context.world().search(**msgspec.structs.asdict(body)))


@routes.post(
    _WORLD + "/retrieve",
    errors=(*QUERY_ERRORS, DomainNotFound, DocumentNotFound, ScopeViolation),
    domains=True,
    example=QUESTION | {"language_constraint": None},
)
def retrieve(context: CallContext, body: schemas.RetrieveRequest) -> Reply[ContextBundle]:
    """Retrieve context for a model within a token budget.

    Returns a bundle: chunks within the token budget, the context assembled from them, and how it
    was assembled. An empty bundle is not an error. A failed retrieval is a problem that contains
    the bundle.
    """
    return bundle_reply(context.world().retrieve(**msgspec.structs.asdict(body)))


@routes.post(
    _WORLD + "/why-not",
    errors=(*QUERY_ERRORS, DomainNotFound),
    domains=True,
    example=QUESTION | CHUNK,
)
def why_not(context: CallContext, body: schemas.WhyNotRequest) -> Reply[Reason]:
    """Explain why a query does not return a chunk.

    Returns why the same request to retrieve does not return the chunk, and the chunk's similarity
    if it is known.
    """
    return Reply(context.world().why_not(**msgspec.structs.asdict(body)))


@routes.post(_WORLD + "/answer", **_ANSWER)
def answer(context: CallContext, body: schemas.Question) -> Reply[Answer] | Events:
    """Answer a question from the documents of a world.

    Returns an answer with its sources and the decision behind it. X-Answer-Mode says whether the
    answer is based on the documents. With `stream` the answer is sent as events: `started`, then
    `piece` events, then `finished` with the whole answer, or `problem`.
    """
    return _answer_in(context, context.world(), body)


@routes.post("/chat", **_ANSWER)
def chat(context: CallContext, body: schemas.ChatQuestion) -> Reply[Answer] | Events:
    """Answer a question; X-RAG-Domain selects the domain.

    Works like answer. The world is the one named by the body or by X-RAG-Domain, otherwise the one
    the server was started with, otherwise the only one.
    """
    return _answer_in(context, _select_world(context, body.world), body)


@routes.get(_WORLD + "/usage", errors=(WorldNotFound, NotAllowed))
def list_usage(context: CallContext, query: schemas.UsageQuery) -> Reply[schemas.UsageList]:
    """List the latest answered requests.

    Returns the records of the latest answers, newest first. Queries are stored as keyed hashes
    unless the operator chose otherwise.
    """
    return Reply(schemas.UsageList(usage=context.world().usage(limit=query.limit)))


@routes.get(_WORLD + "/usage/{record}", errors=(WorldNotFound, NotAllowed, RecordNotFound))
def explain(context: CallContext) -> Reply[Replay]:
    """Recompute the decision of an answered request.

    Decides again from the recorded inputs, and says whether the outcome is the same.
    """
    found = context.world().explain(context.path["record"])
    return Reply(Replay(decision=found.decision, same=found.same))


def answer_reply(
    context: CallContext, events: Iterator[AnswerEvent], *, stream: bool
) -> Reply[Answer] | Events:
    """Return an answer complete or as events. Its mode is decided before the headers are sent."""
    first = next(events)
    if not isinstance(first, Started):
        raise InternalError("beginning of an answer")
    headers = (("x-answer-mode", str(first.mode)),)
    if context.domain is not None:
        headers += (("x-rag-domain", context.domain),)
    if stream:
        return Events(_to_sent_events(first, events), headers)
    return Reply(_wait_for_answer(context, events), headers=headers)


def _wait_for_answer(context: CallContext, events: Iterator[AnswerEvent]) -> Answer:
    """Return the complete answer; a client that disconnects ends the request to the model."""
    try:
        for event in events:
            if isinstance(event, Finished):
                return event.answer
            if context.is_cancelled():
                raise Interrupted
    finally:
        # The raised error references the generator, so it is not closed by itself.
        close = getattr(events, "close", None)
        if close is not None:
            close()
    raise InternalError("end of an answer")


def _to_sent_events(first: Started, events: Iterator[AnswerEvent]) -> Iterator[Event]:
    yield Event("started", first)
    for event in events:
        if isinstance(event, Piece):
            yield Event("piece", event)
        elif isinstance(event, Finished):
            yield Event("finished", event.answer)


def _answer_in(
    context: CallContext, world: World, body: schemas.Question
) -> Reply[Answer] | Events:
    question = msgspec.structs.asdict(body)
    question.pop("world", None)
    stream = question.pop("stream")
    return answer_reply(context, world.answer_stream(**question), stream=stream)


def _select_world(context: CallContext, name: str | None) -> World:
    """Return the world of a request that need not name one.

    Raises:
        InvalidSettings: there are several worlds and none is chosen.
    """
    if context.domain is not None:
        return context.library.domain(context.domain, world=name)
    if name is not None:
        return context.library.world(name)
    visible = [world.id for world in context.library.worlds()]
    # The operator's default counts only if this caller may see it.
    candidates = [world for world in visible if world == context.default_world] or visible
    if len(candidates) != 1:
        raise InvalidSettings(
            "The request must name a world.", advice='Send "world", or the header X-RAG-Domain.'
        )
    return context.library.world(candidates[0])
