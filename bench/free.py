"""An embedder and a token counter that cost nothing, so that only the rest is measured."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

import truespan
from truespan.engine.library import Library
from truespan.index.edge.client import EdgeIndex
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.text import TokenMap
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.parsing.sandbox.client import ChildParser

DIMENSIONS = 384
CHARACTERS_PER_TOKEN = 4
MAX_CHARACTERS = 2_000_000
"""Maximum number of characters of a text that is counted."""


def unit_vectors(count: int, seed: int) -> list[Vector]:
    """Return random vectors of length 1, the same ones for the same seed."""
    numbers = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
    return [Vector(row.astype("<f4").tobytes()) for row in numbers]


class FreeEmbedder:
    """Hands out vectors made beforehand, no two of them equal, and remembers the texts."""

    profile = EmbeddingProfile(
        provider="bench",
        model="free",
        revision="1",
        dimensions=DIMENSIONS,
        distance=Distance.COSINE,
        document_mode="document",
        query_mode="query",
        input_limit=100_000,
    )
    endpoint = "nowhere"
    limits = EmbeddingLimits(items=2048, tokens=10**9, in_flight=1, joint=False)

    def __init__(self, texts: int, queries: int = 0) -> None:
        self.texts: list[str] = []
        self._documents = unit_vectors(texts, seed=1)
        self._queries = iter(unit_vectors(queries, seed=2))

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the next vectors."""
        first = len(self.texts)
        self.texts.extend(texts)
        return self._documents[first : first + len(texts)]

    def embed_query(self, text: str) -> Vector:  # noqa: ARG002
        """Return the next query vector; the query cache keeps it."""
        return next(self._queries)

    def count_query(self, text: str) -> int:
        """Return a count that fits."""
        return len(text) // CHARACTERS_PER_TOKEN


class FreeCounter:
    """Takes every four characters for a token, without looking at them."""

    name = "free"

    def __init__(self) -> None:
        # Arrays as the real counter's are, because it matters to what is done with them.
        self._starts = array("I", range(0, MAX_CHARACTERS, CHARACTERS_PER_TOKEN))
        self._totals = array("I", range(MAX_CHARACTERS // CHARACTERS_PER_TOKEN + 1))

    def measure(self, text: str) -> TokenMap:
        """Return a map that is cut from what is there."""
        tokens = self.count(text)
        return TokenMap(text, self._starts[:tokens], self._totals[: tokens + 1], self.count)

    def count(self, text: str) -> int:
        """Return a quarter of the characters, rounded up."""
        return -(-len(text) // CHARACTERS_PER_TOKEN)


@contextmanager
def free_library(folder: Path, embedder: FreeEmbedder) -> Iterator[Library]:
    """Give a library that embeds for nothing; its index process ends with it."""
    with truespan.open(folder, create=True, embedder=embedder, counter=FreeCounter()) as library:
        try:
            yield library
        finally:
            end_index_process(library)


def index_of(library: Library) -> EdgeIndex:
    """Return the index of a library: what is measured apart lies behind its front."""
    index = library._components.index
    assert isinstance(index, EdgeIndex)
    return index


def index_process(library: Library) -> int:
    """Return the number of the index process, once something has been asked of it.

    For a Qdrant server it is what the variable QDRANT_PID says, or 0.
    """
    if not isinstance(library._components.index, EdgeIndex):
        return int(os.environ.get("QDRANT_PID", "0"))
    return index_of(library)._link.server


def parser_processes(library: Library) -> list[int]:
    """Return the numbers of the processes that parse documents and have nothing to do just now."""
    # It may be made when it is first needed, behind what stands for it.
    return cast("ChildParser", library._components.parser).idle_pids


def end_index_process(library: Library) -> None:
    """Ask the index process to end and wait until it has: only then its files are at rest."""
    pid = index_process(library)
    if not pid or not isinstance(library._components.index, EdgeIndex):
        return
    index_of(library).retire()
    while _alive(pid):
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def index_files(folder: Path) -> Path:
    """Return where the only collection of a library's index lies."""
    (found,) = [path.parent for path in (folder / "index").glob("*/edge_config.json")]
    return found
