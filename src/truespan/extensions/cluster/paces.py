"""The rate limit of a provider that all processes on a store in PostgreSQL share."""

from __future__ import annotations

from functools import partial

from truespan.protocols import Clock
from truespan.providers.limits import RateLimiter
from truespan.store.engines.session import Part, retry_on_conflict

_WINDOW_SECONDS = 60


class PaceRows(Part):
    """The times of requests to providers."""

    def limiter(self, provider: str, per_minute: int) -> RateLimiter:
        """Return a limit of the requests to a provider, whose times are in the store."""
        return _SharedRateLimiter(per_minute, self._clock, provider, self)

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
                oldest=now - _WINDOW_SECONDS,
            )
            earlier = session.value(
                """SELECT begins_at FROM paces WHERE provider = :provider
                   ORDER BY begins_at DESC LIMIT 1 OFFSET :before""",
                provider=provider,
                before=per_minute - 1,
            )
            begins_at = max(now, _WINDOW_SECONDS + (earlier or 0.0))
            session.insert("paces", provider=provider, begins_at=begins_at)
            return begins_at - now


class _SharedRateLimiter(RateLimiter):
    def __init__(self, per_minute: int, clock: Clock, provider: str, rows: PaceRows) -> None:
        super().__init__(per_minute, clock)
        self._reserve = partial(rows.reserve, provider, per_minute)

    def wait(self) -> None:
        if (seconds := self._reserve()) > 0:
            self._clock.sleep(seconds)
