"""Names of a question: capitalised words that begin no sentence, and numbers.

A passage about someone or something else often has the other words of a question. A name is rarely
replaced by another word, so its absence says more. Names are compared with capitalised words alone:
"Hook" is no fish hook. Diacritics do not count: "Temur" is "Temür". In a title, capitals mark other
words as well. German capitalises every noun: those behind an article or an adjective are no names.
Scripts without capitals have only numbers as names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import pairwise
from unicodedata import decimal

from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import fold_diacritics, stem_function

MAX_CAPITALISED = 0.6
"""Maximum share of capitalised words in a query that has names; one with more is a title."""
SAME_LETTERS = 3
"""Number of letters that a name begins with in each language with Latin letters."""
_LAST_LATIN = "\u024f"
_WORD = re.compile(r"\w+")
# Not the 2 of "H2O", but the 20 of "20th".
_NUMBER = re.compile(r"(?<![A-Za-z\d])\d+(?:[.,]\d{3}(?!\d))*")
_NEW_SENTENCE = re.compile(r"(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)[.?!:\"“]\s*$")
_GERMAN_ARTICLE = re.compile(
    r"d(er|ie|as|e[mns])|[kms]?ein(e[mnrs]?)?|(ihr|all|dies|jed|viel|welch)(e[mnrs]?)?"
    r"|zu[mr]|beim|vom|[ai](m|ns)",
    re.IGNORECASE,
)
_GERMAN_ADJECTIVE = re.compile(r"[a-zäöüß]+e[mnrs]?")


def find_names(query: str, stemmer: str) -> frozenset[str]:
    """Return the terms of the names of a query, whose language has this stemmer."""
    names, found = set(_find_numbers(query)), list(_WORD.finditer(query))
    capitalised = [word for word in found if word[0][0].isupper()]
    if len(capitalised) > MAX_CAPITALISED * len(found):
        return frozenset(names)
    stem, stop_words = stem_function(stemmer), STOP_WORDS.get(stemmer, frozenset())
    for before, word in pairwise(found):
        name = word[0].casefold()
        if not word[0][0].isupper() or len(name) == 1 or name in stop_words:
            continue
        # Searching from the start of the query each time would take quadratic time.
        if _NEW_SENTENCE.search(query, before.end(), word.start()):
            continue
        if stemmer == "german" and _precedes_noun(before[0]):
            continue
        names.add(fold_diacritics(stem(name)))
    return frozenset(names)


def has_names(text: str, names: Set[str], stemmer: str) -> bool:
    """Return whether a text in a language with this stemmer has every name, capitalised."""
    stem = stem_function(stemmer)
    words = {word for word in _WORD.findall(text) if word[0].isupper()}
    found = {fold_diacritics(stem(word.casefold())) for word in words}
    return names <= found.union(_find_numbers(text))


def has_names_across(text: str, names: Set[str], stemmer: str) -> bool | None:
    """Return whether a text in another language than the query has every name, capitalised.

    Numbers have the same digits. Names in Latin letters have the same first letters in other
    languages that are written so, and others are spelt anew. A German query, whose language has
    this stemmer, may have nouns among its names, which are translated: only its numbers count. None
    if no name can be compared.
    """
    letters = [char for char in text if char.isalpha()]
    is_latin = 2 * sum(char <= _LAST_LATIN for char in letters) > len(letters)
    spells_alike = is_latin and stemmer != "german"
    compared = {
        name if name.isdecimal() else name[:SAME_LETTERS]
        for name in names
        if name.isdecimal() or (spells_alike and name[0] <= _LAST_LATIN)
    }
    if not compared:
        return None
    words = {word for word in _WORD.findall(text) if word[0].isupper()}
    found = {fold_diacritics(word.casefold())[:SAME_LETTERS] for word in words}
    return compared <= found.union(_find_numbers(text))


def _find_numbers(text: str) -> Iterator[str]:
    """Yield the runs of digits of a text as digits of ASCII, without separators of thousands."""
    for number in _NUMBER.findall(text):
        yield "".join(str(decimal(digit)) for digit in number if digit.isdecimal())


def _precedes_noun(word: str) -> bool:
    """Return whether a German word is an article, or may be an adjective."""
    if _GERMAN_ARTICLE.fullmatch(word):
        return True
    return bool(_GERMAN_ADJECTIVE.fullmatch(word)) and word not in STOP_WORDS["german"]
