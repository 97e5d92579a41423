"""A worker: carries out orders on threads, gives signs of life, and takes up what the dead left."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.worker import Worker

from truespan.adapters.postgres_store.connection import (
    as_role,
    connected,
    mapped_errors,
    names_nobody,
)
from truespan.errors import Overloaded, StoreBusy, TruespanError
from truespan.jobs.schema import QUEUE_ROLE, QUEUE_SCHEMA, require_steps
from truespan.protocols import JobWorker
from truespan.types.ids import WorldId
from truespan.types.job import JobOrder, Outcome, QueueStanding, Urgency
from truespan.types.token import Secret

QUEUE = "jobs"
TASK = "truespan.job"
CONNECTIONS = 4

# Who wants its lines asks for them; without a handler Python would print errors by itself.
logging.getLogger("procrastinate").addHandler(logging.NullHandler())

_WAITING = """
    SELECT count(*) AS waiting FROM (
      SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' LIMIT %(most)s
    ) AS counted
"""
_ORDERED = """
    SELECT count(*) AS orders FROM procrastinate_jobs
    WHERE status = 'todo' AND queueing_lock = %(job)s
"""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much may wait, how often something is tried, and when a worker is taken to be gone."""

    waiting: int = 10_000
    tries: int = 8
    stalled_seconds: float = 60.0
    timeout_seconds: float = 30.0


class TaskQueue:
    """The side of the queue that gives orders."""

    def __init__(self, url: Secret, limits: QueueLimits | None = None) -> None:
        self._url = url
        self.limits = limits or QueueLimits()
        self._opened: App | None = None
        self._lock = threading.Lock()

    def require_room(self) -> None:
        """Refuse another job while as many wait as may.

        Those who ask at the same moment may all be let in: the limit is one on growth.
        """
        most = self.limits.waiting
        if self.ask(_WAITING, most=most)["waiting"] >= most:
            raise Overloaded("As many jobs wait for workers as may.", retry_after=30.0)

    def submit(self, order: JobOrder, *, delay: int = 0) -> None:
        """Give the order for a job, to be begun with so many seconds later.

        One that waits already is enough.
        """
        with mapped(), self._app() as app:
            try:
                app.configure_task(
                    TASK,
                    queue=QUEUE,
                    lock=order.job,
                    queueing_lock=order.job,
                    priority=int(order.urgency),
                    schedule_in={"seconds": delay} if delay else None,
                ).defer(world=order.world, job=order.job)
            except AlreadyEnqueued:
                return

    def is_ordered(self, job: str) -> bool:
        """Say whether another order for a job waits."""
        return self.ask(_ORDERED, job=job)["orders"] > 0

    def pool(self, most: int) -> dict[str, Any]:
        """Return how a pool of connections for the queue is made."""
        return {
            "conninfo": as_role(self._url, QUEUE_ROLE, QUEUE_SCHEMA),
            "kwargs": {"application_name": "truespan-queue"},
            "min_size": 0,
            "max_size": most,
            "timeout": self.limits.timeout_seconds,
        }

    def close(self) -> None:
        """Close every connection; orders stay where they are."""
        with self._lock:
            app, self._opened = self._opened, None
        if app is not None:
            app.close()

    def require_tables(self) -> None:
        """Refuse tables that are not there, or of another version."""
        with self._app():
            return

    @contextmanager
    def _app(self) -> Iterator[App]:
        """Give what orders are given with; its tables are looked at when it is first needed."""
        with self._lock:
            if self._opened is None:
                with connected(self._url, "store_url") as session:
                    require_steps(session)
                app = App(connector=SyncPsycopgConnector(**self.pool(CONNECTIONS)))
                app.open()
                self._opened = app
            opened = self._opened
        yield opened

    def ask(self, query: str, **bindings: Any) -> dict[str, Any]:
        """Return the one row of a question about the queue."""
        with mapped(), self._app() as app:
            found = app.connector.get_sync_connector()
            return found.execute_query_one(query=query, **bindings)  # type: ignore[arg-type]


@contextmanager
def mapped() -> Iterator[None]:
    """Turn errors of the queue into ours, as the store's own are."""
    try:
        yield
    except ConnectorException as error:
        with mapped_errors():
            raise error.__cause__ or error from None


_STANDING = """
    WITH living AS (
      SELECT id FROM procrastinate_workers
      WHERE last_heartbeat >= now() - make_interval(secs => %(seconds)s)
    ), orders AS (
      SELECT status, worker_id, args->>'job' AS job FROM procrastinate_jobs
      WHERE status IN ('todo', 'doing')
    )
    SELECT count(*) FILTER (WHERE status = 'todo') AS waiting,
      count(*) FILTER (WHERE status = 'doing'
        AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM living))) AS orphaned,
      (SELECT count(*) FROM living) AS workers,
      coalesce(array_agg(DISTINCT job) FILTER (WHERE job IS NOT NULL), '{}') AS ordered
    FROM orders
"""


def standing_of(orders: TaskQueue) -> QueueStanding:
    """Return how the queue stands.

    Raises:
        StoreBusy, StoreOutdated, InvalidConfiguration: it cannot be looked at.
    """
    found = orders.ask(_STANDING, seconds=orders.limits.stalled_seconds)
    return QueueStanding(
        waiting=found["waiting"],
        most_waiting=orders.limits.waiting,
        orphaned=found["orphaned"],
        workers=found["workers"],
        ordered=frozenset(found["ordered"]),
    )


LONGEST_PAUSE = 600
LATER_SECONDS = 5
"""How long an order waits while another job is at a document of its own."""
LONGEST_ASKED = 3600
"""However long a provider asks to be left alone, a job is tried again after an hour."""
LOOK_SECONDS = 300.0
"""How often somebody looks for jobs that nobody gave an order for."""
_WATCH_SECONDS = 0.1
_PAUSE_SECONDS = 1.0
_DRAINED_SECONDS = 5.0

_GONE = """
    WITH gone AS (
      SELECT j.id, j.queueing_lock FROM procrastinate_jobs j
      WHERE j.status = 'doing' AND NOT EXISTS (SELECT 1 FROM procrastinate_workers w
        WHERE w.id = j.worker_id
          AND w.last_heartbeat >= now() - make_interval(secs => %(seconds)s))
      FOR UPDATE OF j SKIP LOCKED
    ), needless AS (
      DELETE FROM procrastinate_jobs d USING gone WHERE d.id = gone.id AND EXISTS (
        SELECT 1 FROM procrastinate_jobs o
        WHERE o.status = 'todo' AND o.queueing_lock = gone.queueing_lock)
      RETURNING d.id
    )
    UPDATE procrastinate_jobs j SET status = 'todo', worker_id = NULL, scheduled_at = NULL
    FROM gone WHERE j.id = gone.id AND j.id NOT IN (SELECT id FROM needless)
    RETURNING j.id
"""
"""Puts back the orders of workers that are gone, in one statement: of several who do this at once,
none puts back what another has begun with since. Where another order waits, that one is enough."""

_ALIVE = """
    UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker)s RETURNING id
"""

_DUE = """
    SELECT count(*) AS due FROM procrastinate_jobs j
    WHERE j.status = 'todo' AND j.queue_name = %(queue)s
      AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
      AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs o
        WHERE o.lock = j.lock AND o.status = 'doing')
"""
"""Orders that would be begun with now; one that another is at, or that waits for its time, is
none."""

_log = logging.getLogger("truespan.jobs")


class TryLater(Exception):
    """What kept a job from being done may pass; somebody may have said when."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


class BackOff(BaseRetryStrategy):
    """Lets an order wait twice as long each time, and at least as long as somebody asked for.

    How often, the order's bearer decides.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return when an order is tried again; None for one that is not."""
        if not isinstance(exception, TryLater):
            return None
        own = min(2**job.attempts, LONGEST_PAUSE)
        asked = min(ceil(exception.seconds), LONGEST_ASKED)
        return RetryDecision(retry_in={"seconds": max(own, asked)})


class StoppableWorker(Worker):
    """A run of the queue's own worker, which says when it begins with nothing more."""

    leaving = False

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        # Whatever ended it, also a failure of a task beside it, comes past here, and waits here
        # for as long as the jobs take that it has begun.
        self.leaving = True
        await super()._shutdown(side_tasks)


class QueueWorker:
    """One process that carries out orders."""

    def __init__(
        self,
        orders: TaskQueue,
        worker: JobWorker,
        stopping: Callable[[], bool],
        now_and_then: Callable[[], None],
    ) -> None:
        self._orders = orders
        self._worker = worker
        self._stopping = stopping
        self._now_and_then = now_and_then
        self._carried_out = 0
        self._draining = threading.Event()
        self._is_away = False
        self._lock = threading.Lock()

    def run(self, concurrency: int, *, once: bool) -> int:
        """Carry out orders until told to stop, or with `once` until there is none to begin with."""
        asyncio.run(self._run(concurrency, once))
        return self._carried_out

    async def _run(self, concurrency: int, once: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(concurrency + 2, "truespan-jobs"))
        while not self._stopping():
            try:
                await self._work(concurrency, once)
                if once:
                    return
            except (ConnectorException, OSError, ExceptionGroup) as error:
                self._require_passing(error, once)
            await self._pause()

    def _require_passing(self, error: Exception, once: bool) -> None:
        """Raise what keeps a worker from going on; tell of an outage when it begins."""
        if names_nobody(error.__cause__):
            # Somebody took this worker to be gone: it only has to register again.
            return
        if once:
            raise StoreBusy("The queue of jobs cannot be reached.") from error
        if isinstance(error, ConnectorException) and not _is_passing(error):
            raise error
        if not self._is_away:
            _log.warning("The queue of jobs cannot be reached; trying again.")
        self._is_away = True

    async def _work(self, concurrency: int, once: bool) -> None:
        connector = PsycopgConnector(**self._orders.pool(concurrency + 4))
        app = App(connector=connector)
        app.task(name=TASK, queue=QUEUE, retry=BackOff(), pass_context=True)(self._carry_out)
        async with app.open_async():
            await self._take_up(connector)
            self._is_away = False
            await self._look()
            await self._serve(app, connector, concurrency, once)
            # What was begun with last may have given orders since nothing more was fetched.
            while once and not self._stopping() and await self._is_due(connector):
                await self._serve(app, connector, concurrency, once)

    async def _serve(
        self, app: App, connector: PsycopgConnector, concurrency: int, once: bool
    ) -> None:
        """Register, and carry out orders for as long as that holds."""
        seconds = self._orders.limits.stalled_seconds
        shift = StoppableWorker(
            app,
            queues=[QUEUE],
            concurrency=concurrency,
            wait=not once,
            fetch_job_polling_interval=min(5.0, seconds / 4),
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=seconds / 4,
            stalled_worker_timeout=seconds,
        )
        self._draining.clear()
        living = asyncio.create_task(self._live(shift, connector))
        try:
            await self._watch(shift, once)
        finally:
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living

    async def _watch(self, shift: StoppableWorker, once: bool) -> None:
        """Wait for a worker to end, and have it end whole where it ends before it is told to."""
        loop, working = asyncio.get_running_loop(), asyncio.create_task(shift.run())
        look_at = loop.time() + LOOK_SECONDS
        while not (await asyncio.wait({working}, timeout=_WATCH_SECONDS))[0]:
            if self._stopping():
                # It waits for what has begun, which hears of it before its next step.
                working.cancel()
                self._draining.set()
                break
            if shift.leaving and not once:
                # The queue was away. What has begun is put back, so that all of it begins anew.
                self._draining.set()
            if loop.time() >= look_at:
                await self._look()
                look_at = loop.time() + LOOK_SECONDS
        with suppress(asyncio.CancelledError):
            await working

    async def _live(self, shift: StoppableWorker, connector: PsycopgConnector) -> None:
        """Give signs of life, and put back the orders of those that give none.

        Those of the queue's own worker end with the first that fails, and when it begins with
        nothing more, while jobs still run. Whoever is not known to live puts nothing back: it would
        be what runs here.
        """
        while True:
            await asyncio.sleep(self._orders.limits.stalled_seconds / 4)
            with suppress(ConnectorException):
                if not await self._is_known(shift, connector):
                    _log.warning("This worker was taken to be gone, and begins anew.")
                    shift.stop()
                    self._draining.set()
                    return
                await self._take_up(connector)

    async def _is_known(self, shift: StoppableWorker, connector: PsycopgConnector) -> bool:
        """Give a sign of life; False if nobody of that number is registered any more."""
        worker = shift.worker_id
        if worker is None:
            return True
        known = await connector.execute_query_all_async(query=_ALIVE, worker=worker)
        return bool(known) or shift.worker_id is None

    async def _is_due(self, connector: PsycopgConnector) -> bool:
        row = await connector.execute_query_one_async(query=_DUE, queue=QUEUE)
        return row["due"] > 0

    async def _look(self) -> None:
        """Take up jobs that have no order."""
        try:
            await asyncio.to_thread(self._now_and_then)
        except TruespanError as error:
            _log.warning("Jobs without an order were not looked for: %s.", error.code)

    async def _take_up(self, connector: PsycopgConnector) -> None:
        """Put back orders of workers that are gone."""
        seconds = self._orders.limits.stalled_seconds
        rows = await connector.execute_query_all_async(query=_GONE, seconds=seconds)
        if rows:
            _log.warning("Workers went away; orders put back: %d.", len(rows))

    async def _pause(self) -> None:
        waited = 0.0
        while waited < _PAUSE_SECONDS and not self._stopping():
            await asyncio.sleep(_WATCH_SECONDS)
            waited += _WATCH_SECONDS

    def _carry_out(self, context: JobContext, *, world: str, job: str) -> None:
        """Have a job done, on a thread of its own, and say what becomes of the order."""
        found = context.job
        order = JobOrder(WorldId(world), job, _urgency(found.priority))
        if self._is_ending():
            self._put_back(order)
            return
        pauses = [0.0]
        last = found.attempts + 1 >= self._orders.limits.tries
        outcome = self._outcome(order, last=last, later=pauses.append)
        with self._lock:
            self._carried_out += 1
        if outcome is Outcome.OVER:
            return
        if outcome is Outcome.STOPPED:
            self._put_back(order)
        elif outcome is Outcome.LATER:
            self._orders.submit(order, delay=LATER_SECONDS)
        elif not self._orders.is_ordered(job):
            raise TryLater(max(pauses))

    def _is_ending(self) -> bool:
        return self._stopping() or self._draining.is_set()

    def _put_back(self, order: JobOrder) -> None:
        """Give an order anew, so that being stopped does not count as a try.

        Not before this process fetches no more of them, or it would be given to itself.
        """
        self._draining.wait(_DRAINED_SECONDS)
        self._orders.submit(order)

    def _outcome(self, order: JobOrder, *, last: bool, later: Callable[[float], None]) -> Outcome:
        try:
            return self._worker.run(order, self._is_ending, last=last, later=later)
        except TruespanError as error:
            # Not even how it ended could be written down, so it is not over.
            _log.warning("The job %s ended with %s.", order.job, error.code)
            return Outcome.AGAIN if error.retryable and not last else Outcome.OVER
        except Exception as error:
            # Whatever it was, the next job has its turn; how this one ended is in its record.
            _log.error("The job %s ended with %s.", order.job, type(error).__name__)
            return Outcome.OVER


def _is_passing(error: ConnectorException) -> bool:
    """Say whether the server, and not what it was asked, is what failed."""
    try:
        with mapped():
            raise error
    except StoreBusy:
        return True
    except Exception:
        return False


def _urgency(priority: int) -> Urgency:
    return Urgency(priority) if priority in set(Urgency) else Urgency.INGEST


__all__ = ["ProcrastinateQueue", "QueueLimits"]

HOLDER = "queue"


class ProcrastinateQueue:
    """Has jobs done by whichever worker is free, in this process only while it serves."""

    def __init__(self, url: Secret, limits: QueueLimits | None = None) -> None:
        self._orders = TaskQueue(url, limits)
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

        if self._worker is None:
            raise AssertionError("somebody has to do the work")
        self._orders.require_tables()
        serving = QueueWorker(self._orders, self._worker, stopping, now_and_then)
        return serving.run(concurrency, once=once)

    def close(self) -> None:
        """Close every connection; orders stay where they are."""
        self._orders.close()
