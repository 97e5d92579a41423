"""Ranking of passages by the words that they share with a question (BM25)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SATURATION = 1.2
_LENGTH_SHARE = 0.75


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Bm25:
    """An index of passages; words of more than `max_share` of them are left out."""

    def __init__(self, passages: Sequence[str], max_share: float = 1.0) -> None:
        self._size = len(passages)
        counts = [Counter(words_of(passage)) for passage in passages]
        lengths = np.array([sum(found.values()) for found in counts], np.float32)
        scaled = _LENGTH_SHARE * lengths / max(1.0, float(lengths.mean()))
        saturation = _SATURATION * (1 - _LENGTH_SHARE + scaled)
        places: dict[str, list[int]] = defaultdict(list)
        for index, found in enumerate(counts):
            for word in found:
                places[word].append(index)
        self._postings: dict[str, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        for word, indexes in places.items():
            if len(indexes) > max_share * self._size:
                continue
            ids = np.array(indexes, np.int32)
            rarity = np.log(1 + (self._size - len(ids) + 0.5) / (len(ids) + 0.5))
            often = np.array([counts[index][word] for index in indexes], np.float32)
            weights = rarity * often * (_SATURATION + 1) / (often + saturation[ids])
            self._postings[word] = ids, weights.astype(np.float32)

    def scores(self, question: str) -> NDArray[np.float32]:
        scores = np.zeros(self._size, np.float32)
        for word in set(words_of(question)):
            if word in self._postings:
                ids, weights = self._postings[word]
                scores[ids] += weights
        return scores

    def best(self, question: str, count: int) -> list[int]:
        """Return the passages with the highest scores, best first; ties in their order."""
        scores = self.scores(question)
        chosen = np.argpartition(-scores, min(count, self._size - 1))[:count]
        return sorted(chosen.tolist(), key=lambda index: (-scores[index], index))
