"""State that the processes of a library share: waiting times and limits of providers."""

from __future__ import annotations

from truespan.store.engines.session import Part, retry_on_conflict

RATE_WINDOW_SECONDS = 60


class Limits(Part):
    """Waiting times of provider keys, and rate limits."""

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
                oldest=now - RATE_WINDOW_SECONDS,
            )
            earlier = session.value(
                """SELECT begins_at FROM paces WHERE provider = :provider
                   ORDER BY begins_at DESC LIMIT 1 OFFSET :before""",
                provider=provider,
                before=per_minute - 1,
            )
            begins_at = max(now, RATE_WINDOW_SECONDS + (earlier or 0.0))
            session.insert("paces", provider=provider, begins_at=begins_at)
            return begins_at - now
