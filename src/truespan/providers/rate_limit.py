"""Limits of requests per minute to a provider, in one process or in all processes of a library."""

from __future__ import annotations

from collections import deque
from functools import partial
from threading import Lock

from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock, RateLimitStore

_MINUTE = 60.0


class RateLimiter:
    """A limit of the requests that start in any minute, shared by all threads."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        if per_minute < 1:
            raise InvalidConfiguration("The rate limit must be at least one request a minute.")
        self._clock = clock
        self._lock = Lock()
        self._begun: deque[float] = deque(maxlen=per_minute)

    def wait(self) -> None:
        """Wait until the next request may start."""
        # Reserved before waiting, so that threads waiting together do not all start at once.
        with self._lock:
            now = self._clock.monotonic()
            full = len(self._begun) == self._begun.maxlen
            begin = max(now, self._begun[0] + _MINUTE) if full else now
            self._begun.append(begin)
        if begin > now:
            self._clock.sleep(begin - now)


class SharedRateLimiter(RateLimiter):
    """A limit shared by all processes of a library: the start times are in its store."""

    def __init__(self, per_minute: int, clock: Clock, provider: str, store: RateLimitStore) -> None:
        super().__init__(per_minute, clock)
        self._reserve = partial(store.reserve, provider, per_minute)

    def wait(self) -> None:
        """Wait until the next request may start."""
        if (seconds := self._reserve()) > 0:
            self._clock.sleep(seconds)
