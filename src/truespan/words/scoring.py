"""Scores by the words of a query: BM25 ranks chunks, and coverage shows whether a passage answers.

BM25 depends only on the arguments: the number of chunks, their lengths, and the number of chunks
with each word. The caller decides which chunks take part; for a reader, the visible ones.

Coverage is the share of a query's words that a passage contains, weighted by rarity:

    coverage = rarity of the words that occur in the passage / rarity of all words of the query

The window share counts the words within the best 20 consecutive words: a passage with the words of
a question in one place is more likely to answer it than one with the same words far apart.

A word that begins like one of the query covers it in part, by the trigrams of letters that they
share: stemmers leave many forms of a word apart, above all in Polish, Russian and Turkish.

Stop words count only if the query has no others. A word that occurs in no chunk is the rarest of
all: a passage cannot contain it, so a question about something else is covered little. How rare a
word is depends on the chunks that take part and nothing else; a reader's are those that the reader
may see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from math import fsum, inf, log
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from truespan.types.decision import Coverage
from truespan.words.query import Forms, QueryWord, WordQuery
from truespan.words.spelling import MIN_LETTERS, MIN_SIMILARITY, TrigramIndex, index_terms
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import (
    TERMS_OF_A_WORD,
    bare_terms,
    fold_diacritics,
    place_words,
    stem_function,
    words,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 20
"""Number of consecutive words that count together in a window share."""
PRIOR_CHUNKS = 30
"""Number of further chunks that the rarity of a word is counted over, as if none had it."""
BEGINNING = 3
"""Number of letters that two forms of a word begin with: "night" is no form of "light"."""
PARTS_WEIGHT = 0.8
"""Weight of all parts of a compound together, as a share of that of the compound."""
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


def match_words(
    query: WordQuery,
    find: Callable[[Forms], WordMatches],
    suggest: Callable[[QueryWord], Forms] | None = None,
) -> tuple[WordQuery, list[WordMatches]]:
    """Return the places of the words of a query, with the weight of each.

    `find` returns where a word occurs among the chunks that take part, given its terms under each
    stemmer; chunks with another stemmer do not contain it. A word that no chunk has gets the terms
    that `suggest` returns, and the query is returned with them. Without any it is left out, so that
    it changes nothing, not even whether stop words count.
    """
    known: list[QueryWord] = []
    matches: list[WordMatches] = []
    for word in query.words:
        found = find(word.content_forms) if word.content_forms else None
        is_unknown = found and not len(found.places) and not word.parts
        if is_unknown and suggest and (forms := suggest(word)):
            word, found = replace(word, forms=forms, misspelt=True), find(forms)
        known.append(word)
        if found and len(found.places):
            matches.append(replace(found, weight=word.count))
        weight = PARTS_WEIGHT * word.count / max(len(word.parts), 1)
        matches += (replace(part, weight=weight) for part in map(find, word.parts))
    if not matches:
        every = ((word, find(word.forms)) for word in query.words if word.forms)
        matches = [replace(found, weight=word.count) for word, found in every if len(found.places)]
    return replace(query, words=tuple(known)), matches


class ChunkScores(Struct, frozen=True):
    """Scores of the chunks with a word of the query, by ascending places."""

    places: NDArray[np.int64]
    values: NDArray[np.float64]
    best: float = 0.0
    """Highest score; zero if no chunk has a word of the query."""
    possible: float = 0.0
    """Upper bound of a score, approached by endless repetition of every word."""

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
    return log(1 + (chunks - containing + 0.5) / (containing + 0.5))


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
    best = float(values.max(initial=0.0))
    return ChunkScores(places, values[places], best=best, possible=possible)


def count_whole_words(words: Iterable[tuple[Forms, float]]) -> float:
    """Return the number of words of a query, as many as it would have with spaces between them."""
    return fsum(
        1.0 if terms[0].isascii() else 1 / TERMS_OF_A_WORD.get(name, 1)
        for forms, _ in words
        for name, terms in [*forms.items()][:1]
    )


class WordRarity(Struct, frozen=True):
    """Rarity of the content words of a query, by their terms under each stemmer."""

    words: tuple[tuple[Forms, float], ...]
    unseen: float = inf
    """Rarity of a word that no chunk contains."""

    def cover(self, texts: Sequence[str]) -> list[Coverage]:
        """Return the share of the words that each text covers, and the largest within a window."""
        listed = [list(words(text)) for text in texts]
        covering = self._compare(frozenset[str]().union(*listed))
        total = fsum(rarity for _, rarity in self.words)
        return [
            _cover(
                [(at, covering[word]) for at, word in place_words(text, own) if word in covering],
                total,
            )
            for text, own in zip(texts, listed, strict=True)
        ]

    def missing(self, query: str, texts: Iterable[str], most: int) -> tuple[str, ...]:
        """Return the rarest words of the query that no text contains, as the query has them.

        Stop words of English and of the languages of the texts are never the subject of a question.
        """
        contained = {number for text in texts for number in self._find(text)}
        languages = {"english", *(name for forms, _ in self.words for name in forms)}
        stops = frozenset[str]().union(*(STOP_WORDS.get(name, ()) for name in languages))
        names: dict[str, str] = {}
        for word, number in zip(words(query), self._find(query), strict=True):
            if number and number not in contained and word not in stops:
                names.setdefault(number, word)
        rarest = sorted(names, key=lambda number: -self.words[int(number)][1])
        return tuple(names[number] for number in rarest[:most])

    def _compare(self, found: Set[str]) -> dict[str, dict[int, float]]:
        """Return the rarity that each word of texts covers, by the number of the query's word."""
        covering: dict[str, dict[int, float]] = {}
        for name in {name for forms, _ in self.words for name in forms}:
            stem = stem_function(name)
            sources: dict[str, list[str]] = {}
            for word in found:
                for term in {stem(word), *bare_terms(word, name)}:
                    sources.setdefault(term, []).append(word)
            terms = [term for forms, _ in self.words for term in forms.get(name, ())]
            index = index_terms(tuple(sources) if any(map(_is_compared, terms)) else ())
            for number, (forms, rarity) in enumerate(self.words):
                for own in forms.get(name, ()):
                    for term, share in _find_alike(own, sources, index).items():
                        for word in sources[term]:
                            gained = covering.setdefault(word, {})
                            gained[number] = max(gained.get(number, 0.0), share * rarity)
        return covering

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
                for term in (stem(word), *bare_terms(word, name)):
                    if number := known_terms.get(term):
                        known.setdefault(word, number)
        return [known.get(word, "") for word in listed]


def measure_rarity(
    query: WordQuery, find: Callable[[Forms], WordMatches], chunks: int
) -> WordRarity:
    """Return the rarity of the words of a query, without stop words unless it has no others.

    `find` returns where a word occurs among the `chunks` that take part, given its terms under each
    stemmer. Few chunks say little about how rare a word is, so `PRIOR_CHUNKS` without any of the
    words count too: else a single document would refuse questions that it answers in other words.
    """
    chunks += PRIOR_CHUNKS
    counted = [word.content_forms for word in query.words if word.content_forms]
    counted = counted or [word.forms for word in query.words if word.forms]
    return WordRarity(
        tuple((forms, rarity_of(chunks, len(find(forms).places))) for forms in counted),
        unseen=rarity_of(chunks, 0),
    )


def _is_compared(term: str) -> bool:
    """Return whether terms may be spelt like this one. Short terms and years are themselves."""
    return len(term) >= MIN_LETTERS and not any(map(str.isdigit, term))


def _find_alike(own: str, terms: Container[str], index: TrigramIndex) -> dict[str, float]:
    """Return the terms that cover a term of the query, with the share of it that each covers."""
    if not _is_compared(own):
        return {own: 1.0} if own in terms else {}
    return {
        term: (share - MIN_SIMILARITY) / (1 - MIN_SIMILARITY)
        for term, share in index.similar_terms(own).items()
        if fold_diacritics(term)[:BEGINNING] == fold_diacritics(own)[:BEGINNING]
    }


def _cover(places: Sequence[tuple[float, Mapping[int, float]]], total: float) -> Coverage:
    """Return the coverage of a text, given the places of words that cover words of the query."""
    if not total or not places:
        return Coverage()
    starts = [at for at, _ in places]
    windows = (
        [gained for _, gained in places[first : bisect_left(starts, start + WINDOW)]]
        for first, start in enumerate(starts)
    )
    share = _sum_highest(gained for _, gained in places)
    return Coverage(
        min(share / total, 1.0),
        min(max(map(_sum_highest, windows)) / total, 1.0),
        words=len({number for _, gained in places for number in gained}),
    )


def _sum_highest(found: Iterable[Mapping[int, float]]) -> float:
    """Return the rarity that words cover together; each word of the query is covered once."""
    best: dict[int, float] = {}
    for gained in found:
        for number, rarity in gained.items():
            best[number] = max(best.get(number, 0.0), rarity)
    # Exact, so that the order of the words does not matter.
    return fsum(best.values())


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
