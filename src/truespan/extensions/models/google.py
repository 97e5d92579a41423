"""An embedder with the models of Google AI Studio.

Owns: the requests, the exact count of tokens, and the errors for Google's complaints.
Must hold: no text is sent that the model would truncate, and a key goes into one header only.

AI Studio silently truncates texts that are too long, and this cannot be switched off. So texts that
may be too long are counted first, by the model itself.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec
from msgspec.structs import replace

from truespan.errors import InvalidConfiguration, ProviderBadReply, TextTooLong
from truespan.providers.context import ModelContext
from truespan.providers.embedder import PROBE, EmbedderOptions, HttpEmbedder, LearntModel
from truespan.providers.http import Reply, read_pause, sendable
from truespan.providers.keys import KeyRing
from truespan.providers.prefixes import GEMMA_PREFIXES, ModelPrefixes
from truespan.settings.catalogue import Count, Name, Url
from truespan.types.token import Secret
from truespan.types.vectors import Vector, unit_vector

MODEL = "gemini-embedding-001"
ITEMS = 100
"""Maximum number of texts of a request to Google."""
DOCUMENT, QUERY = "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"
_MARGIN = 4
"""Special tokens at the start and end of a text."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTRUCTED = re.compile(r"^gemini-embedding-2\b")
"""Models of the second series ignore the task type; they expect a prefix instead."""
_DELAY = re.compile(r"\b(\d{1,9})(?:\.\d+)?s\b")


class GoogleSettings(msgspec.Struct, frozen=True):
    """The embedding model of Google AI Studio."""

    base_url: Url = "https://generativelanguage.googleapis.com"
    """URL of Google AI Studio."""
    model: Name = "gemini-embedding-001"
    """Embedding model of Google."""
    dimensions: Count = 0
    """Dimensions to which Google shortens vectors; 0 for the model's own."""


class _Model(msgspec.Struct, rename="camel"):
    input_token_limit: int
    version: str = ""
    supported_generation_methods: list[str] | None = None


class _Values(msgspec.Struct):
    values: list[float | None] | None = None


class _Embedded(msgspec.Struct):
    embeddings: list[_Values | None]


class _Counted(msgspec.Struct, rename="camel"):
    total_tokens: int


def make_embedder(context: ModelContext) -> GoogleEmbedder:
    return GoogleEmbedder(context.http_options("google"), keys=context.key_ring("google"))


# Shared by threads: the model is learnt under a lock, which is held during those requests.
class GoogleEmbedder(HttpEmbedder):
    """An embedder of AI Studio. `TextTooLong` is raised before anything is sent."""

    provider = "google"
    label = "Google"
    missing_advice = f"Set google_model to one that embeds, such as {MODEL}."

    def __init__(self, options: EmbedderOptions, *, keys: KeyRing) -> None:
        model = options.model.removeprefix("models/")
        super().__init__(replace(options, model=model), items=ITEMS)
        if not _PLAIN_NAME.fullmatch(model):
            # The name is a part of the URL, where a slash or question mark would change the path.
            raise InvalidConfiguration("google_model is not the name of a model.")
        self._keys = keys
        self._path = f"/v1beta/models/{model}"

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens of a query, as the model counts them.

        The room that the profile reserves for a prefix is subtracted.
        """
        known = self._known()
        counted = self._count(known.prefixes.query + sendable(text))
        return counted - (known.limit - known.profile.input_limit)

    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        for text in texts:
            # A token stands for at least one byte, so most texts need no counting.
            if len(text.encode()) + _MARGIN > known.limit and self._count(text) > known.limit:
                raise TextTooLong(
                    f"A text is too long for the model ({self._client.server}).",
                    advice="Nothing was sent; shorten the query, or choose smaller chunks.",
                )
        return self._request(texts, QUERY if query else DOCUMENT)

    def _request(self, texts: list[str], task: str) -> list[Vector]:
        common: dict[str, Any] = {"model": f"models/{self._model}"}
        if not _INSTRUCTED.match(self._model):
            common["taskType"] = task
        if self._dimensions is not None:
            common["outputDimensionality"] = self._dimensions
        payload = {"requests": [{**common, "content": {"parts": [{"text": t}]}} for t in texts]}
        reply = self._send(f"{self._path}:batchEmbedContents", payload)
        found = reply.read(_Embedded).embeddings
        self._require_count(len(found), len(texts))
        return [unit_vector(entry.values if entry else None) for entry in found]

    def _count(self, text: str) -> int:
        payload = {"contents": [{"parts": [{"text": text}]}]}
        return self._send(f"{self._path}:countTokens", payload).read(_Counted).total_tokens

    def _send(self, path: str, payload: Any = None) -> Reply:
        def send(key: Secret | None) -> Reply:
            headers = {} if key is None else {"x-goog-api-key": key.reveal()}
            if payload is None:
                reply = self._client.get(path, headers=headers)
            else:
                reply = self._client.post(path, payload, headers=headers)
            if reply.retry_after is not None or reply.succeeded:
                return reply
            # Google writes the pause into the body, without fractions: one second is added.
            delay = _DELAY.search(reply.words)
            pause = read_pause(str(int(delay[1]) + 1), self._clock.now()) if delay else None
            return dataclasses.replace(reply, retry_after=pause)

        reply = self._keys.send(self._model, send)
        if reply.status == 404 and reply.size_refusal() is None:
            raise self._missing_model()
        if not reply.succeeded:
            self._refuse(reply)
        return reply

    def _learn(self) -> LearntModel:
        model = self._send(self._path).read(_Model)
        if "embedContent" not in (model.supported_generation_methods or ["embedContent"]):
            raise self._missing_model()
        if model.input_token_limit < 1:
            raise ProviderBadReply(f"{self._client.server} reports a model that reads no tokens.")
        instructed = _INSTRUCTED.match(self._model)
        prefixes = GEMMA_PREFIXES if instructed else ModelPrefixes()
        [vector] = self._request([prefixes.document + PROBE], DOCUMENT)
        longer = max(prefixes.document, prefixes.query, key=len)
        limit = model.input_token_limit
        profile = self._profile(
            self._dimensions_of(vector),
            revision=model.version,
            modes=prefixes.modes if instructed else (DOCUMENT, QUERY),
            input_limit=limit - (self._count(longer) if longer else 0),
        )
        return LearntModel(profile, prefixes, limit=limit)
