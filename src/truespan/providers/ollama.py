"""An embedder and a chat model of Ollama, on this machine or another.

Must hold: nothing is truncated silently, one profile stands for one build of one model, and a chat
reply is complete only with the line that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from truespan.errors import ModelUnavailable, ProfileMismatch, ProviderBadReply
from truespan.protocols import TokenCounter
from truespan.providers.chat import HttpChat, Messages, ReplyEvent
from truespan.providers.context import ModelContext
from truespan.providers.embedder import PROBE, EmbedderOptions, HttpEmbedder, LearntModel
from truespan.providers.http import Reply, StreamedReply
from truespan.providers.outbound import Bounds
from truespan.providers.prefixes import prefixes_for
from truespan.types.profile import EmbeddingProfile
from truespan.types.vectors import NO_VECTOR, Vector, unit_vector

ALIASES = {
    "baai/bge-small-en-v1.5": "hf.co/CompendiumLabs/bge-small-en-v1.5-gguf",
    "baai/bge-base-en-v1.5": "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf",
    "baai/bge-large-en-v1.5": "hf.co/CompendiumLabs/bge-large-en-v1.5-gguf",
    "baai/bge-m3": "bge-m3",
    "nomic-ai/nomic-embed-text-v1.5": "nomic-embed-text:v1.5",
    "mixedbread-ai/mxbai-embed-large-v1": "mxbai-embed-large",
    "sentence-transformers/all-minilm-l6-v2": "all-minilm",
    "google/embeddinggemma-300m": "embeddinggemma",
}
"""Published names of models, and the names under which Ollama pulls the same weights.

Ollama's own library has no English bge, but it pulls GGUF files from the model hub.
"""

_LIBRARY = re.compile(r"^(registry\.ollama\.ai/)?(library/)?", re.IGNORECASE)


def to_pull(model: str) -> str:
    """Return the name that `ollama pull` finds."""
    return ALIASES.get(model.lower(), model)


def full_name(name: str) -> str:
    """Return the name of a model as Ollama completes it: with a tag, and without regard to case."""
    name = _LIBRARY.sub("", name).lower()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


RECHECK_SECONDS = 60.0
"""Seconds between two checks of the build behind a model name."""
_ITEMS = 32
_SPECIAL_TOKENS = 2
_MIN_CONTEXT = 512
"""Maximum number of tokens of a text, if Ollama does not state it."""
_USUAL_CONTEXT = 2048
"""Context of a model in older releases, unless its file states more."""
_CHARACTERS_PER_TOKEN = 4
_BOUNDS = Bounds(read_seconds=300.0, total_seconds=300.0)
"""Seconds to wait for a reply: nothing arrives while a model is loaded or a batch runs."""

_NOT_FINITE = r"\bnan\b|\binf\b|unsupported value"


class _Installed(msgspec.Struct):
    name: str
    digest: str


class _Tags(msgspec.Struct):
    models: list[_Installed]


class _Shown(msgspec.Struct):
    model_info: dict[str, Any] | None = None
    parameters: str | None = None


class _Embedded(msgspec.Struct):
    embeddings: list[list[float | None] | None]


class _NotFinite(Exception):
    """A failure of Ollama to send numbers that are not finite."""


def make_embedder(context: ModelContext) -> OllamaEmbedder:
    return OllamaEmbedder(context.http_options("ollama"), counter=context.counter)


# Shared by threads: the model is learnt under a lock, which is held during those requests.
class OllamaEmbedder(HttpEmbedder):
    """An embedder of Ollama.

    The build behind the model's name is checked every minute: vectors of another build are not
    comparable, so embedding then raises `ProfileMismatch`.
    """

    provider = "ollama"
    label = "Ollama"
    start_advice = "Start it with 'ollama serve', or set ollama_base_url to its URL."

    def __init__(self, options: EmbedderOptions, *, counter: TokenCounter) -> None:
        super().__init__(options, items=_ITEMS, bounds=_BOUNDS)
        self._counter = counter
        self._checked = 0.0

    def count_query(self, text: str) -> int:
        """Return the number of tokens of a query, exact or as an estimate."""
        # Ollama cannot count. Most embedding models that it serves use the vocabulary of the local
        # counter, whose count is then exact, or high where words are unknown; for other models it
        # is an estimate. Ollama refuses what is still too long, as each request forbids truncation.
        known = self._known()
        whole = known.prefixes.query + text
        return self._counter.count(whole) if known.counted else len(whole) // _CHARACTERS_PER_TOKEN

    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        """Return one vector per text; an empty vector for a document without finite numbers."""
        # The empty vector is refused later, so the other texts of the batch are not lost with it.
        try:
            return self._vectors(known.profile.model, texts[0] if query else texts)
        except _NotFinite:
            if query:
                raise ProviderBadReply(
                    f"{self._client.server} returned no finite numbers for the query."
                ) from None
        vectors: list[Vector] = []
        for text in texts:
            try:
                vectors += self._vectors(known.profile.model, [text])
            except _NotFinite:
                vectors.append(NO_VECTOR)
        return vectors

    def _vectors(self, name: str, texts: str | list[str]) -> list[Vector]:
        payload: dict[str, Any] = {"model": name, "input": texts, "truncate": False}
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        found = self._read(self._client.post("/api/embed", payload), _Embedded).embeddings
        self._require_count(len(found), 1 if isinstance(texts, str) else len(texts))
        return [unit_vector(numbers) for numbers in found]

    def _refuse(self, reply: Reply) -> NoReturn:
        if reply.names_no_model:
            raise self._missing_model()
        if (refusal := reply.size_refusal()) is not None:
            raise refusal
        if reply.says(_NOT_FINITE):
            raise _NotFinite
        if reply.says("does not support embed"):
            raise ModelUnavailable(
                f"The model {self._model!r} cannot embed ({self._client.server}).",
                advice="Set ollama_model to an embedding model.",
            )
        raise reply.failure()

    def _missing_model(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.server} has no model {self._model!r}.",
            advice=f"Get it with 'ollama pull {to_pull(self._model)}'.",
        )

    def _known(self) -> LearntModel:
        with self._learning:
            now = self._clock.monotonic()
            if self._learnt is None:
                self._learnt = self._learn()
                self._checked = now
            elif now - self._checked >= RECHECK_SECONDS:
                profile, found = self._learnt.profile, self._installed()
                if (found.name, found.digest) != (profile.model, profile.revision):
                    build = f"{found.name} in another build ({found.digest[:19]})"
                    raise ProfileMismatch(str(profile), build)
                self._checked = now
            return self._learnt

    def _is_configured_for(self, profile: EmbeddingProfile) -> bool:
        same_size = self._dimensions in (None, profile.dimensions)
        return same_size and full_name(profile.model) in self._full_names()

    def _full_names(self) -> tuple[str, str]:
        return full_name(self._model), full_name(to_pull(self._model))

    def _installed(self) -> _Installed:
        models = self._client.get("/api/tags").read(_Tags).models
        for name in self._full_names():
            for model in models:
                if full_name(model.name) == name and model.digest:
                    return model
        raise self._missing_model()

    def _learn(self) -> LearntModel:
        found = self._installed()
        shown = self._read(self._client.post("/api/show", {"model": found.name}), _Shown)
        try:
            [vector] = self._vectors(found.name, PROBE)
        except _NotFinite:
            raise ProviderBadReply(f"{self._client.server} returned no finite numbers.") from None
        prefixes = prefixes_for(found.name)
        profile = self._profile(
            self._dimensions_of(vector),
            model=found.name,
            revision=found.digest,
            modes=prefixes.modes,
            input_limit=_context(shown) - _SPECIAL_TOKENS - self._counter.count(prefixes.document),
        )
        counted = (shown.model_info or {}).get("tokenizer.ggml.model") == "bert"
        return LearntModel(profile, prefixes, counted=counted)


def _context(shown: _Shown) -> int:
    lengths = [
        value
        for key, value in (shown.model_info or {}).items()
        if key.endswith(".context_length") and type(value) is int and value > 0
    ]
    configured = re.search(r"^num_ctx\s+(\d{1,9})\s*$", shown.parameters or "", re.MULTILINE)
    context = int(configured[1]) if configured else _USUAL_CONTEXT
    return min([*lengths, context]) if lengths else _MIN_CONTEXT


class _Content(msgspec.Struct):
    content: str


class _Line(ReplyEvent):
    message: _Content | msgspec.UnsetType | None = msgspec.UNSET
    done: bool | msgspec.UnsetType = msgspec.UNSET
    done_reason: str | None = None


class OllamaChat(HttpChat):
    """A chat model of Ollama."""

    provider = "ollama"
    label = "Ollama"
    start_advice = "Start it with 'ollama serve', or set chat_ollama_base_url to its URL."
    context_advice = "Ask for less context, or raise chat_ollama_context if the model reads more."

    def _send(self, messages: Messages, deadline: float) -> StreamedReply:
        payload = {
            "model": self._model,
            "messages": messages,
            "stream": True,
            # Otherwise Ollama silently drops the oldest messages, or the start of the context.
            "truncate": False,
            "shift": False,
            "options": {
                "temperature": self._dialect.temperature,
                "num_predict": self._dialect.max_tokens,
                "num_ctx": self._dialect.context,
            },
        }
        headers = {"Accept": "application/x-ndjson"}
        reply = self._client.stream("/api/chat", payload, headers=headers, deadline=deadline)
        if not reply.succeeded:
            self._refuse(reply)
        return reply

    def _missing_advice(self) -> str:
        return f"Get it with 'ollama pull {to_pull(self._model)}'."

    def _read(self, reply: StreamedReply) -> Iterator[str]:
        if reply.content_type and "json" not in reply.content_type.lower():
            raise self._bad_reply("sent a reply that is not JSON")
        for text in filter(bytes.strip, reply.lines):
            line = self._decode(text, _Line)
            no_text = line.message is msgspec.UNSET and line.done is not True
            if line.done is msgspec.UNSET or no_text:
                raise self._bad_reply("sent invalid or unexpected JSON")
            yield line.message.content if line.message else ""
            if line.done:
                # Older releases give no reason.
                return self._check_end(line.done_reason or "stop")
        raise self._incomplete()
