"""Parse a query into the words that chunks are scored by, and the phrases that they must contain.

    who lit "the old lamp"        words: lit, the, old, lamp    phrase: the old lamp

- A word counts as often as the query has it. Irregular forms of a word are one word ("found" and
  "find"), except in quotes.
- A stop word of a language is left out for chunks in that language, unless it is quoted, or no
  other word of the query occurs in any chunk that takes part.
- A phrase in quotes occurs in a chunk if its terms follow one another there. If a query is little
  more than phrases, chunks must contain them; otherwise such chunks rank higher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from truespan.words.english import related_terms
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import bare_terms, stem_function, stemmer_of, terms, words

_QUOTED = re.compile(
    # Where only one character can open. Scripts without spaces have words on both sides.
    "“([^“”]*)”|「([^「」]*)」|『([^『』]*)』"
    # In other places languages differ in opening and closing quotes; a quote after a word, as in
    # 5", opens nothing. Single quotes are apostrophes as well, so they quote nothing.
    r"|(?<!\w)[\"“”„‟＂]([^\"“”„‟＂]*)[\"“”„‟＂](?!\w)"
    r"|(?<!\w)[«»]([^«»]*)[«»](?!\w)"
)


MAX_KNOWN = 4096
"""Maximum number of words of queries whose terms are cached."""

Forms: TypeAlias = Mapping[str, tuple[str, ...]]
"""Terms of a word under each stemmer. A chunk that has any of them contains the word."""


class QueryWord(Struct, frozen=True):
    """A word of a query, by its terms under each stemmer.

    `count` is how often the query has it. Under the stemmers of `stops` it is a stop word.
    """

    text: str
    """The word, case-folded; of several with the same terms, the first."""
    forms: Forms
    count: int
    stops: frozenset[str]
    exact: bool = False
    """Whether the word is in quotes, and stands for itself alone."""
    misspelt: bool = False
    """Whether no chunk has the word, and `forms` are terms that are spelt like it."""
    parts: tuple[Forms, ...] = ()
    """Parts of the word if it is a compound; each counts as a separate word, with less weight."""

    @property
    def content_forms(self) -> Forms:
        """Return the terms under the stemmers for which the word is no stop word."""
        return {name: found for name, found in self.forms.items() if name not in self.stops}


class WordQuery(Struct, frozen=True):
    """The distinct words of a query in their order, and the texts of its phrases."""

    words: tuple[QueryWord, ...]
    phrases: tuple[str, ...]

    def occurs_in(self, text: str, language: str) -> bool:
        """Return whether a text in a language contains every phrase of the query."""
        if not self.phrases:
            return True
        found = terms(text, language, whole=True)
        return all(_contains(found, terms(phrase, language, whole=True)) for phrase in self.phrases)


def parse_query(query: str, stemmers: Iterable[str], language: str | None = None) -> WordQuery:
    """Return the words and phrases of a query, for texts with any of these stemmers.

    Words with the same terms under every stemmer are one word. A stop word of the query's language,
    if that is known, occurs in no text of another: "die" in a German question is no English verb.
    """
    names, phrases = list(stemmers), find_phrases(query)
    quoted = {word for phrase in phrases for word in words(phrase)}
    found: dict[tuple[tuple[str, ...], ...], QueryWord] = {}
    for text in words(query):
        exact = text in quoted
        forms = tuple(_terms_of(text, name, exact) for name in names)
        stops = frozenset(name for name in names if not exact and text in STOP_WORDS.get(name, ()))
        if known := found.get(forms):
            # A term that two words share is left out only if both are stop words.
            found[forms] = replace(
                known, count=known.count + 1, stops=known.stops & stops, exact=known.exact or exact
            )
        else:
            by_name = dict(zip(names, forms, strict=True))
            found[forms] = QueryWord(text, by_name, 1, stops, exact)
    own = "" if language is None else stemmer_of(language)
    own_stops = STOP_WORDS.get(own, frozenset()) if own else frozenset[str]()
    for forms, word in found.items():
        if word.text in own_stops and not word.exact:
            kept = {name: terms for name, terms in word.forms.items() if name == own}
            found[forms] = replace(word, forms=kept)
    return WordQuery(tuple(found.values()), phrases)


# Shared by threads: an `lru_cache`, which locks, of words and their terms.
@lru_cache(maxsize=MAX_KNOWN)
def _terms_of(word: str, stemmer: str, exact: bool) -> tuple[str, ...]:
    """Return the terms of a word in order: its own and, unless `exact`, of its irregular forms."""
    own = stem_function(stemmer)(word)
    if exact:
        return (own,)
    return tuple(sorted({own, *related_terms(word, stemmer), *bare_terms(word, stemmer)}))


def find_phrases(query: str) -> tuple[str, ...]:
    """Return the texts in double quotes of any kind that contain a word, each once."""
    quoted = (next(filter(None, found.groups()), "") for found in _QUOTED.finditer(query))
    return tuple(dict.fromkeys(text.strip() for text in quoted if any(words(text))))


def requires_phrases(query: str, phrases: Sequence[str]) -> bool:
    """Return whether a text must contain the phrases of a query, if it has any.

    That is so if the query is little more than phrases: at most one word that is no stop word
    stands outside the quotes, beside two or more inside. In any other query, texts with its phrases
    are only ranked higher.
    """
    outside = [word for word in words(_QUOTED.sub(" ", query)) if word not in _all_stop_words()]
    inside = sum(len(list(words(phrase))) for phrase in phrases)
    return not outside or (len(outside) == 1 and inside > 1)


# Shared by threads: a set that is only read.
@cache
def _all_stop_words() -> frozenset[str]:
    return frozenset[str]().union(*STOP_WORDS.values())


def _contains(text: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether a text contains the terms of a phrase in a row."""
    length = len(phrase)
    first = phrase[0]
    return any(
        term == first and text[place : place + length] == phrase for place, term in enumerate(text)
    )
