"""A library whose store is in PostgreSQL, from its settings to its commands."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal
from tests.support.failures import raises_code
from tests.support.forked_process import ForkedProcess
from tests.support.postgres import Database, fresh_database
from truespan.errors import InvalidConfiguration
from truespan.extensions.cluster.configured import prepare_tables
from truespan.settings import read_settings
from truespan.wiring import open_library

PASSWORD = "correct-horse-battery"


@pytest.fixture
def database() -> Database:
    return fresh_database(prepared=False)


@pytest.fixture
def terminal(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    database: Database,
) -> Iterator[Terminal]:
    """A terminal on a library with a database without tables."""
    (tmp_path / "library").mkdir()
    for name, url in (("url", database.url), ("owner", database.owner_url)):
        (tmp_path / "library" / name).write_text(url.reveal() + "\n")
    (tmp_path / "library" / "truespan.toml").write_text(
        'store_url_file = "url"\nstore_owner_url_file = "owner"\n'
    )
    yield Terminal(tmp_path, capsys)
    with open_library(tmp_path / "library") as library:
        library._components.index.retire()  # type: ignore[attr-defined]


def test_command_line_works_with_a_store_server(terminal: Terminal) -> None:
    terminal.write("night.txt", NIGHT)
    terminal.write("keys.md", f"# Keys\n\n{KEYS}\n")

    code, _, err = terminal("init", "--world", "w")
    assert (code, "prepare-store" in err) == (3, True)
    code, told = terminal.json("prepare-store")
    assert (code, told["schema_before"]) == (0, 0)
    assert "up to date" in terminal("prepare-store")[1]
    assert terminal("init", "--world", "w")[0] == 0
    code, report = terminal.json("ingest", str(terminal.files), "-w", "w", "--here")
    assert (code, report["failures"]) == (0, [])
    code, found = terminal.json("search", "Where is the spare key?", "-w", "w", "-k", "1")
    assert (code, found["passages"][0]["source"]) == (0, "keys.md")
    code, out, _ = terminal("doctor")
    assert (code, "row security" in out, "PostgreSQL" in out) == (0, True, True)
    code, told = terminal.json("backup", str(terminal.folder / "b"))
    assert (code, told["manifest"]["documents"], told["manifest"]["vectors"]) == (0, 2, True)
    assert terminal("restore", str(terminal.folder / "b"))[0] == 2
    assert terminal("delete", "keys.md", "-w", "w")[0] == 0
    assert not (terminal.folder / "library" / "store.db").exists()


@pytest.mark.parametrize(("may", "became"), [(True, "requested"), (False, "left_to_operator")])
def test_receipt_makes_no_claim_about_files_of_a_server(
    terminal: Terminal, database: Database, may: bool, became: str
) -> None:
    terminal.write("night.txt", NIGHT)
    terminal.write("keys.md", f"# Keys\n\n{KEYS}\n")
    assert terminal("prepare-store")[0] == 0
    assert terminal("init", "--world", "w")[0] == 0
    assert terminal("ingest", str(terminal.files), "-w", "w", "--here")[0] == 0
    with database.admin() as admin:
        if admin.info.server_version < 170000:
            became = "left_to_operator"
        elif not may:
            admin.execute("REVOKE MAINTAIN ON ALL TABLES IN SCHEMA truespan FROM truespan_worlds")

    code, told = terminal.json("delete", "keys.md", "-w", "w")
    receipt = told["receipt"]
    assert (code, receipt["erased"], receipt["waiting"]) == (0, False, {})
    assert receipt["outside"] == {"store": became}
    code, out, _ = terminal("delete", "night.txt", "-w", "w")
    assert (code, "Erased from every file" in out, "store server" in out) == (0, False, True)


def test_command_line_follows_jobs_on_workers(terminal: Terminal) -> None:
    terminal.write("night.txt", NIGHT)
    terminal.write("broken.pdf", "no pdf")
    assert terminal("prepare-store")[0] == 0
    assert terminal("init", "--world", "w")[0] == 0

    code, out, _ = terminal("ingest", str(terminal.files), "-w", "w", "--no-follow")
    assert (code, "Queued as job" in out) == (0, True)
    code, listed = terminal.json("jobs", "show", "-w", "w")
    assert [job["state"] for job in listed["jobs"]] == ["queued"]
    assert terminal.json("worker", "--once") == (0, {"carried_out": 1})
    code, listed = terminal.json("jobs", "show", "-w", "w")
    assert [(job["state"], job["counts"]["failed"]) for job in listed["jobs"]] == [("done", 1)]

    terminal.write("keys.md", f"# Keys\n\n{KEYS}\n")
    arguments = ("-m", "truespan", "worker", "-L", str(terminal.folder / "library"))
    with ForkedProcess([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        assert "1 at a time" in busy.stdout.readline()
        code, told = terminal.json("ingest", str(terminal.files), "-w", "w")
        busy.terminate()
        assert "Ran " in busy.stdout.read()
    assert (busy.returncode, code, told["job"]["state"]) == (0, 6, "done")
    states = {one["name"]: one["state"] for one in told["documents"]}
    assert states == {"night.txt": "unchanged", "keys.md": "embedded", "broken.pdf": "failed"}
    assert terminal.json("search", "Where is the spare key?", "-w", "w", "-k", "1")[0] == 0


def test_library_in_a_file_has_no_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    alone = Terminal(tmp_path, capsys)
    assert alone("init")[0] == 0

    code, _, err = alone("worker", "--once")

    assert (code, "PostgreSQL" in err) == (3, True)


def test_wrong_role_is_refused_when_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUESPAN_STORE_URL", fresh_database().owner_url.reveal())

    with raises_code("store_unsafe"):
        open_library(tmp_path / "library", create=True)

    assert not (tmp_path / "library" / "store.db").exists()


SAID = {
    "two": {"store_url": "postgresql://a@h/d", "store_url_file": "x"},
    "no file": {"store_url_file": "absent"},
    "other": {"store_url": f"mysql://a:{PASSWORD}@h/d"},
    "broken": {"store_url": f"postgresql://a:{PASSWORD}@[h/d"},
    "nobody there": {"store_url": f"postgresql://a:{PASSWORD}@127.0.0.1:1/d"},
}


@pytest.mark.parametrize("what", SAID)
def test_wrong_address_is_reported_without_quoting_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    for name, value in SAID[what].items():
        monkeypatch.setenv(f"TRUESPAN_{name.upper()}", value)

    kind = "store_unavailable" if what == "nobody there" else "invalid_configuration"
    with raises_code(kind) as refusal:
        open_library(tmp_path / "library", create=True)

    assert PASSWORD not in f"{refusal.value} {refusal.value!r} {refusal.value.__cause__}"


def test_password_is_in_no_settings_file_or_repr(tmp_path: Path) -> None:
    for name in ("store_url", "store_owner_url"):
        for url in (f"postgresql://a:{PASSWORD}@h/d", f"postgresql://a@h/d?password={PASSWORD}"):
            (tmp_path / "truespan.toml").write_text(f'{name} = "{url}"\n')
            with pytest.raises(InvalidConfiguration) as refusal:
                read_settings(tmp_path, {})
            assert PASSWORD not in str(refusal.value)
            (tmp_path / "truespan.toml").unlink()
            settings = read_settings(tmp_path, {f"TRUESPAN_{name.upper()}": url})
            assert PASSWORD not in repr(settings)
    (tmp_path / "truespan.toml").write_text('store_url = "postgresql://a@h/d"\n')
    assert read_settings(tmp_path, {}).store.url == "postgresql://a@h/d"


def test_preparing_a_file_store_is_refused(tmp_path: Path) -> None:
    import truespan

    truespan.open(tmp_path / "library", create=True).close()

    with pytest.raises(InvalidConfiguration) as refusal:
        prepare_tables(tmp_path / "library")

    assert "file" in refusal.value.message


def test_file_library_imports_no_server_modules(tmp_path: Path) -> None:
    script = (
        "import sys, truespan; truespan.open(sys.argv[1], create=True).close(); "
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('psycopg', 'psycopg_pool', 'procrastinate', 'qdrant_client')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "library")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "[]\n"
