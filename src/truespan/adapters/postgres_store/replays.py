"""Requests with an idempotency key, in PostgreSQL."""

from __future__ import annotations

from truespan.adapters.postgres_store.connection import (
    Connections,
    again_on_conflict,
    change,
    fetch,
)
from truespan.protocols import Clock
from truespan.types.token import KEPT_SECONDS, Claim


class PostgresReplays:
    """The part of the store that knows which requests were answered how."""

    _connections: Connections
    _clock: Clock

    @again_on_conflict
    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Note that a process is at work on a request; None if nobody has claimed the key.

        Of two who claim it at once, one waits for the other here, and then finds its claim.
        """
        now = self._clock.now()
        with self._connections.sharing() as session:
            session.execute(
                "DELETE FROM truespan_shared.replays WHERE created_at < %s", (now - KEPT_SECONDS,)
            )
            mine = change(
                session,
                """INSERT INTO truespan_shared.replays (digest, fingerprint, process, created_at)
                   VALUES (%s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING""",
                (digest, fingerprint, process, now),
            )
            if mine:
                return None
            found = fetch(
                session,
                """SELECT fingerprint, process, reply FROM truespan_shared.replays
                   WHERE digest = %s""",
                (digest,),
            )
        # It may have been released between the two statements; then the next attempt may have it.
        return Claim(*found[0]) if found else self.claim_key(digest, fingerprint, process)

    @again_on_conflict
    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Go on with the claim of a process that is gone; False if somebody else has."""
        with self._connections.sharing() as session:
            taken = change(
                session,
                """UPDATE truespan_shared.replays SET process = %s
                   WHERE digest = %s AND process = %s AND reply IS NULL""",
                (process, digest, gone),
            )
        return taken > 0

    @again_on_conflict
    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Keep what a claimed request was answered, sealed."""
        with self._connections.sharing() as session:
            session.execute(
                "UPDATE truespan_shared.replays SET reply = %s WHERE digest = %s AND process = %s",
                (reply, digest, process),
            )

    @again_on_conflict
    def release_key(self, digest: bytes, process: str) -> None:
        """Forget a claim of a request that failed: the same may be tried again."""
        with self._connections.sharing() as session:
            session.execute(
                """DELETE FROM truespan_shared.replays
                   WHERE digest = %s AND process = %s AND reply IS NULL""",
                (digest, process),
            )
