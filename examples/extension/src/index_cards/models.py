"""Models that know nothing but words: texts with the same words are similar."""

import math
import re
from array import array
from collections.abc import Sequence
from zlib import crc32

import msgspec

from truespan.providers.context import ModelContext
from truespan.settings.catalogue import Count
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import Vector


class WordSettings(msgspec.Struct, frozen=True):
    """The embedder of words."""

    dimensions: Count = 256
    """Number of directions; words that share one are alike."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())


class WordEmbedder:
    """An embedder with a direction for each word."""

    endpoint = "this process"
    limits = EmbeddingLimits(items=64, in_flight=1, joint=False)

    def __init__(self, dimensions: int) -> None:
        self.profile = EmbeddingProfile(
            provider="words",
            model="crc32",
            revision="1",
            dimensions=dimensions,
            distance=Distance.COSINE,
            document_mode="document",
            query_mode="query",
            input_limit=512,
        )

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        numbers = [0.0] * self.profile.dimensions
        for word in words_of(text) or ["nothing"]:
            numbers[crc32(word.encode()) % len(numbers)] += 1.0
        length = math.hypot(*numbers)
        return Vector(array("f", [number / length for number in numbers]).tobytes())

    def count_query(self, text: str) -> int:
        return len(words_of(text))


class WordReranker:
    """A reranker that counts the words which a text shares with the query."""

    name = "words/shared"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = set(words_of(query))
        return [float(len(wanted.intersection(words_of(text)))) for text in texts]


def make_embedder(context: ModelContext) -> WordEmbedder:
    return WordEmbedder(context.settings.value_of("words_dimensions"))


def make_reranker(_: ModelContext, __: float) -> WordReranker:
    return WordReranker()
