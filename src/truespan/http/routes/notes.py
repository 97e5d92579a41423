"""Notes of a reader: list, write, export and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import asdict

from truespan import errors
from truespan.http import requests, schemas
from truespan.http.operation import CallContext, Reply, Routes
from truespan.http.routes.conversations import MARKDOWN
from truespan.wire.serialize import members, record_data

if TYPE_CHECKING:
    from truespan.engine.reader import Reader

_ALL = "/v1/worlds/{world}/readers/{reader}/notes"

# Shared by threads: filled while modules are imported, then only read.
notes = Routes(
    "Notes",
    "Notes of a reader. Each is visible from the position on at which it was written.",
    errors.NotAllowed,
)


def _reader(context: CallContext) -> Reader:
    return context.world().reader(context.path["reader"])


@notes.get(_ALL)
def list_notes(context: CallContext, query: requests.NotesQuery) -> schemas.NoteList:
    """List the notes of a reader up to the position.

    Returns them by book and in the order of the text, of one book or with some words if the request
    names them.
    """
    found = _reader(context).notes(**asdict(query))
    return schemas.NoteList(notes=[schemas.NoteEntry(**record_data(note)) for note in found])


@notes.post(
    _ALL,
    status=201,
    writes=True,
    errors=(errors.PositionNotFound, errors.DocumentNotFound),
    example={"text": "Why does he ask for the key?", "first": 12, "last": 12},
)
def add_note(context: CallContext, body: requests.NewNote) -> Reply[schemas.WrittenNote]:
    """Write a note at the reader's position.

    The sentences that it marks must have been read. A token bound to the reader can do this.
    """
    note = _reader(context).add_note(**asdict(body))
    written = members(note, *schemas.WrittenNote.__struct_fields__)
    # A name may contain characters that headers cannot.
    path = {name: quote(value, safe="") for name, value in context.path.items()}
    location = f"{_ALL.format(**path)}/{note.id}"
    return Reply(schemas.WrittenNote(**written), 201, (("location", location),))


@notes.delete(_ALL)
def delete_notes(context: CallContext) -> schemas.DeletedNotes:
    """Delete all notes of a reader.

    Also deletes those that were written past the position.
    """
    return schemas.DeletedNotes(deleted=_reader(context).delete_notes())


@notes.get(_ALL + "/export", media_type=MARKDOWN)
def export_notes(context: CallContext, query: requests.BookQuery) -> Reply[bytes]:
    """Export the notes of a reader up to the position as Markdown.

    Returns a file with the marked text and the notes.
    """
    text = _reader(context).notes_to_markdown(book=query.book)
    headers = (("content-disposition", 'attachment; filename="notes.md"'),)
    return Reply(text.encode(), 200, headers, MARKDOWN)


@notes.delete(_ALL + "/{note}")
def delete_note(context: CallContext) -> schemas.DeletedNotes:
    """Delete a note of a reader.

    A note that was written past the position is reported as one that does not exist.
    """
    _reader(context).delete_note(context.path["note"])
    return schemas.DeletedNotes(deleted=1)
