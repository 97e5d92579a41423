"""Workers that are killed or stopped under load: real processes on a real PostgreSQL."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.laws.examples import in_test_or_prove
from tests.support.forked_process import ForkedProcess
from tests.support.postgres import Database, fresh_database
from tests.support.worker_process import library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.types.job import IngestJob, JobState

WORKERS, KILLS, WORLDS = 3, in_test_or_prove(4, 8), 3
DOCUMENTS = in_test_or_prove(24, 42)
WAIT = 90.0


class Toiler:
    """A worker process and its output."""

    def __init__(self, chorus: "Chorus") -> None:
        self._chorus = chorus
        self.process = ForkedProcess(
            [sys.executable, "-m", "tests.support.worker_process", *chorus.arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in chain(self.process.stdout, ["end"]):
            with self._chorus.news:
                self.said.append(line.strip())
                self._chorus.speakers.append(self)
                self._chorus.news.notify_all()

    def heard(self, word: str, times: int = 1) -> bool:
        """Wait until a word was printed `times` times; False if the process ended before."""
        with self._chorus.news:
            self._chorus.news.wait_for(
                lambda: self.said.count(word) >= times or "end" in self.said, timeout=WAIT
            )
            return self.said.count(word) >= times

    def end(self, number: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(WAIT)
        self._thread.join(WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Chorus:
    """All workers of a library, with their output in order."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.arguments = (str(folder), database.url.reveal())
        self.news = threading.Condition()
        self.speakers: list[Toiler] = []
        self.started: list[Toiler] = []

    def start(self) -> Toiler:
        self.started.append(Toiler(self))
        return self.started[-1]

    def next_at_work(self, since: int, batches: int) -> Toiler:
        """Return the live worker with the latest output, after a number of further batches."""
        with self.news:
            told = self.news.wait_for(lambda: len(self._at_work(since)) >= batches, timeout=WAIT)
            assert told, "no worker is running"
            return self._at_work(since)[-1]

    def batches(self) -> int:
        return sum(one.said.count("batch") for one in self.started)

    def _at_work(self, since: int) -> list[Toiler]:
        return [one for one in self.speakers[since:] if one.said[-1] == "batch"]


@pytest.fixture
def chorus(tmp_path: Path, database: Database) -> Iterator[Chorus]:
    made = Chorus(tmp_path / "library", database)
    yield made
    for one in made.started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def opened(tmp_path: Path, database: Database) -> Iterator[Library]:
    with library(tmp_path / "library", database.url) as made:
        # A worker that finds an empty index marks all chunks as pending.
        made.create_world("first").ingest(written(tmp_path, "first.txt", 3))
        yield made
        made._components.index.retire()  # type: ignore[attr-defined]


def written(folder: Path, name: str, sentences: int = 60) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        " ".join(
            f"In {name} sentence {count} tells of harbour {count}." for count in range(sentences)
        )
    )
    return path


def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds, with a timeout for a busy machine."""
    pause = threading.Event()
    for _ in range(int(WAIT * 10)):
        if condition():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to that")


def test_killed_workers_embed_every_document_once(
    tmp_path: Path, database: Database, opened: Library, chorus: Chorus
) -> None:
    """Workers are killed at random batches while documents are added."""
    worlds = [opened.create_world(f"world {number}") for number in range(WORLDS)]
    jobs: list[tuple[World, str]] = []
    chance = random.Random(7)
    for _ in range(WORKERS):
        chorus.start()
    for number in range(KILLS):
        since = len(chorus.speakers)
        for world in worlds:
            path = written(tmp_path / world.name, f"{number}.txt", 240)
            jobs.append((world, world.jobs.submit(IngestJob(path)).id))
        victim = chorus.next_at_work(since, chance.randint(1, 9))
        assert victim.end(signal.SIGKILL) == -signal.SIGKILL
        chorus.start()

    until(lambda: all(is_done(world, job) for world, job in jobs))
    alive = [one for one in chorus.started if one.process.poll() is None]

    assert [one.end(signal.SIGTERM) for one in alive] == [0] * WORKERS
    for world in worlds:
        documents = world.documents.list()
        assert sorted(one.name for one in documents) == [f"{n}.txt" for n in range(KILLS)]
        assert all(one.embedded == one.chunks > 0 for one in documents)
        assert points_of(opened, world) == sum(one.chunks for one in documents)
        assert world.status().pending == 0
    assert list(opened.doctor().all_items()) == []
    assert orders(database) == 0


def test_folder_outlives_its_workers_without_loss_or_repetition(
    tmp_path: Path, database: Database, opened: Library, chorus: Chorus
) -> None:
    """One job of many documents, whose workers are killed one after another."""
    world, folder, chance = opened.create_world("world"), tmp_path / "books", random.Random(11)
    for number in range(DOCUMENTS):
        written(folder, f"{number:02}.txt", 80 + number)
    for _ in range(WORKERS):
        assert chorus.start().heard("ready")

    job = world.jobs.submit(IngestJob(folder)).id
    for _ in range(KILLS // 2):
        victim = chorus.next_at_work(len(chorus.speakers), chance.randint(1, 9))
        assert victim.end(signal.SIGKILL) == -signal.SIGKILL
        chorus.start()
    until(lambda: is_done(world, job))
    alive = [one for one in chorus.started if one.process.poll() is None]

    assert [one.end(signal.SIGTERM) for one in alive] == [0] * WORKERS
    done, documents = world.jobs.get(job), world.documents.list()
    assert (done.counts.documents, done.counts.documents_total) == (DOCUMENTS, DOCUMENTS)
    assert done.counts.failed == 0
    names = [f"{number:02}.txt" for number in range(DOCUMENTS)]
    assert sorted(one.name for one in documents) == names
    assert sorted(one.name for one in world.jobs.documents(job)) == names
    assert all(one.embedded == one.chunks > 0 for one in documents)
    assert points_of(opened, world) == sum(one.chunks for one in documents)
    # Each batch was embedded once, except those in progress at a kill.
    assert chorus.batches() <= sum(-(-one.chunks // 2) for one in documents) + KILLS // 2
    assert list(opened.doctor().all_items()) == []
    assert orders(database) == 0


def is_done(world: World, job: str) -> bool:
    found = world.jobs.get(job)
    assert found.state in (JobState.QUEUED, JobState.RUNNING, JobState.DONE)
    return found.state is JobState.DONE


def points_of(opened: Library, world: World) -> int:
    scope = world.access.scope()
    assert scope is not None
    ids = [one.chunk_id for page in opened._components.index.scan(scope) for one in page]
    assert len(ids) == len(set(ids))
    return len(ids)


def orders(database: Database) -> int:
    with database.admin() as admin:
        rows = admin.execute("SELECT count(*) FROM truespan_queue.procrastinate_jobs").fetchall()
    return rows[0][0]


def test_stopped_worker_leaves_its_job_to_the_next(
    tmp_path: Path, database: Database, opened: Library, chorus: Chorus
) -> None:
    world = opened.create_world("world")
    job = world.jobs.submit(IngestJob(written(tmp_path, "long.txt", 4000)))
    toiler = chorus.start()
    assert toiler.heard("batch", 2)

    assert toiler.end(signal.SIGTERM) == 0

    left = world.jobs.get(job.id)
    assert toiler.said[-2:] == ["left", "end"]
    assert (left.state, left.crashes, orders(database)) == (JobState.QUEUED, 0, 1)
    before = toiler.said.count("batch")
    after = chorus.start()
    until(lambda: is_done(world, job.id))
    after.end(signal.SIGTERM)
    # The vectors of the first worker were kept.
    assert 0 < after.said.count("batch") <= batches(world) - before + 1
    assert [one.embedded == one.chunks for one in world.documents.list()] == [True]


def batches(world: World) -> int:
    return -(-world.documents.list()[0].chunks // 2)


def test_a_running_job_is_cancelled_from_another_process(
    tmp_path: Path, database: Database, opened: Library, chorus: Chorus
) -> None:
    world = opened.create_world("world")
    job = world.jobs.submit(IngestJob(written(tmp_path, "long.txt", 4000)))
    toiler = chorus.start()
    assert toiler.heard("batch")

    assert world.jobs.cancel(job.id).state is JobState.RUNNING

    until(lambda: world.jobs.get(job.id).state is JobState.CANCELLED)
    assert toiler.end(signal.SIGTERM) == 0
    assert orders(database) == 0
