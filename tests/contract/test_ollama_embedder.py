"""The Ollama embedder: requests and accepted replies; a failure is never an empty answer.

The contract runs against a loopback server that speaks Ollama's protocol and, where
`OLLAMA_BASE_URL` is set, against the Ollama that is there. Faults are injected in the loopback
server only.
"""

import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.embedder_contract import EmbedderContract, numbers
from tests.contract.keyed_parts import PASSAGES
from tests.contract.ollama_parts import (
    CONFIGURED,
    INSTRUCTION,
    embedder_of,
    learnt,
    on_embed,
)
from tests.promises import proves
from tests.support.providers import DEFAULT_MODEL, Answer, Asked, Model, Ollama
from tests.support.providers.embedders import make_embedder
from tests.support.worlds import ManualClock, WordCounter, similarity, vector_of
from truespan.errors import InvalidConfiguration, ProviderBadReply, ProviderUnavailable
from truespan.providers.embedder import PROBE
from truespan.providers.ollama import OllamaEmbedder, full_name, to_pull
from truespan.providers.prefixes import prefixes_for
from truespan.settings import read_settings


@pytest.fixture
def server() -> Iterator[Ollama]:
    with Ollama() as started:
        yield started


# The contract, on the loopback server and on a real one


@pytest.fixture(params=["loopback", "real"])
def embedder(request: pytest.FixtureRequest) -> Iterator[OllamaEmbedder]:
    if request.param == "loopback":
        with Ollama() as started:
            yield embedder_of(started)
        return
    if not os.environ.get("OLLAMA_BASE_URL"):
        pytest.skip("OLLAMA_BASE_URL is not set; the contract was not tried on a real Ollama")
    settings = read_settings(Path("nowhere"))
    yield make_embedder(
        OllamaEmbedder,
        settings.ollama.base_url,
        settings.ollama.model,
        dimensions=settings.ollama.dimensions or None,
        counter=WordCounter(),
        clock=ManualClock(),
    )


class TestContract(EmbedderContract):
    provider = "ollama"
    embedder_of = staticmethod(embedder_of)

    def test_revision_is_a_digest(self, embedder: OllamaEmbedder) -> None:
        assert len(embedder.profile.revision) == 64


def test_unscaled_vectors_are_normalised(server: Ollama) -> None:
    embedder = learnt(server)
    server.fault = on_embed(lambda asked: Answer(content={"embeddings": [[3.0, 4.0] * 32]}))

    vector = embedder.embed_query("q")

    assert numbers(vector)[:2] == pytest.approx([3 / 5 / 32**0.5, 4 / 5 / 32**0.5])


# What is asked


@proves("ollama.query-request", "embedding.no-silent-truncation", "ollama.optional-dimensions")
def test_documents_and_queries_are_separate_requests(server: Ollama) -> None:
    embedder = learnt(server)

    vector = embedder.embed_query("who did it?")

    [asked] = server.asked
    assert (asked.method, asked.path) == ("POST", "/api/embed")
    assert asked.headers["content-type"] == "application/json"
    assert asked.content == {
        "model": DEFAULT_MODEL,
        "input": f"{INSTRUCTION}who did it?",
        "truncate": False,
    }
    assert similarity(vector, vector_of(f"{INSTRUCTION}who did it?")) > 0.999999

    embedder = embedder_of(server)

    embedder.embed_documents(PASSAGES)

    assert server.embeds[-1] == {"model": DEFAULT_MODEL, "input": PASSAGES, "truncate": False}


@proves("ollama.optional-dimensions")
def test_dimensions_are_sent_or_a_configuration_error(server: Ollama) -> None:
    server.models = [Model(DEFAULT_MODEL, dimensions=64)]
    embedder = embedder_of(server, dimensions=16)

    vectors = [*embedder.embed_documents(PASSAGES), embedder.embed_query("q")]

    assert [asked["dimensions"] for asked in server.embeds] == [16, 16, 16]
    assert embedder.profile.dimensions == 16
    for vector in vectors:
        # The shortened vectors come unscaled from this server, as from some releases.
        assert len(numbers(vector)) == 16
        assert math.hypot(*numbers(vector)) == pytest.approx(1, abs=1e-6)

    with pytest.raises(InvalidConfiguration, match=r"returns 64 dimensions, but \w+ is 128"):
        embedder_of(server, dimensions=128).embed_query("q")


# What stands behind a name


@proves("ollama.configurable")
def test_default_model_is_found_by_its_ollama_name(server: Ollama) -> None:
    profile = embedder_of(server).profile

    assert CONFIGURED == "BAAI/bge-base-en-v1.5"
    assert (profile.model, profile.revision) == (DEFAULT_MODEL, server.models[0].digest)
    assert (profile.dimensions, profile.input_limit) == (64, 510)
    assert (profile.document_mode, profile.query_mode) == ("passage", f"instruction: {INSTRUCTION}")


@proves("ollama.configurable")
def test_exact_model_name_wins_over_an_alias(server: Ollama) -> None:
    own = Model("baai/bge-base-en-v1.5:latest")
    server.models = [Model(DEFAULT_MODEL), own]

    assert embedder_of(server).profile.revision == own.digest


@proves("ollama.configurable")
@pytest.mark.parametrize(
    "spelling", ["nomic-embed-text", "Nomic-Embed-Text:latest", "NOMIC-embed-text"]
)
def test_all_spellings_of_a_name_have_one_profile(server: Ollama, spelling: str) -> None:
    server.models = [Model("other:latest"), Model("nomic-embed-text:latest", context=2048)]

    profile = embedder_of(server, spelling).profile

    assert profile.model == "nomic-embed-text:latest"
    assert profile.id == embedder_of(server, "nomic-embed-text").profile.id


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("bge-m3", "bge-m3:latest", True),
        ("registry.ollama.ai/library/bge-m3:latest", "bge-m3", True),
        ("library/bge-m3", "bge-m3", True),
        ("hf.co/a/b", "HF.co/A/B:latest", True),
        ("bge-m3:567m", "bge-m3", False),
        ("a/bge-m3", "bge-m3", False),
        ("localhost:5000/bge-m3", "localhost:5000/bge-m3:latest", True),
    ],
)
def test_names_are_compared_as_ollama_does(one: str, other: str, same: bool) -> None:
    assert (full_name(one) == full_name(other)) is same


def test_name_without_an_alias_is_used_unchanged() -> None:
    assert to_pull("my/model:2") == "my/model:2"


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        (DEFAULT_MODEL, INSTRUCTION, ""),
        ("BAAI/bge-large-en-v1.5", INSTRUCTION, ""),
        ("znbang/bge:small-en-v1.5-f32", INSTRUCTION, ""),
        ("mxbai-embed-large:latest", INSTRUCTION, ""),
        ("snowflake-arctic-embed:335m", INSTRUCTION, ""),
        ("snowflake-arctic-embed2:latest", "query: ", ""),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("embeddinggemma:latest", "task: search result | query: ", "title: none | text: "),
        ("hf.co/x/e5-base-v2", "query: ", "passage: "),
        ("bge-m3:latest", "", ""),
        ("all-minilm:latest", "", ""),
        ("something-else", "", ""),
    ],
)
def test_model_gets_the_prefixes_of_its_family(name: str, query: str, document: str) -> None:
    prefixes = prefixes_for(name)

    assert (prefixes.query, prefixes.document) == (query, document)
    document_mode, query_mode = prefixes.modes
    assert prefixes.query in query_mode
    assert prefixes.document in document_mode


@proves("embedding.input-types")
def test_model_gets_separate_query_and_document_prefixes(server: Ollama) -> None:
    server.models = [Model("nomic-embed-text:latest", context=2048)]
    embedder = embedder_of(server, "nomic-embed-text")

    embedder.embed_documents(["the tide"])
    embedder.embed_query("the tide")

    assert [asked["input"] for asked in server.embeds[1:]] == [
        ["search_document: the tide"],
        "search_query: the tide",
    ]


@proves("embedding.no-silent-truncation")
@pytest.mark.parametrize(
    ("model", "limit"),
    [
        (Model("m:latest", context=512), 510),
        (Model("m:latest", context=256), 254),
        (Model("m:latest", context=None), 510),
        (Model("m:latest", context=8192), 2046),
        (Model("m:latest", context=8192, parameters="num_ctx    4096\nstop  x"), 4094),
        (Model("m:latest", context=2048, parameters="num_ctx    8192"), 2046),
        (Model("nomic-embed-text:latest", context=2048), 2045),
    ],
)
def test_input_limit_is_the_context_that_ollama_uses(server: Ollama, model: Model, limit: int):
    server.models = [model]

    assert embedder_of(server, model.name).profile.input_limit == limit


@proves("embedding.no-silent-truncation")
def test_query_tokens_are_counted_or_estimated(server: Ollama) -> None:
    server.models = [Model(DEFAULT_MODEL), Model("bge-m3:latest", context=8192, tokenizer="t5")]
    text = "a" * 40

    counted = embedder_of(server).count_query(text)
    estimated = embedder_of(server, "bge-m3").count_query(text)

    assert (counted, estimated) == (len(INSTRUCTION.split()) + 1, 10)


def test_another_build_of_a_model_is_another_profile(server: Ollama) -> None:
    before = embedder_of(server).profile
    server.models[0].build += 1

    after = embedder_of(server).profile

    assert before.model == after.model
    assert before.id != after.id


def test_concurrent_threads_learn_the_profile_once(server: Ollama) -> None:
    embedder = embedder_of(server)
    second = threading.Barrier(2)

    def wait_for_another(asked: Asked) -> None:
        # Nobody comes while one is learning, so this ends by its time-out.
        if asked.path == "/api/tags":
            with suppress(threading.BrokenBarrierError):
                second.wait(timeout=0.2)

    server.fault = wait_for_another
    with ThreadPoolExecutor(8) as pool:
        profiles = set(pool.map(lambda _: embedder.profile.id, range(8)))

    assert len(profiles) == 1
    assert [asked.path for asked in server.asked] == ["/api/tags", "/api/show", "/api/embed"]
    assert server.embeds[0]["input"] == PROBE


def test_failed_examination_of_a_model_is_repeated(server: Ollama) -> None:
    embedder = embedder_of(server)
    server.fault = lambda asked: Answer(503, {"error": "server busy"})
    with pytest.raises(ProviderUnavailable):
        assert embedder.profile
    server.fault = None

    assert embedder.profile.dimensions == 64


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/api/tags", None),
        ("/api/tags", {}),
        ("/api/tags", {"models": None}),
        ("/api/tags", {"models": [{"name": DEFAULT_MODEL}]}),
        ("/api/show", None),
        ("/api/show", {"model_info": 7}),
        ("/api/embed", None),
        ("/api/embed", {}),
        ("/api/embed", {"embeddings": [0.1]}),
    ],
)
def test_malformed_model_description_is_refused(server: Ollama, path: str, content: Any) -> None:
    server.fault = lambda asked: Answer(content=content) if asked.path == path else None

    with pytest.raises(ProviderBadReply):
        assert embedder_of(server).profile


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"model_info": None, "parameters": None},
        {"model_info": {"bert.context_length": "512"}},
        {"model_info": {"bert.context_length": 0}},
        {"model_info": {"bert.context_length": True}},
    ],
)
def test_model_with_few_details_gets_the_minimum_context(server: Ollama, content: Any) -> None:
    server.fault = lambda asked: Answer(content=content) if asked.path == "/api/show" else None

    assert embedder_of(server).profile.input_limit == 510


@pytest.mark.parametrize("vector", [[], [0.0] * 64, [1e-9] * 64])
def test_invalid_probe_vector_gives_no_profile(server: Ollama, vector: list[float]) -> None:
    server.fault = on_embed(lambda asked: Answer(content={"embeddings": [vector]}))

    with pytest.raises(ProviderBadReply):
        assert embedder_of(server).profile
