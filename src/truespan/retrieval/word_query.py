"""Turn a query into the words that chunks are scored by."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.retrieval.terms import stem_function, words


def query_words(query: str, stemmers: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the distinct words of a query, each as its term under every stemmer.

    Words with the same term under every stemmer count as one.
    """
    stems = [stem_function(name) for name in stemmers]
    return list(dict.fromkeys(tuple(stem(word) for stem in stems) for word in words(query)))
