"""Refine the order of the best candidates by their text.

    gain = 0.2 x window share

The window share is high if words of the query stand close together (`words.window`). A gain depends
on the verified, visible text of a chunk and the rarity of words among the chunks that take part:
nothing that a reader may not see decides an order.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from truespan.types.ids import TextHash
from truespan.types.request import RankPart
from truespan.words.coverage import WordRarity
from truespan.words.terms import split_words, stem_function, stemmer_of
from truespan.words.window import window_share

REFINED = 30
"""Number of candidates that are refined. Callers cannot change it."""
WINDOW_WEIGHT = 0.2
"""Weight of the window share in a blend; docs/retrieval.md explains the choice."""


class CandidateText(Struct, frozen=True):
    """The verified, visible text of a candidate."""

    text: str
    language: str
    text_hash: TextHash


class Gain(Struct, frozen=True):
    """Gain of a chunk from its text, added to its blend; a part that was not measured is None."""

    window: float | None = None

    @property
    def total(self) -> float:
        """Return the sum of the parts with their weights."""
        return WINDOW_WEIGHT * (self.window or 0.0)


class Refinement(Struct, frozen=True):
    """Evidence of one query that the texts of candidates are compared with."""

    rarity: WordRarity
    """Rarity of the content words of the query."""
    without: frozenset[RankPart] = frozenset()
    """Parts that are left out."""

    def gains(self, texts: Sequence[CandidateText]) -> list[Gain]:
        """Return the gain of each text."""
        return [Gain(self._window(text)) for text in texts]

    def _window(self, text: CandidateText) -> float | None:
        if RankPart.WINDOW in self.without:
            return None
        name = stemmer_of(text.language)
        words = [(forms[name], rarity) for forms, rarity in self.rarity.occurring if name in forms]
        # All forms of a word count as its first one.
        first = {term: terms[0] for terms, _ in words for term in terms}
        rarity = {terms[0]: rarity for terms, rarity in words}
        stem = stem_function(name)
        return window_share((first.get(stem(word)) for word in split_words(text.text)), rarity)
