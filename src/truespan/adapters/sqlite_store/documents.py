"""Documents and revisions in SQLite: staged, flipped, retired, purged."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.erasure import counting, queue_revision, redact
from truespan.adapters.sqlite_store.readers import reanchor
from truespan.adapters.sqlite_store.recutting import is_kept
from truespan.adapters.sqlite_store.staging import revision_key, stage, tally
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.errors import DocumentNotFound, GenerationNotFound, StoreDamaged
from truespan.protocols import Clock
from truespan.types.chunk import PendingChunk, Vector
from truespan.types.document import Document, Draft, OutlineEntry, RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope, Unlimited
from truespan.types.source import DocumentKind

_LISTED = """
    SELECT d.number, d.doc_id, r.name, r.path, r.kind, r.title, r.language, r.version, r.tags,
      r.declared_title, r.language_declared, r.chunking, a.number, s.number, r.source_hash,
      r.recipe, coalesce(t.chunks, 0), coalesce(t.embedded, 0),
      coalesce(t.quarantined, 0), r.characters, r.sentences, r.language_stated, r.source_url,
      r.metadata, CASE WHEN t.quarantined > 0 THEN (SELECT count(*) FROM states x
        WHERE x.revision = r.key AND x.generation = :generation AND x.state = 'quarantined'
          AND x.warning = 'too_long') ELSE 0 END, r.origin
    FROM documents d
    LEFT JOIN revisions a ON a.document = d.key AND a.state = 'active'
    LEFT JOIN revisions s ON s.document = d.key AND s.state = 'staged'
    JOIN revisions r ON r.key = coalesce(s.key, a.key)
    LEFT JOIN tallies t ON t.revision = r.key AND t.generation = :generation
    WHERE d.world = :world AND d.deleted_at IS NULL
"""
_THESE_NUMBERS = " AND d.number IN (SELECT value FROM json_each(:numbers))"
_THESE_IDS = " AND d.doc_id IN (SELECT value FROM json_each(:ids))"

_KIND, _TAGS, _SAID, _QUARANTINED, _STATED, _SKIPPED = 4, 8, 10, 18, 21, 24
"""Which of these columns need a second look. Their order is that of a `Document`'s fields."""


class SqliteDocuments:
    """The part of the store that knows documents and revisions."""

    _connections: Connections
    _clock: Clock

    def documents(self, scope: Scope, *, named: Collection[str] | None = None) -> list[Document]:
        """Return every document that is not deleted, by number; of some ids alone, if given."""
        asked, bound = _LISTED, dict[str, Any](generation=scope.generation.number)
        if not isinstance(scope.documents, Unlimited):
            asked, bound["numbers"] = asked + _THESE_NUMBERS, json.dumps([*scope.documents])
        if named is not None:
            asked, bound["ids"] = asked + _THESE_IDS, json.dumps([*named])
        # The plus keeps the planner from walking the whole world to have them in order.
        order = "d.number" if named is None else "+d.number"
        with self._connections.reading() as connection:
            bound["world"] = world_key(connection, scope)
            rows = fetch(connection, f"{asked} ORDER BY {order}", bound)
        return [_document_row(row) for row in rows]

    def stage(self, scope: Scope, drafts: Sequence[Draft]) -> list[RevisionRef]:
        """Write revisions with all their rows, invisible to readers, in one commit."""
        now = self._clock.now()
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            if not is_kept(connection, world, scope.generation.number):
                raise GenerationNotFound(scope.generation.number)
            return [stage(connection, scope, world, draft, now) for draft in drafts]

    def keep_vectors(self, scope: Scope, vectors: Mapping[TextHash, Vector]) -> None:
        """Commit vectors, so that what was paid for survives whatever comes next."""
        profile = scope.profile.id
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.executemany(
                # Only for text that is still there: another run may have replaced and purged it.
                """INSERT OR REPLACE INTO vectors SELECT ?1, ?2, ?3, ?4
                   WHERE EXISTS (SELECT 1 FROM states WHERE world = ?1 AND text_hash = ?3)
                     OR EXISTS (SELECT 1 FROM tails WHERE text_hash = ?3)""",
                [(world, profile, key, vector) for key, vector in vectors.items()],
            )

    def mark_embedded(self, scope: Scope, chunks: Sequence[PendingChunk]) -> None:
        """Record that the flushed index holds these chunks, unless they have changed since."""
        generation = scope.generation.number
        by_revision: dict[RevisionRef, list[PendingChunk]] = {}
        for chunk in chunks:
            ref = RevisionRef(chunk.document, chunk.revision)
            by_revision.setdefault(ref, []).append(chunk)
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for ref, marked in by_revision.items():
                key = revision_key(connection, world, ref)
                connection.executemany(
                    """UPDATE states SET state = 'embedded', warning = NULL
                       WHERE revision = ? AND generation = ? AND position = ?
                         AND text_hash = ? AND state = 'pending'""",
                    [(key, generation, chunk.index, chunk.text_hash) for chunk in marked],
                )
                if key is not None:
                    tally(connection, key, generation)
            touch_world(connection, world)

    def flip(self, scope: Scope, revisions: Sequence[RevisionRef]) -> list[RevisionRef]:
        """Make fully embedded staged revisions the ones readers see; return those that were."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            flipped = [ref for ref in revisions if _flip(connection, world, ref)]
            touch_world(connection, world)
        return flipped

    def withdraw(self, scope: Scope, revisions: Sequence[RevisionRef]) -> None:
        """Give up revisions that are still staged; a document that has no other is hidden too."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for ref in revisions:
                key = revision_key(connection, world, ref, state="staged")
                connection.execute("UPDATE revisions SET state = 'retired' WHERE key = ?", (key,))
                connection.execute(
                    """UPDATE documents SET deleted_at = ?1 WHERE deleted_at IS NULL
                       AND key = (SELECT document FROM revisions WHERE key = ?2)
                       AND NOT EXISTS (SELECT 1 FROM revisions r
                         WHERE r.document = documents.key AND r.state <> 'retired')""",
                    (self._clock.now(), key),
                )
            touch_world(connection, world)

    def relabel(
        self,
        scope: Scope,
        document: int,
        *,
        language: str | None,
        version: str,
        tags: Sequence[str],
        source_url: str | None,
        metadata: str | None,
        origin: str,
    ) -> None:
        """Change the labels of a document that decide neither its text nor its chunks."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.execute(
                """UPDATE revisions SET version = ?1, tags = ?2,
                     language = coalesce(?3, language),
                     language_declared = language_declared OR ?3 IS NOT NULL,
                     language_stated = language_stated AND ?3 IS NULL,
                     source_url = ?6, metadata = ?7, origin = ?8,
                     derived = NULL
                   WHERE state IN ('active', 'staged') AND document =
                   (SELECT key FROM documents WHERE world = ?4 AND number = ?5)""",
                (
                    version,
                    json.dumps(tags),
                    language,
                    world,
                    document,
                    source_url,
                    metadata,
                    origin,
                ),
            )
            touch_world(connection, world)

    def tombstone(self, scope: Scope, document: int, *, erase: bool = False) -> dict[str, int]:
        """Hide a document from every reader at once."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.execute(
                """UPDATE documents SET deleted_at = ?, erase = ?
                   WHERE world = ? AND number = ? AND deleted_at IS NULL""",
                (self._clock.now(), int(erase), world, document),
            )
            if not connection.changes():
                raise DocumentNotFound(str(document))
            changed = redact(connection, world, document) if erase else {}
            connection.execute(
                """UPDATE revisions SET state = 'retired' WHERE document =
                   (SELECT key FROM documents WHERE world = ? AND number = ?)""",
                (world, document),
            )
            touch_world(connection, world)
        return changed

    def retired(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions that no reader sees any more but whose points and rows remain."""
        rows = self._connections.query(
            # Crossed, so that the few that are retired are looked up and not all that there are.
            """SELECT d.number, r.number
               FROM revisions r CROSS JOIN documents d ON d.key = r.document
               WHERE r.state = 'retired' AND d.world = (SELECT key FROM worlds WHERE id = ?)
               ORDER BY 1, 2""",
            (scope.world,),
        )
        return [RevisionRef(*row) for row in rows]

    def chunk_ids(self, scope: Scope, revision: RevisionRef) -> list[ChunkId]:
        """Return the ids of all chunks of a revision."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(
                connection,
                "SELECT chunk_id FROM states WHERE revision = ? AND generation = ?",
                (key, scope.generation.number),
            )
        return [ChunkId(row[0]) for row in rows]

    def purge(self, scope: Scope, revision: RevisionRef) -> dict[str, int]:
        """Remove a retired revision's rows and the vectors that nothing else needs."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            key = revision_key(connection, world, revision, state="retired")
            if key is None:
                return {}
            queue_revision(connection, key, self._clock.now())
            removed = _purge_counted(connection, world, key)
            # A search that found its points before and looks for its rows now must be told.
            touch_world(connection, world)
        return removed

    def outline(self, scope: Scope, document: int) -> list[OutlineEntry]:
        """Return where the chapters and sections of the revision readers see begin."""
        rows = self._connections.query(
            """SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                       WHERE s.revision = p.revision AND s.start >= p.start),
                 p.start, p.chapter, p.section
               FROM places p
               JOIN revisions r ON r.key = p.revision AND r.state = 'active'
               JOIN documents d ON d.key = r.document
               WHERE d.number = ? AND d.world = (SELECT key FROM worlds WHERE id = ?)
               ORDER BY p.start""",
            (document, scope.world),
        )
        return [OutlineEntry(*row) for row in rows]

    def sentences_across(
        self, scope: Scope, document: int, start: int, end: int
    ) -> tuple[int, int]:
        """Return the first and last sentence that a span of the revision in force touches."""
        rows = self._connections.query(
            """SELECT coalesce(min(s.sid), -1), coalesce(max(s.sid), -1) FROM sentences s
               WHERE s.revision = (SELECT r.key FROM revisions r
                 JOIN documents d ON d.key = r.document AND r.state = 'active'
                 WHERE d.number = ? AND d.world = (SELECT key FROM worlds WHERE id = ?))
                 AND s.finish > ? AND s.start < ?""",
            (document, scope.world, start, end),
        )
        return rows[0][0], rows[0][1]

    def canonical_text(self, scope: Scope, document: int) -> str:
        """Return the text of the revision readers see, checked against its hash."""
        rows = self._connections.query(
            """SELECT CAST(t.text AS BLOB), r.text_hash
               FROM revisions r JOIN documents d ON d.key = r.document AND r.state = 'active'
               JOIN texts t ON t.revision = r.key
               WHERE d.number = ? AND d.world = (SELECT key FROM worlds WHERE id = ?)""",
            (document, scope.world),
        )
        if not rows:
            raise DocumentNotFound(str(document))
        data, recorded = rows[0]
        if hash_bytes(data) != recorded:
            raise StoreDamaged(f"The text of document {document} does not match its hash.")
        return data.decode()


def _document_row(row: tuple[Any, ...]) -> Document:
    values = list(row)
    values[_KIND] = DocumentKind(row[_KIND])
    values[_TAGS] = () if row[_TAGS] == "[]" else tuple(json.loads(row[_TAGS]))
    values[_SAID], values[_STATED] = bool(row[_SAID]), bool(row[_STATED])
    # What was skipped on purpose is set aside in the same way, and is no damage.
    values[_QUARANTINED] -= row[_SKIPPED]
    return Document(*values)


def _flip(connection: apsw.Connection, world: int, ref: RevisionRef) -> bool:
    """Flip one revision if it is still staged, its document is there, and nothing is pending.

    That holds for every generation that readers are sent to: no document may vanish from one of
    them while it is replaced in another.
    """
    key = revision_key(connection, world, ref, state="staged")
    if key is None:
        return False
    unfinished = fetch(
        connection,
        """SELECT 1 FROM (SELECT generation FROM worlds WHERE key = ?1
             UNION SELECT generation FROM aliases WHERE world = ?1) named
           LEFT JOIN tallies t ON t.revision = ?2 AND t.generation = named.generation
           WHERE t.chunks IS NULL OR t.chunks > t.embedded + t.quarantined LIMIT 1""",
        (world, key),
    )
    if unfinished:
        return False
    reanchor(connection, key)
    connection.execute(
        """UPDATE revisions SET state = 'retired' WHERE state = 'active' AND document =
           (SELECT document FROM revisions WHERE key = ?)""",
        (key,),
    )
    connection.execute("UPDATE revisions SET state = 'active' WHERE key = ?", (key,))
    return True


def _purge_counted(connection: apsw.Connection, world: int, key: int) -> dict[str, int]:
    """Purge a revision; count the rows if somebody wants to know, which a receipt does."""
    wanted = fetch(
        connection,
        "SELECT d.erase FROM documents d JOIN revisions r ON r.document = d.key WHERE r.key = ?",
        (key,),
    )
    if not wanted[0][0]:
        _purge(connection, world, key)
        return {}
    with counting(connection) as removed:
        _purge(connection, world, key)
    return removed


def _purge(connection: apsw.Connection, world: int, key: int) -> None:
    connection.execute(
        """DELETE FROM vectors WHERE world = ?1
           AND text_hash IN (SELECT text_hash FROM states WHERE revision = ?2
             UNION SELECT text_hash FROM tails WHERE revision = ?2)
           AND NOT EXISTS (SELECT 1 FROM states s WHERE s.world = ?1
             AND s.text_hash = vectors.text_hash AND s.revision <> ?2)
           AND NOT EXISTS (SELECT 1 FROM tails t
             WHERE t.text_hash = vectors.text_hash AND t.revision <> ?2)""",
        (world, key),
    )
    connection.execute(
        """DELETE FROM repairs WHERE world = ?
           AND chunk_id IN (SELECT chunk_id FROM states WHERE revision = ?)""",
        (world, key),
    )
    connection.execute("DELETE FROM states WHERE revision = ?", (key,))
    document = fetch(connection, "DELETE FROM revisions WHERE key = ? RETURNING document", (key,))[
        0
    ][0]
    connection.execute(
        """DELETE FROM documents WHERE key = ?1 AND deleted_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM revisions WHERE document = ?1)""",
        (document,),
    )
