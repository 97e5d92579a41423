"""Names of a question: capitalised words that begin no sentence.

A passage about someone or something else often has the other words of a question. A name is rarely
replaced by another word, so its absence says more. Names are compared with capitalised words alone:
"Hook" is no fish hook. In a title, or in German, capitals mark other words as well.
"""

from __future__ import annotations

import re
from collections.abc import Set

from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stem_function

MAX_CAPITALISED = 0.6
"""Maximum share of capitalised words in a query that has names; one with more is a title."""
STEMMER = "english"
_WORD = re.compile(r"\w+")
_NEW_SENTENCE = re.compile(r"(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)[.?!:\"“]\s*$")


def find_names(query: str) -> frozenset[str]:
    """Return the terms of the names of an English query."""
    found = list(_WORD.finditer(query))
    capitalised = [word for word in found if word[0][0].isupper()]
    if len(capitalised) > MAX_CAPITALISED * len(found):
        return frozenset()
    stem = stem_function(STEMMER)
    return frozenset(
        stem(name)
        for word in capitalised
        if word.start() != found[0].start() and not _NEW_SENTENCE.search(query, 0, word.start())
        for name in [word[0].casefold()]
        if len(name) > 1 and name not in STOP_WORDS[STEMMER]
    )


def has_names(text: str, names: Set[str]) -> bool:
    """Return whether an English text has every name, capitalised."""
    stem = stem_function(STEMMER)
    words = {word for word in _WORD.findall(text) if word[0].isupper()}
    return names <= {stem(word.casefold()) for word in words}
