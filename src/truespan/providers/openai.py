"""Embeds through any server with OpenAI's `/v1/embeddings`.

Owns: the requests, the errors for the complaints of such servers, and the profile of the model.
Must hold: a vector belongs to the text with its index, and a key goes into one header only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from truespan.errors import ProfileMismatch, ProviderBadReply
from truespan.ingest.embed import RateLimiter
from truespan.protocols import Clock, TokenCounter
from truespan.providers.embedder import PROBE, HttpEmbedder, LearntModel, prefixes_for
from truespan.providers.http import JsonClient, Reply, size_refusal
from truespan.providers.keys import KeyRing
from truespan.providers.outbound import Bounds
from truespan.types.chunk import Vector
from truespan.types.token import Secret
from truespan.types.vectors import unit_vector

INPUT_LIMITS = {
    "text-embedding-3-small": 8191,
    "text-embedding-3-large": 8191,
    "text-embedding-ada-002": 8191,
}
"""The tokens that a model reads of one text. OpenAI's own server refuses longer ones."""
_LEAST_CONTEXT = 512
"""The assumed limit of other models, including special tokens."""
_SPECIAL_TOKENS = 2
_ITEMS = 32
"""Texts per request to an unknown server, which may run on a small machine."""
_ITEMS_AT_OPENAI = 256
"""Texts per request to OpenAI itself. It accepts more, but the replies become large."""
_BYTES_PER_TEXT = 100_000
"""Room in a reply for each text: 4096 numbers as decimal text."""


class _Entry(msgspec.Struct):
    index: int
    embedding: list[float | None] | None


class _Embedded(msgspec.Struct):
    data: list[_Entry]
    model: str = ""


class OpenAiEmbedder(HttpEmbedder):
    """Embeds through a server. `input_limit` is for models that read more than 512 tokens.

    The revision of the profile is the name under which the server itself reports the model. It says
    little; a change of the model is noticed by the probes that a world stores.
    """

    provider = "openai"
    missing_advice = "Set openai_model to one that it serves for embeddings."

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        keys: KeyRing,
        dimensions: int | None,
        counter: TokenCounter,
        clock: Clock,
        in_flight: int = 2,
        items: int | None = None,
        input_limit: int | None = None,
        bounds: Bounds | None = None,
        pace: RateLimiter | None = None,
    ) -> None:
        items = items or (_ITEMS_AT_OPENAI if model in INPUT_LIMITS else _ITEMS)
        body_bytes = max(Bounds().body_bytes, items * _BYTES_PER_TEXT)
        client = JsonClient(
            base_url,
            label="The embedding server",
            clock=clock,
            bounds=bounds or Bounds(body_bytes=body_bytes),
            pace=pace,
            start_advice="Check that it runs, and that openai_base_url is its URL.",
        )
        super().__init__(client, model, dimensions=dimensions, items=items, in_flight=in_flight)
        self._keys = keys
        self._counter = counter
        self._input_limit = input_limit

    def count_query(self, text: str) -> int:
        """Return how many tokens a query has, by the local counter.

        The protocol has no request for it. A server that does not truncate silently refuses what
        is still too long.
        """
        return self._counter.count(self._known().prefixes.query + text)

    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        del query
        found, reported = self._request(texts)
        if reported != known.profile.revision:
            raise ProfileMismatch(str(known.profile), f"openai/{self._model}, another build")
        return found

    def _request(self, texts: list[str]) -> tuple[list[Vector], str]:
        """Return the vectors, and the name under which the server reports the model."""
        payload: dict[str, Any] = {
            "model": self._model,
            "input": texts,
            "encoding_format": "float",
        }
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        reply = self._keys.send(self._model, lambda key: self._post(payload, key))
        if not reply.succeeded:
            self._refuse(reply)
        content = reply.read(_Embedded)
        self._require_count(len(content.data), len(texts))
        by_index = {entry.index: entry.embedding for entry in content.data}
        if by_index.keys() != set(range(len(texts))):
            raise ProviderBadReply(
                f"{self._client.server} returned vectors that belong to no text."
            )
        return [unit_vector(by_index[index]) for index in range(len(texts))], content.model

    def _post(self, payload: dict[str, Any], key: Secret | None) -> Reply:
        headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        reply = self._client.post("/embeddings", payload, headers=headers)
        if reply.status == 429 and (refusal := size_refusal(reply)) is not None:
            # More than a minute's quota in one request: neither a pause nor another key helps.
            raise refusal
        return reply

    def _learn(self) -> LearntModel:
        prefixes = prefixes_for(self._model)
        [vector], reported = self._request([PROBE])
        limit = self._input_limit or INPUT_LIMITS.get(self._model)
        limit = limit or _LEAST_CONTEXT - _SPECIAL_TOKENS
        profile = self._profile(
            vector,
            revision=reported,
            prefixes=prefixes,
            input_limit=limit - self._counter.count(prefixes.document),
        )
        return LearntModel(profile, prefixes)
