"""States of words. A row belongs to the vector of its text, and is removed with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from truespan.store.engines.session import Part, Session, retry_on_conflict
from truespan.store.integrity.checksums import word_states_checksum
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope
from truespan.types.vectors import WordStates

_PAGE: Final = 256
_AMONG: Final = """world_id = :world AND profile_id = :profile AND text_hash IN LIST(:hashes)"""
_LACKING: Final = """
    SELECT s.text_hash, min(s.chunk_id) FROM states s
    JOIN revisions r ON r.key = s.revision AND r.state = 'active'
    JOIN vectors v ON v.world_id = :world AND v.profile_id = :profile
      AND v.text_hash = s.text_hash
    WHERE s.world_id = :world AND s.generation = :generation AND s.state = 'embedded'
      AND s.text_hash > :after AND NOT EXISTS (SELECT 1 FROM word_states w
        WHERE w.world_id = :world AND w.profile_id = :profile AND w.text_hash = s.text_hash)
    GROUP BY s.text_hash ORDER BY s.text_hash LIMIT :limit
"""


class WordStateRows(Part):
    @retry_on_conflict
    def keep(self, scope: Scope, states: Mapping[TextHash, WordStates]) -> None:
        """Store the states of texts that have a vector; others are left out."""
        with self._db.write(scope, bulk=True, profile=scope.profile.id) as session:
            rows = session.all(f"SELECT text_hash FROM vectors WHERE {_AMONG}", hashes=[*states])
            insert_word_states(session, scope, {known: states[known] for (known,) in rows})

    def flaws(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[tuple[TextHash, str]]:
        """Yield the texts with damaged states, among `hashes` if given, and a digest of each row.

        Only states of the scope's profile are read.
        """
        world, profile = scope.world, scope.profile.id
        among = "" if hashes is None else "AND text_hash IN LIST(:hashes)"
        after = ""
        while rows := self._db.at(scope, profile=profile).all(
            f"""SELECT text_hash, states, checksum FROM word_states
                WHERE world_id = :world AND profile_id = :profile AND text_hash > :after {among}
                ORDER BY text_hash LIMIT :limit""",
            after=after,
            limit=_PAGE,
            **({} if hashes is None else {"hashes": [*hashes]}),
        ):
            for text_hash, states, recorded in rows:
                if recorded != word_states_checksum(world, profile, text_hash, states):
                    yield text_hash, hash_bytes(states + recorded)
            after = rows[-1][0]

    @retry_on_conflict
    def forget(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove the states of texts, so that they are computed again."""
        with self._db.write(scope, profile=scope.profile.id) as session:
            session.execute(f"DELETE FROM word_states WHERE {_AMONG}", hashes=[*hashes])

    def lacking(
        self, scope: Scope, *, after: TextHash, limit: int
    ) -> list[tuple[TextHash, ChunkId]]:
        """Return texts of active revisions with a vector and without states, by their hash.

        Each comes with one of the chunks that have the text.
        """
        rows = self._db.at(scope, profile=scope.profile.id).all(_LACKING, after=after, limit=limit)
        return [(TextHash(text_hash), ChunkId(chunk_id)) for text_hash, chunk_id in rows]


def insert_word_states(
    session: Session, scope: Scope, states: Mapping[TextHash, WordStates]
) -> None:
    """Write the states of texts whose vectors are already stored."""
    world, profile = scope.world, scope.profile.id
    session.insert_many(
        "word_states",
        ("profile_id", "text_hash", "states", "checksum"),
        [
            (profile, known, rows, word_states_checksum(world, profile, known, rows))
            for known, rows in states.items()
        ],
        key=("profile_id", "text_hash"),
    )
