"""By gRPC the same is asked and the same goes wrong; the contract runs in test_qdrant_index."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc as transport
import pytest
from msgspec.structs import replace
from qdrant_client import grpc

from tests.contract.index_contract import COSINE, EAST, float32_below, new_scope, point, vector
from tests.promises import proves
from tests.support.certificates import make_certificate
from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction
from tests.support.qdrant_grpc_loopback import QdrantGrpcLoopback
from truespan.core.clock import SystemClock
from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexUnavailable,
    InvalidConfiguration,
    TruespanError,
)
from truespan.index.server import ServerOptions
from truespan.index.server.index import QdrantServerIndex
from truespan.types.scope import Scope
from truespan.types.token import Secret

KEY = "a-key-that-nobody-may-see"


@pytest.fixture
def server() -> Iterator[QdrantGrpcLoopback]:
    with QdrantGrpcLoopback() as made:
        yield made


@pytest.fixture
def index(server: QdrantGrpcLoopback) -> Iterator[QdrantServerIndex]:
    options = ServerOptions(
        "http://127.0.0.1:1",
        Secret(KEY),
        grpc=True,
        grpc_port=server.port,
        read_consistency="all",
        write_ordering="strong",
        shards=2,
    )
    made = QdrantServerIndex(options, SystemClock())
    yield made
    made.close()


@pytest.fixture
def scope(index: QdrantServerIndex) -> Scope:
    made = new_scope()
    index.prepare(made)
    return made


def test_search_is_exact_with_scope_threshold_and_consistency(index, server, scope):
    index.search(scope.narrow(documents=[4]), vector(*EAST), limit=9, floor=0.3)

    [batch] = server.to("QueryBatchPoints")
    [asked] = batch.query_points
    tenant, document = (one.field for one in asked.filter.must)
    assert (tenant.key, tenant.match.keyword) == ("tenant", scope.tenant)
    assert (document.key, list(document.match.integers.integers)) == ("document", [4])
    assert (asked.params.exact, asked.params.quantization.ignore) == (True, True)
    assert (asked.limit, asked.score_threshold) == (9, float32_below(0.3))
    assert list(asked.with_payload.include.fields) == ["text_hash"]
    assert batch.read_consistency.type == grpc.ReadConsistencyType.All


def test_writes_wait_and_keep_the_order_that_was_chosen(index, server, scope):
    made = point(scope, 1, vector(*EAST))
    index.upsert(scope, [made])
    index.delete(scope, [made.chunk_id])
    index.delete_stale(scope, [(made.chunk_id, made.text_hash)])

    kinds = ("UpsertPoints", "DeletePoints", "UpdateBatchPoints")
    writes: list[Any] = [one for kind in kinds for one in server.to(kind)]
    assert [one.wait for one in writes] == [True] * 3
    assert {one.ordering.type for one in writes} == {grpc.WriteOrderingType.Strong}


def test_a_collection_is_made_as_by_rest(index, server, scope):
    made = server.rest.made[f"truespan_{COSINE.id}"]

    assert (made.shard_number, made.strict_mode_config.enabled) == (2, True)
    assert made.strict_mode_config.unindexed_filtering_update is False
    assert server.rest.indexes[f"truespan_{COSINE.id}"]["tenant"]["is_tenant"] is True


def test_the_key_goes_with_every_call(index, server, scope):
    index.count(scope)

    assert set(server.keys) == {KEY}


def test_counts_use_the_consistency_of_reads(index, server, scope):
    index.count(scope)

    counts = server.to("CountPoints")
    assert counts
    assert {one.read_consistency.type for one in counts} == {grpc.ReadConsistencyType.All}


def test_a_certificate_that_is_not_trusted_is_a_wrong_setting(tmp_path):
    certificate = make_certificate(tmp_path)
    with QdrantGrpcLoopback(certificate=certificate) as encrypted:
        options = ServerOptions("https://127.0.0.1:1", grpc=True, grpc_port=encrypted.port)
        trusting = replace(options, ca_file=Path(f"{certificate}.crt"))
        for chosen, refused in ((options, True), (trusting, False)):
            index = QdrantServerIndex(chosen, SystemClock())
            if refused:
                with pytest.raises(InvalidConfiguration, match=r"certificate .* not trusted"):
                    index.collections()
            else:
                assert index.collections() == []
            index.close()


def test_channel_with_a_wrong_setting_names_it(tmp_path):
    certificate = make_certificate(tmp_path)
    trusted = Path(f"{certificate}.crt")
    with (
        QdrantGrpcLoopback(certificate=certificate) as encrypted,
        QdrantGrpcLoopback() as plain,
    ):
        for url, port, reason in (
            (
                "https://localhost:1",
                encrypted.port,
                r"localhost:\d+ is for another host",
            ),
            ("http://127.0.0.1:1", encrypted.port, "speaks TLS, and index_url says http:"),
            ("https://127.0.0.1:1", plain.port, "speaks no TLS, and index_url says https:"),
        ):
            options = ServerOptions(url, grpc=True, grpc_port=port, ca_file=trusted)
            index = QdrantServerIndex(options, SystemClock())
            with pytest.raises(InvalidConfiguration, match=reason):
                index.collections()
            index.close()


def test_channel_failures_are_told_in_words():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for url, grpc_port, reason in (
            ("http://127.0.0.1:1", 9, "server 127.0.0.1:9 cannot be reached."),
            ("http://127.0.0.1:1", port, f"server 127.0.0.1:{port} did not answer in time."),
            (
                "http://node.invalid",
                9,
                "node.invalid:9 cannot be reached: its name does not",
            ),
        ):
            options = ServerOptions(url, grpc=True, grpc_port=grpc_port, timeout_seconds=2)
            index = QdrantServerIndex(options, SystemClock())
            with pytest.raises(IndexUnavailable, match=reason):
                index.collections()
            index.close()


class Elsewhere(Loopback):
    """A server that nobody should ask."""

    def answer(self, asked: Asked) -> Reaction:
        return Answer(content={})


@proves("http.outbound-urls")
def test_proxies_of_the_environment_are_not_used(server, index, monkeypatch):
    with Elsewhere() as other:
        for name in ("grpc_proxy", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, other.url)
        for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)

        assert index.collections() == []
        assert other.connections == 0


@proves("errors.provider-or-index", "errors.no-secrets")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (transport.StatusCode.UNAVAILABLE, IndexUnavailable),
        (transport.StatusCode.INTERNAL, IndexUnavailable),
        (transport.StatusCode.RESOURCE_EXHAUSTED, IndexUnavailable),
        (transport.StatusCode.UNAUTHENTICATED, IndexKeyRefused),
        (transport.StatusCode.PERMISSION_DENIED, IndexKeyRefused),
        (transport.StatusCode.INVALID_ARGUMENT, IndexRefused),
        (transport.StatusCode.NOT_FOUND, IndexRefused),
    ],
    ids=str,
)
def test_what_a_channel_answers_is_told_as_what_it_is(
    index, server, scope, code, kind: type[TruespanError]
):
    server.fault = code

    with pytest.raises(kind) as caught:
        index.search(scope, vector(*EAST), limit=1, floor=None)

    assert KEY not in str(caught.value)
    assert "what the server says" not in str(caught.value)
    assert code.name not in str(caught.value)
