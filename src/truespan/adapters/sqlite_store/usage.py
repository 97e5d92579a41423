"""The usage log in SQLite."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.errors import RecordNotFound, StoreDamaged, WorldNotFound
from truespan.protocols import Clock
from truespan.types.answer import Usage, UsageRecord
from truespan.types.decision import AnswerMode
from truespan.types.ids import WorldId
from truespan.types.scope import Authority

_DAY = 24 * 3600.0
_COLUMNS = """u.id, u.created_at, u.mode, u.milliseconds, u.primary_model, u.fallback_model,
    u.evidence, u.decision_explain"""
_OF_WORLD = "u.world = (SELECT key FROM worlds WHERE id = ?)"


class SqliteUsage:
    """The part of the store that knows what was asked and how it was decided."""

    _connections: Connections
    _clock: Clock

    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, most: int
    ) -> str:
        """Write down one answered request, and forget what is too old or too much."""
        now, record = self._clock.now(), uuid4().hex[:12]
        with self._connections.writing() as connection:
            rows = fetch(connection, "SELECT key FROM worlds WHERE id = ?", (world,))
            if not rows or not authority.sees(world):
                raise WorldNotFound(world)
            connection.execute(
                """INSERT INTO usage (id, world, created_at, milliseconds, mode, primary_model,
                     fallback_model, evidence, decision_explain)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    record,
                    rows[0][0],
                    now,
                    usage.milliseconds,
                    usage.mode,
                    usage.primary_model,
                    usage.fallback_model,
                    msgspec.json.encode(usage.evidence).decode(),
                    msgspec.json.encode(usage.decision_explain).decode(),
                ),
            )
            connection.execute("DELETE FROM usage WHERE created_at < ?", (now - days * _DAY,))
            connection.execute(
                """DELETE FROM usage WHERE world = ?1 AND key <= (SELECT key FROM usage
                     WHERE world = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)""",
                (rows[0][0], most),
            )
        return record

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, the newest first."""
        if not authority.sees(world):
            raise WorldNotFound(world)
        rows = self._connections.query(
            f"SELECT {_COLUMNS} FROM usage u WHERE {_OF_WORLD} ORDER BY u.key DESC LIMIT ?",  # noqa: S608
            (world, limit),
        )
        return [_listed(row) for row in rows]

    def usage_record(self, authority: Authority, world: WorldId, reference: str) -> UsageRecord:
        """Return one record of a world."""
        rows = self._connections.query(
            f"SELECT {_COLUMNS} FROM usage u WHERE {_OF_WORLD} AND u.id = ?",  # noqa: S608
            (world, reference),
        )
        if not rows or not authority.sees(world):
            raise RecordNotFound(reference)
        try:
            return _record(rows[0])
        except (ValueError, RecursionError):
            raise StoreDamaged(
                f"The record {reference!r} of the usage log is damaged.",
                advice="Nothing but this record depends on it.",
            ) from None


def _record(row: tuple[Any, ...]) -> UsageRecord:
    """Return a row as a record; a ValueError says that it is none."""
    record, created_at, mode, milliseconds, primary, fallback, evidence, explained = row
    return UsageRecord(
        record,
        created_at,
        AnswerMode(mode),
        milliseconds,
        primary,
        fallback,
        msgspec.json.decode(evidence, type=dict[str, Any]),
        msgspec.json.decode(explained, type=dict[str, Any]),
    )


def _listed(row: tuple[Any, ...]) -> UsageRecord:
    """Return a row as a record; of a damaged one what can be read, so that the rest is listed."""
    try:
        return _record(row)
    except (ValueError, RecursionError):
        record, created_at, spelled, milliseconds, primary, fallback = row[:6]
        mode = AnswerMode(spelled) if spelled in set(AnswerMode) else AnswerMode.FALLBACK
        return UsageRecord(record, created_at, mode, milliseconds, primary, fallback, {}, {})
