"""Score the chunks in scope by the words of a query, from the counts in the store.

A score depends on the chunks in scope and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from truespan.retrieval.snapshot import Restart
from truespan.retrieval.word_counts import Extent, Layout, count_words, layout_of
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope, World
from truespan.words.bm25 import ChunkScores, WordMatches, score_chunks
from truespan.words.coverage import WordRarity, measure_rarity
from truespan.words.query import WordQuery, match_words, parse_query

if TYPE_CHECKING:
    from truespan.store import Store


class WordScores(Struct, frozen=True):
    """The BM25 scores of the chunks in scope; zero for one that has no word of the query."""

    scope: Scope
    layout: Layout
    extent: Extent
    query: WordQuery
    scores: ChunkScores

    @property
    def best(self) -> float:
        """Return the highest score, which the others are divided by."""
        return self.scores.best

    def __len__(self) -> int:
        """Return how many chunks have a word of the query."""
        return len(self.scores.places)

    def of(self, document: int, revision: int, index: int) -> float:
        place = self.layout.place(document, revision, index)
        return 0.0 if place is None else self.scores.of(place)

    def top(self, count: int, decimals: int) -> list[ChunkId]:
        """Return the ids of the best chunks with a word of the query, best first."""
        places = self.scores.top(count, decimals)
        return [self.layout.chunk_id(self.scope, place) for place in places]

    def with_phrases(self, store: Store) -> WordScores:
        """Keep the chunks that have every term of the query's phrases, in any order.

        Counts have no positions: whether the terms follow one another is for the text to say.
        """
        import numpy as np

        kept = np.ones(len(self), bool)
        for phrase in self.query.phrases:
            for word in parse_query(phrase, self.extent.stemmers).words:
                found = _find_word(store, self.scope, self.layout, self.extent, word.forms)
                kept &= np.isin(self.scores.places, found.places)
        scores = self.scores
        kept_scores = replace(scores, places=scores.places[kept], values=scores.values[kept])
        return replace(self, scores=kept_scores)


def word_scores(store: Store, scope: Scope, world: World, query: str) -> WordScores:
    """Score the chunks in scope by the words of a query; counts them first where necessary."""
    layout = layout_of(count_words(store, scope, world))
    extent = layout.extent(store, scope)
    parsed = parse_query(query, extent.stemmers)

    def find(forms: Mapping[str, str]) -> WordMatches:
        return _find_word(store, scope, layout, extent, forms)

    matches = match_words(parsed, find)
    if not matches and (lost := store.lost_words(scope, layout.entries)):
        # Rows that the catalog counts are gone. They are counted again.
        store.forget_words(scope, lost)
        raise Restart
    scores = score_chunks(matches, layout.lengths, chunks=extent.chunks, total=extent.total)
    return WordScores(scope, layout, extent, parsed, scores)


def word_rarity(store: Store, scope: Scope, world: World, query: str) -> WordRarity:
    """Return how rare the words of a query are among the chunks in scope."""
    layout = layout_of(count_words(store, scope, world))
    extent = layout.extent(store, scope)

    def find(forms: Mapping[str, str]) -> WordMatches:
        return _find_word(store, scope, layout, extent, forms)

    return measure_rarity(parse_query(query, extent.stemmers), find, extent.chunks)


def _find_word(
    store: Store, scope: Scope, layout: Layout, extent: Extent, forms: Mapping[str, str]
) -> WordMatches:
    """Return the places of the chunks in scope that contain a word, and how often.

    A chunk contains it if it has the word's term under the stemmer of its own language. How rare a
    word is, is counted over all chunks in scope, in every language.
    """
    import numpy as np

    parts: list[WordMatches] = []
    for term in sorted(set(forms.values())):
        places, counts = layout.places_of(store, scope, term)
        kept = extent.inside[places]
        speaking = [name for name, form in forms.items() if form == term]
        if len(speaking) < len(layout.stemmers):
            codes = [layout.stemmers.index(name) for name in speaking]
            kept &= np.isin(layout.codes[places], codes)
        parts.append(WordMatches(places[kept], counts[kept]))
    if len(parts) == 1:
        return parts[0]
    return WordMatches(
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )
