"""Small records: calibrations, cached queries, idempotency keys, and the limits of providers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from truespan.errors import StoreDamaged
from truespan.store.session import Part, retry_on_conflict
from truespan.types.chunk import Vector
from truespan.types.profile import Calibration
from truespan.types.scope import Scope
from truespan.types.token import KEPT_SECONDS, Claim

_CACHE_SECONDS = 48 * 3600
"""Twice the longest use of a cached query: older ones are removed when a new one is written."""
_RATE_WINDOW_SECONDS = 60


class Calibrations(Part):
    """The part of the store that holds what was measured for an embedding profile."""

    def kept_calibration(self, scope: Scope) -> Calibration | None:
        """Return the calibration of the scope's profile; None without one."""
        measured = self._db.at(scope).value(
            "SELECT measured FROM calibrations WHERE world_id = :world AND profile_id = :profile",
            profile=scope.profile.id,
        )
        try:
            return None if measured is None else msgspec.json.decode(measured, type=Calibration)
        except msgspec.MsgspecError:
            raise StoreDamaged("The kept calibration of a world is damaged.") from None

    @retry_on_conflict
    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        """Store a calibration in place of an earlier one."""
        with self._db.write(scope) as session:
            session.insert(
                "calibrations",
                key=("profile_id",),
                profile_id=scope.profile.id,
                measured=msgspec.json.encode(calibration).decode(),
                kept_at=self._clock.now(),
            )
            # Answers depend on it, so that a request that is running must look again.
            session.touch_world()

    @retry_on_conflict
    def forget_calibration(self, scope: Scope) -> bool:
        """Remove the calibration of the scope's profile; return whether there was one."""
        with self._db.write(scope) as session:
            removed = session.execute(
                "DELETE FROM calibrations WHERE world_id = :world AND profile_id = :profile",
                profile=scope.profile.id,
            )
            if removed:
                session.touch_world()
        return removed > 0


class QueryCache(Part):
    """The part of the store that caches the vectors of queries."""

    def cached_query(self, scope: Scope, key: str, *, now: float, ttl: float) -> Vector | None:
        """Return a vector that is strictly younger than `ttl`.

        An entry dated in the future counts as expired: the clock was wrong then or is wrong now.
        """
        found = self._db.at(scope).one(
            "SELECT vector, created_at FROM query_cache WHERE world_id = :world AND key = :key",
            key=key,
        )
        if found is None or not 0 <= now - found[1] < ttl:
            return None
        return Vector(found[0])

    @retry_on_conflict
    def cache_query(self, scope: Scope, key: str, vector: Vector, *, now: float) -> None:
        """Cache the vector of a query, and remove those that are too old."""
        with self._db.write(scope, lock=False) as session:
            session.insert_many(
                "query_cache", ("key", "vector", "created_at"), [(key, vector, now)], key=("key",)
            )
            # In every world of a file, also in idle ones; row security keeps to this world.
            session.execute(
                "DELETE FROM query_cache WHERE created_at < :oldest OR created_at > :now",
                oldest=now - _CACHE_SECONDS,
                now=now,
            )


class IdempotencyKeys(Part):
    """The part of the store that knows which requests with an idempotency key were answered how."""

    @retry_on_conflict
    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Claim a key for a request of a process; return the claim of another, if there is one.

        Of two that claim it at the same time, one waits here and then finds the other's claim.
        """
        now = self._clock.now()
        with self._db.write_shared() as session:
            # Entries that a wrong clock dated far ahead would otherwise stay for as long.
            session.execute(
                "DELETE FROM replays WHERE created_at NOT BETWEEN :oldest AND :latest",
                oldest=now - KEPT_SECONDS,
                latest=now + KEPT_SECONDS,
            )
            claimed = session.execute(
                """INSERT INTO replays (digest, fingerprint, process, created_at)
                   VALUES (:digest, :fingerprint, :process, :now) ON CONFLICT DO NOTHING""",
                digest=digest,
                fingerprint=fingerprint,
                process=process,
                now=now,
            )
            if claimed:
                return None
            found = session.one(
                "SELECT fingerprint, process, reply FROM replays WHERE digest = :digest",
                digest=digest,
            )
        # It may have been released between the two statements; then the next attempt may get it.
        return Claim(*found) if found else self.claim_key(digest, fingerprint, process)

    @retry_on_conflict
    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Take over the claim of a process that is gone; False if another process did."""
        with self._db.write_shared() as session:
            taken = session.execute(
                """UPDATE replays SET process = :process
                   WHERE digest = :digest AND process = :gone AND reply IS NULL""",
                process=process,
                digest=digest,
                gone=gone,
            )
        return taken > 0

    @retry_on_conflict
    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Store the sealed reply to a claimed request."""
        with self._db.write_shared() as session:
            session.execute(
                "UPDATE replays SET reply = :reply WHERE digest = :digest AND process = :process",
                reply=reply,
                digest=digest,
                process=process,
            )

    @retry_on_conflict
    def release_key(self, digest: bytes, process: str) -> None:
        """Remove the claim of a request that failed, so that it can be tried again."""
        with self._db.write_shared() as session:
            session.execute(
                """DELETE FROM replays
                   WHERE digest = :digest AND process = :process AND reply IS NULL""",
                digest=digest,
                process=process,
            )


class ProviderRecords(Part):
    """The part of the store that knows probes of models, cooldowns of keys, and rate limits."""

    def probes(self, scope: Scope) -> dict[str, Vector]:
        """Return the vectors of known texts that were stored for the generation."""
        rows = self._db.at(scope).all(
            "SELECT probe, vector FROM probes WHERE world_id = :world AND generation = :generation",
        )
        return {probe: Vector(vector) for probe, vector in rows}

    @retry_on_conflict
    def keep_probes(self, scope: Scope, probes: Mapping[str, Vector]) -> None:
        """Store the vectors of known texts."""
        with self._db.write(scope) as session:
            session.insert_many(
                "probes",
                ("generation", "probe", "vector"),
                [(scope.generation.number, probe, vector) for probe, vector in probes.items()],
                key=("generation", "probe"),
            )

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key is not to be used; 0 for one that can be used."""
        rows = self._db.shared.all(
            "SELECT until FROM cooldowns WHERE provider = :provider AND key = :key",
            provider=provider,
            key=key,
        )
        return rows[0][0] if rows else 0.0

    @retry_on_conflict
    def cool_down(self, provider: str, key: str, until: float) -> None:
        """Do not use a key until a time."""
        with self._db.write_shared() as session:
            session.insert_many(
                "cooldowns",
                ("provider", "key", "until"),
                [(provider, key, until)],
                key=("provider", "key"),
            )

    @retry_on_conflict
    def reserve(self, provider: str, per_minute: int) -> float:
        """Reserve the moment of the next request and return the seconds until then.

        Only a store on a server has the table: its processes share one limit, by its clock.
        """
        with self._db.write_shared() as session:
            # One reservation at a time, so that no minute has more than it may.
            session.lock_name("truespan.paces", provider)
            now: float = session.value(
                "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
            )
            # Requests that began before this window limit nothing any more.
            session.execute(
                "DELETE FROM paces WHERE provider = :provider AND begins_at < :oldest",
                provider=provider,
                oldest=now - _RATE_WINDOW_SECONDS,
            )
            earlier = session.value(
                """SELECT begins_at FROM paces WHERE provider = :provider
                   ORDER BY begins_at DESC LIMIT 1 OFFSET :before""",
                provider=provider,
                before=per_minute - 1,
            )
            begins_at = max(now, _RATE_WINDOW_SECONDS + (earlier or 0.0))
            session.insert("paces", provider=provider, begins_at=begins_at)
            return begins_at - now
