"""Blend two scores of a chunk into one: the words of the query that it has, and its similarity.

Both scores are measured against something that does not move with the size of a world, so that one
weight fits a short story and a hundred thousand chunks:

- similarity against what the embedding model gives to unrelated and to closely related texts, which
  is measured once for each model;
- words against the best chunk and against what a chunk with every word of the query could have.

Without a calibration of the model, the closest chunks stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.types.profile import Calibration

RELATED = 2.0
"""How far related texts lie above unrelated ones, in units of the distance between the similarity
that few unrelated texts have and the one at which an answer is certain."""
EMPHASIS = 1.5
"""The power of words: a chunk with few of the words gains less than its share of them."""


class Scale(Struct, frozen=True):
    """What the scores of candidates are measured against.

    All of it is of the model, or of chunks that the caller may see: nothing else decides an order.
    """

    unrelated: float
    """The similarity that counts nothing."""
    related: float
    """The similarity that counts 1."""
    best_words: float
    """The highest word score."""
    possible_words: float
    """The word score that no chunk can exceed."""
    calibrated: bool = True

    def blend(self, weight: float, bm25: float, similarity: float) -> float:
        """Return one score for two; words count for `weight` of it."""
        words = weight * self.by_words(bm25)
        return round(words + (1 - weight) * self.by_similarity(similarity), SCORE_DECIMALS)

    def by_words(self, bm25: float) -> float:
        """Return a word score between what the best chunk has and what is possible."""
        against = sqrt(self.best_words * self.possible_words)
        return (bm25 / against) ** EMPHASIS if against else 0.0

    def by_similarity(self, similarity: float) -> float:
        """Return where a similarity lies between unrelated and related texts.

        Without a calibration a candidate that only words contributed may lie below the closest;
        how far does not matter.
        """
        if self.related <= self.unrelated:
            return 1.0 if similarity >= self.related else 0.0
        share = (similarity - self.unrelated) / (self.related - self.unrelated)
        return share if self.calibrated else min(max(share, 0.0), 1.0)


def scale_of(
    closest: Sequence[float],
    best_words: float,
    possible_words: float,
    calibration: Calibration | None,
) -> Scale:
    """Return the scale of a search, from the similarities of the closest chunks, falling."""
    if calibration is not None and calibration.threshold_high > calibration.unrelated_high:
        unrelated = calibration.unrelated_high
        related = unrelated + RELATED * (calibration.threshold_high - unrelated)
        return Scale(unrelated, related, best_words, possible_words)
    lowest, highest = (closest[-1], closest[0]) if closest else (0.0, 0.0)
    # What is closest counts 1 here, so the best by words does too.
    return Scale(lowest, highest, best_words, best_words, calibrated=False)
