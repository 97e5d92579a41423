"""Search, retrieval and answers of a whole world."""

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
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Event, Events, Reply, Result
from truespan.http.problems import bundle_reply
from truespan.types.answer import Answer, AnswerEvent, Finished, Piece, Started
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.decision import Decision
from truespan.world import World

ASKING = (
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
"""What can go wrong wherever something is looked for."""
MODE = "x-answer-mode"
DOMAIN = "x-rag-domain"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A decision made again from what was written down, and whether it is the one on record."""

    decision: Decision
    same: bool | None


def _search(asked: CallContext) -> Reply:
    return Reply(asked.world().search(**msgspec.structs.asdict(asked.body)))


def _retrieve(asked: CallContext) -> Reply:
    return bundle_reply(asked.world().retrieve(**msgspec.structs.asdict(asked.body)))


def _why_not(asked: CallContext) -> Reply:
    return Reply(asked.world().why_not(**msgspec.structs.asdict(asked.body)))


def _answer(asked: CallContext) -> Result:
    return _answered(asked, asked.world())


def _chat(asked: CallContext) -> Result:
    return _answered(asked, _meant(asked))


def _answered(asked: CallContext, world: World) -> Result:
    question = msgspec.structs.asdict(asked.body)
    question.pop("world", None)
    streamed = question.pop("stream")
    return answered(asked, world.answer_stream(**question), streamed=streamed)


def answered(asked: CallContext, events: Iterator[AnswerEvent], *, streamed: bool) -> Result:
    """Return an answer whole or in pieces. The mode is settled before the first byte leaves."""
    first = next(events)
    if not isinstance(first, Started):
        raise InternalError("beginning of an answer")
    headers = ((MODE, str(first.mode)),)
    if asked.domain is not None:
        headers += ((DOMAIN, asked.domain),)
    if streamed:
        return Events(_told(first, events), headers)
    return Reply(_whole(asked, events), headers=headers)


def _whole(asked: CallContext, events: Iterator[AnswerEvent]) -> Answer:
    """Return the answer when it is all there; whoever leaves ends the request to the model."""
    try:
        for event in events:
            if isinstance(event, Finished):
                return event.answer
            if asked.gone():
                raise Interrupted
    finally:
        # The error that is raised holds on to what raised it, so nothing ends by itself here.
        close = getattr(events, "close", None)
        if close is not None:
            close()
    raise InternalError("end of an answer")


def _told(first: Started, events: Iterator[AnswerEvent]) -> Iterator[Event]:
    yield Event("started", first)
    for event in events:
        if isinstance(event, Piece):
            yield Event("piece", event)
        elif isinstance(event, Finished):
            yield Event("finished", event.answer)


def _meant(asked: CallContext) -> World:
    """Return the world of a request that need not name one.

    Raises:
        InvalidSettings: there are several, and nobody said which.
    """
    named = asked.body.world
    if asked.domain is not None:
        return asked.library.domain(asked.domain, world=named)
    if named is not None:
        return asked.library.world(named)
    seen = [world.id for world in asked.library.worlds()]
    # What the operator named may be nothing that this caller knows of.
    usual = [world for world in seen if world == asked.default_world] or seen
    if len(usual) != 1:
        raise InvalidSettings(
            "Say which world is meant.", advice='Send "world", or the header X-RAG-Domain.'
        )
    return asked.library.world(usual[0])


def _usage(asked: CallContext) -> Reply:
    return Reply(shapes.UsageList(usage=asked.world().usage(limit=asked.query.limit)))


def _explain(asked: CallContext) -> Reply:
    found = asked.world().explain(asked.path["record"])
    return Reply(Replay(decision=found.decision, same=found.same))


_QUESTION = {"query": "Who wound the great clock?"}
_WORLD = "/v1/worlds/{world}"
_ANSWERED: dict[str, Any] = {
    "errors": (*ASKING, DomainNotFound, DocumentNotFound),
    "domains": True,
    "streams": True,
    "example": _QUESTION,
}

CALLS = (
    Call(
        "POST",
        _WORLD + "/search",
        "search",
        "Find the passages closest to a query",
        _search,
        SearchResult,
        takes=SearchArguments,
        errors=(*ASKING, DomainNotFound),
        domains=True,
        example=_QUESTION | {"top_k": 5},
        description="Gives passages in the order of their similarity, each checked as it was "
        "read, and how many candidates were left after each stage.",
    ),
    Call(
        "POST",
        _WORLD + "/retrieve",
        "retrieve",
        "Assemble context for a model within its budget",
        _retrieve,
        ContextBundle,
        takes=shapes.Retrieving,
        errors=(*ASKING, DomainNotFound, DocumentNotFound, ScopeViolation),
        domains=True,
        example=_QUESTION | {"language_constraint": None},
        description="Gives a bundle: chunks within a budget of tokens, the context made of them, "
        "and the account of how it came about. An empty bundle is no error; one that "
        "failed comes as a problem with the bundle in it.",
    ),
    Call(
        "POST",
        _WORLD + "/why-not",
        "whyNot",
        "Say why a chunk is not among what a query brings",
        _why_not,
        Reason,
        takes=shapes.Missing,
        errors=(*ASKING, DomainNotFound),
        domains=True,
        example=_QUESTION | {"chunk_id": "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"},
        description="Says why a chunk is not among what the same request to retrieve brings, and "
        "how similar it is where that can be told.",
    ),
    Call(
        "POST",
        _WORLD + "/answer",
        "answer",
        "Answer a question from the documents of a world",
        _answer,
        Answer,
        takes=shapes.Question,
        **_ANSWERED,
        description="Gives an answer with its sources and how it was decided. X-Answer-Mode says "
        "whether it rests on the documents. With stream it comes as events: started, "
        "then pieces, then finished with the whole answer, or problem.",
    ),
    Call(
        "POST",
        "/chat",
        "chat",
        "Answer a question; X-RAG-Domain chooses the domain",
        _chat,
        Answer,
        takes=shapes.ChatQuestion,
        **_ANSWERED,
        description="Does what answer does. The world is the one that the body or X-RAG-Domain "
        "names, else the one that the server was started with, else the only one "
        "there is.",
    ),
    Call(
        "GET",
        _WORLD + "/usage",
        "listUsage",
        "The latest answered requests",
        _usage,
        shapes.UsageList,
        asks=shapes.UsageQuery,
        errors=(WorldNotFound, NotAllowed),
        description="Gives what was written down of the latest answers, the newest first. Queries "
        "are keyed hashes there unless the operator wants it otherwise.",
    ),
    Call(
        "GET",
        _WORLD + "/usage/{record}",
        "explain",
        "Make the decision of an answered request again",
        _explain,
        Replay,
        errors=(WorldNotFound, NotAllowed, RecordNotFound),
        description="Takes what the decision of an answer was made from, decides again, and says "
        "whether the outcome is the same.",
    ),
)
