"""Chunks in SQLite: as retrieval reads them, as repair mends them, as the index holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.rebuild import rebuild
from truespan.adapters.sqlite_store.staging import revision_key, tally
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.adapters.stored_rows import figure_mark, pending_chunk, tags_of
from truespan.protocols import Clock
from truespan.types.chunk import (
    ChunkKind,
    ChunkRecord,
    ChunkState,
    DocumentLabel,
    PendingChunk,
    StoredChunk,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope
from truespan.types.trust import FlawKind, Repair, VerificationFailure

_PAGE = 512

_READ = """
    SELECT s.chunk_id, s.state, r.state, d.deleted_at, d.number, d.doc_id, r.name, r.title,
      coalesce(r.declared_title, r.stated_title), r.number, s.position, s.start, s.finish,
      s.first_sid, s.last_sid, s.reach, s.kind, s.tokens,
      CAST(c.text AS BLOB), c.text_hash, c.overlap_text, c.chapter, c.section, c.page, c.figure,
      c.dedupe_hash, r.tags, r.language, r.version, s.text_hash
    FROM states s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE s.chunk_id IN ({marks}) AND s.generation = ?
      AND +s.world = (SELECT key FROM worlds WHERE id = ?)
"""
# The plus keeps the planner from walking the whole world instead of looking up the ids.

POINTS = """
    SELECT s.chunk_id, d.number, r.number, s.position, s.text_hash, v.vector,
      s.first_sid, s.last_sid, s.reach, s.kind, r.title, c.chapter, c.section, c.text_hash, {text}
    FROM states s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    LEFT JOIN vectors v
      ON v.world = s.world AND v.profile_id = ? AND v.text_hash = s.text_hash
"""

_PENDING_PAGE = """
    WHERE s.revision = ? AND s.generation = ? AND s.state = 'pending'
      AND s.position > ? ORDER BY s.position LIMIT ?
"""


class SqliteChunks:
    """The part of the store that knows chunks and their states."""

    _connections: Connections
    _clock: Clock

    def read_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, ChunkRecord]:
        """Return what is known of each id in the scope's world and generation, in one read.

        Chunks of documents outside the scope are among them: a hit that is merely out of scope must
        not be taken for an orphan, whose point may be deleted.
        """
        sql = _READ.format(marks=",".join("?" * len(ids)))
        rows = self._connections.query(sql, (*ids, scope.generation.number, scope.world))
        return {row[0]: _record(row) for row in rows}

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return chunks of a revision that are not embedded, with vectors already kept.

        Text is read only where there is no vector yet, and only believed after its hash.
        """
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(
                connection,
                POINTS.format(text="CASE WHEN v.vector IS NULL THEN CAST(c.text AS BLOB) END")
                + _PENDING_PAGE,
                (scope.profile.id, key, scope.generation.number, after, limit),
            )
        broken = [row[0] for row in rows if not _is_whole(row)]
        if not broken:
            return [pending_chunk(row) for row in rows]
        for chunk in broken:
            self.rebuild_chunk(scope, ChunkId(chunk))
        return self.pending(scope, revision, after=after, limit=limit)

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Give every embedded chunk of every revision that is not retired, with its vector."""
        generation = scope.generation.number
        revisions = self._connections.query(
            """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
               WHERE r.state <> 'retired' AND d.world = (SELECT key FROM worlds WHERE id = ?)
               ORDER BY r.key""",
            (scope.world,),
        )
        for (key,) in revisions:
            after = -1
            while rows := self._connections.query(
                POINTS.format(text="NULL")
                + """ WHERE s.revision = ? AND s.generation = ? AND s.state = 'embedded'
                      AND s.position > ? ORDER BY s.position LIMIT ?""",
                (scope.profile.id, key, generation, after, _PAGE),
            ):
                yield [pending_chunk(row) for row in rows]
                after = rows[-1][3]

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see that have pending chunks."""
        rows = self._connections.query(
            """SELECT d.number, r.number FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = ?
               WHERE d.world = (SELECT key FROM worlds WHERE id = ?)
                 AND t.chunks > t.embedded + t.quarantined ORDER BY 1, 2""",
            (scope.generation.number, scope.world),
        )
        return [RevisionRef(*row) for row in rows]

    def forget_index(self, scope: Scope) -> None:
        """Mark every chunk pending that the index of the scope's profile held."""
        with self._connections.writing() as connection:
            lost = fetch(
                connection,
                """UPDATE states SET state = 'pending', warning = 'index_lost'
                   WHERE state = 'embedded' AND (world, generation) IN
                     (SELECT world, number FROM generations WHERE profile_id = ?)
                   RETURNING revision, generation, world""",
                (scope.profile.id,),
            )
            for revision, generation in {row[:2] for row in lost}:
                tally(connection, revision, generation)
            for world in {row[2] for row in lost}:
                touch_world(connection, world)

    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Ask for these chunks to be written to the index again."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            changed: set[tuple[Any, ...]] = set()
            for chunk in ids:
                rows = fetch(
                    connection,
                    """UPDATE states SET state = 'pending', warning = NULL
                       WHERE chunk_id = ? AND world = ? RETURNING revision, generation""",
                    (chunk, world),
                )
                changed.update(rows)
            for revision, generation in changed:
                tally(connection, revision, generation)
            touch_world(connection, world)

    def skip_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Set chunks aside that the model cannot read, so that the rest of a document may go on."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for chunk in ids:
                _set_state(connection, world, chunk, ChunkState.QUARANTINED, "too_long")
            touch_world(connection, world)

    def record_flaws(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> None:
        """Mark what retrieval found broken, and queue its repair, in one commit."""
        if all(self._is_recorded(scope, flaw) for flaw in flaws):
            return
        now = self._clock.now()
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for flaw in flaws:
                _record_flaw(connection, scope, world, flaw, now)
            touch_world(connection, world)

    def _is_recorded(self, scope: Scope, flaw: VerificationFailure) -> bool:
        return bool(
            self._connections.query(
                """SELECT 1 FROM repairs WHERE generation = ? AND chunk_id = ? AND kind = ?
                   AND point_hash = ? AND world = (SELECT key FROM worlds WHERE id = ?)""",
                (
                    scope.generation.number,
                    flaw.chunk_id,
                    flaw.kind.value,
                    flaw.point_hash,
                    scope.world,
                ),
            )
        )

    def repairs(self, scope: Scope) -> list[Repair]:
        """Return the repairs that were queued and not done, oldest first."""
        rows = self._connections.query(
            """SELECT number, kind, chunk_id, point_hash, row_hash FROM repairs
               WHERE generation = ? AND world = (SELECT key FROM worlds WHERE id = ?)
               ORDER BY number""",
            (scope.generation.number, scope.world),
        )
        return [
            Repair(
                number, VerificationFailure(FlawKind(kind), ChunkId(chunk), TextHash(point), row)
            )
            for number, kind, chunk, point, row in rows
        ]

    def finish_repairs(self, scope: Scope, numbers: Sequence[int]) -> None:
        """Forget repairs that are done."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.executemany(
                "DELETE FROM repairs WHERE number = ? AND world = ?",
                [(number, world) for number in numbers],
            )

    def rebuild_chunk(self, scope: Scope, chunk_id: ChunkId) -> bool:
        """Restore a chunk row from canonical text if that gives the recorded hash, else quarantine
        it; say whether it was restored."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            restored = rebuild(connection, world, chunk_id)
            if restored is False:
                _set_state(connection, world, chunk_id, ChunkState.QUARANTINED, "damaged_text")
            touch_world(connection, world)
        return restored is True


def _record(row: tuple) -> ChunkRecord:
    chunk, state, revision_state, deleted_at = row[:4]
    label, data = _label(row), row[18]
    stored = None
    if data is not None:
        index, start, end, first, last, reach, kind, tokens = row[10:18]
        text_hash, overlap, chapter, section, page, figure, dedupe_hash = row[19:26]
        stored = StoredChunk(
            chunk_id=ChunkId(chunk),
            index=index,
            start=start,
            end=end,
            first_sid=first,
            last_sid=last,
            reach=reach,
            kind=ChunkKind(kind),
            data=data,
            text_hash=TextHash(text_hash),
            overlap_text=overlap,
            tokens=tokens,
            chapter=chapter,
            section=section,
            page=page,
            figure=figure_mark(figure) if figure else None,
            dedupe_hash=dedupe_hash,
        )
    live = revision_state == "active" and deleted_at is None
    return ChunkRecord(ChunkState(state), live, label, stored, TextHash(row[29]))


def _label(row: tuple[Any, ...]) -> DocumentLabel:
    number, doc_id, name, title, declared, revision = row[4:10]
    tags, language, version = row[26:29]
    return DocumentLabel(
        number, doc_id, name, title, declared, revision, tags_of(tags), language, version
    )


def _is_whole(row: tuple) -> bool:
    """Say whether a pending chunk can be embedded: its row has the hash of its state, and so have
    its bytes, where they are needed."""
    recorded, (row_hash, data) = row[4], row[13:15]
    return row_hash == recorded and (data is None or hash_bytes(data) == recorded)


def _record_flaw(
    connection: apsw.Connection, scope: Scope, world: int, flaw: VerificationFailure, now: float
) -> None:
    if flaw.kind in (FlawKind.STALE, FlawKind.MISSING):
        _set_state(connection, world, flaw.chunk_id, ChunkState.PENDING, flaw.kind.value)
    connection.execute(
        """INSERT OR IGNORE INTO repairs
             (world, generation, chunk_id, kind, point_hash, row_hash, queued_at)
           VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (
            world,
            scope.generation.number,
            flaw.chunk_id,
            flaw.kind.value,
            flaw.point_hash,
            flaw.row_hash,
            now,
        ),
    )


def _set_state(
    connection: apsw.Connection,
    world: int,
    chunk_id: ChunkId,
    state: ChunkState,
    warning: str | None,
) -> None:
    rows = fetch(
        connection,
        """UPDATE states SET state = ?, warning = ? WHERE chunk_id = ? AND world = ?
           RETURNING revision, generation""",
        (state.value, warning, chunk_id, world),
    )
    for revision, generation in rows:
        tally(connection, revision, generation)
