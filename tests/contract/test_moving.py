"""Copies of a whole store to the other engine and back."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.postgres import Database, fresh_database
from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import LibraryFixture, ManualClock, make_library
from truespan.errors import CopyDiffers
from truespan.extensions.cluster.copy import (
    NOT_COPIED,
    NeutralRow,
    StoreRows,
    Table,
    copy_rows,
    load_tables,
    rows_of,
)
from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.store import Store
from truespan.store.engines.sqlite import SqliteDatabase

TABLES = load_tables()

BOOK = (
    "# One\n\nThe ferry left at night. Ada had the key.\n\n# Two\n\nThe key was gone by morning.\n"
)

ONE = "(SELECT key FROM revisions WHERE state = 'active' LIMIT 1)"
RARE = (
    "INSERT INTO aliases VALUES ('law', 1, 1, 2.5)",
    "INSERT INTO alias_moves VALUES (7, 1, 'law', NULL, 1, 2.5)",
    f"INSERT INTO pages VALUES ({ONE}, 0, 1, 'slide')",
    f"INSERT INTO figures VALUES ({ONE}, 1, 'f-1', 0, NULL, 'A map of the river', 'm', x'01')",
    f"INSERT INTO audits VALUES ({ONE}, 'email', 'r', 2, 1)",
    "INSERT INTO calibrations VALUES (1, 'p', '{}', 1.0, x'01')",
    "INSERT INTO cohorts VALUES (1, 'p', 'd', x'00000000', x'01')",
    "INSERT INTO repairs VALUES (9, 1, 1, 'c', 'stale', 'h', NULL, 1.0)",
    "INSERT INTO usage VALUES (4, 'u', 1, 1.0, 2, 'm', NULL, NULL, '[]', '{}')",
    "INSERT INTO probes VALUES (1, 1, 'known', x'00000000', x'01')",
    "INSERT INTO replays VALUES (zeroblob(32), zeroblob(32), 'p', NULL, 1.0)",
    # A share comes after its job.
    """INSERT INTO jobs (id, world_id, kind, request, state, phase, process, created_at, seen_at,
         parent, weight, claims)
       SELECT 'share', world_id, kind, '{}', 'done', phase, process, 1.0, 1.0, id, 7, '["a"]'
       FROM jobs LIMIT 1""",
    "INSERT INTO job_lines SELECT key, 90, 1.0, 'info', 'a line' FROM jobs",
    # Invalid UTF-8: damage is copied unchanged.
    f"UPDATE chunks SET text = CAST(x'66ff' AS TEXT) WHERE revision = {ONE} AND position = 0",
)


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def server(database: Database) -> Iterator[Store]:
    store = Store(PostgresDatabase(Address(database.url, pool_size=4)), ManualClock())
    yield store
    store.close()


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[LibraryFixture]:
    """A library with rows in almost every table."""
    made = make_library(tmp_path / "one", store="sqlite", embedder=StateEmbedder())
    world = made.world("mysteries", ferry__md=BOOK, note__txt="A note on ferries. Keys float.")
    made.write("mysteries/ferry.md", BOOK + "\nIt lay in the river.\n")
    folder = str(made.folder / "files" / "mysteries")
    world.ingest([folder], tags=["river"], metadata={"team": "a", "due": "2026-05-01"})
    world.documents.update("note.txt", source_url="https://wiki.example/note")
    world.search("Who had the key?", mode="hybrid")
    reader = world.reader("ada")
    reader.set_position("ferry.md", sentence=1)
    reader.notes.add("Who is that?", first=0)
    reader.retrieve("key")
    for asker in (world, reader):
        asker.conversation().ask("Who had the key?")
    made.store.worlds.library_id()
    made.library.create_world("empty")
    made.library.tokens.create("app", worlds=["mysteries"], verbs=["read"])
    gone = made.world("gone", old__txt="Something that was deleted.")
    gone.documents.delete("old.txt")
    for statement in RARE:
        made.sql(statement)
    yield made
    made.store.close()


def on_file(place: LibraryFixture) -> StoreRows:
    return rows_of(place.store)


def on_server(store: Store) -> StoreRows:
    return rows_of(store)


def everything(rows: StoreRows) -> dict[tuple[str, str | None], list[NeutralRow]]:
    found = {}
    with rows.snapshot():
        for table in load_tables():
            for world in rows.world_ids() if table.in_world else [None]:
                found[table.name, world] = sorted(rows.rows(table, world), key=repr)
    return found


def empty_place(folder: Path) -> LibraryFixture:
    return make_library(folder, store="sqlite")


def test_every_column_is_copied_or_listed_as_not_copied(database: Database) -> None:
    """A column of a later migration must not be forgotten."""
    file = SqliteDatabase(Path(":memory:"), reserve=0)
    on_disk: dict[str, set[str]] = {}
    for name, column in file.shared.all(
        """SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
           WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'"""
    ):
        on_disk.setdefault(name, set()).add(column)
    file.close()
    in_database: dict[str, set[str]] = {}
    with database.admin() as admin:
        for name, column in admin.execute(
            """SELECT table_name, column_name FROM information_schema.columns
               WHERE table_schema IN ('truespan', 'truespan_shared')"""
        ):
            in_database.setdefault(name, set()).add(column)
    in_database["worlds"] |= in_database.pop("directory")
    for found, whose in ((on_disk, {"world_id", "id"}), (in_database, {"world_id"})):
        assert found.keys() - NOT_COPIED == {table.name for table in TABLES}
        for table in TABLES:
            moved = {*table.columns, *(column for column, _ in table.references)}
            assert found[table.name] - moved <= (({table.own_key} - {""}) | whose)
            assert moved <= found[table.name]


def test_library_moves_to_a_server_and_back_with_every_row(
    lived: LibraryFixture, server: Store, tmp_path: Path
) -> None:
    before = everything(on_file(lived))
    assert {name for (name, _), rows in before.items() if rows} == {one.name for one in TABLES}

    copy_rows(on_file(lived), on_server(server))
    assert everything(on_server(server)) == before
    again = empty_place(tmp_path / "two")
    copy_rows(on_server(server), on_file(again))

    assert everything(on_file(again)) == before
    assert everything(on_file(lived)) == before
    again.store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE truespan.chunks SET text = 'other' WHERE position = 0",
        "DELETE FROM truespan.vectors WHERE ctid IN (SELECT ctid FROM truespan.vectors LIMIT 1)",
        "UPDATE truespan.positions SET sid = sid + 1",
        "UPDATE truespan_shared.tokens SET name = 'another'",
    ],
)
def test_single_different_row_is_detected(
    lived: LibraryFixture, server: Store, database: Database, damage: str
) -> None:
    copy_rows(on_file(lived), on_server(server))
    with database.admin() as admin:
        assert admin.execute(cast("Any", damage)).rowcount > 0
        admin.execute("DELETE FROM truespan_shared.replays")

    with pytest.raises(CopyDiffers, match="differs from its source"):
        copy_rows(on_file(lived), on_server(server))

    # Nothing more is sent to a target with other rows.
    assert everything(on_server(server))["replays", None] == []


class Forgetful:
    """A store that silently drops one row."""

    def __init__(self, rows: StoreRows) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def write(self, table: Table, world: str | None, rows: Iterable[NeutralRow]) -> None:
        kept = list(rows)
        self._rows.write(table, world, kept[:-1] if table.name == "word_states" else kept)


def test_missing_rows_are_detected_at_the_end(lived: LibraryFixture, server: Store) -> None:
    with pytest.raises(CopyDiffers, match="table word_states"):
        copy_rows(on_file(lived), cast("StoreRows", Forgetful(on_server(server))))


def test_running_jobs_are_interrupted_only_in_the_copy(
    lived: LibraryFixture, server: Store, database: Database
) -> None:
    lived.sql("UPDATE jobs SET state = 'running', finished_at = NULL, background = 1")

    copy_rows(on_file(lived), on_server(server))

    server_jobs = "SELECT DISTINCT state, background FROM truespan.jobs"
    with database.admin() as admin:
        assert admin.execute(server_jobs).fetchall() == [("interrupted", False)]
    assert lived.sql("SELECT DISTINCT state, background FROM jobs") == [("running", 1)]


@pytest.mark.parametrize("kind", ["file", "server"])
def test_table_filled_by_another_process_is_refused_whole(
    lived: LibraryFixture, server: Store, tmp_path: Path, kind: str
) -> None:
    other = empty_place(tmp_path / "two")
    target = on_file(other) if kind == "file" else on_server(server)
    worlds, world = TABLES[0], on_file(lived).world_ids()[0]
    rows = list(on_file(lived).rows(worlds, world))
    target.write(worlds, world, rows)

    with pytest.raises(CopyDiffers, match="by another process"):
        target.write(worlds, world, rows)

    assert list(target.rows(worlds, world)) == rows
    other.store.close()
