"""Background jobs and repairs on threads of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from truespan.errors import InvalidConfiguration, TruespanError
from truespan.protocols import JobWorker
from truespan.types.job import JobOrder
from truespan.types.scope import Scope

CLOSING_SECONDS = 10.0
"""Maximum time that `close` waits for a step; a request to a provider may take longer."""

REPAIR_SECONDS = 5.0
"""Maximum time that `close` waits for queued repairs."""


def _log_error(message: str, *values: object) -> None:
    # Imported with the first failure.
    import logging

    log = logging.getLogger("truespan.jobs")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.error(message, *values)


# Shared by threads: a queue of the standard library; the thread is started under a lock.
class JobThread:
    """Runs jobs one after another on its own thread, which starts with the first job."""

    queue_id = None
    """Queued jobs belong to this process."""

    def __init__(self, *, closing_seconds: float = CLOSING_SECONDS) -> None:
        self._worker: Callable[[], JobWorker] | None = None
        self._queue: queue.Queue[JobOrder | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._current: JobOrder | None = None
        self._closing_seconds = closing_seconds

    def work_with(self, worker: Callable[[], JobWorker]) -> None:
        """Set the factory of the worker that runs the jobs."""
        self._worker = worker

    def require_room(self) -> None:
        """Accept any number of jobs: each is only a name in memory."""

    def status(self) -> None:
        """Return None: no other process can see this queue."""
        return

    def serve(self, **_options: object) -> int:
        """Raise `InvalidConfiguration`: no other process sees this queue."""
        raise InvalidConfiguration(
            "This library has no worker processes: the process that submits a job runs it.",
            advice="Workers need a store in PostgreSQL; see docs/deployment.md.",
        )

    def submit(self, order: JobOrder) -> None:
        """Queue a job."""
        with self._lock:
            if not self._stopping.is_set():
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="truespan-jobs", daemon=True
                    )
                    self._thread.start()
                self._queue.put(order)
                return
        self._leave(order)

    def wait(self) -> None:
        """Return once every submitted job has ended."""
        self._queue.join()

    def close(self) -> None:
        """Stop the running job before its next step, and mark queued jobs as interrupted."""
        left: list[JobOrder | None] = []
        with self._lock:
            self._stopping.set()
            thread, self._thread = self._thread, None
            with suppress(queue.Empty):
                while True:
                    left.append(self._queue.get_nowait())
                    self._queue.task_done()
            self._queue.put(None)
        if thread is not None:
            thread.join(self._closing_seconds)
        # Recorded as interrupted, so that the next process finds these jobs.
        for order in (*left, self._current):
            if order is not None:
                self._leave(order)

    def _work(self) -> None:
        while (order := self._queue.get()) is not None:
            self._current = order
            try:
                if self._stopping.is_set() or self._worker is None:
                    self._leave(order)
                else:
                    self._worker().run(order, self._stopping.is_set)
            # One failing job must not stop the others; its record says how it ended.
            except Exception as error:
                _log_error("The job %s failed with %s.", order.job, type(error).__name__)
            finally:
                self._current = None
                self._queue.task_done()

    def _leave(self, order: JobOrder) -> None:
        if self._worker is None:
            return
        try:
            self._worker().leave(order)
        except Exception as error:
            # Jobs of a dead process count as interrupted anyway.
            message = "The job %s could not be marked as interrupted: %s."
            _log_error(message, order.job, type(error).__name__)


# Shared by threads: as above.
class BackgroundRepairs:
    """Applies queued repairs on its own thread, which starts with the first repair.

    Repairs that are left at `close` stay queued in the store.
    """

    def __init__(self, repair: Callable[[Scope], object]) -> None:
        self._repair = repair
        self._queue: queue.SimpleQueue[Scope | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, scope: Scope) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="truespan-repairs", daemon=True
                )
                self._thread.start()
        self._queue.put(scope)

    def close(self) -> None:
        """Wait a few seconds for the queued repairs."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(REPAIR_SECONDS)

    def _work(self) -> None:
        while (scope := self._queue.get()) is not None:
            try:
                self._repair(scope)
            except TruespanError:
                # The repair stays queued in the store; the response did not depend on it.
                continue
            except Exception as error:
                # One failing repair must not stop the others.
                _log_error("A background repair failed with %s.", type(error).__name__)
