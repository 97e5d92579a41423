"""A worker: carries out orders on threads, gives signs of life, and takes up what the dead left."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import ceil
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.worker import Worker

from truespan.adapters.postgres_store.connection import names_nobody
from truespan.adapters.procrastinate_queue.orders import QUEUE, TASK, Orders, mapped
from truespan.errors import StoreBusy, TruespanError
from truespan.model.ids import WorldId
from truespan.model.job import JobOrder, Outcome, Urgency
from truespan.ports import JobWorker

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


class Shift(Worker):
    """A run of the queue's own worker, which says when it begins with nothing more."""

    leaving = False

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        # Whatever ended it, also a failure of a task beside it, comes past here, and waits here
        # for as long as the jobs take that it has begun.
        self.leaving = True
        await super()._shutdown(side_tasks)


class Serving:
    """One process that carries out orders."""

    def __init__(
        self,
        orders: Orders,
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
        shift = Shift(
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

    async def _watch(self, shift: Shift, once: bool) -> None:
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

    async def _live(self, shift: Shift, connector: PsycopgConnector) -> None:
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

    async def _is_known(self, shift: Shift, connector: PsycopgConnector) -> bool:
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
