"""The query cache in PostgreSQL."""

from __future__ import annotations

import psycopg

from truespan.adapters.postgres_store.connection import Connections, again_on_conflict
from truespan.errors import WorldNotFound
from truespan.types.chunk import Vector
from truespan.types.scope import Scope

_KEPT_SECONDS = 48 * 3600
"""Twice the longest use of an entry: older ones are dropped when a new one is written."""


class PostgresQueryCache:
    """The part of the store that keeps query vectors."""

    _connections: Connections

    def cached_query(self, scope: Scope, key: str, *, now: float, ttl: float) -> Vector | None:
        """Return a vector that is strictly younger than `ttl`.

        An entry dated in the future counts as expired: the clock was wrong then or is wrong now.
        """
        rows = self._connections.query(
            scope.world, "SELECT vector, created_at FROM query_cache WHERE key = %s", (key,)
        )
        if not rows or not 0 <= now - rows[0][1] < ttl:
            return None
        return Vector(rows[0][0])

    @again_on_conflict
    def cache_query(self, scope: Scope, key: str, vector: Vector, *, now: float) -> None:
        """Keep a query vector, and drop those of the world that are too old to be used."""
        try:
            with self._connections.writing(scope.world) as session:
                session.execute(
                    """INSERT INTO query_cache (key, vector, created_at) VALUES (%s, %s, %s)
                       ON CONFLICT (world_id, key) DO UPDATE SET
                         vector = excluded.vector, created_at = excluded.created_at""",
                    (key, vector, now),
                )
                session.execute(
                    "DELETE FROM query_cache WHERE created_at < %s OR created_at > %s",
                    (now - _KEPT_SECONDS, now),
                )
        except psycopg.errors.ForeignKeyViolation:
            raise WorldNotFound(scope.world) from None
