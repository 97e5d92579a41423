"""Rerankers on servers of the common protocols: Jina, Cohere, TEI and llama.cpp.

Must hold: a score belongs to the text with its index, every call ends in time or when it is
cancelled, and a key goes into one header only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from truespan import errors
from truespan.protocols import Clock
from truespan.providers.context import ModelContext
from truespan.providers.http import JsonClient, Reply, sendable
from truespan.providers.keys import KeyRing
from truespan.providers.limits import sending_query
from truespan.providers.outbound import Bounds, read_target
from truespan.types.token import Secret

Shape = Literal["jina", "cohere", "tei", "llama.cpp"]

_REQUESTS = 4
"""Concurrent requests of a process to the rerank server."""
_TEI_TEXTS = 32
"""Maximum number of texts of a request to TEI with its default settings."""
_REPLY_BYTES = 8 << 20
"""Maximum size of a reply: some servers return the texts beside the scores."""


class RerankServer(NamedTuple):
    """Endpoint and protocol of a rerank server."""

    url: str
    shape: Shape
    model: str

    @property
    def name(self) -> str:
        return f"{self.shape}/{self.model}" if self.model else self.shape


def find_server(url: str, model: str) -> RerankServer:
    """Return the endpoint of a rerank server, whose protocol the path of the URL tells.

    Version 1 is Jina's, which llama.cpp serves without a name of the model; version 2 is Cohere's.
    """
    target, model = read_target(url), model.strip()
    parts = target.path.lower().split("/")
    if parts[-1] not in ("rerank", "reranking"):
        raise errors.InvalidConfiguration(
            "The path of rerank_url does not tell the protocol of the rerank server.",
            advice="Use a URL that ends with /rerank, /v1/rerank or /v2/rerank.",
        )
    shapes: dict[str, Shape] = {"v1": "jina" if model else "llama.cpp", "v2": "cohere"}
    shape = shapes.get(parts[-2], "tei")
    if shape == "cohere" and not model:
        raise errors.InvalidConfiguration("A rerank server with /v2/rerank needs rerank_model.")
    return RerankServer(target.url, shape, model)


class _Scored(msgspec.Struct):
    index: int
    relevance_score: float


class _Results(msgspec.Struct):
    results: list[_Scored]


class _TeiScored(msgspec.Struct):
    index: int
    score: float


def make_http_reranker(context: ModelContext, seconds: float) -> HttpReranker:
    options = context.settings.rerank
    # A local server seldom needs a key, so it gets one only if one is configured for it.
    keyless = not any(key.provider == "rerank" for key in context.settings.keys)
    return HttpReranker(
        find_server(options.url, options.model),
        keys=context.key_ring("rerank", keyless=keyless),
        clock=context.clock,
        seconds=seconds,
        in_flight=_REQUESTS,
    )


class HttpReranker:
    """A reranker of a server: one request for all texts, with TEI one for each 32 texts."""

    def __init__(
        self,
        server: RerankServer,
        *,
        keys: KeyRing,
        clock: Clock,
        seconds: float,
        in_flight: int | None = None,
    ) -> None:
        self.name = server.name
        self._server = server
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._client = JsonClient(
            server.url,
            label="The rerank server",
            clock=clock,
            bounds=Bounds(
                connect_seconds=min(Bounds().connect_seconds, seconds),
                read_seconds=seconds,
                total_seconds=seconds,
                body_bytes=_REPLY_BYTES,
            ),
            in_flight=in_flight,
            start_advice="Check that it runs, and that rerank_url is its URL.",
        )

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text; see `Reranker`."""
        deadline = self._clock.monotonic() + self._seconds
        size = _TEI_TEXTS if self._server.shape == "tei" else max(len(texts), 1)
        return [
            score
            for start in range(0, len(texts), size)
            for score in self._request(query, texts[start : start + size], deadline)
        ]

    def _request(self, query: str, texts: Sequence[str], deadline: float) -> list[float]:
        payload = self._payload(sendable(query), [sendable(text) for text in texts])

        def post(key: Secret | None) -> Reply:
            headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
            return self._client.post("", payload, headers=headers, deadline=deadline)

        with sending_query():
            reply = self._keys.send(self._server.model, post)
        if not reply.succeeded:
            raise reply.size_refusal() or reply.failure()
        if self._server.shape == "tei":
            found = [(item.index, item.score) for item in reply.read(list[_TeiScored])]
        else:
            found = [(item.index, item.relevance_score) for item in reply.read(_Results).results]
        if sorted(index for index, _ in found) != list(range(len(texts))):
            raise errors.ProviderBadReply(
                f"{self._client.server} did not return exactly one score for each text."
            )
        return [score for _, score in sorted(found)]

    def _payload(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._server.shape == "tei":
            # Without it a text that is too long for the model fails the whole request.
            return {"query": query, "texts": texts, "truncate": True}
        payload: dict[str, Any] = {"query": query, "documents": texts, "top_n": len(texts)}
        if self._server.model:
            payload["model"] = self._server.model
        if self._server.shape == "jina":
            payload["return_documents"] = False
        return payload
