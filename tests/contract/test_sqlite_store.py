"""The trusted store: what its file promises by itself."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import apsw
import pytest

from tests.promises import proves
from tests.stories import story
from tests.worlds import WORDS, HandClock, place
from truespan.adapters.sqlite_store import SqliteStore
from truespan.adapters.sqlite_store.connection import _steps
from truespan.errors import (
    LibraryTooNew,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    WorldExists,
    WorldNotFound,
)
from truespan.model.ids import WorldId, hash_text
from truespan.model.profile import STANDARD_CHUNKING
from truespan.model.scope import OWNER, Authority, Generation, Scope, Verb


def test_every_table_is_strict_and_foreign_keys_are_kept(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.world(a__txt=story(30))

    tables = here.sql("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")

    assert len([name for name, _ in tables if not name.startswith("sqlite_")]) >= 11
    assert all("STRICT" in sql for name, sql in tables if not name.startswith("sqlite_"))
    assert here.sql("PRAGMA foreign_key_check") == []
    assert here.sql("PRAGMA journal_mode") == [("wal",)]
    assert here.sql("PRAGMA integrity_check") == [("ok",)]


def test_a_library_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.sql("PRAGMA user_version = 999")
    here.library.close()

    with pytest.raises(LibraryTooNew):
        SqliteStore(tmp_path / "store.db", HandClock(), reserve=0)


def test_migrating_twice_and_at_once_is_harmless(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.worlds import HandClock; "
        "from truespan.adapters.sqlite_store import SqliteStore; "
        "SqliteStore(Path(sys.argv[1]), HandClock(), reserve=0).close()"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "store.db")])
        for _ in range(4)
    ]

    assert [process.wait(timeout=60) for process in running] == [0, 0, 0, 0]
    assert place(tmp_path).sql("PRAGMA user_version") == [(len(_steps()),)]


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"this is not a database file at all, not by far" * 200)

    with pytest.raises(StoreDamaged) as refusal:
        SqliteStore(tmp_path / "store.db", HandClock(), reserve=0)

    assert refusal.value.code == "store_damaged"


@proves("store.disk-reserve")
def test_free_space_below_the_reserve_refuses_writes_and_keeps_reading(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt="The harbour light.")
    here.library.close()
    huge = 1 << 60
    store = SqliteStore(tmp_path / "store.db", here.clock, reserve=huge)
    scope = here.scope(world)

    with pytest.raises(StorageFull) as refusal:
        store.create_world(OWNER, "another")
    for write in (
        lambda: store.stage(scope, []),
        lambda: store.keep_vectors(scope, {}),
        lambda: store.flip(scope, []),
        lambda: store.tombstone(scope, 1),
        lambda: store.mark_pending(scope, []),
    ):
        with pytest.raises(StorageFull):
            write()

    assert refusal.value.code == "storage_full"
    assert refusal.value.reserve == huge
    assert [found.name for found in store.worlds(OWNER)] == ["world"]
    assert store.canonical_text(scope, 1) == "The harbour light."
    assert len(store.documents(scope)) == 1


def test_a_writer_that_waits_too_long_gets_a_retryable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truespan.adapters.sqlite_store import connection

    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 1)
    here = place(tmp_path)
    blocker = apsw.Connection(str(tmp_path / "store.db"))
    blocker.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy) as refusal:
        here.library.create_world("late")

    assert refusal.value.retryable
    blocker.execute("ROLLBACK")
    assert here.library.create_world("late")


def test_names_are_unique_and_worlds_are_found_by_name_or_id(tmp_path: Path) -> None:
    here = place(tmp_path)
    made = here.library.create_world("one")

    with pytest.raises(WorldExists):
        here.library.create_world("one")

    assert here.library.world(made.id).name == "one"
    assert here.library.world("one").id == made.id


@proves("authority.only-narrows")
def test_every_read_is_bound_to_the_world_of_its_scope(tmp_path: Path) -> None:
    here = place(tmp_path)
    one = here.world("one", a__txt="The harbour light.")
    two = here.world("two", a__txt="The garden wall.")
    mine, theirs = here.scope(one), here.scope(two)
    ids = here.store.chunk_ids(theirs, _only(here.store, theirs))

    assert here.store.read_chunks(mine, ids) == {}
    assert here.store.canonical_text(mine, 1) == "The harbour light."
    here.store.mark_pending(mine, ids)
    here.store.rebuild_chunk(mine, ids[0])
    assert here.sql("SELECT count(*) FROM states WHERE state = 'embedded'") == [(2,)]
    gone = Scope(OWNER, WorldId("00000000-0000-4000-8000-00000000dead"), mine.generation)
    for call in (
        lambda: here.store.documents(gone),
        lambda: here.store.stage(gone, []),
        lambda: here.store.tombstone(gone, 1),
        lambda: here.store.status(gone),
    ):
        with pytest.raises(WorldNotFound):
            call()


def _only(store: SqliteStore, scope: Scope):
    from truespan.model.document import RevisionRef

    [document] = store.documents(scope)
    assert document.active is not None
    return RevisionRef(document.number, document.active)


@proves("authority.only-narrows")
def test_a_reader_may_not_write_or_make_worlds(tmp_path: Path) -> None:
    owner = place(tmp_path)
    world = owner.world(a__txt="The harbour light.")
    reader = Authority(worlds=frozenset({world.id}), verbs=frozenset({Verb.READ}))  # type: ignore[arg-type]
    guest = place(tmp_path, index=owner.index, authority=reader)

    assert guest.library.world("world").search("harbour", floor=0.0).results
    with pytest.raises(WorldNotFound):
        guest.library.world("world").ingest(owner.write("b.txt", "More."))
    with pytest.raises(WorldNotFound):
        guest.library.world("world").delete("1")
    with pytest.raises(WorldNotFound):
        guest.library.create_world("mine")
    assert len(world.documents()) == 1


@proves("search.embedded-count")
def test_tallies_equal_a_fresh_count_after_every_kind_of_change(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt=story(90), b__txt=story(40, "garden"))
    scope = here.scope(world)

    def check() -> None:
        kept = here.sql("SELECT revision, chunks, embedded, quarantined FROM tallies ORDER BY 1")
        counted = here.sql(
            """SELECT revision, count(*), sum(state = 'embedded'), sum(state = 'quarantined')
               FROM states GROUP BY 1 ORDER BY 1"""
        )
        assert kept == counted

    check()
    chunk = here.store.chunk_ids(scope, _first(here.store, scope))[0]
    here.store.mark_pending(scope, [chunk])
    check()
    here.sql("UPDATE texts SET text = 'gone'")
    here.store.rebuild_chunk(scope, chunk)
    check()
    world.ingest(here.write("world/a.txt", story(10)))
    check()
    world.delete("b.txt")
    check()


def _first(store: SqliteStore, scope: Scope):
    from truespan.model.document import RevisionRef

    document = store.documents(scope)[0]
    assert document.active is not None
    return RevisionRef(document.number, document.active)


@proves("store.second-process")
def test_threads_read_and_write_at_once_without_losing_anything(tmp_path: Path) -> None:
    here = place(tmp_path)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                here.library.create_world(f"{number}-{turn}")
                here.library.worlds()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(here.library.worlds()) == 30


def test_a_generation_keeps_the_profile_it_was_begun_with(tmp_path: Path) -> None:
    from tests.worlds import other_profile

    here = place(tmp_path)
    world = here.library.create_world("world")
    first = here.store.begin_generation(OWNER, world.id, WORDS)  # type: ignore[arg-type]
    again = here.store.begin_generation(OWNER, world.id, other_profile(model="x"))  # type: ignore[arg-type]

    assert first.generation == again.generation == Generation(1, WORDS)


def test_a_library_of_an_earlier_schema_keeps_its_texts_readers_and_vectors(tmp_path: Path) -> None:
    older = apsw.Connection(str(tmp_path / "store.db"))
    for number, script in enumerate(_steps()[:2], 1):
        older.execute(script)
        older.execute(f"PRAGMA user_version = {number}")
    older.execute(
        """INSERT INTO worlds VALUES (1, '6f1d3c1e-5b0e-4d0a-9d7c-7a1c54b6e0a1', 'old', 1, 2, 0, 0);
           INSERT INTO documents VALUES (1, 1, 1, 'book-1', 2, 0, NULL);
           INSERT INTO readers VALUES (1, 1, 'ann', 1);
           INSERT INTO positions VALUES (1, 1, 1, 0, 0)"""
    )
    older.execute(
        "INSERT INTO generations VALUES (1, 1, ?, ?, 0)", (WORDS.id, json.dumps(asdict(WORDS)))
    )
    text = "Nobody waved. " * 2000
    older.execute(
        """INSERT INTO revisions (key, document, number, state, name, path, kind, title, language,
             language_declared, version, chunking, source_hash, recipe, text, text_hash, characters,
             sentences, created_at)
           VALUES (1, 1, 1, 'active', 'a.txt', '/a.txt', 'book', 'A', 'en', 0, '1.0', 'sentences',
             'h', 'r', ?, ?, ?, 1, 0)""",
        (text, hash_text(text), len(text)),
    )
    older.close()

    here = place(tmp_path)
    world = here.library.world("old")

    assert here.sql("PRAGMA user_version") == [(len(_steps()),)]
    assert world.text("1") == text
    assert [(one.name, one.title, one.origin) for one in world.documents()] == [("a.txt", "A", "")]
    [position] = here.store.positions(here.scope(world), "ann")
    assert position.chunking == STANDARD_CHUNKING["sentences"]
