"""The usage log: what was asked and how it was decided, without any text of documents."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from truespan.errors import RecordNotFound, StoreDamaged, WorldNotFound
from truespan.store.session import Part, Row, retry_on_conflict
from truespan.types.answer import Usage, UsageRecord
from truespan.types.decision import AnswerMode
from truespan.types.ids import WorldId
from truespan.types.scope import Authority

_DAY = 24 * 3600.0
_SELECT = """
    SELECT id, created_at, mode, milliseconds, primary_model, fallback_model, evidence,
      decision_explain
    FROM usage WHERE world_id = :world
"""


class UsageLog(Part):
    """The part of the store that logs answered requests."""

    @retry_on_conflict
    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, most: int
    ) -> str:
        """Log one answered request and return its id.

        In the same commit, records that are older than `days` are removed, and those of the world
        beyond the `most` latest ones.
        """
        if not authority.sees(world):
            raise WorldNotFound(world)
        now, record = self._clock.now(), uuid4().hex[:12]
        with self._db.write(world, lock=False) as session:
            session.insert(
                "usage",
                id=record,
                created_at=now,
                milliseconds=usage.milliseconds,
                mode=usage.mode.value,
                primary_model=usage.primary_model,
                fallback_model=usage.fallback_model,
                evidence=msgspec.json.encode(usage.evidence).decode(),
                decision_explain=msgspec.json.encode(usage.decision_explain).decode(),
            )
            # In every world of a file, also in idle ones; row security keeps to this world.
            session.execute(
                "DELETE FROM usage WHERE created_at < :oldest", oldest=now - days * _DAY
            )
            session.execute(
                """DELETE FROM usage WHERE world_id = :world AND key <= (SELECT key FROM usage
                     WHERE world_id = :world ORDER BY key DESC LIMIT 1 OFFSET :most)""",
                most=most,
            )
        return record

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, the newest first."""
        if not authority.sees(world):
            raise WorldNotFound(world)
        rows = self._db.at(world).all(f"{_SELECT} ORDER BY key DESC LIMIT :limit", limit=limit)
        return [_read_damaged_record(row) for row in rows]

    def usage_record(self, authority: Authority, world: WorldId, reference: str) -> UsageRecord:
        """Return one record of a world.

        Raises:
            RecordNotFound: it does not exist, or no longer.
        """
        row = self._db.at(world).one(f"{_SELECT} AND id = :id", id=reference)
        if row is None or not authority.sees(world):
            raise RecordNotFound(reference)
        try:
            return _read_record(row)
        except (ValueError, RecursionError):
            raise StoreDamaged(
                f"The record {reference!r} of the usage log is damaged.",
                advice="Nothing but this record depends on it.",
            ) from None


def _read_record(row: Row) -> UsageRecord:
    """Return a row as a record; a ValueError says that it is damaged."""
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


def _read_damaged_record(row: Row) -> UsageRecord:
    """Return a row as a record; of a damaged one what can be read, so that the rest is listed."""
    try:
        return _read_record(row)
    except (ValueError, RecursionError):
        record, created_at, spelled, milliseconds, primary, fallback = row[:6]
        mode = AnswerMode(spelled) if spelled in set(AnswerMode) else AnswerMode.FALLBACK
        return UsageRecord(record, created_at, mode, milliseconds, primary, fallback, {}, {})
