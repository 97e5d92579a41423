"""Reading requests do not wait for writers just to write a cache, a mark or a log."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.store.engines.session import BRIEF_WAIT
from truespan.store.engines.sqlite import SqliteDatabase

TEXT = "The lamp went out at midnight. Nobody lit it again. The harbour was quiet."


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, store="sqlite")


@contextmanager
def writing_elsewhere(lib: LibraryFixture) -> Iterator[None]:
    """Hold the write lock like another process."""
    with closing(apsw.Connection(str(lib.folder / "store.db"))) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def waits_of(lib: LibraryFixture, request: Callable[[], Any]) -> list[int]:
    """Return the maximum milliseconds that each write of a request waits for the lock."""
    database = lib.store._db
    assert isinstance(database, SqliteDatabase)
    connection, waits = database.connection, list[int]()

    def trace(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        if statement == "BEGIN IMMEDIATE":
            waits.append(connection.pragma("busy_timeout"))
        return True

    connection.exec_trace = trace
    try:
        request()
    finally:
        connection.exec_trace = None
    return waits


@proves("cache.younger-than-a-day")
def test_search_never_waits_to_write_its_cache_row(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)

    with writing_elsewhere(lib):
        found = []
        assert waits_of(lib, lambda: found.append(world.search("lamp"))) == [0]
        assert found[0].passages
        world.search("lamp")
        kept = lib.sql("SELECT count(*) FROM query_cache")
    world.search("lamp")

    # The vector was used from memory, and written later.
    assert lib.embedder.queries == ["lamp"]
    assert (kept, lib.sql("SELECT count(*) FROM query_cache")) == ([(0,)], [(1,)])


@proves("cache.younger-than-a-day")
def test_read_requests_wait_briefly_at_most(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    world.ingest(lib.write("b.txt", TEXT), kind="book")
    reader = world.reader("ada")
    reader.set_position("b.txt", sentence=1)
    requests: dict[str, Callable[[], Any]] = {
        "retrieve": lambda: world.retrieve("lamp"),
        "answer": lambda: world.answer("When did the lamp go out?"),
        "reader.retrieve": lambda: reader.retrieve("lamp", mode="hybrid"),
        "reader.answer": lambda: reader.answer("Who lit it again?"),
    }
    waits = {name: waits_of(lib, request) for name, request in requests.items()}

    assert all(waits.values())
    assert {wait for each in waits.values() for wait in each} == {0, int(BRIEF_WAIT * 1000)}


@proves("repair.missing-chunk")
def test_marks_of_damage_wait_briefly_at_most(tmp_path: Path) -> None:
    lib = make_library(tmp_path, store="sqlite", index=MemoryIndex())
    world = lib.world(a__txt=TEXT)
    lib.sql("DELETE FROM chunks")

    assert waits_of(lib, lambda: world.search("lamp")) == [0, int(BRIEF_WAIT * 1000)]
