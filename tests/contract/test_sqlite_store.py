"""The store on SQLite: the contract of every store, and tests of its file."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import truespan
from tests.contract.integrity_contract import IntegrityContract
from tests.contract.records_contract import RecordsContract
from tests.contract.store_contract import StoreContract
from tests.contract.word_states_contract import WordStatesContract
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.sample_texts import story
from tests.support.worlds import ManualClock, make_library, sqlite_store
from truespan.errors import InvalidConfiguration, StorageFull, StoreBusy, StoreDamaged
from truespan.store import migrations
from truespan.store.migrations import OLDEST_VERSION, newest_version
from truespan.types.answer import Usage
from truespan.types.chunk import QueryEntry
from truespan.types.decision import AnswerMode
from truespan.types.scope import OWNER
from truespan.types.vectors import Vector


def test_every_table_is_strict_with_foreign_keys(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    lib.world(a__txt=story(30))

    tables = lib.sql("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")

    assert len([name for name, _ in tables if not name.startswith("sqlite_")]) >= 11
    assert all("STRICT" in sql for name, sql in tables if not name.startswith("sqlite_"))
    assert lib.sql("PRAGMA foreign_key_check") == []
    assert lib.sql("PRAGMA journal_mode") == [("wal",)]
    assert lib.sql("PRAGMA integrity_check") == [("ok",)]


@proves("store.schema-versions")
@pytest.mark.parametrize(
    ("version", "error", "advice"),
    [
        (999, "library_too_new", "Update Truespan"),
        (23, "library_too_old", "ingest the sources again"),
    ],
)
def test_library_of_an_unknown_schema_is_refused_unchanged(
    tmp_path: Path, version: int, error: str, advice: str
) -> None:
    lib = make_library(tmp_path)
    lib.sql(f"PRAGMA user_version = {version}")
    lib.library.close()
    before = (tmp_path / "store.db").read_bytes()

    with raises_code(error) as refusal:
        sqlite_store(tmp_path / "store.db", ManualClock())

    assert advice in refusal.value.advice
    assert (tmp_path / "store.db").read_bytes() == before


@proves("store.schema-versions")
def test_migration_is_applied_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lib = make_library(tmp_path)
    text = story(30)
    lib.world(a__txt=text)
    lib.library.close()
    path = tmp_path / "9999_next.sql"
    scripts = [*migrations._list_scripts("sqlite"), path]
    monkeypatch.setattr(migrations, "_list_scripts", lambda _engine: scripts)

    path.write_text("CREATE TABLE extra (x INTEGER) STRICT; SELECT missing FROM extra;")
    with pytest.raises(apsw.SQLError):
        make_library(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (OLDEST_VERSION,)
        assert not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'extra'").fetchall()
    path.write_text("ALTER TABLE documents ADD COLUMN extra TEXT;")
    migrated = make_library(tmp_path)

    assert migrated.sql("PRAGMA user_version") == [(9999,)]
    assert migrated.sql("SELECT extra FROM documents") == [(None,)]
    assert migrated.library.world("world").documents.text("1") == text


def test_database_of_another_program_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for version in (0, 3):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as other:
            other.executescript(f"CREATE TABLE mine (x); PRAGMA user_version = {version}")
        before = path.read_bytes()

        with pytest.raises(InvalidConfiguration, match="another program"):
            sqlite_store(path, ManualClock())

        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]
        assert len(path.read_bytes()) == len(before)


def test_repeated_or_concurrent_migration_is_harmless(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from tests.support.worlds import ManualClock, sqlite_store; "
        "sqlite_store(Path(sys.argv[1]), ManualClock()).close()"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "store.db")])
        for _ in range(4)
    ]

    assert [process.wait(timeout=60) for process in running] == [0, 0, 0, 0]
    assert make_library(tmp_path).sql("PRAGMA user_version") == [(newest_version("sqlite"),)]


def test_file_that_is_not_a_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"this is not a database file at all, not by far" * 200)

    with pytest.raises(StoreDamaged) as refusal:
        sqlite_store(tmp_path / "store.db", ManualClock())

    assert refusal.value.code == "store_damaged"


def test_emptied_database_is_damage_not_a_new_library(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with truespan.open(folder, create=True) as library:
        library.create_world("world").add_text("The harbour light.")
    with truespan.open(folder) as library:
        assert library.world("world").search("harbour", mode="keyword").passages
    (folder / "store.db").write_bytes(b"")

    for create in (False, True):
        with pytest.raises(StoreDamaged, match="is empty"):
            truespan.open(folder, create=create)

    assert (folder / "store.db").stat().st_size == 0
    # What a killed process left before the schema was written is a new library.
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "store.db").touch()
    with truespan.open(tmp_path / "new") as library:
        assert library.worlds() == []


@proves("store.disk-reserve")
def test_low_disk_space_refuses_writes_but_not_reads(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.world(a__txt="The harbour light.")
    lib.library.close()
    huge = 1 << 60
    store = sqlite_store(tmp_path / "store.db", lib.clock, reserve=huge)
    scope = lib.scope(world)

    with pytest.raises(StorageFull) as refusal:
        store.worlds.create(OWNER, "another")
    for write in (
        lambda: store.documents.stage(scope, []),
        lambda: store.documents.keep_vectors(scope, {}),
        lambda: store.documents.activate(scope, []),
        lambda: store.documents.tombstone(scope, 1),
        lambda: store.chunks.mark_pending(scope, []),
    ):
        with pytest.raises(StorageFull):
            write()

    assert refusal.value.code == "storage_full"
    assert refusal.value.reserve == huge
    assert [found.name for found in store.worlds.all(OWNER)] == ["world"]
    assert store.documents.canonical_text(scope, 1) == "The harbour light."
    assert len(store.documents.all(scope)) == 1


def test_writer_timeout_is_a_retryable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truespan.store.engines import sqlite

    monkeypatch.setattr(sqlite, "BUSY_MILLISECONDS", 1)
    lib = make_library(tmp_path)
    blocker = apsw.Connection(str(tmp_path / "store.db"))
    blocker.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy) as refusal:
        lib.library.create_world("late")

    assert refusal.value.retryable
    blocker.execute("ROLLBACK")
    assert lib.library.create_world("late")


def test_expired_records_of_idle_worlds_are_removed(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    worlds = (lib.world(name, a__txt=story(5)) for name in ("idle", "used"))
    idle, used = (lib.scope(world) for world in worlds)
    usage = Usage(AnswerMode.RAG, 3, "m", None, {}, {})
    lib.store.records.record_usage(OWNER, idle.world, usage, days=1, max_records=9)
    lib.store.records.cache_queries(
        idle, [QueryEntry("k", Vector(b"1234"), None, lib.clock.now())], now=lib.clock.now()
    )
    lib.clock.time += 3 * 24 * 3600

    lib.store.records.record_usage(OWNER, used.world, usage, days=1, max_records=9)
    lib.store.records.cache_queries(
        used, [QueryEntry("k", Vector(b"1234"), None, lib.clock.now())], now=lib.clock.now()
    )

    assert lib.store.records.usage(OWNER, idle.world, limit=9) == []
    assert lib.sql("SELECT count(*) FROM query_cache") == [(1,)]


def test_repeated_statements_are_not_compiled_again(tmp_path: Path) -> None:
    lib = make_library(tmp_path, store="sqlite")
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.txt", story(40)), kind="book")
    reader = world.reader("ann")
    reader.set_position("book.txt", sentence=20)
    compiled: list[str | None] = []

    def note(_action: int, *names: str | None) -> int:
        compiled.append(names[0])
        return apsw.SQLITE_OK

    # SQLite calls the authorizer while it compiles a statement.
    lib.store._db.connection.authorizer = note  # type: ignore[attr-defined]
    for ask in (world, reader):
        ask.retrieve("who lit the lamp?", mode="hybrid")
        assert compiled
        compiled.clear()
        ask.retrieve("where was the harbour?", mode="hybrid")
        compiled_again = {name for name in compiled if name not in (None, "")}
        assert compiled_again <= {"BEGIN", "ROLLBACK", "COMMIT", "query_cache"}


def test_many_rows_leave_the_other_statements_compiled(tmp_path: Path) -> None:
    lib = make_library(tmp_path, store="sqlite")
    world = lib.library.create_world("world")
    files = [lib.write(f"note{number}.txt", f"Note {number}.") for number in range(150)]
    for _ in range(3):
        world.ingest(files)
    connection = lib.store._db.connection  # type: ignore[attr-defined]

    before = connection.cache_stats()["misses"]

    assert world.ingest(files).unchanged == len(files)
    assert connection.cache_stats()["misses"] == before
    assert len(lib.sql("SELECT * FROM job_documents")) == 4 * len(files)


def test_rows_with_a_wrong_number_of_cells_are_refused(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    # Eight rows are one statement, with the expected number of cells.
    rows = [("a",), ("b", "c", "d"), *(("e", "f") for _ in range(6))]
    with pytest.raises(ValueError, match="2 cells"), lib.store._db.write_shared() as session:
        session.insert_many("identity", ("name", "id"), rows)


class TestContract(StoreContract):
    """Part 1 of the contract, on SQLite."""

    kind = "sqlite"


class TestRecords(RecordsContract):
    """Part 2 of the contract, on SQLite."""

    kind = "sqlite"


class TestIntegrity(IntegrityContract):
    """Part 4 of the contract, on SQLite."""

    kind = "sqlite"


class TestWordStates(WordStatesContract):
    """Part 5 of the contract, on SQLite."""

    kind = "sqlite"
