"""Collections on a server: creation, sharing, completion and erasure; approximate search."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from qdrant_client import models

from tests.contract.index_contract import COSINE, EAST, new_scope, vector
from tests.contract.test_qdrant_requests import opened_once, prepared, searched
from tests.promises import proves
from tests.support.providers.loopback import Answer, Raw
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.rows import each_row
from tests.support.worlds import ManualClock
from truespan.errors import IndexUnavailable
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex


@pytest.fixture
def server() -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        yield made


@pytest.fixture
def index(server: QdrantLoopback) -> Iterator[QdrantServerIndex]:
    [made] = opened_once(server)
    yield made
    made.close()


# Approximate search


@proves("search.non-interference")
def test_only_named_worlds_are_searched_approximately(server):
    named, other = new_scope(), new_scope()
    [index] = opened_once(server, approximate=frozenset({named.world}))
    index.prepare(named)

    index.search(named, vector(*EAST), limit=5, floor=None)
    approximate = searched(server)[0]["params"]
    index.search(other, vector(*EAST), limit=5, floor=None)
    exact = searched(server)[0]["params"]
    index.close()

    assert approximate == {
        "hnsw_ef": 256,
        "exact": False,
        "quantization": {"ignore": False, "rescore": True, "oversampling": 3.0},
    }
    assert exact == {"exact": True, "quantization": {"ignore": True}}
    assert (index.approximate(named), index.approximate(other)) == (True, False)


def test_reading_is_exact_even_in_approximate_worlds(server):
    scope = new_scope()
    [index] = opened_once(server, approximate=frozenset({scope.world}))
    index.prepare(scope)
    reader = scope.for_reader(1, 1, 10)

    index.search(reader, vector(*EAST), limit=5, floor=None)
    index.close()

    assert searched(server)[0]["params"]["exact"] is True
    assert not index.approximate(reader)


def test_graph_is_added_when_a_world_is_named_later(server):
    scope = new_scope()
    [before] = opened_once(server)
    before.prepare(scope)
    before.close()
    made = server.made[f"truespan_{COSINE.id}"]

    for _ in range(2):
        [after] = opened_once(server, approximate=frozenset({scope.world}))
        after.prepare(scope)
        after.close()

    assert (made.hnsw_config.m, made.hnsw_config.payload_m) == (0, 0)
    assert made.quantization_config is None
    [change] = server.changed[f"truespan_{COSINE.id}"]
    assert (change.hnsw_config.m, change.hnsw_config.payload_m) == (0, 16)
    assert change.quantization_config.scalar.type == "int8"


def test_new_world_is_searched_exactly_until_it_has_a_graph(server):
    scope = new_scope()
    [before] = opened_once(server)
    before.prepare(scope)
    before.close()

    def read_only(asked):
        return Answer(403, {}) if asked.method == "PATCH" else None

    server.fault = read_only
    [limited] = opened_once(server, approximate=frozenset({scope.world}))
    limited.search(scope, vector(*EAST), limit=5, floor=None)
    exact, warned = searched(server)[0]["params"]["exact"], limited.approximate(scope)
    limited.close()
    server.fault = None
    [allowed] = opened_once(server, approximate=frozenset({scope.world}))
    allowed.search(scope, vector(*EAST), limit=5, floor=None)

    assert (exact, warned) == (True, False)
    assert (searched(server)[0]["params"]["exact"], allowed.approximate(scope)) == (False, True)
    allowed.close()


# Collections


@proves("index.payload-indexes", "index.collection-per-model")
def test_collection_is_strict_and_indexes_every_filtered_field(server):
    [index] = opened_once(server, prefix="mine-")

    empty = index.prepare(new_scope())
    index.close()

    name = f"mine-{COSINE.id}"
    made = server.made[name]
    assert empty
    assert (made.vectors.size, made.vectors.distance) == (4, "Cosine")
    # The server decides.
    assert made.shard_number is made.replication_factor is made.write_consistency_factor is None
    assert made.strict_mode_config.model_dump(exclude_none=True) == {
        "enabled": True,
        "unindexed_filtering_retrieve": False,
        "unindexed_filtering_update": False,
        "search_allow_exact": True,
    }
    kinds = {field: params["type"] for field, params in server.indexes[name].items()}
    assert kinds == {
        **dict.fromkeys(["tenant", "chapter", "section", "kind", "text_hash"], "keyword"),
        **dict.fromkeys(["document", "pos_start", "pos_end", "pos_reach"], "integer"),
    }
    tenants = [field for field, params in server.indexes[name].items() if params.get("is_tenant")]
    assert tenants == ["tenant"]


def test_collection_created_by_another_process_is_used(index, server):
    scope = new_scope()
    name = f"truespan_{COSINE.id}"

    def overtaken(asked):
        if asked.method == "PUT" and asked.path == f"/collections/{name}":
            server.fault = None
            assert server.answer(asked).status == 200

    server.fault = overtaken

    assert index.prepare(scope)
    assert index.count(scope) == 0


def test_prepare_waits_for_replicas_of_a_collection(server):
    clock = ManualClock()
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        clock.time += seconds
        if len(naps) == 3:
            server.fault = None

    clock.sleep = sleep
    index = QdrantServerIndex(ServerOptions(url=server.url), clock)
    message = "Service internal error: 0 of 0 read operations failed"
    reply = Answer(500, {"status": {"error": message}, "time": 0.0})
    server.fault = lambda asked: reply if asked.path.endswith("/points/count") else None

    assert index.prepare(new_scope())
    assert len(naps) == 3

    # The wait is limited.
    server.fault = lambda asked: reply if asked.path.endswith("/points/count") else None
    with pytest.raises(IndexUnavailable, match="no replica of it is ready"):
        index.prepare(new_scope(replace(COSINE, model="other")))
    index.close()


def test_foreign_collections_are_neither_listed_nor_removed(index, server):
    prepared(index)
    [other] = opened_once(server, prefix="other_")
    other.prepare(new_scope())
    other.close()
    # The name of a profile with another prefix.
    server.made["0123456789abcdef"] = server.made[f"other_{COSINE.id}"]

    assert index.collections() == [COSINE.id]
    index.discard(COSINE.id)

    assert set(server.made) == {f"other_{COSINE.id}", "0123456789abcdef"}


def test_collection_is_prepared_again_after_a_failure(index, server):
    scope = prepared(index)
    assert not index.prepare(scope)
    server.fault = lambda _: Answer(503, {})
    with pytest.raises(IndexUnavailable):
        index.count(scope)
    server.fault = None
    server.lose_everything()

    assert index.prepare(scope)


# Durability


def test_server_that_failed_a_write_is_not_flushed(index, server):
    scope = prepared(index)

    server.status = "red"

    with pytest.raises(IndexUnavailable, match="A write failed"):
        index.flush(scope)


def test_erasing_rewrites_segments_and_restores_settings(index, server):
    scope = prepared(index)
    name = f"truespan_{COSINE.id}"
    own = models.OptimizersConfigDiff(deleted_threshold=0.7, vacuum_min_vector_number=4321)
    server.changed[name].append(models.UpdateCollection(optimizers_config=own))

    index.erase(scope.profile)
    index.erase(replace(scope.profile, model="never made"))

    eager, usual = (
        change.optimizers_config.model_dump(exclude_none=True)
        for change in server.changed[name][1:]
    )
    assert eager == {"deleted_threshold": 0.0, "vacuum_min_vector_number": 100}
    assert usual == {"deleted_threshold": 0.7, "vacuum_min_vector_number": 4321}


def test_erasing_continues_after_a_server_restart(server):
    clock = ManualClock()
    clock.sleep = lambda seconds: setattr(clock, "time", clock.time + seconds)
    index = QdrantServerIndex(ServerOptions(url=server.url), clock)
    scope = prepared(index)
    changed = server.changed[f"truespan_{COSINE.id}"]
    server.status = "yellow"
    with pytest.raises(IndexUnavailable, match="still rewriting"):
        index.erase(scope.profile)
    begun = len(changed)

    def restarted(asked):
        # The rewrite begins with the next change of settings.
        if asked.method == "PATCH":
            server.status = "green"

    server.status, server.fault = "grey", restarted
    index.erase(scope.profile)
    index.close()

    assert [one.optimizers_config.deleted_threshold for one in changed[begun - 1 :]] == [0, 0, 0.2]


def test_slow_erasing_continues_and_is_not_restarted(server):
    clock = ManualClock()
    clock.sleep = lambda seconds: setattr(clock, "time", clock.time + seconds)
    index = QdrantServerIndex(ServerOptions(url=server.url), clock)
    scope = prepared(index)
    changed = server.changed[f"truespan_{COSINE.id}"]

    server.status = "yellow"
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="still rewriting"):
            index.erase(scope.profile)
    under_way = len(changed)
    server.status = "green"
    index.erase(scope.profile)
    index.close()

    assert under_way == 1
    assert [one.optimizers_config.deleted_threshold for one in changed] == [0.0, 0.2]


@each_row("stuck", ["yellow", "grey"])
def test_erasures_wait_once_for_a_rewrite_that_does_not_end(stuck: str) -> None:
    """Several processes request a rewrite for each deletion; the server is killed twice."""
    clock = ManualClock()
    clock.sleep = lambda seconds: setattr(clock, "time", clock.time + seconds)
    start = clock.time
    with QdrantLoopback() as server:
        server.status = stuck
        for deletion in range(8):
            index = QdrantServerIndex(ServerOptions(url=server.url), clock)
            scope = prepared(index)
            server.fault = (lambda _: Raw()) if deletion in (2, 4) else None
            with pytest.raises(IndexUnavailable):
                index.erase(scope.profile)
            server.fault = None
            index.close()
        server.status = "green"
        index = QdrantServerIndex(ServerOptions(url=server.url), clock)
        index.erase(prepared(index).profile)
        index.close()
        settings = [one.optimizers_config for one in server.changed[f"truespan_{COSINE.id}"]]

    assert clock.time - start < 120
    assert settings[-1] == models.OptimizersConfigDiff(
        deleted_threshold=0.2, vacuum_min_vector_number=1000
    )


def test_erasing_does_not_wait_for_a_collection_that_failed(server) -> None:
    index = QdrantServerIndex(ServerOptions(url=server.url), clock := ManualClock())
    scope = prepared(index)
    server.status = "red"

    with pytest.raises(IndexUnavailable, match="A write failed"):
        index.erase(scope.profile)
    index.close()

    assert clock.slept == []
