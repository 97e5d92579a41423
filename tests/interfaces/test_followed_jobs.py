"""Following jobs on workers: the outcome in words and as the exit code."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal
from tests.interfaces.test_upkeep_commands import a_worker
from tests.support.forked_process import ForkedProcess
from tests.support.postgres import fresh_database
from tests.unit.test_workers import Works
from truespan.cli.follow import follow_ingest, follow_maintenance
from truespan.cli.output.documents import MAX_ROWS, show_followed, show_one_job
from truespan.errors import (
    InvalidConfiguration,
    ProfileMismatch,
    ProviderRefused,
    SourceRefused,
    StoreDamaged,
)
from truespan.types.job import (
    DoctorJob,
    DocumentState,
    IngestJob,
    Job,
    JobDocument,
    JobLine,
    JobState,
    Phase,
)
from truespan.wiring import open_library

NOTHING = "No file that can be ingested was found."


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path / "library")
    yield made
    for one in made.opened:
        one.close()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "night.txt").write_text(NIGHT)
    (folder / "keys.txt").write_text(KEYS)
    return folder


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    """A terminal on a library with workers, and a file to ingest."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "url").write_text(fresh_database().url.reveal())
    (folder / "truespan.toml").write_text('store_url_file = "url"\n')
    made = Terminal(tmp_path, capsys)
    made.write("keys.md", KEYS)
    assert made("init", "--world", "w")[0] == 0
    yield made
    with open_library(folder) as library:
        library._components.index.retire()  # type: ignore[attr-defined]


def raising(error: Exception) -> Callable[[], None]:
    def refuse() -> None:
        raise error

    return refuse


FAILURES: list[tuple[Exception, int]] = [
    (ProfileMismatch("one", "another"), 3),
    (InvalidConfiguration("The key is missing."), 3),
    (ProviderRefused("The provider refused."), 4),
    (StoreDamaged("A row is not what was written."), 5),
    (SourceRefused("source_empty", "empty.txt"), 2),
    (ZeroDivisionError(), 1),
]


@pytest.mark.parametrize(("error", "expected"), FAILURES, ids=lambda one: type(one).__name__)
def test_failed_job_ends_its_follower_with_the_error(
    works: Works, files: Path, capsys: pytest.CaptureFixture[str], error: Exception, expected: int
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    job = world.jobs.submit(IngestJob(files / "keys.txt"))
    works.embedder.before = raising(error)
    opened.work(once=True)
    assert world.jobs.get(job.id).state is JobState.FAILED

    code = follow_ingest(world, job, as_json=False, leave=False)

    err = capsys.readouterr().err.splitlines()[-1]
    assert code == expected
    assert str(getattr(error, "code", type(error).__name__)) in err
    assert f"truespan jobs show {job.id}" in err
    assert follow_ingest(world, job, as_json=True, leave=False) == expected
    assert capsys.readouterr().err == ""


def test_cancelled_job_ends_its_follower_with_exit_code_130(terminal: Terminal) -> None:
    _, response = terminal.json("ingest", str(terminal.files), "-w", "w", "--no-follow")
    job = response["job"]["id"]
    assert terminal("jobs", "cancel", job, "-w", "w")[0] == 0

    code, out, err = terminal("jobs", "show", "--follow", job, "-w", "w")

    assert (code, "cancelled" in out) == (130, True)
    assert f"truespan jobs resume {job}" in err
    with open_library(terminal.folder / "library") as library:
        world = library.world("w")
        assert follow_ingest(world, world.jobs.get(job), as_json=True, leave=False) == 130


def test_maintenance_exit_codes_are_the_same_on_workers(works: Works, files: Path) -> None:
    opened = works.open()
    world = opened.create_world("world")
    world.ingest(files)
    cancelled, failed = world.jobs.submit(DoctorJob()), world.jobs.submit(DoctorJob(embed_sample=1))
    world.jobs.cancel(cancelled.id)
    works.embedder.before = raising(ZeroDivisionError())
    opened.work(once=True)

    def code(*jobs: Job) -> int:
        return follow_maintenance([(world, one) for one in jobs], as_json=True, leave=False)

    assert world.jobs.get(failed.id).state is JobState.FAILED
    assert (code(cancelled), code(failed), code(cancelled, failed)) == (130, 1, 1)


def document(number: int, state: DocumentState) -> JobDocument:
    reason = "cannot be read" if state is DocumentState.FAILED else None
    return JobDocument(str(number), f"{number:03}.txt", state, reason=reason)


DONE = Job("j", "ingest", JobState.DONE, Phase.FINISHED, "{}", 0.0, 0.0, 1.0, "p")


def test_job_warnings_are_notes_and_failures_are_printed_once() -> None:
    failed = JobDocument("1", "a.txt", DocumentState.FAILED, "source_empty", "It is empty.")
    log = [
        JobLine(1.0, "info", "begun"),
        JobLine(2.0, "warning", "a.txt: source_empty"),
        JobLine(3.0, "warning", "language_changed: b.txt is of another language now"),
    ]

    lines = show_followed(DONE, [failed], log).splitlines()

    assert [" ".join(line.split()) for line in lines[2:]] == [
        "failed a.txt It is empty.",
        "note: language_changed: b.txt is of another language now",
    ]


def test_failures_come_first_and_omissions_are_counted() -> None:
    well = [document(number, DocumentState.EMBEDDED) for number in range(MAX_ROWS + 5)]
    badly = [document(number, DocumentState.FAILED) for number in range(100, 110)]
    gone = [document(number, DocumentState.REMOVED) for number in range(200, 203)]

    lines = show_one_job(DONE, [*well, *gone, *badly], []).splitlines()

    assert [line.split()[:2] for line in lines[2:12]] == [["failed", one.name] for one in badly]
    assert lines[2 + MAX_ROWS] == "... and 15 more: 15 embedded"
    assert lines[3 + MAX_ROWS :] == [f"removed: {one.name}" for one in gone]
    assert show_one_job(DONE, badly * 5, []).splitlines()[-1] == "... and 10 more: 10 failed"


def test_follower_names_the_documents_that_a_job_pruned(
    works: Works, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = works.open()
    world = opened.create_world("world")
    world.ingest(files)
    (files / "keys.txt").unlink()
    job = world.jobs.submit(IngestJob(files, prune=True))
    opened.work(once=True)

    assert follow_ingest(world, job, as_json=False, leave=False) == 0

    assert "removed: keys.txt" in capsys.readouterr().out.splitlines()


def test_empty_folder_is_reported_as_by_an_embedded_library(
    works: Works, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    opened = works.open()
    world = opened.create_world("world")
    job = world.jobs.submit(IngestJob(tmp_path / "empty"))
    opened.work(once=True)

    assert follow_ingest(world, job, as_json=False, leave=False) == 0

    assert capsys.readouterr().out.strip() == NOTHING


def test_workers_continue_a_resumed_ingestion(terminal: Terminal) -> None:
    _, response = terminal.json("ingest", str(terminal.files), "-w", "w", "--no-follow")
    job = response["job"]["id"]
    assert terminal("jobs", "cancel", job, "-w", "w")[0] == 0

    code, out, _ = terminal("jobs", "resume", job, "-w", "w", "--no-follow")
    assert (code, f"Queued as job {job}." in out) == (0, True)
    assert terminal.json("jobs", "show", job, "-w", "w")[1]["job"]["state"] == "queued"
    assert terminal("jobs", "cancel", job, "-w", "w")[0] == 0
    with a_worker(terminal):
        code, response = terminal.json("jobs", "resume", job, "-w", "w")

    assert (code, response["job"]["state"], response["documents"][0]["state"]) == (
        0,
        "done",
        "embedded",
    )


def test_job_is_resumed_in_this_process_on_request(terminal: Terminal) -> None:
    _, response = terminal.json("ingest", str(terminal.files), "-w", "w", "--no-follow")
    job = response["job"]["id"]
    assert terminal("jobs", "cancel", job, "-w", "w")[0] == 0

    code, report = terminal.json("jobs", "resume", job, "-w", "w", "--here")

    assert (code, report["ingested"]) == (0, ["keys.md"])
    _, response = terminal.json("doctor", "--background", "--no-follow", "-w", "w")
    upkeep = response["jobs"][0]["job"]["id"]
    assert terminal("jobs", "cancel", upkeep, "-w", "w")[0] == 0
    code, _, err = terminal("jobs", "resume", upkeep, "-w", "w", "--here")
    assert (code, "Leave --here out" in err) == (2, True)


INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from truespan.cli import main
main()
"""
"""The command line with interrupts enabled, even if the tests run without them."""


@pytest.mark.parametrize("command", ["ingest", "repair", "doctor"])
def test_follower_reports_that_no_worker_is_running(terminal: Terminal, command: str):
    if command != "ingest":
        assert terminal("ingest", str(terminal.files), "-w", "w", "--here")[0] == 0
    asked = {"ingest": ["ingest", str(terminal.files)], "doctor": ["doctor", "--background"]}
    arguments = [*asked.get(command, [command]), "-w", "w", "-L", str(terminal.folder / "library")]

    with ForkedProcess(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stderr is not None
        first = follower.stderr.readline()
        # The next line is the one that is waited for; then it follows until it is stopped.
        rest = follower.stderr.readline()
        follower.send_signal(signal.SIGINT)
        rest += follower.stderr.read()

    assert "ueued as job" in first
    assert (follower.returncode, rest.count("No worker is running")) == (130, 1)
    # The same command, to be run in this process; the doctor has its own without --background.
    assert (shlex.join(["truespan", *arguments, "--here"]) in rest) is (command != "doctor")


def test_running_worker_is_not_reported_as_missing(terminal: Terminal) -> None:
    with a_worker(terminal):
        # A worker that has run a job is known to be running.
        assert terminal.json("ingest", str(terminal.files), "-w", "w")[0] == 0
        code, _, err = terminal("ingest", str(terminal.files), "-w", "w")

    assert (code, "No worker is running" in err) == (0, False)
