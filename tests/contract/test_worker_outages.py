"""Workers during outages of the database, and a worker with several concurrent jobs."""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.test_worker_crashes import Chorus, is_done, orders, until, written
from tests.support.postgres import Database, another_server, begun_again, crashed, database_on
from tests.support.worker_process import FEW, library
from tests.support.worlds import WordEmbedder
from tests.unit.test_workers import Works, submitted
from truespan.engine.library import Library
from truespan.extensions.cluster.queue import QueueLimits
from truespan.types.job import DoctorJob, IngestJob, JobState

WAIT = 60.0


@pytest.fixture
def database() -> Database:
    return database_on(another_server())


@pytest.fixture
def chorus(tmp_path: Path, database: Database) -> Iterator[Chorus]:
    made = Chorus(tmp_path / "library", database)
    yield made
    for one in made.started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def test_workers_continue_when_the_database_returns(
    tmp_path: Path, database: Database, chorus: Chorus
) -> None:
    with library(tmp_path / "library", database.url) as opened:
        world = opened.create_world("world")
        jobs = [
            world.jobs.submit(IngestJob(written(tmp_path / "texts", f"{number}.txt", 800))).id
            for number in range(3)
        ]
    workers = [chorus.start() for _ in range(2)]
    # Each worker is busy with a document when the server stops.
    assert all(one.heard("batch", 2) for one in workers)
    crashed(database.server)

    back = Database(begun_again(database.server), database.name)

    with library(tmp_path / "library", back.url) as opened:
        world = opened.world("world")
        until(lambda: all(is_done(world, job) for job in jobs))
        assert [one.process.poll() for one in workers] == [None, None]
        assert [one.end(signal.SIGTERM) for one in workers] == [0, 0]
        documents = world.documents.list()
        assert sorted(one.name for one in documents) == ["0.txt", "1.txt", "2.txt"]
        assert all(one.embedded == one.chunks > 0 for one in documents)
        assert list(opened.doctor().all_items()) == []
        assert orders(back) == 0
        opened._components.index.retire()  # type: ignore[attr-defined]


def test_worker_waits_for_database_and_can_be_stopped(database: Database, chorus: Chorus) -> None:
    worker = chorus.start()
    until(lambda: signs_of_life(database) == 1)
    crashed(database.server)

    asked = time.monotonic()
    assert worker.end(signal.SIGTERM) == 0
    # It waits neither for a connection nor for the end of its registration.
    assert time.monotonic() - asked < QueueLimits().timeout_seconds / 2


def test_doctor_run_of_a_killed_worker_is_ended_by_the_next(
    tmp_path: Path, database: Database, chorus: Chorus
) -> None:
    """The doctor embeds everything again, and is killed meanwhile."""
    with library(tmp_path / "library", database.url) as opened:
        world = opened.create_world("world")
        world.ingest(written(tmp_path / "texts", "long.txt", 800))
        with database.admin() as admin:
            admin.execute("DELETE FROM truespan.vectors")
        job = world.jobs.submit(DoctorJob(apply=True))
        victim = chorus.start()
        assert victim.heard("batch", 2)
        victim.end(signal.SIGKILL)

        last = chorus.start()
        until(lambda: is_done(world, job.id))

        assert world.jobs.get(job.id).crashes == 1
        assert last.end(signal.SIGTERM) == 0
        assert list(opened.doctor().all_items()) == []
        assert orders(database) == 0
        opened._components.index.retire()  # type: ignore[attr-defined]


def signs_of_life(database: Database) -> int:
    with database.admin() as admin:
        rows = admin.execute("SELECT count(*) FROM truespan_queue.procrastinate_workers")
        return rows.fetchall()[0][0]


def test_worker_runs_the_configured_number_of_jobs(tmp_path: Path) -> None:
    works = Works(tmp_path / "library")
    opened = works.open()
    try:
        worlds = [opened.create_world(f"world {number}") for number in range(3)]
        jobs = [submitted(world) for world in worlds]
        # A barrier for three concurrent jobs.
        together = threading.Barrier(len(jobs), timeout=WAIT)
        first = threading.local()

        def wait_for_the_others() -> None:
            if not getattr(first, "waited", False):
                first.waited = True
                together.wait()

        works.embedder.before = wait_for_the_others
        assert opened.work(concurrency=3, once=True) == 3

        states = [world.jobs.get(job.id) for world, job in zip(worlds, jobs, strict=True)]
        assert [one.state for one in states] == [JobState.DONE] * 3
        assert all(
            document.embedded == document.chunks > 0
            for world in worlds
            for document in world.documents.list()
        )
    finally:
        opened.close()


def test_concurrent_jobs_of_one_world_are_independent(tmp_path: Path) -> None:
    works = Works(tmp_path / "library")
    opened = works.open()
    try:
        world = opened.create_world("world")
        # A worker that finds an empty index marks all chunks as pending.
        submitted(world, "first.txt")
        opened.work(once=True)
        jobs = [submitted(world, f"{number}.txt") for number in range(6)]

        assert opened.work(concurrency=4, once=True) >= 6

        assert {world.jobs.get(job.id).state for job in jobs} == {JobState.DONE}
        assert len(world.documents.list()) == 7
        assert list(opened.doctor().all_items()) == []
        assert works.orders() == []
    finally:
        opened.close()


@contextmanager
def at_work(opened: Library, concurrency: int = 1) -> Iterator[threading.Thread]:
    """Run a worker in this process, and stop it at the end."""
    stop = threading.Event()
    thread = threading.Thread(
        target=lambda: opened.work(concurrency=concurrency, stopping=stop.is_set), daemon=True
    )
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(WAIT)
    assert not thread.is_alive()


def seconds_alive(database: Database, since: str) -> float:
    """Return the seconds from a time of the server to the latest heartbeat."""
    with database.admin() as admin:
        rows = admin.execute(
            """SELECT extract(epoch FROM max(last_heartbeat) - %s::timestamptz)::float8
               FROM truespan_queue.procrastinate_workers""",
            (since,),
        )
        return rows.fetchall()[0][0] or 0.0


def server_time(database: Database) -> str:
    with database.admin() as admin:
        return admin.execute("SELECT now()::text").fetchall()[0][0]


def test_busy_worker_recovers_after_a_database_outage(tmp_path: Path, database: Database) -> None:
    """The outage occurs during one long step; afterwards two jobs run at once as before."""
    works = Works(tmp_path / "library")
    works.database, works.embedder = database, WordEmbedder(limits=FEW)
    opened = works.open(timeout_seconds=5.0)
    try:
        world, _ = opened.create_world("world"), opened.create_world("other")
        begun, back = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            assert back.wait(WAIT / 2)

        works.embedder.before = hold
        job = submitted(world)
        with at_work(opened, concurrency=2) as thread:
            assert begun.wait(WAIT)
            # A crashing server loses its last transactions, which must not be registrations.
            before = server_time(database)
            until(lambda: seconds_alive(database, before) > 1.0)
            crashed(database.server)
            works.database = Database(begun_again(database.server), database.name)
            since = server_time(works.database)
            # Longer than the stall timeout; its job is not requeued.
            until(lambda: seconds_alive(works.database, since) > 5.0)
            assert [(one, state) for one, state, *_ in works.orders()] == [(job.id, "doing")]

            together, first = threading.Barrier(2, timeout=WAIT), threading.local()

            def wait_for_the_other() -> None:
                if not getattr(first, "waited", False):
                    first.waited = True
                    together.wait()

            works.embedder.before = wait_for_the_other
            asking = works.open()
            world, other = asking.world("world"), asking.world("other")
            second = submitted(other)
            back.set()
            until(lambda: is_done(world, job.id) and is_done(other, second.id))
            assert thread.is_alive()
        assert (world.jobs.get(job.id).crashes, works.orders()) == (0, [])
    finally:
        for one in works.opened:
            one.close()


def test_worker_considered_dead_continues_when_it_returns(
    tmp_path: Path, database: Database, chorus: Chorus
) -> None:
    """The worker sleeps, like a suspended machine, until another worker unregisters it."""
    asleep = chorus.start()
    until(lambda: signs_of_life(database) == 1)
    asleep.process.send_signal(signal.SIGSTOP)
    since = server_time(database)
    until(lambda: server_time(database) > since and seconds_alive(database, "now") < -3.0)
    other = chorus.start()
    until(lambda: seconds_alive(database, since) > 0)
    assert signs_of_life(database) == 1
    assert other.end(signal.SIGTERM) == 0
    with library(tmp_path / "library", database.url) as opened:
        world = opened.create_world("world")
        job = world.jobs.submit(IngestJob(written(tmp_path / "texts", "one.txt")))

        asleep.process.send_signal(signal.SIGCONT)

        until(lambda: is_done(world, job.id))
        until(lambda: signs_of_life(database) == 1)
        assert asleep.end(signal.SIGTERM) == 0
        assert orders(database) == 0
        opened._components.index.retire()  # type: ignore[attr-defined]


def test_unregistered_worker_registers_again(tmp_path: Path) -> None:
    works = Works(tmp_path / "library")
    opened = works.open()
    try:
        with at_work(opened):
            until(lambda: signs_of_life(works.database) == 1)
            works.die()
            until(lambda: signs_of_life(works.database) == 1)
    finally:
        opened.close()


def test_outage_is_logged_once(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    works = Works(tmp_path / "library")
    works.database = database
    opened = works.open(timeout_seconds=0.1)
    looks: list[int] = []
    stop = threading.Event()

    def stopping() -> bool:
        looks.append(1)
        return stop.is_set()

    def told() -> int:
        lines = [one for one in caplog.records if one.name == "truespan.jobs"]
        return sum("cannot be reached" in one.getMessage() for one in lines)

    worker = threading.Thread(target=lambda: opened.work(stopping=stopping), daemon=True)
    with caplog.at_level(logging.WARNING, "truespan.jobs"):
        worker.start()
        until(lambda: signs_of_life(database) == 1)
        crashed(database.server)
        until(lambda: told() > 0)
        # It polls about ten times between two attempts.
        since = len(looks)
        until(lambda: len(looks) > since + 50)
        stop.set()
        worker.join(WAIT)
    assert (worker.is_alive(), told()) == (False, 1)
    opened.close()
