"""Coverage: the share of a query's words that a passage contains, weighted by rarity.

    coverage = rarity of the words that occur in the passage / rarity of all words of the query

The window share counts the words within the best 20 consecutive words: a passage with the words of
a question in one place is more likely to answer it than one with the same words far apart.

Stop words count only if the query has no others. A word that occurs in no chunk is the rarest of
all: a passage cannot contain it, so a question about something else is covered little. How rare a
word is depends on the chunks that take part and nothing else; a reader's are those that the reader
may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct

from truespan.types.decision import Coverage
from truespan.words.bm25 import WordMatches, rarity_of
from truespan.words.query import Forms, WordQuery
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stem_function, words

WINDOW = 20
"""Number of consecutive words that count together in a window share."""


class WordRarity(Struct, frozen=True):
    """Rarity of the content words of a query, by their terms under each stemmer."""

    words: tuple[tuple[Forms, float], ...]
    unseen: float = inf
    """Rarity of a word that no chunk contains."""

    @property
    def occurring(self) -> list[tuple[Forms, float]]:
        """Return the words that a chunk contains."""
        return [(forms, rarity) for forms, rarity in self.words if rarity < self.unseen]

    def cover(self, text: str) -> Coverage:
        """Return the share of the words that a text contains, and its largest share in a window."""
        rarity = {str(number): rare for number, (_, rare) in enumerate(self.words)}
        found, total = self._find(text), sum(rarity.values())
        if not total:
            return Coverage()
        contained = sum(rare for number, rare in rarity.items() if number in found)
        return Coverage(min(contained / total, 1.0), window_share(found, rarity))

    def missing(self, query: str, texts: Iterable[str], most: int) -> tuple[str, ...]:
        """Return the rarest words of the query that no text contains, as the query has them.

        English stop words are no subject of a question, also if the texts are in other languages.
        """
        contained = {number for text in texts for number in self._find(text)}
        names: dict[str, str] = {}
        for word, number in zip(words(query), self._find(query), strict=True):
            if number and number not in contained and word not in STOP_WORDS["english"]:
                names.setdefault(number, word)
        rarest = sorted(names, key=lambda number: -self.words[int(number)][1])
        return tuple(names[number] for number in rarest[:most])

    def _find(self, text: str) -> list[str]:
        """Return the number of the query's word at each word of a text; blank for another word."""
        numbers: dict[str, dict[str, str]] = {}
        for number, (forms, _) in enumerate(self.words):
            for name, terms in forms.items():
                for term in terms:
                    numbers.setdefault(name, {}).setdefault(term, str(number))
        listed = list(words(text))
        known: dict[str, str] = {}
        for name, known_terms in numbers.items():
            stem = stem_function(name)
            for word in set(listed):
                if number := known_terms.get(stem(word)):
                    known.setdefault(word, number)
        return [known.get(word, "") for word in listed]


def measure_rarity(
    query: WordQuery, find: Callable[[Forms], WordMatches], chunks: int
) -> WordRarity:
    """Return the rarity of the words of a query, without stop words unless it has no others.

    `find` returns where a word occurs among the `chunks` that take part, given its terms under each
    stemmer.
    """
    counted = [word.content_forms for word in query.words if word.content_forms]
    counted = counted or [word.forms for word in query.words if word.forms]
    return WordRarity(
        tuple((forms, rarity_of(chunks, len(find(forms).places))) for forms in counted),
        unseen=rarity_of(chunks, 0),
    )


def window_share(
    terms: Iterable[str | None], rarity: Mapping[str, float], size: int = WINDOW
) -> float:
    """Return the largest share of the rarity that terms within `size` consecutive words have.

    `terms` are those of a text in order, others may be None;
    `rarity` has every term of the query.
    """
    places = [(place, term) for place, term in enumerate(terms) if term and term in rarity]
    return window_share_at(places, rarity, size)


def window_share_at(
    places: Sequence[tuple[int, str]], rarity: Mapping[str, float], size: int = WINDOW
) -> float:
    """Return the window share of a text, given the places of the query's terms in order."""
    total = sum(rarity.values())
    if not total:
        return 0.0
    counts, gained, best, first = dict.fromkeys(rarity, 0), 0.0, 0.0, 0
    for place, term in places:
        while places[first][0] <= place - size:
            left = places[first][1]
            counts[left] -= 1
            gained -= 0.0 if counts[left] else rarity[left]
            first += 1
        gained += 0.0 if counts[term] else rarity[term]
        counts[term] += 1
        best = max(best, gained)
    # Sums in another order may differ in the last digits.
    return min(best / total, 1.0)
