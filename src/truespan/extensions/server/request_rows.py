"""Rows of HTTP requests: idempotency keys with their replies, and the pace of each caller."""

from __future__ import annotations

from msgspec import Struct

from truespan.store.engines.session import Part, retry_on_conflict

_RATE_WINDOW_SECONDS = 60
KEPT_SECONDS = 24 * 3600
"""Time for which a stored reply is returned to a repeated request."""
_HTTP = "truespan.extensions.server.http"
"""Provider name of the callers of the HTTP server."""


class Claim(Struct, frozen=True):
    """A request with an idempotency key. `reply` is None while it runs in `process`."""

    fingerprint: bytes
    process: str
    reply: bytes | None


class RequestRows(Part):
    """Idempotency keys and requests of callers, for all processes on one store."""

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
        """Take over the claim of a dead process; False if another process did."""
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
