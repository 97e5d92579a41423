"""Reads of a retrieval: few statements, and one state of the world."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.examples import examples
from tests.laws.test_budget import CANDIDATES
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.retrieval.pack import Packer
from truespan.retrieval.repeats import CoveredText
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.text.boilerplate import is_boilerplate
from truespan.types.scope import Scope
from truespan.types.trust import Hit, Visible
from truespan.types.vectors import Vector

STORY = " ".join(f"Sentence {count} tells of the harbour by night." for count in range(60))
NEWER = STORY.replace("night", "day")


class Interrupted(MemoryIndex):
    """An index that runs a function right after its first search."""

    then: Callable[[], object] | None = None
    searches = 0

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        self.searches += 1
        found = super().search(scope, vector, limit=limit, floor=floor)
        then, self.then = self.then, None
        if then is not None:
            then()
        return found


def count_statements(lib: LibraryFixture, call: Callable[[], object]) -> int:
    database = lib.store._db
    assert isinstance(database, SqliteDatabase)
    call()
    seen: list[str] = []

    def note(_cursor: Any, statement: str, _bindings: Any) -> bool:
        seen.append(statement)
        return True

    database.connection.exec_trace = note
    call()
    database.connection.exec_trace = None
    return len(seen)


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_retrieval_runs_few_statements(tmp_path: Path, mode: str) -> None:
    lib = make_library(tmp_path, store="sqlite")
    world = lib.world()
    world.ingest(lib.write("a.txt", STORY), language="en")
    reader = world.reader("ann")
    reader.set_position("a.txt", sentence=30)
    words = mode == "hybrid"

    # Each request reads the world, the query vector, the chunks, and with words their places. A
    # reader's requests also read the position, the tail, its sentences, and with words the vectors.
    searched = count_statements(lib, lambda: world.search("harbour", mode=mode))
    assert searched <= 3 + words
    assert count_statements(lib, lambda: world.retrieve("harbour", mode=mode)) == searched
    assert count_statements(lib, lambda: reader.retrieve("harbour", mode=mode)) <= 6 + 2 * words


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_world_changed_before_its_chunks_are_read_is_searched_again(
    tmp_path: Path, mode: str
) -> None:
    index = Interrupted()
    lib = make_library(tmp_path, index=index)
    world = lib.world(a__txt=STORY)
    reader = world.reader("ann")
    reader.set_position("a.txt", sentence=30)
    requests: dict[str, Callable[[], object]] = {
        "search": lambda: world.search("harbour", mode="vector"),
        "retrieve": lambda: world.retrieve("harbour", mode="vector"),
        "reader": lambda: reader.retrieve("harbour", mode=mode),
    }
    for number, (name, ask) in enumerate(requests.items()):
        ask()
        index.searches = 0
        ask()
        assert index.searches == 1, name
        index.searches = 0
        other = lib.write("b.txt", f"{NEWER} {number}")
        index.then = lambda other=other: world.ingest(other)
        ask()
        assert index.searches == 2, name


def test_label_changed_by_a_caller_is_unchanged_for_others(lib: LibraryFixture) -> None:
    world = lib.world()
    world.ingest(lib.write("a.txt", STORY), metadata={"team": {"lead": "Ann"}})
    for _ in range(2):
        metadata = world.search("harbour", floor=0.0).passages[0].metadata
        assert metadata is not None
        assert metadata == {"team": {"lead": "Ann"}}
        metadata["team"]["lead"] = "Bob"


@examples(60)
@given(
    st.lists(CANDIDATES, max_size=30), st.lists(st.booleans(), min_size=30, max_size=30),
    st.lists(st.integers(1, 10), min_size=1, max_size=6), st.integers(1, 8), st.integers(1, 900),
)  # fmt: skip
def test_packing_a_growing_list_equals_packing_it_at_once(
    parts: list[Visible], numbered: list[bool], steps: list[int], k: int, budget: int
) -> None:
    page_number = "7"
    ranked = [
        replace(part, text=page_number, end=part.start + 1) if is_number else part
        for part, is_number in zip(parts, numbered, strict=False)
    ]
    limits: dict[str, Any] = {"k": k, "budget": budget, "is_boilerplate": is_boilerplate}
    packer, grown = Packer(**limits), list[Visible]()
    for step in [*steps, len(ranked)]:
        grown += ranked[len(grown) : len(grown) + step]
        assert packer.pack(grown) == Packer(**limits).pack(grown)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=12))
def test_covered_spans_equal_the_added_ones(spans: list[tuple[int, int]]) -> None:
    covered, taken = CoveredText(), set[int]()
    for start, length in spans:
        left = covered.uncovered(1, start, start + length)
        shown = [place for first, end in left for place in range(first, end)]
        assert shown == [place for place in range(start, start + length) if place not in taken]
        assert all(end < first for (_, end), (first, _) in pairwise(left))
        covered.add(1, start, start + length)
        taken.update(range(start, start + length))
