"""The doctor on the real store and the real index: damage, kills and the self-test."""

import pickle
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.crash_process import library
from tests.support.damage import NAN, SHORT, flipped, packed
from tests.support.forked_process import forked
from tests.support.sample_texts import story
from tests.support.worlds import other_profile, query
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.maintenance.doctor.plan import Finding
from truespan.types.chunk import ChunkKind, IndexedPoint, Point
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.maintenance import Verdict
from truespan.types.scope import Generation, Scope

MAX_STEPS = 60


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("doctor")
    for name, text in (("a.txt", story(60)), ("b.txt", story(30, "garden"))):
        (folder / name).write_text(text)
    with library(folder) as opened:
        opened.folder = folder  # type: ignore[attr-defined]
        for name in ("one", "two"):
            filled(opened, name)
        yield opened
        opened._components.index.retire()  # type: ignore[attr-defined]


def filled(real: Library, name: str) -> World:
    folder: Path = real.folder  # type: ignore[attr-defined]
    world = real.create_world(name)
    world.ingest([folder / "a.txt", folder / "b.txt"])
    return world


def scope_of(world: World) -> Scope:
    scope = world.access.scope()
    assert scope is not None
    return scope


def point_of(found: IndexedPoint) -> Point:
    place = found.place
    assert place is not None
    assert found.text_hash is not None
    return Point(
        found.chunk_id,
        found.vector,
        found.text_hash,
        place.document,
        place.pos_start,
        place.pos_end,
        place.pos_reach,
        ChunkKind(place.kind),
        tuple(place.chapter),
        tuple(place.section),
    )


def changed(**changes: Any) -> Callable:
    def plant(real: Library, world: World, rng: random.Random) -> None:
        scope = scope_of(world)
        points = sorted(
            (point for page in real._components.index.scan(scope) for point in page),
            key=lambda point: point.chunk_id,
        )
        point = point_of(rng.choice(points))
        given = {
            name: change(point, rng) if callable(change) else change
            for name, change in changes.items()
        }
        real._components.index.upsert(scope, [replace(point, **given)])

    return plant


def gone(real: Library, world: World, rng: random.Random) -> None:
    scope = scope_of(world)
    ids = sorted(point.chunk_id for page in real._components.index.scan(scope) for point in page)
    real._components.index.delete(scope, [rng.choice(ids)])


def moved(real: Library, world: World, rng: random.Random) -> None:
    """Move a point to another world, where it is unknown; it is then missing in this one."""
    scope = scope_of(world)
    points = [point for page in real._components.index.scan(scope) for point in page]
    other = replace(scope, world=WorldId(real.world("two").id))
    real._components.index.upsert(other, [point_of(rng.choice(points))])


def unknown(real: Library, world: World, rng: random.Random) -> None:
    scope = scope_of(world)
    point = point_of(next(point for page in real._components.index.scan(scope) for point in page))
    stranger = replace(scope, world=WorldId(f"{rng.getrandbits(32):08x}-1-1-1-1"))
    ghost = ChunkId(f"{rng.getrandbits(32):08x}-0000-5000-8000-000000000000")
    real._components.index.upsert(stranger, [replace(point, chunk_id=ghost)])


def unused(real: Library, world: World, rng: random.Random) -> None:
    profile = other_profile(revision=str(rng.random()))
    real._components.index.prepare(replace(scope_of(world), generation=Generation(1, profile)))


def _largest(point: Point, rng: random.Random) -> bytes:
    import array

    values = array.array("f", point.vector)
    largest = max(range(len(values)), key=values.__getitem__)
    return flipped(point.vector, largest * 32 + rng.randrange(12, 21))


def ghost(_point: Point, rng: random.Random) -> ChunkId:
    return ChunkId(f"{rng.getrandbits(32):08x}-0000-5000-8000-000000000000")


DAMAGE: dict[str, tuple[Callable, set[Finding]]] = {
    "gone": (gone, {Finding.MISSING_POINT}),
    "stale": (changed(text_hash=TextHash("f" * 64)), {Finding.STALE_POINT}),
    "changed": (changed(vector=_largest), {Finding.CHANGED_VECTOR}),
    "not a number": (changed(vector=packed([NAN] * 64)), {Finding.NON_FINITE}),
    "orphan": (changed(chunk_id=ghost), {Finding.ORPHAN_POINT}),
    "document": (changed(document=99), {Finding.MISPLACED_POINT}),
    "pos_start": (changed(pos_start=10_000), {Finding.MISPLACED_POINT}),
    "pos_end": (changed(pos_end=10_000), {Finding.MISPLACED_POINT}),
    "pos_reach": (changed(pos_reach=-1), {Finding.MISPLACED_POINT}),
    "chapter": (changed(chapters=("elsewhere",)), {Finding.MISPLACED_POINT}),
    "section": (changed(sections=("elsewhere",)), {Finding.MISPLACED_POINT}),
    "kind": (changed(kind=ChunkKind.FIGURE), {Finding.MISPLACED_POINT}),
    "of another world": (moved, {Finding.MISSING_POINT, Finding.ORPHAN_POINT}),
    "unknown world": (unknown, {Finding.UNKNOWN_WORLD}),
    "unused collection": (unused, {Finding.UNUSED_COLLECTION}),
}


def shown(world: World) -> list[object]:
    found = [world.search(query, top_k=50, floor=0.0) for query in ("harbour night", "garden")]
    return [replace(result, processing_time_ms=0) for result in found]


@proves("index.scrub")
@pytest.mark.parametrize("seed", range(in_test_or_prove(2, 4)))
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_in_the_real_index_is_found_and_repaired(real: Library, kind: str, seed: int):
    world = real.world("one")
    before = shown(world), shown(real.world("two"))
    plant, expected = DAMAGE[kind]
    plant(real, world, random.Random(f"{kind} {seed}"))

    plan = real.doctor()
    treatment = real.maintenance.apply_plan(plan)

    assert {item.finding for item in plan.all_items()} == expected
    assert treatment.left.healthy
    assert (shown(world), shown(real.world("two"))) == before


@proves("search.one-world", "search.non-interference")
def test_world_boundaries_hold_in_the_real_index(real: Library) -> None:
    scope = scope_of(real.world("one"))
    before = real._components.index.tenants(scope, limit=100)

    plan = real.doctor(self_test=True)

    assert [check.verdict for check in plan.self_test] == [Verdict.OK, Verdict.OK]
    assert real._components.index.tenants(scope, limit=100) == before
    assert plan.healthy


def break_much(real: Library, world: World, seed: int) -> None:
    """Several kinds of damage at once, in store and index."""
    rng = random.Random(seed)
    for kind in ("gone", "stale", "orphan", "document", "unknown world", "unused collection"):
        DAMAGE[kind][0](real, world, rng)
    own = "(SELECT world_id FROM worlds WHERE id = ?)"
    query(
        real._components.store,
        f"""UPDATE chunks SET text = 'x' WHERE (revision, position) IN
            (SELECT revision, position FROM states WHERE world_id = {own} AND position = 1)""",
        (world.id,),
    )
    query(
        real._components.store,
        f"""UPDATE vectors SET vector = ? WHERE text_hash =
            (SELECT max(text_hash) FROM vectors WHERE world_id = {own}) AND world_id = {own}""",
        (bytes(SHORT), world.id, world.id),
    )
    query(
        real._components.store,
        f"INSERT INTO vectors SELECT {own}, '{seed:016x}', 'ab', x'00', x'00'",
        (world.id,),
    )


@proves("index.scrub", "repair.idempotent")
def test_killed_plan_is_finished_by_the_same_or_a_new_plan(real: Library, tmp_path: Path) -> None:
    step = 0
    for step in range(1, MAX_STEPS, in_test_or_prove(2, 1)):
        world = filled(real, f"killed-{step}")
        before = shown(world)
        break_much(real, world, step)
        path = tmp_path / f"{step}.plan"
        path.write_bytes(pickle.dumps(real.doctor()))

        killed = killed_at(real, world, step, path)
        right = {one.text for result in before for one in result.passages}  # type: ignore[attr-defined]
        between = {one.text for result in shown(world) for one in result.passages}  # type: ignore[attr-defined]
        again = real.maintenance.apply_plan(real.doctor())
        if not again.left.healthy:
            # Repairs that reading started may have changed items, which are then skipped.
            again = real.maintenance.apply_plan(real.doctor())

        assert between <= right
        assert again.left.healthy
        assert shown(world) == before
        if not killed:
            break
    assert 8 < step < MAX_STEPS - 1


def killed_at(real: Library, world: World, step: int, plan: Path) -> bool:
    folder: Path = real.folder  # type: ignore[attr-defined]
    done = forked(
        "tests.support.crash_process", str(folder), world.id, "treat", str(step), str(plan)
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0
