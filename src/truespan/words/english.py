"""English words: frequent ones, and irregular forms of verbs and nouns.

No stemmer brings irregular forms together. A query for one of them also finds the others. Texts
keep their words, so that a form that is also another word, such as "found" in "founded", is still
found as that word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from truespan.words.terms import stem_function

_AMBIGUOUS = frozenset({"bore", "bound", "rose"})
"""Forms that are other words more often. Their base forms also find them, not the reverse."""


def related_terms(word: str, stemmer: str) -> tuple[str, ...]:
    """Return the terms of the other forms of a word; empty if the word is regular.

    An irregular form is recognised as a whole word, so that "founded" does not stand for "find".
    """
    forms, bases = _tables(stemmer)
    found = forms.get(word)
    return bases.get(stem_function(stemmer)(word), ()) if found is None else found


# Shared by threads: tables that are only read.
@cache
def _tables(stemmer: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the related terms of each irregular form, and of the stem of each base form."""
    stem = stem_function(stemmer)
    forms: dict[str, tuple[str, ...]] = {}
    bases: dict[str, tuple[str, ...]] = {}
    for base, *irregular in _irregular_words() if stemmer == "english" else ():
        bases[stem(base)] = tuple(map(stem, irregular))
        for form in irregular:
            others = [base, *(other for other in irregular if other != form)]
            forms[form] = () if form in _AMBIGUOUS else tuple(map(stem, others))
    return forms, bases


def _irregular_words() -> Iterator[list[str]]:
    """Yield the lines of `english_forms.txt`.

    Forms whose stem mostly means something else are left out: "bit", "borne", "ground", "wound",
    "lay" as the past of "lie", and the plural "theses".
    """
    text = files("truespan.words").joinpath("english_forms.txt").read_text("utf-8")
    yield from (line.split() for line in text.splitlines() if line and not line.startswith("#"))


# Shared by threads: as above.
@cache
def base_forms() -> dict[str, str]:
    """Return the base form of each irregular form."""
    return {form: base for base, *irregular in _irregular_words() for form in irregular}


# Shared by threads: a cache of a set of words, which never changes.
@cache
def common_words() -> frozenset[str]:
    """Return frequent English words in lower case, with their inflections."""
    return frozenset(
        files("truespan.words").joinpath("english_words.txt").read_text("utf-8").split()
    )
