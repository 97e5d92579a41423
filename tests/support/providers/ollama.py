"""A server for embeddings of Ollama."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction, numbers_of


@dataclass
class Model:
    """A model that Ollama has pulled."""

    name: str
    dimensions: int = 64
    context: int | None = 512
    tokenizer: str = "bert"
    parameters: str = ""
    build: int = 1
    embeds: bool = True

    @property
    def digest(self) -> str:
        return sha256(f"{self.name} {self.build}".encode()).hexdigest()


DEFAULT_MODEL = "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf:latest"


class Ollama(Loopback):
    """Answers /api/tags, /api/show and /api/embed as Ollama does; a token is a word."""

    def __init__(self, *models: Model) -> None:
        self.models = list(models) or [Model(DEFAULT_MODEL)]
        super().__init__()

    def answer(self, asked: Asked) -> Reaction:
        match (asked.method, asked.path):
            case ("GET", "/api/tags"):
                return Answer(content={"models": [_tag(model) for model in self.models]})
            case ("POST", "/api/show"):
                return self._about(asked, _shown)
            case ("POST", "/api/embed"):
                return self._about(asked, _embedded)
        return Answer(404, body=b"404 page not found", content_type="text/plain")

    @property
    def embeds(self) -> list[dict[str, Any]]:
        return [asked.content for asked in self.to("/api/embed")]

    def _about(self, asked: Asked, answer: Callable[[Model, dict[str, Any]], Reaction]) -> Reaction:
        wanted = asked.content["model"]
        full = wanted if ":" in wanted.rpartition("/")[2] else f"{wanted}:latest"
        for model in self.models:
            if model.name.lower() == full.lower():
                return answer(model, asked.content)
        return Answer(404, {"error": f"model '{wanted}' not found"})


def _tag(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": "2026-01-01T00:00:00Z",
        "size": 1,
        "digest": model.digest,
        "details": {"family": "bert", "families": None},
    }


def _shown(model: Model, asked: dict[str, Any]) -> Answer:
    about: dict[str, Any] = {
        "general.architecture": "bert",
        "bert.embedding_length": model.dimensions,
        "tokenizer.ggml.model": model.tokenizer,
        "tokenizer.ggml.tokens": None,
    }
    if model.context is not None:
        about["bert.context_length"] = model.context
    return Answer(content={"parameters": model.parameters, "model_info": about, "license": ""})


def _embedded(model: Model, asked: dict[str, Any]) -> Answer:
    if not model.embeds:
        return Answer(501, {"error": "this model does not support embeddings"})
    given = asked["input"]
    texts = ([given] if given else []) if isinstance(given, str) else given
    room = (model.context or 512) - 2
    longest = max((len(re.findall(r"\w+", text)) for text in texts), default=0)
    if longest > room and asked.get("truncate") is False:
        return Answer(400, {"error": "the input length exceeds the context length"})
    kept = [" ".join(text.split()[:room]) for text in texts]
    vectors = [numbers_of(text, model.dimensions) for text in kept]
    wanted = asked.get("dimensions", 0)
    if 0 < wanted < model.dimensions:
        vectors = [vector[:wanted] for vector in vectors]
    return Answer(
        content={
            "model": asked["model"],
            "embeddings": vectors,
            "total_duration": 14143917,
            "load_duration": 1019500,
            "prompt_eval_count": sum(len(text.split()) for text in kept),
        }
    )
