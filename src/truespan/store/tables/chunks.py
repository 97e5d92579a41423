"""Chunks: read for retrieval, restored by repairs, and as points for the index."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Final, LiteralString, NamedTuple

from msgspec.structs import replace

from truespan.errors import NotFound
from truespan.store.engines.session import (
    BRIEF_WAIT,
    Part,
    Row,
    Session,
    Statements,
    retry_on_conflict,
    world_ids,
)
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    JOIN_CHUNKS,
    REVISION_CELLS,
    RevisionCells,
    chunk_checksum,
    revision_checksum,
    vector_checksum,
    word_states_checksum,
)
from truespan.store.tables.rebuild import rebuild
from truespan.store.tables.rows import (
    document_label,
    drop_words,
    figure_mark,
    has_text,
    read_layouts,
    read_sentences_of,
    revision_key,
    tally_each,
)
from truespan.types.chunk import (
    ChunkKind,
    ChunkRecord,
    ChunkState,
    DocumentLabel,
    PendingChunk,
    StoredChunk,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.reading import ListedChunk
from truespan.types.scope import Scope
from truespan.types.text import CanonicalText, Place, name_places
from truespan.types.trust import FailureKind, Repair, VerificationFailure
from truespan.types.vectors import Vector, WordStates

_PAGE: Final = 512
_STATES: Final = {state.value: state for state in ChunkState}
_KINDS: Final = {kind.value: kind for kind in ChunkKind}

# States are looked up first. Otherwise PostgreSQL scans the whole world while it has no statistics
# of new rows; the sum prevents the choice of the wrong index.
_STATES_OF: Final = """
    WITH s AS MATERIALIZED (
      SELECT chunk_id, revision, generation, position, kind, context_start, start, finish,
        first_sid, last_sid, reach, tokens, text_hash, state, checksum
      FROM states
      WHERE chunk_id IN LIST(:ids) AND UNINDEXED(world_id) = :world
        AND generation + 0 = :generation
    )
    SELECT r.checksum, (SELECT changes FROM worlds WHERE world_id = :world)"""
_ROWS: Final = f"""d.deleted_at, s.state, s.checksum, BYTES(c.text), {CHUNK_CELLS},
      {REVISION_CELLS}
    FROM s
    JOIN revisions r ON r.key = s.revision AND SEEN(r)
    JOIN documents d ON d.key = r.document
    {JOIN_CHUNKS}
"""
_OF_TEXT: Final = "world_id = :world AND profile_id = :profile AND text_hash = s.text_hash"
# Subqueries take SQLite a third of the time of a join.
_VECTORS: Final = f"""(SELECT vector FROM vectors WHERE {_OF_TEXT}),
      (SELECT checksum FROM vectors WHERE {_OF_TEXT})"""
_NOT_READ: Final = "NULL, NULL"
_JOIN_WORD_STATES: Final = """LEFT JOIN word_states w ON w.world_id = :world
      AND w.profile_id = :profile AND w.text_hash = s.text_hash"""


# Shared by threads: a cache of four statements.
@cache
def _select_chunks(vectors: bool, word_states: bool) -> LiteralString:
    return f"""{_STATES_OF}, {_VECTORS if vectors else _NOT_READ},
        {"w.states, w.checksum" if word_states else _NOT_READ},
        {_ROWS} {_JOIN_WORD_STATES if word_states else ""}"""


_CELLS: Final = CHUNK_CELLS.count(",") + 1
_ROW: Final = 6
_CELL: Final = _ROW + 4
_ID: Final = _ROW + 5
_TEXT_HASH: Final = _ROW + 14
_REVISION: Final = _CELL + _CELLS
"""Indexes in a row of `_select_chunks`: of the cells of the chunk, its id, its hash, and the cells
of the revision."""

STATES: Final = """
    SELECT chunk_id, revision, generation, position, kind, context_start, start, finish, first_sid,
      last_sid, reach, tokens, text_hash, checksum,
      (SELECT v.vector FROM vectors v WHERE v.world_id = :world AND v.profile_id = :profile
        AND v.text_hash = states.text_hash) AS vector,
      (SELECT v.checksum FROM vectors v WHERE v.world_id = :world AND v.profile_id = :profile
        AND v.text_hash = states.text_hash) AS vector_checksum
    FROM states WHERE UNINDEXED(world_id) = :world"""
"""States with their vectors; with added conditions, the table `s` of `POINTS`."""

SHOWN_FROM: Final = """CASE WHEN s.kind = 'figure' THEN s.start ELSE coalesce(
      (SELECT CASE WHEN e.start > s.start THEN e.start ELSE s.start END FROM sentences e
        WHERE e.revision = s.revision AND e.sid = s.first_sid), s.start) END"""
"""Start of the text of a chunk `s`, without the white space before its first sentence, which may
belong to the previous chapter."""

POINTS: Final = f"""
    SELECT s.revision, {SHOWN_FROM}, d.number, r.number, r.title, s.vector, s.vector_checksum,
      CASE WHEN :text AND s.vector IS NULL THEN BYTES(c.text) END, s.checksum, {CHUNK_CELLS}
    FROM s
    JOIN revisions r ON r.key = s.revision
    JOIN documents d ON d.key = r.document
    {JOIN_CHUNKS}
"""
"""Cells of the points that the index should have for the states `s`, and their checksums."""
_CHUNK: Final = 9
"""Index of the first chunk cell in a row of `POINTS`."""

_OF_REVISION: Final = f"""
    WITH s AS MATERIALIZED ({STATES}
      AND revision = :revision AND generation = :generation AND state = :state
      AND position > :after ORDER BY position LIMIT :limit)
    {POINTS} ORDER BY s.position
"""


class Chunks(Part):
    def read(
        self,
        scope: Scope,
        ids: Sequence[ChunkId],
        *,
        vectors: bool = False,
        word_states: bool = False,
    ) -> dict[ChunkId, ChunkRecord]:
        """Return the records of chunks in the scope's world and generation, in one read.

        Chunks of documents outside the scope are included: a hit out of scope must not be taken for
        an orphan, whose point may be deleted. With `vectors` and `word_states`, these are read too;
        damaged ones are left out, to be computed again.

        With a chapter or section in the scope, the sentences of the chunks are read as well. A
        chunk with untrusted sentences is not intact, because the cut to make is unknown.
        """
        records: dict[ChunkId, ChunkRecord] = {}
        world, profile = scope.world, scope.profile.id
        at = self._db.at(scope, profile=profile) if vectors or word_states else self._db.at(scope)
        for row in at.all(_select_chunks(vectors, word_states), ids=[*ids]):
            vector, vector_sum, states, states_sum = row[2:_ROW]
            text_hash = row[_TEXT_HASH]
            if vector is not None and vector_sum != vector_checksum(
                world, profile, text_hash, vector
            ):
                vector = None
            if states is not None and states_sum != word_states_checksum(
                world, profile, text_hash, states
            ):
                states = None
            labels = _read_labels(world, row[0], row[_REVISION:])
            records[row[_ID]] = _read_record(scope, row, labels, vector, states)
        if scope.names_place:
            sentences = read_sentences_of(at, scope.world, [*records])
            for chunk_id, record in records.items():
                if record.chunk is not None and record.chunk.kind is ChunkKind.TEXT:
                    own = sentences.get(chunk_id, ())
                    chunk = replace(record.chunk, sentences=own)
                    whole = record.intact and bool(own)
                    records[chunk_id] = replace(record, chunk=chunk, intact=whole)
        return records

    def page(
        self, scope: Scope, revision: RevisionRef, *, first: int, count: int
    ) -> tuple[int, list[ListedChunk]]:
        """Return the number of chunks of a revision, and a page of them in reading order.

        A damaged chunk is listed without its text.
        """
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            total = session.value(
                """SELECT count(*) FROM states WHERE world_id = :world AND revision = :revision
                     AND generation = :generation""",
                revision=key,
            )
            rows = session.all(
                """SELECT position, chunk_id, kind, state, warning, context_start, start, finish,
                     first_sid, last_sid, tokens, text_hash
                   FROM states WHERE world_id = :world AND revision = :revision
                     AND generation = :generation
                   ORDER BY start, position LIMIT :count OFFSET :first""",
                revision=key,
                count=count,
                first=first,
            )
        records = self.read(scope, [ChunkId(row[1]) for row in rows])
        return total or 0, [_list_chunk(row, records.get(row[1])) for row in rows]

    def locate(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, tuple[int, int]]:
        """Return the key of the revision and the index of each chunk, unverified."""
        rows = self._db.at(scope).all(
            """SELECT chunk_id, revision, position FROM states
               WHERE chunk_id IN LIST(:ids) AND UNINDEXED(world_id) = :world
                 AND generation + 0 = :generation""",
            ids=[*ids],
        )
        return {ChunkId(chunk_id): (key, index) for chunk_id, key, index in rows}

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return pending chunks of a revision, with stored vectors.

        The text of a chunk is read only if it has no vector yet, and is verified.
        """
        with self._db.read(scope, after=after, limit=limit) as session:
            rows = session.all(
                _OF_REVISION,
                text=True,
                profile=scope.profile.id,
                revision=revision_key(session, revision),
                state="pending",
            )
            points = read_points(session, scope, rows)
        broken = [
            point.chunk.chunk_id
            for point, row in zip(points, rows, strict=True)
            if not point.intact
            or (row[7] is not None and sha256(row[7]).hexdigest() != row[_CHUNK + 10])
        ]
        wrong = [point.chunk.text_hash for point in points if point.wrong_vector]
        if not broken and not wrong:
            return [point.chunk for point in points]
        for chunk in broken:
            self.rebuild(scope, chunk)
        if wrong:
            with self._db.write(scope, profile=scope.profile.id) as session:
                session.execute(
                    """DELETE FROM vectors WHERE world_id = :world AND profile_id = :profile
                         AND text_hash IN LIST(:hashes)""",
                    hashes=wrong,
                )
        return self.pending(scope, revision, after=after, limit=limit)

    def vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        """Return the stored vectors of texts. Damaged ones are left out, to be embedded again."""
        world, profile = scope.world, scope.profile.id
        rows = self._db.at(scope, profile=profile).all(
            """SELECT text_hash, vector, checksum FROM vectors WHERE world_id = :world
                 AND profile_id = :profile AND text_hash IN LIST(:hashes)""",
            hashes=[*hashes],
        )
        return {
            text_hash: vector
            for text_hash, vector, recorded in rows
            if recorded == vector_checksum(world, profile, text_hash, vector)
        }

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Yield all embedded chunks of revisions that are not retired, with vectors, in pages.

        Damaged rows are included; `text_flaws` names them.
        """
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
                yield [point.chunk for point in read_points(self._db.at(scope), scope, rows)]
                after = rows[-1][_CHUNK]

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the active revisions with pending chunks."""
        rows = self._db.at(scope).all(
            """SELECT d.number, r.number FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = :generation
               WHERE d.world_id = :world AND t.chunks > t.embedded + t.quarantined
               ORDER BY 1, 2"""
        )
        return [RevisionRef(*row) for row in rows]

    def embedded_revisions(self, scope: Scope) -> list[tuple[RevisionRef, int]]:
        """Return the active revisions, with the number of their embedded chunks."""
        rows = self._db.at(scope).all(
            """SELECT d.number, r.number, t.embedded FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = :generation
               WHERE d.world_id = :world AND t.embedded > 0 ORDER BY 1, 2"""
        )
        return [(RevisionRef(document, revision), count) for document, revision, count in rows]

    @retry_on_conflict
    def mark_all_pending(
        self, scope: Scope, is_empty: Callable[[Scope], bool] = lambda _: True
    ) -> None:
        """Mark all chunks of the scope's profile pending, in every world, after its index was lost.

        `is_empty` is called for each world and generation while no other process can mark its
        chunks as embedded: another process may have written points since the index was found empty.
        """
        with self._db.write_every_world() as session:
            session.disable_timeout()
            for world in world_ids(session):
                try:
                    session.enter(world, lock=True)
                except NotFound as missing:
                    missing.raise_unless("world_not_found")
                    # The world was deleted after the list was read.
                    continue
                rows = session.all(
                    """SELECT number FROM generations
                       WHERE world_id = :world AND profile_id = :profile""",
                    profile=scope.profile.id,
                )
                numbers = [
                    number
                    for (number,) in rows
                    if is_empty(
                        replace(
                            scope,
                            world=WorldId(world),
                            generation=replace(scope.generation, number=number),
                        )
                    )
                ]
                lost = session.all(
                    """UPDATE states SET state = 'pending', warning = 'index_lost'
                       WHERE world_id = :world AND state = 'embedded'
                         AND generation IN LIST(:numbers)
                       RETURNING revision, generation""",
                    numbers=numbers,
                )
                tally_each(session, lost)
                if lost:
                    session.touch_world()

    @retry_on_conflict
    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Mark chunks to be written to the index again."""
        with self._db.write(scope) as session:
            _set_states(session, ids, ChunkState.PENDING, None)
            session.touch_world()

    @retry_on_conflict
    def skip(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Quarantine chunks that are too long for the model, so that others can be embedded."""
        with self._db.write(scope) as session:
            _set_states(session, ids, ChunkState.QUARANTINED, "too_long")
            # Words were counted with those of the other chunks of the revision.
            revisions = session.all(
                """SELECT DISTINCT revision FROM states
                   WHERE UNINDEXED(world_id) = :world AND chunk_id IN LIST(:ids)""",
                ids=[*ids],
            )
            for (key,) in revisions:
                drop_words(session, key, scope.generation.number)
            session.touch_world()

    @retry_on_conflict
    def record_failures(self, scope: Scope, failures: Sequence[VerificationFailure]) -> None:
        """Mark chunks that failed verification, and queue their repairs, in one commit."""
        known = self._db.at(scope, ids=[failure.chunk_id for failure in failures]).all(
            """SELECT chunk_id, kind, point_hash FROM repairs
               WHERE world_id = :world AND generation = :generation AND chunk_id IN LIST(:ids)"""
        )
        if {(found.chunk_id, found.kind.value, found.point_hash) for found in failures} <= {*known}:
            return
        with self._db.write(scope, wait=BRIEF_WAIT) as session:
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
        """Return the queued repairs, oldest first."""
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
    def rebuild(self, scope: Scope, chunk_id: ChunkId, *, only_lost: bool = False) -> bool | None:
        """Restore a chunk row from canonical text, or quarantine it; return whether it is restored.

        With `only_lost`, a chunk whose document has its text is left unchanged, because the doctor
        can split the text again; then the result is None.
        """
        with self._db.write(scope) as session:
            restored = rebuild(session, scope.world, chunk_id)
            if restored is False and only_lost:
                key = session.value(
                    """SELECT revision FROM states
                       WHERE UNINDEXED(world_id) = :world AND chunk_id = :chunk_id""",
                    chunk_id=chunk_id,
                )
                if has_text(session, key):
                    return None
            if restored is False:
                _set_states(session, [chunk_id], ChunkState.QUARANTINED, "damaged_text")
            session.touch_world()
        return restored is True


def _list_chunk(row: Row, record: ChunkRecord | None) -> ListedChunk:
    """Return a listed chunk from the row of its state, and its record if there is one."""
    index, chunk_id, kind, state, warning, context, start, end, *rest = row
    first_sid, last_sid, tokens, text_hash = rest
    chunk = record.chunk if record is not None else None
    intact = record is not None and record.is_intact()
    return ListedChunk(
        index=index,
        chunk_id=chunk_id,
        chunk_type=_KINDS.get(kind, ChunkKind.TEXT),
        state=_STATES.get(state, ChunkState.QUARANTINED),
        reason=warning,
        context_start=context,
        start=start,
        end=end,
        first_sid=first_sid,
        last_sid=last_sid,
        tokens=tokens,
        text_hash=text_hash,
        chapter=chunk.chapter if chunk else None,
        section=chunk.section if chunk else None,
        page=chunk.page if chunk else None,
        location=chunk.location if chunk else None,
        figure=chunk.figure if chunk else None,
        intact=intact,
        text=chunk.data.decode() if chunk and intact else None,
    )


class _Labels(NamedTuple):
    """Labels of a revision, and whether they match its checksum."""

    ref: RevisionRef
    is_active: bool
    document: DocumentLabel
    intact: bool


_MAX_LABELS: Final = 1024
# Shared by threads: cells of revisions and their parsed values; each use compares the cells with
# the row that was just read, so it does not matter which thread stored the entry.
_labels: Final[dict[tuple[WorldId, int, int], tuple[bytes | None, Row, _Labels]]] = {}
"""Checksum, cells and labels of recently read revisions."""


def _read_labels(world: WorldId, recorded: bytes | None, values: Row) -> _Labels:
    # Comparing with the previous row is three times as fast as hashing.
    key = world, values[0], values[2]
    known = _labels.get(key)
    if known is not None and known[0] == recorded and known[1] == values:
        labels = known[2]
    else:
        cells = RevisionCells._make(values)
        intact = recorded == revision_checksum(world, cells)
        document = document_label(cells, intact=intact)
        labels = _Labels(cells.ref, cells.state == "active", document, intact)
        if len(_labels) >= _MAX_LABELS:
            _labels.clear()
        _labels[key] = recorded, values, labels
    if labels.document.metadata is None:
        return labels
    # Callers may change the dictionary that they get.
    metadata = copy.deepcopy(labels.document.metadata)
    return labels._replace(document=replace(labels.document, metadata=metadata))


def _read_record(
    scope: Scope,
    row: Row,
    labels: _Labels,
    vector: Vector | None,
    states: WordStates | None,
) -> ChunkRecord:
    """Return the record of a chunk, with everything that can be read of damaged rows."""
    # fmt: off
    (
        _, changes, _, _, _, _, deleted_at, state, recorded, data,
        position, chunk_id, kind, _, start, end, first, last, reach, tokens, text_hash,
        row_hash, overlap, ends, chapter, section, page, figure, dedupe, location,
    ) = row[:_REVISION]
    # fmt: on
    cells = row[_CELL:_REVISION]
    intact = chunk_checksum(scope.world, scope.generation.number, labels.ref, cells) == recorded
    stored = None
    if data is not None:
        intact = intact and sha256(data).hexdigest() == row_hash == text_hash
        stored = StoredChunk(
            chunk_id=chunk_id,
            index=position,
            start=start,
            end=end,
            first_sid=first,
            last_sid=last,
            reach=reach,
            kind=_KINDS.get(kind, ChunkKind.TEXT),
            data=data,
            text_hash=row_hash,
            overlap_text=overlap.decode("utf-8", "replace"),
            tokens=tokens,
            chapter=chapter,
            section=section,
            page=page,
            location=location,
            figure=figure_mark(figure) if figure and intact else None,
            dedupe_hash=dedupe,
            vector=vector,
            word_states=states,
            sentence_ends=ends,
        )
    is_live = labels.is_active and deleted_at is None
    return ChunkRecord(
        state=_STATES.get(state, ChunkState.QUARANTINED),
        live=is_live,
        document=labels.document,
        chunk=stored,
        recorded_hash=text_hash,
        intact=intact,
        labels_intact=labels.intact,
        changes=changes,
    )


class StoredPoint(NamedTuple):
    """The point that the index should have for a chunk, and whether its rows are intact."""

    chunk: PendingChunk
    intact: bool
    wrong_vector: bool


def read_points(statements: Statements, scope: Scope, rows: Sequence[Row]) -> list[StoredPoint]:
    """Return the points that the index should have, from rows of `POINTS`."""
    layouts = read_layouts(statements, {row[0] for row in rows})
    return [_read_point(scope, row[2:], row[1], layouts[row[0]]) for row in rows]


def _read_point(scope: Scope, row: Row, shown_from: int, layout: CanonicalText) -> StoredPoint:
    document, revision, title, vector, vector_sum, data, recorded, *cells = row
    ref = RevisionRef(document, revision)
    position, chunk_id, kind, _, _, end, first, last, reach, _, text_hash = cells[:11]
    row_hash, own = cells[11], Place(cells[14], cells[15])
    # A figure has one place, which is in its row.
    places = [own] if kind == ChunkKind.FIGURE else layout.places_between(shown_from, end)
    chapters, sections = name_places(tuple(places), title)
    expected = chunk_checksum(scope.world, scope.generation.number, ref, cells)
    profile = scope.profile.id
    wrong = vector is not None and vector_sum != vector_checksum(
        scope.world, profile, text_hash, vector
    )
    chunk = PendingChunk(
        chunk_id=chunk_id,
        document=document,
        revision=revision,
        index=position,
        text_hash=text_hash,
        text="" if data is None else data.decode(errors="replace"),
        vector=None if wrong else vector,
        first_sid=first,
        last_sid=last,
        reach=reach,
        # A chunk with a damaged kind does not match its checksum and is never indexed.
        kind=_KINDS.get(kind, ChunkKind.TEXT),
        chapters=chapters,
        sections=sections,
    )
    return StoredPoint(chunk, expected == recorded and row_hash == text_hash, wrong)


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
