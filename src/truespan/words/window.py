"""Windows: the words of a query that stand close together in a text.

    window share = rarity of the words within the best 20 consecutive words / rarity of all words

A passage with the words of a question in one place is more likely to answer it than one with the
same words far apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

WINDOW = 20
"""Number of consecutive words that count together."""


def window_share(
    terms: Iterable[str | None], rarity: Mapping[str, float], size: int = WINDOW
) -> float:
    """Return the largest share of the rarity that terms within `size` consecutive words have.

    `terms` are those of a text in order, others may be None;
    `rarity` has every term of the query.
    """
    total = sum(rarity.values())
    if not total:
        return 0.0
    counts, gained, best, first = dict.fromkeys(rarity, 0), 0.0, 0.0, 0
    places = [(place, term) for place, term in enumerate(terms) if term and term in rarity]
    for place, term in places:
        while places[first][0] <= place - size:
            left = places[first][1]
            counts[left] -= 1
            gained -= 0.0 if counts[left] else rarity[left]
            first += 1
        gained += 0.0 if counts[term] else rarity[term]
        counts[term] += 1
        best = max(best, gained)
    # Sums in another order may differ in the last digits.
    return min(best / total, 1.0)
