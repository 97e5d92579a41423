"""The embedder for OpenAI-compatible servers: requests and accepted replies.

The contract runs against a loopback server that speaks the protocol and, where `OPENAI_TEST_URL` is
set (with `OPENAI_TEST_MODEL` and perhaps `OPENAI_TEST_KEY`), against the server that is there.
Faults are injected in the loopback server only.
"""

import math
import os
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.embedder_contract import EmbedderContract, numbers
from tests.contract.keyed_parts import KEY, PASSAGES, SECRET, failure_of, ring_of
from tests.promises import proves
from tests.support.providers import Answer, OpenAi, PassingClock
from tests.support.providers.cooldowns import keyless_ring
from tests.support.providers.embedders import make_embedder
from tests.support.providers.openai import complaint
from tests.support.worlds import WordCounter, similarity, vector_of
from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TextTooLong,
)
from truespan.providers.embedder import PROBE
from truespan.providers.openai import OpenAiEmbedder


@pytest.fixture
def server() -> Iterator[OpenAi]:
    with OpenAi() as started:
        yield started


def embedder_of(server: OpenAi, model: str | None = None, **changes: Any) -> OpenAiEmbedder:
    clock = PassingClock()
    given: dict[str, Any] = {
        "keys": ring_of("openai", KEY, clock=clock),
        "dimensions": None,
        "counter": WordCounter(),
        "clock": clock,
    }
    return make_embedder(OpenAiEmbedder, server.base, model or server.model, **given | changes)


def learnt(server: OpenAi, **changes: Any) -> OpenAiEmbedder:
    embedder = embedder_of(server, **changes)
    assert embedder.profile
    server.asked.clear()
    return embedder


# The contract, on the loopback server and on a real one


@pytest.fixture(params=["loopback", "real"])
def embedder(request: pytest.FixtureRequest) -> Iterator[OpenAiEmbedder]:
    if request.param == "loopback":
        with OpenAi(context=512) as started:
            yield embedder_of(started)
        return
    if not os.environ.get("OPENAI_TEST_URL"):
        pytest.skip("OPENAI_TEST_URL is not set; the contract was not tried on a real server")
    key = os.environ.get("OPENAI_TEST_KEY")
    clock = PassingClock()
    yield make_embedder(
        OpenAiEmbedder,
        os.environ["OPENAI_TEST_URL"],
        os.environ.get("OPENAI_TEST_MODEL", "text-embedding-3-small"),
        keys=ring_of("openai", key) if key else keyless_ring(clock),
        dimensions=None,
        counter=WordCounter(),
        clock=clock,
    )


class TestContract(EmbedderContract):
    provider = "openai"
    embedder_of = staticmethod(embedder_of)


# What is asked


@proves("embedding.query-and-document-modes")
def test_texts_are_one_list_and_the_key_is_in_one_header(server: OpenAi) -> None:
    embedder = learnt(server)

    embedder.embed_documents(PASSAGES)
    embedder.embed_query("who did it?")

    first, second = server.asked
    assert (first.method, first.path) == ("POST", "/v1/embeddings")
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.content == {"model": server.model, "input": PASSAGES, "encoding_format": "float"}
    assert second.content["input"] == ["who did it?"]
    assert KEY not in first.path + first.body.decode()


def test_server_without_keys_gets_no_key(server: OpenAi) -> None:
    embedder_of(server, keys=keyless_ring(PassingClock())).embed_query("q")

    assert all("authorization" not in asked.headers for asked in server.asked)


def test_dimensions_are_sent_or_a_configuration_error(server: OpenAi) -> None:
    embedder = embedder_of(server, dimensions=16)

    vectors = [*embedder.embed_documents(PASSAGES), embedder.embed_query("q")]

    assert [asked["dimensions"] for asked in server.embeds] == [16, 16, 16]
    assert embedder.profile.dimensions == 16
    for vector in vectors:
        assert math.hypot(*numbers(vector)) == pytest.approx(1, abs=1e-6)

    with pytest.raises(InvalidConfiguration, match=r"returns 64 dimensions, but \w+ is 128"):
        embedder_of(server, dimensions=128).embed_query("q")


@proves("embedding.input-types", "embedding.query-and-document-modes")
def test_open_model_gets_the_prefixes_of_its_family() -> None:
    with OpenAi(model="nomic-ai/nomic-embed-text-v1.5") as server:
        embedder = learnt(server)
        embedder.embed_documents(["the tide"])
        embedder.embed_query("the tide")

        assert [asked["input"] for asked in server.embeds] == [
            ["search_document: the tide"],
            ["search_query: the tide"],
        ]
        assert embedder.profile.document_mode != embedder.profile.query_mode
        assert embedder.count_query("the tide") == 3


@proves("embedding.no-silent-truncation")
@pytest.mark.parametrize(
    ("model", "given", "limit", "items"),
    [
        ("text-embedding-3-small", None, 8191, 256), ("text-embedding-3-large", None, 8191, 256),
        ("BAAI/bge-small-en-v1.5", None, 510, 32), ("nomic-embed-text", None, 509, 32),
        ("BAAI/bge-m3", 8192, 8192, 32),
    ],
)  # fmt: skip
def test_limits_of_known_models_are_used(
    model: str, given: int | None, limit: int, items: int
) -> None:
    with OpenAi(model=model) as server:
        embedder = embedder_of(server, input_limit=given)

        assert embedder.profile.input_limit == limit
        assert embedder.limits.items == items


# What is believed


@proves("embedding.vector-per-input", "embedding.count-and-canary")
def test_vectors_are_matched_by_index(server: OpenAi) -> None:
    embedder = learnt(server)
    true = [list(array("f", vector_of(text))) for text in PASSAGES]
    entries = [{"index": place, "embedding": vector} for place, vector in enumerate(true)]
    server.fault = lambda asked: Answer(content={"data": entries[::-1], "model": server.model})

    found = embedder.embed_documents(PASSAGES)

    for vector, text in zip(found, PASSAGES, strict=True):
        assert similarity(vector, vector_of(text)) > 0.999999

    entries = [{"embedding": [0.1] * 64}] * 3
    server.fault = lambda asked: Answer(content={"data": entries, "model": server.model})

    failure_of(lambda: embedder.embed_documents(PASSAGES), ProviderBadReply)


@proves("embedding.count-and-canary")
@pytest.mark.parametrize(
    "indexes",
    [[0, 1, 1], [0, 1, 3], [-1, 0, 1], [1, 2, 3], [0, 1], [0, 1, 2, 3], [None, 1, 2], ["0", 1, 2]],
)
def test_missing_repeated_or_invalid_index_is_a_bad_reply(
    server: OpenAi, indexes: list[Any]
) -> None:
    embedder = learnt(server)
    entries = [{"index": index, "embedding": [0.1] * 64} for index in indexes]
    server.fault = lambda asked: Answer(content={"data": entries, "model": server.model})

    failure_of(lambda: embedder.embed_documents(PASSAGES), ProviderBadReply)


def test_another_model_or_endpoint_is_detected(server: OpenAi) -> None:
    embedder = learnt(server)
    server.reported = "text-embedding-3-small-v2"

    failure_of(lambda: embedder.embed_query(SECRET), ProfileMismatch)
    failure_of(lambda: embedder.embed_documents([SECRET]), ProfileMismatch)

    assert embedder_of(server).profile.id != embedder.profile.id

    with OpenAi() as other:
        assert embedder_of(server).endpoint != embedder_of(other).endpoint


def test_profile_is_read_once_and_again_after_a_failure(server: OpenAi) -> None:
    embedder = embedder_of(server)
    server.fault = lambda asked: complaint(503, "overloaded")
    with pytest.raises(ProviderUnavailable):
        assert embedder.profile
    server.fault = None

    for _ in range(3):
        assert embedder.profile.dimensions == 64

    assert [asked["input"] for asked in server.embeds] == [[PROBE], [PROBE]]


# Complaints


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (complaint(400, "maximum context length is 8192", code="x"), TextTooLong),
        (complaint(400, "no", code="context_length_exceeded"), TextTooLong),
        (complaint(500, "input is too large to process. increase the physical"), TextTooLong),
        (complaint(500, "input (700 tokens) is larger than the max context size"), TextTooLong),
        (
            Answer(413, {"error": "`inputs` must have less than 512 tokens"}),
            "provider_batch_too_large",
        ),
        (Answer(422, {"error": "`inputs` must have less than 512 tokens"}), TextTooLong),
        (
            Answer(422, {"error": "batch size 33 > maximum allowed batch size 32"}),
            "provider_batch_too_large",
        ),
        (
            complaint(400, "Requested 310000, max 300000 tokens per request"),
            "provider_batch_too_large",
        ),
        (complaint(400, "no", code="max_tokens_per_request"), "provider_batch_too_large"),
        (complaint(400, "no", code="array_above_max_length"), "provider_batch_too_large"),
        (complaint(429, "Request too large for x on tokens per min"), "provider_batch_too_large"),
        (Answer(413, body=b"<html>nginx", content_type="text/html"), "provider_batch_too_large"),
        (complaint(404, "The model `x` does not exist"), ModelUnavailable),
        (complaint(400, "no", code="model_not_found"), ModelUnavailable),
        (Answer(404, {"message": "model butlersecret not found"}), ModelUnavailable),
        (Answer(404, body=b"404 page not found", content_type="text/plain"), ProviderRefused),
        (complaint(400, f"invalid: {SECRET} {KEY}"), ProviderRefused),
        (complaint(500, f"broken: {SECRET} {KEY}"), ProviderUnavailable),
    ],
)
def test_each_error_reply_has_its_error_and_no_retry(server: OpenAi, answer: Answer, kind: Any):
    embedder = learnt(server)
    server.fault = lambda asked: answer

    failure_of(lambda: embedder.embed_documents([SECRET]), kind)

    assert len(server.asked) == 1


# Keys


@proves("errors.bad-key-configuration")
def test_without_a_key_nothing_is_sent(server: OpenAi) -> None:
    embedder = embedder_of(server, keys=ring_of("openai"))

    error = failure_of(lambda: embedder.embed_query(SECRET), "credentials_missing")

    assert server.model in error.message
    assert server.asked == []


@proves("errors.no-secrets")
def test_keys_are_denied_and_replaced() -> None:
    with OpenAi(keys=("good",)) as server:
        embedder = embedder_of(server, keys=ring_of("openai", KEY, "good"))

        assert embedder.embed_query("q")
        assert embedder.embed_query("q")

        used = [asked.headers["authorization"].split()[1] for asked in server.asked]
        assert used == [KEY, "good", "good", "good"]

    with OpenAi(keys=()) as server:
        embedder = embedder_of(server, keys=ring_of("openai", KEY, f"{KEY}-2"))

        error = failure_of(lambda: embedder.embed_query(SECRET), ProviderRefused)

    assert "denied" in error.message


def test_rate_limit_uses_the_next_key_and_then_waits(server: OpenAi) -> None:
    clock = PassingClock()
    embedder = learnt(server, keys=ring_of("openai", KEY, "second", clock=clock), clock=clock)
    server.fault = lambda asked: (
        complaint(429, "slow down", **{"Retry-After": "20"}) if KEY in str(asked.headers) else None
    )

    assert embedder.embed_query("q")
    assert embedder.embed_query("q")
    assert KEY in str(server.asked[1].headers)
    server.fault = lambda asked: complaint(429, "slow down")
    error = failure_of(lambda: embedder.embed_query("q"), "provider_cooldown")
    seen = len(server.asked)
    failure_of(lambda: embedder.embed_query("q"), "provider_cooldown")

    assert error.code == "provider_cooldown"
    assert error.retry_after == 20.0
    assert len(server.asked) == seen
