"""Readers: their positions, and retrieval and answers from what they have read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from truespan.arguments import ReadingArguments
from truespan.errors import (
    DocumentNotFound,
    ImageNotFound,
    InvalidSettings,
    NotAllowed,
    PassageAmbiguous,
    PassageNotFound,
    PositionNotFound,
    StoreDamaged,
    WorldNotFound,
)
from truespan.http import schemas
from truespan.http.operation import CallContext, Events, Reply, Routes
from truespan.http.replies import bundle_reply
from truespan.http.routes.documents import image_reply
from truespan.http.routes.questions import CHUNK, QUERY_ERRORS, QUESTION, answer_reply
from truespan.types.answer import Answer
from truespan.types.bundle import ContextBundle, Reason
from truespan.types.reading import ReadingPosition, SentencePage

if TYPE_CHECKING:
    from truespan.reader import Reader

_READER = "/v1/worlds/{world}/readers/{reader}"
_POSITION_ERRORS = (WorldNotFound, NotAllowed, InvalidSettings, PositionNotFound, StoreDamaged)

routes = Routes("Reading", "Nothing past a reader's position in a book is ever returned.")


def _reader(context: CallContext) -> Reader:
    return context.world().reader(context.path["reader"])


@routes.get(_READER + "/books", errors=_POSITION_ERRORS)
def list_books(context: CallContext) -> Reply[schemas.ReaderBooks]:
    """List the books in which a reader has a position.

    Returns each book that the reader has started, and the position in it. Nothing past the
    positions is included.
    """
    return Reply(schemas.ReaderBooks(books=_reader(context).books()))


@routes.get(_READER + "/position", errors=_POSITION_ERRORS)
def read_position(context: CallContext, query: schemas.BookQuery) -> Reply[ReadingPosition]:
    """Get a reader's position.

    Returns the reader's position in a book; in the current one if the request names none.
    """
    return Reply(_reader(context).where(query.book))


@routes.put(
    _READER + "/position",
    errors=(*_POSITION_ERRORS, DocumentNotFound, PassageNotFound, PassageAmbiguous),
    example={"book": "clockmaker.md", "sid": 41},
)
def set_position(
    context: CallContext, body: schemas.NewPosition
) -> Reply[schemas.RecordedPosition]:
    """Set a reader's position; for the owner.

    Sets the position to the end of a sentence, a chapter or a passage; the body has exactly one of
    them. The reply contains no text of the book. A token that is bound to readers cannot do this.
    """
    found = _reader(context).set(**msgspec.structs.asdict(body))
    return Reply(
        schemas.RecordedPosition(
            document=found.document, doc_id=found.doc_id, sid=found.sid, current=found.current
        )
    )


@routes.post(_READER + "/retrieve", errors=(*QUERY_ERRORS, DocumentNotFound), example=QUESTION)
def retrieve_as_reader(context: CallContext, body: ReadingArguments) -> Reply[ContextBundle]:
    """Retrieve context from what the reader has read.

    Returns a bundle from the part of a book that the reader has read, in reading order. Text past
    the position does not influence the reply.
    """
    return bundle_reply(_reader(context).retrieve(**msgspec.structs.asdict(body)))


@routes.post(_READER + "/answer", errors=(*QUERY_ERRORS, DocumentNotFound), example=QUESTION)
def answer_as_reader(context: CallContext, body: schemas.ReaderQuestion) -> Reply[Answer] | Events:
    """Answer a question from what the reader has read.

    Answers from the part of a book that the reader has read, or says that it cannot. Events are
    sent as for answer.
    """
    events = _reader(context).answer_stream(body.query, body.book)
    return answer_reply(context, events, stream=body.stream)


@routes.post(
    _READER + "/why-not", errors=(*QUERY_ERRORS, DocumentNotFound), example=QUESTION | CHUNK
)
def why_not_as_reader(context: CallContext, body: schemas.ReaderWhyNotRequest) -> Reply[Reason]:
    """Explain why a reader's query does not return a chunk.

    Returns why the reader's request does not return the chunk. A chunk past the position is
    reported as one that does not exist.
    """
    return Reply(_reader(context).why_not(**msgspec.structs.asdict(body)))


@routes.get(_READER + "/sentences", errors=(*_POSITION_ERRORS, DocumentNotFound))
def read_sentences_as_reader(
    context: CallContext, query: schemas.BookPageQuery
) -> Reply[SentencePage]:
    """Read the verified text that the reader has read.

    Returns sentences up to the reader's position and never past it; `more` says whether further
    sentences up to the position follow.
    """
    page = _reader(context).sentences(query.book, first=query.first, count=query.count)
    return Reply(page)


@routes.get(
    _READER + "/images/{image_ref:path}",
    errors=(WorldNotFound, NotAllowed, ImageNotFound),
    media_type="image/*",
)
def show_image_as_reader(context: CallContext) -> Reply[bytes]:
    """Get the image of a figure that the reader has reached.

    Any other image is reported as one that does not exist.
    """
    return image_reply(_reader(context).image(context.path["image_ref"]))
