"""Building and rotating generations, killed at every step and under load, on the real engines."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.scenario.test_crashes import MAX_STEPS, killed_at, story
from tests.support.crash_process import library
from tests.support.failures import raises_code
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.extensions.quality.generations import check_generation

ROTATIONS = 12


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("rotation")
    with library(folder) as made:
        made.folder = folder  # type: ignore[attr-defined]
        yield made
        made._components.index.retire()  # type: ignore[attr-defined]


def prepared(opened: Library, name: str, tmp_path: Path, documents: int = 2) -> World:
    world = opened.create_world(name)
    folder = tmp_path / name
    folder.mkdir()
    for number in range(documents):
        (folder / f"{number}.txt").write_text(story(f"harbour{number}", 40))
    world.ingest(str(folder))
    return world


def shown(world: World) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the generation that answered a search, and its results."""
    result = world.search("by night", top_k=100, floor=0.0)
    generations = {passage.receipt.generation for passage in result.passages}
    assert len(generations) == 1, "a mixed or empty answer"
    places = (place for one in result.passages for place in (one, *one.other_places))
    spans = sorted((place.document, place.start, place.end) for place in places)
    return generations.pop(), spans


@proves("generation.never-half-filled")
def test_killed_build_is_invisible_and_completed_by_number(opened: Library, tmp_path: Path) -> None:
    world = prepared(opened, "built", tmp_path)
    before = shown(world)
    step = 0
    for step in range(1, MAX_STEPS):
        if not killed_at(opened, world, "reindex", step):
            break
        assert shown(world) == before
        latest = world.generations.list()[-1]
        number = latest.generation.number
        if number != 1:
            if not latest.complete:
                with raises_code("generation_incomplete"):
                    world.generations.promote(number)
            assert world.generations.reindex(generation=number).failures == []
            assert world.generations.get(number).complete
            assert (
                check_generation(world.access.components, world.generations._scope_of(number)) == []
            )
            world.generations.remove(number)
    assert step > 6


@proves("generation.never-half-filled", "generation.alias-moves-on-request")
def test_promotion_killed_at_any_step_shows_one_complete_generation(
    opened: Library, tmp_path: Path
) -> None:
    world = prepared(opened, "moved", tmp_path)
    world.generations.reindex(chunking="sentences")
    old, new = shown(world), shown(World(replace(world.access, target=2)))
    assert old[1] != new[1]
    outcomes = []
    for action, arguments in (("promote", ("2",)), ("rollback", ())):
        for step in range(1, MAX_STEPS):
            killed = killed_at(opened, world, action, step, *arguments)
            outcomes.append(shown(world))
            if not killed:
                break
    assert set(map(str, outcomes)) == {str(old), str(new)}
    assert shown(world) == old


@proves("generation.never-half-filled")
def test_removal_killed_at_any_step_leaves_the_other_complete(
    opened: Library, tmp_path: Path
) -> None:
    world = prepared(opened, "removed", tmp_path)
    before = shown(world)
    world.generations.reindex(chunking="sentences")
    scope = world.generations._scope_of(2)
    steps = 0
    for step in range(1, MAX_STEPS):
        steps = step
        if not killed_at(opened, world, "remove", step, "2"):
            break
        assert shown(world) == before
        if all(one.generation.number == 1 for one in world.generations.list()):
            # It can no longer be named, so the next command that tidies up finishes it.
            with raises_code("generation_not_found"):
                world.generations.promote(2)
            world.generations._delete_retired()
            break
    assert steps > 1
    assert opened._components.index.count(scope) == 0
    assert [one.generation.number for one in world.generations.list()] == [1]
    with raises_code("generation_in_use"):
        world.generations.remove(1)


@proves("generation.never-half-filled")
def test_readers_see_one_generation_during_rotation(opened: Library, tmp_path: Path) -> None:
    world = prepared(opened, "busy", tmp_path, documents=3)
    world.generations.reindex(chunking="sentences")
    source = tmp_path / "busy" / "0.txt"
    stop, seen, failures = threading.Event(), [0], []

    def read() -> None:
        while not stop.is_set():
            try:
                _, spans = shown(world)
                assert {document for document, _, _ in spans} == {1, 2, 3}
                seen[0] += 1
            except BaseException as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(ROTATIONS):
        target = 2 if turn % 2 == 0 else 1
        world.generations.promote(target)
        if turn % 4 == 1:
            source.write_text(story(f"harbour{turn}", 40))
            world.ingest(str(source))
        if failures:
            break
    stop.set()
    for reader in readers:
        reader.join()

    assert failures == []
    assert seen[0] > ROTATIONS
    assert all(record.complete for record in world.generations.list())
