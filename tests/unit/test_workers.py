"""Jobs of workers: submitted once, retried, requeued, refused and cancelled."""

import asyncio
import io
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from tests.support.failures import raises_code
from tests.support.postgres import fresh_database
from tests.support.worker_process import LIMITS, library
from tests.support.worlds import MemoryIndex, WordEmbedder
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import (
    InvalidConfiguration,
    NotAllowed,
    Overloaded,
    ProviderRefused,
    ProviderUnavailable,
)
from truespan.extensions.cluster import queue
from truespan.extensions.cluster.commands import stop_on_signals
from truespan.observability.logs import Lines
from truespan.types.job import IngestJob, Job, JobState, ReindexJob
from truespan.types.scope import OWNER, Verb
from truespan.types.source import Upload

STORY = " ".join(f"Sentence {count} tells of the harbour by night." for count in range(60))
WAIT = 30.0


class Works:
    """A library in a database, opened once for each simulated process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = fresh_database()
        self.index = MemoryIndex()
        self.embedder = WordEmbedder()
        self.opened: list[Library] = []

    def open(self, **limits: float) -> Library:
        one = library(
            self.folder,
            self.database.url,
            limits=replace(LIMITS, **limits),  # type: ignore[arg-type]
            embedder=self.embedder,
            index=self.index,
        )
        self.opened.append(one)
        return one

    def admin(self) -> psycopg.Connection:
        """Connect to inspect and change the queue; its triggers need its schema."""
        admin = self.database.admin()
        admin.execute("SET search_path = truespan_queue")
        return admin

    def orders(self) -> list[tuple[str, str, int, int]]:
        with self.admin() as admin:
            return admin.execute(
                """SELECT args->>'job', status::text, priority, attempts
                   FROM truespan_queue.procrastinate_jobs ORDER BY id"""
            ).fetchall()

    def hurry(self) -> None:
        """Make delayed jobs due now."""
        with self.admin() as admin:
            admin.execute("UPDATE truespan_queue.procrastinate_jobs SET scheduled_at = NULL")

    def due_in(self) -> float:
        """Return the seconds until the only delayed job is due."""
        with self.admin() as admin:
            rows = admin.execute(
                """SELECT extract(epoch FROM scheduled_at - now())::float8
                   FROM truespan_queue.procrastinate_jobs"""
            ).fetchall()
        [(seconds,)] = rows
        return seconds

    def die(self) -> None:
        """Mark every worker as dead for a long time."""
        with self.admin() as admin:
            admin.execute("DELETE FROM truespan_queue.procrastinate_workers")


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path / "library")
    yield made
    for one in made.opened:
        one.close()


def submitted(world: World, name: str = "tale.txt") -> Job:
    return world.jobs.submit(IngestJob([Upload(name, f"{name}. {STORY}".encode())]))


def test_worker_runs_a_waiting_job(works: Works) -> None:
    asking = works.open()
    world = asking.create_world("world")
    job = submitted(world)
    assert world.jobs.get(job.id).state is JobState.QUEUED
    asking.close()

    assert works.open().work(once=True) == 1

    world = works.open().world("world")
    assert world.jobs.get(job.id).state is JobState.DONE
    [document] = world.documents.list()
    assert document.embedded == document.chunks > 0
    assert works.orders() == []


def test_job_submitted_twice_runs_once(works: Works) -> None:
    opened = works.open()
    job = submitted(opened.create_world("world"))
    opened.server.resume_waiting()
    opened.server.resume_waiting()
    assert [one for one, *_ in works.orders()] == [job.id]
    assert opened.work(once=True) == 1


def test_next_worker_finds_a_job_without_an_order(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)
    with works.admin() as admin:
        admin.execute("DELETE FROM truespan_queue.procrastinate_jobs")
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE


def test_full_queue_refuses_jobs_without_a_trace(works: Works) -> None:
    opened = works.open(waiting=2)
    world = opened.create_world("world")
    jobs = [submitted(world, f"{number}.txt") for number in range(2)]

    with pytest.raises(Overloaded) as refusal:
        submitted(world, "third.txt")
    assert (refusal.value.retryable, refusal.value.retry_after) == (True, 30.0)
    with pytest.raises(Overloaded):
        world.jobs.submit(IngestJob(works.folder))
    with pytest.raises(Overloaded):
        world.jobs.submit(ReindexJob())

    assert {one.id for one in world.jobs.list()} == {one.id for one in jobs}
    assert len(list((works.folder / "uploads").rglob("*.txt"))) <= 2
    opened.work(once=True)
    submitted(world, "third.txt")


def test_temporary_failure_is_retried_later_and_then_reported(works: Works) -> None:
    opened = works.open(tries=2)
    world = opened.create_world("world")
    job = submitted(world)

    def refuse() -> None:
        raise ProviderUnavailable("Not now.", retry_after=1000.0)

    works.embedder.before = refuse
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.QUEUED
    assert works.orders() == [(job.id, "todo", 0, 1)]
    # It is not its time yet: the provider said when.
    assert 900 < works.due_in() <= 1000
    assert opened.work(once=True) == 0
    works.hurry()
    assert opened.work(once=True) == 1

    failed = world.jobs.get(job.id)
    assert (failed.state, failed.error) == (JobState.FAILED, "provider_unavailable")
    assert works.orders() == []
    works.embedder.before = None
    world.jobs.submit(job)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE


def test_permanent_failure_is_reported_at_once(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)

    def refuse() -> None:
        raise ProviderRefused("No.")

    works.embedder.before = refuse
    opened.work(once=True)

    assert (world.jobs.get(job.id).state, works.orders()) == (JobState.FAILED, [])


def test_stopped_worker_requeues_its_jobs(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    jobs = [submitted(world, f"{number}.txt") for number in range(2)]
    stop = threading.Event()
    works.embedder.before = stop.set

    assert opened.work(stopping=stop.is_set) == 1

    works.embedder.before = None
    states = [world.jobs.get(job.id) for job in jobs]
    assert [(one.state, one.crashes) for one in states] == [(JobState.QUEUED, 0)] * 2
    assert sorted(works.orders()) == sorted((job.id, "todo", 0, 0) for job in jobs)
    works.open().work(once=True)
    assert {world.jobs.get(job.id).state for job in jobs} == {JobState.DONE}


def test_job_cancelled_while_waiting_never_starts(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)
    assert world.jobs.cancel(job.id).state is JobState.CANCELLED
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.CANCELLED
    assert (world.documents.list(), works.embedder.documents, works.orders()) == ([], [], [])


def test_cancelled_running_job_stops_and_is_not_requeued(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)

    def cancel_and_fail() -> None:
        world.jobs.cancel(job.id)
        raise ProviderUnavailable("Not now.", retry_after=1000.0)

    works.embedder.before = cancel_and_fail
    opened.work(once=True)

    assert (world.jobs.get(job.id).state, works.orders()) == (JobState.CANCELLED, [])
    assert list((works.folder / "uploads").rglob("*.txt")) == []
    assert world.documents.list() == []


def died_under(works: Works, world: World, job: Job) -> None:
    """Leave a job as a worker on another machine leaves it that is killed while it runs."""
    scope = world.access.scope()
    assert scope is not None
    assert world.access.components.store.jobs.start(scope, job.id, "elsewhere/1:1")
    with works.admin() as admin:
        admin.execute(
            "UPDATE truespan_queue.procrastinate_jobs SET status = 'doing', worker_id = NULL"
        )


def test_job_of_a_dead_worker_is_resumed_and_counted(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)
    died_under(works, world, job)
    assert world.jobs.get(job.id).state is JobState.RUNNING
    opened.work(once=True)
    done = world.jobs.get(job.id)
    assert (done.state, done.crashes) == (JobState.DONE, 1)
    assert works.orders() == []


def test_logs_of_workers_keep_numbers_and_codes(works: Works) -> None:
    stream = io.StringIO()
    lines = logging.StreamHandler(stream)
    lines.setFormatter(Lines(as_json=False))
    log = logging.getLogger("truespan.jobs")
    opened = works.open()
    world = opened.create_world("world")
    died_under(works, world, submitted(world))

    log.addHandler(lines)
    try:
        opened.work(once=True)
        log.error("The job %s failed with %s.", "j1", "ValueError")
    finally:
        log.removeHandler(lines)

    assert "Workers died; jobs requeued: 1." in stream.getvalue()
    assert "The job j1 failed with ValueError." in stream.getvalue()
    assert "%" not in stream.getvalue()


def test_job_that_crashes_workers_is_given_up(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)
    with works.admin() as admin:
        admin.execute("UPDATE truespan.jobs SET crashes = 2")
    died_under(works, world, job)

    opened.work(once=True)

    left = world.jobs.get(job.id)
    assert (left.state, left.crashes, works.orders()) == (JobState.INTERRUPTED, 3, [])
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.INTERRUPTED
    world.jobs.submit(job)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.DONE


def test_stopping_job_of_a_dead_worker_is_cancelled(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = submitted(world)
    died_under(works, world, job)
    assert world.jobs.cancel(job.id).state is JobState.RUNNING
    opened.work(once=True)
    assert (world.jobs.get(job.id).state, works.orders()) == (JobState.CANCELLED, [])
    assert world.documents.list() == []


def test_worker_that_lost_a_job_changes_nothing(works: Works) -> None:
    """A slow worker returns after another has resumed and completed its job."""
    slow, other = works.open(), works.open()
    world = slow.create_world("world")
    job = submitted(world)
    calls: list[int] = []

    def meanwhile() -> None:
        calls.append(1)
        if len(calls) == 1:
            works.die()
            # In another process it would have another name.
            msgspec.structs.force_setattr(other._components, "processes", Elsewhere())
            other.work(once=True)
            raise ProviderRefused("Nobody is to hear of this any more.")

    works.embedder.before = meanwhile
    slow.work(once=True)

    done = world.jobs.get(job.id)
    assert (done.state, done.process) == (JobState.DONE, "elsewhere/2:2")
    [document] = world.documents.list()
    assert document.embedded == document.chunks
    assert works.orders() == []


class Elsewhere:
    """Processes of another machine."""

    def own(self) -> str:
        return "elsewhere/2:2"

    def is_alive(self, name: str) -> bool:
        del name
        return True


def test_job_waits_for_another_with_the_same_files(works: Works, tmp_path: Path) -> None:
    one, two = works.open(), works.open()
    world, folder = one.create_world("world"), tmp_path / "books"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"Book {number} tells of harbour {number}. {STORY}")
    jobs = [world.jobs.submit(IngestJob(folder)) for _ in range(2)]
    msgspec.structs.force_setattr(two._components, "processes", Elsewhere())
    seen: list[JobState] = []

    def meanwhile() -> None:
        if not seen:
            seen.append(JobState.RUNNING)
            two.work(once=True)
            seen.append(world.jobs.get(jobs[1].id).state)

    works.embedder.before = meanwhile
    one.work(once=True)
    works.hurry()
    one.work(once=True)

    assert seen == [JobState.RUNNING, JobState.QUEUED]
    done = [world.jobs.get(job.id) for job in jobs]
    assert [job.state for job in done] == [JobState.DONE, JobState.DONE]
    assert [job.counts.unchanged for job in done] == [0, 3]
    assert len(works.embedder.documents) == len(set(works.embedder.documents))
    assert works.orders() == []


def test_libraries_on_one_server_do_not_share_jobs(tmp_path: Path) -> None:
    one, two = Works(tmp_path / "one"), Works(tmp_path / "two")
    first, second = one.open(), two.open()
    try:
        job = submitted(first.create_world("world"))
        world = second.create_world("world")

        assert second.work(once=True) == 0
        assert (world.documents.list(), world.jobs.list()) == ([], [])
        assert [order[0] for order in one.orders()] == [job.id]
        assert first.work(once=True) == 1
    finally:
        first.close()
        second.close()


def test_only_the_owner_runs_a_worker_on_postgresql(works: Works, tmp_path: Path) -> None:
    import truespan

    opened = works.open()
    with pytest.raises(NotAllowed):
        opened.under(OWNER.narrow(worlds=(), verbs=(Verb.READ,))).work(once=True)
    with (
        truespan.open(tmp_path / "file", create=True) as alone,
        pytest.raises(InvalidConfiguration) as refusal,
    ):
        alone.work(once=True)
    assert "PostgreSQL" in str(refusal.value)


def test_queue_tables_without_a_migration_are_refused(works: Works) -> None:
    opened = works.open()
    world = opened.create_world("world")
    with works.admin() as admin:
        admin.execute(
            """DELETE FROM truespan_queue.queue_steps
               WHERE name = (SELECT max(name) FROM truespan_queue.queue_steps)"""
        )
    for ask in (lambda: submitted(world), lambda: opened.work(once=True)):
        with raises_code("store_outdated"):
            _run(ask)


def _run(ask: Callable[[], object]) -> None:
    ask()


def test_role_of_worlds_cannot_see_the_queue(works: Works) -> None:
    for role in ("truespan_worlds", "truespan_shared"):
        with psycopg.connect(works.database.url.reveal(), autocommit=True) as session:
            session.execute("SELECT set_config('role', %s, false)", (role,))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("SELECT * FROM truespan_queue.procrastinate_jobs")


def test_processes_together_respect_a_provider_rate_limit(works: Works) -> None:
    stores = [works.open()._components.store for _ in range(6)]
    waits: list[float] = []
    lock, together = threading.Lock(), threading.Barrier(len(stores))

    def ask(store: Any) -> None:
        store.paces.reserve("google", 1000)
        for _ in range(10):
            together.wait(WAIT)
            seconds = store.paces.reserve("openai", 7)
            with lock:
                waits.append(seconds)

    threads = [threading.Thread(target=ask, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    minutes = [round(seconds / 60) for seconds in waits]
    assert sorted(minutes) == [number // 7 for number in range(60)]


def test_worker_ends_although_its_cancellation_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_CANCEL_AGAIN_SECONDS", 0.01)

    class Deaf:
        """A worker whose request to the database loses the cancellation."""

        is_stopping = False

        async def run(self) -> None:
            self.asked = asyncio.Event()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await self.asked.wait()

        def stop(self) -> None:
            self.asked.set()

    absent = cast("Any", None)
    own: Any = queue.QueueWorker(
        absent, absent, 1, once=False, stopping=lambda: True, on_tick=lambda: None
    )
    asyncio.run(own._watch(Deaf()))

    assert own._draining.is_set()


def test_second_signal_ends_a_worker_at_once() -> None:
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
