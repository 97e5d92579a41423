"""Readers, their positions and their tails in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.errors import DocumentNotFound
from truespan.protocols import Clock
from truespan.types.chunk import Vector
from truespan.types.document import OutlineEntry, RevisionRef
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import STANDARD_CHUNKING, read_chunking
from truespan.types.reading import Anchor, Position, StoredSentence, TailChunk
from truespan.types.scope import Scope

_POSITIONS = """
    SELECT d.number, d.doc_id, r.name, coalesce(r.declared_title, r.stated_title),
      r.chunking, r.chunking_profile, p.revision, p.sid, e.current IS p.document
    FROM readers e
    JOIN positions p ON p.reader = e.key
    JOIN documents d ON d.key = p.document AND d.deleted_at IS NULL
    JOIN revisions r ON r.document = d.key AND r.state = 'active' AND r.number = p.revision
    WHERE e.name = ? AND e.world = (SELECT key FROM worlds WHERE id = ?)
"""

_REVISION = """
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.number = ? AND r.number = ? AND d.world = (SELECT key FROM worlds WHERE id = ?)
"""


class SqliteReaders:
    """The part of the store that knows who has read how far."""

    _connections: Connections
    _clock: Clock

    def set_position(
        self, scope: Scope, reader: str, revision: RevisionRef, sid: int, *, current: bool
    ) -> None:
        """Record the last sentence read of a revision that readers see."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            rows = fetch(
                connection,
                """SELECT d.key FROM documents d JOIN revisions r ON r.document = d.key
                   WHERE d.world = ? AND d.number = ? AND r.number = ? AND r.state = 'active'
                     AND d.deleted_at IS NULL""",
                (world, revision.document, revision.revision),
            )
            if not rows:
                raise DocumentNotFound(str(revision.document))
            connection.execute(
                "INSERT OR IGNORE INTO readers (world, name) VALUES (?, ?)", (world, reader)
            )
            key = fetch(
                connection, "SELECT key FROM readers WHERE world = ? AND name = ?", (world, reader)
            )[0][0]
            connection.execute(
                "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?)",
                (key, rows[0][0], revision.revision, sid, self._clock.now()),
            )
            if current:
                connection.execute(
                    "UPDATE readers SET current = ? WHERE key = ?", (rows[0][0], key)
                )

    def positions(self, scope: Scope, reader: str) -> list[Position]:
        """Return every position of a reader in documents that are in force, by number."""
        rows = self._connections.query(_POSITIONS + " ORDER BY d.number", (reader, scope.world))
        return [_position(scope, reader, row) for row in rows]

    def sentences(
        self, scope: Scope, revision: RevisionRef, first: int, last: int
    ) -> list[StoredSentence]:
        """Return the sentences from `first` to `last` of a revision."""
        rows = self._connections.query(
            f"""SELECT sid, start, finish, tokens, text_hash FROM sentences
               WHERE revision = ({_REVISION}) AND sid BETWEEN ? AND ? ORDER BY sid""",  # noqa: S608
            (*self._named(scope, revision), first, last),
        )
        return [StoredSentence(*row) for row in rows]

    def sentence_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int:
        """Return the last sentence that begins at or before `offset`; -1 before the first."""
        rows = self._connections.query(
            f"""SELECT coalesce(max(sid), -1) FROM sentences
               WHERE revision = ({_REVISION}) AND start <= ?""",  # noqa: S608
            (*self._named(scope, revision), offset),
        )
        return rows[0][0]

    def text_between(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> str:
        """Return a part of a revision's text. The caller checks it sentence by sentence."""
        rows = self._connections.query(
            f"SELECT substr(text, ?, ?) FROM texts WHERE revision = ({_REVISION})",  # noqa: S608
            (start + 1, end - start, *self._named(scope, revision)),
        )
        return rows[0][0] if rows else ""

    def places_until(self, scope: Scope, revision: RevisionRef, offset: int) -> list[OutlineEntry]:
        """Return the chapters and sections of a revision that begin before `offset`."""
        rows = self._connections.query(
            f"""SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                       WHERE s.revision = p.revision AND s.start >= p.start),
                 p.start, p.chapter, p.section
               FROM places p WHERE p.revision = ({_REVISION}) AND p.start < ?
               ORDER BY p.start""",  # noqa: S608
            (*self._named(scope, revision), offset),
        )
        return [OutlineEntry(*row) for row in rows]

    def page_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int | None:
        """Return the page that an offset of a revision lies on, if it has pages."""
        rows = self._connections.query(
            f"""SELECT page FROM pages WHERE revision = ({_REVISION}) AND start <= ?
               ORDER BY start DESC LIMIT 1""",  # noqa: S608
            (*self._named(scope, revision), offset),
        )
        return rows[0][0] if rows else None

    def anchor(
        self, scope: Scope, revision: RevisionRef, position: int, *, at_sentence: bool
    ) -> Anchor | None:
        """Return the last stored chunk that nothing past `position` decided.

        With `at_sentence`, the last one that also begins where a sentence does.
        """
        rows = self._connections.query(
            f"""SELECT s.chunk_id, s.position, s.start, s.first_sid FROM states s
               WHERE s.revision = ({_REVISION}) AND s.generation = ? AND s.reach <= ?
                 AND s.kind = 'text'
                 AND (? OR EXISTS (SELECT 1 FROM sentences e WHERE e.revision = s.revision
                   AND e.sid = s.first_sid AND e.start = s.start))
               ORDER BY s.position DESC LIMIT 1""",  # noqa: S608
            (*self._named(scope, revision), scope.generation.number, position, not at_sentence),
        )
        return Anchor(ChunkId(rows[0][0]), *rows[0][1:]) if rows else None

    def whole_chunks(self, scope: Scope, revision: RevisionRef, position: int) -> int:
        """Return how many embedded chunks nothing past `position` decided."""
        rows = self._connections.query(
            f"""SELECT count(*) FROM states WHERE revision = ({_REVISION}) AND generation = ?
               AND reach <= ? AND state = 'embedded'""",  # noqa: S608
            (*self._named(scope, revision), scope.generation.number, position),
        )
        return rows[0][0]

    def whole_marks(
        self, scope: Scope, revision: RevisionRef, position: int
    ) -> list[tuple[int, int, int, TextHash]]:
        """Return first and last sentence, start and hash of each chunk `whole_chunks` counts."""
        return self._connections.query(
            f"""SELECT first_sid, last_sid, start, text_hash FROM states
               WHERE revision = ({_REVISION}) AND generation = ? AND reach <= ?
                 AND state = 'embedded' ORDER BY position""",  # noqa: S608
            (*self._named(scope, revision), scope.generation.number, position),
        )  # pyright: ignore[reportReturnType]

    def tail(self, scope: Scope, revision: RevisionRef, sid: int) -> list[TailChunk] | None:
        """Return the chunks kept for a position, with vectors where there are any; None when the
        position was not asked from yet."""
        named = self._named(scope, revision)
        generation = scope.generation.number
        rows = self._connections.query(
            f"""SELECT t.position, t.part, t.start, t.finish, t.first_sid, t.last_sid, t.text,
                 t.text_hash, t.tokens, t.chapter, t.section, t.page, v.vector
               FROM tails t LEFT JOIN vectors v
                 ON v.world = (SELECT key FROM worlds WHERE id = ?) AND v.profile_id = ?
                   AND v.text_hash = t.text_hash
               WHERE t.revision = ({_REVISION}) AND t.generation = ? AND t.sid = ?
               ORDER BY t.position""",  # noqa: S608
            (scope.world, scope.profile.id, *named, generation, sid),
        )
        if rows:
            return [TailChunk(*row) for row in rows]
        marked = self._connections.query(
            f"""SELECT 1 FROM tail_marks
               WHERE revision = ({_REVISION}) AND generation = ? AND sid = ?""",  # noqa: S608
            (*named, generation, sid),
        )
        return [] if marked else None

    def keep_tail(
        self, scope: Scope, revision: RevisionRef, sid: int, chunks: Sequence[TailChunk]
    ) -> None:
        """Keep the chunks made for a position."""
        generation = scope.generation.number
        with self._connections.writing() as connection:
            rows = fetch(connection, _REVISION, self._named(scope, revision))
            if not rows:
                return
            key = rows[0][0]
            connection.execute(
                "INSERT OR IGNORE INTO tail_marks VALUES (?, ?, ?)", (key, generation, sid)
            )
            connection.executemany(
                "INSERT OR REPLACE INTO tails VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_tail_row(key, generation, sid, chunk) for chunk in chunks],
            )

    def vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        """Return the vectors that are kept for texts of the world."""
        marks = ",".join("?" * len(hashes))
        rows = self._connections.query(
            f"""SELECT text_hash, vector FROM vectors
               WHERE world = (SELECT key FROM worlds WHERE id = ?) AND profile_id = ?
                 AND text_hash IN ({marks})""",  # noqa: S608
            (scope.world, scope.profile.id, *hashes),
        )
        return dict(rows)

    def _named(self, scope: Scope, revision: RevisionRef) -> tuple[int, int, str]:
        return revision.document, revision.revision, scope.world


def _position(scope: Scope, reader: str, row: tuple[Any, ...]) -> Position:
    name, stored = row[4:6]
    # A library of an earlier version names one of the standard profiles, and nothing else.
    own = read_chunking(stored) if stored else STANDARD_CHUNKING[name]
    chunking = scope.generation.chunking or own
    document, doc_id, shown, title = row[:4]
    revision, sid, current = row[6:]
    return Position(reader, document, doc_id, shown, title, chunking, revision, sid, bool(current))


def _tail_row(key: int, generation: int, sid: int, chunk: TailChunk) -> tuple[Any, ...]:
    return (
        key,
        generation,
        sid,
        chunk.index,
        chunk.part,
        chunk.start,
        chunk.end,
        chunk.first_sid,
        chunk.last_sid,
        chunk.text,
        chunk.text_hash,
        chunk.tokens,
        chunk.chapter,
        chunk.section,
        chunk.page,
    )


def reanchor(connection: apsw.Connection, key: int) -> None:
    """Move every position in a document to the revision that is about to be seen.

    The new position is the last sentence of the longest common beginning: what was read and is
    still there in the same order, and nothing else.
    """
    rows = fetch(
        connection,
        """SELECT p.reader, p.document, p.sid, old.key, new.number
           FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = ?""",
        (key,),
    )
    for reader, document, sid, old, number in rows:
        changed = fetch(
            connection,
            """SELECT min(o.sid) FROM sentences o
               LEFT JOIN sentences n ON n.revision = ? AND n.sid = o.sid
               WHERE o.revision = ? AND o.sid <= ?
                 AND (n.text_hash IS NULL OR n.text_hash <> o.text_hash)""",
            (key, old, sid),
        )[0][0]
        connection.execute(
            "UPDATE positions SET revision = ?, sid = ? WHERE reader = ? AND document = ?",
            (number, sid if changed is None else changed - 1, reader, document),
        )
