"""Erasure: no text and no vector is left in any file, even after kills."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.scenario.test_figures import ALL, REPORT
from tests.support.crash_process import library
from tests.support.failures import raises_code
from tests.support.forked_process import forked
from tests.support.leftover_search import contents, rare_text, traces
from tests.support.worlds import query
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.maintenance.delete import digest_of
from truespan.store.engines import sqlite
from truespan.types.job import JobState
from truespan.types.vectors import Vector

MAX_STEPS = 60


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for a library, which is searched, and one for sources beside it."""
    (tmp_path / "files").mkdir()
    yield tmp_path / "library"
    with opened(tmp_path / "library") as left:
        left._components.index.retire()  # type: ignore[attr-defined]


def opened(folder: Path, **changes: object) -> Library:
    folder.mkdir(exist_ok=True)
    return Library(replace(library(folder)._components, **changes))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder.parent / "files" / name
    path.write_text(text)
    return path


def vectors(world: World) -> list[Vector]:
    rows = query(world.access.components.store, "SELECT vector FROM vectors")
    return [Vector(row[0]) for row in rows]


def states(world: World) -> list[bytes]:
    """Return all stored states of words of the library."""
    store = world.access.components.store
    return [row[0] for row in query(store, "SELECT states FROM word_states")]


def two_documents(folder: Path, opened: Library, seed: str = "") -> tuple[World, str, list[Vector]]:
    text, stays = rare_text(f"gone {seed}"), rare_text(f"stays {seed}")
    world = opened.world("world", create=True)
    world.ingest(written(folder, "gone.txt", text))
    own = vectors(world)
    world.ingest(written(folder, "stays.txt", stays))
    world.search(" ".join(text.split()[:6]), floor=0.0)
    return world, text, own


@proves("upkeep.deletion-complete")
def test_deleted_document_leaves_no_byte_in_any_file(home: Path) -> None:
    with opened(home) as made:
        world, text, own = two_documents(home, made)
        before, known = to_compare(world), states(world)
        assert any("states" in trace for trace in traces(home, text, own, known))

        receipt = world.documents.delete("gone.txt")

        gone = {*known} - {*states(world)}
        assert len(gone) == len(own)
        assert traces(home, text, own, [*gone]) == []
        assert to_compare(world) == [one for one in before if one[0] != "gone.txt"]
        assert receipt.erased
    assert traces(home, text, own) == []


def to_compare(world: World) -> list[tuple[str, str, str]]:
    result = world.search("anything at all", top_k=100, floor=0.0)
    return sorted((one.source, one.chunk_id, one.text) for one in result.passages)


@proves("upkeep.deletion-complete")
def test_deletion_killed_at_any_step_is_erased_by_repair(home: Path) -> None:
    step = 0
    for step in range(1, MAX_STEPS, in_test_or_prove(2, 1)):
        with opened(home) as made:
            world, text, own = two_documents(home, made, str(step))
            killed = killed_at(home, "delete", step)
            numbers = [document.name for document in world.documents.list()]
            if "gone.txt" in numbers:
                world.documents.delete("gone.txt")
            else:
                world.repair()
            assert traces(home, text, own) == [], step
            assert made._components.store.erasures.all() == []
            assert made.doctor("world").healthy
            made.delete_world("world")
        if not killed:
            break
    assert 8 < step < MAX_STEPS - 1


def killed_at(folder: Path, action: str, step: int) -> bool:
    done = forked("tests.support.crash_process", str(folder), "world", action, str(step))
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@proves("upkeep.deletion-complete")
def test_deleted_world_leaves_no_row_point_image_or_byte(home: Path) -> None:
    with opened(home, preparation=Preparation(figures=ALL)) as made:
        world, text, own = two_documents(home, made)
        report = home.parent / "files" / "report.docx"
        report.write_bytes(REPORT)
        world.ingest(report)
        kept = made.create_world("kept")
        kept.ingest(written(home, "kept.txt", rare_text("kept")))
        before, scope = to_compare(kept), world.access.scope()
        assert scope is not None

        receipt = made.delete_world("world")

        assert receipt.erased
        assert receipt.assets.files == 2
        assert sum(one.points for one in receipt.points) == receipt.rows["states"]
        assert made._components.index.count(scope) == 0
        assert traces(home, text, own) == []
        assert not any(path.name.startswith("img_") for path in contents(home))
        with raises_code("world_not_found"):
            made.world("world")
        assert to_compare(kept) == before
        for table, rows in rows_of(made, world.id).items():
            assert rows == 0, table


def rows_of(made: Library, world: str) -> dict[str, int]:
    """Return the number of rows of each table that belong to no remaining world."""
    store = made._components.store
    tables = [
        name
        for (name,) in query(store, "SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    counts = {}
    for table in tables:
        columns = {row[1] for row in query(store, f"PRAGMA table_info({table})")}
        for column, parent in (("world_id", "worlds"), ("document", "documents"),
                               ("revision", "revisions"), ("job", "jobs")):  # fmt: skip
            if column in columns:
                key = "world_id" if parent == "worlds" else "key"
                lost = f"""SELECT count(*) FROM {table}
                           WHERE {column} NOT IN (SELECT {key} FROM {parent})"""
                if (table, column) == ("positions", "revision"):
                    continue
                counts[f"{table}.{column}"] = query(store, lost)[0][0]
    counts["worlds"] = query(store, "SELECT count(*) FROM worlds WHERE id = ?", (world,))[0][0]
    return counts


STAYING = {
    "worlds", "generations", "jobs", "job_documents", "job_lines", "readers", "aliases",
    "alias_moves", "calibrations", "cohorts", "probes", "usage", "cooldowns", "erasures",
    "tokens", "token_worlds",
}  # fmt: skip
"""Tables that may have rows in a world without documents. Decide this for each new table."""


@proves("upkeep.deletion-complete")
def test_delete_removes_document_from_every_table(home: Path) -> None:
    with opened(home, preparation=Preparation(figures=ALL)) as made:
        world = made.create_world("world")
        report = home.parent / "files" / "zyxwvut.docx"
        report.write_bytes(REPORT)
        world.ingest(report, kind="book", title="Qwertzuiop")
        reader = world.reader("ann")
        reader.set_position("zyxwvut.docx", sentence=1)
        reader.retrieve("lamp")
        world.search("lamp", floor=0.0, mode="hybrid")
        store = made._components.store
        tables = [
            name
            for (name,) in query(store, "SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        counted = {name: query(store, f"SELECT count(*) FROM {name}")[0][0] for name in tables}

        receipt = world.documents.delete("1")

        left = {name: query(store, f"SELECT count(*) FROM {name}")[0][0] for name in tables}
        # One row without a vector records the time of the erasure.
        left["query_cache"] -= len(query(store, "SELECT 1 FROM query_cache WHERE vector = x''"))
        assert {name for name, count in left.items() if count} <= STAYING
        emptied = {name: count for name, count in counted.items() if count and not left[name]}
        told = {**receipt.rows, "query_cache": receipt.redacted.get("query_cache", 0)}
        assert told == emptied
        assert "figures" in emptied
        assert "positions" in emptied
        for path, content in contents(home).items():
            assert b"zyxwvut" not in content, path
            assert b"Qwertzuiop" not in content, path


@proves("upkeep.deletion-complete")
def test_delayed_erasure_is_completed_after_readers_end(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite, "REWRITE_WAIT_MILLISECONDS", 20)
    with opened(home) as made:
        world, text, own = two_documents(home, made)
        reading = apsw.Connection(str(home / "store.db"))
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM chunks").fetchall()

        receipt = world.documents.delete("gone.txt")

        assert not receipt.erased
        assert receipt.waiting == {"store": "store_busy"}
        with raises_code("document_not_found"):
            world.documents.get("gone.txt")
        reading.close()
        world.ingest(written(home, "new.txt", "Something new."))
        assert made._components.store.erasures.all(urgent=True) == []
        assert traces(home, text, own) == []


@proves("upkeep.deletion-complete")
def test_replaced_revision_is_erased_only_by_repair(home: Path) -> None:
    with opened(home) as made:
        world, text, own = two_documents(home, made)
        world.ingest(written(home, "gone.txt", rare_text("another")))
        assert "gone.txt" in {document.name for document in world.documents.list()}
        assert traces(home, text, own)

        report = world.repair()

        assert (report.erasures, report.erasures_waiting) == (2, {})
        assert traces(home, text, own) == []
        assert world.repair().erasures == 0


@proves("upkeep.deletion-complete")
def test_deletion_without_erasure_is_completed_by_repair(home: Path) -> None:
    with opened(home) as made:
        world, text, own = two_documents(home, made)
        receipt = world.documents.delete("gone.txt", erase=False)
        assert (receipt.erased, list(receipt.waiting)) == (False, ["files"])
        made.maintenance.erase()
        assert traces(home, text, own) == []


@proves("upkeep.deletion-complete")
def test_receipt_lists_deletions_without_any_text(home: Path) -> None:
    with opened(home) as made:
        world, text, _ = two_documents(home, made)
        number = world.documents.get("gone.txt").number

        told = json.loads(json.dumps(world.documents.delete("gone.txt").to_json()))
        assert (told["number"], told["name"], told["world"]) == (number, "gone.txt", "world")
        assert told["rows"]["documents"] == told["rows"]["revisions"] == told["rows"]["texts"] == 1
        chunks = told["rows"]["chunks"]
        assert chunks > 1
        assert told["rows"]["vectors"] == told["rows"]["states"] == chunks
        assert [one["points"] for one in told["points"]] == [chunks]
        assert told["redacted"]["job_documents_redacted"] == 1
        assert told["digest"] == digest_of(told)
        assert digest_of({**told, "erased": False}) != told["digest"]
        assert not any(word.strip(".") in json.dumps(told) for word in text.split())
        named = [one.name for job in world.jobs.list() for one in world.jobs.documents(job.id)]
        assert "gone.txt" not in named
        assert all("gone.txt" not in job.request for job in world.jobs.list())


@proves("upkeep.deletion-complete")
def test_world_with_a_running_job_is_not_deleted(home: Path) -> None:
    with opened(home) as made:
        world, _, _ = two_documents(home, made)
        scope, parts = world.access.scope(), made._components
        assert scope is not None
        job = parts.store.jobs.add(scope, "ingest", "{}", parts.processes.own())

        with raises_code("world_busy"):
            made.delete_world("world")

        assert len(world.documents.list()) == 2
        assert world.jobs.get(job.id).state is JobState.RUNNING


@proves("upkeep.deletion-complete")
def test_world_deleted_by_a_killed_process_is_erased(home: Path) -> None:
    step = 0
    for step in range(1, MAX_STEPS, in_test_or_prove(2, 1)):
        with opened(home) as made:
            world, text, own = two_documents(home, made, str(step))
            killed = killed_at(home, "delete world", step)
            if any(entry.id == world.id for entry in made.worlds()):
                made.delete_world("world")
            made.maintenance.erase()
            assert traces(home, text, own) == [], step
            assert made._components.store.erasures.all() == []
        if not killed:
            break
    assert 4 < step < MAX_STEPS - 1
