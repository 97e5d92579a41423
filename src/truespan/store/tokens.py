"""Access tokens, and the digests of their secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from truespan.errors import NotAllowed, StoreDamaged, WorldNotFound
from truespan.store.session import MissingRow, Part, Row, retry_on_conflict
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import TokenRecord

_SELECT = """
    SELECT t.digest, t.id, t.name, t.every_world, t.verbs, t.every_reader, t.readers, t.created_at,
      t.expires_at, t.revoked_at, WORLD_TEXT(d)
    FROM tokens t LEFT JOIN token_worlds w ON w.token = t.key
    LEFT JOIN directory d ON d.world_id = w.world_id
"""
"""Gives a row for each world of a token, and one for a token without worlds."""


class Tokens(Part):
    """The part of the store that knows access tokens. Only the owner of the library may list them,
    or change them."""

    @retry_on_conflict
    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Add a token.

        Raises:
            WorldNotFound: one of its worlds does not exist; then nothing is added.
        """
        _require_owner(authority)
        worlds = [] if isinstance(record.worlds, Unlimited) else sorted(record.worlds)
        world = ""
        try:
            with self._db.write_shared() as session:
                key = session.insert_returning(
                    "key",
                    "tokens",
                    id=record.id,
                    digest=digest,
                    name=record.name,
                    every_world=isinstance(record.worlds, Unlimited),
                    verbs=_names_text(record.verbs),
                    every_reader=isinstance(record.readers, Unlimited),
                    readers=_names_text(record.readers),
                    created_at=record.created_at,
                    expires_at=record.expires_at,
                    revoked_at=record.revoked_at,
                )
                for world in worlds:
                    added = session.execute(
                        """INSERT INTO token_worlds (token, world_id)
                           SELECT :token, d.world_id FROM directory d WHERE IS_WORLD(d, :id)""",
                        token=key,
                        id=world,
                    )
                    if not added:
                        raise WorldNotFound(world)
        except MissingRow:
            raise WorldNotFound(world) from None

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        """Return every token, the oldest first."""
        _require_owner(authority)
        found = _read_tokens(self._db.shared.all(f"{_SELECT} ORDER BY t.key"))
        return [record for record, _ in found]

    @retry_on_conflict
    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Make a token invalid from now on; False if there is none. The first time stays."""
        _require_owner(authority)
        with self._db.write_shared() as session:
            found = session.execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, :now) WHERE id = :token",
                now=now,
                token=token,
            )
        return found > 0

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret.

        It is read anew each time, so that a token that another process revoked is seen as revoked.
        """
        found = _read_tokens(self._db.shared.all(f"{_SELECT} WHERE t.id = :token", token=token))
        return found[0] if found else None


def _require_owner(authority: Authority) -> None:
    if authority != OWNER:
        raise NotAllowed("use tokens")


def _names_text(names: frozenset[Any] | Unlimited) -> str:
    """Return names as the text that is stored; another column says that there is no limit."""
    return msgspec.json.encode([] if isinstance(names, Unlimited) else sorted(names)).decode()


def _read_tokens(rows: Iterable[Row]) -> list[tuple[TokenRecord, bytes]]:
    """Return tokens with their digests; a damaged one is an error, and gives no rights."""
    worlds: dict[Row, list[WorldId]] = {}
    for *own, world in rows:
        worlds.setdefault(tuple(own), []).extend([WorldId(world)] if world else [])
    found: list[tuple[TokenRecord, bytes]] = []
    for row, named in worlds.items():
        digest, token, name, every_world, verbs, every_reader, readers, *times = row
        try:
            record = TokenRecord(
                token,
                name,
                UNLIMITED if every_world else frozenset(named),
                frozenset(map(Verb, msgspec.json.decode(verbs, type=list[str]))),
                UNLIMITED
                if every_reader
                else frozenset(msgspec.json.decode(readers, type=list[str])),
                *times,
            )
        except ValueError:
            raise StoreDamaged("A token of the library is damaged.") from None
        found.append((record, digest))
    return found
