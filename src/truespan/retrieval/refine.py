"""Refine the order of the best candidates by their text.

    gain = (0.2 x window share + 1.5 x late interaction) x min(1, 6 / words of the query)

- The window share is high if words of the query are close together (`words.scoring`).
- Late interaction compares states of words (`types.vectors`): for each content word of the
  query the most similar word of the chunk, averaged by rarity. It finds inflections, synonyms and
  paraphrases.

Long queries describe a topic, which whole texts represent better than single words. From ten
content words on, the refined candidates also gain by *feedback*: their similarity to the mean of
the three that are best so far. Short questions ask for one fact, and feedback harms them.

A gain depends on the verified, visible text of a chunk, the states and the vector of this text,
those of the best such chunks, and the rarity of words among the chunks that take part: nothing that
a reader may not see decides an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.retrieval.query import SCORE_DECIMALS
from truespan.types.profile import Distance
from truespan.types.request import RankPart
from truespan.types.vectors import (
    ROW_BYTES,
    QueryStates,
    Vector,
    WordStates,
    compare_rows,
    mean_of,
    similarities_of,
)
from truespan.words.query import Forms
from truespan.words.scoring import WordRarity, count_whole_words, window_share_at
from truespan.words.terms import stem_function, stemmer_of, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REFINED = 20
"""Number of candidates that are refined. Callers cannot change it."""
WINDOW_WEIGHT = 0.2
LATE_WEIGHT = 1.5
"""Weights in a blend; docs/retrieval.md explains the choice."""
FULL_WORDS = 6
"""Maximum number of words of a query whose gains count in full."""
MIN_FEEDBACK_WORDS = 10
"""Minimum number of content words of a query that uses feedback."""
FEEDBACK_FROM = 3
"""Number of distinct candidates that feedback comes from."""
FEEDBACK_WEIGHT = 1.5

MAX_TEXTS = 2048
"""Maximum number of texts whose terms are kept, about five megabytes."""


class CandidateText(Struct, frozen=True):
    """The verified, visible text of a candidate."""

    text: str
    language: str
    states: WordStates | None
    """States of the words of the text; None if they were not read, or are not stored."""


class Gain(Struct, frozen=True):
    """Gain of a chunk from its text, added to its blend; a part that was not measured is None."""

    window: float | None
    late: float | None
    total: float
    feedback: float | None = None


def compare_with_best(ranked: Sequence[Vector]) -> list[float]:
    """Return the similarity of each vector to the mean of the best, given the vectors by rank.

    Equal vectors count once among the best: copies of a text are no further evidence.
    """
    best = [*dict.fromkeys(ranked)][:FEEDBACK_FROM]
    similar = similarities_of(mean_of(best), ranked, Distance.COSINE) if best else []
    return [round(max(similarity, 0.0), SCORE_DECIMALS) for similarity in similar]


class Refinement(Struct, frozen=True, dict=True):
    """The words of one query and their states, which texts of candidates are compared with."""

    rarity: WordRarity
    """Rarity of the content words of the query; of a misspelt one, that of the terms for it."""
    states: QueryStates | None = None
    """States of the words of the query; None if the model gives none."""
    without: frozenset[RankPart] = frozenset()
    """Parts that are left out."""
    written: WordRarity | None = None
    """Rarity of the words as the query has them, if some are misspelt: states are of those."""

    def gains(self, texts: Sequence[CandidateText]) -> list[Gain]:
        """Return the gain of each text; without states, it has none from them."""
        import numpy as np

        unseen = self.rarity.unseen
        occurring = [(forms, rarity) for forms, rarity in self.rarity.words if rarity < unseen]
        windows = self._measure_windows(texts, occurring)
        late: list[float | None] = [None] * len(texts)
        states = [text.states for text in texts if text.states]
        if states and self.query_rows is not None:
            rows, weights = self.query_rows
            compared = compare_rows(b"".join(states), rows)
            starts = np.cumsum([0, *(len(packed) // ROW_BYTES for packed in states)])[:-1]
            best = np.maximum.reduceat(compared, starts, axis=0)
            # Negative values would move a chunk below those that are not refined.
            similar = np.maximum((best * weights).sum(axis=1), 0.0).round(SCORE_DECIMALS)
            shares = iter(similar.tolist())
            late = [next(shares) if text.states else None for text in texts]
        share = min(1.0, FULL_WORDS / max(count_whole_words(occurring), 1.0))
        found = list[Gain]()
        for window, similarity in zip(windows, late, strict=True):
            total = WINDOW_WEIGHT * (window or 0.0) + LATE_WEIGHT * (similarity or 0.0)
            found.append(Gain(window, similarity, share * total))
        return found

    def _measure_windows(
        self, texts: Sequence[CandidateText], occurring: Sequence[tuple[Forms, float]]
    ) -> list[float | None]:
        """Return the window share of each text, from the words of the query that occur."""
        shares: list[float | None] = [None] * len(texts)
        languages = {text.language for text in texts if RankPart.WINDOW not in self.without}
        for language in languages:
            name = stemmer_of(language)
            words = [(forms[name], rarity) for forms, rarity in occurring if name in forms]
            # All forms of a word count as the first of them.
            first = {form: known[0] for known, _ in words for form in known}
            rarity = {known[0]: value for known, value in words}
            for number, text in enumerate(texts):
                if text.language == language:
                    at = _places_of(text.text, language)
                    forms = first.keys() & at.keys()
                    found = sorted((place, first[form]) for form in forms for place in at[form])
                    shares[number] = round(window_share_at(found, rarity), SCORE_DECIMALS)
        return shares

    @cached_property
    def query_rows(self) -> tuple[bytes, NDArray[np.float64]] | None:
        """Rows of the content words of the query and their weights; None without any.

        Without them, states of chunks cannot change the order.
        """
        import numpy as np

        if self.states is None or RankPart.LATE in self.without:
            return None
        rarity = {
            (name, term): rarity
            for forms, rarity in (self.written or self.rarity).words
            for name, terms in forms.items()
            for term in terms
        }
        names = {name for name, _ in rarity}
        rows, weights = list[bytes](), list[float]()
        for number, word in enumerate(self.states.words):
            known = (rarity.get((name, stem_function(name)(word))) for name in names)
            weight = max((value for value in known if value is not None), default=None)
            if weight is not None:
                start = number * ROW_BYTES
                rows.append(self.states.rows[start : start + ROW_BYTES])
                weights.append(weight)
        total = sum(weights)
        return (b"".join(rows), np.array(weights) / total) if total else None


# Shared by threads: an `lru_cache`, which locks, of places that nothing changes.
@lru_cache(maxsize=MAX_TEXTS)
def _places_of(text: str, language: str) -> Mapping[str, Sequence[int]]:
    """Return the places of each term of a text; some texts are candidates of many queries."""
    places: dict[str, list[int]] = {}
    for place, term in enumerate(terms(text, language)):
        places.setdefault(term, []).append(place)
    return places
