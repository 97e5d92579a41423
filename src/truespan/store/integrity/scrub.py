"""Verification of all rows against their checksums, page by page, for the doctor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, LiteralString

from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    CHUNK_TABLES,
    JOIN_CHUNKS,
    RevisionCells,
    StoredRevision,
    Structure,
    changing_revisions,
    chunk_checksum,
    figure_checksum,
    read_revisions,
    revision_checksum,
    tally_checksum,
    vector_checksum,
)
from truespan.store.tables.chunks import POINTS, STATES, read_points
from truespan.store.tables.fragments import IS_NAMED, REVISION
from truespan.store.tables.rebuild import restorable
from truespan.store.tables.revisions import chunk_checksums, insert_chunks, insert_structures
from truespan.store.tables.rows import (
    has_text,
    numbers_of,
    revision_key,
    tally_each,
)
from truespan.types.chunk import ChunkState, NewChunk, PendingChunk
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import Check, CountFlaw, RevisionFlaw, RevisionPart, TextFlaw
from truespan.types.scope import Scope
from truespan.types.vectors import Vector

_PAGE: Final = 256
_POSITION, _CHUNK_ID = 6, 7
"""Indexes in a row of `_TEXTS`."""

_AMONG: Final = f"""
    WITH s AS MATERIALIZED ({STATES} AND chunk_id IN LIST(:ids) AND generation + 0 = :generation
      AND state = 'embedded')
    {POINTS} WHERE r.state <> 'retired'
"""

_TEXTS: Final = f"""
    SELECT s.revision, s.state, BYTES(c.text), d.number, r.number, s.checksum, {CHUNK_CELLS}
    FROM states s JOIN revisions r ON r.key = s.revision AND r.state <> 'retired'
    JOIN documents d ON d.key = r.document
    {JOIN_CHUNKS}
    WHERE UNINDEXED(s.world_id) = :world AND s.generation = :generation
      AND s.state <> 'quarantined'
"""

# A generation that is being removed loses its rows and counts gradually.
_TALLIES: Final = """
    WITH own AS (
      SELECT r.key, d.number AS document, r.number AS revision FROM revisions r
      JOIN documents d ON d.key = r.document
      WHERE d.world_id = :world AND r.state <> 'retired'
    ), counted AS (
      SELECT s.revision, s.generation, count(*) AS chunks,
        count(*) FILTER (WHERE s.state = 'embedded') AS embedded,
        count(*) FILTER (WHERE s.state = 'quarantined') AS quarantined
      FROM own JOIN states s ON s.revision = own.key GROUP BY 1, 2
    ), known AS (
      SELECT revision, generation FROM counted
      UNION SELECT t.revision, t.generation FROM own JOIN tallies t ON t.revision = own.key
    )
    SELECT own.document, own.revision, known.generation, t.chunks, t.embedded, t.quarantined,
      coalesce(c.chunks, 0), coalesce(c.embedded, 0), coalesce(c.quarantined, 0)
    FROM known JOIN own ON own.key = known.revision
    LEFT JOIN tallies t ON t.revision = known.revision AND t.generation = known.generation
    LEFT JOIN counted c ON c.revision = known.revision AND c.generation = known.generation
    LEFT JOIN generations g ON g.world_id = :world AND g.number = known.generation
    WHERE CASE WHEN g.number IS NULL THEN t.chunks IS NOT NULL
      ELSE g.removed_at IS NULL AND (t.chunks, t.embedded, t.quarantined) IS DISTINCT FROM
        (coalesce(c.chunks, 0), coalesce(c.embedded, 0), coalesce(c.quarantined, 0)) END
    ORDER BY 1, 2, 3
"""

_VECTORS: Final = """
    SELECT text_hash, vector, checksum FROM vectors
    WHERE world_id = :world AND profile_id = :profile
"""
_FOREIGN: Final = """vectors WHERE world_id = :world AND profile_id NOT IN
    (SELECT g.profile_id FROM generations g WHERE g.world_id = :world)"""


class Scrub(Part):
    """Verification and restoration of rows; `*_flaws` methods change nothing."""

    def soundness(self) -> list[Check]:
        return self._db.check()

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return the chunks among `ids` that the index should have, with vectors, without text."""
        found: list[PendingChunk] = []
        for batch in _batches(ids):
            at = self._db.at(scope)
            rows = at.all(_AMONG, ids=batch, profile=scope.profile.id, text=False)
            found += [point.chunk for point in read_points(at, scope, rows)]
        return found

    def text_flaws(
        self, scope: Scope, ids: Sequence[ChunkId] | None = None
    ) -> Iterator[list[TextFlaw]]:
        """Yield the damaged chunks of the generation, among `ids` if given, in pages.

        Quarantined chunks are left out: they are known to be lost.
        """
        for rows in self._text_pages(scope, ids):
            broken = [row for row in rows if not _is_whole(scope, row)]
            if broken:
                with self._db.read(scope) as session:
                    flaws = [
                        TextFlaw(
                            ChunkId(row[_CHUNK_ID]),
                            hash_bytes(repr(row).encode()),
                            restorable(session, scope.world, ChunkId(row[_CHUNK_ID])),
                        )
                        for row in broken
                    ]
                yield flaws

    def _text_pages(self, scope: Scope, ids: Sequence[ChunkId] | None) -> Iterator[list[Row]]:
        """Yield rows of `_TEXTS`, among `ids` if given, in pages."""
        if ids is not None:
            for batch in _batches(ids):
                yield self._db.at(scope).all(f"{_TEXTS} AND s.chunk_id IN LIST(:ids)", ids=batch)
            return
        # In pages, because one long statement would keep deleted rows of other writers alive.
        bounds = self._db.at(scope).one(
            """SELECT min(r.key), max(r.key) FROM revisions r
               JOIN documents d ON d.key = r.document WHERE d.world_id = :world"""
        )
        revision, last = bounds or (None, None)
        position = -1
        while rows := self._db.at(scope).all(
            f"""{_TEXTS} AND s.revision <= :last
                AND (s.revision, s.position) > (:revision, :position)
                ORDER BY s.revision, s.position LIMIT :limit""",
            revision=revision,
            position=position,
            last=last,
            limit=_PAGE,
        ):
            yield rows
            revision, position = rows[-1][0], rows[-1][_POSITION]

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Yield the damaged parts of the world's revisions, one document at a time."""
        documents = self._db.at(scope).all(
            """SELECT number, deleted_at FROM documents WHERE world_id = :world ORDER BY number"""
        )
        for document, deleted_at in documents:
            with self._db.read(scope) as session:
                found = read_revisions(session, scope.world, document)
                known = {revision.cells.state for revision in found}
                for revision in found:
                    state = revision.cells.state
                    # A retired revision is about to be removed, unless it is the only one of a
                    # document that was not deleted.
                    lone = deleted_at is None and known == {"retired"}
                    if state != "retired" or lone:
                        yield from _find_revision_flaws(session, scope, revision)

    def chunk_flaws(self, scope: Scope) -> list[CountFlaw]:
        """Return the revisions with missing, extra or unrestorable chunks in a generation.

        A generation without an alias may lack whole revisions.
        """
        flaws = []
        with self._db.read(scope, shared=True) as session:
            rows = session.all(
                f"""SELECT r.key, d.number, r.number, g.number, t.checksum, {IS_NAMED}
                   FROM worlds w JOIN generations g ON g.world_id = w.world_id
                   JOIN documents d ON d.world_id = w.world_id AND d.deleted_at IS NULL
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   LEFT JOIN tallies t ON t.revision = r.key AND t.generation = g.number
                   WHERE w.world_id = :world AND g.removed_at IS NULL ORDER BY r.key, g.number"""
            )
            for key, document, number, generation, recorded, named in rows:
                ref = RevisionRef(document, number)
                kept = session.all(
                    f"""SELECT s.warning = 'damaged_text', s.checksum, {CHUNK_CELLS}
                        FROM {CHUNK_TABLES}
                        WHERE s.world_id = :world AND s.revision = :key
                          AND s.generation = :number ORDER BY s.position""",
                    key=key,
                    number=generation,
                )
                made = tally_checksum(scope.world, generation, ref, [row[1] for row in kept])
                if recorded is None and (kept or not named):
                    # `tally_flaws` reports the missing count.
                    recorded = made
                broken = [
                    row
                    for row in kept
                    if row[0] or chunk_checksum(scope.world, generation, ref, row[2:]) != row[1]
                ]
                if made != recorded or (
                    broken
                    and has_text(session, key)
                    and not all(restorable(session, scope.world, row[3]) for row in broken)
                ):
                    seen = hash_bytes(repr((recorded, made, broken)).encode())
                    flaws.append(CountFlaw(ref, generation, seen))
        return flaws

    @retry_on_conflict
    def rewrite_chunks(self, scope: Scope, ref: RevisionRef, chunks: Sequence[NewChunk]) -> bool:
        """Rewrite all chunks of a revision in the scope's generation; return whether it was done.

        It is done only if they match the recorded checksum, or the checksums of remaining rows.
        """
        generation = scope.generation.number
        with self._db.write(scope, generation=generation) as session:
            key = revision_key(session, ref)
            if key is None:
                return False
            recorded = session.value(
                "SELECT checksum FROM tallies WHERE revision = :key AND generation = :generation",
                key=key,
            )
            left = session.all(
                """SELECT checksum FROM states WHERE world_id = :world AND revision = :key
                     AND generation = :generation ORDER BY position""",
                key=key,
            )
            made = chunk_checksums(scope, chunks, ref)
            if recorded is None:
                same = {row[0] for row in left} <= {*made}
            else:
                same = recorded == tally_checksum(scope.world, generation, ref, made)
            if not same:
                return False
            for table in ("states", "chunks", "tallies"):
                session.execute(
                    f"DELETE FROM {table} WHERE revision = :key AND generation = :generation",
                    key=key,
                )
            insert_chunks(session, scope, [(ref, key, chunks)])
            session.touch_world()
        return True

    def tally_flaws(self, scope: Scope) -> list[CountFlaw]:
        """Return the stored counts, in any generation, that differ from a fresh count.

        Missing counts and counts of missing revisions are included.
        """
        return [
            CountFlaw(RevisionRef(*row[:2]), row[2], ",".join(map(str, row[3:])))
            for row in self._db.at(scope).all(_TALLIES)
        ]

    @retry_on_conflict
    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Store a fresh count of a revision's chunks in a generation."""
        with self._db.write(scope, generation=generation) as session:
            key = revision_key(session, revision)
            if key is None:
                return
            recorded = session.value(
                """DELETE FROM tallies WHERE revision = :key AND generation = :generation
                   RETURNING checksum""",
                key=key,
            )
            if session.all(
                "SELECT 1 FROM generations WHERE world_id = :world AND number = :number",
                number=generation,
            ):
                tally_each(session, [(key, generation)])
                if recorded is None:
                    kept = session.all(
                        """SELECT checksum FROM states WHERE world_id = :world AND revision = :key
                             AND generation = :generation ORDER BY position""",
                        key=key,
                    )
                    recorded = tally_checksum(
                        scope.world, generation, revision, [row[0] for row in kept]
                    )
                session.execute(
                    """UPDATE tallies SET checksum = :checksum
                       WHERE revision = :key AND generation = :generation""",
                    key=key,
                    checksum=recorded,
                )
            session.touch_world()

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return the numbers of pending and of quarantined chunks of active revisions."""
        row = self._db.at(scope).one(
            """SELECT count(*) FILTER (WHERE s.state = 'pending'),
                 count(*) FILTER (WHERE s.state = 'quarantined')
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = :generation
               WHERE d.world_id = :world AND d.deleted_at IS NULL"""
        )
        return (row[0], row[1]) if row else (0, 0)

    @retry_on_conflict
    def restore_revision(self, scope: Scope, ref: RevisionRef, part: RevisionPart) -> bool:
        """Restore a damaged part of a revision from intact rows; return whether it matched."""
        with self._db.write(scope) as session:
            found = [
                revision
                for revision in read_revisions(session, scope.world, ref.document)
                if revision.ref == ref
            ]
            if not found:
                return False
            match part:
                case RevisionPart.TEXT:
                    restored = _restore_text(session, found[0].key)
                case RevisionPart.RECORD:
                    restored = _restore_record(session, scope, found[0])
                case _:
                    restored = _restore_structure(session, scope, found[0])
            session.touch_world()
        return restored

    @retry_on_conflict
    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Make the next ingestion treat the source of a revision as changed."""
        with (
            self._db.write(scope) as session,
            changing_revisions(session, scope.world, revision.document),
        ):
            session.execute(
                f"UPDATE revisions SET recipe = 'damaged' WHERE key = {REVISION}",
                **numbers_of(revision),
            )

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector, bool]]]:
        """Yield the stored vectors of the scope's profile, among `hashes` if given, in pages.

        Each comes with whether it matches its checksum.
        """
        if hashes is not None:
            for batch in _batches(hashes):
                yield self._read_vectors(
                    scope, f"{_VECTORS} AND text_hash IN LIST(:hashes)", hashes=batch
                )
            return
        after = TextHash("")
        statement = f"{_VECTORS} AND text_hash > :after ORDER BY text_hash LIMIT :limit"
        while page := self._read_vectors(scope, statement, after=after, limit=_PAGE):
            yield page
            after = page[-1][0]

    def _read_vectors(
        self, scope: Scope, statement: LiteralString, **values: Any
    ) -> list[tuple[TextHash, Vector, bool]]:
        world, profile = scope.world, scope.profile.id
        rows = self._db.at(scope).all(statement, profile=profile, **values)
        return [
            (text_hash, vector, recorded == vector_checksum(world, profile, text_hash, vector))
            for text_hash, vector, recorded in rows
        ]

    @retry_on_conflict
    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove stored vectors, and mark the chunks that were indexed with them pending."""
        values = {"profile": scope.profile.id, "hashes": list(hashes)}
        with self._db.write(scope) as session:
            session.execute(
                """DELETE FROM vectors WHERE world_id = :world AND profile_id = :profile
                     AND text_hash IN LIST(:hashes)""",
                **values,
            )
            pending = session.all(
                """UPDATE states SET state = 'pending', warning = 'vector_lost'
                   WHERE world_id = :world AND text_hash IN LIST(:hashes) AND state = 'embedded'
                     AND generation IN (SELECT number FROM generations
                       WHERE world_id = :world AND profile_id = :profile)
                   RETURNING revision, generation""",
                **values,
            )
            tally_each(session, pending)
            session.touch_world()

    def foreign_vectors(self, scope: Scope) -> int:
        """Return the number of vectors of profiles that no generation of the world has."""
        return self._db.at(scope).value(f"SELECT count(*) FROM {_FOREIGN}") or 0

    @retry_on_conflict
    def drop_foreign_vectors(self, scope: Scope) -> None:
        """Remove the vectors of profiles that no generation of the world has."""
        with self._db.write(scope) as session:
            session.disable_timeout()
            session.execute(f"DELETE FROM {_FOREIGN}")

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, with their verified text."""
        rows = self._db.at(scope, count=max(count, 1)).all(
            """SELECT min(chunk_id) FROM (
                 SELECT s.chunk_id,
                   ntile(CAST(:count AS INTEGER)) OVER (ORDER BY s.text_hash) AS tile
                 FROM states s JOIN revisions r ON r.key = s.revision AND r.state = 'active'
                 WHERE s.world_id = :world AND s.generation = :generation
                   AND s.state = 'embedded') tiles
               GROUP BY tile ORDER BY tile"""
        )
        ids = [ChunkId(chunk) for (chunk,) in rows[:count]]
        texts = {
            ChunkId(row[_CHUNK_ID]): row[2]
            for page in self._text_pages(scope, ids)
            for row in page
            if _is_whole(scope, row)
        }
        return [
            (chunk, texts[chunk.chunk_id].decode())
            for chunk in self.expected_among(scope, list(texts))
        ]


def _is_whole(scope: Scope, row: Row) -> bool:
    """Return whether a chunk and its state match their checksum, and the text its hash."""
    _, state, data, document, revision, recorded, *cells = row
    ref = RevisionRef(document, revision)
    return (
        state in set(ChunkState)
        and data is not None
        and hash_bytes(data) == cells[10] == cells[11]
        and chunk_checksum(scope.world, scope.generation.number, ref, cells) == recorded
    )


def _find_revision_flaws(
    session: Session, scope: Scope, found: StoredRevision
) -> Iterator[RevisionFlaw]:
    """Yield the damaged parts of a revision: its record, its text, or its structure."""
    ref = found.ref
    rows = Structure.read(session, found.key)
    made = rows.checksums(scope.world, ref)
    if not (found.intact and found.details_intact):
        seen = hash_bytes(repr(found).encode())
        restored = _true_cells(scope, found, made.parts) is not None
        yield RevisionFlaw(ref, RevisionPart.RECORD, seen, restored)
    row = session.one(
        """SELECT BYTES(t.text), r.text_hash FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
        key=found.key,
    )
    data, recorded = row or (None, None)
    if data is None or hash_bytes(data) != recorded:
        whole = _text_from_chunks(session, found.key) is not None
        yield RevisionFlaw(ref, RevisionPart.TEXT, hash_bytes(data or b""), whole)
    kept = _kept_checksums(session, found.key)
    whole = made.match(found.cells.parts)
    if not whole or [made.sentences, made.places, made.figures] != kept:
        seen = hash_bytes(repr((rows, kept, found.cells.parts)).encode())
        restored = _true_structure(session, scope, found, rows) is not None
        yield RevisionFlaw(ref, RevisionPart.SENTENCES, seen, restored)


def _kept_checksums(session: Session, key: int) -> list[list[bytes]]:
    """Return the stored checksums of a revision's sentences, places and figures."""
    statements: tuple[LiteralString, ...] = (
        "SELECT checksum FROM sentences WHERE revision = :key ORDER BY sid",
        "SELECT checksum FROM places WHERE revision = :key ORDER BY start",
        "SELECT checksum FROM figures WHERE revision = :key ORDER BY number",
    )
    return [[row[0] for row in session.all(statement, key=key)] for statement in statements]


def _true_cells(scope: Scope, found: StoredRevision, parts: bytes) -> RevisionCells | None:
    """Return the cells with which a damaged record matches its checksum; None if none do."""
    if not found.details_intact:
        return None
    for state in ("active", "staged", "retired"):
        for digests in (found.cells.parts, parts):
            cells = found.cells._replace(state=state, parts=digests)
            if revision_checksum(scope.world, cells) == found.checksum:
                return cells
    return None


def _restore_record(session: Session, scope: Scope, found: StoredRevision) -> bool:
    made = Structure.read(session, found.key).checksums(scope.world, found.ref)
    cells = _true_cells(scope, found, made.parts)
    if cells is None:
        return False
    session.execute(
        "UPDATE revisions SET state = :state, parts = :parts WHERE key = :key",
        state=cells.state,
        parts=cells.parts,
        key=found.key,
    )
    return True


def _true_structure(
    session: Session, scope: Scope, found: StoredRevision, rows: Structure
) -> Structure | None:
    """Return the rows that match the digests of a revision; None if there are none.

    Damaged figures are restored from their chunks.
    """
    parts = found.cells.parts
    if rows.checksums(scope.world, found.ref).match(parts):
        return rows
    chunks = session.all(
        """SELECT s.start, BYTES(c.text), c.figure FROM states s
           JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
             AND c.position = s.position
           WHERE s.world_id = :world AND s.revision = :key AND s.kind = 'figure'
             AND s.generation = (SELECT min(generation) FROM tallies WHERE revision = :key)
           ORDER BY s.position""",
        key=found.key,
    )
    kept = {row[0]: row for row in rows.figures}
    recorded = dict(
        session.all("SELECT number, checksum FROM figures WHERE revision = :key", key=found.key)
    )
    figures = []
    for number, (start, text, figure) in enumerate(chunks, 1):
        mark = json.loads(figure or "{}")
        made = (number, mark.get("figure_id"), start, mark.get("image_ref"), text, figure)
        options = [kept[number], made] if number in kept else [made]
        whole = [
            row
            for row in options
            if figure_checksum(scope.world, found.ref, row) == recorded.get(number)
        ]
        figures.append((whole or [made])[0])
    restored = rows._replace(figures=figures)
    return restored if restored.checksums(scope.world, found.ref).match(parts) else None


def _restore_structure(session: Session, scope: Scope, found: StoredRevision) -> bool:
    rows = _true_structure(session, scope, found, Structure.read(session, found.key))
    if rows is None:
        return False
    for table in ("sentences", "places", "pages", "figures", "audits"):
        session.execute(f"DELETE FROM {table} WHERE revision = :key", key=found.key)
    checksums = rows.checksums(scope.world, found.ref)
    insert_structures(session, [(found.key, rows, checksums)])
    return True


def _restore_text(session: Session, key: int) -> bool:
    """Restore the text of a revision from its chunks, if the result has the recorded hash."""
    text = _text_from_chunks(session, key)
    if text is not None:
        session.insert("texts", key=("revision",), revision=key, text=session.text(text))
    return text is not None


def _text_from_chunks(session: Session, key: int) -> str | None:
    """Return the text of a revision, restored from intact chunks and the rest of the stored text.

    None unless the result has the recorded hash: nothing is guessed.
    """
    [(data, recorded, characters)] = session.all(
        """SELECT BYTES(t.text), r.text_hash, r.characters FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
        key=key,
    )
    left = (data or b"").decode(errors="replace")
    # If code points were lost or added, offsets are unknown: assume white space between chunks.
    letters = list(left) if len(left) == characters else [" "] * characters
    for start, chunk, text_hash in session.all(
        """SELECT s.start, BYTES(c.text), s.text_hash FROM states s
           JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
             AND c.position = s.position
           WHERE s.world_id = :world AND s.revision = :key AND s.kind = 'text'""",
        key=key,
    ):
        if hash_bytes(chunk) == text_hash:
            passage = chunk.decode()
            letters[start : start + len(passage)] = passage
    text = "".join(letters)
    return text if hash_bytes(text.encode(errors="replace")) == recorded else None


def _batches(values: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(values), _PAGE):
        yield list(values[start : start + _PAGE])
