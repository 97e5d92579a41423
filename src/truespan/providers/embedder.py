"""What the embedders of all HTTP providers share: the learnt model, prefixes and key handling.

Owns: learning a model once, the prefixes that model families expect, and common refusals.
Does not own: retries, batches and the check of their order; ingestion does that for all.
Must hold: nothing is cut silently, and one profile stands for one model.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, NoReturn

from truespan.errors import InvalidConfiguration, ModelUnavailable, ProviderBadReply
from truespan.protocols import EmbeddingLimits
from truespan.providers.http import JsonClient, Reply, names_no_model, sendable, size_refusal
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.vectors import LEAST_LENGTH, numbers_of

PROBE = "A short text from which the number of dimensions is learnt."


@dataclass(frozen=True, slots=True)
class ModelPrefixes:
    """The texts that a model expects before a query and before a document."""

    query: str = ""
    document: str = ""

    @property
    def query_mode(self) -> str:
        """Return the mode as the profile states it."""
        return f"instruction: {self.query}" if self.query else "plain"

    @property
    def document_mode(self) -> str:
        """Return the mode as the profile states it."""
        return f"instruction: {self.document}" if self.document else "passage"


GEMMA_PREFIXES = ModelPrefixes("task: search result | query: ", "title: none | text: ")
_REPRESENT = ModelPrefixes(query="Represent this sentence for searching relevant passages: ")
_FAMILIES = (
    (re.compile(r"bge[-:](small|base|large)-en"), _REPRESENT),
    (re.compile(r"mxbai-embed-large"), _REPRESENT),
    (re.compile(r"snowflake-arctic-embed2|arctic-embed-[lm]-v2"), ModelPrefixes(query="query: ")),
    (re.compile(r"arctic-embed"), _REPRESENT),
    (re.compile(r"nomic-embed-text"), ModelPrefixes("search_query: ", "search_document: ")),
    (re.compile(r"\be5-(small|base|large)"), ModelPrefixes("query: ", "passage: ")),
    (re.compile(r"embeddinggemma"), GEMMA_PREFIXES),
)
"""Models that were trained with instructions, by a pattern of their name; the first match wins."""


def prefixes_for(model: str) -> ModelPrefixes:
    """Return the prefixes of a model's family; none if the family is unknown."""
    matches = (prefixes for pattern, prefixes in _FAMILIES if pattern.search(model.lower()))
    return next(matches, ModelPrefixes())


@dataclass(frozen=True, slots=True)
class LearntModel:
    """What a provider said about its model. `limit` is the tokens it reads, prefix included.

    `counted` tells whether the local counter counts as the model does.
    """

    profile: EmbeddingProfile
    prefixes: ModelPrefixes
    limit: int = 0
    counted: bool = False


class HttpEmbedder(ABC):
    """Embeds through a provider, which is first asked when a text or the profile is needed.

    Embedding raises:
        ProviderUnavailable: the provider did not answer; trying again may help.
        TextTooLong, BatchTooLarge: a text, or the whole batch, is too large for it.
        ProviderRefused: the provider refused the request.
        ProviderBadReply: the reply is not one vector for each text.
        ModelUnavailable, ProfileMismatch: the model is gone, or has changed.
        CredentialsMissing: no key may be used for the model.
    """

    provider: ClassVar[str]
    missing_advice: ClassVar[str]

    def __init__(
        self,
        client: JsonClient,
        model: str,
        *,
        dimensions: int | None,
        items: int,
        in_flight: int,
    ) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions
        self._limits = EmbeddingLimits(items=items, in_flight=in_flight, joint=True)
        self._learning = Lock()
        self._learnt: LearntModel | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the profile of the configured model, learnt once; raises as embedding does."""
        return self._known().profile

    @property
    def endpoint(self) -> str:
        """Return the normalized base URL."""
        return self._client.target.url

    @property
    def limits(self) -> EmbeddingLimits:
        """Return the limits of one request."""
        return self._limits

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts."""
        if not texts:
            return []
        known = self._known()
        return self._embed(known, [known.prefixes.document + sendable(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query."""
        known = self._known()
        [vector] = self._embed(known, [known.prefixes.query + sendable(text)], query=True)
        return vector

    @abstractmethod
    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        """Return one vector per text; the prefixes are already in the texts."""

    @abstractmethod
    def _learn(self) -> LearntModel:
        """Ask the provider about the model."""

    def _known(self) -> LearntModel:
        with self._learning:
            if self._learnt is None:
                self._learnt = self._learn()
            return self._learnt

    def _profile(
        self,
        vector: Vector,
        *,
        revision: str,
        prefixes: ModelPrefixes,
        input_limit: int,
        model: str | None = None,
        modes: tuple[str, str] | None = None,
    ) -> EmbeddingProfile:
        """Return the profile of a model by the vector of a probe.

        Raises:
            ProviderBadReply: it is no vector.
            InvalidConfiguration: it has other dimensions than the settings ask for.
        """
        numbers, wanted = numbers_of(vector), self._dimensions
        if not LEAST_LENGTH < math.hypot(*numbers) < math.inf:
            raise ProviderBadReply(f"{self._client.server} did not return a valid vector.")
        if wanted not in (None, len(numbers)):
            setting = f"{self.provider}_dimensions"
            raise InvalidConfiguration(
                f"The model {self._model!r} returns {len(numbers)} dimensions, but {setting} is "
                f"{wanted}.",
                advice=f"Set {setting} to 0, or choose a model that can be shortened.",
            )
        document_mode, query_mode = modes or (prefixes.document_mode, prefixes.query_mode)
        return EmbeddingProfile(
            provider=self.provider,
            model=model or self._model,
            revision=revision,
            dimensions=len(numbers),
            distance=Distance.COSINE,
            document_mode=document_mode,
            query_mode=query_mode,
            input_limit=max(input_limit, 1),
        )

    def _require_count(self, found: int, expected: int) -> None:
        if found != expected:
            raise ProviderBadReply(
                f"{self._client.server} returned {found} vectors for {expected} texts."
            )

    def _missing_model(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.server} has no embedding model {self._model!r}.",
            advice=self.missing_advice,
        )

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise the error for a failed reply; its text is examined but never quoted."""
        if (refusal := size_refusal(reply)) is not None:
            raise refusal
        if reply.status in (400, 404) and names_no_model(reply):
            raise self._missing_model()
        raise reply.failure()
