"""Uploads whose job is cancelled: nothing unfinished is left, at any step of the job."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, ProviderRefused
from truespan.jobs.thread import JobThread
from truespan.types.ids import ChunkId
from truespan.types.job import IngestJob, Job, JobState
from truespan.types.scope import Scope
from truespan.types.source import Upload

STORY = " ".join(f"Sentence {count} tells of the harbour by night." for count in range(400))
NEWER = STORY.replace("harbour", "mountain")
ROWS = ("documents", "revisions", "states", "vectors")


class Unwell(MemoryIndex):
    """An index that can be unavailable for a deletion."""

    away = False

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        if self.away:
            raise IndexUnavailable("The index is away.")
        super().delete(scope, ids)


@pytest.fixture(params=["sqlite", "postgres"])
def lib(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path, store=request.param, index=Unwell())
    yield made
    made.library.close()


def settled(lib: LibraryFixture, world: World, job: Job) -> Job:
    queue = lib.library._components.queue
    assert isinstance(queue, JobThread)
    queue.wait()
    return world.jobs.get(job.id)


def upload(world: World, text: str, name: str = "a.txt") -> Job:
    return world.jobs.submit(IngestJob([Upload(name, text.encode())]))


def refuse() -> None:
    raise ProviderRefused("The provider said no.")


def cancelled_while_embedded(lib: LibraryFixture, world: World, text: str) -> Job:
    """Cancel an upload after some of its points are written."""
    first = True

    def cancel() -> None:
        nonlocal first
        if not first:
            lib.clock.time += 2.0
            world.jobs.cancel(world.jobs.list()[0].id)
        first = False

    lib.embedder.before = cancel
    job = settled(lib, world, upload(world, text))
    lib.embedder.before = None
    assert job.state is JobState.CANCELLED
    return job


def files(lib: LibraryFixture) -> list[Path]:
    return [path for path in (lib.folder / "uploads").rglob("*") if path.is_file()]


def rows(lib: LibraryFixture, world: World) -> int:
    """Return the numbers of rows and points of the only world of a library."""
    counted = sum(lib.sql(f"SELECT count(*) FROM {table}")[0][0] for table in ROWS)
    return counted + len(lib.points(world))


def test_cancelled_upload_leaves_no_row_and_no_point(lib: LibraryFixture, world: World) -> None:
    cancelled_while_embedded(lib, world, STORY)
    assert world.documents.list() == []
    assert (rows(lib, world), files(lib)) == (0, [])
    assert settled(lib, world, upload(world, STORY)).state is JobState.DONE
    assert world.search("the harbour", floor=0.0).passages


def test_document_survives_a_cancelled_replacement(lib: LibraryFixture, world: World) -> None:
    assert settled(lib, world, upload(world, STORY)).state is JobState.DONE
    before, counted = world.documents.list(), rows(lib, world)
    cancelled_while_embedded(lib, world, NEWER)
    assert world.documents.list() == before
    assert before[0].staged is None
    assert rows(lib, world) == counted
    assert world.search("the harbour", floor=0.0).passages


def test_half_failed_upload_is_removed_on_cancel(lib: LibraryFixture, world: World) -> None:
    lib.embedder.before = refuse
    job = settled(lib, world, upload(world, STORY))
    assert job.state is JobState.FAILED
    assert len(world.documents.list()) == 1
    world.jobs.cancel(job.id)
    assert (world.documents.list(), rows(lib, world), files(lib)) == ([], 0, [])


def test_documents_resumable_by_another_job_are_kept(lib: LibraryFixture, world: World) -> None:
    lib.embedder.before = refuse
    first = settled(lib, world, upload(world, STORY))
    second = settled(lib, world, upload(world, NEWER))
    world.jobs.cancel(second.id)
    assert len(world.documents.list()) == 1
    world.jobs.cancel(first.id)
    assert (world.documents.list(), rows(lib, world)) == ([], 0)


def test_late_cancel_of_a_completed_job_loses_nothing(lib: LibraryFixture, world: World) -> None:
    done = settled(lib, world, upload(world, STORY))
    lib.embedder.before = refuse
    failed = settled(lib, world, upload(world, NEWER))
    staged = world.documents.list()
    world.jobs.cancel(done.id)
    assert world.documents.list() == staged
    lib.embedder.before = None
    world.jobs.submit(failed)
    assert settled(lib, world, failed).state is JobState.DONE


def test_unavailable_index_does_not_prevent_cancelling(lib: LibraryFixture, world: World):
    lib.index.away = True
    cancelled_while_embedded(lib, world, STORY)
    assert (world.documents.list(), files(lib)) == ([], [])
    lib.index.away = False
    settled(lib, world, upload(world, NEWER, "b.txt"))
    assert [one.name for one in world.documents.list()] == ["b.txt"]
    assert lib.sql("SELECT count(*) FROM documents") == [(1,)]
    assert lib.sql("SELECT count(*) FROM revisions") == [(1,)]


def test_leftovers_of_a_killed_cancellation_are_removed(lib: LibraryFixture, world: World) -> None:
    lib.embedder.before = refuse
    job = settled(lib, world, upload(world, STORY))
    # The job was written down as cancelled, and that was all.
    lib.store.jobs.cancel(lib.scope(world), job.id)
    if world.jobs.get(job.id).state is not JobState.CANCELLED:
        lib.sql("UPDATE jobs SET state = 'cancelled'")
    assert files(lib)
    lib.library.server.resume_waiting()
    assert (world.documents.list(), rows(lib, world), files(lib)) == ([], 0, [])
