"""Function words: articles, pronouns, prepositions, auxiliaries, and words that ask a question.

They are left out of queries, never out of texts. The lists are short on purpose: a word that is a
name or a noun as well, such as the English "may" or "will", decides more than it disturbs. What an
apostrophe leaves of a contraction is listed too, because words end there. In scripts without
spaces, every two or three characters of a listed word are left out, as texts are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from functools import cache
from importlib.resources import files
from itertools import chain

_RUNS = {"chinese": 2, "japanese": 2, "korean": 2, "thai": 3}
"""Number of characters that are read at a time, by the languages without spaces."""


def _read_lists() -> dict[str, frozenset[str]]:
    """Return the lists of `stop_words.txt`, each below the name of its stemmer in brackets."""
    text = files("truespan.words").joinpath("stop_words.txt").read_text("utf-8")
    found: dict[str, frozenset[str]] = {}
    for part in text.casefold().removeprefix("[").split("\n["):
        name, _, listed = part.partition("]")
        size = _RUNS.get(name, len(listed))
        found[name] = frozenset(
            word[start : start + size]
            for word in listed.split()
            for start in range(max(len(word) - size, 0) + 1)
        )
    return found


STOP_WORDS = _read_lists()
"""Case-folded function words by the name of the stemmer; other languages have none."""

_MIN_FOUND = 5
"""Minimum number of distinct stop words that tell a language: "sea" is one in Spanish."""


def guess_stemmer(words: AbstractSet[str]) -> str:
    """Return the stemmer of the language with most stop words among the words; usually English."""
    listed = _stemmers_of()
    found = Counter(chain.from_iterable(map(listed.__getitem__, listed.keys() & words)))
    best = "english"
    most = max(found[best], _MIN_FOUND - 1)
    for name in STOP_WORDS:
        if found[name] > most:
            best, most = name, found[name]
    return best


# Shared by threads: a cache of a dictionary that never changes.
@cache
def _stemmers_of() -> dict[str, list[str]]:
    """Return the stemmers of the languages in which each word is a stop word."""
    found: dict[str, list[str]] = {}
    for name, listed in STOP_WORDS.items():
        for word in listed:
            found.setdefault(word, []).append(name)
    return found
