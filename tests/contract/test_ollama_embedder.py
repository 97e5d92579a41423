"""The Ollama embedder: what it asks, what it believes, and that a failure is never an empty answer.

The contract runs against a loopback server that speaks Ollama's protocol and, where
`OLLAMA_BASE_URL` is set, against the Ollama that is there. What has to break is broken in the
loopback server only.
"""

from __future__ import annotations

import math
import os
import threading
import traceback
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.providers import DEFAULT_MODEL, Answer, Asked, Model, Ollama, Raw, Reaction, drops
from tests.worlds import HandClock, Place, WordCounter, place, similarity, vector_of
from truespan.adapters.http_connection import Bounds
from truespan.adapters.ollama_embedder import PROBE, RECHECK_SECONDS, OllamaEmbedder
from truespan.adapters.ollama_models import manner_of, same_model, spellings, to_pull
from truespan.compose import open_library
from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TruespanError,
)
from truespan.ingest.embed import CANARY
from truespan.library import World
from truespan.model.chunk import Vector
from truespan.model.profile import Distance
from truespan.ports import Embedder
from truespan.settings import Settings, read_settings

CONFIGURED = Settings().ollama_model
INSTRUCTION = "Represent this sentence for searching relevant passages: "
SECRET = "butlersecret"
PASSAGES = [
    "Penicillin was found by Alexander Fleming in 1928, when mould killed bacteria in a dish.",
    "The tide comes in twice a day because the moon and the sun pull on the oceans.",
    "To make a roux, melt butter in a pan and stir in the same weight of flour.",
]


@pytest.fixture
def server() -> Iterator[Ollama]:
    with Ollama() as started:
        yield started


def embedder_of(server: Ollama, model: str = CONFIGURED, **changes: Any) -> OllamaEmbedder:
    given: dict[str, Any] = {
        "dimensions": None,
        "counter": WordCounter(),
        "clock": HandClock(),
        "in_flight": 1,
    }
    return OllamaEmbedder(server.url, model, **given | changes)


def learnt(server: Ollama, **changes: Any) -> OllamaEmbedder:
    """Return an embedder that knows its profile, and a server that remembers no request for it."""
    embedder = embedder_of(server, **changes)
    assert embedder.profile
    server.asked.clear()
    return embedder


def numbers(vector: Vector) -> array[float]:
    return array("f", vector)


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
    yield OllamaEmbedder(
        settings.ollama_base_url,
        settings.ollama_model,
        dimensions=settings.ollama_dimensions or None,
        counter=WordCounter(),
        clock=HandClock(),
    )


def test_its_profile_says_all_that_decides_a_vector(embedder: OllamaEmbedder) -> None:
    port: Embedder = embedder

    profile = port.profile

    assert (profile.provider, profile.distance) == ("ollama", Distance.COSINE)
    assert profile.model
    assert len(profile.revision) == 64
    assert profile.dimensions > 0
    assert profile.input_limit > 0
    assert port.limits.joint
    assert port.profile is profile


@proves("embedding.vector-per-input")
def test_each_text_gets_a_vector_of_length_one_in_the_order_of_the_texts(
    embedder: OllamaEmbedder,
) -> None:
    together = embedder.embed_documents(PASSAGES)

    alone = [embedder.embed_documents([text])[0] for text in PASSAGES]
    assert {len(numbers(vector)) for vector in together} == {embedder.profile.dimensions}
    for vector, expected in zip(together, alone, strict=True):
        assert math.hypot(*numbers(vector)) == pytest.approx(1, abs=1e-6)
        assert similarity(vector, expected) > 0.98


def test_a_question_is_nearest_to_the_passage_that_answers_it(embedder: OllamaEmbedder) -> None:
    query = embedder.embed_query("Why does the tide come in, and what do moon and sun pull on?")

    scores = [similarity(query, passage) for passage in embedder.embed_documents(PASSAGES)]

    assert max(scores) == scores[1]


@proves("embedding.no-silent-truncation")
def test_what_the_model_cannot_read_to_its_end_is_refused_and_never_cut(
    embedder: OllamaEmbedder,
) -> None:
    long = f"{SECRET} " * 40_000

    for call in (lambda: embedder.embed_documents([long]), lambda: embedder.embed_query(long)):
        error = failure_of(call, ProviderRefused)
        assert "longer than the model reads" in error.message


def test_half_a_surrogate_pair_can_be_embedded(embedder: OllamaEmbedder) -> None:
    assert len(embedder.embed_documents(["\ud800 half a pair"])) == 1
    assert embedder.embed_query("\udfff half a pair")


def test_no_texts_give_no_vectors_and_no_request(server: Ollama) -> None:
    assert embedder_of(server).embed_documents([]) == []
    assert server.asked == []


# What is asked


@proves("ollama.query-request", "embedding.no-silent-truncation", "ollama.optional-dimensions")
def test_a_query_is_one_string_and_its_vector_is_read_from_embeddings(server: Ollama) -> None:
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


@proves("embedding.no-silent-truncation", "ollama.optional-dimensions")
def test_documents_are_one_list_without_the_instruction_of_queries(server: Ollama) -> None:
    embedder = embedder_of(server)

    embedder.embed_documents(PASSAGES)

    assert server.embeds[-1] == {"model": DEFAULT_MODEL, "input": PASSAGES, "truncate": False}


@proves("ollama.optional-dimensions")
def test_dimensions_are_sent_with_every_text_once_they_are_configured(server: Ollama) -> None:
    server.models = [Model(DEFAULT_MODEL, dimensions=64)]
    embedder = embedder_of(server, dimensions=16)

    vectors = [*embedder.embed_documents(PASSAGES), embedder.embed_query("q")]

    assert [asked["dimensions"] for asked in server.embeds] == [16, 16, 16]
    assert embedder.profile.dimensions == 16
    for vector in vectors:
        # The shortened vectors come unscaled from this server, as from some releases.
        assert len(numbers(vector)) == 16
        assert math.hypot(*numbers(vector)) == pytest.approx(1, abs=1e-6)


@proves("ollama.optional-dimensions")
def test_dimensions_that_the_model_does_not_give_are_the_operator_s_to_change(
    server: Ollama,
) -> None:
    server.models = [Model(DEFAULT_MODEL, dimensions=64)]

    with pytest.raises(InvalidConfiguration, match="gives 64 dimensions, not the 128"):
        embedder_of(server, dimensions=128).embed_query("q")


def test_vectors_that_come_unscaled_get_the_length_one(server: Ollama) -> None:
    embedder = learnt(server)
    server.fault = on_embed(lambda asked: Answer(content={"embeddings": [[3.0, 4.0] * 32]}))

    vector = embedder.embed_query("q")

    assert numbers(vector)[:2] == pytest.approx([3 / 5 / 32**0.5, 4 / 5 / 32**0.5])


# What stands behind a name


@proves("ollama.configurable")
def test_the_default_model_is_found_under_the_name_that_ollama_has_for_it(server: Ollama) -> None:
    profile = embedder_of(server).profile

    assert CONFIGURED == "BAAI/bge-base-en-v1.5"
    assert (profile.model, profile.revision) == (DEFAULT_MODEL, server.models[0].digest)
    assert (profile.dimensions, profile.input_limit) == (64, 510)
    assert (profile.document_mode, profile.query_mode) == ("passage", f"instruction: {INSTRUCTION}")


@proves("ollama.configurable")
def test_a_model_of_the_very_name_goes_before_an_alias(server: Ollama) -> None:
    own = Model("baai/bge-base-en-v1.5:latest")
    server.models = [Model(DEFAULT_MODEL), own]

    assert embedder_of(server).profile.revision == own.digest


@proves("ollama.configurable")
@pytest.mark.parametrize(
    "spelling", ["nomic-embed-text", "Nomic-Embed-Text:latest", "NOMIC-embed-text"]
)
def test_all_spellings_of_a_name_are_one_profile(server: Ollama, spelling: str) -> None:
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
    assert same_model(one, other) is same


def test_a_name_without_an_alias_is_taken_as_it_is() -> None:
    assert spellings("my/model:2") == ["my/model:2"]
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
def test_a_model_is_asked_as_its_family_was_trained(name: str, query: str, document: str) -> None:
    manner = manner_of(name)

    assert (manner.query, manner.document) == (query, document)
    assert manner.query in manner.query_mode
    assert manner.document in manner.document_mode


@proves("embedding.input-types")
def test_a_model_trained_with_two_instructions_gets_each_on_its_verb(server: Ollama) -> None:
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
def test_the_input_limit_is_what_ollama_really_reads(
    server: Ollama, model: Model, limit: int
) -> None:
    server.models = [model]

    assert embedder_of(server, model.name).profile.input_limit == limit


@proves("embedding.no-silent-truncation")
def test_a_query_s_tokens_are_counted_as_far_as_its_model_allows(server: Ollama) -> None:
    server.models = [Model(DEFAULT_MODEL), Model("bge-m3:latest", context=8192, tokenizer="t5")]
    text = "a" * 40

    counted = embedder_of(server).count_query(text)
    estimated = embedder_of(server, "bge-m3").count_query(text)

    assert (counted, estimated) == (len(INSTRUCTION.split()) + 1, 10)


def test_another_build_of_the_same_name_is_another_profile(server: Ollama) -> None:
    before = embedder_of(server).profile
    server.models[0].build += 1

    after = embedder_of(server).profile

    assert before.model == after.model
    assert before.id != after.id


def test_threads_that_come_together_learn_the_profile_once(server: Ollama) -> None:
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


def test_what_could_not_be_learnt_is_asked_for_again(server: Ollama) -> None:
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
def test_nothing_is_learnt_from_a_reply_of_another_shape(
    server: Ollama, path: str, content: Any
) -> None:
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
def test_a_model_of_which_little_is_shown_is_taken_for_a_small_one(
    server: Ollama, content: Any
) -> None:
    server.fault = lambda asked: Answer(content=content) if asked.path == "/api/show" else None

    assert embedder_of(server).profile.input_limit == 510


@pytest.mark.parametrize("vector", [[], [0.0] * 64, [1e-9] * 64])
def test_no_profile_is_made_of_a_vector_that_cannot_be_true(
    server: Ollama, vector: list[float]
) -> None:
    server.fault = on_embed(lambda asked: Answer(content={"embeddings": [vector]}))

    with pytest.raises(ProviderBadReply):
        assert embedder_of(server).profile


# Failures


def on_embed(react: Callable[[Asked], Reaction | None]) -> Callable[[Asked], Reaction | None]:
    """Break /api/embed and nothing else."""
    return lambda asked: react(asked) if asked.path == "/api/embed" else None


def failure_of(call: Callable[[], Any], kind: type[TruespanError]) -> TruespanError:
    """Return the error of a call; nothing of what was embedded is in it."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert SECRET not in "".join(traceback.format_exception(caught.value)).lower()
    assert SECRET not in repr(caught.value.__dict__).lower()
    return caught.value


@dataclass(frozen=True)
class Fault:
    """A way in which Ollama fails, and what that is called."""

    name: str
    react: Callable[[Asked], Reaction]
    error: type[TruespanError]


def complaint(status: int, words: str) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(status, {"error": words})


def reply(embeddings: Any) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(content={"model": "m", "embeddings": embeddings})


def body(text: str, **more: Any) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(body=text.encode(), **more)


GOOD = [0.125] * 64
FAULTS = [
    Fault("broken JSON", body('{"embeddings": [[0.1, 0.'), ProviderBadReply),
    Fault("a page", body(f"<html>{SECRET}", content_type="text/html"), ProviderBadReply),
    Fault("no vectors", reply([]), ProviderBadReply),
    Fault("two vectors", reply([GOOD, GOOD]), ProviderBadReply),
    Fault("null for all", reply(None), ProviderBadReply),
    Fault("null for one", reply([None]), ProviderBadReply),
    Fault("null in one", reply([[None, *GOOD[1:]]]), ProviderBadReply),
    Fault("text in one", reply([[SECRET, *GOOD[1:]]]), ProviderBadReply),
    Fault("NaN", body('{"embeddings": [[NaN]]}'), ProviderBadReply),
    Fault("out of range", body('{"embeddings": [[1e999]]}'), ProviderBadReply),
    Fault("infinite", reply([[1.7e308] * 64]), ProviderBadReply),
    Fault("another key", body('{"embedding": [0.1]}'), ProviderBadReply),
    Fault("too few dimensions", reply([GOOD[1:]]), ProviderBadReply),
    Fault("too many dimensions", reply([[*GOOD, 0.1]]), ProviderBadReply),
    Fault("no dimensions", reply([[]]), ProviderBadReply),
    Fault("zero", reply([[0.0] * 64]), ProviderBadReply),
    Fault("as good as zero", reply([[1e-9] * 64]), ProviderBadReply),
    Fault("40 MB", body(" " * (40 << 20)), ProviderBadReply),
    Fault(
        "NaN it could not send",
        complaint(500, "failed to encode response: json: unsupported value: NaN"),
        ProviderBadReply,
    ),
    Fault(
        "NaN it noticed", complaint(400, "embedding contains NaN or Inf values"), ProviderBadReply
    ),
    Fault("a pause", lambda asked: Answer(429, {}, {"Retry-After": "7"}), ProviderUnavailable),
    Fault("busy", complaint(503, "server busy, please try again"), ProviderUnavailable),
    Fault("crashed", complaint(500, f"do embedding request: {SECRET}: EOF"), ProviderUnavailable),
    Fault("gateway", body("<html>", status=502, content_type="text/html"), ProviderUnavailable),
    Fault("hangs up", lambda asked: Raw(), ProviderUnavailable),
    Fault("breaks off", lambda asked: Answer(content={}, cut=1), ProviderUnavailable),
    Fault("elsewhere", lambda asked: Answer(307, {}, {"Location": "/x"}), ProviderRefused),
    Fault("denied", complaint(401, "unauthorized"), ProviderRefused),
    Fault("refused", complaint(400, f"invalid input: {SECRET}"), ProviderRefused),
    Fault("no such path", body("404 page not found", status=404), ProviderRefused),
    Fault(
        "too long", complaint(400, "the input length exceeds the context length"), ProviderRefused
    ),
    Fault(
        "too long for an older one",
        complaint(500, "input length exceeds maximum context length"),
        ProviderRefused,
    ),
    Fault("model gone", complaint(404, f"model '{SECRET}' not found"), ModelUnavailable),
    Fault(
        "model gone, as others say it",
        complaint(404, 'model "x" not found, try pulling it first'),
        ModelUnavailable,
    ),
    Fault(
        "no embeddings",
        complaint(501, "this model does not support embeddings"),
        ModelUnavailable,
    ),
]


def each_fault() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


def opened(folder: Path, server: Ollama, model: str = CONFIGURED, **changes: Any) -> Place:
    """Make or open a library that embeds with a server, its index in memory."""
    clock = HandClock()
    embedder: Any = embedder_of(server, model, **{"clock": clock} | changes)
    return place(folder, embedder=embedder, clock=clock)


def told(here: Place, **files: str) -> World:
    return here.world(**(files or {"tide__txt": "The tide comes in twice a day."}))


@proves("embedding.down-is-an-error")
@each_fault()
def test_a_search_that_gets_no_vector_is_an_error_and_never_an_empty_success(
    tmp_path: Path, server: Ollama, fault: Fault
) -> None:
    here = opened(tmp_path, server)
    world = told(here)
    server.fault = on_embed(fault.react)

    failure_of(lambda: world.search(f"what of the tide, {SECRET}?"), fault.error)

    assert "search" not in here.index.calls
    server.fault = None
    assert world.search(f"what of the tide, {SECRET}?", floor=0.0).results


SINGLE = {"too few dimensions", "too many dimensions", "no dimensions", "zero", "as good as zero"}
SINGLE |= {"infinite", "NaN it could not send", "NaN it noticed"}
"""Faults of one vector, which cost the other texts of a batch nothing."""


@proves("errors.provider-or-index", "errors.no-secrets")
@each_fault()
def test_a_failure_while_ingesting_leaves_nothing_half_visible(
    tmp_path: Path, server: Ollama, fault: Fault
) -> None:
    here = opened(tmp_path, server)
    world = told(here)
    path = here.write("late.txt", f"The {SECRET} comes late.")
    server.fault = on_embed(
        lambda asked: None if asked.content["input"] == [CANARY] else fault.react(asked)
    )

    if fault.name in SINGLE:
        report = world.ingest(path)
        assert [(failed.name, failed.code) for failed in report.failures] == [
            ("late.txt", "provider_bad_reply")
        ]
        assert SECRET not in str(report.failures)
    else:
        failure_of(lambda: world.ingest(path), fault.error)

    assert [document.name for document in world.documents() if document.active] == ["tide.txt"]
    assert len(here.points(world)) == 1
    server.fault = None
    assert world.ingest(path).failures == []
    assert len(here.points(world)) == 2


@proves("embedding.vectors-checked")
@pytest.mark.parametrize(
    "answer",
    [
        complaint(500, "failed to encode response: json: unsupported value: NaN"),
        complaint(400, "embedding contains NaN or Inf values"),
    ],
)
def test_a_text_without_finite_numbers_does_not_take_its_batch_with_it(
    tmp_path: Path, server: Ollama, answer: Callable[[Asked], Reaction]
) -> None:
    here = opened(tmp_path, server)
    server.fault = on_embed(
        lambda asked: answer(asked) if SECRET in str(asked.content["input"]) else None
    )
    world = here.library.create_world("world")
    texts = {f"{number}.txt": f"This is story {number}." for number in range(6)}
    paths = [here.write(name, text) for name, text in texts.items()]
    paths.insert(3, here.write("bad.txt", f"The {SECRET}."))

    report = world.ingest(paths)

    assert [failed.name for failed in report.failures] == ["bad.txt"]
    assert sorted(report.ingested) == sorted(texts)


@proves("embedding.count-and-canary")
@pytest.mark.parametrize("shuffle", [lambda x: x[::-1], lambda x: [*x[1:], x[0]]])
def test_a_batch_that_comes_back_shuffled_is_caught(
    tmp_path: Path, server: Ollama, shuffle: Callable[[list[Any]], list[Any]]
) -> None:
    def shuffled(asked: Asked) -> Reaction:
        true = server.answer(asked)
        assert isinstance(true, Answer)
        return Answer(content={"embeddings": shuffle(true.content["embeddings"])})

    here = opened(tmp_path, server)
    world = here.library.create_world("world")
    paths = [here.write(f"{number}.txt", f"word{number}") for number in range(5)]
    server.fault = on_embed(shuffled)

    failure_of(lambda: world.ingest(paths), ProviderBadReply)

    assert here.points(world) == {}
    assert here.sql("SELECT count(*) FROM vectors") == [(0,)]


@proves("embedding.vector-per-input", "embedding.concurrency")
def test_batches_under_way_together_give_each_text_its_own_vector(
    tmp_path: Path, server: Ollama
) -> None:
    here = opened(tmp_path, server, in_flight=2)
    world = here.library.create_world("world")
    texts = {f"{number}.txt": f"This is story {number}." for number in range(100)}

    world.ingest([here.write(name, text) for name, text in texts.items()])

    points = here.points(world)
    # The last text of each batch is the canary; before them went the probe and the canary alone.
    assert sorted(len(asked["input"]) for asked in server.embeds[2:]) == [8, 32, 32, 32]
    assert len(points) == 100
    for chunk_id, point in points.items():
        chunk = world.chunk(chunk_id).chunk
        assert chunk is not None
        assert similarity(point.vector, vector_of(chunk.data.decode())) > 0.999999


@proves("embedding.retries-transient-only", "embedding.batch-items")
def test_an_ingest_waits_as_long_as_ollama_asks_and_goes_on(tmp_path: Path, server: Ollama) -> None:
    here = opened(tmp_path, server)
    world = here.library.create_world("world")
    pauses = ["7", "Thu, 01 Jan 1970 00:00:00 GMT"]

    def busy(asked: Asked) -> Reaction | None:
        if pauses and asked.content["input"] == [CANARY]:
            return Answer(429, {}, {"Retry-After": pauses.pop(0)})
        return None

    server.fault = on_embed(busy)
    report = world.ingest([here.write(f"{n}.txt", f"word{n}") for n in range(40)])

    assert len(report.ingested) == 40
    assert here.clock.slept[0] == 7.0
    assert len(here.clock.slept) == 2
    assert max(len(asked["input"]) for asked in server.embeds[1:]) == 32


@proves("embedding.down-is-an-error")
def test_a_reply_that_comes_drop_by_drop_ends(server: Ollama) -> None:
    class Ticking(HandClock):
        def monotonic(self) -> float:
            self.time += 0.01
            return self.time

    embedder = learnt(server, clock=Ticking(), bounds=Bounds(total_seconds=2.0))
    server.fault = on_embed(lambda asked: Answer(pieces=drops(b'{"embeddings": [[')))

    failure_of(lambda: embedder.embed_query(SECRET), ProviderUnavailable)


@proves("embedding.down-is-an-error")
def test_a_service_that_is_down_fails_every_request_and_says_what_to_do(
    tmp_path: Path, server: Ollama
) -> None:
    here = opened(tmp_path, server)
    world = told(here)
    path = here.write("late.txt", "It comes late.")
    server.stop()

    for call in (lambda: world.search(f"the tide, {SECRET}"), lambda: world.ingest(path)):
        error = failure_of(call, ProviderUnavailable)
        assert error.retryable
        assert f"127.0.0.1:{server.port}" in error.message
        assert "ollama serve" in error.advice


@proves("embedding.down-is-an-error")
def test_a_service_that_was_never_up_fails_the_first_request(tmp_path: Path) -> None:
    with Ollama() as server:
        told(opened(tmp_path, server))
    here = opened(tmp_path, server)

    error = failure_of(lambda: here.library.world("world").search("tide"), ProviderUnavailable)

    assert "ollama serve" in str(error)
    assert "search" not in here.index.calls


@proves("embedding.down-is-an-error")
@pytest.mark.parametrize(
    ("model", "pulled"),
    [
        (CONFIGURED, "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf"),
        ("BAAI/bge-m3", "bge-m3"),
        ("my/model:7b", "my/model:7b"),
    ],
)
def test_a_model_that_is_missing_is_said_with_the_command_that_gets_it(
    tmp_path: Path, server: Ollama, model: str, pulled: str
) -> None:
    server.models = [Model("llama3:latest")]
    here = opened(tmp_path, server, model)
    path = here.write("a.txt", "The tide.")
    world = here.library.create_world("world")

    error = failure_of(lambda: world.ingest(path), ModelUnavailable)

    assert repr(model) in error.message
    assert f"'ollama pull {pulled}'" in error.advice
    assert server.to("/api/embed") == []


def test_a_model_that_cannot_embed_is_the_operator_s_to_change(server: Ollama) -> None:
    server.models = [Model("llama3:latest", embeds=False)]

    error = failure_of(lambda: embedder_of(server, "llama3").profile, ModelUnavailable)

    assert "ollama_model" in error.advice


# Another model than the world's


CHANGES: dict[str, Callable[[Model], tuple[str, Model, dict[str, Any]]]] = {
    "another model": lambda model: ("other", replace(model, name="other:latest"), {}),
    "another build": lambda model: (CONFIGURED, replace(model, build=2), {}),
    "more dimensions": lambda model: (CONFIGURED, replace(model, build=2, dimensions=128), {}),
    "dimensions configured": lambda model: (CONFIGURED, model, {"dimensions": 32}),
}


@proves("embedding.mismatch-before-search", "generation.model-change-reindexes")
@pytest.mark.parametrize("change", CHANGES)
def test_a_world_is_neither_searched_nor_added_to_with_another_model_than_its_own(
    tmp_path: Path, server: Ollama, change: str
) -> None:
    told(opened(tmp_path, server))
    before = server.models[0]
    name, server.models[0], changes = CHANGES[change](before)
    here = opened(tmp_path, server, name, **changes)
    world = here.library.world("world")
    asked = len(server.embeds)
    path = here.write("late.txt", "It comes late.")

    for call in (lambda: world.search("tide"), lambda: world.ingest(path)):
        error = failure_of(call, ProfileMismatch)
        assert "ollama/" in error.message

    # Only the probe that learns the dimensions was embedded: neither query nor document was.
    assert [sent["input"] for sent in server.embeds[asked:]] == [PROBE]
    assert not {"search", "upsert"} & set(here.index.calls)


@proves("generation.model-change-reindexes")
def test_a_world_can_be_searched_again_with_the_model_it_was_built_with(
    tmp_path: Path, server: Ollama
) -> None:
    here = opened(tmp_path, server)
    told(here)
    server.models.append(Model("other:latest"))
    other = opened(tmp_path, server, "other")
    with pytest.raises(ProfileMismatch):
        other.library.world("world").search("tide")

    assert here.library.world("world").search("tide", floor=0.0).results


@proves("generation.model-change-reindexes", "embedding.mismatch-before-search")
def test_a_model_that_is_pulled_anew_under_a_running_process_is_noticed(
    tmp_path: Path, server: Ollama
) -> None:
    here = opened(tmp_path, server)
    world = told(here)
    searched = here.index.calls.count("search")
    server.models[0].build += 1
    here.clock.time += RECHECK_SECONDS

    for _ in range(2):
        failure_of(lambda: world.search("tide"), ProfileMismatch)
        failure_of(lambda: here.embedder.embed_documents(["tide"]), ProfileMismatch)
        failure_of(lambda: here.embedder.embed_query("tide"), ProfileMismatch)

    assert here.index.calls.count("search") == searched
    server.models[0].build -= 1
    assert world.search("tide", floor=0.0).results


def test_what_stands_behind_the_name_is_looked_up_once_a_minute(server: Ollama) -> None:
    clock = HandClock()
    embedder = embedder_of(server, clock=clock)
    for _ in range(10):
        embedder.embed_query("tide")
    assert len(server.to("/api/tags")) == 1

    clock.time += RECHECK_SECONDS
    for _ in range(10):
        embedder.embed_query("tide")

    assert len(server.to("/api/tags")) == 2
    assert len(server.to("/api/show")) == 1


# From the settings


@pytest.fixture
def configured(server: Ollama, monkeypatch: pytest.MonkeyPatch) -> Ollama:
    monkeypatch.setenv("TRUESPAN_EMBEDDING_PROVIDER", "ollama")
    monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
    return server


def test_opening_a_library_asks_nothing_of_ollama(tmp_path: Path, configured: Ollama) -> None:
    with open_library(tmp_path / "library", create=True) as library:
        world = library.create_world("world")
        world.status()
        assert world.search("anything").results == ()

    assert configured.asked == []


@proves("ollama.configurable", "ollama.query-request")
def test_model_address_and_dimensions_of_the_settings_reach_ollama(
    tmp_path: Path, configured: Ollama, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured.models = [Model("my/model:7", dimensions=64)]
    monkeypatch.setenv("TRUESPAN_OLLAMA_MODEL", "my/model:7")
    monkeypatch.setenv("TRUESPAN_OLLAMA_DIMENSIONS", "32")
    monkeypatch.setenv("EMBEDDING_API_CONCURRENCY", "3")
    (tmp_path / "tide.txt").write_text("The tide comes in twice a day.")

    with open_library(tmp_path / "library", create=True) as library:
        world = library.create_world("world")
        world.ingest(str(tmp_path / "tide.txt"))
        found = world.search("twice a day")
        limits = library._parts.embedder.limits
        library._parts.index.retire()  # type: ignore[attr-defined]

    assert [passage.text for passage in found.results] == ["The tide comes in twice a day."]
    assert limits.in_flight == 3
    assert configured.embeds[-1] == {
        "model": "my/model:7",
        "input": "twice a day",
        "truncate": False,
        "dimensions": 32,
    }


def test_the_endpoint_tells_two_servers_apart(server: Ollama) -> None:
    with Ollama() as other:
        assert embedder_of(server).endpoint != embedder_of(other).endpoint
