"""Terms that are spelt like a word that no chunk has, by the trigrams of letters they share.

    lantren: ··l ·la lan ant ntr tre ren en· n··     lantern: ··l ·la lan ant nte ter ern rn· n··

The similarity is the share of common trigrams (Dice's coefficient), without diacritics: "temur" is
"temür". Of similar terms, those that
differ by a slip or two are used. A vocabulary is compared whole, and may have terms that the caller
must not use: `suggest_terms` keeps those that `count` finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.types.bundle import Notice
from truespan.types.document import Vocabulary
from truespan.words.english import common_words
from truespan.words.query import Forms, QueryWord, WordQuery
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import fold_diacritics, stem_function, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_LETTERS = 4
"""Minimum length of a word that is compared. Shorter words are similar to too many terms."""
MIN_SIMILARITY = 0.5
"""Minimum share of common trigrams."""
LONG = 7
"""Minimum length of a term that may differ by two slips; shorter ones differ by one."""
MAX_TERMS = 2
"""Maximum number of terms that join a word."""
_PADDING = "  "
"""Two spaces at both ends: the first and the last letter count more than others."""
_KEY_BITS = 64
"""Number of bits of a trigram with the number of its term."""


class TrigramIndex(Struct, frozen=True):
    """The terms of a vocabulary by their trigrams.

    `owners` has the numbers of the terms with each of the sorted `trigrams`; those of the trigram
    number n are from `starts[n]` up to `starts[n + 1]`. `sizes` is the number of distinct trigrams
    of each term. A letter is represented by its place among the sorted `letters`, in `bits` bits.
    """

    terms: tuple[str, ...]
    letters: NDArray[np.int64]
    bits: int
    sizes: NDArray[np.int64]
    trigrams: NDArray[np.uint64]
    starts: NDArray[np.int64]
    owners: NDArray[np.int32]

    def similar_terms(self, word: str) -> dict[str, float]:
        """Return the terms that are similar enough to a word, with their similarity."""
        import numpy as np

        if not self.terms:
            return {}
        padded = f"{_PADDING}{fold_diacritics(word)}{_PADDING}"
        wanted = {padded[start : start + 3] for start in range(len(padded) - 2)}
        codes = np.array([[*map(ord, trigram)] for trigram in wanted])
        places = self.letters.searchsorted(codes)
        is_known = (self.letters.take(places, mode="clip") == codes).all(axis=1)
        first, second, third = _number(places[is_known].T, self.bits)
        keys = np.unique(_join_letters(first, second, third, self.bits))
        rows = self.trigrams.searchsorted(keys)
        rows = rows[self.trigrams.take(rows, mode="clip") == keys]
        spans = [self.owners[self.starts[row] : self.starts[row + 1]] for row in rows.tolist()]
        common = np.bincount(np.concatenate([self.owners[:0], *spans]), minlength=len(self.terms))
        similarity = 2 * common / (self.sizes + len(wanted))
        found = np.flatnonzero(similarity >= MIN_SIMILARITY).tolist()
        return {self.terms[number]: float(similarity[number]) for number in found}


# Shared by threads: a cache of frozen indexes, whose arrays are only read.
@lru_cache(maxsize=8)
def index_vocabulary(vocabulary: Vocabulary) -> TrigramIndex:
    """Return the trigrams of a vocabulary; the same object is indexed once."""
    return index_terms(vocabulary.terms)


def index_terms(terms: tuple[str, ...]) -> TrigramIndex:
    """Return the trigrams of distinct terms."""
    import numpy as np

    folded = [*map(fold_diacritics, terms)]
    padded = f"{_PADDING}{(2 * _PADDING).join(folded)}{_PADDING}"
    codes = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), "<u4")
    lengths = np.fromiter(map(len, folded), np.int64, len(terms)) + 2 * len(_PADDING)
    owner = np.repeat(np.arange(len(terms), dtype=np.uint64), lengths)
    codes = codes[: len(owner)]
    places = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    places[codes] = 1
    letters = np.flatnonzero(places)
    places[letters] = np.arange(len(letters))
    # A trigram and its term are one number, since sorting numbers is ten times as fast as sorting
    # places. With many letters, some share a number, and more terms are compared letter by letter.
    owner_bits = len(terms).bit_length()
    bits = min(len(letters).bit_length(), (_KEY_BITS - owner_bits) // 3)
    number = _number(places, bits)[codes]
    trigrams = _join_letters(number[:-2], number[1:-1], number[2:], bits)
    within = owner[:-2] == owner[2:]
    pairs = np.sort((trigrams << np.uint64(owner_bits) | owner[:-2])[within])
    pairs = pairs[_differ(pairs)]
    trigrams = pairs >> np.uint64(owner_bits)
    owners = (pairs & np.uint64((1 << owner_bits) - 1)).astype(np.int32)
    starts = np.flatnonzero(_differ(trigrams))
    return TrigramIndex(
        terms=terms,
        letters=letters,
        bits=bits,
        sizes=np.bincount(owners, minlength=len(terms)),
        trigrams=trigrams[starts],
        starts=np.append(starts, len(owners)),
        owners=owners,
    )


def _number(places: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """Return the numbers that represent letters: their places, as far as the bits allow."""
    return (places & ((1 << bits) - 1)).astype("<u8")


def _join_letters(
    first: NDArray[np.uint64], second: NDArray[np.uint64], third: NDArray[np.uint64], bits: int
) -> NDArray[np.uint64]:
    """Return trigrams as numbers, from the numbers of their letters."""
    import numpy as np

    width = np.uint64(bits)
    return (first << width | second) << width | third


def _differ(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return for each sorted value whether it differs from the one before it."""
    import numpy as np

    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found


def suggest_terms(
    word: QueryWord,
    find_similar: Callable[[str], Mapping[str, float]],
    count: Callable[[Forms], int],
) -> Forms:
    """Return the terms that join a word that no chunk has, most similar first; empty if none.

    `find_similar` returns terms that are spelt like a term, with their similarity. `count` returns
    the number of chunks with given terms among those that take part; of equally similar terms the
    most frequent come first. Words in quotes, stop words of any language, short words, words with
    digits and frequent English words with their inflections, which are spelt right, are not joined
    by others; the latter are by words that differ in diacritics alone. Stop words join none.
    """
    text = word.text
    if word.exact or word.stops or len(text) < MIN_LETTERS or any(map(str.isdigit, text)):
        return {}
    is_common = "english" in word.forms and not common_words().isdisjoint(
        (text, *word.forms["english"])
    )
    stemmers: dict[str, list[str]] = {}
    for name, terms in word.forms.items():
        for term in terms:
            stemmers.setdefault(term, []).append(name)
    similar = sorted(
        (-similarity, term, kept)
        for own, names in stemmers.items()
        for term, similarity in find_similar(own).items()
        if count_slips(fold_diacritics(own), fold_diacritics(term))
        <= (0 if is_common else 1 if len(own) < LONG else 2)
        and (kept := [name for name in names if term not in STOP_WORDS.get(name, ())])
    )
    chosen: dict[str, tuple[str, ...]] = {}
    missing = MAX_TERMS
    for _, equal in groupby(similar, key=lambda entry: entry[0]):
        counted = [(-count(dict.fromkeys(names, (term,))), term, names) for _, term, names in equal]
        for _, term, names in sorted(entry for entry in counted if entry[0])[:missing]:
            chosen |= {name: (*chosen.get(name, ()), term) for name in names}
            missing -= 1
        if not missing:
            break
    return chosen


def count_slips(word: str, other: str) -> int:
    """Return the edit distance of two words; a swap of neighbouring letters is one edit."""
    before, row = list[int](), list(range(len(other) + 1))
    for place, letter in enumerate(word):
        earlier, before, row = before, row, [place + 1]
        for column, wanted in enumerate(other):
            cost = min(before[column] + (letter != wanted), before[column + 1] + 1, row[column] + 1)
            if place and column and letter == other[column - 1] and word[place - 1] == wanted:
                cost = min(cost, earlier[column - 1] + 1)
            row.append(cost)
    return row[-1]


def name_similar(query: WordQuery, texts: Iterable[str]) -> Notice | None:
    """Return a notice about the terms that joined misspelt words of a query; None without any.

    Terms are stems. A term is shown as the first word of the found texts that has it, if any.
    """
    misspelt = [word for word in query.words if word.misspelt]
    if not misspelt:
        return None
    found, sentences = list(texts), list[str]()
    for word in misspelt:
        forms = [(name, term) for name, own in word.forms.items() for term in own]
        shown = dict.fromkeys(_first_word(found, name, term) for name, term in forms)
        sentences.append(
            f"No passage that was searched contains {word.text!r}. "
            f"Also searched for {' and '.join(map(repr, shown))}."
        )
    return Notice("similar_words", " ".join(sentences))


def _first_word(texts: Iterable[str], stemmer: str, term: str) -> str:
    """Return the first word of the texts with this term; the term itself if no word has it."""
    stem = stem_function(stemmer)
    return next((word for text in texts for word in words(text) if stem(word) == term), term)
