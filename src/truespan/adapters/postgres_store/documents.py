"""Documents and revisions in PostgreSQL: staged, flipped, retired, purged."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Session,
    again_on_conflict,
    be_patient,
    change,
    change_each,
    fetch,
)
from truespan.adapters.postgres_store.counting import counting
from truespan.adapters.postgres_store.erasure_queue import queue_files, wish_of
from truespan.adapters.postgres_store.generations import is_kept
from truespan.adapters.postgres_store.readers import reanchor
from truespan.adapters.postgres_store.redaction import redact
from truespan.adapters.postgres_store.staging import revision_key, stage, tally
from truespan.adapters.postgres_store.statistics import growing
from truespan.adapters.postgres_store.worlds import lock_world, require_world, touch_world
from truespan.errors import DocumentNotFound, GenerationNotFound, StoreDamaged
from truespan.protocols import Clock
from truespan.types.chunk import PendingChunk, Vector
from truespan.types.document import Document, Draft, OutlineEntry, RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope, Unlimited
from truespan.types.source import DocumentKind

_LISTED: Final = """
    SELECT d.number, d.doc_id, r.name, r.path, r.kind, r.title, r.language, r.version, r.tags,
      r.declared_title, r.language_declared, r.chunking, a.number, s.number, r.source_hash,
      r.recipe, coalesce(t.chunks, 0), coalesce(t.embedded, 0),
      coalesce(t.quarantined, 0), r.characters, r.sentences, r.language_stated, r.source_url,
      r.metadata, CASE WHEN t.quarantined > 0 THEN (SELECT count(*) FROM states x
        WHERE x.revision = r.key AND x.generation = %(generation)s AND x.state = 'quarantined'
          AND x.warning = 'too_long') ELSE 0 END, r.origin
    FROM documents d
    LEFT JOIN revisions a ON a.document = d.key AND a.state = 'active'
    LEFT JOIN revisions s ON s.document = d.key AND s.state = 'staged'
    JOIN revisions r ON r.key = coalesce(s.key, a.key)
    LEFT JOIN tallies t ON t.revision = r.key AND t.generation = %(generation)s
    WHERE d.deleted_at IS NULL
"""
_THESE_NUMBERS: Final = " AND d.number = ANY(%(numbers)s)"
_THESE_IDS: Final = " AND d.doc_id = ANY(%(ids)s)"

_KIND, _TAGS, _QUARANTINED, _SKIPPED = 4, 8, 18, 24
"""Which of these columns need a second look. Their order is that of a `Document`'s fields."""


class PostgresDocuments:
    """The part of the store that knows documents and revisions."""

    _connections: Connections
    _clock: Clock

    def documents(self, scope: Scope, *, named: Collection[str] | None = None) -> list[Document]:
        """Return every document that is not deleted, by number; of some ids alone, if given."""
        asked, bound = _LISTED, dict[str, Any](generation=scope.generation.number)
        if not isinstance(scope.documents, Unlimited):
            asked, bound["numbers"] = asked + _THESE_NUMBERS, [*scope.documents]
        if named is not None:
            asked, bound["ids"] = asked + _THESE_IDS, [*named]
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            rows = fetch(session, f"{asked} ORDER BY d.number", bound)
        return [_document_row(row) for row in rows]

    @again_on_conflict
    def stage(self, scope: Scope, drafts: Sequence[Draft]) -> list[RevisionRef]:
        """Write revisions with all their rows, invisible to readers, in one commit."""
        now = self._clock.now()
        with growing(self._connections, scope.world) as session:
            lock_world(session, scope.world)
            if not is_kept(session, scope.generation.number):
                raise GenerationNotFound(scope.generation.number)
            return [stage(session, scope, draft, now) for draft in drafts]

    @again_on_conflict
    def keep_vectors(self, scope: Scope, vectors: Mapping[TextHash, Vector]) -> None:
        """Commit vectors, so that what was paid for survives whatever comes next."""
        with growing(self._connections, scope.world) as session:
            lock_world(session, scope.world)
            session.execute(
                # Only for text that is still there: another run may have replaced and purged it.
                """INSERT INTO vectors (profile_id, text_hash, vector)
                   SELECT %s, n.text_hash, n.vector
                   FROM unnest(%s::text[], %s::bytea[]) AS n (text_hash, vector)
                   WHERE EXISTS (SELECT 1 FROM states s WHERE s.text_hash = n.text_hash)
                     OR EXISTS (SELECT 1 FROM tails t WHERE t.text_hash = n.text_hash)
                   ON CONFLICT (world_id, profile_id, text_hash)
                     DO UPDATE SET vector = excluded.vector""",
                (scope.profile.id, list(vectors), list(vectors.values())),
            )

    @again_on_conflict
    def mark_embedded(self, scope: Scope, chunks: Sequence[PendingChunk]) -> None:
        """Record that the flushed index holds these chunks, unless they have changed since."""
        generation = scope.generation.number
        by_revision: dict[RevisionRef, list[PendingChunk]] = {}
        for chunk in chunks:
            ref = RevisionRef(chunk.document, chunk.revision)
            by_revision.setdefault(ref, []).append(chunk)
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for ref, marked in by_revision.items():
                key = revision_key(session, ref)
                if key is not None:
                    _mark(session, key, generation, marked)
            touch_world(session)

    @again_on_conflict
    def flip(self, scope: Scope, revisions: Sequence[RevisionRef]) -> list[RevisionRef]:
        """Make fully embedded staged revisions the ones readers see; return those that were."""
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            flipped = [ref for ref in revisions if _flip(session, scope.world, ref)]
            touch_world(session)
        return flipped

    @again_on_conflict
    def withdraw(self, scope: Scope, revisions: Sequence[RevisionRef]) -> None:
        """Give up revisions that are still staged; a document that has no other is hidden too."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for ref in revisions:
                key = revision_key(session, ref, state="staged")
                session.execute("UPDATE revisions SET state = 'retired' WHERE key = %s", (key,))
                session.execute(
                    """UPDATE documents d SET deleted_at = %s WHERE d.deleted_at IS NULL
                       AND d.key = (SELECT document FROM revisions WHERE key = %s)
                       AND NOT EXISTS (SELECT 1 FROM revisions r
                         WHERE r.document = d.key AND r.state <> 'retired')""",
                    (self._clock.now(), key),
                )
            touch_world(session)

    @again_on_conflict
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
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            session.execute(
                """UPDATE revisions SET version = %(version)s, tags = %(tags)s,
                     language = coalesce(%(language)s::text, language),
                     language_declared = language_declared OR %(language)s::text IS NOT NULL,
                     language_stated = language_stated AND %(language)s::text IS NULL,
                     source_url = %(source_url)s, metadata = %(metadata)s, origin = %(origin)s,
                     derived = NULL
                   WHERE state IN ('active', 'staged') AND document =
                     (SELECT key FROM documents WHERE number = %(document)s)""",
                {
                    "version": version,
                    "tags": json.dumps(tags),
                    "language": language,
                    "source_url": source_url,
                    "metadata": metadata,
                    "origin": origin,
                    "document": document,
                },
            )
            touch_world(session)

    @again_on_conflict
    def tombstone(self, scope: Scope, document: int, *, erase: bool = False) -> dict[str, int]:
        """Hide a document from every reader at once."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            hidden = change(
                session,
                """UPDATE documents SET deleted_at = %s, erase = %s
                   WHERE number = %s AND deleted_at IS NULL""",
                (self._clock.now(), erase, document),
            )
            if not hidden:
                raise DocumentNotFound(str(document))
            changed = redact(session, document) if erase else {}
            session.execute(
                """UPDATE revisions SET state = 'retired' WHERE document =
                   (SELECT key FROM documents WHERE number = %s)""",
                (document,),
            )
            touch_world(session)
        return changed

    def retired(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions that no reader sees any more but whose points and rows remain."""
        rows = self._connections.query(
            scope.world,
            """SELECT d.number, r.number FROM revisions r JOIN documents d ON d.key = r.document
               WHERE r.state = 'retired' ORDER BY 1, 2""",
        )
        return [RevisionRef(*row) for row in rows]

    def chunk_ids(self, scope: Scope, revision: RevisionRef) -> list[ChunkId]:
        """Return the ids of all chunks of a revision."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            rows = fetch(
                session,
                "SELECT chunk_id FROM states WHERE revision = %s AND generation = %s",
                (revision_key(session, revision), scope.generation.number),
            )
        return [ChunkId(row[0]) for row in rows]

    @again_on_conflict
    def purge(self, scope: Scope, revision: RevisionRef) -> dict[str, int]:
        """Remove a retired revision's rows and the vectors that nothing else needs."""
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            key = revision_key(session, revision, state="retired")
            if key is None:
                return {}
            be_patient(session)
            profiles, urgent = wish_of(session, key)
            # A receipt says how many rows went; counting them takes time that others need not wait.
            with counting(session, wanted=urgent) as removed:
                _purge(session, key)
            # A search that found its points before and looks for its rows now must be told.
            touch_world(session)
            # Last, since all worlds share the queue: it is not held longer than it takes.
            queue_files(session, profiles, self._clock.now(), urgent=urgent)
        return removed

    def outline(self, scope: Scope, document: int) -> list[OutlineEntry]:
        """Return where the chapters and sections of the revision readers see begin."""
        rows = self._connections.query(
            scope.world,
            """SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                       WHERE s.revision = p.revision AND s.start >= p.start),
                 p.start, p.chapter, p.section
               FROM places p
               JOIN revisions r ON r.key = p.revision AND r.state = 'active'
               JOIN documents d ON d.key = r.document
               WHERE d.number = %s ORDER BY p.start""",
            (document,),
        )
        return [OutlineEntry(*row) for row in rows]

    def sentences_across(
        self, scope: Scope, document: int, start: int, end: int
    ) -> tuple[int, int]:
        """Return the first and last sentence that a span of the revision in force touches."""
        rows = self._connections.query(
            scope.world,
            """SELECT coalesce(min(s.sid), -1), coalesce(max(s.sid), -1) FROM sentences s
               WHERE s.revision = (SELECT r.key FROM revisions r
                 JOIN documents d ON d.key = r.document AND r.state = 'active'
                 WHERE d.number = %s) AND s.finish > %s AND s.start < %s""",
            (document, start, end),
        )
        return rows[0][0], rows[0][1]

    def canonical_text(self, scope: Scope, document: int) -> str:
        """Return the text of the revision readers see, checked against its hash."""
        rows = self._connections.query(
            scope.world,
            """SELECT t.text, r.text_hash
               FROM revisions r JOIN documents d ON d.key = r.document AND r.state = 'active'
               JOIN texts t ON t.revision = r.key WHERE d.number = %s""",
            (document,),
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
    # What was skipped on purpose is set aside in the same way, and is no damage.
    values[_QUARANTINED] -= row[_SKIPPED]
    return Document(*values)


def _mark(session: Session, key: int, generation: int, marked: Sequence[PendingChunk]) -> None:
    session.execute(
        """UPDATE states s SET state = 'embedded', warning = NULL
           FROM unnest(%s::int[], %s::text[]) AS n (position, text_hash)
           WHERE s.revision = %s AND s.generation = %s AND s.position = n.position
             AND s.text_hash = n.text_hash AND s.state = 'pending'""",
        (
            [chunk.index for chunk in marked],
            [chunk.text_hash for chunk in marked],
            key,
            generation,
        ),
    )
    tally(session, key, generation)


def _flip(session: Session, world: str, ref: RevisionRef) -> bool:
    """Flip one revision if it is still staged, its document is there, and nothing is pending.

    That holds for every generation that readers are sent to: no document may vanish from one of
    them while it is replaced in another.
    """
    key = revision_key(session, ref, state="staged")
    if key is None:
        return False
    unfinished = fetch(
        session,
        """SELECT 1 FROM (SELECT generation FROM worlds
             UNION SELECT generation FROM truespan_shared.aliases WHERE world_id = %s) named
           LEFT JOIN tallies t ON t.revision = %s AND t.generation = named.generation
           WHERE t.chunks IS NULL OR t.chunks > t.embedded + t.quarantined LIMIT 1""",
        (world, key),
    )
    if unfinished:
        return False
    reanchor(session, key)
    session.execute(
        """UPDATE revisions SET state = 'retired' WHERE state = 'active' AND document =
           (SELECT document FROM revisions WHERE key = %s)""",
        (key,),
    )
    session.execute("UPDATE revisions SET state = 'active' WHERE key = %s", (key,))
    return True


def _purge(session: Session, key: int) -> None:
    session.execute(
        """DELETE FROM vectors v
           WHERE v.text_hash IN (SELECT text_hash FROM states WHERE revision = %(key)s
             UNION SELECT text_hash FROM tails WHERE revision = %(key)s)
           AND NOT EXISTS (SELECT 1 FROM states s
             WHERE s.text_hash = v.text_hash AND s.revision <> %(key)s)
           AND NOT EXISTS (SELECT 1 FROM tails t
             WHERE t.text_hash = v.text_hash AND t.revision <> %(key)s)""",
        {"key": key},
    )
    session.execute(
        """DELETE FROM repairs
           WHERE chunk_id IN (SELECT chunk_id FROM states WHERE revision = %s)""",
        (key,),
    )
    session.execute("DELETE FROM states WHERE revision = %s", (key,))
    document = fetch(session, "DELETE FROM revisions WHERE key = %s RETURNING document", (key,))
    gone = fetch(
        session,
        """DELETE FROM documents d WHERE d.key = %s AND d.deleted_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM revisions r WHERE r.document = d.key) RETURNING d.key""",
        document[0],
    )
    change_each(session, "UPDATE readers SET current = NULL WHERE current = %s", gone)
