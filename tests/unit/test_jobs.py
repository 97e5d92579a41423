"""Ingestion is a job: listed, shown, cancelled and resumed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.cli.output.documents import show_job_line
from truespan.engine.world import World
from truespan.errors import Cancelled, ProviderRefused
from truespan.ingest.report import Progress
from truespan.types.job import DocumentState, JobState, Phase

STORY = "The harbour was quiet. A light moved on the water. Nobody had seen the boat come in."


def files(lib: LibraryFixture, count: int) -> list[str]:
    return [lib.write(f"{number}.txt", f"{STORY} Story {number}.") for number in range(count)]


def new_world(lib: LibraryFixture) -> World:
    return lib.library.create_world("world")


def test_running_job_names_its_rate_and_device(lib: LibraryFixture) -> None:
    world = new_world(lib)
    world.ingest(files(lib, 1))
    [job] = world.jobs.list()
    counts = replace(job.counts, tokens=6000, seconds=2.0, device="cuda:0 NVIDIA H200")
    running = replace(job, state=JobState.RUNNING, counts=counts)
    assert show_job_line(running).endswith(", 3,000 tokens/s on cuda:0 NVIDIA H200")
    unnamed = replace(running, counts=replace(counts, device=""))
    assert show_job_line(unnamed).endswith(", 3,000 tokens/s")
    assert "tokens/s" not in show_job_line(replace(running, state=JobState.DONE))


def test_run_is_a_job_with_its_documents_and_numbers(lib: LibraryFixture) -> None:
    world = new_world(lib)
    paths = files(lib, 3)
    empty = lib.write("empty.txt", " ")

    report = world.ingest([*paths, empty])

    [job] = world.jobs.list()
    assert (job.id, job.kind, job.state, job.phase) == (
        report.job, "ingest", JobState.DONE, Phase.FINISHED,
    )  # fmt: skip
    assert (job.counts.documents_total, job.counts.failed) == (4, 1)
    assert job.counts.fraction == 1.0
    assert job.counts.tokens >= job.counts.chunks
    states = {one.name: one.state for one in world.jobs.documents(job.id)}
    assert states == {
        "0.txt": DocumentState.EMBEDDED, "1.txt": DocumentState.EMBEDDED,
        "2.txt": DocumentState.EMBEDDED, "empty.txt": DocumentState.FAILED,
    }  # fmt: skip
    [failed] = [one for one in world.jobs.documents(job.id) if one.code]
    assert failed.code == "source_empty"
    assert any("source_empty" in line.line for line in world.jobs.lines(job.id))


def test_latest_job_comes_first_with_unchanged_documents(lib: LibraryFixture) -> None:
    world = new_world(lib)
    paths = files(lib, 2)
    first, second = world.ingest(paths).job, world.ingest(paths).job
    jobs = world.jobs.list()
    assert [job.id for job in jobs] == [second, first]
    assert jobs[0].counts.unchanged == 2
    assert {one.state for one in world.jobs.documents(second)} == {DocumentState.UNCHANGED}


def test_job_of_another_world_is_not_found(lib: LibraryFixture) -> None:
    world, other = new_world(lib), lib.library.create_world("other")
    job = world.ingest(files(lib, 1)).job
    other.ingest(lib.write("o.txt", STORY))
    for look in (other.jobs.get, other.jobs.documents, other.jobs.lines, other.jobs.cancel):
        with raises_code("job_not_found") as refusal:
            look(job)
        assert refusal.value.code == "job_not_found"
    with raises_code("job_not_found"):
        other.jobs.resume(job)


def test_cancelled_job_keeps_its_work_and_can_be_resumed(lib: LibraryFixture) -> None:
    world = new_world(lib)
    paths = files(lib, 8)

    def cancel(progress: Progress) -> None:
        lib.clock.time += 2.0
        if progress.chunks:
            world.jobs.cancel(world.jobs.list()[0].id)

    with pytest.raises(Cancelled) as stopped:
        world.ingest(paths, on_progress=cancel)

    [job] = world.jobs.list()
    assert stopped.value.code == "cancelled"
    assert job.state is JobState.CANCELLED
    report = world.jobs.resume(job.id)
    [after] = world.jobs.list()
    assert (after.id, after.state) == (job.id, JobState.DONE)
    assert report.job == job.id
    assert len(world.documents.list()) == 8
    assert all(document.embedded == document.chunks for document in world.documents.list())


def test_failed_job_has_a_reason_and_resumes_at_the_failure(tmp_path: Path) -> None:
    def refuse() -> None:
        raise ProviderRefused("The provider said no.")

    embedder = WordEmbedder(before=refuse)
    lib = make_library(tmp_path, embedder=embedder)
    world = new_world(lib)
    with pytest.raises(ProviderRefused):
        world.ingest(files(lib, 2))
    [job] = world.jobs.list()
    assert (job.state, job.error) == (JobState.FAILED, "provider_refused")

    embedder.before = None
    world.jobs.resume(job.id)

    assert world.jobs.get(job.id).state is JobState.DONE
    assert world.jobs.get(job.id).error is None


def test_completed_or_running_job_is_not_resumed(lib: LibraryFixture) -> None:
    world = new_world(lib)
    job = world.ingest(files(lib, 1)).job

    with raises_code("job_not_resumable") as refusal:
        world.jobs.resume(job)
    assert refusal.value.code == "job_not_resumable"

    def resume(_: Progress) -> None:
        with raises_code("job_not_resumable"):
            world.jobs.resume(world.jobs.list()[0].id)

    world.ingest(lib.write("more.txt", STORY), on_progress=resume)


def test_job_of_a_dead_process_can_be_resumed(lib: LibraryFixture) -> None:
    world = new_world(lib)
    job = world.ingest(files(lib, 2)).job
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    machine = lib.library._components.processes.own().rpartition("/")[0]
    lib.sql(
        "UPDATE jobs SET state = 'running', process = ? WHERE id = ?",
        f"{machine}/{ended.pid}:1",
        job,
    )

    assert world.jobs.get(job).state is JobState.INTERRUPTED
    assert world.jobs.resume(job).unchanged == 2
    assert world.jobs.get(job).state is JobState.DONE


def test_reused_process_id_is_not_the_old_process(lib: LibraryFixture) -> None:
    processes = lib.library._components.processes
    machine, _, _ = processes.own().rpartition("/")
    assert processes.is_alive(processes.own())
    assert not processes.is_alive(f"{machine}/{os.getpid()}:1")
    assert processes.is_alive("another-machine/1:1")


def test_only_the_last_lines_and_jobs_are_kept(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truespan.store.tables.jobs.MAX_JOBS", 3)
    monkeypatch.setattr("truespan.store.tables.jobs.MAX_LINES", 4)
    world = new_world(lib)
    empty = [lib.write(f"empty-{number}.txt", " ") for number in range(9)]
    for _ in range(5):
        world.ingest(empty)

    jobs = world.jobs.list()

    assert len(jobs) == 3
    assert [line.line.split(":")[0] for line in world.jobs.lines(jobs[0].id)] == [
        f"empty-{number}.txt" for number in (5, 6, 7, 8)
    ]


def test_request_of_a_job_survives_storage() -> None:
    from truespan.ingest.requests import IngestRequest
    from truespan.types.source import DocumentKind, DocumentOptions, IngestOptions

    request = IngestRequest(
        ("/a", "/b"),
        options=IngestOptions(
            DocumentOptions(kind=DocumentKind.BOOK, title="T", tags=("x", "y")),
            prune=True,
            allow_empty=True,
        ),
    )

    assert IngestRequest.from_json(request.to_json()) == request
    plain = replace(request, options=IngestOptions(), paths=(), manifest="/m.jsonl")
    assert IngestRequest.from_json(plain.to_json()) == plain
