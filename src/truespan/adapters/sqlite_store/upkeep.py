"""What SQLite keeps beside documents: derived metadata, audits, probes, and keys that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.staging import revision_key
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.errors import StoreDamaged
from truespan.types.chunk import Vector
from truespan.types.document import AuditEntry, Derivable, Derived, OutlineEntry, RevisionRef
from truespan.types.ids import hash_bytes
from truespan.types.scope import Scope
from truespan.types.text import Properties


class SqliteUpkeep:
    """The part of the store that keeps what was learnt about documents and providers."""

    _connections: Connections

    def deleted(self, scope: Scope) -> list[str]:
        """Return the ids of deleted documents that have rows left, and that no new one has."""
        rows = self._connections.query(
            """SELECT DISTINCT d.doc_id FROM documents d JOIN worlds w ON w.key = d.world
               WHERE w.id = ? AND d.deleted_at IS NOT NULL
                 AND NOT EXISTS (SELECT 1 FROM documents n WHERE n.world = d.world
                   AND n.doc_id = d.doc_id AND n.deleted_at IS NULL) ORDER BY 1""",
            (scope.world,),
        )
        return [row[0] for row in rows]

    def underived(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see whose metadata were not derived yet."""
        rows = self._connections.query(
            # CROSS holds the planner to the few revisions first, which have an index of their own.
            """SELECT d.number, r.number FROM revisions r CROSS JOIN documents d
               WHERE d.key = r.document AND r.state = 'active' AND r.derived IS NULL
                 AND d.deleted_at IS NULL
                 AND d.world = (SELECT key FROM worlds WHERE id = ?) ORDER BY 1, 2""",
            (scope.world,),
        )
        return [RevisionRef(*row) for row in rows]

    def derivable(self, scope: Scope, revision: RevisionRef) -> Derivable | None:
        """Return what metadata are derived from; None when the revision is gone."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(
                connection,
                """SELECT title, declared_title, language, language_declared, metadata,
                     properties, CAST(t.text AS BLOB), text_hash, sentences
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = ?""",
                (key,),
            )
            outline = fetch(
                connection,
                """SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                           WHERE s.revision = p.revision AND s.start >= p.start),
                     p.start, p.chapter, p.section
                   FROM places p WHERE p.revision = ? ORDER BY p.start""",
                (key,),
            )
        if not rows:
            return None
        title, declared, language, said, metadata, properties, data, recorded, count = rows[0]
        if hash_bytes(data) != recorded:
            raise StoreDamaged(f"The text of document {revision.document} is damaged.")
        return Derivable(
            title=title,
            declared_title=declared,
            language=language,
            language_declared=bool(said),
            metadata=metadata,
            properties=msgspec.json.decode(properties, type=Properties),
            text=data.decode(),
            outline=tuple(OutlineEntry(*row) for row in outline),
            sentences=count,
        )

    def keep_derived(self, scope: Scope, derived: Sequence[Derived]) -> None:
        """Keep derived metadata, or the codes of what kept them from being derived."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            for one in derived:
                connection.execute(
                    "UPDATE revisions SET derived = ?, derived_error = ? WHERE key = ?",
                    (one.metadata, one.error, revision_key(connection, world, one.revision)),
                )

    def derived(self, scope: Scope, document: int) -> str | None:
        """Return the metadata derived from the revision readers see; None until they are."""
        rows = self._connections.query(
            """SELECT r.derived FROM revisions r JOIN documents d ON d.key = r.document
               WHERE r.state = 'active' AND d.number = ?
                 AND d.world = (SELECT key FROM worlds WHERE id = ?)""",
            (document, scope.world),
        )
        return rows[0][0] if rows else None

    def audit(self, scope: Scope, document: int) -> list[AuditEntry]:
        """Return what the sanitiser counted in the revision readers see."""
        rows = self._connections.query(
            """SELECT a.label, a.rule, a.count, a.redacted FROM audits a
               JOIN revisions r ON r.key = a.revision AND r.state = 'active'
               JOIN documents d ON d.key = r.document
               WHERE d.number = ? AND d.world = (SELECT key FROM worlds WHERE id = ?)
               ORDER BY 1, 2""",
            (document, scope.world),
        )
        return [AuditEntry(label, rule, count, bool(done)) for label, rule, count, done in rows]

    def probes(self, scope: Scope) -> dict[str, Vector]:
        """Return the vectors of known texts that were kept for the generation."""
        rows = self._connections.query(
            """SELECT probe, vector FROM probes WHERE generation = ?
               AND world = (SELECT key FROM worlds WHERE id = ?)""",
            (scope.generation.number, scope.world),
        )
        return {probe: Vector(vector) for probe, vector in rows}

    def keep_probes(self, scope: Scope, probes: Mapping[str, Vector]) -> None:
        """Keep the vectors of known texts."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.executemany(
                "INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?)",
                [(world, scope.generation.number, key, value) for key, value in probes.items()],
            )

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key is not to be used."""
        rows = self._connections.query(
            "SELECT until FROM cooldowns WHERE provider = ? AND key = ?", (provider, key)
        )
        return rows[0][0] if rows else 0.0

    def cool_down(self, provider: str, key: str, until: float) -> None:
        """Let a key wait."""
        with self._connections.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO cooldowns VALUES (?, ?, ?)", (provider, key, until)
            )
