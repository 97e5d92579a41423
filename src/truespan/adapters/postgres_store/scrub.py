"""Holding what PostgreSQL keeps against what was recorded of it, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from truespan.adapters.postgres_store.chunks import POINTS, STATES
from truespan.adapters.postgres_store.connection import (
    Connections,
    Row,
    Session,
    again_on_conflict,
    be_patient,
    fetch,
)
from truespan.adapters.postgres_store.rebuild import restorable
from truespan.adapters.postgres_store.scrub_text import from_chunks, revision_flaw
from truespan.adapters.postgres_store.staging import revision_key, tally
from truespan.adapters.postgres_store.worlds import lock_world, touch_world
from truespan.adapters.stored_rows import pending_chunk
from truespan.types.chunk import PendingChunk, Vector
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import RevisionFlaw, TallyFlaw, TextFlaw
from truespan.types.scope import Scope

_PAGE = 256

_ROWS: Final = """
    SELECT s.revision, s.position, s.chunk_id, c.text, c.text_hash, s.text_hash FROM states s
    JOIN revisions r ON r.key = s.revision AND r.state <> 'retired'
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE s.generation = %(generation)s AND s.state <> 'quarantined'
"""

# A generation that is being removed loses its rows and its counts by and by.
_TALLIES: Final = """
    WITH own AS (
      SELECT r.key, d.number AS document, r.number AS revision FROM revisions r
      JOIN documents d ON d.key = r.document WHERE r.state <> 'retired'
    ), counted AS (
      SELECT s.revision, s.generation, count(*) AS chunks,
        count(*) FILTER (WHERE s.state = 'embedded') AS embedded,
        count(*) FILTER (WHERE s.state = 'quarantined') AS quarantined
      FROM own JOIN states s ON s.revision = own.key GROUP BY 1, 2
    ), told AS (
      SELECT revision, generation FROM counted
      UNION SELECT t.revision, t.generation FROM own JOIN tallies t ON t.revision = own.key
    )
    SELECT own.document, own.revision, told.generation, t.chunks, t.embedded, t.quarantined,
      coalesce(c.chunks, 0), coalesce(c.embedded, 0), coalesce(c.quarantined, 0)
    FROM told JOIN own ON own.key = told.revision
    LEFT JOIN tallies t ON t.revision = told.revision AND t.generation = told.generation
    LEFT JOIN counted c ON c.revision = told.revision AND c.generation = told.generation
    LEFT JOIN generations g ON g.number = told.generation
    WHERE CASE WHEN g.number IS NULL THEN t.chunks IS NOT NULL
      ELSE g.removed_at IS NULL AND (t.chunks, t.embedded, t.quarantined) IS DISTINCT FROM
        (coalesce(c.chunks, 0), coalesce(c.embedded, 0), coalesce(c.quarantined, 0)) END
    ORDER BY 1, 2, 3
"""

_FOREIGN: Final = "profile_id NOT IN (SELECT g.profile_id FROM generations g)"


class PostgresScrub:
    """The part of the store that looks at itself."""

    _connections: Connections

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return those of the chunks that the index should hold, with vectors, without text."""
        found: list[PendingChunk] = []
        for part in _batches(ids):
            rows = self._connections.query(
                scope.world,
                f"""{STATES} chunk_id = ANY(%(ids)s) AND generation + 0 = %(generation)s
                      AND state = 'embedded' {POINTS} WHERE r.state <> 'retired'""",
                {
                    "text": False,
                    "profile": scope.profile.id,
                    "ids": part,
                    "generation": scope.generation.number,
                },
            )
            found.extend(pending_chunk(row) for row in rows)
        return found

    def text_flaws(
        self, scope: Scope, ids: Sequence[ChunkId] | None = None
    ) -> Iterator[list[TextFlaw]]:
        """Give the chunks of the generation whose rows cannot be believed; of `ids` if given."""
        for rows in self._rows(scope, ids):
            broken = [row for row in rows if not _is_whole(*row[1:])]
            if broken:
                with self._connections.reading(scope.world) as session:
                    flaws = [_text_flaw(session, *row[:2]) for row in broken]
                yield flaws

    def _rows(self, scope: Scope, ids: Sequence[ChunkId] | None) -> Iterator[list[Row]]:
        asked: dict[str, Any] = {"generation": scope.generation.number, "limit": _PAGE}
        if ids is not None:
            for part in _batches(ids):
                rows = self._connections.query(
                    scope.world, f"{_ROWS} AND s.chunk_id = ANY(%(ids)s)", {**asked, "ids": part}
                )
                yield [row[2:] for row in rows]
            return
        # A page at a time: one statement over everything would keep others' old rows alive.
        asked |= {"revision": -1, "position": -1}
        while rows := self._connections.query(
            scope.world,
            f"""{_ROWS} AND (s.revision, s.position) > (%(revision)s, %(position)s)
                ORDER BY s.revision, s.position LIMIT %(limit)s""",
            asked,
        ):
            yield [row[2:] for row in rows]
            asked |= {"revision": rows[-1][0], "position": rows[-1][1]}

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Give what of the world's revisions cannot be believed, one revision at a time."""
        revisions = self._connections.query(
            scope.world,
            """SELECT r.key, d.number, r.number FROM revisions r
               JOIN documents d ON d.key = r.document
               WHERE r.state <> 'retired' ORDER BY r.key""",
        )
        for key, document, number in revisions:
            with self._connections.reading(scope.world) as session:
                flaw = revision_flaw(session, key, RevisionRef(document, number))
            if flaw is not None:
                yield flaw

    def tally_flaws(self, scope: Scope) -> list[TallyFlaw]:
        """Return the counts, in any generation of the world, that are not what is counted now."""
        with self._connections.reading(scope.world) as session:
            be_patient(session)
            rows = fetch(session, _TALLIES)
        return [
            TallyFlaw(RevisionRef(*row[:2]), row[2], ",".join(map(str, row[3:]))) for row in rows
        ]

    @again_on_conflict
    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Make a revision's count in a generation what its chunks are."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            key = revision_key(session, revision)
            if key is None:
                return
            recorded = fetch(
                session,
                "DELETE FROM tallies WHERE revision = %s AND generation = %s RETURNING chunks",
                (key, generation),
            )
            if fetch(session, "SELECT 1 FROM generations WHERE number = %s", (generation,)):
                tally(session, key, generation)
                _distrust_if_fewer(session, key, generation, recorded)
            touch_world(session)

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return how many chunks readers could see are pending, and how many are in quarantine."""
        rows = self._connections.query(
            scope.world,
            """SELECT count(*) FILTER (WHERE s.state = 'pending'),
                 count(*) FILTER (WHERE s.state = 'quarantined')
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = %s
               WHERE d.deleted_at IS NULL""",
            (scope.generation.number,),
        )
        return rows[0][0], rows[0][1]

    @again_on_conflict
    def restore_text(self, scope: Scope, revision: RevisionRef) -> bool:
        """Write a revision's canonical text again from its chunks, if that gives its hash."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            key = revision_key(session, revision)
            text = from_chunks(session, key) if key is not None else None
            if text is None:
                return False
            session.execute(
                """INSERT INTO texts (revision, text) VALUES (%s, %s)
                   ON CONFLICT (world_id, revision) DO UPDATE SET text = excluded.text""",
                (key, text),
            )
            touch_world(session)
        return True

    @again_on_conflict
    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Let the next ingestion of a revision's source take it for changed."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            session.execute(
                "UPDATE revisions SET recipe = 'damaged' WHERE key = %s",
                (revision_key(session, revision),),
            )

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector]]]:
        """Give every vector kept for the scope's world and profile, in order of their hashes."""
        profile = scope.profile.id
        if hashes is not None:
            for part in _batches(hashes):
                rows = self._connections.query(
                    scope.world,
                    """SELECT text_hash, vector FROM vectors
                       WHERE profile_id = %s AND text_hash = ANY(%s)""",
                    (profile, part),
                )
                yield _vectors(rows)
            return
        after = ""
        while rows := self._connections.query(
            scope.world,
            """SELECT text_hash, vector FROM vectors
               WHERE profile_id = %s AND text_hash > %s ORDER BY text_hash LIMIT %s""",
            (profile, after, _PAGE),
        ):
            yield _vectors(rows)
            after = rows[-1][0]

    @again_on_conflict
    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove kept vectors, and mark every chunk pending that was written from them."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            session.execute(
                "DELETE FROM vectors WHERE profile_id = %s AND text_hash = ANY(%s)",
                (scope.profile.id, list(hashes)),
            )
            _doubt(session, scope.profile.id, hashes)
            touch_world(session)

    def foreign_vectors(self, scope: Scope) -> int:
        """Return how many vectors are kept for profiles that no generation of the world has."""
        rows = self._connections.query(
            scope.world,
            f"SELECT count(*) FROM vectors WHERE {_FOREIGN}",  # noqa: S608 -- written above
        )
        return rows[0][0]

    @again_on_conflict
    def drop_foreign_vectors(self, scope: Scope) -> None:
        """Remove them."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            be_patient(session)
            session.execute(f"DELETE FROM vectors WHERE {_FOREIGN}")  # noqa: S608

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, each with text that was checked."""
        rows = self._connections.query(
            scope.world,
            """SELECT min(chunk_id) FROM
                 (SELECT s.chunk_id, ntile(%s::int) OVER (ORDER BY s.text_hash) AS tile
                  FROM states s JOIN revisions r ON r.key = s.revision AND r.state = 'active'
                  WHERE s.generation = %s AND s.state = 'embedded') tiles
               GROUP BY tile ORDER BY tile""",
            (max(count, 1), scope.generation.number),
        )
        ids = [ChunkId(row[0]) for row in rows[:count]]
        texts = {
            chunk: data
            for page in self._rows(scope, ids)
            for chunk, data, recorded, stated in page
            if _is_whole(data, recorded, stated)
        }
        return [
            (chunk, texts[chunk.chunk_id].decode())
            for chunk in self.expected_among(scope, list(texts))
        ]


def _distrust_if_fewer(
    session: Session, key: int, generation: int, recorded: Sequence[Row]
) -> None:
    """Where there were more chunks once, let the next ingestion cut the source again."""
    if recorded:
        session.execute(
            """UPDATE revisions SET recipe = 'damaged' WHERE key = %(key)s AND %(chunks)s >
                 (SELECT chunks FROM tallies
                  WHERE revision = %(key)s AND generation = %(generation)s)""",
            {"key": key, "generation": generation, "chunks": recorded[0][0]},
        )


def _is_whole(data: bytes | None, recorded: str | None, stated: str) -> bool:
    """Say whether a row is there, and its bytes are those that it and its state tell of."""
    return data is not None and hash_bytes(data) == recorded == stated


def _text_flaw(session: Session, chunk: str, data: bytes | None) -> TextFlaw:
    chunk_id = ChunkId(chunk)
    seen = "" if data is None else hash_bytes(data)
    return TextFlaw(chunk_id, seen, restorable(session, chunk_id))


def _doubt(session: Session, profile: str, hashes: Sequence[TextHash]) -> None:
    """Mark the chunks of some texts pending, in every generation of the profile."""
    rows = fetch(
        session,
        """UPDATE states SET state = 'pending', warning = 'vector_lost'
           WHERE text_hash = ANY(%s) AND state = 'embedded' AND generation IN
             (SELECT number FROM generations WHERE profile_id = %s)
           RETURNING revision, generation""",
        (list(hashes), profile),
    )
    for revision, generation in sorted(set(rows)):
        tally(session, revision, generation)


def _vectors(rows: Iterable[Row]) -> list[tuple[TextHash, Vector]]:
    return [(TextHash(text_hash), Vector(vector)) for text_hash, vector in rows]


def _batches(values: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(values), _PAGE):
        yield list(values[start : start + _PAGE])
