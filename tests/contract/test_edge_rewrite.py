"""Rewrites of a collection: live points stay unchanged, deleted ones are in no file."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.index_contract import new_scope, point
from tests.laws.examples import in_test_or_prove
from tests.support.crash_files import COLLECTION, WIDE, erase, killed_at
from tests.support.leftover_search import traces
from truespan.core.disk import require_space
from truespan.errors import StorageFull
from truespan.index.edge.shard import Collections
from truespan.index.filters import HasId, tenant
from truespan.types.chunk import Point
from truespan.types.vectors import Vector, unit_vector

SCOPE = new_scope(WIDE)
POINTS = 600
GONE = 8


def made(count: int, seed: int = 1) -> list[Point]:
    rng = random.Random(seed)
    return [
        point(SCOPE, number, unit_vector([rng.gauss(0, 1) for _ in range(64)]))
        for number in range(count)
    ]


def upsert(collections: Collections, points: Sequence[Point]) -> None:
    collections.upsert(COLLECTION, SCOPE.tenant, list(points), 0)


def delete(collections: Collections, points: Sequence[Point]) -> None:
    ids = tuple(point.chunk_id for point in points)
    collections.delete(COLLECTION, (tenant(SCOPE), HasId(ids)))


def live(collections: Collections) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    start: str | None = None
    while True:
        page, start = collections.shard(COLLECTION).scan((tenant(SCOPE),), start, 256)
        found.update({entry.chunk_id: entry.vector for entry in page})
        if start is None:
            return found


def filled(folder: Path) -> tuple[Collections, list[Point]]:
    folder.mkdir()
    collections = Collections(folder)
    collections.prepare(COLLECTION)
    points = made(POINTS)
    upsert(collections, points)
    delete(collections, points[:GONE])
    collections.shard(COLLECTION).flush()
    return collections, points


def vectors(points: Sequence[Point]) -> list[Vector]:
    return [one.vector for one in points]


def start_rewrite(collections: Collections) -> int:
    return collections.erase(COLLECTION, 0, 0)[0]


def step(collections: Collections, ticket: int) -> bool:
    """Continue a rewrite; return whether it is complete."""
    return collections.erase(COLLECTION, ticket, 0)[1]


def test_deleted_points_stay_in_files_until_a_rewrite(tmp_path: Path) -> None:
    collections, points = filled(tmp_path / "index")
    gone, before = vectors(points[:GONE]), live(collections)
    assert traces(tmp_path, "", gone)

    ticket = start_rewrite(collections)
    while not step(collections, ticket):
        pass

    assert traces(tmp_path, "", gone) == []
    assert live(collections) == before
    assert len(before) == POINTS - GONE
    collections.close()
    assert [path.name for path in (tmp_path / "index").iterdir()] == [WIDE.id]


def test_changes_during_a_rewrite_are_in_the_new_files(tmp_path: Path) -> None:
    collections, points = filled(tmp_path / "index")
    other = made(POINTS, seed=2)
    ticket = start_rewrite(collections)
    added = [point(SCOPE, 5000 + number, one.vector) for number, one in enumerate(other[:5])]

    upsert(collections, [*other[100:103], *added])
    delete(collections, points[200:210])
    stale = [(points[220].chunk_id, points[220].text_hash), (points[221].chunk_id, "another")]
    collections.delete_stale(COLLECTION, (tenant(SCOPE),), stale)
    expected = live(collections)
    while not step(collections, ticket):
        assert live(collections) == expected

    assert live(collections) == expected
    assert {one.chunk_id for one in added} <= set(expected)
    assert points[220].chunk_id not in expected
    assert points[221].chunk_id in expected
    collections.close()


def test_request_during_a_rewrite_starts_the_next_one(tmp_path: Path) -> None:
    collections, points = filled(tmp_path / "index")
    first = start_rewrite(collections)
    # Points are copied in the order of their ids, so these are in the new files already.
    copied = sorted(points, key=lambda point: point.chunk_id)[:3]
    delete(collections, copied)

    second = start_rewrite(collections)
    while not step(collections, first):
        pass

    assert second == first + 1
    assert traces(tmp_path, "", vectors(copied))
    while not step(collections, second):
        pass
    assert traces(tmp_path, "", vectors(copied)) == []
    collections.close()


def test_ticket_of_a_previous_process_starts_one_rewrite(tmp_path: Path) -> None:
    collections, _ = filled(tmp_path / "index")
    ticket, steps = 17, 0
    done = False
    while not done:
        ticket, done = collections.erase(COLLECTION, ticket, 0)
        steps += 1
    assert ticket == 1
    assert steps <= 5
    collections.close()


def test_closing_during_a_rewrite_leaves_the_old_files(tmp_path: Path) -> None:
    collections, _ = filled(tmp_path / "index")
    before = live(collections)
    start_rewrite(collections)

    collections.close()

    assert [path.name for path in (tmp_path / "index").iterdir()] == [WIDE.id]
    again = Collections(tmp_path / "index")
    assert live(again) == before
    again.close()


def test_rewrite_without_disk_space_does_not_start(tmp_path: Path) -> None:
    collections, _ = filled(tmp_path / "index")
    with pytest.raises(StorageFull):
        collections.erase(COLLECTION, 0, 1 << 60)
    require_space(tmp_path, 0)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [WIDE.id]
    collections.close()


@pytest.mark.parametrize(
    "number", in_test_or_prove([1, 3, 4, 6, 8, 1000], [1, 2, 3, 4, 5, 6, 7, 8, 15, 1000])
)
def test_kill_at_any_file_change_keeps_live_points(tmp_path: Path, number: int) -> None:
    # The last changes remove the old files one by one.
    folder = tmp_path / "index"
    collections, points = filled(folder)
    before = live(collections)
    collections.close()

    assert killed_at(number, folder, "erase") == (number < 1000)
    again = Collections(folder)
    assert live(again) == before
    again.close()
    erase(folder)

    assert traces(folder, "", vectors(points[:GONE])) == []
    assert [path.name for path in folder.iterdir()] == [WIDE.id]
