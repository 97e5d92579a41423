"""Comparing what is stored with what was recorded of it, page by page, for the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, LiteralString

from truespan.store.chunks import POINTS, STATES, pending_chunk, restorable
from truespan.store.rows import REVISION, numbers_of, revision_key, tally, tally_each
from truespan.store.session import Part, Row, Session, retry_on_conflict
from truespan.types.chunk import PendingChunk, Vector
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import Check, RevisionFlaw, RevisionPart, TallyFlaw, TextFlaw
from truespan.types.scope import Scope

_PAGE: Final = 256

_AMONG: Final = f"""
    WITH s AS MATERIALIZED ({STATES} AND chunk_id IN LIST(:ids) AND generation + 0 = :generation
      AND state = 'embedded')
    {POINTS} WHERE r.state <> 'retired'
"""

_TEXTS: Final = """
    SELECT s.revision, s.position, s.chunk_id, BYTES(c.text), c.text_hash, s.text_hash
    FROM states s JOIN revisions r ON r.key = s.revision AND r.state <> 'retired'
    LEFT JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE UNINDEXED(s.world_id) = :world AND s.generation = :generation
      AND s.state <> 'quarantined'
"""

# A generation that is being removed loses its rows and its counts over time.
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
    SELECT text_hash, vector FROM vectors WHERE world_id = :world AND profile_id = :profile
"""
_FOREIGN: Final = """vectors WHERE world_id = :world AND profile_id NOT IN
    (SELECT g.profile_id FROM generations g WHERE g.world_id = :world)"""


class Scrub(Part):
    """The part of the store that checks itself. Only the methods that say so change anything."""

    def soundness(self) -> list[Check]:
        return self._db.check()

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return those of the chunks that the index should hold, with vectors, without text."""
        return [
            pending_chunk(row)
            for batch in _batches(ids)
            for row in self._db.at(scope).all(
                _AMONG, ids=batch, profile=scope.profile.id, text=False
            )
        ]

    def text_flaws(
        self, scope: Scope, ids: Sequence[ChunkId] | None = None
    ) -> Iterator[list[TextFlaw]]:
        """Give the chunks of the generation whose rows are damaged; among `ids` if given. Chunks in
        quarantine are left out: they are known to be lost."""
        for rows in self._text_pages(scope, ids):
            broken = [row for row in rows if not _is_whole(*row[1:])]
            if broken:
                with self._db.read(scope) as session:
                    flaws = [
                        TextFlaw(
                            ChunkId(chunk),
                            "" if data is None else hash_bytes(data),
                            restorable(session, ChunkId(chunk)),
                        )
                        for chunk, data, *_ in broken
                    ]
                yield flaws

    def _text_pages(self, scope: Scope, ids: Sequence[ChunkId] | None) -> Iterator[list[Row]]:
        """Give rows of a chunk's id, its text, its hash, and the hash that its state has."""
        if ids is not None:
            for batch in _batches(ids):
                rows = self._db.at(scope).all(f"{_TEXTS} AND s.chunk_id IN LIST(:ids)", ids=batch)
                yield [row[2:] for row in rows]
            return
        # A page at a time: one statement over everything would keep deleted rows of others alive.
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
            yield [row[2:] for row in rows]
            revision, position = rows[-1][:2]

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Give what is damaged in the world's revisions, one revision at a time."""
        revisions = self._db.at(scope).all(
            """SELECT r.key, d.number, r.number FROM revisions r
               JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND r.state <> 'retired' ORDER BY r.key"""
        )
        for key, *numbers in revisions:
            with self._db.read(scope) as session:
                flaw = _find_revision_flaw(session, key, RevisionRef(*numbers))
            if flaw is not None:
                yield flaw

    def tally_flaws(self, scope: Scope) -> list[TallyFlaw]:
        """Return the stored counts, in any generation, that differ from a fresh count. Counts that
        are missing, and counts of what does not exist, are among them."""
        return [
            TallyFlaw(RevisionRef(*row[:2]), row[2], ",".join(map(str, row[3:])))
            for row in self._db.at(scope).all(_TALLIES)
        ]

    @retry_on_conflict
    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Store a fresh count of a revision's chunks in a generation. If there were more chunks
        once, the next ingestion reads the source again."""
        with self._db.write(scope, generation=generation) as session:
            key = revision_key(session, revision)
            if key is None:
                return
            recorded = session.value(
                """DELETE FROM tallies WHERE revision = :key AND generation = :generation
                   RETURNING chunks""",
                key=key,
            )
            if session.all(
                "SELECT 1 FROM generations WHERE world_id = :world AND number = :number",
                number=generation,
            ):
                tally(session, key, generation)
                if recorded is not None:
                    session.execute(
                        """UPDATE revisions SET recipe = 'damaged' WHERE key = :key AND :recorded >
                             (SELECT chunks FROM tallies
                              WHERE revision = :key AND generation = :generation)""",
                        key=key,
                        recorded=recorded,
                    )
            session.touch_world()

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return how many chunks that readers could see are pending, and how many in quarantine."""
        row = self._db.at(scope).one(
            """SELECT count(*) FILTER (WHERE s.state = 'pending'),
                 count(*) FILTER (WHERE s.state = 'quarantined')
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = :generation
               WHERE d.world_id = :world AND d.deleted_at IS NULL"""
        )
        return (row[0], row[1]) if row else (0, 0)

    @retry_on_conflict
    def restore_text(self, scope: Scope, revision: RevisionRef) -> bool:
        """Write a revision's text again from its chunks, if that has the recorded hash."""
        with self._db.write(scope) as session:
            key = revision_key(session, revision)
            text = _text_from_chunks(session, key) if key is not None else None
            if text is None:
                return False
            session.insert("texts", key=("revision",), revision=key, text=session.text(text))
            session.touch_world()
        return True

    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Make the next ingestion of a revision's source treat it as changed."""
        self._db.at(scope).execute(
            f"UPDATE revisions SET recipe = 'damaged' WHERE key = {REVISION}",
            **numbers_of(revision),
        )

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector]]]:
        """Give the stored vectors of the scope's profile, in pages; of `hashes` if given."""
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
    ) -> list[tuple[TextHash, Vector]]:
        rows = self._db.at(scope).all(statement, profile=scope.profile.id, **values)
        return [(text_hash, vector) for text_hash, vector in rows]

    @retry_on_conflict
    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove stored vectors, and mark every chunk pending that was written from them."""
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
        """Return how many vectors belong to profiles that no generation of the world has."""
        return self._db.at(scope).value(f"SELECT count(*) FROM {_FOREIGN}") or 0

    @retry_on_conflict
    def drop_foreign_vectors(self, scope: Scope) -> None:
        """Remove the vectors of profiles that no generation of the world has."""
        with self._db.write(scope) as session:
            session.disable_timeout()
            session.execute(f"DELETE FROM {_FOREIGN}")

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, each with text that was checked."""
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
            chunk: data
            for page in self._text_pages(scope, ids)
            for chunk, data, recorded, stated in page
            if _is_whole(data, recorded, stated)
        }
        return [
            (chunk, texts[chunk.chunk_id].decode())
            for chunk in self.expected_among(scope, list(texts))
        ]


def _is_whole(data: bytes | None, recorded: str | None, stated: str) -> bool:
    """Return whether a row exists and its text has the hash that it and its state record."""
    return data is not None and hash_bytes(data) == recorded == stated


def _find_revision_flaw(session: Session, key: int, ref: RevisionRef) -> RevisionFlaw | None:
    """Return what is damaged in a revision: its text, or its sentences; None if nothing is."""
    found = session.one(
        """SELECT BYTES(t.text), r.text_hash, r.sentences FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
        key=key,
    )
    if found is None:
        return None
    data, recorded, count = found
    if data is None or hash_bytes(data) != recorded:
        whole = _text_from_chunks(session, key) is not None
        return RevisionFlaw(ref, RevisionPart.TEXT, hash_bytes(data or b""), whole)
    text, expected, before = data.decode(), 0, 0
    wrong: list[bytes] = []
    for sid, start, end, digest in session.all(
        "SELECT sid, start, finish, text_hash FROM sentences WHERE revision = :key ORDER BY sid",
        key=key,
    ):
        sound = sid == expected and before <= start < end <= len(text)
        if not sound or sha256(text[start:end].encode()).digest() != digest:
            wrong.append(f"{sid}:{start}:{end}:".encode() + digest)
        expected, before = sid + 1, max(before, min(end, len(text)))
    if expected != count:
        wrong.append(f"{expected} of {count}".encode())
    seen = sha256(b"".join(wrong)).hexdigest()
    return RevisionFlaw(ref, RevisionPart.SENTENCES, seen, False) if wrong else None


def _text_from_chunks(session: Session, key: int) -> str | None:
    """Return a revision's text with every intact chunk laid over what is left of it. None unless
    that has the recorded hash: nothing is guessed."""
    [(data, recorded, characters)] = session.all(
        """SELECT BYTES(t.text), r.text_hash, r.characters FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
        key=key,
    )
    left = (data or b"").decode(errors="replace")
    # Where code points were lost or added, the offsets are unknown; only white space is assumed.
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
