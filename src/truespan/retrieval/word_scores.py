"""Score the chunks in scope by the words of a query, from the counts in the store.

A score depends on the chunks in scope and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.retrieval.bm25 import ChunkScores, WordMatches, score_chunks
from truespan.retrieval.word_counts import OUTSIDE, Layout, count_words, layout_of
from truespan.retrieval.word_query import WordQuery, match_words, parse_query
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from truespan.store import Store


class WordScores(Struct, frozen=True):
    """The BM25 scores of the chunks in scope; zero for one that has no word of the query."""

    scope: Scope
    layout: Layout
    query: WordQuery
    scores: ChunkScores

    @property
    def best(self) -> float:
        """Return the highest score, which the others are divided by."""
        return self.scores.best

    def of(self, document: int, revision: int, index: int) -> float:
        place = self.layout.place(document, revision, index)
        return 0.0 if place is None else self.scores.of(place)

    def top(self, count: int, decimals: int) -> list[ChunkId]:
        """Return the ids of the best chunks with a word of the query, ties at the end included."""
        values = self.scores.values
        if not len(values):
            return []
        least = round(sorted(values.tolist())[-min(count, len(values))], decimals)
        places = self.scores.places[values.round(decimals) >= least]
        return [self.layout.chunk_id(self.scope, place) for place in places.tolist()]


def word_scores(store: Store, scope: Scope, world: World, query: str) -> WordScores:
    """Score the chunks in scope by the words of a query; counts them first where necessary."""
    import numpy as np

    layout = layout_of(count_words(store, scope, world))
    lengths = layout.lengths_in(store, scope)
    taking_part = lengths != OUTSIDE
    codes = np.unique(layout.codes[taking_part]).tolist()
    parsed = parse_query(query, [layout.stemmers[code] for code in codes])

    def find(forms: Mapping[str, str]) -> WordMatches:
        return _find_word(store, scope, layout, taking_part, forms)

    scores = score_chunks(
        match_words(parsed, find),
        lengths,
        chunks=int(taking_part.sum()),
        total=int(lengths[taking_part].sum()),
    )
    return WordScores(scope, layout, parsed, scores)


def _find_word(
    store: Store,
    scope: Scope,
    layout: Layout,
    taking_part: NDArray[np.bool_],
    forms: Mapping[str, str],
) -> WordMatches:
    """Return the places of the chunks that contain a word, and how often.

    A chunk contains it if it has the word's term under the stemmer of its own language. How rare a
    word is, is counted over all chunks in scope, whatever their language.
    """
    import numpy as np

    places, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for term in sorted(set(forms.values())):
        found, often = layout.places_of(store, scope, term)
        speaking = [layout.stemmers.index(name) for name, form in forms.items() if form == term]
        kept = taking_part[found] & np.isin(layout.codes[found], speaking)
        places.append(found[kept])
        counts.append(often[kept])
    return WordMatches(np.concatenate(places), np.concatenate(counts))
