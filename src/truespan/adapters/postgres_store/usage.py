"""The usage log in PostgreSQL."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

import msgspec

from truespan.adapters.postgres_store.connection import Connections, Row, again_on_conflict
from truespan.adapters.postgres_store.worlds import require_world
from truespan.errors import RecordNotFound, StoreDamaged, WorldNotFound
from truespan.protocols import Clock
from truespan.types.answer import Usage, UsageRecord
from truespan.types.decision import AnswerMode
from truespan.types.ids import WorldId
from truespan.types.scope import Authority

_DAY = 24 * 3600.0
_COLUMNS: Final = """id, created_at, mode, milliseconds, primary_model, fallback_model,
    evidence, decision_explain"""


class PostgresUsage:
    """The part of the store that knows what was asked and how it was decided."""

    _connections: Connections
    _clock: Clock

    @again_on_conflict
    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, most: int
    ) -> str:
        """Write down one answered request, and forget what of the world is too old or too much."""
        if not authority.sees(world):
            raise WorldNotFound(world)
        now, record = self._clock.now(), uuid4().hex[:12]
        with self._connections.writing(world) as session:
            require_world(session, world)
            session.execute(
                """INSERT INTO usage (id, created_at, milliseconds, mode, primary_model,
                     fallback_model, evidence, decision_explain)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
                (
                    record,
                    now,
                    usage.milliseconds,
                    usage.mode,
                    usage.primary_model,
                    usage.fallback_model,
                    msgspec.json.encode(usage.evidence).decode(),
                    msgspec.json.encode(usage.decision_explain).decode(),
                ),
            )
            session.execute("DELETE FROM usage WHERE created_at < %s", (now - days * _DAY,))
            session.execute(
                """DELETE FROM usage WHERE key <= (SELECT key FROM usage
                     ORDER BY key DESC LIMIT 1 OFFSET %s)""",
                (most,),
            )
        return record

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, the newest first."""
        if not authority.sees(world):
            raise WorldNotFound(world)
        rows = self._connections.query(
            world,
            f"SELECT {_COLUMNS} FROM usage ORDER BY key DESC LIMIT %s",  # noqa: S608
            (limit,),
        )
        return [_listed(row) for row in rows]

    def usage_record(self, authority: Authority, world: WorldId, reference: str) -> UsageRecord:
        """Return one record of a world."""
        rows = self._connections.query(
            world,
            f"SELECT {_COLUMNS} FROM usage WHERE id = %s",  # noqa: S608
            (reference,),
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


def _record(row: Row) -> UsageRecord:
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


def _listed(row: Row) -> UsageRecord:
    """Return a row as a record; of a damaged one what can be read, so that the rest is listed."""
    try:
        return _record(row)
    except (ValueError, RecursionError):
        record, created_at, spelled, milliseconds, primary, fallback = row[:6]
        mode = AnswerMode(spelled) if spelled in set(AnswerMode) else AnswerMode.FALLBACK
        return UsageRecord(record, created_at, mode, milliseconds, primary, fallback, {}, {})
