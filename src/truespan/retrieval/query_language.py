"""The language of a query, for models that know several.

The language of a short query is recognised by its stop words. If it is unknown, the query counts as
one in the language of each text.
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
    languages = trained_languages(profile) or frozenset()
    return _detect(query, languages) if len(languages) > 1 else None


# Shared by threads: an `lru_cache` of texts, which locks.
@lru_cache(maxsize=64)
def _detect(query: str, languages: frozenset[str]) -> str | None:
    """Detect a language; a request asks several times."""
    # Imported here because the tables of the detector take 70 MB.
    from truespan.text.language import detect_language

    return detect_language(query) or _language_of_stop_words(query, languages)


def _language_of_stop_words(query: str, languages: Iterable[str]) -> str | None:
    """Return the language that has two or more words of a query as stop words.

    It must have twice as many as any other language; None if no language does.
    """
    # Imported here because a search by similarity alone needs no words.
    from truespan.words.stop_words import STOP_WORDS
    from truespan.words.terms import stemmer_of, words

    listed = set(words(query))
    counts = sorted(
        (len(listed & STOP_WORDS.get(stemmer_of(language), frozenset())), language)
        for language in languages
    )
    (second, _), (most, language) = counts[-2:]
    return language if most >= max(2, 2 * second) else None


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
