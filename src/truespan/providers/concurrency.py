"""The limit of concurrent requests to a provider, shared by all clients of a process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

from truespan.core.cancel import current_cancel_token

_QUERIES_IN_A_ROW = 8
"""Number of queries after which a waiting request of ingestion is sent, so that it goes on."""
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
        """Wait for a slot, at most `seconds` if given, and hold it within the block.

        Raises:
            Interrupted: the request was cancelled while it waited.
            TimeoutError: no slot became free in time.
        """
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
