"""Orders for workers in whatever process, kept by procrastinate in the store's database.

Owns: orders, which name a job and nothing else; who carries out which; when one is tried again.
Does not own: jobs, what they do and how they stand: that is the store's, under its policies.
Must hold: an order that was given is carried out at least once, whoever dies; no two workers that
are alive carry out orders for one job at a time; no worker begins with anything once told to stop.
"""

from __future__ import annotations

from collections.abc import Callable

from truespan.adapters.procrastinate_queue.orders import Orders, QueueLimits
from truespan.adapters.procrastinate_queue.standing import standing_of
from truespan.model.job import JobOrder
from truespan.model.keys import Secret
from truespan.model.standing import QueueStanding
from truespan.ports import JobWorker

__all__ = ["ProcrastinateQueue", "QueueLimits"]

HOLDER = "queue"


class ProcrastinateQueue:
    """Has jobs done by whichever worker is free, in this process only while it serves."""

    def __init__(self, url: Secret, limits: QueueLimits | None = None) -> None:
        self._orders = Orders(url, limits)
        self._worker: JobWorker | None = None

    @property
    def holder(self) -> str:
        """The queue itself has jobs that wait: no process need stay for them."""
        return HOLDER

    def work_with(self, worker: JobWorker) -> None:
        """Say who does the work where it is done in this process."""
        self._worker = worker

    def require_room(self) -> None:
        """Refuse another job while as many wait as may."""
        self._orders.require_room()

    def submit(self, order: JobOrder) -> None:
        """Give the order for a job; one that waits already is enough."""
        self._orders.submit(order)

    def standing(self) -> QueueStanding:
        """Return how orders and workers stand."""
        return standing_of(self._orders)

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        now_and_then: Callable[[], None],
    ) -> int:
        """Carry out orders in this process until told to stop; return how many."""
        from truespan.adapters.procrastinate_queue.serving import Serving

        if self._worker is None:
            raise AssertionError("somebody has to do the work")
        self._orders.require_tables()
        serving = Serving(self._orders, self._worker, stopping, now_and_then)
        return serving.run(concurrency, once=once)

    def close(self) -> None:
        """Close every connection; orders stay where they are."""
        self._orders.close()
