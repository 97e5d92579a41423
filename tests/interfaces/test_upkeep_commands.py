"""`truespan repair` and `truespan doctor` on a library with workers."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal
from tests.support.forked_process import ForkedProcess
from tests.support.postgres import Database, fresh_database
from truespan.wiring import open_library


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], database: Database
) -> Iterator[Terminal]:
    """A terminal on a library with a document, and an empty world."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "url").write_text(database.url.reveal())
    (tmp_path / "library" / "truespan.toml").write_text('store_url_file = "url"\n')
    made = Terminal(tmp_path, capsys)
    made.write("night.txt", NIGHT)
    made.write("keys.md", KEYS)
    assert made("init", "--world", "w")[0] == made("init", "--world", "empty")[0] == 0
    assert made("ingest", str(made.files), "-w", "w", "--here")[0] == 0
    yield made
    with open_library(tmp_path / "library") as library:
        library._components.index.retire()  # type: ignore[attr-defined]


@contextmanager
def a_worker(terminal: Terminal) -> Iterator[None]:
    arguments = ("-m", "truespan", "worker", "-L", str(terminal.folder / "library"))
    with ForkedProcess([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        assert "1 at a time" in busy.stdout.readline()
        try:
            yield
        finally:
            busy.terminate()
            busy.communicate()


def damage(database: Database) -> None:
    """Change a stored text, so that searches and the doctor notice it."""
    with database.admin() as admin:
        admin.execute("UPDATE truespan.chunks SET text = 'x'::bytea")


def test_repair_runs_on_workers_and_is_followed(terminal: Terminal, database: Database) -> None:
    damage(database)
    assert terminal("search", "Where is the key?", "-w", "w")[0] == 0
    code, listed = terminal.json("jobs", "show", "-w", "w")
    kinds = [(job["kind"], job["state"]) for job in listed["jobs"]]
    assert kinds == [("repair", "queued"), ("ingest", "done")]

    with a_worker(terminal):
        code, told = terminal.json("repair")

    [one] = told["jobs"]
    assert (code, one["job"]["kind"], one["job"]["state"]) == (0, "repair", "done")
    code, found = terminal.json("status", "-w", "w")
    assert found["status"]["repairs"] == found["status"]["quarantined"] == 0


def test_repair_stays_local_on_request(terminal: Terminal) -> None:
    code, told = terminal.json("repair", "--here")
    assert (code, told["w"]["reembedded"]) == (0, 0)

    code, out, _ = terminal("repair", "-w", "w", "--no-follow")
    assert (code, out.startswith("Queued as ")) == (0, True)
    code, again = terminal.json("repair", "--no-follow")
    assert (code, again["jobs"][0]["job"]["id"] in out) == (0, True)
    assert terminal.json("worker", "--once") == (0, {"carried_out": 1})


def test_doctor_checks_and_repairs_in_the_background(terminal: Terminal, database: Database):
    damage(database)

    with a_worker(terminal):
        found, told = terminal.json("doctor", "--background", "--no-self-test")
        mended, out, _ = terminal("doctor", "--background", "--apply", "--no-self-test")
        after, _ = terminal.json("doctor", "--background")

    assert (found, mended, after) == (5, 0, 0)
    assert {line["level"] for line in told["jobs"][0]["log"]} == {"info", "warning"}
    assert "Store and index agree" in out
    job = told["jobs"][0]["job"]["id"]
    assert "damaged_text" in terminal("jobs", "show", job, "-w", "w")[1]
    code, out, _ = terminal("doctor", "--no-self-test")
    assert (code, "jobs missing from the queue" in out) == (0, True)


def test_background_is_refused_without_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    alone = Terminal(tmp_path, capsys)
    assert alone("init", "--world", "w")[0] == 0

    code, _, err = alone("doctor", "--background")

    assert (code, "Leave --background out" in err) == (3, True)
    assert alone.json("repair", "--no-follow")[0] == 0
