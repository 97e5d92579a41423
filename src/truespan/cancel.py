"""Whoever asks may leave; what waits for somebody else on their behalf is told so.

A door knows that its client has gone, and an adapter, far below it, waits for a model. What is
between the two has no part in this, so the one is found by the other through the thread that they
share, as a request's own context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from truespan.errors import Interrupted


class CancelToken:
    """One who asked, and may leave before the answer is there. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = False
        self._told: list[Callable[[], None]] = []

    @property
    def has_left(self) -> bool:
        """Say whether nobody waits any more."""
        return self._left

    def leave(self) -> None:
        """Leave, and tell whatever waits on one's behalf; again does no harm."""
        with self._lock:
            self._left = True
            told, self._told = self._told, []
        for tell in told:
            # What cannot be ended ends by itself, later.
            with suppress(Exception):
                tell()

    def tell(self, end: Callable[[], None]) -> None:
        """Have `end` called, by whichever thread, as soon as nobody waits; it must not wait itself.

        Raises:
            Interrupted: nobody does any more.
        """
        with self._lock:
            if not self._left:
                self._told.append(end)
                return
        raise Interrupted

    def forget(self, end: Callable[[], None]) -> None:
        """Let `end` not be called any more."""
        with self._lock, suppress(ValueError):
            self._told.remove(end)

    def check(self) -> None:
        """Go on only if somebody waits.

        Raises:
            Interrupted: nobody does.
        """
        if self._left:
            raise Interrupted


_CURRENT: ContextVar[CancelToken | None] = ContextVar("truespan_leaving", default=None)


@contextmanager
def use_cancel_token(leaving: CancelToken) -> Iterator[None]:
    """Do what this thread does within on behalf of somebody who may leave."""
    token = _CURRENT.set(leaving)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_cancel_token() -> CancelToken:
    """Return on whose behalf this thread works: where nobody was named, one who never leaves."""
    return _CURRENT.get() or CancelToken()
