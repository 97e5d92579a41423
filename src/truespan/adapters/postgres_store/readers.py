"""Readers, their positions and their tails in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from truespan.adapters.postgres_store.connection import (
    Connections,
    Row,
    Session,
    again_on_conflict,
    change_each,
    fetch,
)
from truespan.adapters.postgres_store.staging import revision_key
from truespan.adapters.postgres_store.texts import text_part
from truespan.adapters.postgres_store.worlds import lock_world
from truespan.errors import DocumentNotFound
from truespan.protocols import Clock
from truespan.types.chunk import Vector
from truespan.types.document import OutlineEntry, RevisionRef
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import STANDARD_CHUNKING, read_chunking
from truespan.types.reading import Anchor, Position, StoredSentence, TailChunk
from truespan.types.scope import Scope

_POSITIONS: Final = """
    SELECT d.number, d.doc_id, r.name, coalesce(r.declared_title, r.stated_title),
      r.chunking, r.chunking_profile, p.revision, p.sid, e.current IS NOT DISTINCT FROM p.document
    FROM readers e
    JOIN positions p ON p.reader = e.key
    JOIN documents d ON d.key = p.document AND d.deleted_at IS NULL
    JOIN revisions r ON r.document = d.key AND r.state = 'active' AND r.number = p.revision
    WHERE e.name = %s ORDER BY d.number
"""

_REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.number = %(document)s AND r.number = %(revision)s)"""

_TEXT = 6
"""Where a tail's text stands among its columns, whose order is that of a `TailChunk`'s fields."""


class PostgresReaders:
    """The part of the store that knows who has read how far."""

    _connections: Connections
    _clock: Clock

    @again_on_conflict
    def set_position(
        self, scope: Scope, reader: str, revision: RevisionRef, sid: int, *, current: bool
    ) -> None:
        """Record the last sentence read of a revision that readers see."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            rows = fetch(
                session,
                """SELECT d.key FROM documents d JOIN revisions r ON r.document = d.key
                   WHERE d.number = %s AND r.number = %s AND r.state = 'active'
                     AND d.deleted_at IS NULL""",
                (revision.document, revision.revision),
            )
            if not rows:
                raise DocumentNotFound(str(revision.document))
            document = rows[0][0]
            session.execute(
                "INSERT INTO readers (name) VALUES (%s) ON CONFLICT (world_id, name) DO NOTHING",
                (reader,),
            )
            key = fetch(session, "SELECT key FROM readers WHERE name = %s", (reader,))[0][0]
            session.execute(
                """INSERT INTO positions (reader, document, revision, sid, updated_at)
                   VALUES (%s, %s, %s, %s, %s)
                   ON CONFLICT (world_id, reader, document) DO UPDATE SET
                     revision = excluded.revision, sid = excluded.sid,
                     updated_at = excluded.updated_at""",
                (key, document, revision.revision, sid, self._clock.now()),
            )
            if current:
                session.execute("UPDATE readers SET current = %s WHERE key = %s", (document, key))

    def positions(self, scope: Scope, reader: str) -> list[Position]:
        """Return every position of a reader in documents that are in force, by number."""
        rows = self._connections.query(scope.world, _POSITIONS, (reader,))
        return [_position(scope, reader, row) for row in rows]

    def sentences(
        self, scope: Scope, revision: RevisionRef, first: int, last: int
    ) -> list[StoredSentence]:
        """Return the sentences from `first` to `last` of a revision."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT sid, start, finish, tokens, text_hash FROM sentences
                WHERE revision = {_REVISION} AND sid BETWEEN %(first)s AND %(last)s
                ORDER BY sid""",  # noqa: S608 -- the name is written above
            {**_named(revision), "first": first, "last": last},
        )
        return [StoredSentence(*row) for row in rows]

    def sentence_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int:
        """Return the last sentence that begins at or before `offset`; -1 before the first."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT coalesce(max(sid), -1) FROM sentences
                WHERE revision = {_REVISION} AND start <= %(offset)s""",  # noqa: S608
            {**_named(revision), "offset": offset},
        )
        return rows[0][0]

    def text_between(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> str:
        """Return a part of a revision's text. The caller checks it sentence by sentence."""
        with self._connections.reading(scope.world) as session:
            data = text_part(session, revision_key(session, revision), start, end)
        return "" if data is None else data.decode()

    def places_until(self, scope: Scope, revision: RevisionRef, offset: int) -> list[OutlineEntry]:
        """Return the chapters and sections of a revision that begin before `offset`."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                        WHERE s.revision = p.revision AND s.start >= p.start),
                  p.start, p.chapter, p.section
                FROM places p WHERE p.revision = {_REVISION} AND p.start < %(offset)s
                ORDER BY p.start""",  # noqa: S608
            {**_named(revision), "offset": offset},
        )
        return [OutlineEntry(*row) for row in rows]

    def page_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int | None:
        """Return the page that an offset of a revision lies on, if it has pages."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT page FROM pages WHERE revision = {_REVISION} AND start <= %(offset)s
                ORDER BY start DESC LIMIT 1""",  # noqa: S608
            {**_named(revision), "offset": offset},
        )
        return rows[0][0] if rows else None

    def anchor(
        self, scope: Scope, revision: RevisionRef, position: int, *, at_sentence: bool
    ) -> Anchor | None:
        """Return the last stored chunk that nothing past `position` decided.

        With `at_sentence`, the last one that also begins where a sentence does.
        """
        rows = self._connections.query(
            scope.world,
            f"""SELECT s.chunk_id, s.position, s.start, s.first_sid FROM states s
                WHERE s.revision = {_REVISION} AND s.generation = %(generation)s
                  AND s.reach <= %(position)s AND s.kind = 'text'
                  AND (%(anywhere)s OR EXISTS (SELECT 1 FROM sentences e
                    WHERE e.revision = s.revision AND e.sid = s.first_sid AND e.start = s.start))
                ORDER BY s.position DESC LIMIT 1""",  # noqa: S608
            {**_reached(scope, revision, position), "anywhere": not at_sentence},
        )
        return Anchor(ChunkId(rows[0][0]), *rows[0][1:]) if rows else None

    def whole_chunks(self, scope: Scope, revision: RevisionRef, position: int) -> int:
        """Return how many embedded chunks nothing past `position` decided."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT count(*) FROM states WHERE revision = {_REVISION}
                AND generation = %(generation)s AND reach <= %(position)s
                AND state = 'embedded'""",  # noqa: S608
            _reached(scope, revision, position),
        )
        return rows[0][0]

    def whole_marks(
        self, scope: Scope, revision: RevisionRef, position: int
    ) -> list[tuple[int, int, int, TextHash]]:
        """Return first and last sentence, start and hash of each chunk `whole_chunks` counts."""
        return self._connections.query(
            scope.world,
            f"""SELECT first_sid, last_sid, start, text_hash FROM states
                WHERE revision = {_REVISION} AND generation = %(generation)s
                  AND reach <= %(position)s AND state = 'embedded' ORDER BY position""",  # noqa: S608
            _reached(scope, revision, position),
        )  # pyright: ignore[reportReturnType]

    def tail(self, scope: Scope, revision: RevisionRef, sid: int) -> list[TailChunk] | None:
        """Return the chunks kept for a position, with vectors where there are any; None when the
        position was not asked from yet."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT t.position, t.part, t.start, t.finish, t.first_sid, t.last_sid, t.text,
                  t.text_hash, t.tokens, t.chapter, t.section, t.page, v.vector
                FROM tail_marks m
                LEFT JOIN tails t ON t.revision = m.revision AND t.generation = m.generation
                  AND t.sid = m.sid
                LEFT JOIN vectors v
                  ON v.profile_id = %(profile)s AND v.text_hash = t.text_hash
                WHERE m.revision = {_REVISION} AND m.generation = %(generation)s
                  AND m.sid = %(position)s ORDER BY t.position""",  # noqa: S608
            {**_reached(scope, revision, sid), "profile": scope.profile.id},
        )
        if not rows:
            return None
        return [_tail_chunk(list(row)) for row in rows if row[0] is not None]

    @again_on_conflict
    def keep_tail(
        self, scope: Scope, revision: RevisionRef, sid: int, chunks: Sequence[TailChunk]
    ) -> None:
        """Keep the chunks made for a position."""
        generation = scope.generation.number
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            key = revision_key(session, revision)
            if key is None:
                return
            session.execute(
                """INSERT INTO tail_marks (revision, generation, sid) VALUES (%s, %s, %s)
                   ON CONFLICT (world_id, revision, generation, sid) DO NOTHING""",
                (key, generation, sid),
            )
            change_each(
                session,
                "DELETE FROM tails "
                "WHERE revision = %s AND generation = %s AND sid = %s AND position = %s",
                [(key, generation, sid, chunk.index) for chunk in chunks],
            )
            change_each(
                session,
                """INSERT INTO tails (revision, generation, sid, position, part, start, finish,
                     first_sid, last_sid, text, text_hash, tokens, chapter, section, page)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
                [_tail_row(key, generation, sid, chunk) for chunk in chunks],
            )

    def vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        """Return the vectors that are kept for texts of the world."""
        rows = self._connections.query(
            scope.world,
            """SELECT text_hash, vector FROM vectors
               WHERE profile_id = %s AND text_hash = ANY(%s)""",
            (scope.profile.id, list(hashes)),
        )
        return dict(rows)


def _named(revision: RevisionRef) -> dict[str, Any]:
    return {"document": revision.document, "revision": revision.revision}


def _reached(scope: Scope, revision: RevisionRef, position: int) -> dict[str, Any]:
    return {**_named(revision), "generation": scope.generation.number, "position": position}


def _position(scope: Scope, reader: str, row: Row) -> Position:
    document, doc_id, shown, title, name, stored, revision, sid, current = row
    own = read_chunking(stored) if stored else STANDARD_CHUNKING[name]
    chunking = scope.generation.chunking or own
    return Position(reader, document, doc_id, shown, title, chunking, revision, sid, current)


def _tail_chunk(values: list[Any]) -> TailChunk:
    values[_TEXT] = values[_TEXT].decode(errors="replace")
    return TailChunk(*values)


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
        chunk.text.encode(),
        chunk.text_hash,
        chunk.tokens,
        chunk.chapter,
        chunk.section,
        chunk.page,
    )


def reanchor(session: Session, key: int) -> None:
    """Move every position in a document to the revision that is about to be seen.

    The new position is the last sentence of the longest common beginning: what was read and is
    still there in the same order, and nothing else.
    """
    rows = fetch(
        session,
        """SELECT p.reader, p.document, p.sid, old.key, new.number
           FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = %s""",
        (key,),
    )
    for reader, document, sid, old, number in rows:
        changed = fetch(
            session,
            """SELECT min(o.sid) FROM sentences o
               LEFT JOIN sentences n ON n.revision = %s AND n.sid = o.sid
               WHERE o.revision = %s AND o.sid <= %s
                 AND (n.text_hash IS NULL OR n.text_hash <> o.text_hash)""",
            (key, old, sid),
        )[0][0]
        session.execute(
            "UPDATE positions SET revision = %s, sid = %s WHERE reader = %s AND document = %s",
            (number, sid if changed is None else changed - 1, reader, document),
        )
