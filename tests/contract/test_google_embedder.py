"""The embedder for Google AI Studio: task types, exact counts, and text over the limit."""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed_parts import KEY, PASSAGES, SECRET, failure_of, ring_of
from tests.promises import proves
from tests.support.providers import Answer, Google, PassingClock
from tests.support.providers.embedders import make_embedder
from tests.support.providers.google import complaint, delay, text_of
from tests.support.worlds import make_library, similarity, vector_of
from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    QueryTooLong,
    TextTooLong,
)
from truespan.extensions.models.google import GoogleEmbedder
from truespan.protocols import Embedder
from truespan.providers.embedder import PROBE
from truespan.types.profile import Distance, EmbeddingLimits


@pytest.fixture
def server() -> Iterator[Google]:
    with Google() as started:
        yield started


def embedder_of(server: Google, **changes: Any) -> GoogleEmbedder:
    clock = PassingClock()
    given: dict[str, Any] = {
        "keys": ring_of("google", KEY, clock=clock),
        "dimensions": None,
        "clock": clock,
    }
    return make_embedder(GoogleEmbedder, server.base, server.model, **given | changes)


def learnt(server: Google, **changes: Any) -> GoogleEmbedder:
    embedder = embedder_of(server, **changes)
    assert embedder.profile
    server.asked.clear()
    return embedder


def words(count: int) -> str:
    """Return a text of `count` tokens, as this server counts, each of several bytes."""
    return " ".join(f"{SECRET}{number}" for number in range(count))


# What is asked


def test_profile_states_everything_that_affects_a_vector(server: Google) -> None:
    port: Embedder = embedder_of(server)

    profile = port.profile

    assert (profile.provider, profile.model) == ("google", "gemini-embedding-001")
    assert (profile.revision, profile.dimensions) == ("001", 64)
    assert (profile.distance, profile.input_limit) == (Distance.COSINE, 2048)
    assert port.limits == EmbeddingLimits(items=100, in_flight=2, joint=True)
    assert port.profile is profile
    assert [asked.method for asked in server.asked] == ["GET", "POST"]
    assert [text_of(one["content"]) for one in server.embeds[0]] == [PROBE]


@proves("embedding.query-and-document-modes", "embedding.input-types")
def test_documents_and_queries_have_different_task_types(server: Google) -> None:
    embedder = learnt(server)

    embedder.embed_documents(PASSAGES)
    embedder.embed_query("who did it?")

    documents, query = server.embeds
    assert [one["taskType"] for one in documents] == ["RETRIEVAL_DOCUMENT"] * 3
    assert [text_of(one["content"]) for one in documents] == PASSAGES
    assert query == [
        {
            "model": "models/gemini-embedding-001",
            "content": {"parts": [{"text": "who did it?"}]},
            "taskType": "RETRIEVAL_QUERY",
        }
    ]
    assert embedder.profile.document_mode == "RETRIEVAL_DOCUMENT"
    assert embedder.profile.query_mode == "RETRIEVAL_QUERY"


@proves("embedding.query-and-document-modes")
def test_model_without_task_types_gets_a_prefix() -> None:
    with Google(model="gemini-embedding-2", limit=50) as server:
        embedder = learnt(server)
        embedder.embed_documents(["the tide"])
        embedder.embed_query("the tide")

        [[document], [query]] = server.embeds
        assert "taskType" not in document | query
        assert text_of(document["content"]) == "title: none | text: the tide"
        assert text_of(query["content"]) == "task: search result | query: the tide"
        # What stands before a query has five words, and is not left to the chunks either.
        assert embedder.profile.input_limit == 45
        assert embedder.count_query(words(45)) == 45
        assert embedder.count_query(words(46)) == 46


@proves("errors.no-secrets")
def test_key_is_in_one_header_and_not_in_the_url(server: Google) -> None:
    embedder = embedder_of(server)

    embedder.embed_documents(["the tide"])
    embedder.count_query("the tide")

    assert {asked.headers["x-goog-api-key"] for asked in server.asked} == {KEY}
    for asked in server.asked:
        assert KEY not in asked.path + asked.body.decode()
        assert "key=" not in asked.path


def test_shortened_vectors_are_normalised(server: Google) -> None:
    embedder = embedder_of(server, dimensions=16)

    vectors = [*embedder.embed_documents(PASSAGES), embedder.embed_query(PASSAGES[1])]

    asked = [one["outputDimensionality"] for batch in server.embeds for one in batch]
    assert set(asked) == {16}
    assert embedder.profile.dimensions == 16
    for vector in vectors:
        assert math.hypot(*array("f", vector)) == pytest.approx(1, abs=1e-6)


@proves("embedding.vector-per-input")
def test_each_text_gets_its_own_vector(server: Google) -> None:
    for vector, text in zip(embedder_of(server).embed_documents(PASSAGES), PASSAGES, strict=True):
        assert similarity(vector, vector_of(text)) > 0.999999


@pytest.mark.parametrize("name", ["gemini-embedding-001", "models/gemini-embedding-001"])
def test_both_spellings_of_a_model_have_one_profile(server: Google, name: str) -> None:
    clock = PassingClock()
    keys = ring_of("google", KEY)
    embedder = make_embedder(GoogleEmbedder, server.base, name, keys=keys, clock=clock)

    assert embedder.profile.id == embedder_of(server).profile.id


@proves("http.outbound-urls")
@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?key=1", "a#b", "a b", "models/", "a%2fb"])
def test_model_name_with_a_path_is_refused(server: Google, name: str) -> None:
    with pytest.raises(InvalidConfiguration):
        make_embedder(
            GoogleEmbedder, server.base, name, keys=ring_of("google", KEY), clock=PassingClock()
        )


# Lengths


@pytest.mark.contract
@proves("embedding.google-exact-tokens", "embedding.no-silent-truncation")
def test_query_one_token_over_the_limit_is_never_sent(tmp_path: Path) -> None:
    with Google(limit=40) as server:
        embedder: Any = embedder_of(server)
        lib = make_library(tmp_path, embedder=embedder)
        world = lib.world(tide__txt="The tide comes in twice a day.")
        server.asked.clear()

        world.search(words(40))

        # The query, and the text that confirms the model.
        assert (len(server.counts), len(server.embeds)) == (3, 2)
        server.asked.clear()
        searched = lib.index.calls.count("search")
        error = failure_of(lambda: world.search(words(41)), QueryTooLong)

        assert isinstance(error, QueryTooLong)
        assert (error.count, error.limit) == (41, 40)
        assert (server.counts, server.embeds) == ([words(41)], [])
        assert lib.index.calls.count("search") == searched


@proves("embedding.no-silent-truncation", "embedding.google-exact-tokens")
def test_document_that_may_be_cut_is_counted_before_sending() -> None:
    with Google(limit=40) as server:
        embedder = learnt(server)

        assert embedder.embed_documents([words(40)])
        failure_of(lambda: embedder.embed_documents(["short", words(41)]), TextTooLong)
        failure_of(lambda: embedder.embed_query(words(41)), TextTooLong)

        assert len(server.embeds) == 1
        assert server.counts == [words(40), words(41), words(41)]


def test_count_of_a_short_text_is_not_requested(server: Google) -> None:
    embedder = learnt(server)

    embedder.embed_documents(["x" * 2044, "short", ""])
    assert server.counts == []
    embedder.embed_documents(["x" * 2045])
    embedder.embed_documents(["é" * 1023])

    assert len(server.counts) == 2


@proves("embedding.batch-items")
def test_request_has_at_most_a_hundred_texts(tmp_path: Path, server: Google) -> None:
    embedder: Any = embedder_of(server)
    lib = make_library(tmp_path, embedder=embedder)
    world = lib.library.create_world("world")

    report = world.ingest([lib.write(f"{n}.txt", f"This is story {n}.") for n in range(150)])

    assert len(report.ingested) == 150
    assert max(len(batch) for batch in server.embeds) == 100


# Complaints and keys


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (
            complaint(400, "* requests: at most 100 requests can be in one batch"),
            "provider_batch_too_large",
        ),
        (
            complaint(400, "Request payload size exceeds the limit: 20971520"),
            "provider_batch_too_large",
        ),
        (complaint(400, "The input token count (3000) exceeds the maximum"), TextTooLong),
        (complaint(404, "models/x is not found for API version v1beta"), ModelUnavailable),
        (complaint(400, f"Invalid value {SECRET} {KEY}"), ProviderRefused),
        (complaint(500, f"An internal error {SECRET} {KEY}"), ProviderUnavailable),
        (complaint(503, "The model is overloaded."), ProviderUnavailable),
        (complaint(403, "Permission denied"), ProviderRefused),
        (Answer(content={"embeddings": []}), ProviderBadReply),
        (Answer(content={"embedding": {"values": [0.1]}}), ProviderBadReply),
        (Answer(content={"embeddings": [{"values": ["x"]}]}), ProviderBadReply),
    ],
)
def test_each_error_reply_has_its_error_and_no_retry(server: Google, answer: Answer, kind: Any):
    embedder = learnt(server)
    server.fault = lambda asked: answer

    failure_of(lambda: embedder.embed_documents([SECRET]), kind)

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "about"),
    [
        (404, {"error": {"code": 404, "message": "models/x is not found"}}),
        (200, {"inputTokenLimit": 9, "supportedGenerationMethods": ["generateContent"]}),
    ],
)
def test_missing_or_unsuitable_model_is_a_configuration_error(
    server: Google, status: int, about: Any
) -> None:
    server.fault = lambda asked: Answer(status, about) if asked.method == "GET" else None

    error = failure_of(lambda: embedder_of(server).profile, ModelUnavailable)

    assert "gemini-embedding-001" in error.message
    assert server.embeds == []


@pytest.mark.parametrize(
    "about", [{}, {"inputTokenLimit": 0}, {"inputTokenLimit": "2048"}, {"inputTokenLimit": None}]
)
def test_model_without_a_stated_limit_has_none(server: Google, about: Any) -> None:
    server.fault = lambda asked: Answer(content=about) if asked.method == "GET" else None

    failure_of(lambda: embedder_of(server).profile, ProviderBadReply)


def test_invalid_key_is_recognised_and_the_next_is_used() -> None:
    with Google(keys=("good",)) as server:
        assert embedder_of(server, keys=ring_of("google", KEY, "good")).embed_query("q")

        assert [asked.headers["x-goog-api-key"] for asked in server.asked][:3] == [
            KEY,
            "good",
            "good",
        ]


@proves("errors.bad-key-configuration")
def test_without_a_key_nothing_is_sent(server: Google) -> None:
    failure_of(lambda: embedder_of(server, keys=ring_of("google")).profile, "credentials_missing")

    assert server.asked == []


@pytest.mark.parametrize(
    ("details", "headers", "pause"),
    [
        ([delay("34.074824224s")], {}, 35.0),
        ([delay("7s")], {}, 8.0),
        ([delay("7s")], {"Retry-After": "5"}, 5.0),
        ([], {}, 60.0),
        ([delay("99999s")], {}, 300.0),
    ],
)
def test_pause_in_a_google_error_is_respected(
    server: Google, details: list[Any], headers: dict[str, str], pause: float
) -> None:
    embedder = learnt(server)
    answer = complaint(429, "You exceeded your current quota.", *details)
    answer.headers = headers
    server.fault = lambda asked: answer

    error = failure_of(lambda: embedder.embed_query(SECRET), "provider_cooldown")

    assert error.code == "provider_cooldown"
    assert error.retry_after == pause
