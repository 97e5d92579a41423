"""Conversations of a world and of a reader, and notes of a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec.structs import asdict

from truespan import errors
from truespan.extensions.server.arguments import arguments_of
from truespan.extensions.server.http import requests, schemas
from truespan.extensions.server.http.operation import AsReader, CallContext, Events, Reply, Routes
from truespan.extensions.server.http.routes.questions import (
    QUERY_ERRORS,
    QUESTION,
    ask_in_conversation,
)
from truespan.types.answer import Answer
from truespan.wire.serialize import members, record_data

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.reader import Reader
    from truespan.engine.world import World

MARKDOWN = "text/markdown"
_ALL = "/v1/worlds/{world}/conversations"
_ONE = _ALL + "/{conversation}"
_ASK: dict[str, Any] = {
    "errors": (*QUERY_ERRORS, "document_not_found"),
    "example": QUESTION,
    "domains": True,
    "signs": True,
}
_READER_ERRORS = (*_ASK["errors"], "no_reading_position")

# Shared by threads: filled while modules are imported, then only read.
conversations = Routes(
    "Conversations",
    "Questions that follow up on earlier ones. A token sees only conversations that it began.",
    "not_allowed",
    "conversations_off",
)


def markdown_reply(text: str) -> Reply[Any]:
    return Reply(text.encode(), media_type=f"{MARKDOWN}; charset=utf-8")


def _owner(context: CallContext) -> World | Reader:
    """Return the reader in the path, otherwise the world."""
    world, reader = context.world(), context.path.get("reader")
    return world if reader is None else world.reader(reader)


def _conversation(context: CallContext) -> Conversation:
    return _owner(context).conversation(context.path["conversation"])


@conversations.get(
    _ALL,
    as_reader=AsReader(
        """List the conversations of a reader.

        Returns the caller's conversations as this reader, the latest first; about one book if the
        request names it. Turns that were asked past the reader's position do not count, and a
        conversation that has no others is not listed.
        """,
        query=requests.ReaderConversationsQuery,
    ),
)
def list_conversations(
    context: CallContext, query: requests.ConversationsQuery
) -> schemas.ConversationList:
    """List conversations.

    Returns the caller's conversations in a world, the latest first. Those of readers are listed
    under each reader.
    """
    found = _owner(context).conversations(**asdict(query))
    entries = [schemas.ConversationEntry(**record_data(info)) for info in found]
    return schemas.ConversationList(conversations=entries)


@conversations.post(
    _ALL,
    **_ASK,
    as_reader=AsReader(
        """Start a conversation about a book with its first question.

        Answers from the part of a book that the reader has read, or says that it cannot. The turn
        is stored with the reader's position.
        """,
        body=requests.ReaderQuestion,
        errors=_READER_ERRORS,
    ),
)
def start_conversation(context: CallContext, body: requests.Question) -> Reply[Answer] | Events:
    """Start a conversation with its first question.

    Answers as answer does, and stores question and answer as the first turn; `conversation.id` of
    the reply is the id for further questions. Nothing is stored if the answer fails or the client
    disconnects before its end. An Idempotency-Key is refused, because a stored reply would outlive
    the deletion of the documents it quotes.
    """
    question = arguments_of(body)
    book = {"book": question.pop("book")} if "book" in question else {}
    return ask_in_conversation(context, _owner(context).conversation(**book), question)


@conversations.delete(
    _ALL,
    as_reader=AsReader(
        """Delete all conversations of a reader.

        Removes every conversation of this reader that the caller began, and returns a receipt.
        """
    ),
)
def delete_conversations(
    context: CallContext, query: requests.EraseQuery
) -> schemas.DeletionReceipt:
    """Delete all conversations.

    Removes every conversation in a world that the caller began, also those of its readers; called
    by the owner, those of every caller. Returns a receipt as for a document.
    """
    receipt = _owner(context).delete_conversations(erase=query.erase)
    return schemas.DeletionReceipt(**receipt.to_json())


@conversations.get(
    _ONE,
    other_media_types=(MARKDOWN,),
    as_reader=AsReader(
        """Get a conversation of a reader with its turns.

        Returns the turns that were asked at or before the reader's position, as JSON or Markdown.
        """
    ),
)
def show_conversation(context: CallContext) -> Reply[schemas.ConversationDetail]:
    """Get a conversation with its turns.

    Returns each question as it was asked and as it was searched for, and its answer with citations
    and checks, the first turn first. With `Accept: text/markdown` it is a text to read.
    """
    found = _conversation(context)
    if context.accepts == MARKDOWN:
        return markdown_reply(found.to_markdown())
    return Reply(schemas.conversation_detail(found))


@conversations.post(
    _ONE + "/turns",
    **_ASK,
    as_reader=AsReader(
        """Ask the next question of a reader's conversation.

        Turns that were asked past the reader's position have no influence.
        """,
        body=requests.ReaderFollowUp,
        errors=_READER_ERRORS,
    ),
)
def continue_conversation(context: CallContext, body: requests.Question) -> Reply[Answer] | Events:
    """Ask the next question of a conversation.

    The question may refer to earlier ones; it is completed before it is searched for. What earlier
    turns said is never a source. Otherwise as for the first question.
    """
    return ask_in_conversation(context, _conversation(context), arguments_of(body))


@conversations.delete(
    _ONE,
    as_reader=AsReader(
        """Delete a conversation of a reader.

        Removes all its turns, also those past the position, and returns a receipt.
        """
    ),
)
def delete_conversation(
    context: CallContext, query: requests.EraseQuery
) -> schemas.DeletionReceipt:
    """Delete a conversation.

    Removes a conversation with all its turns, and returns a receipt as for a document.
    """
    return schemas.DeletionReceipt(**_conversation(context).delete(erase=query.erase).to_json())


_NOTES = "/v1/worlds/{world}/readers/{reader}/notes"

# Shared by threads: filled while modules are imported, then only read.
notes = Routes(
    "Notes",
    "Notes of a reader. Each is visible from the position on at which it was written.",
    "not_allowed",
)


def _reader(context: CallContext) -> Reader:
    return context.world().reader(context.path["reader"])


@notes.get(_NOTES, other_media_types=(MARKDOWN,))
def list_notes(context: CallContext, query: requests.NotesQuery) -> Reply[schemas.NoteList]:
    """List the notes of a reader up to the position.

    Returns them by book and in the order of the text, of one book or with some words if the request
    names them. With `Accept: text/markdown` it is a text with all notes and what they mark, of one
    book if the request names it.
    """
    if context.accepts == MARKDOWN:
        if query != requests.NotesQuery(book=query.book):
            raise errors.InvalidArgument("As Markdown, all notes are returned; only book applies.")
        return markdown_reply(_reader(context).notes.to_markdown(book=query.book))
    found = _reader(context).notes.list(**asdict(query))
    return Reply(schemas.NoteList(notes=[schemas.NoteEntry(**record_data(note)) for note in found]))


@notes.post(
    _NOTES,
    status=201,
    writes=True,
    errors=("no_reading_position", "document_not_found"),
    example={"text": "Why does he ask for the key?", "first": 12, "last": 12},
)
def add_note(context: CallContext, body: requests.NewNote) -> Reply[schemas.WrittenNote]:
    """Write a note at the reader's position.

    The sentences that it marks must have been read. A token bound to the reader can do this.
    """
    note = _reader(context).notes.add(**asdict(body))
    written = members(note, *schemas.WrittenNote.__struct_fields__)
    # A name may contain characters that headers cannot.
    path = {name: quote(value, safe="") for name, value in context.path.items()}
    location = f"{_NOTES.format(**path)}/{note.id}"
    return Reply(schemas.WrittenNote(**written), 201, (("location", location),))


@notes.delete(_NOTES)
def delete_notes(context: CallContext) -> schemas.DeletedNotes:
    """Delete all notes of a reader.

    Also deletes those that were written past the position.
    """
    return schemas.DeletedNotes(deleted=_reader(context).notes.delete_all())


@notes.delete(_NOTES + "/{note}")
def delete_note(context: CallContext) -> schemas.DeletedNotes:
    """Delete a note of a reader.

    A note that was written past the position is reported as one that does not exist.
    """
    _reader(context).notes.delete(context.path["note"])
    return schemas.DeletedNotes(deleted=1)
