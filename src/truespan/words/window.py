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

    `terms` are those of a text in order, with None for any other word; `rarity` has every term of
    the query.
    """
    total = sum(rarity.values())
    if not total:
        return 0.0
    counts, gained, best = dict.fromkeys(rarity, 0), 0.0, 0.0
    inside: list[tuple[int, str]] = []
    first = 0
    for place, term in enumerate(terms):
        if term is None or term not in rarity:
            continue
        while first < len(inside) and inside[first][0] <= place - size:
            left = inside[first][1]
            counts[left] -= 1
            gained -= 0.0 if counts[left] else rarity[left]
            first += 1
        inside.append((place, term))
        gained += 0.0 if counts[term] else rarity[term]
        counts[term] += 1
        best = max(best, gained)
    # Sums in another order may differ in the last digits.
    return min(best / total, 1.0)
