"""Notes of readers: storing, reading up to a position, moving to new revisions and deleting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from truespan.core.decoding import prepare
from truespan.errors import InvalidArgument, NotFound
from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.store.integrity.checksums import checksum
from truespan.store.integrity.erasure import queue_files
from truespan.types.document import RevisionRef
from truespan.types.ids import WorldId
from truespan.types.note import MAX_NOTES, NoteContent, StoredNote
from truespan.types.scope import Scope, Unlimited

_NOTE: Final = """n.id, n.reader, n.document, n.revision, n.sid, n.first_sid, n.last_sid,
    n.written_at, n.content_hash"""
"""Cells that the checksum of a note covers."""
_COLUMNS: Final = tuple(re.findall(r"n\.(\w+)", _NOTE))
_REVISION, _SID, _FIRST, _LAST = 3, 4, 5, 6
_SEEN: Final = "AND (:every OR document IN LIST(:documents))"
"""Condition for notes about documents of the scope; `_seen` has its values."""
NO_SENTENCE: Final = -1
_PAGE: Final = 256
"""Notes that are examined at a time."""


class Notes(Part):
    """Notes. Every statement that shows or changes one names the world and the reader."""

    @retry_on_conflict
    def add(self, scope: Scope, reader: str, revision: RevisionRef, note: StoredNote) -> None:
        """Store a note about an active revision."""
        assert note.content is not None
        content = msgspec.json.encode(note.content)
        cells: tuple[Any, ...] = (
            *(note.id, reader, revision.document, revision.revision, note.sid, note.first),
            *(note.last, note.written_at, sha256(content).digest()),
        )
        with self._db.write(scope, reader=reader) as session:
            active = session.value(
                """SELECT r.number FROM documents d
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   WHERE d.world_id = :world AND d.number = :document AND d.deleted_at IS NULL""",
                document=revision.document,
            )
            if active != revision.revision:
                raise NotFound("document", str(revision.document))
            count = session.value(
                f"SELECT count(*) FROM notes WHERE world_id = :world AND reader = :reader {_SEEN}",
                **_seen(scope),
            )
            if count >= MAX_NOTES:
                raise InvalidArgument(
                    f"A reader can have at most {MAX_NOTES} notes.", advice="Delete some first."
                )
            session.insert(
                "notes",
                **dict(zip(_COLUMNS, cells, strict=True)),
                content=session.text(content.decode()),
                checksum=note_checksum(scope.world, cells),
            )

    def read(
        self, scope: Scope, reader: str, revision: RevisionRef, position: int
    ) -> list[StoredNote]:
        """Return the notes of a reader that were written at or before a position, in text order."""
        rows = self._db.at(scope, reader=reader).all(
            f"""SELECT BYTES(n.content), n.checksum, {_NOTE} FROM notes n
                WHERE n.world_id = :world AND n.reader = :reader AND n.document = :document
                  AND n.revision = :revision AND n.sid <= :position
                ORDER BY CASE WHEN n.last_sid < 0 THEN n.sid ELSE n.first_sid END, n.key""",
            document=revision.document,
            revision=revision.revision,
            position=position,
        )
        return [_read_note(scope.world, row) for row in rows]

    def damaged(self, world: WorldId) -> Iterator[str]:
        """Yield the ids of the notes of all readers that do not match their checksums."""
        after = -1
        while rows := self._db.at(world).all(
            f"""SELECT n.key, BYTES(n.content), n.checksum, {_NOTE} FROM notes n
                WHERE n.world_id = :world AND n.key > :after ORDER BY n.key LIMIT :limit""",
            after=after,
            limit=_PAGE,
        ):
            after = rows[-1][0]
            for _, *cells in rows:
                if (note := _read_note(world, tuple(cells))).content is None:
                    yield note.id

    @retry_on_conflict
    def delete(self, scope: Scope, reader: str, note: str | None = None) -> int:
        """Delete a note of a reader, or all of them; return the number of deleted ones.

        Notes about documents outside the audience of the caller stay.
        """
        with self._db.write(scope, shared=True, reader=reader, id=note) as session:
            removed = session.execute(
                f"""DELETE FROM notes WHERE world_id = :world AND reader = :reader
                     AND (CAST(:id AS TEXT) IS NULL OR id = :id) {_SEEN}""",
                **_seen(scope),
            )
            if removed:
                queue_files(session, [], self._clock.now(), urgent=False)
        return removed


def _seen(scope: Scope) -> dict[str, Any]:
    documents = scope.documents
    every = isinstance(documents, Unlimited)
    return {"every": every, "documents": [] if every else sorted(documents)}


def note_checksum(world: WorldId, cells: Sequence[object]) -> bytes:
    """Return the checksum of a note; the cells are those of `_NOTE`."""
    return checksum("notes", world, *cells)


def delete_notes_of(session: Session, document: int) -> dict[str, int]:
    """Delete the notes about a document; return the number of deleted rows by table."""
    removed = session.execute(
        "DELETE FROM notes WHERE world_id = :world AND document = :document", document=document
    )
    return {"notes": removed} if removed else {}


def note_places(session: Session, key: int) -> list[tuple[int, int]]:
    """Return the previous revisions of a document with the positions and sentences of its notes.

    `key` is that of its revision that becomes active.
    """
    rows = session.all(
        """SELECT old.key, n.sid, n.last_sid FROM revisions new
           JOIN documents d ON d.key = new.document AND d.world_id = :world
           JOIN notes n ON n.world_id = :world AND n.document = d.number
           JOIN revisions old ON old.document = new.document AND old.number = n.revision
           WHERE new.key = :key AND old.key <> new.key ORDER BY 1, 2, 3""",
        key=key,
    )
    places = [(old, sid) for old, *sids in rows for sid in sids if sid != NO_SENTENCE]
    return list(dict.fromkeys(places))


def move_notes(
    session: Session, world: WorldId, key: int, moves: Mapping[tuple[int, int], int | None]
) -> None:
    """Move the notes about a document to the revision that becomes active.

    A note whose position cannot be moved keeps its revision, so that it is hidden. A note without
    its sentences in the new text marks none.
    """
    rows = session.all(
        f"""SELECT n.key, old.key, new.number, n.checksum, {_NOTE} FROM revisions new
            JOIN documents d ON d.key = new.document AND d.world_id = :world
            JOIN notes n ON n.world_id = :world AND n.document = d.number
            JOIN revisions old ON old.document = new.document AND old.number = n.revision
            WHERE new.key = :key AND old.key <> new.key""",
        key=key,
    )
    for note, old, number, recorded, *cells in rows:
        moved = moves.get((old, cells[_SID]))
        # A damaged note stays damaged.
        if moved is None or recorded != note_checksum(world, cells):
            continue
        first, last = _move_sentences(session, key, old, cells[_FIRST], cells[_LAST], moves)
        if last > moved:
            first = last = NO_SENTENCE
        cells[_REVISION], cells[_SID], cells[_FIRST], cells[_LAST] = number, moved, first, last
        session.execute(
            """UPDATE notes SET revision = :revision, sid = :sid, first_sid = :first,
                 last_sid = :last, checksum = :checksum
               WHERE world_id = :world AND key = :note""",
            revision=number,
            sid=moved,
            first=first,
            last=last,
            checksum=note_checksum(world, cells),
            note=note,
        )


def _move_sentences(
    session: Session,
    new: int,
    old: int,
    first: int,
    last: int,
    moves: Mapping[tuple[int, int], int | None],
) -> tuple[int, int]:
    """Return the marked sentences in the new revision; `NO_SENTENCE` twice if it lacks them."""
    moved = moves.get((old, last))
    if last == NO_SENTENCE or moved is None:
        return NO_SENTENCE, NO_SENTENCE
    same = session.value(
        """SELECT count(*) FROM sentences o JOIN sentences n ON n.revision = :new
             AND n.sid = o.sid + :shift AND n.text_hash = o.text_hash
           WHERE o.revision = :old AND o.sid BETWEEN :first AND :last""",
        new=new,
        old=old,
        shift=moved - last,
        first=first,
        last=last,
    )
    if same != last - first + 1:
        return NO_SENTENCE, NO_SENTENCE
    return first + moved - last, moved


def _read_note(world: WorldId, row: Row) -> StoredNote:
    content, recorded, *cells = row
    note, _, _, _, sid, first, last, written_at, content_hash = cells
    intact = recorded == note_checksum(world, cells) and sha256(content).digest() == content_hash
    found = msgspec.json.decode(content, type=prepare(NoteContent)) if intact else None
    return StoredNote(
        id=note, sid=sid, first=first, last=last, written_at=written_at, content=found
    )
