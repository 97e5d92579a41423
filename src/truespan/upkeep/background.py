"""Repairs behind the back of a response: it never waits for them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from truespan.errors import TruespanError
from truespan.model.scope import Scope

CLOSING_SECONDS = 5.0

_log = logging.getLogger("truespan.jobs")


class BackgroundRepairs:
    """Sees to queued repairs on a thread of its own, started when there is something to do.

    Whatever it does not get to stays queued in the store, where `repair` finds it.
    """

    def __init__(self, repair: Callable[[Scope], object]) -> None:
        self._repair = repair
        self._queue: queue.SimpleQueue[Scope | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, scope: Scope) -> None:
        """Have the repairs of the scope's world seen to soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="truespan-repairs", daemon=True
                )
                self._thread.start()
        self._queue.put(scope)

    def close(self) -> None:
        """Finish what was submitted, within a few seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(CLOSING_SECONDS)

    def _work(self) -> None:
        while (scope := self._queue.get()) is not None:
            try:
                self._repair(scope)
            except TruespanError:
                # The queue in the store is untouched, and the response was right without it.
                continue
            except Exception as error:
                # Whatever it was, the next world has its turn.
                _log.error("Repairs in the background ended with %s.", type(error).__name__)
