"""Words of the trusted store: counted when they are first asked for, scored by BM25.

The index is never asked about words. What a score is made of are the chunks in scope and nothing
else: how many there are, how long they are, and in how many of them a word stands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truespan.model.ids import ChunkId, TextHash, hash_bytes
from truespan.model.scope import Scope, World
from truespan.model.words import CountedRevision, WordEntry, WordShelf
from truespan.ports import TrustedStore, WordStore
from truespan.query.terms import recipe_of, stemmed, terms, words
from truespan.query.word_layout import OUTSIDE, Layout, laid_out

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""The usual constants of BM25: how soon a repeated word stops to count, and what length counts."""

REVISIONS_AT_ONCE = 64
"""Revisions whose words are kept in one commit: others may write in between."""


def count_words(store: WordStore, scope: Scope, world: World) -> WordShelf:
    """Count the words of every revision in force that were not counted as they are now.

    Returns the revisions as they are then. A chunk whose bytes do not match their hash is passed
    over; its revision is looked at again once the world has changed.
    """
    shelf = store.word_shelf(scope, world)
    due = laid_out(shelf).due
    for start in range(0, len(due), REVISIONS_AT_ONCE):
        part = due[start : start + REVISIONS_AT_ONCE]
        store.keep_words(scope, [_counted(store, scope, entry) for entry in part])
    return store.word_shelf(scope, world) if due else shelf


def keep_counting(store: TrustedStore, scope: Scope) -> None:
    """Count what is new in a generation whose words somebody has asked for before.

    For the end of a run that changed documents. Where nobody has asked, this costs one look.
    """
    if store.counts_words(scope):
        world = store.find_world(scope.authority, scope.world, scope.generation.number)
        if world is not None:
            count_words(store, scope, world)


@dataclass(frozen=True, slots=True)
class WordScores:
    """The BM25 score of every chunk in scope; zero for one that has no word of the query."""

    scope: Scope
    layout: Layout
    values: NDArray[np.float64]

    @property
    def best(self) -> float:
        """Return the highest of all, by which the others are measured."""
        return float(self.values.max(initial=0.0))

    def of(self, document: int, revision: int, index: int) -> float:
        """Return the score of one chunk."""
        place = self.layout.place(document, revision, index)
        return 0.0 if place is None else float(self.values[place])

    def top(self, count: int, decimals: int) -> list[ChunkId]:
        """Return the ids of the best that have a word of the query, ties at the end included."""
        matching = self.values[self.values > 0]
        if not len(matching):
            return []
        matching.sort()
        least = round(float(matching[-min(count, len(matching))]), decimals)
        places = ((self.values > 0) & (self.values.round(decimals) >= least)).nonzero()[0]
        return [self.layout.chunk_id(self.scope, place) for place in places.tolist()]


def word_scores(store: WordStore, scope: Scope, world: World, query: str) -> WordScores:
    """Score the chunks in scope by the words of a query, which are counted first if need be."""
    import numpy as np

    layout = laid_out(count_words(store, scope, world))
    lengths = layout.lengths_in(store, scope)
    taking_part = lengths != OUTSIDE
    chunks, total = int(taking_part.sum()), int(lengths[taking_part].sum())
    values = np.zeros(len(lengths))
    codes = layout.stemmers_among(taking_part)
    for word in asked_words(query, [layout.stemmers[code] for code in codes]):
        forms = dict(zip(codes, word, strict=True))
        places, counts = _found(store, scope, layout, taking_part, forms)
        rarity = math.log(1 + (chunks - len(places) + 0.5) / (len(places) + 0.5))
        size = lengths[places] * chunks / (total or 1)
        values[places] += rarity * counts * (K1 + 1) / (counts + K1 * (1 - B + B * size))
    return WordScores(scope, layout, values)


def asked_words(query: str, stemmers: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the different words of a query, each as its term under every stemmer.

    What comes out equal under all of them is one word.
    """
    stems = [stemmed(name) for name in stemmers]
    return list(dict.fromkeys(tuple(stem(word) for stem in stems) for word in words(query)))


def _found(
    store: WordStore,
    scope: Scope,
    layout: Layout,
    taking_part: NDArray[np.bool_],
    forms: Mapping[int, str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which chunks have a word, and how often.

    A chunk has it if it has the word's term under the stemmer of its own language. How rare it is,
    is counted over all chunks in scope, whatever their language.
    """
    import numpy as np

    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for term in sorted(set(forms.values())):
        places, counts = layout.places_of(store, scope, term)
        speaking = [code for code, form in forms.items() if form == term]
        kept = taking_part[places] & np.isin(layout.codes[places], speaking)
        found.append((places[kept], counts[kept]))
    places, counts = zip(*found, strict=True) if found else ((), ())
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *places]), np.concatenate([empty, *counts])


def _counted(store: WordStore, scope: Scope, entry: WordEntry) -> CountedRevision:
    hashes: dict[int, TextHash] = {}
    lengths: dict[int, int] = {}
    places: dict[str, dict[int, int]] = {}
    for chunk in store.countable(scope, entry.ref):
        if hash_bytes(chunk.data) != chunk.text_hash:
            continue
        # The very bytes that were hashed are read; nothing is fetched a second time.
        found = terms(chunk.data.decode(), entry.language)
        hashes[chunk.index], lengths[chunk.index] = chunk.text_hash, len(found)
        for term, count in Counter(found).items():
            places.setdefault(term, {})[chunk.index] = count
    return CountedRevision(entry.ref, recipe_of(entry.language), hashes, lengths, places)
