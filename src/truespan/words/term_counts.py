"""Count the terms of many texts at once.

This is part of every ingestion, so that words become Python strings only once each: most texts are
split, compared and counted as arrays of bytes. Texts in other characters take the general path,
which gives the same counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.words.terms import (
    MAX_TERM_CHARS,
    fold_bytes,
    split_words,
    stem_function,
    stemmed_bytes,
    stemmer_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MIX = 0x9E3779B97F4A7C15
"""An odd number without a pattern, to mix the bits of a word."""
_SHORT = 8
"""Number of bytes of a word that are read as one number."""
_MIN_SHORT = 1 << 56
"""Smallest number with a byte in the first place."""
_FEW = 2000
"""Number of characters below which arrays cost more than they save."""


class TermCounts(Struct, frozen=True):
    """Count of each term in each text.

    `terms` are in order, `sizes` are the words of each text. The three arrays have one element for
    each term of each text, by term and then by text: the numbers of both, and the count.
    """

    terms: list[str]
    sizes: list[int]
    term: NDArray[np.int64]
    text: NDArray[np.int64]
    count: NDArray[np.int64]


class _Numbered(Struct, frozen=True):
    """The words of texts in any order: the number and the text of each, and the terms of the
    numbers. `sizes` are the words of each text."""

    terms: list[str]
    numbers: NDArray[np.int64]
    texts: NDArray[np.int64]
    sizes: NDArray[np.int64]


def count_terms(texts: Sequence[str], language: str) -> TermCounts:
    """Return the counts of the terms of texts in one language."""
    import numpy as np

    stemmer, total = stemmer_of(language), max(len(texts), 1)
    if sum(map(len, texts)) < _FEW:
        return _count_few(texts, stemmer)
    sizes = np.zeros(len(texts), np.int64)
    found: list[str] = []
    numbers, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for chosen, part in _number_parts(texts, stemmer):
        sizes[chosen] = part.sizes
        places.append(chosen[part.texts])
        numbers.append(part.numbers + len(found))
        found += part.terms
    # Sorting is fast because most of them are in order already.
    terms = sorted(dict.fromkeys(found))
    place_of = dict(zip(terms, range(len(terms)), strict=True))
    term_of = np.fromiter(map(place_of.__getitem__, found), np.int64, len(found))
    every = term_of[np.concatenate(numbers)] * total + np.concatenate(places)
    pairs, count = np.unique(every, return_counts=True)
    term = pairs // total
    return TermCounts(terms, sizes.tolist(), term, pairs - term * total, count)


def count_each(languages: Sequence[str], texts: Sequence[str]) -> TermCounts:
    """Return the counts of the terms of texts, each in its own language."""
    import numpy as np

    places: dict[str, list[int]] = {}
    for place, language in enumerate(languages):
        places.setdefault(language, []).append(place)
    parts = [
        (np.array(chosen), count_terms([texts[place] for place in chosen], language))
        for language, chosen in places.items()
    ]
    terms = sorted({term for _, part in parts for term in part.terms})
    number_of = {term: number for number, term in enumerate(terms)}
    sizes = np.zeros(len(texts), np.int64)
    rows = [np.zeros((3, 0), np.int64)]
    for chosen, part in parts:
        sizes[chosen] = part.sizes
        numbers = np.array([number_of[term] for term in part.terms], np.int64)
        rows.append(np.stack((numbers[part.term], chosen[part.text], part.count)))
    term, text, count = np.concatenate(rows, axis=1)
    order = np.lexsort((text, term))
    return TermCounts(terms, sizes.tolist(), term[order], text[order], count[order])


def _count_few(texts: Sequence[str], stemmer: str) -> TermCounts:
    """Count the terms of short texts, such as a document of one paragraph."""
    import numpy as np

    stem, sizes = stem_function(stemmer), list[int]()
    found: dict[str, list[tuple[int, int]]] = {}
    for place, text in enumerate(texts):
        words = split_words(text)
        sizes.append(len(words))
        for term, count in Counter([stem(word[:MAX_TERM_CHARS]) for word in words]).items():
            found.setdefault(term, []).append((place, count))
    terms = sorted(found)
    rows = [(number, *pair) for number, term in enumerate(terms) for pair in found[term]]
    return TermCounts(terms, sizes, *np.array(rows, np.int64).reshape(-1, 3).T)


def _number_parts(
    texts: Sequence[str], stemmer: str
) -> Iterator[tuple[NDArray[np.int64], _Numbered]]:
    """Yield which texts were numbered together, and their words."""
    import numpy as np

    if folded := _fold_all(texts):
        yield np.arange(len(texts)), _number_bytes(texts, folded, stemmer)
        return
    # Few texts of a document have other characters; only those take the general path.
    simple = np.array([fold_bytes(text) is not None for text in texts], bool)
    chosen, others = np.flatnonzero(simple), np.flatnonzero(~simple)
    plain = [texts[place] for place in chosen.tolist()]
    if folded := _fold_all(plain):
        yield chosen, _number_bytes(plain, folded, stemmer)
    yield others, _number_words([texts[place] for place in others.tolist()], stemmer)


def _fold_all(texts: Sequence[str]) -> bytes | None:
    # Spaces at both ends: every word has an end, and eight bytes can be read from any place.
    return fold_bytes("\n".join(("", *texts, "\n" * MAX_TERM_CHARS)))


def _number_words(texts: Sequence[str], stemmer: str) -> _Numbered:
    """Number the words of texts in any characters."""
    import numpy as np

    found = [split_words(text) for text in texts]
    every = [*chain.from_iterable(found)]
    number_of = {word: number for number, word in enumerate(dict.fromkeys(every))}
    numbers = np.fromiter(map(number_of.__getitem__, every), np.int64, len(every))
    sizes = np.array([len(words) for words in found], np.int64)
    stem = stem_function(stemmer)
    terms = [stem(word[:MAX_TERM_CHARS]) for word in number_of]
    return _Numbered(terms, numbers, np.repeat(np.arange(len(texts)), sizes), sizes)


def _number_bytes(texts: Sequence[str], folded: bytes, stemmer: str) -> _Numbered:
    """Number the words of texts that have one byte for each character, given all together."""
    import numpy as np

    data = np.frombuffer(folded, np.uint8)
    edges = np.flatnonzero(np.diff(data == ord(" "))) + 1
    starts, ends = edges[::2].copy(), edges[1::2].copy()
    lengths, count = ends - starts, len(starts)
    longest = int(lengths.max(initial=0))
    if not 0 < longest <= MAX_TERM_CHARS:
        return _number_words(texts, stemmer)
    bytes_at = np.ndarray((len(data) - 7,), ">u8", folded, strides=(1,))
    masks = np.array([(1 << 64) - (1 << 8 * (8 - kept)) for kept in range(9)], np.uint64)

    def read_eight(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return eight bytes of each word as a number, zero after its end."""
        return bytes_at[starts].astype(np.uint64) & masks.take(lengths, mode="clip")

    # The key of a short word is the word itself. That of a longer word is a hash of all of it with
    # a first byte of zero, which no word has.
    key = read_eight(starts, lengths)
    longer = np.flatnonzero(lengths > _SHORT)
    mixed = key[longer]
    for skip in range(_SHORT, longest, _SHORT):
        mixed = mixed * np.uint64(_MIX) ^ read_eight(starts[longer] + skip, lengths[longer] - skip)
    key[longer] = mixed * np.uint64(_MIX) >> np.uint64(8)
    # Equal keys are sorted together by some bits of each, before the number of its word: sorting
    # numbers is several times faster than sorting places. A word split by another with the same
    # bits gets two numbers, and one term.
    low = np.uint64((1 << count.bit_length()) - 1)
    packed = key * np.uint64(_MIX) & ~low | np.arange(count, dtype=np.uint64)
    packed.sort()
    order = (packed & low).astype(np.int64)
    keys = key[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    repeats = np.diff(firsts, append=count)
    # Long words may have the same key by chance, so that each is compared with the first of it.
    alike = np.flatnonzero(keys < _MIN_SHORT)
    one, other = order[alike], order[np.repeat(firsts, repeats)[alike]]
    for skip in range(0, longest, _SHORT):
        left = read_eight(starts[one] + skip, lengths[one] - skip)
        if (left != read_eight(starts[other] + skip, lengths[other] - skip)).any():
            return _number_words(texts, stemmer)
    # Numbered in the order of the keys, which is that of the alphabet for short words.
    ranked = np.argsort(keys[firsts])
    numbers = np.empty(len(firsts), np.int64)
    numbers[ranked] = np.arange(len(firsts))
    distinct = keys[firsts[ranked]]
    # As a number of the same type: a plain one would be compared as a float, which is rounded.
    first_short = np.searchsorted(distinct, np.uint64(_MIN_SHORT))
    long = order[firsts[ranked[:first_short]]]
    spans = zip(starts[long].tolist(), ends[long].tolist(), strict=True)
    words = [folded[start:end] for start, end in spans]
    words += distinct[len(words) :].astype(">u8").view("S8").tolist()
    bounds = np.cumsum([1, *(len(text) + 1 for text in texts)])
    sizes = np.diff(np.searchsorted(starts, bounds))
    return _Numbered(
        list(map(stemmed_bytes(stemmer).__getitem__, words)),
        np.repeat(numbers, repeats),
        np.repeat(np.arange(len(texts)), sizes)[order],
        sizes,
    )
