"""Chunks: as retrieval reads them, as repair mends them, as the index should hold them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from truespan.errors import WorldNotFound
from truespan.store.revisions import revision_key, tally_each
from truespan.store.rows import figure_mark, pending_chunk, tags_of
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
    SELECT s.chunk_id, s.state, r.state, d.deleted_at, d.number, d.doc_id, r.name, r.title,
      coalesce(r.declared_title, r.stated_title), r.number, s.position, s.start, s.finish,
      s.first_sid, s.last_sid, s.reach, s.kind, s.tokens,
      BYTES(c.text), c.text_hash, BYTES(c.overlap_text), c.chapter, c.section, c.page, c.figure,
      c.dedupe_hash, r.tags, r.language, r.version, s.text_hash
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
"""

STATES: Final = """
    SELECT chunk_id, revision, generation, position, text_hash, first_sid, last_sid, reach, kind,
      (SELECT v.vector FROM vectors v WHERE v.world_id = :world AND v.profile_id = :profile
        AND v.text_hash = states.text_hash) AS vector
    FROM states WHERE UNINDEXED(world_id) = :world"""
"""States with their vectors; conditions are added to it, and it becomes `s` in `POINTS`."""

POINTS: Final = """
    SELECT s.chunk_id, d.number, r.number, s.position, s.text_hash, s.vector,
      s.first_sid, s.last_sid, s.reach, s.kind, r.title, c.chapter, c.section, c.text_hash,
      CASE WHEN :text AND s.vector IS NULL THEN BYTES(c.text) END
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
"""
"""What the index should hold of each state of `s`, in the order that `pending_chunk` reads."""

_OF_REVISION: Final = f"""
    WITH s AS MATERIALIZED ({STATES}
      AND revision = :revision AND generation = :generation AND state = :state
      AND position > :after ORDER BY position LIMIT :limit)
    {POINTS} ORDER BY s.position
"""


class Chunks(Part):
    """The part of the store that knows chunks and their states."""

    def read_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, ChunkRecord]:
        """Return what is known of each id in the scope's world and generation, in one read.

        Chunks of documents outside the scope are among them: a hit that is merely out of scope must
        not be taken for an orphan, whose point may be deleted.
        """
        rows = self._db.all(scope.world, _READ, ids=[*ids], generation=scope.generation.number)
        return {row[0]: _read_record(row) for row in rows}

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return chunks of a revision that are not embedded, with vectors already held.

        Text is read only where there is no vector yet, and only believed after its hash.
        """
        with self._db.read(scope.world) as session:
            rows = session.all(
                _OF_REVISION,
                text=True,
                profile=scope.profile.id,
                revision=revision_key(session, revision),
                generation=scope.generation.number,
                state="pending",
                after=after,
                limit=limit,
            )
        broken = [row[0] for row in rows if not _is_whole(row)]
        if not broken:
            return [pending_chunk(row) for row in rows]
        for chunk in broken:
            self.rebuild_chunk(scope, ChunkId(chunk))
        return self.pending(scope, revision, after=after, limit=limit)

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Give every embedded chunk of every revision that is not retired, with its vector."""
        revisions = self._db.all(
            scope.world,
            """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND r.state <> 'retired' ORDER BY r.key""",
        )
        for (key,) in revisions:
            after = -1
            while rows := self._db.all(
                scope.world,
                _OF_REVISION,
                text=False,
                profile=scope.profile.id,
                revision=key,
                generation=scope.generation.number,
                state="embedded",
                after=after,
                limit=_PAGE,
            ):
                yield [pending_chunk(row) for row in rows]
                after = rows[-1][3]

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see that have pending chunks."""
        rows = self._db.all(
            scope.world,
            """SELECT d.number, r.number FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = :generation
               WHERE d.world_id = :world AND t.chunks > t.embedded + t.quarantined
               ORDER BY 1, 2""",
            generation=scope.generation.number,
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
        with self._db.write(scope.world) as session:
            _set_states(session, ids, ChunkState.PENDING, None)
            session.touch_world()

    @retry_on_conflict
    def skip_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Set chunks aside that the model cannot read, so that the rest of a document may go on."""
        with self._db.write(scope.world) as session:
            _set_states(session, ids, ChunkState.QUARANTINED, "too_long")
            session.touch_world()

    @retry_on_conflict
    def record_failures(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> None:
        """Mark what retrieval found broken, and queue its repair, in one commit."""
        if self._are_recorded(scope, flaws):
            return
        now = self._clock.now()
        with self._db.write(scope.world) as session:
            for flaw in flaws:
                _record_flaw(session, scope, flaw, now)
            session.touch_world()

    def _are_recorded(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> bool:
        known = self._db.all(
            scope.world,
            """SELECT chunk_id, kind, point_hash FROM repairs
               WHERE world_id = :world AND generation = :generation AND chunk_id IN LIST(:ids)""",
            generation=scope.generation.number,
            ids=[flaw.chunk_id for flaw in flaws],
        )
        return {(flaw.chunk_id, flaw.kind.value, flaw.point_hash) for flaw in flaws} <= set(known)

    def repairs(self, scope: Scope) -> list[Repair]:
        """Return the repairs that were queued and not done, oldest first."""
        rows = self._db.all(
            scope.world,
            """SELECT number, kind, chunk_id, point_hash, row_hash FROM repairs
               WHERE world_id = :world AND generation = :generation ORDER BY number""",
            generation=scope.generation.number,
        )
        return [
            Repair(
                number, VerificationFailure(FailureKind(kind), ChunkId(chunk), TextHash(point), row)
            )
            for number, kind, chunk, point, row in rows
        ]

    @retry_on_conflict
    def finish_repairs(self, scope: Scope, numbers: Sequence[int]) -> None:
        """Remove repairs that are done from the queue."""
        with self._db.write(scope.world) as session:
            session.execute(
                "DELETE FROM repairs WHERE world_id = :world AND number IN LIST(:numbers)",
                numbers=[*numbers],
            )

    @retry_on_conflict
    def rebuild_chunk(self, scope: Scope, chunk_id: ChunkId) -> bool:
        """Restore a chunk row from canonical text if that gives the recorded hash, else quarantine
        it; say whether it was restored."""
        with self._db.write(scope.world) as session:
            restored = rebuild(session, chunk_id)
            if restored is False:
                _set_states(session, [chunk_id], ChunkState.QUARANTINED, "damaged_text")
            session.touch_world()
        return restored is True


class _State(NamedTuple):
    revision: int
    generation: int
    position: int
    kind: str
    context: int
    start: int
    finish: int
    recorded: str
    data: bytes | None
    data_hash: str


class _Content(NamedTuple):
    text: str
    overlap: str
    figure: str | None


def rebuild(session: Session, chunk_id: ChunkId) -> bool | None:
    """Write a chunk row again from canonical text, or from the figure that it describes.

    False when that does not give the recorded hash, None when there is no such chunk.
    """
    found = _find_content(session, chunk_id)
    if found is None:
        return None
    state, content = found
    if content is None:
        return False
    _write_chunk(session, state, content)
    return True


def restorable(session: Session, chunk_id: ChunkId) -> bool:
    """Say whether `rebuild` would write the row again; nothing is changed."""
    found = _find_content(session, chunk_id)
    return found is not None and found[1] is not None


def _find_content(session: Session, chunk_id: ChunkId) -> tuple[_State, _Content | None] | None:
    """Return a chunk's state, and its content where that can be had with the recorded hash."""
    row = session.one(
        """SELECT s.revision, s.generation, s.position, s.kind, s.context_start, s.start, s.finish,
             s.text_hash, BYTES(t.text), r.text_hash
           FROM states s JOIN revisions r ON r.key = s.revision
           LEFT JOIN texts t ON t.revision = r.key
           WHERE UNINDEXED(s.world_id) = :world AND s.chunk_id = :chunk_id""",
        chunk_id=chunk_id,
    )
    if row is None:
        return None
    state = _State(*row)
    content = None
    if state.kind == ChunkKind.FIGURE:
        # Its chunk has the same place among the figures' chunks as its record among the figures.
        figure = session.one(
            """SELECT BYTES(description), mark FROM figures WHERE revision = :revision
               ORDER BY number LIMIT 1 OFFSET :position - (SELECT min(s.position) FROM states s
                 WHERE s.world_id = :world AND s.revision = :revision
                   AND s.generation = :generation AND s.kind = 'figure')""",
            revision=state.revision,
            generation=state.generation,
            position=state.position,
        )
        if figure:
            content = _Content(figure[0].decode(errors="replace"), "", figure[1])
    elif state.data is not None and hash_bytes(state.data) == state.data_hash:
        source = state.data.decode()
        content = _Content(
            source[state.start : state.finish], source[state.context : state.start], None
        )
    if content is None or hash_bytes(content.text.encode()) != state.recorded:
        return state, None
    return state, content


def _write_chunk(session: Session, state: _State, content: _Content) -> None:
    near = {"revision": state.revision, "start": state.start}
    sentences = session.all(
        """SELECT finish FROM sentences
           WHERE revision = :revision AND finish > :start AND start < :finish ORDER BY sid""",
        **near,
        finish=state.finish,
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
    ends = [min(finish, state.finish) - state.start for (finish,) in sentences]
    chapter, section = place or (None, None)
    # The hash of the deduplication stays as it is where the row exists.
    session.insert(
        "chunks",
        key=("revision", "generation", "position"),
        revision=state.revision,
        generation=state.generation,
        position=state.position,
        text=session.text(content.text),
        text_hash=state.recorded,
        overlap_text=session.text(content.overlap),
        sentence_ends=array("I", ends).tobytes(),
        chapter=chapter,
        section=section,
        page=page,
        figure=content.figure,
    )


def _read_record(row: Row) -> ChunkRecord:
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
    number, doc_id, name, title, declared, revision = row[4:10]
    tags, language, version, recorded_hash = row[26:30]
    label = DocumentLabel(
        number, doc_id, name, title, declared, revision, tags_of(tags), language, version
    )
    live = revision_state == "active" and deleted_at is None
    return ChunkRecord(ChunkState(state), live, label, stored, TextHash(recorded_hash))


def _is_whole(row: Row) -> bool:
    """Say whether a pending chunk can be embedded: its row has the hash of its state, and so have
    its bytes, where they are needed."""
    recorded, (row_hash, data) = row[4], row[13:15]
    return row_hash == recorded and (data is None or hash_bytes(data) == recorded)


def _record_flaw(session: Session, scope: Scope, flaw: VerificationFailure, now: float) -> None:
    if flaw.kind in (FailureKind.STALE, FailureKind.MISSING):
        _set_states(session, [flaw.chunk_id], ChunkState.PENDING, flaw.kind.value)
    session.execute(
        """INSERT INTO repairs (world_id, generation, chunk_id, kind, point_hash, row_hash,
             queued_at)
           VALUES (:world, :generation, :chunk_id, :kind, :point_hash, :row_hash, :now)
           ON CONFLICT DO NOTHING""",
        generation=scope.generation.number,
        chunk_id=flaw.chunk_id,
        kind=flaw.kind.value,
        point_hash=flaw.point_hash,
        row_hash=flaw.row_hash,
        now=now,
    )


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
