"""Small records: calibrations, cohorts, cached queries, idempotency keys, limits, usage, tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from truespan.errors import NotAllowed, NotFound, StoreDamaged
from truespan.store.engines.session import BRIEF_WAIT, MissingRow, Part, Row, retry_on_conflict
from truespan.store.integrity.checksums import checksum
from truespan.store.integrity.erasure import QUERIES_ERASED
from truespan.store.tables.catalog import StateCache
from truespan.types.answer import Usage, UsageRecord
from truespan.types.chunk import QueryEntry
from truespan.types.decision import AnswerMode
from truespan.types.ids import WorldId
from truespan.types.profile import Calibration
from truespan.types.scope import OWNER, UNLIMITED, Authority, Scope, Unlimited, Verb, World
from truespan.types.token import KEPT_SECONDS, Claim, TokenRecord
from truespan.types.vectors import Vector

_CACHE_SECONDS = 48 * 3600
"""Age after which cached queries are removed: twice the maximum time of use."""
_RATE_WINDOW_SECONDS = 60
_HTTP = "truespan.extensions.server.http"
"""Provider name of the callers of the HTTP server."""
_DAY = 24 * 3600.0
_USAGE = """
    SELECT id, created_at, mode, milliseconds, primary_model, fallback_model, evidence,
      decision_explain
    FROM usage WHERE world_id = :world
"""
_TOKENS = """
    SELECT t.digest, t.id, t.name, t.every_world, t.verbs, t.every_reader, t.readers,
      t.every_label, t.audience, t.impersonate, t.created_at, t.expires_at,
      t.revoked_at, WORLD_TEXT(d)
    FROM tokens t LEFT JOIN token_worlds w ON w.token = t.key
    LEFT JOIN directory d ON d.world_id = w.world_id
"""
"""Selects a row for each world of a token, and one for a token without worlds."""


class Records(Part):
    """Calibrations, cached queries, idempotency keys, rate limits, usage log and access tokens."""

    def __init__(self) -> None:
        super().__init__()
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
        return (msgspec.json.decode(cells[0], type=Calibration),)

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
        """Cache queries, except from before an erasure, and remove old entries.

        Raises:
            StoreBusy: another writer holds the lock; a cache is not worth waiting for.
        """
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
        """Record that the model of cached queries was confirmed.

        Raises:
            StoreBusy: another writer holds the lock; a cache is not worth waiting for.
        """
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

    @retry_on_conflict
    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Claim a key for a request of a process; return the existing claim, if there is one.

        Of two concurrent callers, one waits and then finds the claim of the other.
        """
        now = self._clock.now()
        with self._db.write_shared() as session:
            # Entries that a wrong clock dated far ahead are removed as well.
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
        # If the claim was released between the two statements, try again.
        return Claim(*found) if found else self.claim_key(digest, fingerprint, process)

    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Take over the claim of a process that is gone; False if another process did."""
        taken = self._db.shared.execute(
            """UPDATE replays SET process = :process
               WHERE digest = :digest AND process = :gone AND reply IS NULL""",
            process=process,
            digest=digest,
            gone=gone,
        )
        return taken > 0

    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Store the sealed reply to a claimed request."""
        self._db.shared.execute(
            "UPDATE replays SET reply = :reply WHERE digest = :digest AND process = :process",
            reply=reply,
            digest=digest,
            process=process,
        )

    def release_key(self, digest: bytes, process: str) -> None:
        """Remove the claim of a request that failed, so that it can be tried again."""
        self._db.shared.execute(
            """DELETE FROM replays
               WHERE digest = :digest AND process = :process AND reply IS NULL""",
            digest=digest,
            process=process,
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

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key has to wait; 0 if it can be used."""
        until = self._db.shared.value(
            "SELECT until FROM cooldowns WHERE provider = :provider AND key = :key",
            provider=provider,
            key=key,
        )
        return until or 0.0

    @retry_on_conflict
    def cool_down(self, provider: str, key: str, until: float) -> None:
        with self._db.write_shared() as session:
            where = ("provider", "key")
            session.insert_many("cooldowns", (*where, "until"), [(provider, key, until)], key=where)

    @retry_on_conflict
    def reserve(self, provider: str, per_minute: int) -> float:
        """Reserve the time of the next request to a provider, and return the seconds until then.

        Only a store on a server has the table: its processes share one limit, by its clock.
        """
        with self._db.write_shared() as session:
            # One reservation at a time, so that no minute has too many requests.
            session.lock_name("truespan.paces", provider)
            now: float = session.value(
                "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
            )
            # Requests before this window do not count any more.
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

    @retry_on_conflict
    def count_request(self, caller: str, per_minute: int) -> float:
        """Count a request of a caller; return 0, or the seconds until a request is allowed.

        All processes on one store share the limit. It allows a burst of `per_minute` requests, then
        one request per interval. The stored time of a caller is when all requests so far would have
        been sent at that rate.
        """
        interval = _RATE_WINDOW_SECONDS / per_minute
        with self._db.write_shared() as session:
            session.lock_name("truespan.requests", caller)
            now = self._clock.now()
            until = session.value(
                "SELECT until FROM cooldowns WHERE provider = :provider AND key = :caller",
                provider=_HTTP,
                caller=caller,
            )
            paced = max(until or 0.0, now) + interval
            wait = paced - now - _RATE_WINDOW_SECONDS
            if wait > 0:
                return wait
            where = ("provider", "key")
            session.insert_many("cooldowns", (*where, "until"), [(_HTTP, caller, paced)], key=where)
            return 0.0

    # The usage log: requests and decisions, without any text of documents.

    @retry_on_conflict
    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, max_records: int
    ) -> str:
        """Log one answered request and return its id.

        The same commit removes records older than `days`, and all but the latest
        `max_records` records of the world.

        Raises:
            StoreBusy: other writers held the lock for too long.
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

    # Access tokens. Only the owner of the library may list them, or change them.

    @retry_on_conflict
    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Add a token.

        Raises:
            NotFound: one of its worlds does not exist; nothing is added.
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

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        _require_owner(authority)
        found = _read_tokens(self._db.shared.all(f"{_TOKENS} ORDER BY t.key"))
        return [record for record, _ in found]

    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Revoke a token; False if there is none. The time of the first revocation is kept."""
        _require_owner(authority)
        found = self._db.shared.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, :now) WHERE id = :token",
            now=now,
            token=token,
        )
        return found > 0

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret; None if there is none.

        It is not cached, so that a revocation by another process is noticed.
        """
        found = _read_tokens(self._db.shared.all(f"{_TOKENS} WHERE t.id = :token", token=token))
        return found[0] if found else None


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


def _require_owner(authority: Authority) -> None:
    if authority != OWNER:
        raise NotAllowed("use tokens")


def _names_text(names: frozenset[Any] | Unlimited) -> str:
    """Return names as JSON; another column says if there is no limit."""
    return msgspec.json.encode([] if isinstance(names, Unlimited) else sorted(names)).decode()


def _read_tokens(rows: Iterable[Row]) -> list[tuple[TokenRecord, bytes]]:
    """Return tokens with their digests.

    Raises:
        StoreDamaged: a token is damaged, so that it grants no rights.
    """
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
