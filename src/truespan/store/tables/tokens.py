"""Access tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from truespan.errors import NotAllowed, NotFound, StoreDamaged
from truespan.store.engines.session import MissingRow, Part, Row, retry_on_conflict
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import TokenRecord

_TOKENS = """
    SELECT t.digest, t.id, t.name, t.every_world, t.verbs, t.every_reader, t.readers,
      t.every_label, t.audience, t.impersonate, t.created_at, t.expires_at,
      t.revoked_at, WORLD_TEXT(d)
    FROM tokens t LEFT JOIN token_worlds w ON w.token = t.key
    LEFT JOIN directory d ON d.world_id = w.world_id
"""
"""Selects a row for each world of a token, and one for a token without worlds."""


class Tokens(Part):
    """Access tokens. Only the owner of the library may list them, or change them."""

    @retry_on_conflict
    def create(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Add a token."""
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
                    every_label=isinstance(record.audience, Unlimited),
                    audience=_names_text(record.audience),
                    impersonate=record.impersonate,
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
                        raise NotFound("world", world)
        except MissingRow:
            raise NotFound("world", world) from None

    def all(self, authority: Authority) -> list[TokenRecord]:
        _require_owner(authority)
        found = _read_tokens(self._db.shared.all(f"{_TOKENS} ORDER BY t.key"))
        return [record for record, _ in found]

    def revoke(self, authority: Authority, token: str, *, now: float) -> bool:
        """Revoke a token; False if there is none. The time of the first revocation is kept."""
        _require_owner(authority)
        found = self._db.shared.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, :now) WHERE id = :token",
            now=now,
            token=token,
        )
        return found > 0

    def find(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret; None if there is none.

        It is not cached, so that a revocation by another process is noticed.
        """
        found = _read_tokens(self._db.shared.all(f"{_TOKENS} WHERE t.id = :token", token=token))
        return found[0] if found else None


def _require_owner(authority: Authority) -> None:
    if authority != OWNER:
        raise NotAllowed("use tokens")


def _names_text(names: frozenset[Any] | Unlimited) -> str:
    """Return names as JSON; another column records whether there is no limit."""
    return msgspec.json.encode([] if isinstance(names, Unlimited) else sorted(names)).decode()


def _read_tokens(rows: Iterable[Row]) -> list[tuple[TokenRecord, bytes]]:
    """Return tokens with their digests."""
    worlds: dict[Row, list[WorldId]] = {}
    for *own, world in rows:
        worlds.setdefault(tuple(own), []).extend([WorldId(world)] if world else [])
    found: list[tuple[TokenRecord, bytes]] = []
    for row, named in worlds.items():
        digest, token, name, every_world, verbs, every_reader, readers, *others = row
        every_label, labels, impersonate, created_at, expires_at, revoked_at = others
        try:
            record = TokenRecord(
                id=token,
                name=name,
                worlds=UNLIMITED if every_world else frozenset(named),
                verbs=frozenset(map(Verb, msgspec.json.decode(verbs, type=list[str]))),
                readers=UNLIMITED
                if every_reader
                else frozenset(msgspec.json.decode(readers, type=list[str])),
                audience=UNLIMITED
                if every_label
                else frozenset(msgspec.json.decode(labels, type=list[str])),
                impersonate=bool(impersonate),
                created_at=created_at,
                expires_at=expires_at,
                revoked_at=revoked_at,
            )
        except ValueError:
            raise StoreDamaged(
                "A token of the library is damaged.",
                advice="Restore a backup, or revoke the tokens and create new ones.",
            ) from None
        found.append((record, digest))
    return found
