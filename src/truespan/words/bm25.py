"""Score chunks by the words of a query with BM25, from plain arrays.

A score depends only on the arguments: the number of chunks, their lengths, and the number of chunks
with each word. The caller decides which chunks take part; for a reader, the visible ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""Usual constants of BM25: saturation of repeated words, and weight of the length."""


class WordMatches(Struct, frozen=True):
    """Distinct places of the chunks with one word of a query, and its count in each.

    A place is a number from zero that the caller assigns to a chunk. Only chunks that take part are
    listed, since the number of places is the number of chunks with the word.
    """

    places: NDArray[np.int64]
    counts: NDArray[np.int64]
    weight: float = 1
    """Count of the word in the query; less for a part of a compound."""


def merge_matches(parts: Sequence[WordMatches]) -> WordMatches:
    """Return the matches of a word from those of each of its terms, with their counts added up."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    every = np.concatenate([part.places for part in parts])
    places, rows = np.unique(every, return_inverse=True)
    counts = np.bincount(rows, np.concatenate([part.counts for part in parts]), len(places))
    return WordMatches(places, counts.astype(np.int64))


class ChunkScores(Struct, frozen=True):
    """Scores of the chunks with a word of the query, by ascending places."""

    places: NDArray[np.int64]
    values: NDArray[np.float64]
    possible: float = 0.0
    """Upper bound of a score, approached by endless repetition of every word."""

    @property
    def best(self) -> float:
        """Return the highest score; zero if no chunk has a word of the query."""
        return float(self.values.max(initial=0.0))

    def of(self, place: int) -> float:
        """Return the score of the chunk at a place; zero if it has no word of the query."""
        return self.of_each([place])[0]

    def of_each(self, places: Sequence[int]) -> list[float]:
        """Return the scores of the chunks at these places."""
        import numpy as np

        if not len(self.places):
            return [0.0] * len(places)
        rows = self.places.searchsorted(places)
        rows[rows == len(self.places)] = 0
        return np.where(self.places[rows] == places, self.values[rows], 0.0).tolist()

    def top(self, count: int, decimals: int) -> list[int]:
        """Return the best places, best first.

        Scores are compared as shares of the best, so that chunks with equal blends are either all
        included or all left out.
        """
        import numpy as np

        if not len(self.values):
            return []
        shares = (self.values / self.best).round(decimals)
        if count < len(shares):
            least = np.partition(shares, len(shares) - count)[len(shares) - count]
            chosen = (shares >= least).nonzero()[0]
        else:
            chosen = np.arange(len(shares))
        ordered = chosen[np.argsort(-shares[chosen], kind="stable")]
        return self.places[ordered].tolist()


def rarity_of(chunks: int, containing: int) -> float:
    """Return the weight of a word by the number of chunks that contain it."""
    return math.log(1 + (chunks - containing + 0.5) / (containing + 0.5))


def score_chunks(
    words: Iterable[WordMatches], lengths: NDArray[np.int64], *, chunks: int, total: int
) -> ChunkScores:
    """Return the BM25 score of each chunk with a word of the query.

    `words` has one element for each distinct word of the query. `lengths` is the number of terms
    of the chunk at each place; only the places in `words` are read. `chunks` is the number of
    chunks that take part, `total` the number of their terms.
    """
    import numpy as np

    possible, values = 0.0, np.zeros(len(lengths))
    for word in words:
        found = len(word.places)
        rarity = rarity_of(chunks, found)
        size = lengths[word.places] * chunks / (total or 1)
        counts, factor = word.counts, word.weight * rarity * (K1 + 1)
        possible += factor if found else 0.0
        # Gains are added in the order of the words, so that equal chunks have exactly equal scores.
        values[word.places] += factor * counts / (counts + K1 * (1 - B + B * size))
    places = values.nonzero()[0]
    return ChunkScores(places, values[places], possible)
