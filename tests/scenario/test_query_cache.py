"""The query cache saves the provider call and nothing else."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import (
    WORDS,
    LibraryFixture,
    ManualClock,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.retrieval.query import cache_key
from truespan.types.ids import WorldId

DAY = 24 * 3600
TEXT = "The lamp went out at midnight."


@proves("cache.younger-than-a-day")
@pytest.mark.parametrize(
    ("age", "calls"), [(0, 1), (1, 1), (DAY - 0.001, 1), (DAY, 2), (DAY + 1, 2), (3 * DAY, 2)]
)
def test_entry_is_used_while_strictly_younger_than_a_day(
    lib: LibraryFixture, age: float, calls: int
) -> None:
    world = lib.world(a__txt=TEXT)
    world.search("lamp")

    lib.clock.time += age
    world.search("lamp")

    assert len(lib.embedder.queries) == calls


@proves("clock.jumps")
def test_entry_dated_in_the_future_counts_as_expired(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    world.search("lamp")

    lib.clock.time -= 10
    world.search("lamp")
    world.search("lamp")

    assert len(lib.embedder.queries) == 2


@proves("cache.younger-than-a-day", "cache.bit-identical")
def test_cache_survives_a_restart_bit_for_bit(tmp_path: Path) -> None:
    index = MemoryIndex()
    lib = make_library(tmp_path, index=index)
    world = lib.world(a__txt=TEXT)
    asked: list[bytes] = []
    original = index.search

    def searching(scope: object, vector: bytes, **rest: object) -> object:
        asked.append(vector)
        return original(scope, vector, **rest)  # type: ignore[arg-type]

    index.search = searching  # type: ignore[assignment]
    world.search("lamp")
    lib.library.close()
    again = make_library(tmp_path, index=index, clock=ManualClock(lib.clock.time + 5))
    again.library.world("world").search("lamp")

    assert again.embedder.queries == []
    assert asked[0] == asked[1]


@proves("cache.other-model-misses", "cache.key-model-and-text", "cache.complete-key")
def test_every_part_of_the_key_matters() -> None:
    world, other = WorldId("w"), WorldId("x")
    keys = {
        cache_key(world, "lib", WORDS, "lamp"),
        cache_key(other, "lib", WORDS, "lamp"),
        cache_key(world, "there", WORDS, "lamp"),
        cache_key(world, "lib", WORDS, "Lamp"),
        *(
            cache_key(world, "lib", other_profile(**change), "lamp")
            for change in (
                {"provider": "p"}, {"model": "m"}, {"revision": "r"}, {"dimensions": 65},
                {"query_mode": "q"},
            )
        ),
    }  # fmt: skip

    assert len(keys) == 9
    assert all(len(key) == 64 for key in keys)


@proves("cache.complete-key")
def test_parts_of_the_key_cannot_be_confused() -> None:
    spellings = [
        cache_key(WorldId("ab"), "c", other_profile(provider="d"), "e"),
        cache_key(WorldId("a"), "bc", other_profile(provider="d"), "e"),
        cache_key(WorldId("ab"), "", other_profile(provider="dc"), "e"),
        cache_key(WorldId("ab"), "c", other_profile(provider="d", query_mode="querye"), ""),
    ]

    assert all(one != two for one, two in combinations(spellings, 2))


@proves("cache.other-model-misses")
def test_worlds_and_models_do_not_share_entries(tmp_path: Path, lib: LibraryFixture) -> None:
    one = lib.world("one", a__txt=TEXT)
    two = lib.world("two", a__txt=TEXT)
    one.search("lamp")
    two.search("lamp")
    wide = WordEmbedder(profile=other_profile(model="wide"))
    make_library(tmp_path, embedder=wide).world("three", a__txt=TEXT).search("lamp")

    assert lib.embedder.queries == ["lamp", "lamp"]
    assert wide.queries == ["lamp"]


@proves("cache.bit-identical")
def test_damaged_cached_vector_is_not_used(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=TEXT)
    world.search("lamp")
    lib.sql("UPDATE query_cache SET vector = zeroblob(256)")

    assert world.search("lamp").passages

    assert lib.embedder.queries == ["lamp", "lamp"]


@proves("upkeep.deletion-complete")
def test_query_from_before_an_erasure_is_not_cached(lib: LibraryFixture) -> None:
    """Another process embedded the query before the deletion, and writes its cache afterwards."""
    world, rows = lib.world(a__txt=TEXT, b__txt="A bell."), "SELECT key FROM query_cache"
    world.search("lamp")
    scope, now = lib.scope(world), lib.clock.now()
    [(key,)] = lib.sql(rows)
    entry = lib.store.records.cached_query(scope, key, now=now, ttl=60.0)
    assert entry is not None

    world.documents.delete("b.txt")
    lib.store.records.cache_queries(scope, [entry], now=now)
    assert lib.store.records.cached_query(scope, key, now=now, ttl=60.0) is None

    later = entry._replace(embedded_at=now + 1)
    lib.store.records.cache_queries(scope, [later], now=now + 1)
    assert lib.store.records.cached_query(scope, key, now=now + 1, ttl=60.0) == later
