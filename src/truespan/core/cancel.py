"""Cancellation of a request whose client has disconnected or whose time limit has passed.

The HTTP server cancels; a provider client or the store, many calls below, notices. A context
variable connects them, so the code in between is not involved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from truespan.errors import Interrupted


class CancelToken:
    """State of cancellation of a request, with callbacks. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the request and run the callbacks; a second call does nothing."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            # Work that cannot be stopped now runs to its end.
            with suppress(Exception):
                callback()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` from some thread on cancellation; it must not block."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        raise Interrupted

    def remove_callback(self, callback: Callable[[], None]) -> None:
        """Remove a callback; nothing happens if it was not added."""
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)

    def check(self) -> None:
        """Raise `Interrupted` if the request was cancelled."""
        if self._cancelled:
            raise Interrupted


_CURRENT: ContextVar[CancelToken | None] = ContextVar("truespan_cancel_token", default=None)


@contextmanager
def use_cancel_token(token: CancelToken) -> Iterator[None]:
    """Make `token` the current token of this thread within the block."""
    previous = _CURRENT.set(token)
    try:
        yield
    finally:
        _CURRENT.reset(previous)


def check_cancelled() -> None:
    """Raise `Interrupted` if the current request was cancelled."""
    token = _CURRENT.get()
    if token is not None:
        token.check()


def current_cancel_token() -> CancelToken:
    """Return the current token; without one, a token that is never cancelled."""
    return _CURRENT.get() or CancelToken()
