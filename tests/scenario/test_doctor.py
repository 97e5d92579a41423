"""The doctor finds every difference between store and index, and repairs it from the store."""

import random
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.crash_process import library
from tests.support.index_process import wait_for_end
from tests.support.sample_texts import assert_settled, story
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import IndexRefused
from truespan.maintenance.doctor.plan import Finding
from truespan.types.chunk import IndexedPoint, Point
from truespan.types.ids import ChunkId, TextHash
from truespan.types.scope import Scope
from truespan.types.vectors import Vector


def flipped(vector: Vector, bit: int) -> Vector:
    data = bytearray(vector)
    data[bit // 8] ^= 1 << bit % 8
    return Vector(bytes(data))


def damage(lib: LibraryFixture, world: World, kind: Finding, rng: random.Random) -> None:
    points = lib.index._of(lib.scope(world))
    chunk: ChunkId = rng.choice(sorted(points))
    point: Point = points[chunk]
    match kind:
        case Finding.MISSING_POINT:
            del points[chunk]
        case Finding.STALE_POINT:
            point.text_hash = TextHash("f" * 64)
        case Finding.CHANGED_VECTOR:
            # One of the larger components, so that the norm reveals which side is wrong.
            values = array("f", point.vector)
            largest = max(range(len(values)), key=values.__getitem__)
            point.vector = flipped(point.vector, largest * 32 + rng.randrange(20, 31))
        case Finding.ORPHAN_POINT:
            ghost = ChunkId(f"{rng.getrandbits(32):08x}-0000-5000-8000-000000000000")
            points[ghost] = replace(point, chunk_id=ghost)
        case Finding.DAMAGED_TEXT:
            lib.sql("UPDATE chunks SET text = text || '!' WHERE position = 0")


@proves("index.scrub")
@pytest.mark.parametrize(
    "kind",
    [
        Finding.MISSING_POINT, Finding.STALE_POINT, Finding.CHANGED_VECTOR, Finding.ORPHAN_POINT,
        Finding.DAMAGED_TEXT,
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(in_test_or_prove(3, 12)))
def test_each_damage_is_repaired_without_a_provider(lib: LibraryFixture, kind: Finding, seed: int):
    world = lib.world(a__txt=story(90), b__txt=story(40, "garden"))
    damage(lib, world, kind, random.Random(seed))
    lib.embedder.documents.clear()

    plan = lib.library.doctor()["world"]
    untouched = lib.library.doctor()["world"]
    lib.library.doctor(apply=True)

    assert set(plan.counts()) == {kind}
    assert plan.counts() == untouched.counts()
    assert lib.embedder.documents == []
    assert_settled(lib, world)
    assert world.search("harbour", top_k=50, floor=0.0).skipped == ()


@proves("index.scrub")
def test_changed_bit_of_any_number_is_detected(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The harbour light.")
    point = next(iter(lib.index._of(lib.scope(world)).values()))
    whole = point.vector
    for bit in range(0, len(whole) * 8, 7):
        point.vector = flipped(whole, bit)
        assert lib.library.doctor()["world"].counts() == {Finding.CHANGED_VECTOR: 1}, bit
    point.vector = Vector(array("f", [float("nan")] * 64).tobytes())
    assert lib.library.doctor()["world"].counts() == {Finding.NON_FINITE: 1}


@proves("index.scrub")
def test_repeated_point_is_written_again(tmp_path: Path) -> None:
    class Stuttering(MemoryIndex):
        stutter = True

        def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
            for page in super().scan(scope):
                yield [*page, page[0]] if self.stutter else page

        def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
            super().delete(scope, ids)
            self.stutter = self.stutter and not ids

    lib = make_library(tmp_path, index=Stuttering())
    world = lib.world(a__txt="The harbour light.")

    assert lib.library.doctor(apply=True)["world"].counts() == {Finding.DUPLICATE_POINT: 1}

    assert_settled(lib, world)


@proves("index.scrub")
def test_points_of_unfinished_work_are_not_orphans(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The harbour light.")
    original = lib.store.documents.activate
    lib.store.documents.activate = lambda *_: []  # type: ignore[method-assign]
    world.ingest(lib.write("world/a.txt", "The harbour wall."))
    lib.store.documents.activate = original  # type: ignore[method-assign]

    assert lib.library.doctor()["world"].counts() == {}

    world.ingest(str(lib.folder / "files"))
    assert_settled(lib, world)


@proves("index.scrub")
def test_vector_lost_from_the_store_is_embedded_again(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The harbour light.")
    lib.sql("DELETE FROM vectors")

    assert lib.library.doctor(apply=True)["world"].counts() == {Finding.NO_VECTOR: 1}

    assert_settled(lib, world)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Library]:
    (tmp_path / "library").mkdir()
    with library(tmp_path / "library") as opened:
        yield opened
        opened._components.index.retire()  # type: ignore[attr-defined]


def filled(real: Library, tmp_path: Path) -> list[World]:
    (tmp_path / "a.txt").write_text(story(120))
    worlds = [real.create_world(name) for name in ("one", "two")]
    for world in worlds:
        world.ingest(str(tmp_path / "a.txt"))
    return worlds


@proves("index.scrub")
@pytest.mark.parametrize("how", ["truncated", "garbled", "removed", "settings"])
def test_destroyed_index_files_are_rebuilt_for_every_world(real: Library, tmp_path: Path, how: str):
    worlds = filled(real, tmp_path)
    before = [[p.text for p in w.search("harbour", floor=0.0).passages] for w in worlds]
    end_index(real)
    destroy(tmp_path / "library" / "index", how)

    if how != "removed":
        with pytest.raises(IndexRefused):
            worlds[0].search("harbour", floor=0.0)
    plans = real.doctor(apply=True)

    assert any(not plan.healthy for plan in plans.values())
    assert all(plan.counts() == {} for plan in real.doctor().values())
    after = [[p.text for p in w.search("harbour", floor=0.0).passages] for w in worlds]
    assert after == before


def end_index(real: Library) -> None:
    """End the index process and wait until it has released its files."""
    index: Any = real._components.index
    index.retire()
    wait_for_end(index._link._folder)


def destroy(index: Path, how: str) -> None:
    import shutil

    [shard] = [path for path in index.iterdir() if (path / "edge_config.json").exists()]
    if how == "removed":
        shutil.rmtree(shard)
    elif how == "settings":
        (shard / "edge_config.json").write_text("{}")
    else:
        files = [path for path in (shard / "segments").rglob("*") if path.is_file()]
        for path in files:
            path.write_bytes(b"" if how == "truncated" else b"\xff" * max(path.stat().st_size, 8))


@proves("search.text-from-store", "search.non-interference")
def test_search_in_a_rebuilt_index_returns_the_same_bytes(real: Library, tmp_path: Path) -> None:
    [world, other] = filled(real, tmp_path)

    def bytes_of() -> list[object]:
        found = [world.search(query, floor=0.0) for query in ("harbour", "night", "sentence 7")]
        return [replace(result, processing_time_ms=0) for result in found]

    before = bytes_of()
    other.documents.delete("1")
    scope = world.access.scope()
    assert scope is not None
    real._components.index.reset(scope)
    real.doctor(apply=True)

    assert bytes_of() == before


@proves("index.scrub", "search.nothing-embedded")
def test_lost_index_is_never_reported_as_an_empty_world(real: Library, tmp_path: Path) -> None:
    import shutil

    worlds = filled(real, tmp_path)
    end_index(real)
    shutil.rmtree(tmp_path / "library" / "index")

    with pytest.raises(IndexRefused):
        worlds[0].search("harbour", floor=0.0)
    plan = real.doctor("one")["one"]
    assert plan.counts() == {Finding.UNREADABLE_INDEX: 1}
    with pytest.raises(IndexRefused):
        worlds[0].search("harbour", floor=0.0)

    (tmp_path / "b.txt").write_text(story(5, "garden"))
    worlds[0].ingest(str(tmp_path / "b.txt"))
    assert worlds[0].status().pending > 0
    assert {p.source for p in worlds[0].search("harbour", floor=0.0).passages} == {"b.txt"}
    lost = worlds[1].search("harbour", floor=0.0)
    codes = [notice.code for notice in lost.warnings]
    assert codes == ["chunks_pending", "no_embedded_chunks"]

    worlds[0].ingest(str(tmp_path / "a.txt"))
    worlds[1].repair()
    assert all(plan.counts() == {} for plan in real.doctor().values())
    assert len(worlds[1].search("harbour", floor=0.0).passages) > 0
