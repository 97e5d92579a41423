"""Small records of a world: calibrations, cohorts, cached queries, probes and the usage log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from truespan.core.decoding import prepare
from truespan.errors import NotFound, StoreDamaged
from truespan.protocols import Clock
from truespan.store.engines.session import (
    BRIEF_WAIT,
    Database,
    Part,
    Row,
    retry_on_conflict,
)
from truespan.store.integrity.checksums import checksum
from truespan.store.integrity.erasure import QUERIES_ERASED
from truespan.store.tables.catalog import StateCache
from truespan.types.answer import Usage, UsageRecord
from truespan.types.chunk import QueryEntry
from truespan.types.decision import AnswerMode
from truespan.types.ids import WorldId
from truespan.types.profile import Calibration
from truespan.types.scope import Authority, Scope, World
from truespan.types.vectors import Vector

_CACHE_SECONDS = 48 * 3600
"""Age after which cached queries are removed: twice the maximum time of use."""
_DAY = 24 * 3600.0
_USAGE = """
    SELECT id, created_at, mode, milliseconds, primary_model, fallback_model, evidence,
      decision_explain
    FROM usage WHERE world_id = :world
"""


class Records(Part):
    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self._calibrations = StateCache[tuple[Calibration | None]](64)

    def kept_calibration(self, scope: Scope, world: World | None = None) -> Calibration | None:
        """Return the calibration of the scope's profile; None without one.

        With `world`, it is cached for that state of the world.
        """
        if world is None:
            return self._read_calibration(scope)[0]
        return self._calibrations.get(scope, world, self._read_calibration)[0]

    def _read_calibration(self, scope: Scope) -> tuple[Calibration | None]:
        found = self._db.at(scope).one(
            """SELECT measured, kept_at, checksum FROM calibrations
               WHERE world_id = :world AND profile_id = :profile""",
            profile=scope.profile.id,
        )
        if found is None:
            return (None,)
        *cells, recorded = found
        if recorded != checksum("calibrations", scope.world, scope.profile.id, *cells):
            raise StoreDamaged(
                "The calibration of this world is damaged.",
                advice="Measure it again with 'truespan calibrate --keep'.",
            )
        return (msgspec.json.decode(cells[0], type=prepare(Calibration)),)

    @retry_on_conflict
    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        cells = msgspec.json.encode(calibration).decode(), self._clock.now()
        profile = scope.profile.id
        with self._db.write(scope) as session:
            session.insert(
                "calibrations",
                key=("profile_id",),
                profile_id=profile,
                measured=cells[0],
                kept_at=cells[1],
                checksum=checksum("calibrations", scope.world, profile, *cells),
            )
            # Running requests must notice the change, because answers depend on it.
            session.touch_world()

    def kept_cohort(self, scope: Scope, digest: str) -> bytes | None:
        """Return the vectors of the cohort with this digest; None if there are none."""
        vectors, recorded = self._db.at(scope).one(
            """SELECT vectors, checksum FROM cohorts
               WHERE world_id = :world AND profile_id = :profile AND digest = :digest""",
            profile=scope.profile.id,
            digest=digest,
        ) or (b"", b"")
        # If they are damaged, the texts are embedded again.
        intact = recorded == checksum("cohorts", scope.world, scope.profile.id, digest, vectors)
        return vectors if intact else None

    @retry_on_conflict
    def keep_cohort(self, scope: Scope, digest: str, vectors: bytes) -> None:
        profile = scope.profile.id
        with self._db.write(scope) as session:
            session.insert(
                "cohorts",
                key=("profile_id",),
                profile_id=profile,
                digest=digest,
                vectors=vectors,
                checksum=checksum("cohorts", scope.world, profile, digest, vectors),
            )

    def cached_query(self, scope: Scope, key: str, *, now: float, ttl: float) -> QueryEntry | None:
        """Return a cached query if it is younger than `ttl`; None otherwise.

        An entry dated in the future counts as expired: the clock was wrong then or is wrong now.
        """
        found = self._db.at(scope).one(
            """SELECT vector, states, created_at, unconfirmed, checksum FROM query_cache
               WHERE world_id = :world AND key = :key""",
            key=key,
        )
        if found is None or not 0 <= now - found[2] < ttl:
            return None
        *cells, unconfirmed, recorded = found
        # If it is damaged, the query is embedded again.
        intact = recorded == checksum("query_cache", scope.world, key, *cells)
        return QueryEntry(key, *cells, unconfirmed=unconfirmed) if intact else None

    @retry_on_conflict
    def cache_queries(self, scope: Scope, entries: Sequence[QueryEntry], *, now: float) -> None:
        """Cache queries, except from before an erasure, and remove old entries."""
        with self._db.write(scope, lock=False, wait=0.0, now=now) as session:
            erased = session.value(
                "SELECT created_at FROM query_cache WHERE world_id = :world AND key = :key",
                key=QUERIES_ERASED,
            )
            session.insert_many(
                "query_cache",
                ("key", "vector", "states", "created_at", "unconfirmed", "checksum"),
                [
                    # The checksum covers what a confirmation leaves unchanged.
                    (*entry, checksum("query_cache", scope.world, *entry[:-1]))
                    for entry in entries
                    if erased is None or entry.embedded_at > erased
                ],
                key=("key",),
            )
            # On SQLite in every world, also in idle ones; row security limits it to this world.
            session.execute(
                "DELETE FROM query_cache WHERE created_at < :oldest OR created_at > :now",
                oldest=now - _CACHE_SECONDS,
            )

    def unconfirmed_queries(self, scope: Scope, model: str) -> list[str]:
        """Return the keys of cached queries whose model has not been confirmed since."""
        rows = self._db.at(scope).all(
            "SELECT key FROM query_cache WHERE world_id = :world AND unconfirmed = :model",
            model=model,
        )
        return [key for (key,) in rows]

    @retry_on_conflict
    def confirm_queries(self, scope: Scope, keys: Sequence[str]) -> None:
        """Record that the model of cached queries was confirmed."""
        with self._db.write(scope, lock=False, wait=0.0) as session:
            session.execute(
                """UPDATE query_cache SET unconfirmed = NULL
                   WHERE world_id = :world AND key IN LIST(:keys)""",
                keys=keys,
            )

    @retry_on_conflict
    def discard_unconfirmed_queries(self, scope: Scope, model: str) -> None:
        with self._db.write(scope, lock=False) as session:
            session.execute(
                "DELETE FROM query_cache WHERE world_id = :world AND unconfirmed = :model",
                model=model,
            )

    def probes(self, scope: Scope) -> dict[str, Vector]:
        """Return the vectors of fixed texts of the generation."""
        number = scope.generation.number
        rows = self._db.at(scope).all(
            """SELECT probe, vector, checksum FROM probes
               WHERE world_id = :world AND generation = :generation"""
        )
        return {
            probe: Vector(vector)
            for probe, vector, recorded in rows
            if recorded == checksum("probes", scope.world, number, probe, vector)
        }

    @retry_on_conflict
    def keep_probes(self, scope: Scope, probes: Mapping[str, Vector]) -> None:
        number = scope.generation.number
        with self._db.write(scope) as session:
            session.insert_many(
                "probes",
                ("generation", "probe", "vector", "checksum"),
                [
                    (number, probe, vector, checksum("probes", scope.world, number, probe, vector))
                    for probe, vector in probes.items()
                ],
                key=("generation", "probe"),
            )

    # The usage log: requests and decisions, without any text of documents.

    @retry_on_conflict
    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, max_records: int
    ) -> str:
        """Log one answered request and return its id.

        The same commit removes records older than `days`, and all but the latest
        `max_records` records of the world.
        """
        if not authority.sees(world):
            raise NotFound("world", world)
        now, record = self._clock.now(), uuid4().hex[:12]
        with self._db.write(world, lock=False, wait=BRIEF_WAIT, max_records=max_records) as session:
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
            # On SQLite in every world, also in idle ones; row security limits it to this world.
            session.execute(
                "DELETE FROM usage WHERE created_at < :oldest", oldest=now - days * _DAY
            )
            session.execute(
                """DELETE FROM usage WHERE world_id = :world AND key <= (SELECT key FROM usage
                     WHERE world_id = :world ORDER BY key DESC LIMIT 1 OFFSET :max_records)"""
            )
        return record

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, newest first."""
        if not authority.sees(world):
            raise NotFound("world", world)
        rows = self._db.at(world).all(f"{_USAGE} ORDER BY key DESC LIMIT :limit", limit=limit)
        return [_read_usage(row) for row in rows]


def _read_usage(row: Row) -> UsageRecord:
    """Return a row as a record, without its details if it is damaged."""
    record, created_at, mode, milliseconds, primary, fallback, evidence, explained = row
    try:
        found = AnswerMode(mode)
        evidence = msgspec.json.decode(evidence, type=dict[str, Any])
        explained = msgspec.json.decode(explained, type=dict[str, Any])
    except (ValueError, RecursionError):
        found = AnswerMode(mode) if mode in set(AnswerMode) else AnswerMode.FALLBACK
        evidence, explained = {}, {}
    return UsageRecord(
        id=record,
        created_at=created_at,
        mode=found,
        milliseconds=milliseconds,
        primary_model=primary,
        fallback_model=fallback,
        evidence=evidence,
        decision_explain=explained,
    )
