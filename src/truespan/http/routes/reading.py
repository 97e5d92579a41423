"""Readers: where they are, what they have read, and what that has to say."""

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
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Reply, Result
from truespan.http.problems import bundle_reply
from truespan.http.routes.documents import image_reply
from truespan.http.routes.questions import ASKING, answered
from truespan.retrieval.positions import ReadingPosition
from truespan.types.answer import Answer
from truespan.types.bundle import ContextBundle, Reason
from truespan.types.reading import SentencePage

if TYPE_CHECKING:
    from truespan.reader import Reader

_FOLLOWING = (WorldNotFound, NotAllowed, InvalidSettings, PositionNotFound, StoreDamaged)


def _reader(asked: CallContext) -> Reader:
    return asked.world().reader(asked.path["reader"])


def _books(asked: CallContext) -> Reply:
    return Reply(shapes.ReaderBooks(books=_reader(asked).books()))


def _where(asked: CallContext) -> Reply:
    return Reply(_reader(asked).where(asked.query.book))


def _set(asked: CallContext) -> Reply:
    found = _reader(asked).set(**msgspec.structs.asdict(asked.body))
    return Reply(
        shapes.QueueStatus(
            document=found.document, doc_id=found.doc_id, sid=found.sid, current=found.current
        )
    )


def _retrieve(asked: CallContext) -> Reply:
    return bundle_reply(_reader(asked).retrieve(**msgspec.structs.asdict(asked.body)))


def _answer(asked: CallContext) -> Result:
    body = asked.body
    events = _reader(asked).answer_stream(body.query, body.book)
    return answered(asked, events, streamed=body.stream)


def _why_not(asked: CallContext) -> Reply:
    return Reply(_reader(asked).why_not(**msgspec.structs.asdict(asked.body)))


def _sentences(asked: CallContext) -> Reply:
    page = asked.query
    return Reply(_reader(asked).sentences(page.book, first=page.first, count=page.count))


def _image(asked: CallContext) -> Reply:
    return image_reply(_reader(asked).image(asked.path["image_ref"]))


_READER = "/v1/worlds/{world}/readers/{reader}"
_QUESTION = {"query": "Who wound the great clock?"}

CALLS = (
    Call(
        "GET",
        _READER + "/books",
        "listBooks",
        "The books in which a reader has a position",
        _books,
        shapes.ReaderBooks,
        errors=_FOLLOWING,
        description="Gives each book that the reader has begun, and how far. It tells nothing of "
        "what lies ahead.",
    ),
    Call(
        "GET",
        _READER + "/position",
        "readPosition",
        "How far a reader is",
        _where,
        ReadingPosition,
        asks=shapes.BookQuery,
        errors=_FOLLOWING,
        description="Gives how far the reader is in a book, the current one unless another is "
        "named.",
    ),
    Call(
        "PUT",
        _READER + "/position",
        "setPosition",
        "Record how far a reader is; for the owner",
        _set,
        shapes.QueueStatus,
        takes=shapes.NewPosition,
        errors=(*_FOLLOWING, DocumentNotFound, PassageNotFound, PassageAmbiguous),
        writes=True,
        example={"book": "clockmaker.md", "sid": 41},
        description="Puts a reader to the end of a sentence, of a chapter, or of a passage; "
        "exactly one of them is given. The reply has no word of the book. A token "
        "that is bound to readers cannot do this.",
    ),
    Call(
        "POST",
        _READER + "/retrieve",
        "retrieveAsReader",
        "Context from what has been read of a book",
        _retrieve,
        ContextBundle,
        takes=ReadingArguments,
        errors=(*ASKING, DocumentNotFound),
        example=_QUESTION,
        description="Gives a bundle made of what the reader has read of a book, in reading order. "
        "What lies ahead changes no byte of it.",
    ),
    Call(
        "POST",
        _READER + "/answer",
        "answerAsReader",
        "An answer from what has been read of a book",
        _answer,
        Answer,
        takes=shapes.ReadingQuestion,
        errors=(*ASKING, DocumentNotFound),
        streams=True,
        example=_QUESTION,
        description="Answers from what the reader has read of a book, or says that it does not "
        "answer that; events come as for answer.",
    ),
    Call(
        "POST",
        _READER + "/why-not",
        "whyNotAsReader",
        "Say why a chunk is not among what a reader's query brings",
        _why_not,
        Reason,
        takes=shapes.ReadingMissing,
        errors=(*ASKING, DocumentNotFound),
        example=_QUESTION | {"chunk_id": "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"},
        description="Says why a chunk is not among what the reader's request brings. A chunk that "
        "was not read yet is answered for as one that does not exist.",
    ),
    Call(
        "GET",
        _READER + "/sentences",
        "readSentencesAsReader",
        "The verified text of what has been read",
        _sentences,
        SentencePage,
        asks=shapes.BookPageQuery,
        errors=(*_FOLLOWING, DocumentNotFound),
        description="Gives sentences up to the reader's position and never one beyond it; more "
        "says whether others follow that were read.",
    ),
    Call(
        "GET",
        _READER + "/images/{image_ref:path}",
        "showImageAsReader",
        "The image of a figure that has been reached",
        _image,
        bytes,
        errors=(WorldNotFound, NotAllowed, ImageNotFound),
        media_type="image/*",
        description="Gives the image of a figure that the reader has reached. Any other is "
        "answered for as one that does not exist.",
    ),
)
