"""Uploads and background jobs with killed and concurrent processes, and deletions."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import truespan
from tests.promises import proves
from tests.support.crash_process import library
from tests.support.failures import raises_code
from tests.support.forked_process import ForkedProcess, forked
from tests.support.leftover_search import rare_text, traces
from tests.support.worlds import WordCounter, WordEmbedder, make_library, query
from truespan.engine.components import MAX_CRASHES
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import ProviderRefused
from truespan.ingest.requests import IngestRequest
from truespan.types.job import IngestJob, JobState
from truespan.types.source import Upload
from truespan.types.vectors import Vector
from truespan.wiring import open_library

STEPS = (*range(1, 5), *range(6, 60, 3))
"""The first steps, in which an upload becomes a job, and some steps of every job."""
TALE = " ".join(f"Sentence {count} tells of the harbour by night." for count in range(60))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for a library, with the files to upload beside it."""
    (tmp_path / "tale.txt").write_text(TALE)
    yield tmp_path / "library"
    with opened(tmp_path / "library") as left:
        left._components.index.retire()  # type: ignore[attr-defined]


def opened(folder: Path, **changes: object) -> Library:
    folder.mkdir(exist_ok=True)
    return Library(replace(library(folder)._components, **changes))


def waited(made: Library) -> None:
    made._components.queue.wait()  # type: ignore[attr-defined]


def uploads(folder: Path) -> list[Path]:
    return [path for path in (folder / "uploads").rglob("*") if path.is_file()]


def arguments(folder: Path, world: World, action: str, step: int) -> list[str]:
    return [str(folder), world.id, action, str(step), str(folder.parent / "tale.txt")]


@proves("ingest.durability-order", "ingest.no-duplicates")
def test_upload_killed_at_any_step_is_ingested_by_the_next(home: Path) -> None:
    told, ended = 0, False
    with opened(home) as made:
        for step in STEPS:
            world = made.create_world(f"world {step}")
            done = forked("tests.support.crash_process", *arguments(home, world, "upload", step))
            assert done.returncode in (0, -signal.SIGKILL), done.stderr

            taken = made.server.resume_waiting()
            waited(made)

            jobs = world.jobs.list()
            assert [job.state for job in jobs] == [JobState.DONE] * len(jobs)
            assert uploads(home) == []
            if not jobs:
                # The process was killed before it reported the upload.
                assert world.documents.list() == []
                continue
            told += 1
            [document] = world.documents.list()
            assert (document.embedded, document.active) == (document.chunks, 1)
            assert world.documents.text("tale.txt") == TALE
            assert made._components.index.count(world.access.scope()) == document.chunks  # type: ignore[arg-type]
            if done.returncode == 0:
                assert taken == []
                ended = True
                break
    assert told > 4
    assert ended


def left_behind(made: Library, world: World, name: str, text: str = TALE) -> str:
    """Create the job of an upload whose process died before the job began."""
    parts, scope = made._components, world.access.scope()
    assert parts.uploads is not None
    assert scope is not None
    gone = parts.processes.own().rpartition("/")[0] + "/999999999:1"
    with parts.uploads.receive(scope.world, [Upload(name, f"{text} {name}".encode())]) as batch:
        request = IngestRequest(uploads=batch).to_json()
        return parts.store.jobs.add(scope, "ingest", request, gone, queued=True).id


@proves("store.second-process")
def test_each_job_is_taken_by_one_of_several_servers(home: Path) -> None:
    with opened(home) as made:
        world = made.world("world", create=True)
        world.ingest(home.parent / "tale.txt")
        left = [left_behind(made, world, f"{count}.txt") for count in range(12)]

        servers = [
            ForkedProcess(
                [
                    sys.executable,
                    "-m",
                    "tests.support.crash_process",
                    *arguments(home, world, "serve", 0),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        taken = [server.communicate()[0].split() for server in servers]

        assert [server.returncode for server in servers] == [0, 0, 0]
        assert sorted(job for jobs in taken for job in jobs) == sorted(left)
        assert {world.jobs.get(job).state for job in left} == {JobState.DONE}
        assert len(world.documents.list()) == 13
        assert all(one.active == 1 for one in world.documents.list())
        assert uploads(home) == []


def vectors(made: Library) -> list[Vector]:
    rows = query(made._components.store, "SELECT vector FROM vectors")
    return [Vector(row[0]) for row in rows]


def uploaded_twice(made: Library) -> tuple[World, str]:
    """Upload a document twice, the second time with a failing provider, which keeps the file."""
    first, second = rare_text("first"), rare_text("second")
    world = made.create_world("world")
    world.jobs.submit(IngestJob([Upload("secret.txt", first.encode())]))
    waited(made)
    embedder = made._components.embedder
    assert isinstance(embedder, WordEmbedder)
    embedder.before = refuse
    both = [Upload("secret.txt", second.encode()), Upload("other.txt", b"Another. One more.")]
    job = world.jobs.submit(IngestJob(both))
    waited(made)
    embedder.before = None
    assert world.jobs.get(job.id).state is JobState.FAILED
    return world, f"{first} {second}"


def refuse() -> None:
    raise ProviderRefused("The provider said no.")


@proves("upkeep.deletion-complete")
def test_deleted_upload_leaves_no_byte_in_any_file(home: Path) -> None:
    with opened(home) as made:
        world, text = uploaded_twice(made)
        own = vectors(made)
        assert any("uploads" in place for place in traces(home, text, own))

        receipt = world.documents.delete("secret.txt")

        assert (receipt.uploads.files, receipt.erased) == (1, True)
        assert traces(home, text, own) == []
        assert "secret" not in str([path.read_bytes() for path in uploads(home)])
        # The upload is not lost.
        job = world.jobs.submit(world.jobs.list()[0])
        waited(made)
        assert world.jobs.get(job.id).state is JobState.DONE
        assert [one.name for one in world.documents.list()] == ["other.txt"]
    assert traces(home, text, own) == []
    assert uploads(home) == []


@proves("upkeep.deletion-complete")
def test_deleted_world_leaves_no_byte_of_its_uploads(home: Path) -> None:
    with opened(home) as made:
        _, text = uploaded_twice(made)
        own = vectors(made)

        receipt = made.delete_world("world")

        assert receipt.erased
        assert receipt.uploads.files == 2
        assert traces(home, text, own) == []
        assert list((home / "uploads").iterdir()) == []


@proves("upkeep.backup-restores")
def test_backup_has_no_uploads_and_interrupts_their_jobs(home: Path, tmp_path: Path) -> None:
    text = rare_text("not in a backup")
    with open_library(home, create=True, embedder=WordEmbedder(), counter=WordCounter()) as made:
        world = made.create_world("world")
        embedder = made._components.embedder
        assert isinstance(embedder, WordEmbedder)
        embedder.before = refuse
        failed = world.jobs.submit(IngestJob([Upload("failed.txt", text.encode())]))
        waited(made)
        assert uploads(home)
        left_behind(made, world, "queued.txt")
        scope = world.access.scope()
        assert scope is not None
        request = IngestRequest((str(home.parent / "tale.txt"),)).to_json()
        made._components.store.jobs.add(
            scope, "ingest", request, "another-machine/1:1", queued=True
        )
        made._components.store.jobs.add(scope, "ingest", "{}", "another-machine/1:1")
        made.backup(tmp_path / "library.backup")

    truespan.restore(tmp_path / "library.backup", tmp_path / "again")

    with open_library(tmp_path / "again", embedder=WordEmbedder(), counter=WordCounter()) as made:
        world = made.world("world")
        states = {job.state for job in world.jobs.list() if job.id != failed.id}
        assert states == {JobState.INTERRUPTED}
        assert made.server.resume_waiting() == []
        for job in world.jobs.list()[2:]:
            with raises_code("job_not_resumable"):
                world.jobs.submit(job)
        assert not (tmp_path / "again" / "uploads").exists()
        made._components.index.retire()  # type: ignore[attr-defined]


RUN = """
import os, sys
from pathlib import Path
from tests.support.worlds import make_library
from truespan.types.job import IngestJob
from truespan.types.source import Upload

lib = make_library(Path(sys.argv[1]), store="sqlite")
# As if the operating system killed the process while it embeds the document.
lib.embedder.before = lambda: os._exit(9)
if sys.argv[2] == "submit":
    request = IngestJob([Upload("a.txt", b"The tide comes in.")])
    lib.library.create_world("world").jobs.submit(request)
else:
    print(len(lib.library.server.resume_waiting()), flush=True)
lib.library._components.queue.wait()
"""


@proves("tenants.no-stall")
def test_job_that_ends_its_process_is_not_retried_forever(tmp_path: Path) -> None:
    def run(action: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(tmp_path), action],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return done.returncode, done.stdout.strip()

    assert run("submit") == (9, "")
    restarts = [run("resume") for _ in range(MAX_CRASHES)]

    assert restarts == [*([(9, "1")] * (MAX_CRASHES - 1)), (0, "0")]
    with make_library(tmp_path, store="sqlite").library as library:
        [job] = library.world("world").jobs.list()
        assert (job.state, job.crashes) == (JobState.INTERRUPTED, MAX_CRASHES)
