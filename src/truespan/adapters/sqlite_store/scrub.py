"""Holding what SQLite keeps against what was recorded of it, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import apsw

from truespan.adapters.sqlite_store.chunks import POINTS
from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.rebuild import restorable
from truespan.adapters.sqlite_store.staging import revision_key, tally
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.adapters.stored_rows import pending_chunk
from truespan.types.chunk import PendingChunk, Vector
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import RevisionFlaw, RevisionPart, TallyFlaw, TextFlaw
from truespan.types.scope import Scope

_PAGE = 256
_WORLD = "(SELECT key FROM worlds WHERE id = ?)"

_ROWS = f"""
    SELECT s.chunk_id, CAST(c.text AS BLOB), c.text_hash, s.text_hash FROM states s
    JOIN revisions r ON r.key = s.revision AND r.state <> 'retired'
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE s.generation = ? AND s.world = {_WORLD} AND s.state <> 'quarantined'
"""  # noqa: S608 -- the name is written above

# A generation that is being removed loses its rows and its counts by and by.
_TALLIES = """
    WITH own AS (
      SELECT r.key, d.number AS document, r.number AS revision, d.world FROM revisions r
      JOIN documents d ON d.key = r.document
      WHERE r.state <> 'retired' AND d.world = (SELECT key FROM worlds WHERE id = ?)
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
    LEFT JOIN generations g ON g.world = own.world AND g.number = told.generation
    WHERE CASE WHEN g.number IS NULL THEN t.chunks IS NOT NULL
      ELSE g.removed_at IS NULL AND (t.chunks, t.embedded, t.quarantined) IS NOT
        (coalesce(c.chunks, 0), coalesce(c.embedded, 0), coalesce(c.quarantined, 0)) END
    ORDER BY 1, 2, 3
"""


class SqliteScrub:
    """The part of the store that looks at itself."""

    _connections: Connections

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return those of the chunks that the index should hold, with vectors, without text."""
        found: list[PendingChunk] = []
        for part in _batches(ids):
            rows = self._connections.query(
                POINTS.format(text="NULL")
                + f""" WHERE s.chunk_id IN ({_marks(part)}) AND s.generation = ?
                      AND s.state = 'embedded' AND r.state <> 'retired' AND +s.world = {_WORLD}""",
                (scope.profile.id, *part, scope.generation.number, scope.world),
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
                with self._connections.reading() as connection:
                    world = world_key(connection, scope)
                    flaws = [_text_flaw(connection, world, *row[:2]) for row in broken]
                yield flaws

    def _rows(
        self, scope: Scope, ids: Sequence[ChunkId] | None
    ) -> Iterator[Sequence[tuple[Any, ...]]]:
        named = (scope.generation.number, scope.world)
        if ids is not None:
            for part in _batches(ids):
                sql = f"{_ROWS} AND s.chunk_id IN ({_marks(part)})"
                yield self._connections.query(sql, (*named, *part))
            return
        # A page at a time: one statement over everything would hold back the write-ahead log.
        after = (-1, -1)
        while rows := self._connections.query(
            f"""{_ROWS.replace("SELECT", "SELECT s.revision, s.position,", 1)}
                AND (s.revision, s.position) > (?, ?)
                ORDER BY s.revision, s.position LIMIT {_PAGE}""",
            (*named, *after),
        ):
            yield [row[2:] for row in rows]
            after = rows[-1][:2]

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Give what of the world's revisions cannot be believed, one revision at a time."""
        revisions = self._connections.query(
            f"""SELECT r.key, d.number, r.number FROM revisions r
               JOIN documents d ON d.key = r.document
               WHERE r.state <> 'retired' AND d.world = {_WORLD} ORDER BY r.key""",  # noqa: S608
            (scope.world,),
        )
        for key, document, number in revisions:
            with self._connections.reading() as connection:
                flaw = _revision_flaw(connection, key, RevisionRef(document, number))
            if flaw is not None:
                yield flaw

    def tally_flaws(self, scope: Scope) -> list[TallyFlaw]:
        """Return the counts, in any generation of the world, that are not what is counted now."""
        rows = self._connections.query(_TALLIES, (scope.world,))
        return [
            TallyFlaw(RevisionRef(*row[:2]), row[2], ",".join(map(str, row[3:]))) for row in rows
        ]

    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Make a revision's count in a generation what its chunks are."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            key = revision_key(connection, world, revision)
            if key is None:
                return
            recorded = fetch(
                connection,
                "DELETE FROM tallies WHERE revision = ? AND generation = ? RETURNING chunks",
                (key, generation),
            )
            if _is_generation(connection, world, generation):
                tally(connection, key, generation)
                _distrust_if_fewer(connection, key, generation, recorded)
            touch_world(connection, world)

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return how many chunks readers could see are pending, and how many are in quarantine."""
        rows = self._connections.query(
            f"""SELECT count(*) FILTER (WHERE s.state = 'pending'),
                 count(*) FILTER (WHERE s.state = 'quarantined')
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = ?
               WHERE d.world = {_WORLD} AND d.deleted_at IS NULL""",  # noqa: S608
            (scope.generation.number, scope.world),
        )
        return rows[0][0], rows[0][1]

    def restore_text(self, scope: Scope, revision: RevisionRef) -> bool:
        """Write a revision's canonical text again from its chunks, if that gives its hash."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            key = revision_key(connection, world, revision)
            text = _from_chunks(connection, key) if key is not None else None
            if text is None:
                return False
            connection.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (key, text))
            touch_world(connection, world)
        return True

    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Let the next ingestion of a revision's source take it for changed."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            key = revision_key(connection, world, revision)
            connection.execute("UPDATE revisions SET recipe = 'damaged' WHERE key = ?", (key,))

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector]]]:
        """Give every vector kept for the scope's world and profile, in order of their hashes."""
        wanted = f"SELECT text_hash, vector FROM vectors WHERE world = {_WORLD} AND profile_id = ?"  # noqa: S608
        named = (scope.world, scope.profile.id)
        if hashes is not None:
            for part in _batches(hashes):
                sql = f"{wanted} AND text_hash IN ({_marks(part)})"
                yield _vectors(self._connections.query(sql, (*named, *part)))
            return
        after = ""
        while rows := self._connections.query(
            f"{wanted} AND text_hash > ? ORDER BY text_hash LIMIT {_PAGE}", (*named, after)
        ):
            yield _vectors(rows)
            after = rows[-1][0]

    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove kept vectors, and mark every chunk pending that was written from them."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for text_hash in hashes:
                connection.execute(
                    "DELETE FROM vectors WHERE world = ? AND profile_id = ? AND text_hash = ?",
                    (world, scope.profile.id, text_hash),
                )
                _doubt(connection, world, scope.profile.id, text_hash)
            touch_world(connection, world)

    def foreign_vectors(self, scope: Scope) -> int:
        """Return how many vectors are kept for profiles that no generation of the world has."""
        rows = self._connections.query(
            f"SELECT count(*) FROM vectors WHERE {_FOREIGN}",  # noqa: S608
            (scope.world,),
        )
        return rows[0][0]

    def drop_foreign_vectors(self, scope: Scope) -> None:
        """Remove them."""
        with self._connections.writing() as connection:
            connection.execute(
                f"DELETE FROM vectors WHERE {_FOREIGN}",  # noqa: S608
                (scope.world,),
            )

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, each with text that was checked."""
        rows = self._connections.query(
            f"""SELECT chunk_id FROM
                 (SELECT s.chunk_id, ntile(?) OVER (ORDER BY s.text_hash) AS tile
                 FROM states s JOIN revisions r ON r.key = s.revision AND r.state = 'active'
                 WHERE s.generation = ? AND s.state = 'embedded' AND s.world = {_WORLD})
               GROUP BY tile""",  # noqa: S608
            (max(count, 1), scope.generation.number, scope.world),
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


_FOREIGN = """world = (SELECT key FROM worlds WHERE id = ?) AND profile_id NOT IN
    (SELECT g.profile_id FROM generations g WHERE g.world = vectors.world)"""


def _is_generation(connection: apsw.Connection, world: int, number: int) -> bool:
    known = "SELECT 1 FROM generations WHERE world = ? AND number = ?"
    return bool(fetch(connection, known, (world, number)))


def _distrust_if_fewer(
    connection: apsw.Connection, key: int, generation: int, recorded: Sequence[tuple[Any, ...]]
) -> None:
    """Where there were more chunks once, let the next ingestion cut the source again."""
    if recorded:
        connection.execute(
            """UPDATE revisions SET recipe = 'damaged' WHERE key = ?1 AND ?3 >
                 (SELECT chunks FROM tallies WHERE revision = ?1 AND generation = ?2)""",
            (key, generation, recorded[0][0]),
        )


def _is_whole(data: bytes | None, recorded: str | None, stated: str) -> bool:
    """Say whether a row is there, and its bytes are those that it and its state tell of."""
    return data is not None and hash_bytes(data) == recorded == stated


def _text_flaw(connection: apsw.Connection, world: int, chunk: str, data: bytes | None) -> TextFlaw:
    chunk_id = ChunkId(chunk)
    seen = "" if data is None else hash_bytes(data)
    return TextFlaw(chunk_id, seen, restorable(connection, world, chunk_id))


def _revision_flaw(connection: apsw.Connection, key: int, ref: RevisionRef) -> RevisionFlaw | None:
    rows = fetch(
        connection,
        """SELECT CAST(t.text AS BLOB), r.text_hash, r.sentences FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = ?""",
        (key,),
    )
    if not rows:
        return None
    data, recorded, count = rows[0]
    if data is None or hash_bytes(data) != recorded:
        whole = _from_chunks(connection, key) is not None
        return RevisionFlaw(ref, RevisionPart.TEXT, hash_bytes(data or b""), whole)
    wrong = _wrong_sentences(connection, key, data.decode(), count)
    return RevisionFlaw(ref, RevisionPart.SENTENCES, wrong, False) if wrong else None


def _wrong_sentences(connection: apsw.Connection, key: int, text: str, count: int) -> str:
    """Return a digest of the sentence rows that do not match a text; empty when all do."""
    wrong, expected, before = sha256(), 0, 0
    found = False
    for sid, start, finish, digest in connection.execute(
        "SELECT sid, start, finish, text_hash FROM sentences WHERE revision = ? ORDER BY sid",
        (key,),
    ):
        sound = sid == expected and before <= start < finish <= len(text)
        if not sound or sha256(text[start:finish].encode()).digest() != digest:
            wrong.update(f"{sid}:{start}:{finish}:".encode() + digest)
            found = True
        expected, before = sid + 1, max(before, min(finish, len(text)))
    if expected != count:
        wrong.update(f"{expected} of {count}".encode())
        found = True
    return wrong.hexdigest() if found else ""


def _from_chunks(connection: apsw.Connection, key: int) -> str | None:
    """Return a revision's text with every intact chunk laid over what is left of it.

    None unless that gives the recorded hash: nothing is ever guessed.
    """
    rows = fetch(
        connection,
        """SELECT CAST(t.text AS BLOB), r.text_hash, r.characters FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = ?""",
        (key,),
    )
    data, recorded, characters = rows[0]
    left = (data or b"").decode(errors="replace")
    # Where code points were lost or added, their places are unknown; only white space is assumed.
    letters = list(left) if len(left) == characters else [" "] * characters
    for start, chunk, text_hash in connection.execute(
        """SELECT s.start, CAST(c.text AS BLOB), s.text_hash FROM states s
           JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
             AND c.position = s.position
           WHERE s.revision = ? AND s.kind = 'text'""",
        (key,),
    ):
        if hash_bytes(chunk) == text_hash:
            passage = chunk.decode()
            letters[start : start + len(passage)] = passage
    text = "".join(letters)
    return text if hash_bytes(text.encode(errors="replace")) == recorded else None


def _doubt(connection: apsw.Connection, world: int, profile: str, text_hash: str) -> None:
    """Mark the chunks of a text pending, in every generation of the profile."""
    rows = fetch(
        connection,
        """UPDATE states SET state = 'pending', warning = 'vector_lost'
           WHERE world = ?1 AND text_hash = ?3 AND state = 'embedded' AND generation IN
             (SELECT number FROM generations WHERE world = ?1 AND profile_id = ?2)
           RETURNING revision, generation""",
        (world, profile, text_hash),
    )
    for revision, generation in set(rows):
        tally(connection, revision, generation)


def _vectors(rows: Iterable[tuple[Any, ...]]) -> list[tuple[TextHash, Vector]]:
    return [(TextHash(text_hash), Vector(vector)) for text_hash, vector in rows]


def _marks(values: Sequence[str]) -> str:
    return ",".join("?" * len(values))


def _batches(values: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(values), _PAGE):
        yield tuple(values[start : start + _PAGE])
