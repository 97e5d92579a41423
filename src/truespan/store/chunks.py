"""Chunks: as retrieval reads them, as repair mends them, as the index should hold them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from truespan.errors import WorldNotFound
from truespan.store.rows import figure_mark, revision_key, tags_of, tally_each
from truespan.store.session import Part, Row, Session, retry_on_conflict, world_ids
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
from truespan.types.trust import FailureKind, Repair, VerificationFailure

_PAGE: Final = 512

# States are looked up first and by themselves. Otherwise PostgreSQL walks the whole world while it
# has no statistics of what has just come in; the sum keeps it from choosing the wrong index.
_READ: Final = """
    WITH s AS MATERIALIZED (
      SELECT chunk_id, revision, generation, position, kind, start, finish, first_sid, last_sid,
        reach, tokens, text_hash, state
      FROM states
      WHERE chunk_id IN LIST(:ids) AND UNINDEXED(world_id) = :world
        AND generation + 0 = :generation
    )
    SELECT s.chunk_id, s.position, s.start, s.finish, s.first_sid, s.last_sid, s.reach, s.kind,
      BYTES(c.text), c.text_hash, BYTES(c.overlap_text), s.tokens, c.chapter, c.section, c.page,
      c.figure, c.dedupe_hash, d.number, d.doc_id, r.name, r.title,
      r.declared_title, r.number, r.tags, r.language, r.version,
      s.state, r.state, d.deleted_at, s.text_hash
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
"""

_KIND, _DATA, _OVERLAP, _FIGURE, _LABEL, _TAGS, _STATE = 7, 8, 10, 15, 17, 6, 26
"""Which of these columns are converted. Their order is that of the fields of a `StoredChunk`, then
of a `DocumentLabel`."""

STATES: Final = """
    SELECT chunk_id, revision, generation, position, text_hash, first_sid, last_sid, reach, kind,
      (SELECT v.vector FROM vectors v WHERE v.world_id = :world AND v.profile_id = :profile
        AND v.text_hash = states.text_hash) AS vector
    FROM states WHERE UNINDEXED(world_id) = :world"""
"""States with their vectors; conditions are added to it, and it becomes `s` in `POINTS`."""

POINTS: Final = """
    SELECT s.chunk_id, d.number, r.number, s.position, s.text_hash,
      CASE WHEN :text AND s.vector IS NULL THEN BYTES(c.text) END, s.vector,
      s.first_sid, s.last_sid, s.reach, s.kind, coalesce(nullif(c.chapter, ''), r.title),
      coalesce(nullif(c.section, ''), nullif(c.chapter, ''), r.title), c.text_hash
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
"""
"""What the index should hold of each state of `s`, and the hash of the chunk's row. The order is
that of the fields of a `PendingChunk`."""
_TEXT, _POINT_KIND, _ROW_HASH = 5, 10, 13

_OF_REVISION: Final = f"""
    WITH s AS MATERIALIZED ({STATES}
      AND revision = :revision AND generation = :generation AND state = :state
      AND position > :after ORDER BY position LIMIT :limit)
    {POINTS} ORDER BY s.position
"""


class Chunks(Part):
    def read_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, ChunkRecord]:
        """Return what is known of each id in the scope's world and generation, in one read. Chunks
        of documents outside the scope are among them: a hit that is merely out of scope must not be
        taken for an orphan, whose point may be deleted."""
        rows = self._db.at(scope).all(_READ, ids=[*ids])
        return {row[0]: _read_record(row) for row in rows}

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return chunks of a revision that are not embedded, with vectors already held. Text is
        read only where there is no vector yet, and only believed after its hash."""
        with self._db.read(scope, after=after, limit=limit) as session:
            rows = session.all(
                _OF_REVISION,
                text=True,
                profile=scope.profile.id,
                revision=revision_key(session, revision),
                state="pending",
            )
        # A row must have the hash of its state, and so must its bytes, where they are needed.
        broken = [
            row[0]
            for row in rows
            if row[_ROW_HASH] != row[4]
            or (row[_TEXT] is not None and hash_bytes(row[_TEXT]) != row[4])
        ]
        if not broken:
            return [pending_chunk(row) for row in rows]
        for chunk in broken:
            self.rebuild_chunk(scope, ChunkId(chunk))
        return self.pending(scope, revision, after=after, limit=limit)

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Give every embedded chunk of every revision that is not retired, with its vector."""
        revisions = self._db.at(scope).all(
            """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND r.state <> 'retired' ORDER BY r.key"""
        )
        for (key,) in revisions:
            after = -1
            while rows := self._db.at(scope).all(
                _OF_REVISION,
                text=False,
                profile=scope.profile.id,
                revision=key,
                state="embedded",
                after=after,
                limit=_PAGE,
            ):
                yield [pending_chunk(row) for row in rows]
                after = rows[-1][3]

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see that have pending chunks."""
        rows = self._db.at(scope).all(
            """SELECT d.number, r.number FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = :generation
               WHERE d.world_id = :world AND t.chunks > t.embedded + t.quarantined
               ORDER BY 1, 2"""
        )
        return [RevisionRef(*row) for row in rows]

    @retry_on_conflict
    def mark_all_pending(self, scope: Scope) -> None:
        """Mark every chunk pending that the index of the scope's profile held, in every world."""
        with self._db.write_every_world() as session:
            session.disable_timeout()
            for world in world_ids(session):
                try:
                    session.enter(world, lock=True)
                except WorldNotFound:
                    # It was deleted since the worlds were listed.
                    continue
                lost = session.all(
                    """UPDATE states SET state = 'pending', warning = 'index_lost'
                       WHERE world_id = :world AND state = 'embedded' AND generation IN
                         (SELECT number FROM generations
                           WHERE world_id = :world AND profile_id = :profile)
                       RETURNING revision, generation""",
                    profile=scope.profile.id,
                )
                tally_each(session, lost)
                if lost:
                    session.touch_world()

    @retry_on_conflict
    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Ask for these chunks to be written to the index again."""
        with self._db.write(scope) as session:
            _set_states(session, ids, ChunkState.PENDING, None)
            session.touch_world()

    @retry_on_conflict
    def skip_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Set chunks aside that the model cannot read, so that the rest of a document may go on."""
        with self._db.write(scope) as session:
            _set_states(session, ids, ChunkState.QUARANTINED, "too_long")
            session.touch_world()

    @retry_on_conflict
    def record_failures(self, scope: Scope, failures: Sequence[VerificationFailure]) -> None:
        """Mark what retrieval found broken, and queue its repair, in one commit."""
        known = self._db.at(scope, ids=[failure.chunk_id for failure in failures]).all(
            """SELECT chunk_id, kind, point_hash FROM repairs
               WHERE world_id = :world AND generation = :generation AND chunk_id IN LIST(:ids)"""
        )
        if {(found.chunk_id, found.kind.value, found.point_hash) for found in failures} <= {*known}:
            return
        with self._db.write(scope) as session:
            for failure in failures:
                if failure.kind in (FailureKind.STALE, FailureKind.MISSING):
                    kind = failure.kind.value
                    _set_states(session, [failure.chunk_id], ChunkState.PENDING, kind)
                session.execute(
                    """INSERT INTO repairs (world_id, generation, chunk_id, kind, point_hash,
                         row_hash, queued_at)
                       VALUES (:world, :generation, :chunk_id, :kind, :point_hash, :row_hash, :now)
                       ON CONFLICT DO NOTHING""",
                    chunk_id=failure.chunk_id,
                    kind=failure.kind.value,
                    point_hash=failure.point_hash,
                    row_hash=failure.row_hash,
                    now=self._clock.now(),
                )
            session.touch_world()

    def repairs(self, scope: Scope) -> list[Repair]:
        """Return the repairs that were queued and not done, oldest first."""
        rows = self._db.at(scope).all(
            """SELECT number, kind, chunk_id, point_hash, row_hash FROM repairs
               WHERE world_id = :world AND generation = :generation ORDER BY number"""
        )
        return [
            Repair(
                number, VerificationFailure(FailureKind(kind), ChunkId(chunk), TextHash(point), row)
            )
            for number, kind, chunk, point, row in rows
        ]

    def finish_repairs(self, scope: Scope, numbers: Sequence[int]) -> None:
        self._db.at(scope).execute(
            "DELETE FROM repairs WHERE world_id = :world AND number IN LIST(:numbers)",
            numbers=[*numbers],
        )

    @retry_on_conflict
    def rebuild_chunk(self, scope: Scope, chunk_id: ChunkId) -> bool:
        """Restore a chunk row from canonical text if that gives the recorded hash, else quarantine
        it; say whether it was restored."""
        with self._db.write(scope) as session:
            restored = rebuild(session, chunk_id)
            if restored is False:
                _set_states(session, [chunk_id], ChunkState.QUARANTINED, "damaged_text")
            session.touch_world()
        return restored is True


class _Content(NamedTuple):
    """A chunk's state, and what its row should hold; `text` is None if that cannot be had with the
    recorded hash."""

    revision: int
    generation: int
    position: int
    start: int
    end: int
    text_hash: str
    text: str | None
    overlap: str
    figure: str | None


def rebuild(session: Session, chunk_id: ChunkId) -> bool | None:
    """Write a chunk row again from canonical text, or from the figure that it describes. False when
    that does not give the recorded hash, None when there is no such chunk."""
    content = _find_content(session, chunk_id)
    if content is None or content.text is None:
        return None if content is None else False
    near = {"revision": content.revision, "start": content.start}
    sentences = session.all(
        """SELECT finish FROM sentences
           WHERE revision = :revision AND finish > :start AND start < :end ORDER BY sid""",
        **near,
        end=content.end,
    )
    place = session.one(
        """SELECT chapter, section FROM places WHERE revision = :revision AND start <= :start
           ORDER BY start DESC LIMIT 1""",
        **near,
    )
    page = session.value(
        """SELECT page FROM pages WHERE revision = :revision AND start <= :start
           ORDER BY start DESC LIMIT 1""",
        **near,
    )
    ends = [min(end, content.end) - content.start for (end,) in sentences]
    chapter, section = place or (None, None)
    # The hash of the deduplication stays as it is where the row exists.
    session.insert(
        "chunks",
        key=("revision", "generation", "position"),
        revision=content.revision,
        generation=content.generation,
        position=content.position,
        text=session.text(content.text),
        text_hash=content.text_hash,
        overlap_text=session.text(content.overlap),
        sentence_ends=array("I", ends).tobytes(),
        chapter=chapter,
        section=section,
        page=page,
        figure=content.figure,
    )
    return True


def restorable(session: Session, chunk_id: ChunkId) -> bool:
    """Say whether `rebuild` would write the row again; nothing is changed."""
    content = _find_content(session, chunk_id)
    return content is not None and content.text is not None


def _find_content(session: Session, chunk_id: ChunkId) -> _Content | None:
    row = session.one(
        """SELECT s.revision, s.generation, s.position, s.start, s.finish, s.text_hash, s.kind,
             s.context_start, BYTES(t.text), r.text_hash
           FROM states s JOIN revisions r ON r.key = s.revision
           LEFT JOIN texts t ON t.revision = r.key
           WHERE UNINDEXED(s.world_id) = :world AND s.chunk_id = :chunk_id""",
        chunk_id=chunk_id,
    )
    if row is None:
        return None
    revision, generation, position, start, end, recorded, kind, context, data, data_hash = row
    text, overlap, figure = None, "", None
    if kind == ChunkKind.FIGURE:
        # Its chunk has the same place among the figures' chunks as its record among the figures.
        found = session.one(
            """SELECT BYTES(description), mark FROM figures WHERE revision = :revision
               ORDER BY number LIMIT 1 OFFSET :position - (SELECT min(s.position) FROM states s
                 WHERE s.world_id = :world AND s.revision = :revision
                   AND s.generation = :generation AND s.kind = 'figure')""",
            revision=revision,
            generation=generation,
            position=position,
        )
        if found:
            text, figure = found[0].decode(errors="replace"), found[1]
    elif data is not None and hash_bytes(data) == data_hash:
        source = data.decode()
        text, overlap = source[start:end], source[context:start]
    if text is not None and hash_bytes(text.encode()) != recorded:
        text = None
    return _Content(*row[:6], text=text, overlap=overlap, figure=figure)


def _read_record(row: Row) -> ChunkRecord:
    chunk, label = list(row[:_LABEL]), list(row[_LABEL:_STATE])
    state, revision_state, deleted_at, recorded_hash = row[_STATE:]
    stored = None
    if chunk[_DATA] is not None:
        chunk[_KIND] = ChunkKind(chunk[_KIND])
        chunk[_OVERLAP] = chunk[_OVERLAP].decode(errors="replace")
        chunk[_FIGURE] = figure_mark(chunk[_FIGURE]) if chunk[_FIGURE] else None
        stored = StoredChunk(*chunk)
    label[_TAGS] = tags_of(label[_TAGS])
    live = revision_state == "active" and deleted_at is None
    return ChunkRecord(ChunkState(state), live, DocumentLabel(*label), stored, recorded_hash)


def pending_chunk(row: Row) -> PendingChunk:
    """Return what the index should hold of a chunk, from a row of `POINTS`."""
    values = list(row[:_ROW_HASH])
    values[_TEXT] = "" if values[_TEXT] is None else values[_TEXT].decode()
    values[_POINT_KIND] = ChunkKind(values[_POINT_KIND])
    return PendingChunk(*values)


def _set_states(
    session: Session, ids: Sequence[ChunkId], state: ChunkState, warning: str | None
) -> None:
    changed = session.all(
        """UPDATE states SET state = :state, warning = :warning
           WHERE UNINDEXED(world_id) = :world AND chunk_id IN LIST(:ids)
           RETURNING revision, generation""",
        state=state.value,
        warning=warning,
        ids=[*ids],
    )
    tally_each(session, changed)
