"""Access tokens in SQLite."""

from __future__ import annotations

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.stored_rows import names_text, token_record
from truespan.errors import NotAllowed, WorldNotFound
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, Authority, Unlimited
from truespan.types.token import TokenRecord

_TOKENS = """SELECT t.digest, t.id, t.name, t.every_world, t.verbs, t.every_reader, t.readers,
    t.created_at, t.expires_at, t.revoked_at,
    (SELECT json_group_array(w.id) FROM token_worlds tw JOIN worlds w ON w.key = tw.world
     WHERE tw.token = t.key)
  FROM tokens t"""


class SqliteTokens:
    """The part of the store that knows who may ask from outside."""

    _connections: Connections

    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Keep a new token."""
        _require_owner(authority)
        with self._connections.writing() as connection:
            connection.execute(
                """INSERT INTO tokens (id, digest, name, every_world, verbs, every_reader, readers,
                     created_at, expires_at, revoked_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    record.id,
                    digest,
                    record.name,
                    int(isinstance(record.worlds, Unlimited)),
                    names_text(record.verbs),
                    int(isinstance(record.readers, Unlimited)),
                    names_text(record.readers),
                    record.created_at,
                    record.expires_at,
                    record.revoked_at,
                ),
            )
            if not isinstance(record.worlds, Unlimited):
                _add_worlds(connection, connection.last_insert_rowid(), record.worlds)

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        """Return every token, the oldest first."""
        _require_owner(authority)
        return [token_record(row) for row in self._connections.query(_TOKENS + " ORDER BY t.key")]

    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Make a token invalid from now on; the first time stays."""
        _require_owner(authority)
        with self._connections.writing() as connection:
            connection.execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", (now, token)
            )
            return bool(connection.changes())

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret."""
        rows = self._connections.query(_TOKENS + " WHERE t.id = ?", (token,))
        return (token_record(rows[0]), rows[0][0]) if rows else None


def _require_owner(authority: Authority) -> None:
    if authority != OWNER:
        raise NotAllowed("use tokens")


def _add_worlds(connection: apsw.Connection, key: int, worlds: frozenset[WorldId]) -> None:
    for world in worlds:
        found = fetch(connection, "SELECT key FROM worlds WHERE id = ?", (world,))
        if not found:
            raise WorldNotFound(world)
        connection.execute("INSERT INTO token_worlds VALUES (?, ?)", (key, found[0][0]))
