"""Turn text into terms: words, case-folded and stemmed by language.

Texts keep their stop words; `word_query` leaves them out of queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from unicodedata import category, is_normalized, normalize

RECIPE = "2"
"""Changes whenever the same text produces other terms, so that words are counted again.

Version 1 shared stemmers between threads, so its counts may contain terms that the text does not.
"""
LONGEST = 64
"""Longest term, in characters; longer ones are cut."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
"""Scripts that put no space between words: their runs are read two characters at a time."""

_STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""Snowball's algorithm for each language that has one."""


def terms(text: str, language: str) -> list[str]:
    """Return the terms of a text in order, stemmed if its language has a stemmer."""
    stem = stem_function(stemmer_of(language))
    return [stem(word) for word in words(text)]


def words(text: str) -> Iterator[str]:
    """Yield the words of a text: NFKC, case-folded, diacritics and digits kept."""
    folded = text if is_normalized("NFKC", text) else normalize("NFKC", text)
    for found in _pattern().finditer(folded.casefold()):
        run = found[0]
        if found[1] is None or len(run) < 3:
            yield run[:LONGEST]
        else:
            yield from (run[place : place + 2] for place in range(len(run) - 1))


def stemmer_of(language: str) -> str:
    """Return the name of the stemmer of a language; blank if there is none."""
    return _STEMMERS.get(language.casefold().replace("_", "-").partition("-")[0], "")


@cache
def recipe_of(language: str) -> str:
    """Return a name for the way terms of a language are produced."""
    # Imported here because it is slow and most programs never count words.
    from importlib.metadata import version

    name = stemmer_of(language)
    return f"{RECIPE}:{name}:{version('snowballstemmer')}" if name else RECIPE


@cache
def stem_function(name: str) -> Callable[[str], str]:
    """Return a function that stems one word, safe to call from any thread.

    Languages without an algorithm keep their words.
    """
    if not name:
        return lambda word: word
    # The class itself: the package's own choice would depend on what else is installed.
    module = import_module(f"snowballstemmer.{name}_stemmer")
    make_stemmer = getattr(module, f"{name.title()}Stemmer")

    @lru_cache(maxsize=1 << 16)
    def stem(word: str) -> str:
        # A stemmer keeps the word it works on in its attributes, so it must not be shared. A new
        # one costs a twentieth of the stemming itself.
        return make_stemmer().stemWord(word)

    return stem


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of words; its first group is a run of a script without spaces.

    A combining mark belongs to the letter before it, unlike in Python's own `\\w`.
    """
    codes = (code for code in range(0x300, 0x10000) if category(chr(code))[0] == "M")
    marks = "".join(f"\\u{code:04x}" for code in codes)
    letter = f"[^\\W_{_UNSPACED}]"
    return re.compile(f"([{_UNSPACED}][{_UNSPACED}{marks}]*)|{letter}+(?:[{marks}]+{letter}*)*")
