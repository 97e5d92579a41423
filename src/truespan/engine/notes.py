"""Notes of a reader about books: written at a position, and visible from it on."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from truespan.errors import InvalidArgument, NotFound
from truespan.retrieval.reading.book import find_position
from truespan.retrieval.reading.pages import read_pages
from truespan.retrieval.reading.words import language_read
from truespan.store.tables.conversations import new_id
from truespan.types.note import (
    MAX_MARKED_SENTENCES,
    MAX_NOTE_LENGTH,
    MAX_NOTE_LIMIT,
    MAX_NOTES_FOUND,
    MAX_QUOTE_LENGTH,
    NOTE_LIMIT,
    FoundNote,
    Note,
    NoteContent,
    StoredNote,
)
from truespan.types.reading import LAST_FIRST, NOTHING_READ, PageRequest, Position
from truespan.types.request import check_whole
from truespan.types.scope import Scope
from truespan.types.text import escape_label
from truespan.words.searched import SearchedWords

if TYPE_CHECKING:
    from truespan.engine.access import WorldAccess

Positions = Callable[[], tuple[Scope | None, list[Position]]]
"""Returns the scope and the recorded positions of the reader, after checking the permission."""


class ReaderNotes:
    """Notes of one reader. Those written past the present position do not exist for it."""

    def __init__(
        self, access: WorldAccess, reader: str, positions: Positions, *, is_tried: bool
    ) -> None:
        self._access = access
        self._reader = reader
        self._positions = positions
        self._is_tried = is_tried

    def __repr__(self) -> str:
        return f"<ReaderNotes of world {self._access.shown_name()!r}>"

    def add(
        self,
        text: str,
        *,
        book: str | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> Note:
        """Write a note at the present position in a book, with or without sentences that it marks.

        The note is hidden before this position, even from this reader after going back. When the
        book changes, it moves like a position.

        Args:
            text: The note, at most 5,000 characters.
            book: The document; None for the current book.
            first: Number of the first marked sentence; None for none.
            last: Number of the last marked sentence; None for the first alone.

        Raises:
            InvalidArgument: The text or a number is out of range, a marked sentence was not read,
                the reader has too many notes, or the position is only tried.
        """
        if self._is_tried:
            raise InvalidArgument("A position that is only tried has no notes.")
        if not isinstance(text, str) or not 0 < len(text.strip()) <= len(text) <= MAX_NOTE_LENGTH:
            raise InvalidArgument(f"A note has 1 to {MAX_NOTE_LENGTH} characters.")

        def write() -> Note:
            scope, positions = self._positions()
            position = find_position(positions, book)
            if scope is None or position is None:
                raise NotFound("position")
            marked = _marked(position, first, last)
            quote = self._quote(scope, position, marked) if marked else ""
            note = StoredNote(
                id=new_id(),
                sid=position.sid,
                first=marked.start if marked else NOTHING_READ,
                last=marked.stop - 1 if marked else NOTHING_READ,
                written_at=self._access.components.clock.now(),
                content=NoteContent(text.strip(), quote),
            )
            self._access.components.store.notes.add(scope, self._reader, position.ref, note)
            return _to_note(position, note)

        return self._access.with_stable_snapshot(write)

    def list(
        self,
        *,
        book: str | None = None,
        search: str | None = None,
        offset: int = 0,
        limit: int = NOTE_LIMIT,
    ) -> builtins.list[Note]:
        """Return the notes that were written at or before the present position, in text order.

        Args:
            book: The document; None for every book.
            search: Words that must all occur in a note or in the text it marks; None for any note.
            offset: Number of notes to skip.
            limit: Maximum number of notes, 1 to 1000.
        """
        check_whole("offset", offset, 0, LAST_FIRST)
        check_whole("limit", limit, 1, MAX_NOTE_LIMIT)
        words = search.casefold().split() if search else []
        found = [
            note
            for note in self._access.with_stable_snapshot(lambda: self._read(book))
            if all(word in f"{note.text}\n{note.quote}".casefold() for word in words)
        ]
        return found[offset : offset + limit]

    def find_by_query(
        self, query: str, book: str | None, *, room: int, count: Callable[[str], int]
    ) -> tuple[tuple[FoundNote, ...], int]:
        """Return visible notes with words of a query, the best first, and their tokens.

        Words are weighted by how few of the visible notes have them. The notes take at most `room`
        tokens as `count` counts them.
        """

        def read() -> tuple[builtins.list[Note], str]:
            scope, positions = self._positions()
            position = find_position(positions, book)
            if scope is None or position is None or position.sid < 0:
                return [], ""
            store = self._access.components.store
            stored = store.notes.read(scope, self._reader, position.ref, position.sid)
            notes = [_to_note(position, note) for note in stored]
            return notes, language_read(store, scope, position) if notes else ""

        notes, language = self._access.with_stable_snapshot(read)
        texts = [f"{note.text}\n{note.quote}" for note in notes]
        scores = SearchedWords(query).score([(text, language) for text in texts])
        ranked = sorted(range(len(notes)), key=lambda at: (-scores[at], at))
        chosen: builtins.list[FoundNote] = []
        tokens = 0
        for at in (at for at in ranked if scores[at] > 0):
            size = count(texts[at])
            if len(chosen) < MAX_NOTES_FOUND and tokens + size <= room:
                chosen.append(notes[at].found())
                tokens += size
        return tuple(chosen), tokens

    def delete(self, id: str) -> None:
        """Delete a note.

        Args:
            id: Id of the note.
        """
        if not any(found.id == id for found in self._read(None)):
            raise NotFound("note", id)
        self._delete(id)

    def delete_all(self) -> int:
        """Delete every note of this reader, also those past the position; return their number."""
        self._positions()
        return self._delete(None)

    def to_markdown(self, *, book: str | None = None) -> str:
        """Return the notes that were written at or before the present position, as Markdown.

        Args:
            book: The document; None for every book.
        """
        parts: builtins.list[str] = []
        title = None
        for note in self._access.with_stable_snapshot(lambda: self._read(book)):
            if note.title != title:
                title = note.title
                parts.append(f"# Notes on {escape_label(title)}")
            if note.quote:
                parts.append("\n".join(f"> {line}" for line in note.quote.split("\n")))
            place = f"sentence {note.last}" if note.last is not None else f"up to {note.sid}"
            text = "(damaged)" if note.damaged else note.text
            parts.append(f"{text}\n\n*{place}*")
        return "\n\n".join(parts) + "\n" if parts else ""

    def _read(self, book: str | None) -> builtins.list[Note]:
        scope, positions = self._positions()
        if book is not None:
            position = find_position(positions, book)
            positions = [position] if position else []
        store = self._access.components.store
        return [
            _to_note(position, note)
            for position in positions
            if scope is not None
            for note in store.notes.read(scope, self._reader, position.ref, position.sid)
        ]

    def _delete(self, note: str | None) -> int:
        scope = self._access.scope()
        if scope is None:
            return 0
        return self._access.components.store.notes.delete(scope, self._reader, note)

    def _quote(self, scope: Scope, position: Position, marked: range) -> str:
        pages = read_pages(self._access.components.store, scope, position)
        page = pages.page(PageRequest(marked.start, len(marked)))
        parts: Sequence[str] = [
            ("\n" if sentence.starts_line else " ") + sentence.text for sentence in page.sentences
        ]
        return "".join(parts).strip()[:MAX_QUOTE_LENGTH]


def _marked(position: Position, first: int | None, last: int | None) -> range | None:
    """Return the marked sentences; None for none. Unread ones are refused as if absent."""
    if first is None and last is None:
        return None
    start, end = first if first is not None else last, last if last is not None else first
    for name, value in (("first", start), ("last", end)):
        check_whole(name, value, 0, LAST_FIRST)
    assert start is not None
    assert end is not None
    if not start <= end <= position.sid or end - start >= MAX_MARKED_SENTENCES:
        raise InvalidArgument(
            f"A note marks 1 to {MAX_MARKED_SENTENCES} sentences in a row that were read."
        )
    return range(start, end + 1)


def _to_note(position: Position, note: StoredNote) -> Note:
    content = note.content
    has_place = note.last != NOTHING_READ and content is not None
    return Note(
        id=note.id,
        document=position.document,
        doc_id=position.doc_id,
        title=position.title,
        sid=note.sid,
        first=note.first if has_place else None,
        last=note.last if has_place else None,
        quote=content.quote if content else "",
        text=content.text if content else "",
        written_at=note.written_at,
        damaged=content is None,
    )
