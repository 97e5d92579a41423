"""Requests to a server: filter, threshold, payload, exactness, consistency, ordering, key."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.index_contract import (
    DOT,
    EAST,
    float32_below,
    leaning,
    new_scope,
    point,
    vector,
)
from tests.promises import proves
from tests.support.providers.loopback import Answer
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.core.clock import SystemClock
from truespan.errors import IndexRefused, IndexUnavailable, InvalidConfiguration
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.types.scope import Scope
from truespan.types.token import Secret
from truespan.types.vectors import Vector

KEY = "a-key-that-nobody-may-see"
QUERY = "/points/query/batch"


@pytest.fixture
def server() -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        yield made


@pytest.fixture
def index(server: QdrantLoopback) -> Iterator[QdrantServerIndex]:
    [made] = opened_once(server)
    yield made
    made.close()


def opened_once(server: QdrantLoopback, **choices: Any) -> list[QdrantServerIndex]:
    return [QdrantServerIndex(ServerOptions(url=server.url, **choices), SystemClock())]


def prepared(index: QdrantServerIndex, scope: Scope | None = None) -> Scope:
    made = scope or new_scope(generation=3)
    index.prepare(made)
    return made


def searched(server: QdrantLoopback) -> list[dict[str, Any]]:
    return server.bodies(QUERY)[-1]["searches"]


# Searches


@proves("search.world-in-request", "search.floor-in-request")
def test_search_request_has_world_documents_and_floor(index, server):
    scope = prepared(index).narrow(documents=[4, 2], chapter="One", section="STRASSE")

    index.search(scope, vector(*EAST), limit=9, floor=0.3)

    assert searched(server) == [
        {
            "query": {"nearest": [1.0, 0.0, 0.0, 0.0]},
            "filter": {
                "must": [
                    {"key": "tenant", "match": {"value": f"{scope.world}.3"}},
                    {"key": "document", "match": {"any": [2, 4]}},
                    {"key": "chapter", "match": {"value": "one"}},
                    {"key": "section", "match": {"value": "strasse"}},
                ]
            },
            "params": {"exact": True, "quantization": {"ignore": True}},
            "limit": 9,
            "score_threshold": float32_below(0.3),
            "with_payload": {"include": ["text_hash"]},
            "with_vector": False,
        }
    ]


@proves("search.world-in-request")
def test_reader_position_bounds_start_and_reach_of_chunks(index, server):
    scope = prepared(index).for_reader(7, 1, 41)

    index.search(scope, vector(*EAST), limit=1, floor=None)

    [asked] = searched(server)
    assert asked["filter"]["must"][1:] == [
        {"key": "document", "match": {"any": [7]}},
        {"key": "pos_start", "range": {"lte": 41.0}},
        {"key": "pos_reach", "range": {"lte": 41.0}},
    ]
    assert "score_threshold" not in asked


def test_named_points_are_requested_under_the_same_conditions(index, server):
    scope = prepared(index)
    named = point(scope, 1, vector(*EAST)).chunk_id

    index.search_with(scope, vector(*EAST), limit=9, floor=0.3, ids=[named])

    assert len(server.bodies(QUERY)) == 1
    best, beside = searched(server)
    assert beside == best | {
        "limit": 1,
        "filter": {"must": [*best["filter"]["must"], {"has_id": [named]}]},
    }


@proves("search.floor-inclusive")
def test_score_that_rounds_down_still_reaches_its_floor(index, server):
    scope = prepared(index, new_scope(DOT))
    at = point(scope, 0, leaning(0.3))
    index.upsert(scope, [at])

    [hit] = index.search(scope, vector(*EAST), limit=5, floor=0.65)

    assert hit.chunk_id == at.chunk_id


@proves("search.floor-inclusive")
@pytest.mark.parametrize(("digits", "kept"), [("0.3", True), ("0.29999998", False)])
def test_scores_are_read_as_the_nearest_float32(index, server, digits, kept):
    scope = prepared(index)
    found = f'{{"id": "{scope.world}", "version": 1, "score": {digits}, "payload": {{}}}}'
    body = f'{{"result": [{{"points": [{found}]}}], "status": "ok", "time": 0.0}}'
    server.fault = lambda _: Answer(body=body.encode())

    hits = index.search(scope, vector(*EAST), limit=5, floor=0.3)

    assert [hit.text_hash for hit in hits] == ([""] if kept else [])


def test_requests_are_small_and_only_sent_if_needed(index, server) -> None:
    scope = prepared(index)
    before = len(server.asked)

    assert index.search(scope.narrow(documents=[]), vector(*EAST), limit=5, floor=None) == []
    assert len(server.asked) == before

    index.upsert(scope, [point(scope, n, vector(*EAST)) for n in range(300)])

    assert [len(body["points"]) for body in server.bodies("/points")] == [128, 128, 44]
    assert index.count(scope) == 300

    index.search(scope, vector(*EAST), limit=3, floor=None)
    index.count(scope)

    assert {one.headers.get("accept-encoding") for one in server.asked} == {"identity"}


# Writes and reads


def test_point_is_sent_with_place_and_hash_without_text(index, server):
    scope = prepared(index)
    made = point(scope, 7, vector(*EAST), chapters=("STRASSE", "One"), sections=("Straße",))

    index.upsert(scope, [made])

    [body] = server.bodies("/points")
    assert body == {
        "points": [
            {
                "id": made.chunk_id,
                "vector": [1.0, 0.0, 0.0, 0.0],
                "payload": {
                    "tenant": f"{scope.world}.3",
                    "document": 1,
                    "text_hash": made.text_hash,
                    "pos_start": 7,
                    "pos_end": 7,
                    "pos_reach": 7,
                    "chapter": ["strasse", "one"],
                    "section": "strasse",
                },
            }
        ]
    }


def test_writes_use_medium_ordering(server):
    [index] = opened_once(server)
    scope = prepared(index)
    made = point(scope, 1, vector(*EAST))

    index.upsert(scope, [made])
    index.delete_stale(scope, [(made.chunk_id, made.text_hash)])
    index.delete(scope, [made.chunk_id])
    index.drop(scope)
    index.close()

    writes = [one.path.partition("?") for one in server.asked if "/points" in one.path]
    writes = [(path.rpartition("/")[2], query) for path, _, query in writes if "count" not in path]
    assert [path for path, _ in writes] == ["points", "batch", "delete", "delete"]
    assert {frozenset(query.split("&")) for _, query in writes} == {
        frozenset({"wait=true", "ordering=medium"})
    }


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_infinite_vector_is_refused(index, server, number):
    scope = prepared(index)
    odd = point(scope, 1, vector(number, 0.0, 0.0, 0.0))

    with pytest.raises(IndexRefused, match="not finite"):
        index.upsert(scope, [point(scope, 2, vector(*EAST)), odd])

    assert server.bodies("/points") == []


@proves("repair.conditional")
def test_stale_point_is_compared_and_removed_in_one_request(index, server):
    scope = prepared(index)
    stale = point(scope, 1, vector(*EAST))

    index.delete_stale(scope, [(stale.chunk_id, stale.text_hash)])

    [body] = server.bodies("/points/batch")
    assert body["operations"] == [
        {
            "delete": {
                "filter": {
                    "must": [
                        {"key": "tenant", "match": {"value": scope.tenant}},
                        {"has_id": [stale.chunk_id]},
                        {"key": "text_hash", "match": {"value": stale.text_hash}},
                    ]
                }
            }
        }
    ]


def test_requests_about_points_name_the_tenant_first(index, server):
    scope = prepared(index)
    made = point(scope, 1, vector(*EAST))
    index.upsert(scope, [made])
    server.asked.clear()

    index.search(scope, vector(*EAST), limit=1, floor=None)
    list(index.scan(scope))
    index.read(scope, [made.chunk_id])
    index.count(scope)
    index.delete(scope, [made.chunk_id])
    index.drop(scope)
    index.drop_tenant(scope, "somebody.9")

    filters = [found for one in server.asked for found in _filters(one.content)]
    named = [one["must"][0] for one in filters]
    assert [one["key"] for one in named] == ["tenant"] * 7
    assert [one["match"]["value"] for one in named] == [scope.tenant] * 6 + ["somebody.9"]


def _filters(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [one["filter"] for one in body.get("searches", [body])]


@pytest.mark.parametrize("vector_sent", [["a", "b"], None, [[1.0]], {"x": [1.0]}, [None]])
def test_invalid_point_is_read_without_the_invalid_parts(index, server, vector_sent):
    scope = prepared(index)
    odd = {"id": scope.world, "payload": {"text_hash": 5, "document": "1"}, "vector": vector_sent}
    reply = {"result": {"points": [odd], "next_page_offset": None}, "status": "ok", "time": 0}
    server.fault = lambda _: Answer(content=reply)

    [[found]] = index.scan(scope)

    assert (found.text_hash, found.place, found.vector) == (None, None, Vector(b""))


# The key


def test_key_is_sent_with_each_request_and_never_shown(server):
    [index] = opened_once(server, key=Secret(KEY))
    index.search(prepared(index), vector(*EAST), limit=1, floor=None)
    index.close()

    assert {one.headers.get("api-key") for one in server.asked} == {KEY}
    assert KEY not in repr(ServerOptions(url=server.url, key=Secret(KEY)))


@proves("errors.no-secrets")
@pytest.mark.parametrize("mark", ["\n", "\x00", "é", "\u2028"])
def test_key_that_cannot_be_sent_is_refused_without_quoting(server, mark):
    [index] = opened_once(server, key=Secret(f"{KEY}{mark}{KEY}"))

    with pytest.raises(InvalidConfiguration) as caught:
        index.collections()
    index.close()

    assert KEY not in f"{caught.value} {caught.value!r}"
    assert server.asked == []


def test_threads_can_share_one_index(index, server):
    scope = prepared(index)
    points = [point(scope, n, leaning(n / 20)) for n in range(20)]

    def work(number: int) -> str:
        index.upsert(scope, [points[number]])
        [hit] = index.search(scope, points[number].vector, limit=1, floor=0.999999)
        return hit.chunk_id

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(20)))

    assert found == [one.chunk_id for one in points]
    assert index.count(scope) == 20


def test_accepted_write_that_is_not_completed_is_an_error(index, server):
    scope = prepared(index)
    reply = {"result": {"operation_id": 1, "status": "acknowledged"}, "status": "ok", "time": 0}
    server.fault = lambda _: Answer(content=reply)

    with pytest.raises(IndexUnavailable, match="not completed it"):
        index.upsert(scope, [point(scope, 1, vector(*EAST))])
