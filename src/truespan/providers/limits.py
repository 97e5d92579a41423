"""Limits of requests to a provider: concurrent requests in a process, and requests per minute."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from truespan.core.cancel import current_cancel_token
from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock

if TYPE_CHECKING:
    pass

_QUERIES_IN_A_ROW = 8
"""Number of queries after which a waiting request of ingestion is sent, so that it continues."""
_FOR_QUERY: ContextVar[bool] = ContextVar("truespan_request_for_query", default=False)


@contextmanager
def sending_query() -> Iterator[None]:
    """Give the requests within the block precedence over waiting requests of ingestion."""
    previous = _FOR_QUERY.set(True)
    try:
        yield
    finally:
        _FOR_QUERY.reset(previous)


# Shared by threads: everything is changed under its lock.
class RequestSlots:
    """A limit of concurrent requests. Queries precede requests of ingestion, each in order."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._running = 0
        self._queries: deque[threading.Event] = deque()
        self._documents: deque[threading.Event] = deque()
        self._queries_in_a_row = 0

    @contextmanager
    def hold(self, seconds: float | None = None) -> Iterator[None]:
        """Wait for a slot, at most `seconds` if given, and hold it within the block."""
        token, turn = current_cancel_token(), threading.Event()
        waiting = self._queries if _FOR_QUERY.get() else self._documents
        token.add_callback(turn.set)
        with self._lock:
            waiting.append(turn)
            self._start_next()
        try:
            free = turn.wait(seconds)
            token.check()
            if not free:
                raise TimeoutError
            yield
        finally:
            token.remove_callback(turn.set)
            with self._lock:
                if turn in waiting:
                    # Cancelled or out of time before its turn: it never had a slot.
                    waiting.remove(turn)
                else:
                    self._running -= 1
                    self._start_next()

    def _start_next(self) -> None:
        while self._running < self.limit and (self._queries or self._documents):
            enough = self._documents and self._queries_in_a_row >= _QUERIES_IN_A_ROW
            is_query = bool(self._queries) and not enough
            self._queries_in_a_row = self._queries_in_a_row + 1 if is_query else 0
            self._running += 1
            (self._queries if is_query else self._documents).popleft().set()


# Shared by threads: changed only while `_LOCK` is held.
_SLOTS: WeakValueDictionary[str, RequestSlots] = WeakValueDictionary()
_LOCK = threading.Lock()


def slots_for(address: str, limit: int) -> RequestSlots:
    """Return the slots for requests to an address; the lowest of several limits applies."""
    with _LOCK:
        slots = _SLOTS.get(address)
        if slots is None:
            slots = _SLOTS[address] = RequestSlots(limit)
        slots.limit = min(slots.limit, limit)
        return slots


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
