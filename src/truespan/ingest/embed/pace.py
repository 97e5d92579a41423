"""How fast a provider is asked: so many requests a minute, and again when it could not answer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from truespan.errors import InvalidConfiguration, ProviderUnavailable
from truespan.ports import Clock, Paces

Found = TypeVar("Found")

ATTEMPTS = 5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 90.0
"""Whoever asks for a longer pause than this is not waited for: the caller is told instead."""
_MINUTE = 60.0


class Pace:
    """Lets so many requests begin in any minute, and holds the next ones back until they may.

    One of these is shared by all that ask one provider, in whatever thread.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        if per_minute < 1:
            raise InvalidConfiguration("At least one request a minute must be allowed.")
        self._clock = clock
        self._lock = Lock()
        self._begun: deque[float] = deque(maxlen=per_minute)

    def wait(self) -> None:
        """Return when the next request may begin.

        Its moment is fixed before the waiting begins, so that those who wait together do not all
        come back for the same moment.
        """
        with self._lock:
            now = self._clock.monotonic()
            full = len(self._begun) == self._begun.maxlen
            begin = max(now, self._begun[0] + _MINUTE) if full else now
            self._begun.append(begin)
        if begin > now:
            self._clock.sleep(begin - now)


class SharedPace(Pace):
    """The same for all processes of a library: the moments are kept where all of them see them."""

    def __init__(self, per_minute: int, clock: Clock, provider: str, paces: Paces) -> None:
        super().__init__(per_minute, clock)
        self._per_minute = per_minute
        self._provider = provider
        self._paces = paces

    def wait(self) -> None:
        """Return when the next request may begin."""
        seconds = self._paces.reserve(self._provider, self._per_minute)
        if seconds > 0:
            self._clock.sleep(seconds)


def retried(
    call: Callable[[], Found], clock: Clock, *, spread: int, until: float = math.inf
) -> Found:
    """Call until it answers; what may pass by itself is tried again, a refusal is not.

    The pause doubles each time, and `spread` keeps calls that failed together from returning
    together. A provider that asks for a pause gets it, unless it is longer than `LONGEST_PAUSE` or
    would end after `until`, on the clock that only grows.
    """
    pause = FIRST_PAUSE * (1 + spread % 8 / 8)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except ProviderUnavailable as error:
            asked = error.retry_after or 0.0
            wait = max(pause, asked)
            late = clock.monotonic() + wait > until
            if attempt == ATTEMPTS or asked > LONGEST_PAUSE or late:
                raise
            clock.sleep(wait)
            pause *= 2
    raise AssertionError("the loop returns or raises")
