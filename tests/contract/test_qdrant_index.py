"""The server's adapter keeps the contract: on the client library's own engine, by REST,
and on a real server where QDRANT_URL names one."""

import os
from collections.abc import Iterator
from math import sin
from uuid import uuid4

import pytest
from qdrant_client import QdrantClient

from tests.contract.index_contract import (
    EAST,
    IndexContract,
    float32_below,
    found,
    leaning,
    point,
    vector,
)
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.worlds import ManualClock
from truespan.core.clock import SystemClock
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.types.token import Secret
from truespan.types.vectors import numbers_of

pytestmark = pytest.mark.filterwarnings("ignore:.*ocal:UserWarning")
"""The local engine warns that it has no payload indexes and is always exact."""


REAL = os.environ.get("QDRANT_URL", "")


@pytest.fixture(scope="module")
def in_memory() -> Iterator[QdrantServerIndex]:
    options = ServerOptions(url="http://127.0.0.1:6333")
    index = QdrantServerIndex(options, ManualClock(), client=QdrantClient(":memory:"))
    yield index
    index.close()


@pytest.fixture(scope="module")
def over_rest() -> Iterator[QdrantServerIndex]:
    with QdrantLoopback() as server:
        index = QdrantServerIndex(ServerOptions(url=server.url), SystemClock())
        yield index
        index.close()


@pytest.fixture(scope="module")
def on_a_server() -> Iterator[QdrantServerIndex]:
    prefix, key = f"test_{uuid4().hex[:8]}_", Secret(os.environ.get("QDRANT_API_KEY", ""))
    options = ServerOptions(url=REAL, key=key, prefix=prefix)
    index = QdrantServerIndex(options, SystemClock())
    yield index
    for profile in index.collections():
        index.discard(profile)
    index.close()


class TestLocalMode(IndexContract):
    """The client library's engine, called directly.

    It scales normalised vectors again, which a server does not, so the last bits change. Two tests
    allow for that.
    """

    @pytest.fixture
    def index(self, in_memory: QdrantServerIndex) -> QdrantServerIndex:
        return in_memory

    @pytest.mark.parametrize("floor", [0.0, 0.15, 0.6, 0.9, 1.0])
    def test_cosine_at_the_floor_is_kept_and_below_is_not(self, index, scope, floor):
        at = point(scope, 0, leaning(floor))
        below = point(scope, 1, leaning(float32_below(floor) if floor else -1e-6))
        index.upsert(scope, [at, below])

        assert found(index, scope, vector(*EAST), floor=floor) == [at.chunk_id]

    def test_scan_yields_each_point_once_with_its_exact_vector(self, index, scope):
        points = [point(scope, n, leaning(sin(n))) for n in range(600)]
        index.upsert(scope, points)

        pages = list(index.scan(scope))
        scanned = {p.chunk_id: p for page in pages for p in page}

        assert len(pages) > 1
        assert sum(map(len, pages)) == 600
        for sent in points:
            back = scanned[sent.chunk_id]
            assert back.text_hash == sent.text_hash
            assert numbers_of(back.vector) == pytest.approx(numbers_of(sent.vector), abs=1e-6)


class TestRest(IndexContract):
    """The contract, over REST with a loopback server."""

    @pytest.fixture
    def index(self, over_rest: QdrantServerIndex) -> QdrantServerIndex:
        return over_rest


@pytest.mark.skipif(not REAL, reason="QDRANT_URL names no server")
class TestServer(IndexContract):
    """The contract, on a real server."""

    @pytest.fixture
    def index(self, on_a_server: QdrantServerIndex) -> QdrantServerIndex:
        return on_a_server
