"""Counted words in SQLite: plain rows by term, so that any engine can keep them alike."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.staging import revision_key
from truespan.adapters.sqlite_store.worlds import world_key
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

_IN_FORCE = """
    FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state = 'active'
    JOIN tallies t ON t.revision = r.key AND t.generation = ?1
"""
_OF_WORLD = " WHERE d.world = (SELECT key FROM worlds WHERE id = ?2) AND d.deleted_at IS NULL"


class SqliteWords:
    """The part of the store that keeps how often words stand where."""

    _connections: Connections

    def __init__(self) -> None:
        super().__init__()
        self._word_shelves: dict[tuple[Any, ...], WordCatalog] = {}
        self._word_lock = threading.Lock()

    def counts_words(self, scope: Scope) -> bool:
        """Say whether words were ever counted in the scope's world and generation."""
        rows = self._connections.query(
            """SELECT 1 FROM words WHERE generation = ?
               AND world = (SELECT key FROM worlds WHERE id = ?) LIMIT 1""",
            (scope.generation.number, scope.world),
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
        bound = (scope.generation.number, scope.world)
        with self._connections.reading() as connection:
            revisions = fetch(
                connection,
                f"""SELECT r.key, d.number, r.number, r.language, w.recipe, w.texts, w.lengths
                    {_IN_FORCE} LEFT JOIN word_counts w
                      ON w.revision = r.key AND w.generation = ?1
                    {_OF_WORLD} ORDER BY d.number""",
                bound,
            )
            states = fetch(
                connection,
                f"""SELECT r.key, s.position, s.text_hash, s.state = 'embedded'
                    {_IN_FORCE} JOIN states s ON s.revision = r.key AND s.generation = ?1
                      AND s.kind = 'text' AND s.state <> 'quarantined'
                    {_OF_WORLD} ORDER BY d.number, s.position""",
                bound,
            )
        chunks = {key: list(rows) for key, rows in groupby(states, key=lambda row: row[0])}
        return WordCatalog(tuple(word_entry(row, chunks.get(row[0], [])) for row in revisions))

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of kind text of a revision, in order, not yet believed."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(
                connection,
                """SELECT c.position, CAST(c.text AS BLOB), s.text_hash
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.revision = ? AND s.generation = ? AND s.kind = 'text'
                     AND s.state <> 'quarantined' ORDER BY s.position""",
                (key, scope.generation.number),
            )
        return [CountableChunk(index, data, TextHash(found)) for index, data, found in rows]

    def keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        """Keep the words of revisions in place of what was kept of them, in one commit."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for one in counted:
                key = revision_key(connection, world, one.ref)
                if key is not None:
                    _keep(connection, world, scope.generation.number, key, one)
        with self._word_lock:
            self._word_shelves.clear()

    def postings(self, scope: Scope, term: str) -> Postings:
        """Return where a term stands, in any revision of the scope's world and generation."""
        rows = self._connections.query(
            """SELECT revision, postings FROM words WHERE generation = ? AND term = ?
               AND world = (SELECT key FROM worlds WHERE id = ?)""",
            (scope.generation.number, term, scope.world),
        )
        return postings_of(rows)

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return key and chunk index of what stands in the scope's chapter and section."""
        rows = self._connections.query(
            f"""SELECT d.number, r.key, c.position, coalesce(c.chapter, r.title),
                  coalesce(c.section, c.chapter, r.title)
                {_IN_FORCE} JOIN chunks c ON c.revision = r.key AND c.generation = ?1
                {_OF_WORLD}""",
            (scope.generation.number, scope.world),
        )
        return {
            (key, index)
            for number, key, index, chapter, section in rows
            if admits(scope.documents, number)
            and scope.chapter in (None, chapter.casefold())
            and scope.section in (None, section.casefold())
        }


def _keep(
    connection: apsw.Connection, world: int, generation: int, key: int, counted: CountedRevision
) -> None:
    connection.execute("DELETE FROM words WHERE revision = ? AND generation = ?", (key, generation))
    connection.executemany(
        "INSERT INTO words VALUES (?, ?, ?, ?, ?)",
        [
            (world, generation, term, key, packed_places(places))
            for term, places in sorted(counted.terms.items())
        ],
    )
    connection.execute(
        "INSERT OR REPLACE INTO word_counts VALUES (?, ?, ?, ?, ?)",
        (
            key,
            generation,
            counted.recipe,
            texts_digest(sorted(counted.hashes.items())),
            packed_lengths(counted),
        ),
    )
