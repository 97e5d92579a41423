"""Search, retrieval, answers and evaluation: over a whole world, and as a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from truespan import errors
from truespan.engine.world import World
from truespan.extensions.quality.report import EvaluationReport
from truespan.extensions.quality.world import EvaluationProgress
from truespan.extensions.server.arguments import (
    ReadingContextArguments,
    SearchArguments,
    arguments_of,
)
from truespan.extensions.server.http import requests, schemas
from truespan.extensions.server.http.operation import (
    AsReader,
    CallContext,
    Event,
    Events,
    Reply,
    Routes,
)
from truespan.extensions.server.http.replies import bundle_reply
from truespan.extensions.server.http.routes.library import image_reply
from truespan.types.answer import Answer, AnswerEvent, Finished, Piece, Started
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.picture import PagePicture
from truespan.types.reading import ReadingPosition, SentencePage
from truespan.wire.serialize import members, record_data

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.reader import Reader


QUERY_ERRORS = (
    "blank_query",
    errors.QueryTooLong,
    "credentials_missing",
    errors.ProviderUnavailable,
    errors.ProviderRefused,
    errors.ProviderBadReply,
    errors.IndexUnavailable,
    "index_incomplete",
    errors.IndexRefused,
    errors.IndexKeyRefused,
    errors.IndexNotOwned,
    errors.ProfileMismatch,
    "generation_not_found",
    "signing_key_missing",
)
"""The errors of every operation that searches."""
NEW_CONVERSATION = "new"
"""The id that starts a conversation."""
QUESTION = {"query": "Who wound the great clock?"}
CHUNK = {"chunk_id": "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"}
_WORLD = "/v1/worlds/{world}"
_ANSWER: dict[str, Any] = {
    "errors": (*QUERY_ERRORS, "world_not_found", "document_not_found"),
    "domains": True,
    "signs": True,
    "example": QUESTION,
}
_CHAT_ERRORS = (errors.WorldNotNamed, "conversation_not_found", "conversations_off")
_READER_ERRORS = (*QUERY_ERRORS, "document_not_found")
_BOOK_ERRORS = ("no_reading_position", "document_not_found")
_READER = "/v1/worlds/{world}/readers/{reader}"

# Shared by threads: filled while modules are imported, then only read.
asking = Routes(
    "Asking", "Search a world, retrieve context from it, and ask it questions.", "not_allowed"
)
# Shared by threads: as above.
reading = Routes(
    "Reading", "Nothing past a reader's position in a book is ever returned.", "not_allowed"
)
GOLDEN = '- query: Who wound the great clock?\n  phrases: ["the keeper of the tower"]\n'
# Shared by threads: filled while modules are imported, then only read.
evaluation = Routes(
    "Evaluation", "Ask golden queries, and see how well a world answers.", "not_allowed"
)


@asking.post(
    _WORLD + "/search",
    errors=QUERY_ERRORS,
    domains=True,
    signs=True,
    example=QUESTION | {"top_k": 5},
)
def search(
    context: CallContext, body: SearchArguments, query: requests.PassageQuery
) -> SearchResult:
    """Search for the passages closest to a query.

    Returns passages ordered by similarity, each verified when it was read, and the number of
    candidates left after each stage.
    """
    world = context.asked_world(query.generation)
    return world.search(**asdict(body), highlight=query.highlight)


@asking.post(
    _WORLD + "/retrieve",
    errors=(*QUERY_ERRORS, "document_not_found", errors.ScopeViolation),
    domains=True,
    signs=True,
    as_reader=AsReader(
        """Retrieve context from what the reader has read.

        Returns a bundle from the part of a book that the reader has read, in reading order. Text
        past the position does not influence the reply.
        """,
        body=ReadingContextArguments,
        query=requests.ReaderPassageQuery,
        errors=_READER_ERRORS,
        example=QUESTION,
    ),
    readers=reading,
    example=QUESTION | {"language": None},
)
def retrieve(
    context: CallContext, body: requests.RetrieveRequest, query: requests.PassageQuery
) -> Reply[ContextBundle]:
    """Retrieve context for a model within a token budget.

    Returns a bundle: chunks within the token budget, the context assembled from them, and how it
    was assembled. An empty bundle is not an error. A failed retrieval is a problem that contains
    the bundle.
    """
    asked = _asked(context, body, query)
    return bundle_reply(asked.retrieve(**arguments_of(body), highlight=query.highlight))


@asking.post(
    _WORLD + "/why-not",
    errors=QUERY_ERRORS,
    domains=True,
    example=QUESTION | CHUNK,
    as_reader=AsReader(
        """Explain why a reader's query does not return a chunk.

        Returns why the reader's request does not return the chunk. A chunk past the position is
        reported as one that does not exist.
        """,
        body=requests.ReaderWhyNotRequest,
        query=requests.ReaderQuery,
        errors=_READER_ERRORS,
    ),
    readers=reading,
)
def why_not(
    context: CallContext, body: requests.WhyNotRequest, query: requests.GenerationQuery
) -> Reason:
    """Explain why a query does not return a chunk.

    Returns why the same request to retrieve does not return the chunk, and the chunk's similarity
    if it is known.
    """
    return _asked(context, body, query).why_not(**arguments_of(body))


@asking.post(
    _WORLD + "/answer",
    **_ANSWER,
    as_reader=AsReader(
        """Answer a question from what the reader has read.

        Answers from the part of a book that the reader has read, or says that it cannot. Events are
        sent as for answer.
        """,
        body=requests.ReaderQuestion,
        query=requests.ReaderQuery,
        errors=_READER_ERRORS,
    ),
    readers=reading,
)
def answer(
    context: CallContext, body: requests.Question, query: requests.GenerationQuery
) -> Reply[Answer] | Events:
    """Answer a question from the documents of a world.

    Returns an answer with its sources and the decision behind it. X-Answer-Mode says whether the
    answer is based on the documents. With `stream` the answer is sent as events: `started`, then
    `piece` events, then `finished` with the whole answer, or `problem`.
    """
    return answer_reply(context, _asked(context, body, query).answer_stream, arguments_of(body))


@asking.post("/chat", **(_ANSWER | {"errors": (*_ANSWER["errors"], *_CHAT_ERRORS)}))
def chat(context: CallContext, body: requests.ChatQuestion) -> Reply[Answer] | Events:
    """Answer a question; X-RAG-Domain selects the domain.

    Works like answer. The world is the one named by the body or by X-RAG-Domain, otherwise the one
    the server was started with, otherwise the only one. With `conversation_id` the question
    continues a conversation, or starts one, and becomes a turn of it.
    """
    question = asdict(body)
    world = select_world(context, question.pop("world"))
    conversation = question.pop("conversation_id")
    if conversation is None:
        return answer_reply(context, world.answer_stream, question)
    found = world.conversation(None if conversation == NEW_CONVERSATION else conversation)
    return ask_in_conversation(context, found, question)


@asking.get(_WORLD + "/usage")
def list_usage(context: CallContext, query: requests.UsageQuery) -> schemas.UsageList:
    """List the latest answered requests.

    Returns the records of the latest answers, newest first. Queries are stored as keyed hashes
    unless the operator chose otherwise.
    """
    found = context.world().usage(limit=query.limit)
    return schemas.UsageList(usage=[schemas.UsageEntry(**record_data(entry)) for entry in found])


def ask_in_conversation(
    context: CallContext, conversation: Conversation, question: dict[str, Any]
) -> Reply[Answer] | Events:
    """Return the answer to the next question of a conversation."""
    if context.has_key:
        # The stored reply would be given again after the documents it quotes were deleted, and to
        # a reader who has gone back.
        raise errors.InvalidArgument(
            "A question of a conversation takes no Idempotency-Key.",
            advice="To find out whether it was stored, get the conversation.",
        )
    return answer_reply(context, conversation.ask_stream, question)


def answer_reply(
    context: CallContext, ask: Callable[..., Iterator[AnswerEvent]], question: dict[str, Any]
) -> Reply[Answer] | Events:
    """Return an answer complete or as events. Its mode is decided before the headers are sent."""
    stream = question.pop("stream") or context.accepts_events
    events = ask(**question)
    first = next(events)
    if not isinstance(first, Started):
        raise errors.InternalError("beginning of an answer")
    headers = (("x-answer-mode", str(first.mode)),)
    if context.domain is not None:
        headers += (("x-rag-domain", context.domain),)

    def sent_events() -> Iterator[Event]:
        yield Event("started", first)
        for event in events:
            if isinstance(event, Piece):
                yield Event("piece", event)
            elif isinstance(event, Finished):
                yield Event("finished", event.answer)

    if stream:
        return Events(sent_events(), headers)
    return Reply(wait_for_answer(context, events), headers=headers)


def wait_for_answer(context: CallContext, events: Iterator[AnswerEvent]) -> Answer:
    """Return the complete answer; a client that disconnects ends the request to the model."""
    try:
        for event in events:
            if isinstance(event, Finished):
                return event.answer
            if context.is_cancelled():
                raise errors.Interrupted
    finally:
        # The raised error references the generator, so it is not closed automatically.
        close = getattr(events, "close", None)
        if close is not None:
            close()
    raise errors.InternalError("end of an answer")


def select_world(context: CallContext, name: str | None) -> World:
    """Return the world of a request that need not name one."""
    if context.domain is not None:
        return context.library.domain(context.domain, world=name)
    if name is None and context.default_world is not None:
        # The operator's default counts only if this caller may see it.
        visible = {world.id for world in context.library.worlds()}
        name = context.default_world if context.default_world in visible else None
    try:
        return context.library.world(name, create=False)
    except errors.WorldNotNamed as error:
        error.advice = 'Send "world", or the header X-RAG-Domain.'
        raise


def _reader(context: CallContext) -> Reader:
    return context.asked_world().reader(context.path["reader"])


def _asked(context: CallContext, body: Any, query: requests.GenerationQuery) -> World | Reader:
    """Return what a request asks: the world in the path, or the reader in it.

    The world is in the generation of the request, and the reader at its position, if it has them.
    """
    world, name = context.asked_world(query.generation), context.path.get("reader")
    if name is None:
        return world
    reader, position = world.reader(name), getattr(query, "sid", None)
    return reader if position is None else reader.at_position(body.book, position)


@reading.get("/v1/worlds/{world}/readers", errors=("not_allowed",))
def list_readers(context: CallContext) -> schemas.ReaderList:
    """List the readers of a world.

    Returns the names of those who have a position in a book, in order. A caller who may only read
    as a reader cannot do this.
    """
    return schemas.ReaderList(readers=context.world().readers())


@reading.get(_READER + "/books", errors=("no_reading_position",))
def list_books(context: CallContext) -> schemas.ReaderBooks:
    """List the books in which a reader has a position.

    Returns each book that the reader has started, and the position in it. Nothing past the
    positions is included.
    """
    return schemas.ReaderBooks(books=_reader(context).books())


@reading.get(_READER + "/position", errors=("no_reading_position",))
def read_position(context: CallContext, query: requests.BookQuery) -> ReadingPosition:
    """Get a reader's position.

    Returns the reader's position in a book; in the current one if the request names none.
    """
    return _reader(context).position(query.book)


@reading.put(
    _READER + "/position",
    errors=(*_BOOK_ERRORS, "passage_not_found", "passage_ambiguous"),
    example={"book": "clockmaker.md", "sid": 41},
)
def set_position(context: CallContext, body: requests.NewPosition) -> schemas.RecordedPosition:
    """Set a reader's position; for the owner.

    Sets the position to the end of a sentence, a chapter or a passage; the body has exactly one of
    them. The reply contains no text of the book. A token that is bound to readers cannot do this.
    """
    given = asdict(body)
    found = _reader(context).set_position(sentence=given.pop("sid"), **given)
    return schemas.RecordedPosition(**members(found, "document", "doc_id", "sid", "current"))


@reading.get(_READER + "/sentences", errors=_BOOK_ERRORS)
def read_sentences_as_reader(context: CallContext, query: requests.BookPageQuery) -> SentencePage:
    """Read the verified text that the reader has read.

    Returns sentences up to the reader's position and never past it; `more` says whether further
    sentences up to the position follow.
    """
    return _reader(context).sentences(**asdict(query))


@reading.get(_READER + "/images/{image_ref:path}", media_type="image/*")
def show_image_as_reader(context: CallContext) -> Reply[bytes]:
    """Get the image of a figure that the reader has reached.

    Any other image is reported as one that does not exist.
    """
    return image_reply(_reader(context).image(context.path["image_ref"]))


@reading.get(_READER + "/picture", errors=(*_BOOK_ERRORS, "image_not_found"))
def draw_document_as_reader(context: CallContext, query: requests.BookPictureQuery) -> PagePicture:
    """Get a page of a book as it looks, as far as the reader has read.

    Of the page that the position is on, only read text is drawn. A page that was not reached is
    reported as one that does not exist.
    """
    reader = _reader(context)
    if query.sid is not None:
        reader = reader.at_position(query.book, query.sid)
    return reader.picture(query.page, book=query.book)


@evaluation.post(
    "/v1/worlds/{world}/evaluate",
    errors=(*QUERY_ERRORS, "golden_invalid", "no_reading_position", "document_not_found"),
    in_turns=True,
    events={"progress": EvaluationProgress, "finished": EvaluationReport},
    example={"golden": GOLDEN, "modes": ["vector", "hybrid"]},
)
def evaluate(
    context: CallContext, body: requests.EvaluationRequest
) -> Reply[EvaluationReport] | Events:
    """Ask golden queries and judge the results.

    Asks every query in each of the modes, or of two generations, and compares the outcomes. With
    `stream` it sends a `progress` event after each query, then `finished` with the whole report,
    or `problem`. Disconnecting ends it. The report contains no text of a document.
    """
    arguments = asdict(body)
    stream = arguments.pop("stream") or context.accepts_events
    # As bytes: a text would be taken for the path of a file.
    golden = arguments.pop("golden").encode()
    steps = context.world().evaluation.report_stream(golden, **arguments)
    # Wrong arguments get an error status, before the stream begins.
    first = next(steps)

    def sent_events() -> Iterator[Event]:
        yield Event("progress", first)
        for step in steps:
            name = "finished" if isinstance(step, EvaluationReport) else "progress"
            yield Event(name, step)

    return Events(sent_events(), streamed=stream)
