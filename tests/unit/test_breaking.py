"""Attempts to break jobs, syncs and plans."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.reading_worlds import Stopped, stopped_at
from tests.support.worlds import LibraryFixture
from truespan.core.clock import SystemProcesses
from truespan.engine.world import World
from truespan.ingest.plan import DocumentOutcome
from truespan.types.job import JobState

TEXT = "The lamp burned in the night. It went out."


def test_job_ended_by_an_unexpected_error_can_be_resumed(lib: LibraryFixture, world: World) -> None:
    def fail(_progress: object) -> None:
        raise ValueError("secret words")

    with pytest.raises(ValueError, match="secret words"):
        world.ingest(lib.write("a.txt", TEXT), on_progress=fail)

    job = world.jobs.list()[0]
    assert (job.state, job.error) == (JobState.FAILED, "ValueError")
    assert world.jobs.resume(job.id).ingested == ["a.txt"]


def test_job_resumed_by_another_process_is_left_alone(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    gone = f"{socket.gethostname()}/999999999:1"
    lib.sql("UPDATE jobs SET state = 'running', process = ?", gone)
    looked_at = world.jobs.list()[0]
    assert looked_at.state is JobState.INTERRUPTED

    lib.store.jobs.interrupt(lib.scope(world), looked_at.id, looked_at.process)
    own = SystemProcesses().own()
    assert lib.store.jobs.resume(lib.scope(world), looked_at.id, own)
    lib.store.jobs.interrupt(lib.scope(world), looked_at.id, looked_at.process)

    assert world.jobs.list()[0].state is JobState.RUNNING
    assert not lib.store.jobs.resume(lib.scope(world), looked_at.id, own)


def test_file_name_cannot_add_a_line_to_a_log(
    tmp_path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a\nWARNING all is lost\x1b[2J.docx"
    path.write_bytes(b"PK\x03\x04 and nothing")
    world.ingest(path)
    kept = [one.line for one in world.jobs.lines(world.jobs.list()[0].id)]
    logged = [record.getMessage() for record in caplog.records if record.name == "truespan.ingest"]
    assert kept == logged
    assert kept
    assert all(line.isprintable() for line in kept)


@pytest.mark.parametrize("name", [b".caf\xe9.txt", b"caf\xe9/.hidden.txt"])
def test_file_with_an_undecodable_name_is_not_reported_missing(
    tmp_path: Path, lib: LibraryFixture, world: World, name: bytes
) -> None:
    lib.write("folder/plain.txt", TEXT)
    folder = tmp_path / "files" / "folder"
    odd = os.fsdecode(os.fsencode(folder) + b"/" + name)
    try:
        os.makedirs(os.path.dirname(odd), exist_ok=True)
        Path(odd).write_text("Words that a folder's listing passes over.")
    except OSError:
        pytest.skip("this file system wants names that are text")
    world.ingest([odd, str(folder)])
    assert world.documents.plan(str(folder), prune=True).removed == ()

    os.unlink(odd)

    assert len(world.documents.plan(str(folder), prune=True).removed) == 1


def test_undecodable_and_control_characters_in_names_are_escaped(
    tmp_path: Path, world: World
) -> None:
    folder = tmp_path / "files" / "folder"
    folder.mkdir(parents=True)
    names = (b"caf\xe8.txt", b"caf\xe9.txt", b"caf?.txt", b"a\x1b[2J.txt", b"b\nc.txt")
    shown = [
        *(R"a\x1b[2J.txt", R"b\x0ac.txt", R"caf\xe8.txt", R"caf\xe9.txt", "caf?.txt"),
        R"d\u202etxt.md",
    ]
    try:
        for name in (*names, "d\u202etxt.md".encode()):
            Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(b"Words of " + name)
    except OSError:
        pytest.skip("this file system wants names that are text")

    assert len(world.ingest(str(folder)).ingested) == len(shown)

    documents = world.documents.list()
    assert sorted(document.shown_path for document in documents) == sorted(
        f"folder/{name}" for name in shown
    )
    assert sorted(document.title for document in documents) == sorted(shown)
    assert world.ingest(str(folder), prune=True).unchanged == len(shown)


def test_plan_lists_a_document_waiting_to_be_shown(lib: LibraryFixture, world: World) -> None:
    path = lib.write("a.txt", TEXT)
    outcomes = set()
    for step in range(2, 12):
        with suppress(Stopped):
            stopped_at(lib, step).world("world").ingest(path)
        planned = world.documents.plan(path).rows[0].outcome
        outcomes.add(planned)
        report = world.ingest(path)
        assert (planned is DocumentOutcome.UNCHANGED) == (report.unchanged == 1), step
        world.documents.delete("a.txt")

    assert {DocumentOutcome.NEW, DocumentOutcome.RESUMED, DocumentOutcome.UNCHANGED} <= outcomes
