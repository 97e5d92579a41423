"""Models that know nothing but words: texts with the same words are similar."""

import math
import re
from array import array
from collections.abc import Sequence
from zlib import crc32

from truespan.providers.context import ModelContext
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import Vector


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())


class WordEmbedder:
    """An embedder with a direction for each word."""

    profile = EmbeddingProfile(
        provider="words",
        model="crc32",
        revision="1",
        dimensions=256,
        distance=Distance.COSINE,
        document_mode="document",
        query_mode="query",
        input_limit=512,
    )
    endpoint = "this process"
    limits = EmbeddingLimits(items=64, in_flight=1, joint=False)

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


def make_embedder(_: ModelContext) -> WordEmbedder:
    return WordEmbedder()


def make_reranker(_: ModelContext, __: float) -> WordReranker:
    return WordReranker()
