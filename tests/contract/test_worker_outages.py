"""Workers whose database goes away under them, and a worker that does several jobs at a time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_worker_crashes import Chorus, is_done, orders, until, written
from tests.postgres import Database, another_server, begun_again, crashed, database_on
from tests.toiler import library
from tests.unit.test_workers import Works, submitted
from truespan.model.job import JobState

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


def test_workers_go_on_when_their_database_comes_back(
    tmp_path: Path, database: Database, chorus: Chorus
) -> None:
    with library(tmp_path / "library", database.url) as opened:
        world = opened.create_world("world")
        jobs = [
            world.submit_ingest(written(tmp_path / "texts", f"{number}.txt", 800)).id
            for number in range(3)
        ]
    workers = [chorus.start() for _ in range(2)]
    # Each is at work at a document when the server ends.
    assert all(one.heard("batch", 2) for one in workers)
    crashed(database.server)

    back = Database(begun_again(database.server), database.name)

    with library(tmp_path / "library", back.url) as opened:
        world = opened.world("world")
        until(lambda: all(is_done(world, job) for job in jobs))
        assert [one.process.poll() for one in workers] == [None, None]
        assert [one.end(signal.SIGTERM) for one in workers] == [0, 0]
        documents = world.documents()
        assert sorted(one.name for one in documents) == ["0.txt", "1.txt", "2.txt"]
        assert all(one.embedded == one.chunks > 0 for one in documents)
        assert list(opened.doctor().all_items()) == []
        assert orders(back) == 0
        opened._parts.index.retire()  # type: ignore[attr-defined]


def test_a_worker_waits_for_a_database_that_is_away_and_is_told_to_stop_meanwhile(
    database: Database, chorus: Chorus
) -> None:
    worker = chorus.start()
    until(lambda: signs_of_life(database) == 1)
    crashed(database.server)

    assert worker.end(signal.SIGTERM) == 0


def test_a_visit_of_the_doctor_whose_worker_is_killed_is_ended_by_the_next(
    tmp_path: Path, database: Database, chorus: Chorus
) -> None:
    """It has everything to embed again, and is killed while it does."""
    with library(tmp_path / "library", database.url) as opened:
        world = opened.create_world("world")
        world.ingest(written(tmp_path / "texts", "long.txt", 800))
        with database.admin() as admin:
            admin.execute("DELETE FROM truespan.vectors")
        job = world.submit_doctor(apply=True)
        victim = chorus.start()
        assert victim.heard("batch", 2)
        victim.end(signal.SIGKILL)

        last = chorus.start()
        until(lambda: is_done(world, job.id))

        assert world.jobs.get(job.id).crashes == 1
        assert last.end(signal.SIGTERM) == 0
        assert list(opened.doctor().all_items()) == []
        assert orders(database) == 0
        opened._parts.index.retire()  # type: ignore[attr-defined]


def signs_of_life(database: Database) -> int:
    with database.admin() as admin:
        rows = admin.execute("SELECT count(*) FROM truespan_queue.procrastinate_workers")
        return rows.fetchall()[0][0]


def test_one_worker_does_as_many_jobs_at_a_time_as_it_is_told_to(tmp_path: Path) -> None:
    works = Works(tmp_path / "library")
    opened = works.open()
    try:
        worlds = [opened.create_world(f"world {number}") for number in range(3)]
        jobs = [submitted(world) for world in worlds]
        # Nobody gets past this unless all three are under way at once.
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
            for document in world.documents()
        )
    finally:
        opened.close()


def test_several_jobs_of_one_world_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    works = Works(tmp_path / "library")
    opened = works.open()
    try:
        world = opened.create_world("world")
        jobs = [submitted(world, f"{number}.txt") for number in range(6)]

        assert opened.work(concurrency=4, once=True) >= 6

        assert {world.jobs.get(job.id).state for job in jobs} == {JobState.DONE}
        assert len(world.documents()) == 6
        assert list(opened.doctor().all_items()) == []
        assert works.orders() == []
    finally:
        opened.close()
