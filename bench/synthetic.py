"""Documents made up by seed and vectors made up from texts, as many as one likes.

No model is asked. A vector has 384 numbers that follow from the text's digest alone, so that equal
texts have equal vectors and any two others a similarity of about 0.4, as unrelated texts have with
many models: nothing is to be learnt here of how good an answer is, only of what it costs. Words are
about as unevenly used as those of English.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import shake_128
from itertools import accumulate
from pathlib import Path
from random import Random

import numpy as np

from bench.free import DIMENSIONS, FreeEmbedder
from bench.material import Prose
from truespan.types.vectors import Vector

SENTENCES = 20_000
"""Of which documents are put together: no two paragraphs are equal, though sentences are."""
WORDS = 20_000
PARAGRAPH = 6
COMMON = 0.4
"""The part of a squared length that all vectors have in one direction."""
CHARACTERS_PER_CHUNK = 650
"""New ones, about: chunks have up to 1,000 characters and overlap by 200."""


class SyntheticEmbedder(FreeEmbedder):
    """Makes vectors from digests of texts, and remembers nothing."""

    def __init__(self) -> None:
        super().__init__(texts=0)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text."""
        drawn = b"".join(shake_128(text.encode()).digest(DIMENSIONS) for text in texts)
        # Half a step aside, so that zero is in the middle and no vector can be without length.
        rows = np.frombuffer(drawn, np.int8).reshape(len(texts), DIMENSIONS) + np.float32(0.5)
        rows *= np.sqrt((1 - COMMON) / (rows**2).sum(axis=1, keepdims=True))
        rows += np.float32(np.sqrt(COMMON / DIMENSIONS))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return [Vector(row.astype("<f4").tobytes()) for row in rows]

    def embed_query(self, text: str) -> Vector:
        """Return the vector that the text would have as a document."""
        return self.embed_documents([text])[0]


class Corpus:
    """Documents of a given number of chunks, one after the other, the same ones in every run."""

    def __init__(self, chunks_each: int, sentences: Sequence[str] | None = None) -> None:
        """Make documents of these sentences, or of made-up ones."""
        self._chance = Random(21)
        self._sentences = sentences or _sentences()
        self._characters = chunks_each * CHARACTERS_PER_CHUNK
        self._written = 0

    def write(self, folder: Path, count: int) -> None:
        """Fill a new folder with the next documents."""
        folder.mkdir()
        for _ in range(count):
            self._written += 1
            (folder / f"{self._written:07}.txt").write_text(self._text())

    def _text(self) -> str:
        paragraphs, length = [], 0
        while length < self._characters:
            paragraphs.append(" ".join(self._chance.choices(self._sentences, k=PARAGRAPH)))
            length += len(paragraphs[-1]) + 2
        return "\n\n".join(paragraphs)


def _sentences() -> list[str]:
    """Return sentences whose words are as unevenly used as those of a language."""
    chance, words = Random(22), list(dict.fromkeys(_words()))[:WORDS]
    often = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    return [
        " ".join(chance.choices(words, cum_weights=often, k=chance.randint(8, 28))).capitalize()
        + "."
        for _ in range(SENTENCES)
    ]


def _words() -> Iterator[str]:
    for seed in range(40, 50):
        yield from Prose(seed).vocabulary
