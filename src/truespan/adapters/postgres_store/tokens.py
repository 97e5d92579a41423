"""Access tokens in PostgreSQL."""

from __future__ import annotations

from typing import Final

from psycopg.errors import ForeignKeyViolation

from truespan.adapters.postgres_store.connection import (
    Connections,
    again_on_conflict,
    change,
    fetch,
)
from truespan.adapters.stored_rows import names_text, token_record
from truespan.errors import NotAllowed, WorldNotFound
from truespan.types.scope import OWNER, Authority, Unlimited
from truespan.types.token import TokenRecord

_TOKENS: Final = """SELECT t.digest, t.id, t.name, t.every_world, t.verbs, t.every_reader,
    t.readers, t.created_at, t.expires_at, t.revoked_at,
    (SELECT coalesce(json_agg(tw.world_id), '[]')::text
     FROM truespan_shared.token_worlds tw WHERE tw.token = t.key)
  FROM truespan_shared.tokens t"""


class PostgresTokens:
    """The part of the store that knows who may ask from outside."""

    _connections: Connections

    @again_on_conflict
    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Keep a new token."""
        _require_owner(authority)
        every = isinstance(record.worlds, Unlimited)
        worlds = [] if isinstance(record.worlds, Unlimited) else sorted(record.worlds)
        with self._connections.sharing() as session:
            key = fetch(
                session,
                """INSERT INTO truespan_shared.tokens (id, digest, name, every_world, verbs,
                     every_reader, readers, created_at, expires_at, revoked_at)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING key""",
                (
                    record.id,
                    digest,
                    record.name,
                    every,
                    names_text(record.verbs),
                    isinstance(record.readers, Unlimited),
                    names_text(record.readers),
                    record.created_at,
                    record.expires_at,
                    record.revoked_at,
                ),
            )[0][0]
            for world in worlds:
                try:
                    session.execute(
                        """INSERT INTO truespan_shared.token_worlds (token, world_id)
                           VALUES (%s, %s)""",
                        (key, world),
                    )
                except ForeignKeyViolation:
                    raise WorldNotFound(world) from None

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        """Return every token, the oldest first."""
        _require_owner(authority)
        rows = self._connections.query_shared(f"{_TOKENS} ORDER BY t.key")
        return [token_record(row) for row in rows]

    @again_on_conflict
    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Make a token invalid from now on; the first time stays."""
        _require_owner(authority)
        with self._connections.sharing() as session:
            found = change(
                session,
                """UPDATE truespan_shared.tokens SET revoked_at = coalesce(revoked_at, %s)
                   WHERE id = %s""",
                (now, token),
            )
        return found > 0

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret."""
        rows = self._connections.query_shared(f"{_TOKENS} WHERE t.id = %s", (token,))
        return (token_record(rows[0]), rows[0][0]) if rows else None


def _require_owner(authority: Authority) -> None:
    if authority != OWNER:
        raise NotAllowed("use tokens")
