"""Requests with an idempotency key, in SQLite."""

from __future__ import annotations

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.protocols import Clock
from truespan.types.token import KEPT_SECONDS, Claim


class SqliteReplays:
    """The part of the store that knows which requests were answered how."""

    _connections: Connections
    _clock: Clock

    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Note that a process is at work on a request; None if nobody has claimed the key."""
        now = self._clock.now()
        with self._connections.writing() as connection:
            # What a clock that was wrong dated far ahead would otherwise be kept for as long.
            connection.execute(
                "DELETE FROM replays WHERE created_at NOT BETWEEN ? AND ?",
                (now - KEPT_SECONDS, now + KEPT_SECONDS),
            )
            found = fetch(
                connection,
                "SELECT fingerprint, process, reply FROM replays WHERE digest = ?",
                (digest,),
            )
            if found:
                return Claim(*found[0])
            connection.execute(
                "INSERT INTO replays VALUES (?, ?, ?, NULL, ?)", (digest, fingerprint, process, now)
            )
        return None

    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Go on with the claim of a process that is gone; False if somebody else has."""
        with self._connections.writing() as connection:
            connection.execute(
                "UPDATE replays SET process = ? WHERE digest = ? AND process = ? AND reply IS NULL",
                (process, digest, gone),
            )
            return connection.changes() > 0

    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Keep what a claimed request was answered, sealed."""
        with self._connections.writing() as connection:
            connection.execute(
                "UPDATE replays SET reply = ? WHERE digest = ? AND process = ?",
                (reply, digest, process),
            )

    def release_key(self, digest: bytes, process: str) -> None:
        """Forget a claim of a request that failed: the same may be tried again."""
        with self._connections.writing() as connection:
            connection.execute(
                "DELETE FROM replays WHERE digest = ? AND process = ? AND reply IS NULL",
                (digest, process),
            )
