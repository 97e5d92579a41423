"""Count the terms of many texts at once.

This is part of every ingestion, so that words become Python strings only once each: most texts are
split, compared and counted as arrays of bytes. Texts in other characters take the general path,
which gives the same counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.retrieval.terms import (
    LONGEST,
    FoldedBytes,
    fold_bytes,
    split_words,
    stem_function,
    stemmer_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MIX = 0x9E3779B97F4A7C15
"""An odd number without a pattern, to tell the parts of a long word apart."""


class TermCounts(Struct, frozen=True):
    """How often each term is in which text.

    `terms` are in order, `sizes` are the words of each text. The three arrays have one element for
    each term of each text, by term and then by text: the numbers of both, and the count.
    """

    terms: list[str]
    sizes: list[int]
    term: NDArray[np.int64]
    text: NDArray[np.int64]
    count: NDArray[np.int64]


class _Numbered(Struct, frozen=True):
    """Words of texts as numbers: the distinct words, the number of each word, and how many words
    each text has."""

    words: list[str]
    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]


def count_terms(texts: Sequence[str], language: str) -> TermCounts:
    """Return how often each term is in which of the texts, which are all in one language."""
    import numpy as np

    sizes = np.zeros(len(texts), np.int64)
    words: list[str] = []
    numbers, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for chosen, part in _number_parts(texts):
        sizes[chosen] = part.sizes
        places.append(np.repeat(chosen, part.sizes))
        numbers.append(part.numbers + len(words))
        words += part.words
    stem = stem_function(stemmer_of(language))
    stems = [stem(word[:LONGEST]) for word in words]
    terms = sorted(set(stems))
    place_of = {term: place for place, term in enumerate(terms)}
    term_of_word = np.array([place_of[term] for term in stems], np.int64)
    found = term_of_word[np.concatenate(numbers)] * len(texts) + np.concatenate(places)
    pairs, count = np.unique(found, return_counts=True)
    term, text = np.divmod(pairs, max(len(texts), 1))
    return TermCounts(terms, sizes.tolist(), term, text, count)


def _number_parts(texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], _Numbered]]:
    """Yield which texts were numbered together, and their words."""
    import numpy as np

    if folded := _fold_all(texts):
        yield np.arange(len(texts)), _number_bytes(texts, folded)
        return
    # Few texts of a document have other characters; only those take the general path.
    simple = np.array([fold_bytes(text) is not None for text in texts], bool)
    chosen, others = np.flatnonzero(simple), np.flatnonzero(~simple)
    plain = [texts[place] for place in chosen.tolist()]
    if folded := _fold_all(plain):
        yield chosen, _number_bytes(plain, folded)
    yield others, _number_words([texts[place] for place in others.tolist()])


def _fold_all(texts: Sequence[str]) -> FoldedBytes | None:
    # Spaces at both ends: every word has an end, and eight bytes can be read from any place.
    return fold_bytes("\n".join(("", *texts, "\n" * LONGEST)))


def _number_words(texts: Sequence[str]) -> _Numbered:
    """Number the words of texts in any characters."""
    import numpy as np

    found = [split_words(text) for text in texts]
    every = [*chain.from_iterable(found)]
    number_of = {word: number for number, word in enumerate(dict.fromkeys(every))}
    numbers = np.fromiter(map(number_of.__getitem__, every), np.int64, len(every))
    sizes = np.array([len(words) for words in found], np.int64)
    return _Numbered(list(number_of), numbers, sizes)


def _number_bytes(texts: Sequence[str], folded: FoldedBytes) -> _Numbered:
    """Number the words of texts that have one byte for each character, given all together."""
    import numpy as np

    data = np.frombuffer(folded.data, np.uint8)
    edges = np.flatnonzero(np.diff(data == ord(" "))) + 1
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    if not len(starts) or lengths.max() > LONGEST:
        return _number_words(texts)
    # Eight bytes of each word as a number, zero after its end; of longer words the next eight too.
    bytes_at = np.ndarray((len(data) - 7,), "<u8", folded.data, strides=(1,))
    masks = np.array([(1 << 8 * kept) - 1 for kept in range(9)], np.uint64)
    head = bytes_at[starts] & masks[np.minimum(lengths, 8)]
    key, tails = head.copy(), []
    for skip in range(8, int(lengths.max()), 8):
        longer = np.flatnonzero(lengths > skip)
        tail = bytes_at[starts[longer] + skip] & masks[np.minimum(lengths[longer] - skip, 8)]
        key[longer] = key[longer] * np.uint64(_MIX) ^ tail
        tails.append((longer, tail))
    order = np.argsort(key)
    ordered = key[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    firsts = order[is_first]
    # Different words may have the same key, so that each is compared with the first of its number.
    if (lengths[firsts][numbers] != lengths).any() or (head[firsts][numbers] != head).any():
        return _number_words(texts)
    for longer, tail in tails:
        first = np.searchsorted(longer, firsts[numbers[longer]])
        if (tail[first] != tail).any():
            return _number_words(texts)
    spans = zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True)
    words = folded.decode(b" ".join([folded.data[start:end] for start, end in spans]))
    bounds = np.cumsum([1, *(len(text) + 1 for text in texts)])
    return _Numbered(words, numbers, np.diff(np.searchsorted(starts, bounds)))
