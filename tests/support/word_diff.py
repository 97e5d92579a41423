"""Words of a text in a document: kept, lost, doubled, added or moved."""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fate of the words of a source, once for each occurrence.

    `doubled` are words that occur more often than in the source, `added` are words that it does not
    have, and `moved` counts words outside the common order.
    """

    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    moved: int = 0


def words_of(text: str) -> list[str]:
    """Return the parts between white space, without punctuation and symbols at their ends.

    Ends only: two words that lost the space between them are two lost words and an added one.
    """
    stripped = (_without_edges(part) for part in unicodedata.normalize("NFC", text).split())
    return [word for word in stripped if word]


def compare(source: Sequence[str], found: Sequence[str], *, ordered: bool = True) -> Comparison:
    """Return how the words that were found differ from those of the source.

    Moved words are ignored unless the words must be `ordered`.
    """
    expected, got = Counter(source), Counter(found)
    more = got - expected
    return Comparison(
        lost=tuple((expected - got).elements()),
        doubled=tuple(word for word in more.elements() if word in expected),
        added=tuple(word for word in more.elements() if word not in expected),
        moved=_moved(source, found) if ordered else 0,
    )


def _without_edges(part: str) -> str:
    start, end = 0, len(part)
    while start < end and _is_edge(part[start]):
        start += 1
    while end > start and _is_edge(part[end - 1]):
        end -= 1
    return part[start:end]


def _is_edge(char: str) -> bool:
    # Besides words there are invisible signs of direction, private characters as bullets, and
    # selectors for the shape of arrows.
    return unicodedata.category(char)[0] in "PSCM"


def _moved(source: Sequence[str], found: Sequence[str]) -> int:
    """Return how many of the words in both lie outside their longest common order."""
    kept = sum((Counter(source) & Counter(found)).values())
    return kept - _longest_rise(_pairs(source, found))


def _pairs(source: Sequence[str], found: Sequence[str]) -> Iterable[int]:
    """Yield for each found word its places in the source, the last one first.

    So no two places of one word can both lie in a rise, and the longest rise is the longest common
    order. The work grows with the square of how often a word occurs: large texts for measuring are
    made of words that are hardly ever the same.
    """
    places: dict[str, list[int]] = {}
    for place in range(len(source) - 1, -1, -1):
        places.setdefault(source[place], []).append(place)
    return (place for word in found for place in places.get(word, ()))


def _longest_rise(numbers: Iterable[int]) -> int:
    """Return the length of the longest strictly rising selection."""
    ends: list[int] = []
    for number in numbers:
        at = bisect_left(ends, number)
        ends[at : at + 1] = [number]
    return len(ends)
