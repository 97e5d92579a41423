"""Compare texts with the words of a query, to choose between sentences and to mark words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from truespan.words.query import WordQuery, parse_query
from truespan.words.scoring import PARTS_WEIGHT
from truespan.words.terms import (
    fold_bytes,
    stem_function,
    stemmed_bytes,
    stemmer_of,
    terms,
    word_spans,
)


class SearchedWords:
    """The words of a query, as texts in each language contain them.

    A text contains a word if it has one of its terms: irregular forms, words that are spelt like a
    misspelt one and compounds, as far as the search that found the text used them.
    """

    def __init__(self, query: str, parsed: WordQuery | None = None) -> None:
        """Take the words of a query; `parsed` are those that a search used, if it used words."""
        self._query, self._parsed = query, parsed
        self._weights: dict[str, float] = {}
        self._known: dict[str, Mapping[str, str]] = {}

    def score(self, texts: Sequence[tuple[str, str]]) -> list[float]:
        """Return the words in each text, weighted by how few texts have them.

        Each text comes with its language. Unlike in BM25 the length does not count: short sentences
        would win, and seldom answer.
        """
        return self._weigh(self.find(texts))

    def find(self, texts: Sequence[tuple[str, str]]) -> list[frozenset[str]]:
        """Return the words that each text has. Each text comes with its language."""
        return [self._find(text, language) for text, language in texts]

    def rarities(self, found: Sequence[frozenset[str]]) -> dict[str, float]:
        """Return the weight of each word: high if few texts have it."""
        counts = Counter(word for words in found for word in words)
        return {
            word: self._weights.get(word, 1.0)
            * math.log(1 + (len(found) - count + 0.5) / (count + 0.5))
            for word, count in counts.items()
        }

    def find_best(self, text: str, language: str, spans: Sequence[tuple[int, int]]) -> int | None:
        """Return the index of the span with most of the words, the first of equal ones.

        A row of a table goes before its header. None if no span has any.
        """
        folded = None if "ß" in text else fold_bytes(text)
        if folded is None:
            found = [self._find(text[start:end], language) for start, end in spans]
        else:
            # One byte is one character.
            known, stem = self._words(language), stemmed_bytes(stemmer_of(language)).__getitem__
            found = [
                frozenset(map(known.__getitem__, known.keys() & map(stem, data.split())))
                for data in (folded[start:end] for start, end in spans)
            ]
        if not any(found):
            return None
        scores = self._weigh(_without_headers(text, spans, found) if "|" in text else found)
        return scores.index(max(scores))

    def find_spans(self, text: str, language: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the words of a text; overlapping ones are joined."""
        known, stem = self._words(language), stem_function(stemmer_of(language))
        first, last = 0, 0
        for word, start, end in word_spans(text):
            if stem(word) not in known:
                continue
            if start >= last:
                if last:
                    yield first, last
                first = start
            last = end
        if last:
            yield first, last

    def _find(self, text: str, language: str) -> frozenset[str]:
        known = self._words(language)
        return frozenset(map(known.__getitem__, known.keys() & terms(text, language)))

    def _words(self, language: str) -> Mapping[str, str]:
        """Return the word of each term in a language, without stop words if there are others."""
        name = stemmer_of(language)
        if name in self._known:
            return self._known[name]
        parsed = self._parsed
        if parsed is None or not any(name in word.forms for word in parsed.words):
            parsed = parse_query(self._query, [name])
        # A stop word of the query's own language is no word of another: "the" in a German text.
        stops = Counter(other for word in parsed.words for other in word.stops)
        own = max(stops, key=stops.__getitem__, default=name)
        content = [
            word for word in parsed.words if word.forms.get(name) and not word.stops & {name, own}
        ]
        known = self._known[name] = dict[str, str]()
        for word in content or parsed.words:
            for term in word.forms.get(name, ()):
                known.setdefault(term, word.text)
        for word in content:
            for part in (term for forms in word.parts for term in forms.get(name, ())):
                self._weights.setdefault(part, PARTS_WEIGHT / len(word.parts))
                known.setdefault(part, part)
        return known

    def _weigh(self, found: Sequence[frozenset[str]]) -> list[float]:
        """Return the sum of the rarities of the words of each text."""
        rarity = self.rarities(found)
        # Rows of a table often match the same words, so each set of words is scored once.
        scores = {words: math.fsum(map(rarity.__getitem__, words)) for words in set(found)}
        return [scores[matches] for matches in found]


def _without_headers(
    text: str, spans: Sequence[tuple[int, int]], found: Sequence[frozenset[str]]
) -> list[frozenset[str]]:
    """Return the words in each span, none in the first row of a table if another row has some.

    The words of a header say what the cells of every row are.
    """
    kept, header = list(found), None
    for number, (start, end) in enumerate(spans):
        part = text[start:end]
        # Cells are separated by bars between spaces, and a blank line ends a table.
        if "|" not in part.split():
            header = None
        elif header is None:
            header = number
        elif found[number]:
            kept[header] = frozenset()
        if "\n\n" in part:
            header = None
    return kept
