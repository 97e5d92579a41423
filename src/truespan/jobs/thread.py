"""Jobs behind the back of whoever asks for them, on a thread of this process."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from truespan.errors import InvalidConfiguration
from truespan.protocols import JobWorker
from truespan.types.job import JobOrder

CLOSING_SECONDS = 10.0
"""How long closing waits for a step to end; a request to a provider may take longer."""

_log = logging.getLogger("truespan.jobs")
_log.addHandler(logging.NullHandler())


class JobThread:
    """Does jobs one after another on a thread of its own, started when there is something to do.

    Whatever it does not get to is interrupted in the store, where the next process finds it.
    """

    def __init__(self, *, closing_seconds: float = CLOSING_SECONDS) -> None:
        self._worker: JobWorker | None = None
        self._queue: queue.Queue[JobOrder | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._current: JobOrder | None = None
        self._closing_seconds = closing_seconds

    @property
    def holder(self) -> None:
        """Jobs that wait are this process's own."""
        return

    def work_with(self, worker: JobWorker) -> None:
        """Say who does the work."""
        self._worker = worker

    def require_room(self) -> None:
        """There is room: what waits is only names."""

    def standing(self) -> None:
        """There is nothing to look at from outside."""
        return

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        now_and_then: Callable[[], None],
    ) -> int:
        """Refuse: no other process hears of what is submitted here."""
        del concurrency, once, stopping, now_and_then
        raise InvalidConfiguration(
            "The jobs of this library are done by the process that they are submitted to.",
            advice="Workers need a store in PostgreSQL; see docs/workers.md.",
        )

    def submit(self, order: JobOrder) -> None:
        """Have a job done when its turn comes."""
        with self._lock:
            if not self._stopping.is_set():
                self._start()
                self._queue.put(order)
                return
        self._leave(order)

    def wait(self) -> None:
        """Return once everything that was submitted is over."""
        self._queue.join()

    def close(self) -> None:
        """Stop what runs before its next step, within some seconds, and leave the rest."""
        with self._lock:
            self._stopping.set()
            thread, self._thread = self._thread, None
            left = self._drained()
            self._queue.put(None)
        if thread is not None:
            thread.join(self._closing_seconds)
        running = self._current
        for order in [*left, *([running] if running is not None else [])]:
            self._leave(order)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="truespan-jobs", daemon=True)
            self._thread.start()

    def _drained(self) -> list[JobOrder]:
        left: list[JobOrder] = []
        with suppress(queue.Empty):
            while True:
                order = self._queue.get_nowait()
                self._queue.task_done()
                if order is not None:
                    left.append(order)
        return left

    def _work(self) -> None:
        while (order := self._queue.get()) is not None:
            self._current = order
            try:
                self._run(order)
            finally:
                self._current = None
                self._queue.task_done()

    def _run(self, order: JobOrder) -> None:
        if self._stopping.is_set() or self._worker is None:
            self._leave(order)
            return
        try:
            self._worker.run(order, self._stopping.is_set)
        # Whatever ends one job, the next one has its turn; how it ended is in its record.
        except Exception as error:
            _log.error("The job %s ended with %s.", order.job, type(error).__name__)

    def _leave(self, order: JobOrder) -> None:
        if self._worker is not None:
            try:
                self._worker.leave(order)
            except Exception as error:
                # The process ends, and whoever looks at the job will see that.
                _log.error("The job %s was left with %s.", order.job, type(error).__name__)
