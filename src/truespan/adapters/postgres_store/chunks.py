"""Chunks in PostgreSQL: as retrieval reads them, as repair mends them, as the index holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Row,
    Session,
    again_on_conflict,
    be_patient,
    enter,
    fetch,
)
from truespan.adapters.postgres_store.rebuild import rebuild
from truespan.adapters.postgres_store.staging import revision_key, tally
from truespan.adapters.postgres_store.worlds import (
    each_world,
    lock_world,
    require_world,
    touch_world,
)
from truespan.adapters.stored_rows import figure_mark, pending_chunk, tags_of
from truespan.errors import WorldNotFound
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

STATES: Final = "WITH s AS MATERIALIZED (SELECT * FROM states WHERE"
# States are looked up by themselves, and by ids with a sum, so that this is done first, and vectors
# one by one. Otherwise the planner walks the whole world, as long as it has no statistics of what
# has just come in.

_READ: Final = """
    WITH s AS MATERIALIZED (
      SELECT * FROM states WHERE chunk_id = ANY(%s) AND generation + 0 = %s
    )
    SELECT s.chunk_id, s.state, r.state, d.deleted_at, d.number, d.doc_id, r.name, r.title,
      coalesce(r.declared_title, r.stated_title), r.number, s.position, s.start, s.finish,
      s.first_sid, s.last_sid, s.reach, s.kind, s.tokens,
      c.text, c.text_hash, c.overlap_text, c.chapter, c.section, c.page, c.figure,
      c.dedupe_hash, r.tags, r.language, r.version, s.text_hash
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
"""

POINTS: Final = """)
    SELECT s.chunk_id, d.number, r.number, s.position, s.text_hash, v.vector,
      s.first_sid, s.last_sid, s.reach, s.kind, r.title, c.chapter, c.section, c.text_hash,
      CASE WHEN %(text)s AND v.vector IS NULL THEN c.text END
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    LEFT JOIN LATERAL (
      SELECT vector FROM vectors WHERE profile_id = %(profile)s AND text_hash = s.text_hash LIMIT 1
    ) v ON true
"""

_OF_REVISION: Final = f"""
    {STATES} revision = %(revision)s AND generation = %(generation)s AND state = %(state)s
      AND position > %(after)s ORDER BY position LIMIT %(limit)s
    {POINTS} ORDER BY s.position
"""


class PostgresChunks:
    """The part of the store that knows chunks and their states."""

    _connections: Connections
    _clock: Clock

    def read_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, ChunkRecord]:
        """Return what is known of each id in the scope's world and generation, in one read.

        Chunks of documents outside the scope are among them: a hit that is merely out of scope must
        not be taken for an orphan, whose point may be deleted.
        """
        rows = self._connections.query(scope.world, _READ, (list(ids), scope.generation.number))
        return {row[0]: _record(row) for row in rows}

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return chunks of a revision that are not embedded, with vectors already kept.

        Text is read only where there is no vector yet, and only believed after its hash.
        """
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            rows = fetch(
                session,
                _OF_REVISION,
                {
                    "text": True,
                    "profile": scope.profile.id,
                    "revision": revision_key(session, revision),
                    "generation": scope.generation.number,
                    "state": "pending",
                    "after": after,
                    "limit": limit,
                },
            )
        broken = [row[0] for row in rows if not _is_whole(row)]
        if not broken:
            return [pending_chunk(row) for row in rows]
        for chunk in broken:
            self.rebuild_chunk(scope, ChunkId(chunk))
        return self.pending(scope, revision, after=after, limit=limit)

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Give every embedded chunk of every revision that is not retired, with its vector."""
        revisions = self._connections.query(
            scope.world, "SELECT key FROM revisions WHERE state <> 'retired' ORDER BY key"
        )
        for (key,) in revisions:
            asked = {
                "text": False,
                "profile": scope.profile.id,
                "revision": key,
                "generation": scope.generation.number,
                "state": "embedded",
                "after": -1,
                "limit": _PAGE,
            }
            while rows := self._connections.query(scope.world, _OF_REVISION, asked):
                yield [pending_chunk(row) for row in rows]
                asked["after"] = rows[-1][3]

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see that have pending chunks."""
        rows = self._connections.query(
            scope.world,
            """SELECT d.number, r.number FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = %s
               WHERE t.chunks > t.embedded + t.quarantined ORDER BY 1, 2""",
            (scope.generation.number,),
        )
        return [RevisionRef(*row) for row in rows]

    @again_on_conflict
    def forget_index(self, scope: Scope) -> None:
        """Mark every chunk pending that the index of the scope's profile held, world by world."""
        with self._connections.sharing(BOTH) as session:
            be_patient(session)
            for world in each_world(session):
                enter(session, world)
                try:
                    lock_world(session, world)
                except WorldNotFound:
                    # It was deleted since the worlds were listed.
                    continue
                lost = fetch(
                    session,
                    """UPDATE states SET state = 'pending', warning = 'index_lost'
                       WHERE state = 'embedded' AND generation IN
                         (SELECT number FROM generations WHERE profile_id = %s)
                       RETURNING revision, generation""",
                    (scope.profile.id,),
                )
                _tally_each(session, lost)
                if lost:
                    touch_world(session)

    @again_on_conflict
    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Ask for these chunks to be written to the index again."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            changed = fetch(
                session,
                """UPDATE states SET state = 'pending', warning = NULL
                   WHERE chunk_id = ANY(%s) RETURNING revision, generation""",
                (list(ids),),
            )
            _tally_each(session, changed)
            touch_world(session)

    @again_on_conflict
    def skip_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Set chunks aside that the model cannot read, so that the rest of a document may go on."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for chunk in ids:
                _set_state(session, chunk, ChunkState.QUARANTINED, "too_long")
            touch_world(session)

    @again_on_conflict
    def record_flaws(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> None:
        """Mark what retrieval found broken, and queue its repair, in one commit."""
        if self._are_recorded(scope, flaws):
            return
        now = self._clock.now()
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for flaw in flaws:
                _record_flaw(session, scope, flaw, now)
            touch_world(session)

    def _are_recorded(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> bool:
        known = self._connections.query(
            scope.world,
            """SELECT chunk_id, kind, point_hash FROM repairs
               WHERE generation = %s AND chunk_id = ANY(%s)""",
            (scope.generation.number, [flaw.chunk_id for flaw in flaws]),
        )
        recorded = set(known)
        return all((flaw.chunk_id, flaw.kind.value, flaw.point_hash) in recorded for flaw in flaws)

    def repairs(self, scope: Scope) -> list[Repair]:
        """Return the repairs that were queued and not done, oldest first."""
        rows = self._connections.query(
            scope.world,
            """SELECT number, kind, chunk_id, point_hash, row_hash FROM repairs
               WHERE generation = %s ORDER BY number""",
            (scope.generation.number,),
        )
        return [
            Repair(
                number, VerificationFailure(FlawKind(kind), ChunkId(chunk), TextHash(point), row)
            )
            for number, kind, chunk, point, row in rows
        ]

    @again_on_conflict
    def finish_repairs(self, scope: Scope, numbers: Sequence[int]) -> None:
        """Forget repairs that are done."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            session.execute("DELETE FROM repairs WHERE number = ANY(%s)", (list(numbers),))

    @again_on_conflict
    def rebuild_chunk(self, scope: Scope, chunk_id: ChunkId) -> bool:
        """Restore a chunk row from canonical text if that gives the recorded hash, else quarantine
        it; say whether it was restored."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            restored = rebuild(session, chunk_id)
            if restored is False:
                _set_state(session, chunk_id, ChunkState.QUARANTINED, "damaged_text")
            touch_world(session)
        return restored is True


def _record(row: Row) -> ChunkRecord:
    chunk, state, revision_state, deleted_at = row[:4]
    data = row[18]
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
            overlap_text=overlap.decode(errors="replace"),
            tokens=tokens,
            chapter=chapter,
            section=section,
            page=page,
            figure=figure_mark(figure) if figure else None,
            dedupe_hash=dedupe_hash,
        )
    live = revision_state == "active" and deleted_at is None
    return ChunkRecord(ChunkState(state), live, _label(row), stored, TextHash(row[29]))


def _label(row: Row) -> DocumentLabel:
    number, doc_id, name, title, declared, revision = row[4:10]
    tags, language, version = row[26:29]
    return DocumentLabel(
        number, doc_id, name, title, declared, revision, tags_of(tags), language, version
    )


def _is_whole(row: Row) -> bool:
    """Say whether a pending chunk can be embedded: its row has the hash of its state, and so have
    its bytes, where they are needed."""
    recorded, (row_hash, data) = row[4], row[13:15]
    return row_hash == recorded and (data is None or hash_bytes(data) == recorded)


def _record_flaw(session: Session, scope: Scope, flaw: VerificationFailure, now: float) -> None:
    if flaw.kind in (FlawKind.STALE, FlawKind.MISSING):
        _set_state(session, flaw.chunk_id, ChunkState.PENDING, flaw.kind.value)
    session.execute(
        """INSERT INTO repairs (generation, chunk_id, kind, point_hash, row_hash, queued_at)
           VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
        (
            scope.generation.number,
            flaw.chunk_id,
            flaw.kind.value,
            flaw.point_hash,
            flaw.row_hash,
            now,
        ),
    )


def _set_state(session: Session, chunk_id: ChunkId, state: ChunkState, warning: str) -> None:
    rows = fetch(
        session,
        """UPDATE states SET state = %s, warning = %s WHERE chunk_id = %s
           RETURNING revision, generation""",
        (state.value, warning, chunk_id),
    )
    _tally_each(session, rows)


def _tally_each(session: Session, changed: Iterable[Row]) -> None:
    for revision, generation in sorted(set(changed)):
        tally(session, revision, generation)
