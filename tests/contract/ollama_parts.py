"""Shared parts of the tests of the Ollama embedder: a loopback server and its faults."""

from collections.abc import Callable
from typing import Any

from tests.support.providers import Asked, Ollama, Reaction
from tests.support.providers.embedders import make_embedder
from tests.support.worlds import ManualClock, WordCounter
from truespan.providers.ollama import OllamaEmbedder
from truespan.settings.catalogue import Settings

CONFIGURED = Settings().ollama.model
INSTRUCTION = "Represent this sentence for searching relevant passages: "


def embedder_of(server: Ollama, model: str = CONFIGURED, **changes: Any) -> OllamaEmbedder:
    given: dict[str, Any] = {
        "dimensions": None,
        "counter": WordCounter(),
        "clock": ManualClock(),
        "in_flight": 1,
    }
    return make_embedder(OllamaEmbedder, server.url, model, **given | changes)


def learnt(server: Ollama, **changes: Any) -> OllamaEmbedder:
    """Return an embedder that knows its profile, and a server that forgot the request for it."""
    embedder = embedder_of(server, **changes)
    assert embedder.profile
    server.asked.clear()
    return embedder


def on_embed(react: Callable[[Asked], Reaction | None]) -> Callable[[Asked], Reaction | None]:
    """Break only /api/embed."""
    return lambda asked: react(asked) if asked.path == "/api/embed" else None
