"""Commands killed before every durable step, on the real store and the real index."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.crash_process import library
from tests.support.forked_process import forked
from tests.support.worlds import query, vector_of
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.types.chunk import ChunkKind, Point
from truespan.types.ids import ChunkId, hash_text

MAX_STEPS = 40


def story(word: str, sentences: int = 60) -> str:
    return " ".join(f"Sentence {count} tells of the {word} by night." for count in range(sentences))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("mortal")
    with library(folder) as made:
        made.folder = folder  # type: ignore[attr-defined]
        yield made
        made._components.index.retire()  # type: ignore[attr-defined]


def killed_at(opened: Library, world: World, action: str, step: int, *rest: object) -> bool:
    """Run one command in another process; return whether it was killed at the step."""
    folder = str(opened.folder)  # type: ignore[attr-defined]
    done = forked(
        "tests.support.crash_process", folder, world.id, action, str(step), *map(str, rest)
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def prepared(opened: Library, name: str, tmp_path: Path) -> tuple[World, Path]:
    path = tmp_path / f"{name}.txt"
    path.write_text(story("harbour"))
    world = opened.create_world(name)
    world.ingest(str(path))
    return world, path


def shown(world: World) -> str:
    result = world.search("by night", top_k=50, floor=0.0)
    ordered = sorted(result.passages, key=lambda passage: passage.index)
    assert len({passage.receipt.revision for passage in ordered}) <= 1
    assert [passage.index for passage in ordered] == list(range(len(ordered)))
    return ordered[0].text[:40] if ordered else ""


def assert_sound(opened: Library, world: World, documents: int) -> None:
    assert opened.doctor([world.id])[world.id].counts() == {}
    status = world.status()
    assert (status.documents, status.pending, status.repairs) == (documents, 0, 0)
    scope = world.access.scope()
    assert scope is not None
    assert opened._components.index.count(scope) == status.embedded == status.chunks


@proves("ingest.durability-order", "ingest.no-leftover-points", "ingest.no-duplicates")
def test_killed_replacement_shows_old_or_new_and_can_finish(opened: Library, tmp_path: Path):
    step = 0
    for step in range(1, MAX_STEPS):
        world, path = prepared(opened, f"replace-{step}", tmp_path)
        old = shown(world)
        path.write_text(story("garden", 25))

        killed = killed_at(opened, world, "ingest", step, path)
        between = shown(world)
        world.ingest(str(path))
        new = shown(world)

        assert between in (old, new)
        assert old != new
        assert_sound(opened, world, 1)
        if not killed:
            break
    assert 6 < step < MAX_STEPS - 1


@proves("ingest.durability-order", "ingest.no-duplicates", "ingest.same-result-with-workers")
def test_ingest_with_workers_killed_at_any_step_can_finish(opened: Library, tmp_path: Path) -> None:
    folder = tmp_path / "tales"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(story(f"harbour{number}", 40 + number))
    whole = opened.create_world("whole")
    whole.ingest(str(folder))
    expected = [(found.name, found.chunks) for found in whole.documents.list()]
    step = 0
    # Every step in 'make prove': each starts several processes.
    for step in range(1, MAX_STEPS, in_test_or_prove(4, 1)):
        world = opened.create_world(f"workers-{step}")
        killed = killed_at(opened, world, "ingest with workers", step, folder)
        # A document is visible with all its chunks or not visible.
        between = [found for found in world.documents.list() if found.active]
        assert all(found.embedded == found.chunks for found in between)
        world.ingest(str(folder))
        assert [(found.name, found.chunks) for found in world.documents.list()] == expected
        assert_sound(opened, world, 4)
        if not killed:
            break
    assert 12 < step < MAX_STEPS - 1


@proves("ingest.delete-order")
def test_deletion_killed_at_any_step_remains_a_deletion(opened: Library, tmp_path: Path) -> None:
    step = 0
    for step in range(1, MAX_STEPS):
        world, path = prepared(opened, f"delete-{step}", tmp_path)
        killed = killed_at(opened, world, "delete", step, path)
        gone = world.documents.list() == []
        assert gone == (shown(world) == "")
        if gone:
            world.repair()
        else:
            world.documents.delete("1")
        assert_sound(opened, world, 0)
        if not killed:
            break
    assert 3 < step < MAX_STEPS - 1


@proves("repair.pending-resumes", "repair.conditional", "repair.idempotent")
@pytest.mark.parametrize("action", ["search", "repair", "doctor"])
def test_repair_killed_at_any_step_is_finished_by_the_next(
    opened: Library, tmp_path: Path, action: str
) -> None:
    step = 0
    for step in range(1, MAX_STEPS):
        world, path = prepared(opened, f"{action}-{step}", tmp_path)
        whole = shown(world)
        break_it(opened, world)
        if action == "repair":
            world.search("harbour by night", floor=0.0)
        killed = killed_at(opened, world, action, step, path)
        world.search("harbour by night", top_k=50, floor=0.0)
        world.repair()
        assert shown(world) == whole
        assert_sound(opened, world, 1)
        if not killed:
            break
    assert step < MAX_STEPS - 1


def break_it(opened: Library, world: World) -> None:
    """Write an old point under a current id, and change a byte of a stored text."""
    scope = world.access.scope()
    assert scope is not None
    first, second = (passage.chunk_id for passage in by_position(world)[:2])
    old = "harbour by night, as it once was"
    opened._components.index.upsert(
        scope,
        [Point(ChunkId(first), vector_of(old), hash_text(old), 1, 0, 1, 1, ChunkKind.TEXT, (), ())],
    )
    query(
        opened._components.store,
        """UPDATE chunks SET text = 'x' || substr(text, 2) WHERE (revision, position) =
           (SELECT revision, position FROM states WHERE chunk_id = ?)""",
        (second,),
    )


def by_position(world: World) -> list:
    found = world.search("by night", top_k=50, floor=0.0).passages
    return sorted(found, key=lambda passage: passage.index)
