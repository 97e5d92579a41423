"""What PostgreSQL keeps beside documents: derived metadata, audits, probes, and keys that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from truespan.adapters.postgres_store.connection import (
    Connections,
    Row,
    again_on_conflict,
    change_each,
    fetch,
)
from truespan.adapters.postgres_store.staging import revision_key
from truespan.adapters.postgres_store.worlds import lock_world, require_world
from truespan.errors import StoreDamaged
from truespan.types.chunk import Vector
from truespan.types.document import AuditEntry, Derivable, Derived, OutlineEntry, RevisionRef
from truespan.types.ids import hash_bytes
from truespan.types.scope import Scope
from truespan.types.text import Properties

_PACE_LOCK = 0x7061_6365
"""Names the advisory locks under which moments for requests are given out."""


class PostgresUpkeep:
    """The part of the store that keeps what was learnt about documents and providers."""

    _connections: Connections

    def deleted(self, scope: Scope) -> list[str]:
        """Return the ids of deleted documents that have rows left, and that no new one has."""
        rows = self._connections.query(
            scope.world,
            """SELECT DISTINCT d.doc_id FROM documents d
               WHERE d.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM documents n
                 WHERE n.doc_id = d.doc_id AND n.deleted_at IS NULL) ORDER BY 1""",
        )
        return [row[0] for row in rows]

    def underived(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see whose metadata were not derived yet."""
        rows = self._connections.query(
            scope.world,
            """SELECT d.number, r.number FROM revisions r JOIN documents d ON d.key = r.document
               WHERE r.state = 'active' AND r.derived IS NULL AND d.deleted_at IS NULL
               ORDER BY 1, 2""",
        )
        return [RevisionRef(*row) for row in rows]

    def derivable(self, scope: Scope, revision: RevisionRef) -> Derivable | None:
        """Return what metadata are derived from; None when the revision is gone."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            key = revision_key(session, revision)
            rows = fetch(
                session,
                """SELECT r.title, r.declared_title, r.language, r.language_declared, r.metadata,
                     r.properties, t.text, r.text_hash, r.sentences
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = %s""",
                (key,),
            )
            outline = fetch(
                session,
                """SELECT (SELECT coalesce(min(sid), 0) FROM sentences s
                           WHERE s.revision = p.revision AND s.start >= p.start),
                     p.start, p.chapter, p.section
                   FROM places p WHERE p.revision = %s ORDER BY p.start""",
                (key,),
            )
        return _derivable(rows[0], outline, revision) if rows else None

    @again_on_conflict
    def keep_derived(self, scope: Scope, derived: Sequence[Derived]) -> None:
        """Keep derived metadata, or the codes of what kept them from being derived."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            for one in derived:
                session.execute(
                    "UPDATE revisions SET derived = %s, derived_error = %s WHERE key = %s",
                    (one.metadata, one.error, revision_key(session, one.revision)),
                )

    def derived(self, scope: Scope, document: int) -> str | None:
        """Return the metadata derived from the revision readers see; None until they are."""
        rows = self._connections.query(
            scope.world,
            """SELECT r.derived FROM revisions r JOIN documents d ON d.key = r.document
               WHERE r.state = 'active' AND d.number = %s""",
            (document,),
        )
        return rows[0][0] if rows else None

    def audit(self, scope: Scope, document: int) -> list[AuditEntry]:
        """Return what the sanitiser counted in the revision readers see."""
        rows = self._connections.query(
            scope.world,
            """SELECT a.label, a.rule, a.count, a.redacted FROM audits a
               JOIN revisions r ON r.key = a.revision AND r.state = 'active'
               JOIN documents d ON d.key = r.document WHERE d.number = %s ORDER BY 1, 2""",
            (document,),
        )
        return [AuditEntry(*row) for row in rows]

    def probes(self, scope: Scope) -> dict[str, Vector]:
        """Return the vectors of known texts that were kept for the generation."""
        rows = self._connections.query(
            scope.world,
            "SELECT probe, vector FROM probes WHERE generation = %s",
            (scope.generation.number,),
        )
        return {probe: Vector(vector) for probe, vector in rows}

    @again_on_conflict
    def keep_probes(self, scope: Scope, probes: Mapping[str, Vector]) -> None:
        """Keep the vectors of known texts."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            change_each(
                session,
                """INSERT INTO probes (generation, probe, vector) VALUES (%s, %s, %s)
                   ON CONFLICT (world_id, generation, probe) DO UPDATE SET
                     vector = excluded.vector""",
                [(scope.generation.number, key, value) for key, value in probes.items()],
            )

    @again_on_conflict
    def reserve(self, provider: str, per_minute: int) -> float:
        """Return how long to wait for the next request; its moment is taken, by the server's clock.

        Those who ask at once follow each other, so that no minute has more than it may.
        """
        with self._connections.sharing() as session:
            session.execute(
                "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_PACE_LOCK, provider)
            )
            named: dict[str, str | int] = {"provider": provider, "before": per_minute - 1}
            # What began more than a minute before this moment bounds nothing any more.
            session.execute(
                """DELETE FROM truespan_shared.paces WHERE provider = %(provider)s
                     AND begins_at < extract(epoch FROM clock_timestamp()) - 60""",
                named,
            )
            return fetch(
                session,
                """WITH moment AS (
                     SELECT extract(epoch FROM clock_timestamp())::float8 AS now
                   ), chosen AS (
                     SELECT now, greatest(now, 60 + coalesce((
                       SELECT begins_at FROM truespan_shared.paces
                       WHERE provider = %(provider)s
                       ORDER BY begins_at DESC OFFSET %(before)s LIMIT 1), 0)) AS begin
                     FROM moment
                   ), kept AS (
                     INSERT INTO truespan_shared.paces (provider, begins_at)
                     SELECT %(provider)s, begin FROM chosen
                   ) SELECT begin - now FROM chosen""",
                named,
            )[0][0]

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key is not to be used."""
        rows = self._connections.query_shared(
            "SELECT until FROM truespan_shared.cooldowns WHERE provider = %s AND key = %s",
            (provider, key),
        )
        return rows[0][0] if rows else 0.0

    @again_on_conflict
    def cool_down(self, provider: str, key: str, until: float) -> None:
        """Let a key wait."""
        with self._connections.sharing() as session:
            session.execute(
                """INSERT INTO truespan_shared.cooldowns (provider, key, until)
                   VALUES (%s, %s, %s)
                   ON CONFLICT (provider, key) DO UPDATE SET until = excluded.until""",
                (provider, key, until),
            )


def _derivable(row: Row, outline: Sequence[Row], revision: RevisionRef) -> Derivable:
    title, declared, language, said, metadata, properties, data, recorded, count = row
    if hash_bytes(data) != recorded:
        raise StoreDamaged(f"The text of document {revision.document} is damaged.")
    return Derivable(
        title=title,
        declared_title=declared,
        language=language,
        language_declared=said,
        metadata=metadata,
        properties=msgspec.json.decode(properties, type=Properties),
        text=data.decode(),
        outline=tuple(OutlineEntry(*entry) for entry in outline),
        sentences=count,
    )
