"""Background jobs in a queue of procrastinate, run by worker processes.

A worker runs jobs on threads, sends heartbeats, and requeues the jobs of workers that died.
The tables of procrastinate have their own schema and role.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import files
from math import ceil
from typing import Any, Final, LiteralString, cast

from msgspec import Struct
from procrastinate import App, JobContext, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.schema import SchemaManager
from procrastinate.worker import Worker

from truespan import errors
from truespan.extensions.cluster.postgres_server import (
    Connection,
    StoppablePool,
    add_member,
    as_role,
    connect,
    create_role,
    is_foreign_key_violation,
    map_errors,
)
from truespan.protocols import JobWorker
from truespan.types.ids import WorldId
from truespan.types.job import JobOrder, Outcome, QueueStatus, Urgency
from truespan.types.token import Secret

QUEUE = "jobs"
QUEUE_ID = "queue"
TASK = "truespan.job"
CONNECTIONS = 4
MAX_PAUSE = 600
LATER_SECONDS = 5
"""Delay of an order while another job has one of its documents."""
MAX_REQUESTED_SECONDS = 3600
"""Maximum delay before a retry that a provider can request."""
TICK_SECONDS = 300.0
"""Interval at which a worker checks for recorded jobs that are missing from the queue."""
_CANCEL_AGAIN_SECONDS = 2.0
_WATCH_SECONDS = 0.1
_PAUSE_SECONDS = 1.0
_DRAINED_SECONDS = 5.0

_log = logging.getLogger("truespan.jobs")
_log.addHandler(logging.NullHandler())
# Without a handler, Python would print procrastinate's errors to standard error.
logging.getLogger("procrastinate").addHandler(logging.NullHandler())

_WAITING = """
    SELECT count(*) AS waiting FROM (
      SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' LIMIT %(limit)s
    ) AS counted
"""
_ORDERED = """
    SELECT count(*) AS orders FROM procrastinate_jobs
    WHERE status = 'todo' AND queueing_lock = %(job)s
"""
_STATUS = """
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
_REQUEUE_ORPHANS = """
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
"""Requeues the orders of dead workers, or deletes them if a duplicate is queued.

It is a single statement, so that concurrent workers never requeue an order that another one has
started since.
"""

_HEARTBEAT = """
    UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker)s RETURNING id
"""

_DUE = """
    SELECT count(*) AS due FROM procrastinate_jobs j
    WHERE j.status = 'todo' AND j.queue_name = %(queue)s
      AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
      AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs o
        WHERE o.lock = j.lock AND o.status = 'doing')
"""
"""Counts orders that could start now: not scheduled for later, and not running as a duplicate."""
QUEUE_SCHEMA: Final = "truespan_queue"
QUEUE_ROLE: Final = "truespan_queue"


class QueueLimits(Struct, frozen=True):
    """Limits of the queue, of attempts at a job, and of a worker's silence."""

    waiting: int = 10_000
    tries: int = 8
    stalled_seconds: float = 60.0
    timeout_seconds: float = 30.0


# Shared by threads: the app is opened under a lock; its connector has a pool.
class ProcrastinateQueue:
    """Runs jobs, called orders here, on any free worker; in this process only during `serve`."""

    queue_id = QUEUE_ID
    """The owner of queued jobs: the queue, since it outlives every process."""

    def __init__(self, url: Secret, limits: QueueLimits | None = None) -> None:
        self._url = url
        self.limits = limits or QueueLimits()
        self._worker: Callable[[], JobWorker] | None = None
        self._opened: App | None = None
        self._lock = threading.Lock()

    def work_with(self, worker: Callable[[], JobWorker]) -> None:
        """Set the factory of the worker that runs jobs in this process."""
        self._worker = worker

    def require_room(self) -> None:
        """Raise Overloaded while the queue is full."""
        # Simultaneous callers may all be accepted, so the limit is approximate.
        limit = self.limits.waiting
        if self._query(_WAITING, limit=limit)["waiting"] >= limit:
            raise errors.Overloaded("The job queue is full.", retry_after=30.0)

    def submit(self, order: JobOrder, *, delay: int = 0) -> None:
        """Submit a job to start after `delay` seconds, unless it is queued already."""
        with _map_queue_errors(), suppress(AlreadyEnqueued):
            self._app().configure_task(
                TASK,
                queue=QUEUE,
                lock=order.job,
                queueing_lock=order.job,
                priority=int(order.urgency),
                schedule_in={"seconds": delay} if delay else None,
            ).defer(world=order.world, job=order.job)

    def is_ordered(self, job: str) -> bool:
        """Return whether another order for a job is queued."""
        return self._query(_ORDERED, job=job)["orders"] > 0

    def status(self) -> QueueStatus:
        """Return the number of queued jobs and live workers; raises StoreBusy, SchemaUnknown."""
        found = self._query(_STATUS, seconds=self.limits.stalled_seconds)
        ordered = frozenset(found.pop("ordered"))
        return QueueStatus(**found, max_waiting=self.limits.waiting, ordered=ordered)

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        on_tick: Callable[[], None],
    ) -> int:
        """Run jobs in this process until `stopping`; return their number."""
        if self._worker is None:
            raise AssertionError("work_with was not called")
        # Raises if the tables are missing or of another version.
        self._app()
        worker = QueueWorker(
            queue=self,
            worker=self._worker(),
            concurrency=concurrency,
            once=once,
            stopping=stopping,
            on_tick=on_tick,
        )
        asyncio.run(worker.run())
        return worker.runs

    def close(self) -> None:
        """Close every connection; queued orders stay."""
        with self._lock:
            app, self._opened = self._opened, None
        if app is not None:
            app.close()

    def pool(self, max_size: int) -> dict[str, Any]:
        """Return the arguments of a connection pool for the queue."""
        return {
            "conninfo": as_role(self._url, QUEUE_ROLE, QUEUE_SCHEMA),
            "kwargs": {"application_name": "truespan-queue"},
            "min_size": 0,
            "max_size": max_size,
            "timeout": self.limits.timeout_seconds,
        }

    def _app(self) -> App:
        """Return the procrastinate app; the first use checks its tables."""
        with self._lock:
            if self._opened is None:
                with connect(self._url, "store_url") as connection:
                    require_migrations(connection)
                app = App(connector=SyncPsycopgConnector(**self.pool(CONNECTIONS)))
                app.open()
                self._opened = app
            return self._opened

    def _query(self, query: str, **bindings: Any) -> dict[str, Any]:
        with _map_queue_errors():
            connector = self._app().connector.get_sync_connector()
            return connector.execute_query_one(query=query, **bindings)  # type: ignore[arg-type]


@contextmanager
def _map_queue_errors() -> Iterator[None]:
    try:
        yield
    except ConnectorException as error:
        with map_errors():
            raise error.__cause__ or error from None


class TryLater(Exception):
    """A job failed with a retryable error; `seconds` is the delay that a provider requested."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


class BackOff(BaseRetryStrategy):
    """Exponential delay between attempts, at least the delay that a provider requested."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return the time of the next attempt; None for no further attempt."""
        # The number of attempts is limited where `TryLater` is raised.
        if not isinstance(exception, TryLater):
            return None
        own = min(2**job.attempts, MAX_PAUSE)
        requested = min(ceil(exception.seconds), MAX_REQUESTED_SECONDS)
        return RetryDecision(retry_in={"seconds": max(own, requested)})


class StoppableWorker(Worker):
    """procrastinate's worker, with a flag that says when it stops starting jobs."""

    is_stopping = False

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        # Every end passes here, also that by a failing side task, and waits for running jobs.
        self.is_stopping = True
        await super()._shutdown(side_tasks)


class QueueWorker(Struct, dict=True):
    """Runs the orders of the queue in this process."""

    queue: ProcrastinateQueue
    worker: JobWorker
    concurrency: int
    once: bool
    stopping: Callable[[], bool]
    on_tick: Callable[[], None]

    def __post_init__(self) -> None:
        self.runs = 0
        self._draining = threading.Event()
        self._is_unreachable = False
        self._lock = threading.Lock()

    async def run(self) -> None:
        """Run orders until `stopping`, or with `once` until no order can start."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(self.concurrency + 2, "truespan-jobs"))
        while not self.stopping():
            try:
                await self._work()
                if self.once:
                    return
            except (ConnectorException, OSError, ExceptionGroup) as error:
                # If another worker considered this one dead, it only has to register again.
                if not is_foreign_key_violation(error.__cause__):
                    if self.once:
                        raise errors.StoreBusy("The job queue cannot be reached.") from error
                    if isinstance(error, ConnectorException) and not _is_outage(error):
                        raise
                    if not self._is_unreachable:
                        _log.warning("The job queue cannot be reached; retrying.")
                    self._is_unreachable = True
            waited = 0.0
            while waited < _PAUSE_SECONDS and not self.stopping():
                await asyncio.sleep(_WATCH_SECONDS)
                waited += _WATCH_SECONDS

    async def _work(self) -> None:
        connector = PsycopgConnector(
            pool_factory=partial(StoppablePool, self.stopping),
            **self.queue.pool(self.concurrency + 4),
        )
        app = App(connector=connector)
        app.task(name=TASK, queue=QUEUE, retry=BackOff(), pass_context=True)(self._run_order)
        async with app.open_async():
            await self._requeue_orphans(connector)
            self._is_unreachable = False
            await self._tick()
            await self._serve(app, connector)
            # The last jobs may have submitted orders after the worker stopped fetching.
            while self.once and not self.stopping():
                row = await connector.execute_query_one_async(query=_DUE, queue=QUEUE)
                if not row["due"]:
                    break
                await self._serve(app, connector)

    async def _serve(self, app: App, connector: PsycopgConnector) -> None:
        seconds = self.queue.limits.stalled_seconds
        worker = StoppableWorker(
            app,
            queues=[QUEUE],
            concurrency=self.concurrency,
            wait=not self.once,
            fetch_job_polling_interval=min(5.0, seconds / 4),
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=seconds / 4,
            stalled_worker_timeout=seconds,
        )
        self._draining.clear()
        heartbeats = asyncio.create_task(self._send_heartbeats(worker, connector))
        try:
            await self._watch(worker)
        finally:
            heartbeats.cancel()
            with suppress(asyncio.CancelledError):
                await heartbeats

    async def _watch(self, worker: StoppableWorker) -> None:
        """Wait for a worker to end; if it ends without a request, stop its running jobs too."""
        loop, working = asyncio.get_running_loop(), asyncio.create_task(worker.run())
        tick_at = loop.time() + TICK_SECONDS
        while not (await asyncio.wait({working}, timeout=_WATCH_SECONDS))[0]:
            if self.stopping():
                # The worker waits for running jobs, which stop before their next step.
                working.cancel()
                self._draining.set()
                # Repeated, because a cancellation can be lost.
                while not (await asyncio.wait({working}, timeout=_CANCEL_AGAIN_SECONDS))[0]:
                    worker.stop()
                break
            if worker.is_stopping and not self.once:
                # The queue was unreachable. Running jobs are requeued, and start again.
                self._draining.set()
            if loop.time() >= tick_at:
                await self._tick()
                tick_at = loop.time() + TICK_SECONDS
        with suppress(asyncio.CancelledError):
            await working

    async def _send_heartbeats(self, worker: StoppableWorker, connector: PsycopgConnector) -> None:
        """Send heartbeats, and requeue the orders of workers that send none."""
        # procrastinate's own heartbeats end with the first that fails, and when it stops fetching,
        # while jobs still run. A worker that is no longer registered requeues nothing: it would
        # requeue what it is running itself.
        while True:
            await asyncio.sleep(self.queue.limits.stalled_seconds / 4)
            with suppress(ConnectorException):
                if (key := worker.worker_id) is not None:
                    known = await connector.execute_query_all_async(query=_HEARTBEAT, worker=key)
                    if not known and worker.worker_id is not None:
                        _log.warning("Another worker considered this one dead; it registers again.")
                        worker.stop()
                        self._draining.set()
                        return
                await self._requeue_orphans(connector)

    async def _tick(self) -> None:
        try:
            await asyncio.to_thread(self.on_tick)
        except errors.TruespanError as error:
            _log.warning("The periodic check of jobs failed: %s.", error.code)

    async def _requeue_orphans(self, connector: PsycopgConnector) -> None:
        seconds = self.queue.limits.stalled_seconds
        rows = await connector.execute_query_all_async(query=_REQUEUE_ORPHANS, seconds=seconds)
        if rows:
            _log.warning("Workers died; jobs requeued: %d.", len(rows))

    def _run_order(self, context: JobContext, *, world: str, job: str) -> None:
        known = context.job.priority in set(Urgency)
        urgency = Urgency(context.job.priority) if known else Urgency.INGEST
        order = JobOrder(WorldId(world), job, urgency)
        outcome, pauses = Outcome.STOPPED, [0.0]
        if not self._is_ending():
            last = context.job.attempts + 1 >= self.queue.limits.tries
            try:
                outcome = self.worker.run(order, self._is_ending, last=last, later=pauses.append)
            except errors.TruespanError as error:
                # The end could not even be recorded, so the job is not over.
                _log.warning("The job %s failed with %s.", job, error.code)
                outcome = Outcome.AGAIN if error.retryable and not last else Outcome.OVER
            except Exception as error:
                # One failing job must not stop the others; its record says how it ended.
                _log.error("The job %s failed with %s.", job, type(error).__name__)
                outcome = Outcome.OVER
            with self._lock:
                self.runs += 1
        if outcome is Outcome.STOPPED:
            # Submitted again, so that a stop does not count as an attempt; and only once this
            # process fetches no more orders, because it would get this one again.
            self._draining.wait(_DRAINED_SECONDS)
            self.queue.submit(order)
        elif outcome is Outcome.LATER:
            self.queue.submit(order, delay=LATER_SECONDS)
        elif outcome is Outcome.AGAIN and not self.queue.is_ordered(job):
            raise TryLater(max(pauses))

    def _is_ending(self) -> bool:
        return self.stopping() or self._draining.is_set()


def _is_outage(error: ConnectorException) -> bool:
    try:
        with _map_queue_errors():
            raise error
    except errors.StoreBusy:
        return True
    except Exception:
        return False


def prepare_queue(connection: Connection, application: str) -> None:
    """Create or update the tables of the queue, in the transaction that prepares the store."""
    create_role(connection, QUEUE_ROLE)
    connection.execute("CREATE SCHEMA IF NOT EXISTS truespan_queue")
    connection.execute("SET LOCAL search_path = truespan_queue, pg_temp")
    connection.execute(
        """CREATE TABLE IF NOT EXISTS truespan_queue.queue_steps (
             name text COLLATE "C" PRIMARY KEY,
             applied_at timestamptz NOT NULL DEFAULT now()
           )"""
    )
    applied, known = _applied(connection), _migrations()
    if not applied:
        # The full schema includes every migration.
        connection.execute(SchemaManager.get_schema())
    for name, script in known.items():
        if name in applied:
            continue
        if applied:
            connection.execute(script)
        connection.execute("INSERT INTO truespan_queue.queue_steps (name) VALUES (%s)", (name,))
    for statement in (
        "GRANT USAGE ON SCHEMA truespan_queue TO truespan_queue",
        """GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA truespan_queue
           TO truespan_queue""",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA truespan_queue TO truespan_queue",
        "REVOKE INSERT, UPDATE, DELETE ON truespan_queue.queue_steps FROM truespan_queue",
    ):
        connection.execute(statement)
    add_member(connection, QUEUE_ROLE, application)


def require_migrations(connection: Connection) -> None:
    """Require that the tables are up to date, and that our role may use them."""
    rows = connection.execute(
        """SELECT to_regclass('truespan_queue.queue_steps') IS NOT NULL,
             EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'truespan_queue'
               AND pg_has_role(session_user, oid, 'MEMBER'))"""
    ).fetchall()
    exists, is_member = rows[0]
    if exists and not is_member:
        raise errors.InvalidConfiguration(
            "The role of store_url has no permission to use the job queue.",
            advice="Run 'truespan prepare-store', which grants it.",
        )
    applied, known = _applied(connection) if exists else set[str](), _migrations()
    if not applied >= known.keys():
        raise errors.SchemaUnknown("store_outdated", len(applied), len(known))


def _applied(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM truespan_queue.queue_steps")}


def _migrations() -> dict[str, LiteralString]:
    entries = files("procrastinate.sql").joinpath("migrations").iterdir()
    # The scripts belong to an installed package, so they are as safe as literals.
    return {
        entry.name: cast("LiteralString", entry.read_text(encoding="utf-8"))
        for entry in sorted(entries, key=lambda entry: entry.name)
        if entry.name.endswith(".sql")
    }
