"""What was learnt about documents: derived metadata, and what the sanitiser counted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from truespan.errors import StoreDamaged
from truespan.store.revisions import revision_key
from truespan.store.session import Part, retry_on_conflict
from truespan.types.document import AuditEntry, Derivable, Derived, OutlineEntry, RevisionRef
from truespan.types.ids import hash_bytes
from truespan.types.scope import Scope
from truespan.types.text import Properties


class Metadata(Part):
    """The part of the store that holds what was learnt about documents."""

    def deleted(self, scope: Scope) -> list[str]:
        """Return the ids of deleted documents that have rows left, unless a new one has the id."""
        rows = self._db.all(
            scope.world,
            """SELECT DISTINCT d.doc_id FROM documents d
               WHERE d.world_id = :world AND d.deleted_at IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM documents n WHERE n.world_id = :world AND n.doc_id = d.doc_id
                   AND n.deleted_at IS NULL) ORDER BY 1""",
        )
        return [doc_id for (doc_id,) in rows]

    def missing_metadata(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions that readers see whose metadata were not derived yet."""
        rows = self._db.all(
            scope.world,
            # CROSS makes SQLite start with the few revisions, which have an index of their own.
            """SELECT d.number, r.number FROM revisions r CROSS JOIN documents d
               WHERE d.key = r.document AND r.state = 'active' AND r.derived IS NULL
                 AND d.deleted_at IS NULL AND d.world_id = :world ORDER BY 1, 2""",
        )
        return [RevisionRef(*row) for row in rows]

    def derivable(self, scope: Scope, revision: RevisionRef) -> Derivable | None:
        """Return what metadata are derived from; None when the revision is gone."""
        with self._db.read(scope.world) as session:
            key = revision_key(session, revision)
            found = session.one(
                """SELECT r.title, r.declared_title, r.language, r.language_declared, r.metadata,
                     r.properties, BYTES(t.text), r.text_hash, r.sentences
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
                key=key,
            )
            outline = session.all(
                """SELECT (SELECT coalesce(min(s.sid), 0) FROM sentences s
                           WHERE s.revision = p.revision AND s.start >= p.start),
                     p.start, p.chapter, p.section
                   FROM places p WHERE p.revision = :key ORDER BY p.start""",
                key=key,
            )
        if found is None:
            return None
        title, declared, language, said, metadata, properties, data, recorded, count = found
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

    @retry_on_conflict
    def keep_derived(self, scope: Scope, derived: Sequence[Derived]) -> None:
        """Store derived metadata, or the codes of the errors that prevented them."""
        with self._db.write(scope.world) as session:
            session.execute_many(
                """UPDATE revisions SET derived = :derived, derived_error = :error
                   WHERE key = :key""",
                [
                    {
                        "derived": result.metadata,
                        "error": result.error,
                        "key": revision_key(session, result.revision),
                    }
                    for result in derived
                ],
            )

    def derived(self, scope: Scope, document: int) -> str | None:
        """Return the metadata derived from the revision that readers see; None until they are."""
        return self._db.value(
            scope.world,
            """SELECT r.derived FROM revisions r JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND d.number = :document AND r.state = 'active'""",
            document=document,
        )

    def audit(self, scope: Scope, document: int) -> list[AuditEntry]:
        """Return what the sanitiser counted in the revision that readers see."""
        rows = self._db.all(
            scope.world,
            """SELECT a.label, a.rule, a.count, a.redacted FROM audits a
               JOIN revisions r ON r.key = a.revision AND r.state = 'active'
               JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND d.number = :document ORDER BY 1, 2""",
            document=document,
        )
        return [AuditEntry(label, rule, count, bool(done)) for label, rule, count, done in rows]
