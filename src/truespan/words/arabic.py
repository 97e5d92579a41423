"""Arabic words without the particle that is written as their first letter.

"لناسا" is "to NASA". Many words begin with the same letters, so that texts keep them, and a word of
a query or of a passage is compared with and without one.
"""

from __future__ import annotations

from truespan.words.terms import stem_function

PARTICLES = frozenset("وفبكلس")
"""Letters that are words of their own: and, so, with, like, to and will."""
MIN_LETTERS = 5
"""Minimum length of a word that may begin with a particle."""


def bare_terms(word: str, stemmer: str) -> tuple[str, ...]:
    """Return the term of an Arabic word without its first letter; empty if that is no particle."""
    if stemmer != "arabic" or len(word) < MIN_LETTERS or word[0] not in PARTICLES:
        return ()
    return (stem_function(stemmer)(word[1:]),)
