"""Access tokens as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from truespan.types.scope import Verb, World
from truespan.types.token import TokenRecord, TokenState
from truespan.wire.serialize import allowed_names, record_data


def token_data(record: TokenRecord, state: TokenState) -> dict[str, Any]:
    names = {name: allowed_names(getattr(record, name)) for name in ("worlds", "verbs", "readers")}
    return record_data(record) | names | {"state": state}


def describe_token(record: TokenRecord, worlds: Iterable[World]) -> str:
    """Return the permissions of a token in words."""
    ids, readers = allowed_names(record.worlds), allowed_names(record.readers)
    if record.verbs == {Verb.OBSERVE}:
        return f"observe, the metrics only; {_describe_expiry(record)}"
    where = "every world"
    if not isinstance(ids, str):
        names: dict[str, str] = {world.id: world.name for world in worlds}
        where = ", ".join(sorted(names.get(id, id) for id in ids)) or "no world"
    whom = "" if isinstance(readers, str) else f" as {', '.join(readers) or 'no reader'}"
    verbs = ", ".join(sorted(record.verbs))
    return f"{verbs}{whom} in {where}; {_describe_expiry(record)}"


def _describe_expiry(record: TokenRecord) -> str:
    if record.expires_at is None:
        return "does not expire"
    return f"expires {datetime.fromtimestamp(record.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
