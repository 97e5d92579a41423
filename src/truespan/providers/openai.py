"""Embeds through any server that speaks OpenAI's `/v1/embeddings`.

Owns: the requests, what the complaints of such servers mean, and the profile of the model.
Does not own: retries, batches and the proof of their order; the ingestion does that for all.
Must hold: a vector belongs to the text whose index it bears, and a key goes into one header only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NoReturn

import msgspec

from truespan.errors import ModelUnavailable, ProfileMismatch, ProviderBadReply
from truespan.ingest.embed import RateLimiter
from truespan.protocols import Clock, EmbeddingLimits, TokenCounter
from truespan.providers.http import (
    Bounds,
    JsonClient,
    Reply,
    names_no_model,
    sendable,
    size_refusal,
)
from truespan.providers.keys import KeyRing
from truespan.providers.ollama import PROBE, ModelPrefixes, learnt_dimensions, manner_of
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.token import Secret
from truespan.types.vectors import unit_vector

PROVIDER = "openai"
INPUT_LIMITS = {
    "text-embedding-3-small": 8191,
    "text-embedding-3-large": 8191,
    "text-embedding-ada-002": 8191,
}
"""Most tokens of one text, by model. Its maker's own server refuses what is longer."""
_LEAST_CONTEXT = 512
"""What is taken for the most a model reads when nobody knows more; special tokens included."""
_SPECIAL_TOKENS = 2
_ITEMS = 32
"""Texts in a request to a server of which nothing is known: it may run on a small machine."""
_ITEMS_OF_ITS_MAKER = 256
"""Texts in a request to OpenAI itself. It takes more, but answers with megabytes then."""
_BYTES_PER_TEXT = 100_000
"""What a reply may hold for each text: 4096 numbers, written out in full."""


class _Entry(msgspec.Struct):
    index: int
    embedding: list[float | None] | None


class _Embedded(msgspec.Struct):
    data: list[_Entry]
    model: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    profile: EmbeddingProfile
    manner: ModelPrefixes


class OpenAiEmbedder:
    """Embeds through a server, which is first asked when the first text or the profile is needed.

    `input_limit` is for models that read more than the 512 tokens that are taken for granted.
    """

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
        most = items or (_ITEMS_OF_ITS_MAKER if model in INPUT_LIMITS else _ITEMS)
        self._client = JsonClient(
            base_url,
            label="The embedding server",
            clock=clock,
            bounds=bounds or _bounds(most),
            pace=pace,
            start_advice="Check that it runs, and that openai_base_url leads to it.",
        )
        self._model = model
        self._keys = keys
        self._dimensions = dimensions
        self._counter = counter
        self._input_limit = input_limit
        self._limits = EmbeddingLimits(items=most, in_flight=in_flight, joint=True)
        self._learning = Lock()
        self._learnt: _Known | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the profile of the configured model, learnt once from its answer to a probe.

        The revision is the name under which the server itself reports the model. It says little;
        what changes behind it is noticed by the probes that a world keeps.

        Raises:
            ModelUnavailable: the server has no such model.
            CredentialsMissing: no key may be used for it.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: the server did not say.
        """
        return self._known().profile

    @property
    def endpoint(self) -> str:
        """Return the base URL in one spelling."""
        return self._client.target.url

    @property
    def limits(self) -> EmbeddingLimits:
        """Return what one request may hold."""
        return self._limits

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderUnavailable: the server did not answer; trying again may help.
            TextTooLong, BatchTooLarge: a text, or all of them together, are too much for it.
            ProviderRefused: it said no.
            ProviderBadReply: the reply is not one vector for each text.
            ModelUnavailable, ProfileMismatch: the model is gone, or another than before.
            CredentialsMissing: no key may be used for the model.
        """
        if not texts:
            return []
        known = self._known()
        return self._embed(known, [known.manner.document + sendable(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        known = self._known()
        [vector] = self._embed(known, [known.manner.query + sendable(text)])
        return vector

    def count_query(self, text: str) -> int:
        """Return how many tokens a query has, by the local counter.

        The protocol has no request for it. What passes here and is still too long is refused by
        the server itself, if it is one that does not cut in silence.
        """
        return self._counter.count(self._known().manner.query + text)

    def _embed(self, known: _Known, texts: list[str]) -> list[Vector]:
        found, reported = self._request(texts)
        if reported != known.profile.revision:
            raise ProfileMismatch(str(known.profile), f"{PROVIDER}/{self._model}, another build")
        return found

    def _request(self, texts: list[str]) -> tuple[list[Vector], str]:
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
        return self._in_order(content.data, len(texts)), content.model

    def _post(self, payload: dict[str, Any], key: Secret | None) -> Reply:
        headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        reply = self._client.post("/embeddings", payload, headers=headers)
        if reply.status == 429 and (refusal := size_refusal(reply)) is not None:
            # More than a minute's allowance in one request: no wait and no other key would help.
            raise refusal
        return reply

    def _in_order(self, entries: list[_Entry], expected: int) -> list[Vector]:
        """Return the vectors by their index, of which there must be each one exactly once."""
        if len(entries) != expected:
            raise ProviderBadReply(
                f"{self._client.who} returned {len(entries)} vectors for {expected} texts."
            )
        placed = {entry.index: entry.embedding for entry in entries}
        if placed.keys() != set(range(expected)):
            raise ProviderBadReply(f"{self._client.who} returned vectors that belong to no text.")
        return [unit_vector(placed[index]) for index in range(expected)]

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise what a complaint means; the words themselves are looked at and not passed on."""
        if (refusal := size_refusal(reply)) is not None:
            raise refusal
        if reply.status in (400, 404) and names_no_model(reply):
            raise ModelUnavailable(
                f"{self._client.who} has no model {self._model!r}.",
                advice="Set openai_model to one that it serves for embeddings.",
            )
        raise reply.failure()

    # What stands behind the name

    def _known(self) -> _Known:
        with self._learning:
            if self._learnt is None:
                self._learnt = self._learn()
            return self._learnt

    def _learn(self) -> _Known:
        manner = manner_of(self._model)
        [vector], reported = self._request([PROBE])
        profile = EmbeddingProfile(
            provider=PROVIDER,
            model=self._model,
            revision=reported,
            dimensions=learnt_dimensions(
                vector,
                self._dimensions,
                who=self._client.who,
                model=self._model,
                setting="openai_dimensions",
            ),
            distance=Distance.COSINE,
            document_mode=manner.document_mode,
            query_mode=manner.query_mode,
            input_limit=self._room(manner),
        )
        return _Known(profile, manner)

    def _room(self, manner: ModelPrefixes) -> int:
        limit = self._input_limit or INPUT_LIMITS.get(self._model)
        if limit is None:
            limit = _LEAST_CONTEXT - _SPECIAL_TOKENS
        return max(limit - self._counter.count(manner.document), 1)


def _bounds(items: int) -> Bounds:
    """Return bounds that leave room for the reply to a full batch."""
    return Bounds(body_bytes=max(Bounds().body_bytes, items * _BYTES_PER_TEXT))
