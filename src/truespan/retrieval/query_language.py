"""The language of a query, for models that know several.

No language can be told of a few words with certainty. Such a query is taken for one in the language
of each text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.types.profile import EmbeddingProfile, trained_languages

if TYPE_CHECKING:
    from truespan.words.query import QueryWord, WordQuery


def query_language(profile: EmbeddingProfile, query: str) -> str | None:
    """Return the language of a query; None if it is unknown, or if the model knows only one.

    It depends on the query alone, so that no text changes it.
    """
    if len(trained_languages(profile) or ()) < 2:
        return None
    return _detect(query)


# Shared by threads: an `lru_cache` of texts, which locks.
@lru_cache(maxsize=64)
def _detect(query: str) -> str | None:
    """Detect a language; a request asks several times."""
    # Imported here because the tables of the detector take 70 MB.
    from truespan.text.language import detect_language

    return detect_language(query)


def parse_words(profile: EmbeddingProfile, query: str, stemmers: Iterable[str]) -> WordQuery:
    """Return the words of a query for texts with these stemmers.

    A stop word of the query's language occurs in no text of another language: "die" in a German
    question is no English verb.
    """
    # Imported here because a search by similarity alone needs no words.
    from truespan.words.query import parse_query
    from truespan.words.stop_words import STOP_WORDS
    from truespan.words.terms import stemmer_of

    parsed, language = parse_query(query, stemmers), query_language(profile, query)
    if language is None:
        return parsed
    own = stemmer_of(language)
    stops = STOP_WORDS.get(own, frozenset())

    def keep_own(word: QueryWord) -> QueryWord:
        if word.exact or word.text not in stops:
            return word
        return replace(word, forms={name: form for name, form in word.forms.items() if name == own})

    return replace(parsed, words=tuple(map(keep_own, parsed.words)))
