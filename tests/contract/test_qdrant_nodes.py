"""Several nodes of a Qdrant cluster: a dead node is passed over, and no write is sent twice."""

from __future__ import annotations

import pytest

from tests.contract.index_contract import leaning, new_scope, point
from tests.support.providers.loopback import Raw
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.errors import IndexUnavailable, InvalidConfiguration
from truespan.index.server import ServerOptions, server_targets
from truespan.index.server.index import QdrantServerIndex
from truespan.system import SystemClock
from truespan.types.scope import Scope

GONE = "http://127.0.0.1:9"


def filled(server: QdrantLoopback) -> Scope:
    """Fill a node, as its cluster would have done."""
    index, scope = QdrantServerIndex(ServerOptions(server.url), SystemClock()), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 1, leaning(0.5))])
    index.close()
    return scope


def found(index: QdrantServerIndex, scope: Scope) -> int:
    return len(index.search(scope, leaning(0.5), limit=5, floor=None))


def test_requests_go_to_the_next_node_when_one_is_gone() -> None:
    with QdrantLoopback() as alive:
        scope = filled(alive)
        index = QdrantServerIndex(ServerOptions(f"{GONE}, {alive.url}"), SystemClock())
        assert found(index, scope) == 1
        # Nothing of a write was sent to the node that is gone.
        index.upsert(scope, [point(scope, 2, leaning(0.4))])
        assert found(index, scope) == 2
        hosts = {asked.headers["host"] for asked in alive.asked}
        index.close()
        assert hosts == {alive.url.removeprefix("http://")}


def test_a_read_that_fails_on_the_way_is_sent_to_the_next_node_and_a_write_is_not() -> None:
    with QdrantLoopback() as first, QdrantLoopback() as second:
        scope = filled(second)
        index = QdrantServerIndex(ServerOptions(f"{first.url},{second.url}"), SystemClock())
        first.fault = lambda _: Raw()
        assert found(index, scope) == 1
        # From now on the second node is asked first.
        before = len(first.asked)
        assert found(index, scope) == 1
        assert len(first.asked) == before
        second.fault = lambda _: Raw()
        with pytest.raises(IndexUnavailable):
            index.upsert(scope, [point(scope, 3, leaning(0.3))])
        assert len(first.asked) == before
        index.close()


def test_nodes_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="all https"):
        server_targets("http://one:6333, https://two:6333")
    with pytest.raises(InvalidConfiguration, match="index_url must be"):
        server_targets("http://one:6333,")
    several = ServerOptions("http://127.0.0.1:1,http://127.0.0.1:2", grpc=True)
    with pytest.raises(InvalidConfiguration, match="need REST"):
        QdrantServerIndex(several, SystemClock()).collections()
