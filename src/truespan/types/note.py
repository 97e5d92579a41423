"""Notes of readers: a text with the sentences it marks, and the position it was written at."""

from __future__ import annotations

from msgspec import Struct

MAX_NOTE_LENGTH = 5_000
MAX_MARKED_SENTENCES = 50
MAX_QUOTE_LENGTH = 2_000
MAX_NOTES = 10_000
"""Maximum number of notes of a reader in a world."""
NOTE_LIMIT = 100
MAX_NOTE_LIMIT = 1_000
MAX_NOTES_FOUND = 5
"""Maximum number of notes beside the passages of a query."""


class NoteContent(Struct, frozen=True):
    """Content of a note, as it is stored: its text, and the marked text when it was written."""

    text: str
    quote: str


class StoredNote(Struct, frozen=True):
    """A note from the store. `content` is None if the note does not match its checksum."""

    id: str
    sid: int
    first: int
    last: int
    written_at: float
    content: NoteContent | None


class FoundNote(Struct, frozen=True, kw_only=True):
    """A note of a reader about a book, as queries find it.

    `first` and `last` are the marked sentences, None if the present text does not have them.
    `quote` is their text when the note was written. A note is visible from the position `sid` on.
    """

    id: str
    document: int
    doc_id: str
    title: str
    sid: int
    first: int | None
    last: int | None
    quote: str
    text: str
    damaged: bool = False
    """Whether the note does not match its checksum; then it has no text."""


class Note(FoundNote, frozen=True, kw_only=True):
    """A note of a reader about a book, with its time."""

    written_at: float

    def found(self) -> FoundNote:
        """Return the note without its time."""
        return FoundNote(**{name: getattr(self, name) for name in FoundNote.__struct_fields__})
