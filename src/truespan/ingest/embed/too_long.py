"""What is done with a text of which the model reads less than it holds.

Chunks are cut to fit by a count that need not be the model's own, so now and then one is refused.
Its boundaries stay: they were decided by the text, and everything that names the chunk names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from truespan.errors import TextTooLong
from truespan.ingest.embed.batches import CHARACTERS_PER_TOKEN, estimated_tokens
from truespan.ingest.embed.vectors import is_sound, mean
from truespan.ingest.parts import parts
from truespan.model.chunk import Vector
from truespan.model.text import TokenMap
from truespan.ports import TokenCounter

LEAST_PART = 8
"""Who refuses a part of so few tokens refuses something else than its length."""


class OnTokenLimit(StrEnum):
    """What becomes of a text that is too long for the model."""

    MEAN = "mean"
    TRUNCATE = "truncate"
    SKIP = "skip"


class Remark(StrEnum):
    """What is to be said of a text that did not simply get its vector."""

    MEAN_OF_PARTS = "mean_of_parts"
    """The model could not read it whole: its vector is the mean of those of its parts."""
    TRUNCATED = "truncated"
    """The vector is that of its beginning; nothing of the rest is in it."""
    TOO_LONG = "too_long"
    """It got no vector, because the model reads less and the operator wants such texts left out."""
    BAD_VECTOR = "bad_vector"
    """It got no vector, because what came back cannot be one, or because nothing did."""


@dataclass(frozen=True, slots=True)
class EstimatedTokens:
    """Counts as batches are counted, for whoever has no tokenizer at hand."""

    name: str = "estimate-1"

    def measure(self, text: str) -> TokenMap:
        """Return the token map of a text."""
        starts = range(0, len(text), CHARACTERS_PER_TOKEN)
        return TokenMap(text, starts, range(len(starts) + 1), self.count)

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return estimated_tokens(text)


@dataclass(frozen=True, slots=True)
class TooLong:
    """Embeds what is too long, as the operator chose. `limit` is what the model is said to read."""

    policy: OnTokenLimit
    counter: TokenCounter
    limit: int
    dimensions: int

    def embed(self, text: str, alone: Callable[[str], Vector]) -> tuple[Vector | None, Remark]:
        """Return a vector for a text that was refused whole, if it gets one, and what to say of it.

        `alone` embeds one text. The parts become smaller until it takes them.
        """
        if self.policy is OnTokenLimit.SKIP:
            return None, Remark.TOO_LONG
        for limit in self._limits(text):
            pieces = parts(text, self.counter, limit)
            if self.policy is OnTokenLimit.TRUNCATE:
                pieces = pieces[:1]
            try:
                return self._made(pieces, [alone(piece) for piece in pieces])
            except TextTooLong:
                continue
        # A provider that finds even the smallest part too long is not believed about length: to
        # leave the text out for good on its word would lose it.
        return None, Remark.BAD_VECTOR

    def _limits(self, text: str) -> Iterator[int]:
        counted = self.counter.count(text)
        limit = self.limit if counted > self.limit else counted // 2
        while limit >= LEAST_PART:
            yield limit
            limit //= 2

    def _made(self, pieces: list[str], vectors: list[Vector]) -> tuple[Vector | None, Remark]:
        if not all(is_sound(vector, self.dimensions) for vector in vectors):
            return None, Remark.BAD_VECTOR
        if self.policy is OnTokenLimit.TRUNCATE:
            return vectors[0], Remark.TRUNCATED
        weights = [max(self.counter.count(piece), 1) for piece in pieces]
        whole = mean(vectors, weights)
        if not is_sound(whole, self.dimensions):
            return None, Remark.BAD_VECTOR
        return whole, Remark.MEAN_OF_PARTS
