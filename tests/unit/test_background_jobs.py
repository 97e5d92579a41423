"""Jobs in the background: checked at once, run in order, stopped, cancelled and taken up again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.engine import worker
from truespan.engine.ingestion import Ingestion
from truespan.engine.jobs import submit_job
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import Interrupted, NotAllowed, ProfileMismatch, ProviderRefused
from truespan.jobs.thread import JobThread
from truespan.types.ids import WorldId
from truespan.types.job import MAX_CRASHES, IngestJob, Job, JobState, ReindexJob
from truespan.types.scope import Authority, Verb
from truespan.types.source import Upload

STORY = " ".join(f"Sentence {count} tells of the harbour by night." for count in range(400))
WAIT = 30.0


class Gate:
    """An embedder that signals each call, and waits until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(WAIT)


def refuse() -> None:
    raise ProviderRefused("The provider said no.")


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path)
    yield made
    made.library.close()


def queue_of(lib: LibraryFixture) -> JobThread:
    queue = lib.library._components.queue
    assert isinstance(queue, JobThread)
    return queue


def settled(lib: LibraryFixture, world: World, job: Job) -> Job:
    queue_of(lib).wait()
    return world.jobs.get(job.id)


def files(lib: LibraryFixture) -> list[Path]:
    return [path for path in (lib.folder / "uploads").rglob("*") if path.is_file()]


@contextmanager
def held_up(lib: LibraryFixture) -> Iterator[Gate]:
    """Keep the worker busy with a job of another world during a `with` block."""
    gate = lib.embedder.before = Gate()
    busy = lib.library.world("busy", create=True)
    busy.jobs.submit(IngestJob([Upload("busy.txt", b"Nothing else happens meanwhile.")]))
    assert gate.reached.wait(WAIT)
    yield gate
    lib.embedder.before = None
    gate.opened.set()


def test_submitted_ingestion_is_queued_and_then_done(lib: LibraryFixture, world: World) -> None:
    path = lib.write("a.txt", STORY)

    with held_up(lib):
        job = world.jobs.submit(IngestJob(path, kind="book", title="A", tags=["x"], version="2.0"))
        assert (job.state, job.background) == (JobState.QUEUED, True)
        assert world.jobs.get(job.id) == job
        assert world.documents.list() == []

    done = settled(lib, world, job)
    assert (done.state, done.counts.documents, done.counts.fraction) == (JobState.DONE, 1, 1.0)
    [document] = world.documents.list()
    assert (document.kind, document.title, document.tags, document.version) == (
        "book", "A", ("x",), "2.0",
    )  # fmt: skip
    assert document.embedded == document.chunks


def test_upload_becomes_a_document_and_leaves_no_file(lib: LibraryFixture, world: World) -> None:
    job = world.jobs.submit(
        IngestJob([Upload("tale.txt", STORY.encode()), Upload("bad.pdf", b"no pdf")])
    )
    assert settled(lib, world, job).state is JobState.DONE
    [document] = world.documents.list()
    assert (document.name, document.path) == ("tale.txt", "upload:tale.txt")
    assert document.shown_path == "tale.txt"
    states = {one.name: one.state for one in world.jobs.documents(job.id)}
    assert states == {"tale.txt": "embedded", "bad.pdf": "failed"}
    assert files(lib) == []


def test_equal_name_is_the_same_document(lib: LibraryFixture, world: World) -> None:
    with held_up(lib):
        jobs = [
            world.jobs.submit(IngestJob([Upload("a.txt", text)]))
            for text in (b"The first.", b"The second.")
        ]
    assert [settled(lib, world, job).state for job in jobs] == [JobState.DONE, JobState.DONE]
    [document] = world.documents.list()
    assert document.active == 2
    assert world.documents.text("a.txt") == "The second."


def test_invalid_request_fails_at_once_and_creates_no_job(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    before = world.jobs.list()
    no_request: Any = "a.txt"
    wrong: list[tuple[str, Any]] = [
        ("source_missing", lambda: world.jobs.submit(IngestJob("nowhere/at/all"))),
        ("invalid_argument", lambda: world.jobs.submit(IngestJob([]))),
        ("invalid_argument", lambda: world.jobs.submit(IngestJob("a", kind="novel"))),
        ("invalid_argument", lambda: world.jobs.submit(IngestJob([Upload("../a", b"x")]))),
        (
            "invalid_argument",
            lambda: world.jobs.submit(IngestJob([Upload("a", b"x")], kind="novel")),
        ),
        (
            "invalid_argument",
            lambda: world.jobs.submit(IngestJob([Upload("a", b"x")], chunking="none")),
        ),
        ("invalid_argument", lambda: world.jobs.submit(IngestJob([]))),
        ("invalid_argument", lambda: world.jobs.submit(no_request)),
        ("invalid_argument", lambda: world.jobs.submit(ReindexJob(model="none"))),
        ("invalid_argument", lambda: world.jobs.submit(ReindexJob(chunking="none"))),
        ("job_not_found", lambda: world.jobs.submit(world.jobs.get("none"))),
        ("job_not_resumable", lambda: world.jobs.submit(before[0])),
    ]

    for error, call in wrong:
        with raises_code(error):
            call()

    assert world.jobs.list() == before
    assert files(lib) == []


def test_wrong_model_is_reported_at_once(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    lib.world(a__txt=STORY)
    lib.library.close()
    other = WordEmbedder(profile=replace(lib.embedder.profile, model="other"))
    with make_library(tmp_path, embedder=other).library as library, pytest.raises(ProfileMismatch):
        library.world("world").jobs.submit(IngestJob([Upload("a.txt", b"x")]))
    assert files(lib) == []


@pytest.mark.needs_extension
def test_caller_without_write_permission_submits_nothing(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    reading = Authority(worlds=frozenset({WorldId(world.id)}), verbs=frozenset({Verb.READ}))
    view = lib.library.under(reading).world("world")

    for call in (
        lambda: view.jobs.submit(IngestJob([Upload("a.txt", b"x")])),
        lambda: view.jobs.submit(IngestJob(lib.write("b.txt", "B."))),
        lambda: view.jobs.submit(world.jobs.list()[0]),
    ):
        with raises_code("world_not_found"):
            call()
    for call in (
        partial(view.jobs.submit, ReindexJob()),
        lib.library.under(reading).server.resume_waiting,
    ):
        with pytest.raises(NotAllowed):
            call()
    assert files(lib) == []


def test_generation_is_built_in_the_background(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    job = world.jobs.submit(ReindexJob(chunking="sentences"))
    assert (job.kind, job.state) == ("reindex", JobState.QUEUED)
    assert settled(lib, world, job).state is JobState.DONE
    [_, built] = world.generations.list()
    assert (built.complete, built.is_default) == (True, False)


def test_cancelled_queued_job_ends_at_once_and_never_runs(lib: LibraryFixture, world: World):
    with held_up(lib):
        kept = world.jobs.submit(IngestJob([Upload("kept.txt", b"Kept.")]))
        job = world.jobs.submit(IngestJob([Upload("gone.txt", b"Gone.")]))
        before = len(files(lib))

        assert world.jobs.cancel(job.id).state is JobState.CANCELLED

        assert len(files(lib)) < before
        with raises_code("job_not_resumable", match="without its uploads"):
            world.jobs.submit(job)

    assert settled(lib, world, job).state is JobState.CANCELLED
    assert settled(lib, world, kept).state is JobState.DONE
    assert [one.name for one in world.documents.list()] == ["kept.txt"]


def test_failed_upload_resumes_from_its_stored_file(lib: LibraryFixture, world: World) -> None:
    lib.embedder.before = refuse
    job = world.jobs.submit(IngestJob([Upload("a.txt", STORY.encode())]))
    failed = settled(lib, world, job)
    assert (failed.state, failed.error) == (JobState.FAILED, "provider_refused")
    assert files(lib)
    lib.embedder.before = None
    again = world.jobs.submit(job)
    assert (again.id, again.state, again.error) == (job.id, JobState.QUEUED, None)
    assert settled(lib, world, job).state is JobState.DONE
    assert files(lib) == []


def test_failed_upload_can_be_resumed_in_the_foreground(lib: LibraryFixture, world: World) -> None:
    lib.embedder.before = refuse
    job = world.jobs.submit(IngestJob([Upload("a.txt", STORY.encode())]))
    settled(lib, world, job)
    lib.embedder.before = None
    assert world.jobs.resume(job.id).ingested == ["a.txt"]
    assert files(lib) == []


def test_failed_job_does_not_delay_others(lib: LibraryFixture) -> None:
    def fail() -> None:
        lib.embedder.before = None
        raise ValueError("secret words")

    world = lib.library.create_world("world")
    lib.embedder.before = fail
    jobs = [
        world.jobs.submit(IngestJob([Upload(name, b"One. Two.")])) for name in ("a.txt", "b.txt")
    ]

    states = [settled(lib, world, job) for job in jobs]

    assert [(job.state, job.error) for job in states] == [
        (JobState.FAILED, "ValueError"),
        (JobState.DONE, None),
    ]


def closed_while_running(lib: LibraryFixture, *waiting: bytes) -> list[Job]:
    """Close a library whose worker is in the middle of one job while others wait."""
    gate = lib.embedder.before = Gate()
    world = lib.library.create_world("world")
    jobs = [world.jobs.submit(IngestJob([Upload("first.txt", STORY.encode())]))]
    assert gate.reached.wait(WAIT)
    jobs += [world.jobs.submit(IngestJob([Upload(f"{text!r}.txt", text)])) for text in waiting]
    closing = threading.Thread(target=lib.library.close)
    closing.start()
    assert queue_of(lib)._stopping.wait(WAIT)
    gate.opened.set()
    closing.join(WAIT)
    return jobs


@pytest.mark.needs_extension
def test_closing_interrupts_the_running_job_and_reopening_resumes(tmp_path: Path) -> None:
    jobs = closed_while_running(make_library(tmp_path), b"Second.", b"Third.")

    after = make_library(tmp_path)
    with after.library as library:
        world = library.world("world")
        assert {job.state for job in world.jobs.list()} == {JobState.INTERRUPTED}
        assert after.sql("SELECT DISTINCT state, crashes FROM jobs") == [("interrupted", 0)]

        taken = library.server.resume_waiting()

        assert [job.id for job in taken] == [job.id for job in jobs]
        assert {settled(after, world, job).state for job in jobs} == {JobState.DONE}
        assert len(world.documents.list()) == 3
        assert files(after) == []


def test_closing_has_a_time_limit(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    queue = JobThread(closing_seconds=0.0)
    library = Library(replace(lib.library._components, queue=queue))
    gate = lib.embedder.before = Gate()
    world = library.create_world("world")
    job = world.jobs.submit(IngestJob([Upload("a.txt", STORY.encode())]))
    assert gate.reached.wait(WAIT)
    waiting = world.jobs.submit(IngestJob([Upload("b.txt", b"Waiting.")]))
    thread = queue._thread
    assert thread is not None

    queue.close()

    for one in (job, waiting):
        assert world.jobs.get(one.id).state is JobState.INTERRUPTED
    gate.opened.set()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert world.jobs.get(job.id).state is JobState.INTERRUPTED
    late = world.jobs.submit(IngestJob([Upload("late.txt", b"Too late.")]))
    assert world.jobs.get(late.id).state is JobState.INTERRUPTED
    library.close()


def left_by(lib: LibraryFixture, world: World, process: str = "gone", **columns: Any) -> Job:
    parts = lib.library._components
    machine = parts.processes.own().rpartition("/")[0]
    job = parts.store.jobs.add(
        lib.scope(world),
        "ingest",
        Ingestion(parts, lib.scope(world))
        .request(IngestJob(lib.write("left.txt", STORY)))
        .to_json(),
        f"{machine}/999999999:{process}",
        queued=True,
    )
    for column, value in columns.items():
        lib.sql(f"UPDATE jobs SET {column} = ? WHERE id = ?", value, job.id)
    return job


@pytest.mark.needs_extension
@pytest.mark.parametrize("state", ["queued", "running"])
def test_job_of_a_dead_process_is_interrupted_and_resumed(lib: LibraryFixture, state: str) -> None:
    world = lib.world(a__txt=STORY)
    job = left_by(lib, world, state=state)
    assert world.jobs.get(job.id).state is JobState.INTERRUPTED
    assert [one.id for one in lib.library.server.resume_waiting()] == [job.id]
    assert settled(lib, world, job).state is JobState.DONE
    assert lib.library.server.resume_waiting() == []


@pytest.mark.needs_extension
def test_deliberately_stopped_job_is_not_resumed(lib: LibraryFixture, world: World) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        world.ingest(lib.write("a.txt", STORY), on_progress=stop)
    cancelled = left_by(lib, world)
    world.jobs.cancel(cancelled.id)
    resumed = left_by(lib, world)
    with pytest.raises(Interrupted):
        world.jobs.resume(resumed.id, on_progress=stop)

    assert lib.library.server.resume_waiting() == []
    assert {job.state for job in world.jobs.list()} == {JobState.INTERRUPTED, JobState.CANCELLED}


@pytest.mark.needs_extension
def test_crashing_job_is_not_resumed_forever(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    job = left_by(lib, world, state="running", crashes=MAX_CRASHES - 2)
    with held_up(lib):
        [taken] = lib.library.server.resume_waiting()
        assert taken.crashes == MAX_CRASHES - 1
        lib.sql("UPDATE jobs SET state = 'running', process = ? WHERE id = ?", job.process, job.id)
        assert lib.library.server.resume_waiting() == []
        assert world.jobs.get(job.id).state is JobState.INTERRUPTED
    assert world.jobs.submit(job).crashes == 0
    assert settled(lib, world, job).state is JobState.DONE


def test_concurrent_workers_take_a_job_once(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    left_by(lib, world, state="running")
    parts, scope = lib.library._components, lib.scope(world)
    with held_up(lib):
        [seen, *_] = world.jobs.list()
        taken = [worker._resume(parts, scope, seen) for _ in range(3)]
    assert [one is not None for one in taken] == [True, False, False]
    queue_of(lib).wait()


def test_job_is_requeued_only_from_the_observed_state(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=STORY)
    job, store, scope = left_by(lib, world), lib.store, lib.scope(world)
    assert store.jobs.interrupt(scope, job.id, job.process)
    tries = [
        store.jobs.requeue(scope, job.id, name, seen=JobState.INTERRUPTED, crashes=0)
        for name in ("one", "other")
    ]
    assert tries == [True, False]
    assert world.jobs.get(job.id).process == "one"
    assert not store.jobs.interrupt(scope, job.id, "other")


def test_job_submitted_twice_runs_once(lib: LibraryFixture, world: World) -> None:
    with held_up(lib):
        job = world.jobs.submit(IngestJob([Upload("a.txt", b"One. Two.")]))
        submit_job(lib.library._components, lib.scope(world).world, job)
    assert settled(lib, world, job).state is JobState.DONE
    assert world.documents.list()[0].active == 1


def test_jobs_of_a_deleted_world_are_removed(lib: LibraryFixture, world: World) -> None:
    with held_up(lib):
        world.jobs.submit(IngestJob([Upload("a.txt", b"One. Two.")]))
        receipt = lib.library.delete_world("world")
        assert receipt.uploads.files == 1
    queue_of(lib).wait()
    assert [one.name for one in lib.library.worlds()] == ["busy"]
    assert files(lib) == []


def test_looking_up_a_job_reads_one_job(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    with lib.library:
        world = lib.world(a__txt=STORY)
        job = world.jobs.list()[0]
        lib.journal.clear()
        world.jobs.get(job.id)
        assert lib.journal == ["store.worlds.find", "store.catalogs.scope_of", "store.jobs.find"]
        plan = lib.sql("EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE id = ?", job.id)
        assert "SEARCH jobs USING INDEX" in str(plan)


def test_progress_is_stored_every_second(lib: LibraryFixture, world: World) -> None:
    seen: list[float] = []

    def look() -> None:
        lib.clock.time += 1.0
        seen.append(world.jobs.list()[0].counts.fraction)

    lib.embedder.before = look
    job = world.jobs.submit(IngestJob([Upload("a.txt", (STORY * 3).encode())]))

    assert settled(lib, world, job).state is JobState.DONE
    assert len(seen) > 3
    assert len(set(seen[1:])) == len(seen) - 1
