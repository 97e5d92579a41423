"""Approximate searches of the embedded index with 4-bit vectors and exact scores."""

from pathlib import Path

import pytest
import qdrant_edge as edge

from tests.contract.index_contract import EAST, leaning, new_scope, point, vector
from tests.contract.test_edge_rewrite import (
    GONE,
    SCOPE,
    delete,
    filled,
    live,
    made,
    start_rewrite,
    step,
    upsert,
    vectors,
)
from tests.promises import proves
from tests.support.crash_files import COLLECTION, WIDE
from tests.support.leftover_search import traces
from truespan.errors import StorageFull
from truespan.index.base import RawHit, Search
from truespan.index.edge import shard as shard_files
from truespan.index.edge.client import EdgeIndex
from truespan.index.edge.shard import Collections
from truespan.index.filters import tenant
from truespan.types.vectors import Vector, unit_vector


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_files, "_MAX_NEW_POINTS", 100)


def convert(collections: Collections) -> None:
    while not collections.convert(COLLECTION, 0):
        pass


def search(
    collections: Collections,
    values: Vector,
    *,
    approximate: bool,
    limit: int = 10,
    threshold: float | None = None,
) -> list[RawHit]:
    asked = Search((tenant(SCOPE),), values, limit, threshold, (), approximate)
    return collections.shard(COLLECTION).search(asked)[0]


def quantized_points(collections: Collections) -> int:
    return collections.shard(COLLECTION)._edge.info().indexed_vectors_count


def test_converted_collection_has_the_same_points_and_scores(tmp_path: Path) -> None:
    collections, points = filled(tmp_path / "index")
    before = live(collections)
    queries = vectors(made(20, seed=3))
    exact = [search(collections, query, approximate=False) for query in queries]
    assert not collections.shard(COLLECTION).can_approximate()

    convert(collections)

    for opened in range(2):
        assert collections.shard(COLLECTION).can_approximate()
        assert quantized_points(collections) >= 500, opened
        assert live(collections) == before
        for query, expected in zip(queries, exact, strict=True):
            assert search(collections, query, approximate=False) == expected
            assert search(collections, query, approximate=True) == expected
            floor = expected[4][1]
            above = search(collections, query, approximate=True, threshold=floor)
            assert above == [hit for hit in expected if hit[1] > floor]
        collections.close()
        collections = Collections(tmp_path / "index")
    # A converted collection stays converted after a rewrite without deleted points.
    delete(collections, points[GONE : 2 * GONE])
    ticket = start_rewrite(collections)
    while not step(collections, ticket):
        pass
    assert traces(tmp_path, "", vectors(points[: 2 * GONE])) == []
    assert collections.shard(COLLECTION).can_approximate()
    assert quantized_points(collections) >= 500
    collections.close()


def test_int8_collection_stays_searchable_and_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def int8(*, memory: edge.Memory, **_: object) -> edge.ScalarQuantizationConfig:
        return edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, memory=memory)

    with monkeypatch.context() as earlier:
        earlier.setattr(edge, "TurboQuantQuantizationConfig", int8)
        collections, _ = filled(tmp_path / "index")
        convert(collections)
        collections.close()
    collections = Collections(tmp_path / "index")
    assert collections.shard(COLLECTION).can_approximate()
    for number in range(2):
        for query in vectors(made(20, seed=3)):
            exact = search(collections, query, approximate=False)
            assert search(collections, query, approximate=True) == exact
        upsert(collections, made(300, seed=4 + number))
        assert quantized_points(collections) >= 500
    collections.close()


def test_only_approximate_search_misses_similar_vectors(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    collections = Collections(tmp_path / "index")
    collections.prepare(COLLECTION)
    convert(collections)
    close = [unit_vector([1.0, 1e-5 * number, *([0.0] * 62)]) for number in range(200)]
    upsert(collections, [point(SCOPE, number, one) for number, one in enumerate(close)])
    assert quantized_points(collections) == 200

    best = [search(collections, one, approximate=False, limit=1)[0][1] for one in close[::10]]
    found = [search(collections, one, approximate=True, limit=1)[0][1] for one in close[::10]]

    assert all(one <= other for one, other in zip(found, best, strict=True))
    assert found != best
    collections.close()


def test_changes_during_a_conversion_are_in_both_collections(tmp_path: Path) -> None:
    collections, points = filled(tmp_path / "index")
    collections.convert(COLLECTION, 0)

    upsert(collections, [point(SCOPE, 5000 + n, one.vector) for n, one in enumerate(made(5, 2))])
    delete(collections, points[200:210])
    expected = live(collections)
    convert(collections)

    assert live(collections) == expected
    collections.close()


def test_full_disk_prevents_conversion_but_not_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collections, _ = filled(tmp_path / "index")
    with pytest.raises(StorageFull):
        collections.convert(COLLECTION, 1 << 60)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [WIDE.id]
    monkeypatch.setattr(shard_files, "_MAX_SEGMENT_KB", 1 << 50)

    convert(collections)
    upsert(collections, made(300, seed=4))

    assert quantized_points(collections) == 0
    assert len(live(collections)) == 600
    collections.close()


@proves("search.non-interference")
def test_only_named_worlds_are_searched_approximately(tmp_path: Path) -> None:
    named, other = new_scope(), new_scope()
    index = EdgeIndex(tmp_path, reserve=0)
    index.prepare(named)
    index.upsert(named, [point(named, 0, vector(*EAST)), point(named, 1, leaning(0.5))])
    index.close()
    index = EdgeIndex(tmp_path, reserve=0, approximate=frozenset({named.world}))

    index.prepare(other)
    before = index.approximate(named), index.search(named, vector(*EAST), limit=2, floor=0.1)
    index.prepare(named)
    after = index.approximate(named), index.search(named, vector(*EAST), limit=2, floor=0.1)
    others = index.approximate(other), index.approximate(named.for_reader(1, 1, 5))
    index.reset(named)
    index.prepare(named)
    again = index.approximate(named)
    index.retire()

    assert (before[0], after[0], others, again) == (False, True, (False, False), True)
    assert before[1] == after[1]
