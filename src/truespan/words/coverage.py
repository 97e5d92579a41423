"""Coverage: the share of a query's words that a passage contains, weighted by rarity.

    coverage = rarity of the words that occur in the passage / rarity of all words of the query

Stop words do not count. A word that occurs in no chunk is the rarest of all: a passage cannot
contain it, so a question about something else is covered little. How rare a word is depends on the
chunks that take part and nothing else; a reader's are those that the reader may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

from truespan.types.ids import ChunkId
from truespan.types.trust import Visible
from truespan.words.bm25 import WordMatches, rarity_of
from truespan.words.query import Forms, WordQuery
from truespan.words.terms import stem_function, words


class WordRarity(Struct, frozen=True):
    """Rarity of the content words of a query, by their terms under each stemmer."""

    words: tuple[tuple[Forms, float], ...]
    unseen: float = inf
    """Rarity of a word that no chunk contains."""

    @property
    def occurring(self) -> list[tuple[Forms, float]]:
        """Return the words that a chunk contains."""
        return [(forms, rarity) for forms, rarity in self.words if rarity < self.unseen]

    def of_each(self, chunks: Iterable[Visible]) -> dict[ChunkId, float]:
        """Return the coverage of each chunk's visible text; empty if the query has no words."""
        shares = {chunk.chunk_id: self.coverage(chunk.text) for chunk in chunks}
        return {key: share for key, share in shares.items() if share is not None}

    def coverage(self, text: str) -> float | None:
        """Return the share of the words that a text contains; None if the query has none."""
        total = sum(rarity for _, rarity in self.words)
        if not total:
            return None
        own = frozenset(words(text))
        terms = {
            name: frozenset(map(stem_function(name), own))
            for name in {name for forms, _ in self.words for name in forms}
        }
        contained = (
            rarity
            for forms, rarity in self.words
            if not all(terms[name].isdisjoint(own) for name, own in forms.items())
        )
        return min(sum(contained) / total, 1.0)


def measure_rarity(
    query: WordQuery, find: Callable[[Forms], WordMatches], chunks: int
) -> WordRarity:
    """Return the rarity of the words of a query, without stop words.

    `find` returns where a word occurs among the `chunks` that take part, given its terms under each
    stemmer.
    """
    counted = [word.content_forms for word in query.words if word.content_forms]
    return WordRarity(
        tuple((forms, rarity_of(chunks, len(find(forms).places))) for forms in counted),
        unseen=rarity_of(chunks, 0),
    )
