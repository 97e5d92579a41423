"""In fused search too, nothing outside the scope changes an answer."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.reading_worlds import Stopped, frozen, stopped_at
from tests.support.sample_books import book
from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import DEFAULTS, LibraryFixture, MemoryIndex, make_library, other_profile
from truespan.engine.world import World
from truespan.retrieval import fused
from truespan.types.scope import Scope
from truespan.wire.serialize import to_json

LONG = "which garden, lamp, key, boat, night, clock, wood, lake, town and hill"
"""A query of enough words for feedback."""
QUERIES = (
    "who lit the lamp?", "the night of the harbour", "zebra", "the the the", "harbuor lmap", LONG,
)  # fmt: skip


def without_time(answer: object) -> str:
    told = json.loads(to_json(answer))
    told.pop("processing_time_ms")
    return json.dumps(told, sort_keys=True)


def searches(world: World) -> list[str]:
    return [
        without_time(world.search(query, top_k=top_k, floor=0.0, mode="hybrid"))
        for query in QUERIES
        for top_k in (1, 4, 30)
    ]


FILTERS: tuple[dict[str, Any], ...] = (
    {"documents": ["1", "2"]},
    {"documents": ["a.txt"], "language": None},
    {"tags": ["mine"]},
    {"source": "?.txt", "metadata": {"team": {"exists": False}}},
    {"chapter": "a.txt", "language": None},
)


def retrievals(world: World) -> list[str]:
    return [
        frozen(world.retrieve(query, top_k=4, near_misses=True, mode="hybrid", **filters))
        for query in QUERIES
        for filters in FILTERS
    ]


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the candidates, so that their limit matters in small worlds."""
    monkeypatch.setattr(fused, "POOL", 6)


def filled(lib: LibraryFixture) -> World:
    world = lib.library.create_world("mine")
    paths = [lib.write(name, book(seed, "txt", 12)) for seed, name in enumerate(("a.txt", "b.txt"))]
    world.ingest(paths, tags=["mine"], language="en")
    return world


@proves("search.non-interference")
@pytest.mark.parametrize("dimensions", [3, 64])
def test_other_worlds_do_not_change_a_fused_answer(tmp_path: Path, dimensions: int) -> None:
    lib = make_library(
        tmp_path, embedder=StateEmbedder(profile=other_profile(dimensions=dimensions))
    )
    world = filled(lib)
    before = [*searches(world), *retrievals(world)]

    other = lib.library.create_world("theirs")
    other.ingest([lib.write(f"{seed}.txt", book(seed, "txt", 20)) for seed in range(2, 9)])
    other.search("the lamp", mode="hybrid")
    added = [*searches(world), *retrievals(world)]
    for document in other.documents.list():
        other.documents.delete(document.doc_id)

    assert before == added == [*searches(world), *retrievals(world)]
    assert any('"returned": 4' in answer for answer in before)
    if DEFAULTS[-1] == "recommended":
        assert any('"feedback": 0.' in answer for answer in before)


# A recommended world measures thresholds for an unknown model from all of its documents.
@pytest.mark.contract
@proves("search.non-interference")
@pytest.mark.parametrize("dimensions", [3, 64])
def test_documents_outside_the_scope_do_not_change_a_fused_answer(
    tmp_path: Path, dimensions: int
) -> None:
    lib = make_library(
        tmp_path, embedder=StateEmbedder(profile=other_profile(dimensions=dimensions))
    )
    world = filled(lib)
    before = retrievals(world)

    for seed in range(2, 9):
        world.ingest(lib.write(f"other{seed}.txt", book(seed, "txt", 20)), language="de")

    assert retrievals(world) == before


class Deaf(MemoryIndex):
    """An index that ignores the scope within a world."""

    def search(self, scope: Scope, *args: Any, **options: Any) -> Any:
        return super().search(
            Scope(scope.authority, scope.world, scope.generation), *args, **options
        )


@proves("search.non-interference")
def test_index_that_ignores_the_scope_does_not_change_a_fused_answer(tmp_path: Path) -> None:
    index = MemoryIndex()
    lib = make_library(tmp_path, index=index)
    world = filled(lib)
    for seed in range(2, 9):
        world.ingest(lib.write(f"other{seed}.txt", book(seed, "txt", 20)), language="de")
    # Near misses are looked for without words, and are none of this.
    asked = [{**filters, "near_misses": False} for filters in FILTERS]

    def told() -> list[str]:
        return [
            frozen(world.retrieve(query, top_k=4, mode="hybrid", **filters))
            for query in QUERIES[:2]
            for filters in asked
        ]

    honest = told()
    index.__class__ = Deaf

    assert told() == honest


@proves("search.non-interference")
@pytest.mark.parametrize("step", range(1, 10))
def test_stopped_replacement_does_not_change_a_fused_answer(tmp_path: Path, step: int) -> None:
    embedder = StateEmbedder(profile=other_profile(dimensions=3))
    lib = make_library(tmp_path, embedder=embedder)
    world = filled(lib)
    before = [*searches(world), *retrievals(world)]

    path = lib.write("a.txt", book(7, "txt", 30))
    with suppress(Stopped):
        stopped_at(lib, step).world("mine").ingest(path, tags=["mine"], language="en")
    # Whoever opens the library now has nothing in memory of how it was.
    after = make_library(tmp_path, index=lib.index, embedder=embedder).library.world("mine")

    assert after.documents.get("a.txt").active == 1
    assert [*searches(after), *retrievals(after)] == before
