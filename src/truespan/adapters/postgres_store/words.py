"""Counted words in PostgreSQL: plain rows by term, as in any other engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from truespan.adapters.postgres_store.connection import (
    Connections,
    Session,
    again_on_conflict,
    change_each,
    fetch,
)
from truespan.adapters.postgres_store.staging import revision_key
from truespan.adapters.postgres_store.worlds import lock_world, require_world
from truespan.adapters.stored_words import (
    packed_lengths,
    packed_places,
    postings_of,
    texts_digest,
    word_entry,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import TextHash
from truespan.types.scope import Scope, World, admits
from truespan.types.words import CountableChunk, CountedRevision, Postings, WordCatalog

_MOST_SHELVES = 8

_IN_FORCE: Final = """
    FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state = 'active'
    JOIN tallies t ON t.revision = r.key AND t.generation = %(generation)s
"""


class PostgresWords:
    """The part of the store that keeps how often words stand where."""

    _connections: Connections

    def __init__(self) -> None:
        super().__init__()
        self._word_shelves: dict[tuple[Any, ...], WordCatalog] = {}
        self._word_lock = threading.Lock()

    def counts_words(self, scope: Scope) -> bool:
        """Say whether words were ever counted in the scope's world and generation."""
        rows = self._connections.query(
            scope.world,
            "SELECT 1 FROM words WHERE generation = %s LIMIT 1",
            (scope.generation.number,),
        )
        return bool(rows)

    def word_shelf(self, scope: Scope, world: World) -> WordCatalog:
        """Return every revision in force of the scope's generation, by document number.

        It is remembered until the world changes or words are counted.
        """
        asked = (world.id, world.changes, scope.generation.number)
        known = self._word_shelves.get(asked)
        if known is None:
            known = self._read_shelf(scope)
            with self._word_lock:
                if len(self._word_shelves) >= _MOST_SHELVES:
                    self._word_shelves.clear()
                self._word_shelves[asked] = known
        return known

    def _read_shelf(self, scope: Scope) -> WordCatalog:
        asked = {"generation": scope.generation.number}
        with self._connections.reading(scope.world) as session:
            revisions = fetch(
                session,
                f"""SELECT r.key, d.number, r.number, r.language, w.recipe, w.texts, w.lengths
                    {_IN_FORCE} LEFT JOIN word_counts w
                      ON w.revision = r.key AND w.generation = %(generation)s
                    WHERE d.deleted_at IS NULL ORDER BY d.number""",
                asked,
            )
            states = fetch(
                session,
                f"""SELECT r.key, s.position, s.text_hash, s.state = 'embedded'
                    {_IN_FORCE} JOIN states s ON s.revision = r.key
                      AND s.generation = %(generation)s
                      AND s.kind = 'text' AND s.state <> 'quarantined'
                    WHERE d.deleted_at IS NULL ORDER BY d.number, s.position""",
                asked,
            )
        chunks = {key: list(rows) for key, rows in groupby(states, key=lambda row: row[0])}
        return WordCatalog(tuple(word_entry(row, chunks.get(row[0], [])) for row in revisions))

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of kind text of a revision, in order, not yet believed."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            rows = fetch(
                session,
                """SELECT c.position, c.text, s.text_hash
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.revision = %s AND s.generation = %s AND s.kind = 'text'
                     AND s.state <> 'quarantined' ORDER BY s.position""",
                (revision_key(session, revision), scope.generation.number),
            )
        return [CountableChunk(index, data, TextHash(found)) for index, data, found in rows]

    def keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        """Keep the words of revisions in place of what was kept of them, in one commit."""
        self._keep_words(scope, counted)
        with self._word_lock:
            self._word_shelves.clear()

    @again_on_conflict
    def _keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for one in counted:
                key = revision_key(session, one.ref)
                if key is not None:
                    _keep(session, scope.generation.number, key, one)

    def postings(self, scope: Scope, term: str) -> Postings:
        """Return where a term stands, in any revision of the scope's world and generation."""
        rows = self._connections.query(
            scope.world,
            "SELECT revision, postings FROM words WHERE generation = %s AND term = %s",
            (scope.generation.number, term),
        )
        return postings_of(rows)

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return key and chunk index of what stands in the scope's chapter and section."""
        rows = self._connections.query(
            scope.world,
            f"""SELECT d.number, r.key, c.position, coalesce(c.chapter, r.title),
                  coalesce(c.section, c.chapter, r.title)
                {_IN_FORCE} JOIN chunks c ON c.revision = r.key
                  AND c.generation = %(generation)s WHERE d.deleted_at IS NULL""",
            {"generation": scope.generation.number},
        )
        return {
            (key, index)
            for number, key, index, chapter, section in rows
            if admits(scope.documents, number)
            and scope.chapter in (None, chapter.casefold())
            and scope.section in (None, section.casefold())
        }


def _keep(session: Session, generation: int, key: int, counted: CountedRevision) -> None:
    session.execute("DELETE FROM words WHERE revision = %s AND generation = %s", (key, generation))
    change_each(
        session,
        "INSERT INTO words (generation, term, revision, postings) VALUES (%s, %s, %s, %s)",
        [
            (generation, term, key, packed_places(places))
            for term, places in sorted(counted.terms.items())
        ],
    )
    session.execute(
        """INSERT INTO word_counts (revision, generation, recipe, texts, lengths)
           VALUES (%s, %s, %s, %s, %s)
           ON CONFLICT (world_id, revision, generation) DO UPDATE SET recipe = excluded.recipe,
             texts = excluded.texts, lengths = excluded.lengths""",
        (
            key,
            generation,
            counted.recipe,
            texts_digest(sorted(counted.hashes.items())),
            packed_lengths(counted),
        ),
    )
