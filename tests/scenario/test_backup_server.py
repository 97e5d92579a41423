"""Backups of a library in PostgreSQL: one state of it, and back into either kind of store."""

import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, cast

import apsw
import pytest
from msgspec.structs import replace

import truespan
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.backups import FIGURES, filled, images, opened, retire, told
from tests.support.crash_files import killed_at
from tests.support.failures import raises_code
from tests.support.postgres import Database, fresh_database
from tests.support.worlds import ManualClock
from truespan.engine.library import Library
from truespan.errors import BackupInvalid, InvalidArgument, StoreBusy
from truespan.extensions.cluster import postgres
from truespan.extensions.cluster.backup import ServerSnapshots
from truespan.extensions.cluster.copy import NeutralRow, StoreRows, Table, rows_of
from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.files.backup import BackupWriter, write_archive
from truespan.store import Store
from truespan.types.maintenance import Member
from truespan.wiring.storage import restore_library


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library in a file, which is only read."""
    folder = filled(tmp_path_factory.mktemp("server") / "library")
    yield folder
    retire(folder)


@pytest.fixture(scope="module")
def backup(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "library.backup"
    with opened(source) as library:
        library.backup(path, settings=True)
    return path


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def many(tmp_path: Path, database: Database) -> Path:
    """A folder whose settings name an empty store on a server."""
    return named(tmp_path / "many", database)


def named(folder: Path, database: Database, more: str = "") -> Path:
    folder.mkdir()
    (folder / "url").write_text(database.url.reveal(), encoding="utf-8")
    settings = f'{FIGURES}store_url_file = "url"\n{more}'
    (folder / "truespan.toml").write_text(settings, encoding="utf-8")
    return folder


def rows_in(database: Database) -> int:
    with database.admin() as admin:
        tables = admin.execute(
            """SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
               WHERE schemaname IN ('truespan', 'truespan_shared')
                 AND tablename <> 'schema_steps'"""
        ).fetchall()
        return sum(
            admin.execute(cast("Any", f"SELECT count(*) FROM {name}")).fetchall()[0][0]
            for (name,) in tables
        )


def left_in(folder: Path) -> set[str]:
    """Return the files in a folder, without its settings."""
    return {path.name for path in folder.rglob("*")} - {"url", "truespan.toml"}


@proves("upkeep.backup-restores")
def test_moving_to_a_server_and_back_keeps_every_answer(
    source: Path, backup: Path, many: Path, tmp_path: Path
) -> None:
    with opened(source) as library:
        before = told(library)

    truespan.restore(backup, many)
    with opened(many) as library:
        assert told(library) == before
        assert library.doctor().healthy
        report = library.backup(tmp_path / "again.backup")
    truespan.restore(tmp_path / "again.backup", tmp_path / "one")

    (tmp_path / "one" / "truespan.toml").write_text(FIGURES)
    with opened(tmp_path / "one") as library:
        assert told(library) == before
        assert library.doctor().healthy
    assert images(tmp_path / "one") == images(many) == images(source)
    first = truespan.verify_backup(backup)
    counted = ("schema", "worlds", "documents", "chunks", "vectors", "images", "format")
    assert [getattr(report.manifest, one) for one in counted] == [
        getattr(first, one) for one in counted
    ]
    assert (tmp_path / "one" / "store.db").exists()
    retire(many)
    retire(tmp_path / "one")


class Meanwhile:
    """Rows of a store that changes after the first row is read."""

    def __init__(self, rows: StoreRows, change: Callable[[], None]) -> None:
        self._rows = rows
        self._change: Callable[[], None] | None = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def rows(self, table: Table, world: str | None) -> Iterator[NeutralRow]:
        for row in self._rows.rows(table, world):
            yield row
            change, self._change = self._change, None
            if change is not None:
                change()


def meanwhile(library: Library, change: Callable[[], None]) -> BackupWriter:
    deferred: Any = library._components.backups
    store = cast("ServerSnapshots", deferred.store)
    backups = cast("BackupWriter", deferred._made)
    first = store.rows()
    return replace(
        backups, store=replace(store, rows=lambda: cast("StoreRows", Meanwhile(first, change)))
    )


@proves("upkeep.backup-restores")
def test_write_during_a_backup_is_in_the_next_one(backup: Path, many: Path, tmp_path: Path) -> None:
    restore_library(backup, many)
    (tmp_path / "more.txt").write_text("A text that comes late. It tells of the lamp.")

    def change() -> None:
        with opened(many) as other:
            other.world("world").ingest(tmp_path / "more.txt")
            other.world("other").documents.delete("story.txt", erase=False)
            other.create_world("third")

    with opened(many) as library:
        library._refill()
        before = told(library)
        report = meanwhile(library, change).write(
            str(tmp_path / "b"), vectors=True, settings=False, keys=False, replace=False
        )
        later = library.backup(tmp_path / "later")

    assert (report.manifest.worlds, later.manifest.worlds) == (2, 3)
    truespan.restore(tmp_path / "b", tmp_path / "one")
    (tmp_path / "one" / "truespan.toml").write_text(FIGURES)
    with opened(tmp_path / "one") as library:
        assert told(library) == before
        assert [entry.name for entry in library.worlds()] == ["other", "world"]
    retire(many)
    retire(tmp_path / "one")


@proves("upkeep.backup-restores")
def test_uncommitted_transaction_is_not_in_a_backup(
    backup: Path, many: Path, database: Database, tmp_path: Path
) -> None:
    restore_library(backup, many)
    with database.admin() as admin, opened(many) as library:
        admin.execute("BEGIN")
        admin.execute("UPDATE truespan_shared.directory SET name = 'half' WHERE name = 'other'")
        library.backup(tmp_path / "b")
        admin.execute("ROLLBACK")
    restore_library(tmp_path / "b", tmp_path / "one")
    with opened(tmp_path / "one") as library:
        assert [entry.name for entry in library.worlds()] == ["other", "world"]


@proves("upkeep.backup-restores")
def test_killed_restore_leaves_no_rows_and_can_be_repeated(
    source: Path, backup: Path, tmp_path: Path
) -> None:
    with opened(source) as library:
        before = told(library)
    killed, step = True, 1
    while killed:
        database = fresh_database()
        folder = named(tmp_path / str(step), database)
        killed = killed_at(step, tmp_path, "restore-rows", backup, folder)
        if killed:
            assert rows_in(database) == 0, step
            truespan.restore(backup, folder)
        with opened(folder) as library:
            assert told(library) == before, step
        assert images(folder) == images(source)
        assert not (folder / ".restoring").exists()
        retire(folder)
        step = step * in_test_or_prove(6, 3) + 7
    assert step > 300


@contextmanager
def stopped_at(call: int, name: str, file: str) -> Iterator[None]:
    """Interrupt just before the n-th call of a function."""
    left = call

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        code = frame.f_code
        if event == "call" and code.co_name == name and code.co_filename.endswith(file):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert left <= 0


STOPS = [
    (1, "unpack", "files/backup.py"),
    (1, "write", "extensions/cluster/copy.py"),
    (40, "write_rows", "extensions/cluster/copy.py"),
    (30, "digest_table", "extensions/cluster/copy.py"),
    (2, "copy_file", "extensions/cluster/backup.py"),
    (2, "_require_same_content", "extensions/cluster/backup.py"),
]


@proves("upkeep.backup-restores")
@pytest.mark.parametrize(("call", "name", "file"), STOPS)
def test_interrupted_restore_leaves_no_rows_and_no_files(
    backup: Path, many: Path, database: Database, call: int, name: str, file: str
) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_at(call, name, file):
        truespan.restore(backup, many)

    assert rows_in(database) == 0
    assert left_in(many) == set()


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("call", [1, 40])
def test_interrupted_backup_leaves_nothing_behind(
    backup: Path, many: Path, tmp_path: Path, call: int
) -> None:
    restore_library(backup, many)
    (tmp_path / "place").mkdir()
    with opened(many) as library:
        with (
            pytest.raises(KeyboardInterrupt),
            stopped_at(call, "rows", "extensions/cluster/copy.py"),
        ):
            library.backup(tmp_path / "place" / "b")
        assert list((tmp_path / "place").iterdir()) == []
        library.backup(tmp_path / "place" / "b")
    truespan.verify_backup(tmp_path / "place" / "b")


def changed(backup: Path, path: Path, *statements: str) -> Path:
    """Write a backup with a changed store and valid digests."""
    sound, parts = truespan.verify_backup(backup), {}
    with zipfile.ZipFile(backup) as archive:
        for number, member in enumerate(sound.members):
            parts[member.name] = path.with_name(f"part-{number}")
            parts[member.name].write_bytes(archive.read(member.name))
    store = apsw.Connection(str(parts["store.db"]))
    for statement in statements:
        store.execute(statement)
        assert store.changes() > 0, statement
    store.close()
    members = []
    for name, part in parts.items():
        content = part.read_bytes()
        members.append(Member(name, len(content), sha256(content).hexdigest()))
    write_archive(path, replace(sound, members=tuple(members)), parts)
    return path


OTHER = "(SELECT max(world_id) FROM worlds)"
FIRST = f"""(SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.number = 1 AND d.world_id <> {OTHER})"""
"""Rows with the same number in another world."""
FOREIGN = {
    "states": f"""UPDATE states SET world_id = {OTHER} WHERE revision IN {FIRST}
        AND position > (SELECT max(position) FROM states WHERE world_id = {OTHER})""",
    "words": f"UPDATE words SET world_id = {OTHER} WHERE revision IN {FIRST}",
    "positions": f"""UPDATE positions SET document =
        (SELECT key FROM documents WHERE world_id = {OTHER} AND number = 1)""",
    "nobody's": "UPDATE chunks SET revision = 999999 WHERE rowid = (SELECT min(rowid) FROM chunks)",
    "a name that is no text": "UPDATE worlds SET name = 'a' || char(0) WHERE name = 'world'",
    "no id": "UPDATE worlds SET id = 'mine' WHERE name = 'world'",
    "a number too large": "UPDATE worlds SET next_document = 1 << 40",
}


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("what", FOREIGN)
def test_backup_keeps_rows_of_worlds_apart(
    backup: Path, many: Path, database: Database, tmp_path: Path, what: str
) -> None:
    forged = changed(backup, tmp_path / "forged", FOREIGN[what])

    with pytest.raises(BackupInvalid):
        truespan.restore(forged, many)

    assert rows_in(database) == 0
    assert left_in(many) == set()


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_existing_file_is_not_replaced_by_a_backup(
    source: Path, backup: Path, many: Path, database: Database, kind: str
) -> None:
    name = next(name for name in images(source) if "img_" in name)
    taken = many / "data" / "rag-assets" / name
    taken.parent.mkdir(parents=True)
    taken.mkdir() if kind == "folder" else taken.write_bytes(b"mine")
    before = left_in(many)

    with pytest.raises(InvalidArgument, match="Another file"):
        truespan.restore(backup, many)

    assert rows_in(database) == 0
    assert left_in(many) == before


@proves("upkeep.backup-restores")
def test_settings_naming_a_server_are_set_aside_on_restore(
    backup: Path, many: Path, database: Database, tmp_path: Path
) -> None:
    restore_library(backup, many)
    with opened(many) as library:
        library.backup(tmp_path / "b", settings=True)
    before = rows_in(database)

    report = truespan.restore(tmp_path / "b", tmp_path / "one")

    assert report.settings_aside == str(tmp_path / "one" / "truespan.toml.restored")
    assert (tmp_path / "one" / "store.db").exists()
    assert not (tmp_path / "one" / "truespan.toml").exists()
    assert rows_in(database) == before
    with opened(many) as library:
        assert any(library.world(each.id).status().pending for each in library.worlds())
    retire(tmp_path / "one")


@proves("upkeep.backup-restores")
def test_restore_refuses_an_unprepared_or_used_store(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = fresh_database(prepared=False)
    with raises_code("store_outdated"):
        truespan.restore(backup, named(tmp_path / "bare", bare))
    database = fresh_database()
    waiting = named(tmp_path / "waiting", database)
    monkeypatch.setattr(postgres, "Address", partial(Address, timeout_seconds=1))
    store = Store(PostgresDatabase(Address(database.url, pool_size=2)), ManualClock())
    with rows_of(store).single_commit(), pytest.raises(StoreBusy):
        truespan.restore(backup, waiting)
    store.close()
    assert rows_in(database) == 0
    assert left_in(waiting) == set()
