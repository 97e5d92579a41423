"""Tokens and vectors: who counts, who embeds, and which keys wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from truespan.model.chunk import Vector
from truespan.model.profile import EmbeddingProfile
from truespan.model.text import TokenMap


class TokenCounter(Protocol):
    """Counts tokens. Its counts are stored at ingest and never made again at query time."""

    @property
    def name(self) -> str:
        """Return a name that changes whenever counts would."""
        ...

    def measure(self, text: str) -> TokenMap:
        """Return the token map of a whole text."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of one short text."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingLimits:
    """What one request to a provider may hold, and how many may be under way."""

    items: int = 2048
    tokens: int = 100_000
    in_flight: int = 2
    joint: bool = True
    """Whether texts of one request come back together, so that their order must be proved."""

    def within(self, other: EmbeddingLimits) -> EmbeddingLimits:
        """Return the tighter of two limits in every respect."""
        return EmbeddingLimits(
            items=min(self.items, other.items),
            tokens=min(self.tokens, other.tokens),
            in_flight=min(self.in_flight, other.in_flight),
            joint=self.joint,
        )


class Embedder(Protocol):
    """Turns texts into vectors. Documents and queries are two verbs."""

    @property
    def profile(self) -> EmbeddingProfile:
        """Return what decides the meaning of its vectors."""
        ...

    @property
    def endpoint(self) -> str:
        """Return where it is reached; part of the query-cache key, never shown to callers."""
        ...

    @property
    def limits(self) -> EmbeddingLimits:
        """Return what one request may hold."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderUnavailable: it did not answer; trying again may help.
            ProviderRefused: it answered no.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        ...

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens the model would read of a query."""
        ...


Embedders: TypeAlias = Callable[[EmbeddingProfile], Embedder]
"""Gives the embedder of a generation's profile, or the default one where none has it."""


class Paces(Protocol):
    """How many requests a minute a provider gets from all processes of a library together."""

    def reserve(self, provider: str, per_minute: int) -> float:
        """Return for how many seconds to wait with the next request; its moment is taken now."""
        ...


class Cooldowns(Protocol):
    """Which provider keys wait, and until when; shared by every process of a library."""

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key is not to be used; 0.0 when it may be."""
        ...

    def cool_down(self, provider: str, key: str, until: float) -> None: ...
