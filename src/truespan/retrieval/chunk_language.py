"""Languages of chunks, for documents in several languages.

A chunk has the language of its document unless its own text is clearly in another one. The text of
the chunk decides, and nothing else, so that nothing after a reader's position takes part. The
language of a chunk chooses its stemmer and stop words; filters use the language of the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from truespan.text.language import detect_language
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import split_words, stem_function, stemmer_of, stop_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from truespan.words.term_counts import TermCounts

MIN_WORDS = 12
"""Minimum number of words of a chunk in another language than its document."""
OWN_SHARE = 0.12
"""Share of stop words with which a chunk is in the language of its document."""
OTHER_SHARE = 0.1
"""Minimum share of stop words of another language."""
_SAMPLE = 600
"""Number of characters that the language is detected from."""
_UNSPACED = frozenset({"chinese", "japanese", "korean", "thai"})
"""Languages that are recognised by their script; few of their terms are stop words."""
_OTHER_SCRIPTS = _UNSPACED | {
    *("arabic", "armenian", "greek", "hindi", "nepali", "persian", "russian", "serbian", "tamil"),
    "yiddish",
}
"""Languages that are not written in Latin letters."""
_LAST_LATIN = "\u024f"


def foreign_languages(texts: Sequence[str], language: str, counts: TermCounts) -> dict[int, str]:
    """Return the languages of the texts in another language than their document, by number.

    `counts` has the terms of the texts in the language of the document. It tells which few texts
    have to be examined.
    """
    import numpy as np

    stemmer, sizes = stemmer_of(language), np.array(counts.sizes, np.int64)
    own = _count_stops(counts, stop_terms(stemmer))
    doubtful = np.flatnonzero((sizes >= MIN_WORDS) & (own < OWN_SHARE * sizes))
    if not len(doubtful):
        return {}
    # Terms that may come from a stop word of any language, so never fewer than there are.
    any_stops = _count_stops(counts, _any_stop_terms(stemmer))
    plain = any_stops < OTHER_SHARE * sizes
    found = {
        place: find_language(texts[place], language)
        for place in doubtful.tolist()
        if not (plain[place] and _is_latin(texts[place][:_SAMPLE]))
    }
    return {place: other for place, other in found.items() if other != language}


def _count_stops(counts: TermCounts, stops: frozenset[str]) -> NDArray[np.int64]:
    """Return how many words of each text have one of these terms."""
    import numpy as np

    terms = counts.terms
    is_stop = np.fromiter(map(stops.__contains__, terms), bool, len(terms))
    found = is_stop[counts.term]
    words = np.repeat(counts.text[found], counts.count[found])
    return np.bincount(words, minlength=len(counts.sizes))


def find_language(text: str, language: str) -> str:
    """Return the language of a text in a document that is in `language`."""
    own, is_latin = stemmer_of(language), _is_latin(text[:_SAMPLE])
    is_own_script = is_latin is not (own in _OTHER_SCRIPTS)
    if is_own_script and (own in _UNSPACED or own not in STOP_WORDS):
        # Stop words cannot tell that the text is in another language.
        return language
    listed = split_words(text)
    if len(listed) < MIN_WORDS or (is_latin and not _may_be_foreign(listed)):
        return language
    if _stop_share(listed, own) >= OWN_SHARE:
        return language
    other = detect_language(text[:_SAMPLE]) or language
    name = stemmer_of(other)
    if name in ("", own) or is_latin is (name in _OTHER_SCRIPTS):
        return language
    if not is_latin and (own not in _OTHER_SCRIPTS or name in _UNSPACED):
        # The script alone shows that the text is in another language.
        return other
    return other if _stop_share(listed, name) >= OTHER_SHARE else language


# Shared by threads: an `lru_cache` of texts, which locks.
find_language_again = lru_cache(maxsize=2048)(find_language)
"""`find_language` for passages, which many queries find, and for the tails of readers."""


def _is_latin(text: str) -> bool:
    """Return whether most letters of a text are Latin."""
    if text.isascii():
        return True
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char <= _LAST_LATIN for char in letters) >= len(letters)


def _stop_share(listed: Sequence[str], stemmer: str) -> float:
    stops = STOP_WORDS.get(stemmer, frozenset())
    return sum(map(stops.__contains__, listed)) / len(listed)


def _may_be_foreign(listed: Sequence[str]) -> bool:
    """Return whether a text may have the share of stop words of any language.

    Names, tables and code have no stop words. Detecting their language would take longer than the
    rest of an ingestion.
    """
    stops = _all_stop_words()
    return sum(map(stops.__contains__, listed)) >= OTHER_SHARE * len(listed)


# Shared by threads: caches of sets of words, which never change.
@cache
def _all_stop_words() -> frozenset[str]:
    return frozenset().union(*STOP_WORDS.values())


# Shared by threads: as above.
@cache
def _any_stop_terms(stemmer: str) -> frozenset[str]:
    return frozenset(map(stem_function(stemmer), _all_stop_words()))
