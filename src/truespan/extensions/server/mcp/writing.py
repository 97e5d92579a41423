"""The tools that write, which an operator must allow: set a reader's position, add a note.

A model chooses what is set or added, and a text may have misled it. So errors for a reader say
nothing about unread text, and a note replaces another only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from truespan import errors
from truespan.extensions.server.arguments import Arguments, Book, describe_number, describe_text
from truespan.extensions.server.mcp.caller import READ_ONLY, CallerContext, Tool
from truespan.extensions.server.mcp.passages import MAX_SENTENCE_LENGTH, one_line
from truespan.types.arguments import POSITION_ARGUMENTS
from truespan.types.note import MAX_NOTE_LENGTH as MAX_READER_NOTE_LENGTH
from truespan.types.note import Note
from truespan.types.reading import NOTHING_READ, ReadingPosition

if TYPE_CHECKING:
    from truespan.engine.world import World

MAX_NOTE_LENGTH = 500_000
MAX_NOTE_TITLE_LENGTH = 200
MAX_NOTE_NAME_LENGTH = 200
"""Maximum size of a file name in bytes; longer names are cut and get a digest."""
NOTE_ENDING = ".note.md"
"""Prefix of the file names of notes, so that no note has the name of another upload."""


class OtherBook(Struct, frozen=True):
    """A book in which the reader has no position. It is named as its owner declared it."""

    doc_id: str
    title: str
    source: str


class PositionChange(Struct, frozen=True):
    """A new position, and the last sentence read before.

    `before` is null if there was no position. It is only a number: after going back, its text is
    unread again.
    """

    position: ReadingPosition
    before: int | None


class AddedDocument(Struct, frozen=True):
    """A note that was added or replaced, and can be searched now."""

    doc_id: str
    title: str
    source: str


class ReaderNoteArguments(Arguments, frozen=True, kw_only=True):
    """A note of the reader about a book."""

    text: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_READER_NOTE_LENGTH, description="The text of the note."),
    ]
    book: Book | None = None
    first: (
        Annotated[int, Meta(ge=0, description="The number of the first marked sentence.")] | None
    ) = None
    last: (
        Annotated[int, Meta(ge=0, description="The number of the last marked sentence.")] | None
    ) = None


class SetPositionArguments(Arguments, frozen=True, kw_only=True):
    """A position in a book: exactly one of chapter, sentence and passage."""

    book: Book | None = None
    through_chapter: Annotated[str, describe_text(POSITION_ARGUMENTS["through_chapter"])] | None = (
        None
    )
    sentence: Annotated[int, describe_number(POSITION_ARGUMENTS["sentence"])] | None = None
    passage: Annotated[str, describe_text(POSITION_ARGUMENTS["passage"])] | None = None


class NoteArguments(Arguments, frozen=True, kw_only=True):
    """A note to add."""

    title: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_NOTE_TITLE_LENGTH, description="The title of the note."),
    ]
    text: Annotated[
        str, Meta(min_length=1, max_length=MAX_NOTE_LENGTH, description="The text, as Markdown.")
    ]
    tags: Annotated[tuple[str, ...], Meta(description="Tags to find the note by.")] = ()
    audience: Annotated[
        tuple[str, ...],
        Meta(description="Labels of those who see the note; by default those of the world."),
    ] = ()
    replace: Annotated[
        bool, Meta(description="Whether to replace an earlier note with the same title.")
    ] = False


def other_books(
    caller: CallerContext, positions: Sequence[ReadingPosition]
) -> tuple[OtherBook, ...]:
    """Return the documents in which a reader who may move has no position."""
    started = {position.document for position in positions}
    documents = _writer(caller).documents.list()
    return tuple(
        OtherBook(document.doc_id, document.declared_title or document.name, document.name)
        for document in documents
        if document.active is not None and document.number not in started
    )


def _set_position(caller: CallerContext, arguments: SetPositionArguments) -> PositionChange:
    reader, writer = caller.world.reader(caller.reader or ""), _writer(caller)
    before: ReadingPosition | None = None
    try:
        before = reader.position(arguments.book)
    except errors.NotFound as missing:
        missing.raise_unless("no_reading_position")
    if before is None and arguments.book is None:
        raise errors.InvalidArgument(
            "There is no current book.", advice="Name the book; list_books lists them."
        )
    book = before.doc_id if before is not None else _find_book(caller, arguments.book or "")
    given = arguments.through_chapter, arguments.sentence, arguments.passage
    if given.count(None) != 2:
        raise errors.InvalidArgument("Give exactly one of through_chapter, sentence and passage.")
    try:
        position = writer.reader(reader.name).set_position(
            book,
            sentence=arguments.sentence,
            through_chapter=arguments.through_chapter,
            passage=arguments.passage,
        )
    except errors.CallerError as error:
        # The library names chapters and counts sentences, also those that lie ahead.
        raise _refuse_position(arguments, before) from error
    return PositionChange(position, None if before is None else before.sid)


def _find_book(caller: CallerContext, name: str) -> str:
    """Return the doc id of a book by doc id, number, file name or title."""
    documents = [one for one in _writer(caller).documents.list() if one.active is not None]
    spellings: Sequence[Callable[..., bool]] = (
        lambda one: name in (one.doc_id, str(one.number)),
        lambda one: one.name == name,
        lambda one: (one.declared_title or one.name).casefold() == name.casefold(),
    )
    for matches in spellings:
        found = [one for one in documents if matches(one)]
        if len(found) == 1:
            return found[0].doc_id
    missing = errors.NotFound("document", name)
    missing.advice = "Call list_books, and give a doc_id."
    raise missing


def _refuse_position(
    arguments: SetPositionArguments, before: ReadingPosition | None
) -> errors.CallerError:
    if arguments.through_chapter is not None:
        reached = before.chapters_reached if before is not None else ()
        named = "; ".join(one_line(chapter) for chapter in reached)
        return errors.InvalidArgument(
            "The book has no such chapter, or more than one.",
            advice="Give the whole name as it is printed in the book, with its part if it has one, "
            "or its number." + (f" Chapters reached so far: {named}." if named else ""),
        )
    if arguments.passage is not None:
        return errors.InvalidArgument(
            "The book does not contain this passage exactly once.",
            advice="Give a few more words, exactly as they are printed.",
        )
    return errors.InvalidArgument("The book has no such sentence.")


def _render_change(_: CallerContext, change: PositionChange) -> list[str]:
    position, before = change.position, change.before
    line = f"{one_line(position.title)}: read up to sentence {position.sid}"
    if position.sid == NOTHING_READ:
        line = f"{one_line(position.title)}: nothing read yet"
    elif position.chapter:
        line += f", in {one_line(position.chapter)}"
    lines = [f"{line}. Recorded, and the current book now."]
    if position.last_sentence is not None:
        lines.append(f"Last sentence read: {one_line(position.last_sentence, MAX_SENTENCE_LENGTH)}")
    if before is None:
        lines.append("Before, there was no position in this book.")
    else:
        was = "nothing was read" if before == NOTHING_READ else f"it was sentence {before}"
        undo = f"set_position with book {position.doc_id!r} and sentence {before}"
        lines.append(f"Before, {was}. To undo, call {undo}.")
    return ["\n".join(lines)]


def _add_note(caller: CallerContext, arguments: NoteArguments) -> AddedDocument:
    world, name = _writer(caller), _note_name(arguments.title)
    path = f"upload:{name}"
    if not arguments.replace and any(known.path == path for known in world.documents.list()):
        raise errors.InvalidArgument(
            "There is a note with this title.",
            advice="Choose another title, or set replace to true.",
        )
    report = world.add_text(
        arguments.text,
        id=name,
        kind="document",
        title=arguments.title,
        tags=arguments.tags or None,
        audience=arguments.audience or None,
    )
    for failure in report.failures:
        raise errors.error_of(failure.code, failure.message)
    document = next(known for known in world.documents.list() if known.path == path)
    return AddedDocument(document.doc_id, document.title, document.name)


def _note_name(title: str) -> str:
    """Return the file name of a note, by which it is known; equal titles have equal names."""
    name = " ".join(title.replace("/", "-").replace("\\", "-").split())
    encoded = name.encode()
    if len(encoded) > MAX_NOTE_NAME_LENGTH:
        cut = encoded[: MAX_NOTE_NAME_LENGTH - 9].decode(errors="ignore").rstrip()
        name = f"{cut}-{sha256(encoded).hexdigest()[:8]}"
    return f"{name}{NOTE_ENDING}"


def _render_added(_: CallerContext, document: AddedDocument) -> list[str]:
    name = f"{one_line(document.title)} ({one_line(document.source)})"
    return [f"Added: {name}, doc_id {document.doc_id}. It can be searched now."]


def _writer(caller: CallerContext) -> World:
    if caller.writer is None:
        raise errors.NotAllowed("write")
    return caller.writer


SET_POSITION = Tool(
    name="set_position",
    title="Set the reading position",
    description=(
        "Record how far the reader has read of the current book, or of a named one: through a "
        "chapter, up to a sentence, or up to a passage. Both directions are possible. The result "
        "says what the position was before, so that it can be undone. Use it only when the reader "
        "says so: setting it too far reveals what they have not read."
    ),
    arguments=SetPositionArguments,
    result=PositionChange,
    run=_set_position,
    render=_render_change,
    hints=READ_ONLY | {"readOnlyHint": False},
    writes=True,
)
ADD_NOTE = Tool(
    name="add_note",
    title="Add a note",
    description=(
        "Add a text with a title to the world as a document, which can be searched at once. "
        "A note with the same title is replaced only if `replace` is true."
    ),
    arguments=NoteArguments,
    result=AddedDocument,
    run=_add_note,
    render=_render_added,
    hints=READ_ONLY | {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
    writes=True,
)
ADD_READER_NOTE = Tool(
    name="add_note",
    title="Add a note",
    description=(
        "Write a note of the reader about the current book, or about a named one, at the reader's "
        "position. It may mark sentences that were read, from `first` to `last`. It is seen again "
        "only by a reader who has read as far. Use it only when the reader asks for it."
    ),
    arguments=ReaderNoteArguments,
    result=Note,
    run=lambda reader, arguments: reader.notes.add(**asdict(arguments)),
    render=lambda _, note: [f"Written at sentence {note.sid} of {one_line(note.title)}."],
    hints=READ_ONLY | {"readOnlyHint": False, "idempotentHint": False},
)
OPTIONS = {
    SET_POSITION.name: "--may move",
    ADD_NOTE.name: "--may ingest, or for a reader with --may note",
}
"""The option of `truespan mcp` that offers each of these tools."""
