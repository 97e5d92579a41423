"""Failures of Ollama: never an empty answer nor another model's vector."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed_parts import SECRET, failure_of
from tests.contract.ollama_parts import (
    CONFIGURED,
    embedder_of,
    learnt,
    on_embed,
)
from tests.promises import proves
from tests.support.providers import Answer, Asked, Model, Ollama, Raw, Reaction, drops
from tests.support.worlds import LibraryFixture, ManualClock, make_library, similarity, vector_of
from truespan.engine.world import World
from truespan.errors import (
    ModelUnavailable,
    ProfileMismatch,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TextTooLong,
    TruespanError,
)
from truespan.ingest.embed import CANARY, PROBES
from truespan.providers.embedder import PROBE
from truespan.providers.ollama import RECHECK_SECONDS
from truespan.providers.outbound import Bounds
from truespan.wiring import open_library


@pytest.fixture
def server() -> Iterator[Ollama]:
    with Ollama() as started:
        yield started


@dataclass(frozen=True)
class Fault:
    """A failure of Ollama, and its error code."""

    name: str
    react: Callable[[Asked], Reaction]
    error: str | type[TruespanError]


def complaint(status: int, words: str) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(status, {"error": words})


def reply(embeddings: Any) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(content={"model": "m", "embeddings": embeddings})


def body(text: str, **more: Any) -> Callable[[Asked], Reaction]:
    return lambda asked: Answer(body=text.encode(), **more)


KNOWN = [[CANARY], *([text] for text in PROBES.values())]
"""Requests that are made before those for the texts of a world."""
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
    Fault("too long", complaint(400, "the input length exceeds the context length"), TextTooLong),
    Fault(
        "too long for an older one",
        complaint(500, "input length exceeds maximum context length"),
        TextTooLong,
    ),
    Fault("model gone", complaint(404, f"model '{SECRET}' not found"), ModelUnavailable),
    Fault(
        "model gone, as others say it",
        complaint(404, 'model "x" not found, try pulling it first'),
        ModelUnavailable,
    ),
    Fault(
        "no embeddings", complaint(501, "this model does not support embeddings"), ModelUnavailable
    ),
]


def each_fault() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


def opened(folder: Path, server: Ollama, model: str = CONFIGURED, **changes: Any) -> LibraryFixture:
    """Create or open a library that embeds with a server, with its index in memory."""
    clock = ManualClock()
    embedder: Any = embedder_of(server, model, **{"clock": clock} | changes)
    return make_library(folder, embedder=embedder, clock=clock)


def told(lib: LibraryFixture, **files: str) -> World:
    return lib.world(**(files or {"tide__txt": "The tide comes in twice a day."}))


@proves("embedding.down-is-an-error")
@each_fault()
def test_search_without_a_vector_is_an_error(tmp_path: Path, server: Ollama, fault: Fault) -> None:
    lib = opened(tmp_path, server)
    world = told(lib)
    server.fault = on_embed(fault.react)

    failure_of(lambda: world.search(f"what of the tide, {SECRET}?"), fault.error)

    assert "search" not in lib.index.calls
    server.fault = None
    assert world.search(f"what of the tide, {SECRET}?", floor=0.0).passages


SINGLE = {"too few dimensions", "too many dimensions", "no dimensions", "zero", "as good as zero"}
SINGLE |= {"infinite", "NaN it could not send", "NaN it noticed", "NaN", "out of range"}
SINGLE |= {"null for one", "null in one", "too long", "too long for an older one"}
"""Faults of one vector, which cost the other texts of a batch nothing."""


@proves("errors.provider-or-index", "errors.no-secrets")
@each_fault()
def test_failure_during_ingestion_leaves_nothing_partially_visible(
    tmp_path: Path, server: Ollama, fault: Fault
) -> None:
    lib = opened(tmp_path, server)
    world = told(lib)
    path = lib.write("late.txt", f"The {SECRET} comes late.")
    server.fault = on_embed(
        lambda asked: None if asked.content["input"] in KNOWN else fault.react(asked)
    )

    if fault.name in SINGLE:
        report = world.ingest(path)
        assert [(failed.name, failed.code) for failed in report.failures] == [
            ("late.txt", "provider_bad_reply")
        ]
        assert SECRET not in str(report.failures)
    else:
        failure_of(lambda: world.ingest(path), fault.error)

    assert [document.name for document in world.documents.list() if document.active] == ["tide.txt"]
    assert len(lib.points(world)) == 1
    server.fault = None
    assert world.ingest(path).failures == []
    assert len(lib.points(world)) == 2


@proves("embedding.vectors-checked")
@pytest.mark.parametrize(
    "answer",
    [
        complaint(500, "failed to encode response: json: unsupported value: NaN"),
        complaint(400, "embedding contains NaN or Inf values"),
    ],
)
def test_text_without_finite_numbers_does_not_fail_its_batch(
    tmp_path: Path, server: Ollama, answer: Callable[[Asked], Reaction]
) -> None:
    lib = opened(tmp_path, server)
    server.fault = on_embed(
        lambda asked: answer(asked) if SECRET in str(asked.content["input"]) else None
    )
    world = lib.library.create_world("world")
    texts = {f"{number}.txt": f"This is story {number}." for number in range(6)}
    paths = [lib.write(name, text) for name, text in texts.items()]
    paths.insert(3, lib.write("bad.txt", f"The {SECRET}."))

    report = world.ingest(paths)

    assert [failed.name for failed in report.failures] == ["bad.txt"]
    assert sorted(report.ingested) == sorted(texts)


@proves("embedding.count-and-canary")
@pytest.mark.parametrize("shuffle", [lambda x: x[::-1], lambda x: [*x[1:], x[0]]])
def test_shuffled_batch_is_detected(
    tmp_path: Path, server: Ollama, shuffle: Callable[[list[Any]], list[Any]]
) -> None:
    def shuffled(asked: Asked) -> Reaction:
        true = server.answer(asked)
        assert isinstance(true, Answer)
        return Answer(content={"embeddings": shuffle(true.content["embeddings"])})

    lib = opened(tmp_path, server)
    world = lib.library.create_world("world")
    paths = [lib.write(f"{number}.txt", f"word{number}") for number in range(5)]
    server.fault = on_embed(shuffled)

    failure_of(lambda: world.ingest(paths), ProviderBadReply)

    assert lib.points(world) == {}
    assert lib.sql("SELECT count(*) FROM vectors") == [(0,)]


@proves("embedding.vector-per-input", "embedding.concurrency")
def test_concurrent_batches_give_each_text_its_own_vector(tmp_path: Path, server: Ollama):
    lib = opened(tmp_path, server, in_flight=2)
    world = lib.library.create_world("world")
    texts = {f"{number}.txt": f"This is story {number}." for number in range(100)}

    world.ingest([lib.write(name, text) for name, text in texts.items()])

    points = lib.points(world)
    # Two texts of each batch are canaries; before them went known texts, each alone.
    sent = [asked["input"] for asked in server.embeds if len(asked["input"]) > 1]
    batches = [texts for texts in sent if isinstance(texts, list)]
    assert sorted(len(texts) for texts in batches) == [12, 32, 32, 32]
    assert [texts.count(CANARY) for texts in batches] == [2, 2, 2, 2]
    assert len(points) == 100
    for chunk_id, point in points.items():
        chunk = world.documents.chunk(chunk_id).chunk
        assert chunk is not None
        assert similarity(point.vector, vector_of(chunk.data.decode())) > 0.999999


@proves("embedding.concurrency")
def test_embedders_of_a_process_share_the_limit(server: Ollama) -> None:
    lock, gate, running, most = threading.Lock(), threading.Barrier(2), 0, 0

    def count(asked: Asked) -> Reaction | None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(30)
        with lock:
            running -= 1
        return None

    embedders = [embedder_of(server, CONFIGURED, in_flight=2) for _ in range(3)]
    for embedder in embedders:
        assert embedder.profile.dimensions
    server.fault = on_embed(count)
    with ThreadPoolExecutor(12) as pool:
        for number in range(12):
            embedder = embedders[number % 3]
            pool.submit(embedder.embed_documents, ["One text."])
            pool.submit(embedder.embed_query, "One query.")

    assert (most, running, len(server.embeds)) == (2, 0, 24 + 3)


@proves("embedding.retries-transient-only", "embedding.batch-items")
def test_ingestion_waits_for_the_requested_pause(tmp_path: Path, server: Ollama) -> None:
    lib = opened(tmp_path, server)
    world = lib.library.create_world("world")
    pauses = ["7", "Thu, 01 Jan 1970 00:00:00 GMT"]

    def busy(asked: Asked) -> Reaction | None:
        if pauses and asked.content["input"] == [CANARY]:
            return Answer(429, {}, {"Retry-After": pauses.pop(0)})
        return None

    server.fault = on_embed(busy)
    report = world.ingest([lib.write(f"{n}.txt", f"word{n}") for n in range(40)])

    assert len(report.ingested) == 40
    assert lib.clock.slept[0] == 7.0
    assert len(lib.clock.slept) == 2
    assert max(len(asked["input"]) for asked in server.embeds[1:]) == 32


@proves("embedding.down-is-an-error")
def test_slowly_dripping_reply_ends(server: Ollama) -> None:
    class Ticking(ManualClock):
        def monotonic(self) -> float:
            self.time += 0.01
            return self.time

    embedder = learnt(server, clock=Ticking(), bounds=Bounds(total_seconds=2.0))
    server.fault = on_embed(lambda asked: Answer(pieces=drops(b'{"embeddings": [[')))

    failure_of(lambda: embedder.embed_query(SECRET), ProviderUnavailable)


@proves("embedding.down-is-an-error")
def test_unavailable_service_fails_every_request_with_advice(
    tmp_path: Path, server: Ollama
) -> None:
    lib = opened(tmp_path, server)
    world = told(lib)
    path = lib.write("late.txt", "It comes late.")
    server.stop()

    for call in (lambda: world.search(f"the tide, {SECRET}"), lambda: world.ingest(path)):
        error = failure_of(call, ProviderUnavailable)
        assert error.retryable
        assert f"127.0.0.1:{server.port}" in error.message
        assert "ollama serve" in error.advice


@proves("embedding.down-is-an-error")
def test_service_that_never_started_fails_the_first_request(tmp_path: Path) -> None:
    with Ollama() as server:
        told(opened(tmp_path, server))
    lib = opened(tmp_path, server)

    error = failure_of(lambda: lib.library.world("world").search("tide"), ProviderUnavailable)

    assert "ollama serve" in str(error)
    assert "search" not in lib.index.calls


@proves("embedding.down-is-an-error")
@pytest.mark.parametrize(
    ("model", "pulled"),
    [
        (CONFIGURED, "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf"),
        ("BAAI/bge-m3", "bge-m3"),
        ("my/model:7b", "my/model:7b"),
    ],
)
def test_missing_model_is_reported_with_its_pull_command(
    tmp_path: Path, server: Ollama, model: str, pulled: str
) -> None:
    server.models = [Model("llama3:latest")]
    lib = opened(tmp_path, server, model)
    path = lib.write("a.txt", "The tide.")
    world = lib.library.create_world("world")

    error = failure_of(lambda: world.ingest(path), ModelUnavailable)

    assert repr(model) in error.message
    assert f"'ollama pull {pulled}'" in error.advice
    assert server.to("/api/embed") == []


def test_model_that_cannot_embed_is_an_operator_error(server: Ollama) -> None:
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
def test_world_refuses_search_and_ingest_with_another_model(
    tmp_path: Path, server: Ollama, change: str
) -> None:
    told(opened(tmp_path, server))
    name, server.models[0], changes = CHANGES[change](server.models[0])
    lib = opened(tmp_path, server, name, **changes)
    world = lib.library.world("world")
    asked = len(server.embeds)
    path = lib.write("late.txt", "It comes late.")

    for call in (lambda: world.search("tide"), lambda: world.ingest(path)):
        assert "ollama/" in failure_of(call, ProfileMismatch).message

    # Only the probe that learns the dimensions was embedded: neither query nor document was.
    assert [sent["input"] for sent in server.embeds[asked:]] == [PROBE]
    assert not {"search", "upsert"} & set(lib.index.calls)


@proves("generation.model-change-reindexes")
def test_world_can_be_searched_again_with_its_original_model(
    tmp_path: Path, server: Ollama
) -> None:
    lib = opened(tmp_path, server)
    told(lib)
    server.models.append(Model("other:latest"))
    other = opened(tmp_path, server, "other")
    with pytest.raises(ProfileMismatch):
        other.library.world("world").search("tide")

    assert lib.library.world("world").search("tide", floor=0.0).passages


@proves("generation.model-change-reindexes", "embedding.mismatch-before-search")
def test_model_pulled_again_during_a_process_is_detected(tmp_path: Path, server: Ollama) -> None:
    lib = opened(tmp_path, server)
    world = told(lib)
    searched = lib.index.calls.count("search")
    server.models[0].build += 1
    lib.clock.time += RECHECK_SECONDS

    for _ in range(2):
        failure_of(lambda: world.search("tide"), ProfileMismatch)
        failure_of(lambda: lib.embedder.embed_documents(["tide"]), ProfileMismatch)
        failure_of(lambda: lib.embedder.embed_query("tide"), ProfileMismatch)

    assert lib.index.calls.count("search") == searched
    server.models[0].build -= 1
    assert world.search("tide", floor=0.0).passages


def test_model_digest_is_checked_once_a_minute(server: Ollama) -> None:
    clock = ManualClock()
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


def test_opening_a_library_sends_no_request_to_ollama(tmp_path: Path, configured: Ollama) -> None:
    with open_library(tmp_path / "library", create=True) as library:
        world = library.create_world("world")
        world.status()
        assert world.search("anything").passages == ()

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
        limits = library._components.embedder.limits
        library._components.index.retire()  # type: ignore[attr-defined]

    assert [passage.text for passage in found.passages] == ["The tide comes in twice a day."]
    assert limits.in_flight == 3
    # The last one confirms the model.
    assert configured.embeds[-2] == {
        "model": "my/model:7",
        "input": "twice a day",
        "truncate": False,
        "dimensions": 32,
    }


def test_endpoint_distinguishes_two_servers(server: Ollama) -> None:
    with Ollama() as other:
        assert embedder_of(server).endpoint != embedder_of(other).endpoint
