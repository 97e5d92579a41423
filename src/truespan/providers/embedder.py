"""The base of embedders over HTTP: the learnt model, and common refusals.

Must hold: nothing is cut silently, and one profile stands for one model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import ClassVar, NoReturn

from msgspec import Struct

from truespan.errors import InvalidConfiguration, ModelUnavailable, ProviderBadReply
from truespan.protocols import Clock
from truespan.providers.http import JsonClient, Kind, Reply, sendable
from truespan.providers.limits import RateLimiter, sending_query
from truespan.providers.outbound import Bounds
from truespan.providers.prefixes import ModelPrefixes
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import MIN_NORM, Vector, numbers_of

PROBE = "A short text from which the number of dimensions is learnt."


class LearntModel(Struct, frozen=True):
    """A model: its maximum tokens, prefix included, and whether the local counter counts alike."""

    profile: EmbeddingProfile
    prefixes: ModelPrefixes
    limit: int = 0
    counted: bool = False


class EmbedderOptions(Struct, frozen=True):
    """Address, model and limits of an embedding provider."""

    base_url: str
    model: str
    clock: Clock
    dimensions: int | None = None
    in_flight: int = 2
    bounds: Bounds | None = None
    pace: RateLimiter | None = None


class HttpEmbedder(ABC):
    """An embedder of a provider that is reached over HTTP.

    Its model is examined when a text or the profile is first needed.

    Embedding raises: ProviderUnavailable: the provider did not answer; trying again may help.
    TextTooLong, ProviderRefused: a text, or the whole batch, is too large for it. ProviderRefused:
    the provider refused the request. ProviderBadReply: the reply is not one vector for each text.
    ModelUnavailable, ProfileMismatch: the model was removed, or has changed. InvalidConfiguration:
    no key may be used for the model.
    """

    provider: ClassVar[str]
    label: ClassVar[str]
    start_advice = "Try again in a moment."
    missing_advice: ClassVar[str]

    def __init__(
        self, options: EmbedderOptions, *, items: int, bounds: Bounds | None = None
    ) -> None:
        """Prepare a client, without connecting. `bounds` apply unless the options have others."""
        self._client = JsonClient(
            options.base_url,
            label=self.label,
            clock=options.clock,
            bounds=options.bounds or bounds,
            pace=options.pace,
            in_flight=options.in_flight,
            start_advice=self.start_advice,
            timeout_advice="Lower embedding_max_tokens_per_batch.",
        )
        self.endpoint = self._client.target.url
        self.limits = EmbeddingLimits(items=items, in_flight=options.in_flight, joint=True)
        self._clock = options.clock
        self._dimensions = options.dimensions
        self._model = options.model
        self._learning = Lock()
        self._learnt: LearntModel | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        return self._known().profile

    def may_have(self, profile: EmbeddingProfile) -> bool:
        """Return whether a profile may belong to the model, as far as the model is known."""
        known = self._learnt
        if known is not None:
            return known.profile.id == profile.id
        return profile.provider == self.provider and self._is_configured_for(profile)

    def _is_configured_for(self, profile: EmbeddingProfile) -> bool:
        same_size = self._dimensions in (None, profile.dimensions)
        return same_size and profile.model == self._model

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        known = self._known()
        return self._embed(known, [known.prefixes.document + sendable(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        with sending_query():
            known = self._known()
            [vector] = self._embed(known, [known.prefixes.query + sendable(text)], query=True)
        return vector

    @abstractmethod
    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        """Return one vector per text; the prefixes are already in the texts."""

    @abstractmethod
    def _learn(self) -> LearntModel:
        """Return the properties of the model."""

    def _known(self) -> LearntModel:
        with self._learning:
            if self._learnt is None:
                self._learnt = self._learn()
            return self._learnt

    def _profile(
        self,
        dimensions: int,
        *,
        revision: str,
        modes: tuple[str, str],
        input_limit: int,
        model: str | None = None,
    ) -> EmbeddingProfile:
        return EmbeddingProfile(
            provider=self.provider,
            model=model or self._model,
            revision=revision,
            dimensions=dimensions,
            distance=Distance.COSINE,
            document_mode=modes[0],
            query_mode=modes[1],
            input_limit=max(input_limit, 1),
        )

    def _dimensions_of(self, probe: Vector) -> int:
        numbers, wanted = numbers_of(probe), self._dimensions
        if not MIN_NORM < math.hypot(*numbers) < math.inf:
            raise ProviderBadReply(f"{self._client.server} did not return a valid vector.")
        if wanted not in (None, len(numbers)):
            setting = f"{self.provider}_dimensions"
            raise InvalidConfiguration(
                f"The model {self._model!r} returns {len(numbers)} dimensions, but {setting} is "
                f"{wanted}.",
                advice=f"Set {setting} to 0, or choose a model that can be shortened.",
            )
        return len(numbers)

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

    def _read(self, reply: Reply, kind: type[Kind]) -> Kind:
        if not reply.succeeded:
            self._refuse(reply)
        return reply.read(kind)

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise the error for a failed reply; its text is examined but never quoted."""
        if (refusal := reply.size_refusal()) is not None:
            raise refusal
        if reply.status in (400, 404) and reply.names_no_model:
            raise self._missing_model()
        raise reply.failure()
