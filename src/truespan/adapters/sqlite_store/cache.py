"""The query cache in SQLite."""

from __future__ import annotations

from truespan.adapters.sqlite_store.connection import Connections
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.types.chunk import Vector
from truespan.types.scope import Scope

_KEPT_SECONDS = 48 * 3600
"""Twice the longest use of an entry: older ones are dropped when a new one is written."""


class SqliteQueryCache:
    """The part of the store that keeps query vectors."""

    _connections: Connections

    def cached_query(self, scope: Scope, key: str, *, now: float, ttl: float) -> Vector | None:
        """Return a vector that is strictly younger than `ttl`.

        An entry dated in the future counts as expired: the clock was wrong then or is wrong now.
        """
        rows = self._connections.query(
            """SELECT vector, created_at FROM query_cache
               WHERE key = ? AND world = (SELECT key FROM worlds WHERE id = ?)""",
            (key, scope.world),
        )
        if not rows or not 0 <= now - rows[0][1] < ttl:
            return None
        return Vector(rows[0][0])

    def cache_query(self, scope: Scope, key: str, vector: Vector, *, now: float) -> None:
        """Keep a query vector, and drop the ones that are too old to be used."""
        with self._connections.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO query_cache VALUES (?, ?, ?, ?)",
                (world_key(connection, scope), key, vector, now),
            )
            connection.execute(
                "DELETE FROM query_cache WHERE created_at < ? OR created_at > ?",
                (now - _KEPT_SECONDS, now),
            )
