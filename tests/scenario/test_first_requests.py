"""Requests by which a process identifies a model, and cached data before them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.contract.keyed_parts import KEY, ring_of
from tests.promises import proves
from tests.support.providers import Answer, Google, Loopback, Model, Ollama, OpenAi, PassingClock
from tests.support.providers.embedders import make_embedder
from tests.support.worlds import LibraryFixture, WordCounter, make_library
from truespan.errors import ProfileMismatch, ProviderUnavailable
from truespan.extensions.models.google import GoogleEmbedder
from truespan.providers.ollama import OllamaEmbedder
from truespan.providers.openai import OpenAiEmbedder

TIDE = "The tide comes in twice a day."


class Provider(Struct, frozen=True):
    """A server on the loopback, and the embedder that asks it for a model."""

    serve: Callable[..., Any]
    kind: type[Any]
    model: str
    other: str

    def embedder(self, server: Loopback, clock: PassingClock, **changes: Any) -> Any:
        given: dict[str, Any] = {"clock": clock, "in_flight": 1}
        if self.kind is not GoogleEmbedder:
            given["counter"] = WordCounter()
        if self.kind is not OllamaEmbedder:
            given["keys"] = ring_of(self.kind.provider, KEY, clock=clock)
        given |= changes
        model = given.pop("model", self.model)
        return make_embedder(self.kind, getattr(server, "base", server.url), model, **given)

    def open(
        self, folder: Path, server: Loopback, index: Any = None, **changes: Any
    ) -> LibraryFixture:
        clock = PassingClock()
        embedder = self.embedder(server, clock, **changes)
        return make_library(folder, embedder=embedder, clock=clock, index=index)


PROVIDERS = {
    "openai": Provider(OpenAi, OpenAiEmbedder, "text-embedding-3-small", "another"),
    "ollama": Provider(Ollama, OllamaEmbedder, "BAAI/bge-base-en-v1.5", "nomic-embed-text"),
    "google": Provider(Google, GoogleEmbedder, "gemini-embedding-001", "another"),
}


@pytest.fixture(params=[*PROVIDERS.values()], ids=[*PROVIDERS])
def provider(request: pytest.FixtureRequest) -> Provider:
    return request.param


@proves("embedding.retries-transient-only")
def test_ingest_survives_any_request_that_fails_once(provider: Provider, tmp_path: Path) -> None:
    with provider.serve() as server:
        provider.open(tmp_path / "all", server).world(tide__txt=TIDE)
        count = len(server.asked)
    for number in range(1, count + 1):
        with provider.serve() as server:
            server.fault = lambda _, server=server, number=number: (
                Answer(503, {"error": "loading"}) if len(server.asked) == number else None
            )
            lib = provider.open(tmp_path / str(number), server)

            lib.world(tide__txt=TIDE)

            assert len(server.asked) > count, f"request {number} was not refused"
            assert lib.library.world("world").status().embedded == 1, f"request {number} failed"


@proves("embedding.retries-transient-only")
def test_reindex_survives_a_first_request_that_fails(provider: Provider, tmp_path: Path) -> None:
    with provider.serve() as server:
        before = provider.open(tmp_path, server)
        before.world(tide__txt=TIDE)
        lib, asked = provider.open(tmp_path, server, before.index), len(server.asked)
        server.fault = lambda _: Answer(503, {}) if len(server.asked) == asked + 1 else None

        assert lib.library.world("world").generations.reindex().generation == 2


@proves("errors.provider-or-index")
def test_question_does_not_retry_its_first_request(provider: Provider, tmp_path: Path) -> None:
    with provider.serve() as server:
        before = provider.open(tmp_path, server)
        before.world(tide__txt=TIDE)
        lib, asked = provider.open(tmp_path, server, before.index), len(server.asked)
        server.fault = lambda _: Answer(503, {})

        with pytest.raises(ProviderUnavailable):
            lib.library.world("world").search("tide")

        assert len(server.asked) == asked + 1


@proves("embedding.mismatch-before-search", "cache.other-model-misses")
def test_cached_query_under_another_model_is_refused(provider: Provider, tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [{"model": provider.other}, {"dimensions": 32}]
    if provider.kind is OpenAiEmbedder:
        changes.append({"input_limit": 100})
    with provider.serve() as server:
        before = provider.open(tmp_path, server)
        before.world(tide__txt=TIDE)
        found = before.library.world("world").search("tide")
        server.fault = lambda _: Answer(503, {})
        again = provider.open(tmp_path, server, before.index).library.world("world")

        # It needs no provider under the model of the world, only under other models.
        assert again.search("tide").passages == found.passages
        server.fault = None
        for change in changes:
            serve_model(server, change.get("model", provider.model))
            world = provider.open(tmp_path, server, before.index, **change).library.world("world")
            for query in ("tide", "day"):
                with pytest.raises(ProfileMismatch):
                    world.search(query)


def serve_model(server: Any, model: str) -> None:
    if isinstance(server, Ollama):
        server.models.append(Model(f"{model}:latest"))
    else:
        server.model = model
