"""States of words from the states of a network's tokens: grouping, projection, rounding.

Must hold: rows depend on the text, the tokens' states and the projection alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.types.vectors import (
    MAX_PRODUCTS,
    MAX_WORDS,
    STATE_SIZE,
    QueryStates,
    WordStates,
    pack_rows,
)

if TYPE_CHECKING:
    import numpy

    from truespan.words.terms import WordSpan

_SEED = 384
"""Seed of the projection of models without a fitted one. It must never change."""


class Projection(Struct, frozen=True):
    """A map from the states of a network to `STATE_SIZE` dimensions."""

    mean: numpy.ndarray
    """Mean direction of states, which is subtracted."""
    matrix: numpy.ndarray


def read_projection(content: bytes) -> Projection:
    """Return the projection in a file of numpy: the mean, then the columns of the matrix."""
    import numpy

    rows = numpy.load(BytesIO(content), allow_pickle=False).astype(numpy.float32)
    return Projection(rows[0], numpy.ascontiguousarray(rows[1:].T))


# Shared by threads: a cache of matrices that are only read.
@cache
def orthogonal_projection(dimensions: int) -> Projection:
    """Return a projection that keeps angles as well as any fixed one can."""
    import numpy

    # The numbers of the older generator are the same in every version of numpy.
    shape = max(dimensions, STATE_SIZE), min(dimensions, STATE_SIZE)
    columns, triangle = numpy.linalg.qr(numpy.random.RandomState(_SEED).standard_normal(shape))
    columns *= numpy.sign(numpy.diag(triangle))
    matrix = columns if dimensions >= STATE_SIZE else columns.T
    return Projection(
        numpy.zeros(dimensions, numpy.float32), numpy.ascontiguousarray(matrix, numpy.float32)
    )


class TokenStates(Struct, frozen=True):
    """A text, and the states of its tokens with the characters that each token stands for."""

    text: str
    states: numpy.ndarray
    offsets: Sequence[tuple[int, int]]
    first: int = 0
    """Offset of the text in the input of the network, after its prefix."""


class WordTokens(Struct, frozen=True):
    """Tokens of the words of a text, word after word; words with the same stem count as one."""

    places: numpy.ndarray
    weights: numpy.ndarray
    """Number and weight of each token: the occurrences of a word have the same weight."""
    sizes: numpy.ndarray


def document_states(tokens: TokenStates, projection: Projection) -> WordStates:
    """Return the rows of a text's content words; words with the same stem share one."""
    found = content_tokens(tokens.text, tokens.offsets, tokens.first)
    rows = _make_rows(tokens.states, found, projection)
    return WordStates(pack_rows(rows[_are_usable(rows)]))


def content_tokens(text: str, offsets: Sequence[tuple[int, int]], first: int = 0) -> WordTokens:
    """Return the tokens of the content words of a text."""
    # The words alone decide on the language, so that equal texts have equal states.
    # Imported here because a cached query needs no model.
    from truespan.words.stop_words import STOP_WORDS, guess_stemmer
    from truespan.words.terms import CODEC, fold_bytes, stem_function, word_spans

    folded, found = fold_bytes(text), None
    if folded is not None:
        words = folded.decode(CODEC).split()
        content = _content_stems(guess_stemmer({*words}))
        stems = list(map(content.__getitem__, words))
        found = _group_in_bytes(folded, stems, offsets, first)
    if found is None:
        spans = word_spans(text)
        stemmer = guess_stemmer({span.word for span in spans})
        unwanted, stem = STOP_WORDS[stemmer], stem_function(stemmer, whole=True)
        wanted = [span for span in spans if span.word not in unwanted and _is_content(span.word)]
        found = _pack_groups(_group_tokens(offsets, first, wanted, stem, distinct=True))
    return found


class _ContentStems(dict[str, str]):
    """The stems of the words of a language; empty for a stop word or a single letter."""

    def __init__(self, stemmer: str) -> None:
        from truespan.words.stop_words import STOP_WORDS
        from truespan.words.terms import stem_function

        super().__init__(dict.fromkeys(STOP_WORDS[stemmer], ""))
        self._unwanted = STOP_WORDS[stemmer]
        self._stem = stem_function(stemmer, whole=True)

    def __missing__(self, word: str) -> str:
        from truespan.words.terms import MAX_STEMS, MAX_TERM_CHARS

        term = word[:MAX_TERM_CHARS]
        wanted = term not in self._unwanted and _is_content(term)
        stem = self._stem(term) if wanted else ""
        if len(self) < MAX_STEMS:
            self[word] = stem
        return stem


# Shared by threads: dictionaries of words and their stems, which any thread would make alike.
@cache
def _content_stems(stemmer: str) -> _ContentStems:
    return _ContentStems(stemmer)


def query_states(tokens: TokenStates, projection: Projection) -> QueryStates:
    import numpy

    from truespan.words.terms import distinct_words, word_spans

    words = distinct_words(tokens.text, MAX_WORDS)
    found = _group_tokens(tokens.offsets, tokens.first, word_spans(tokens.text), str)
    rows = numpy.zeros((len(words), STATE_SIZE), numpy.float32)
    own = _make_rows(tokens.states, _pack_groups(found), projection)
    for word, row, usable in zip(found, own, _are_usable(own), strict=True):
        if usable and word in words:
            rows[words.index(word)] = row
    return QueryStates(words, pack_rows(rows))


def _is_content(word: str) -> bool:
    return len(word) > 1 or not (word.isascii() and word.isalpha())


def _make_rows(states: numpy.ndarray, words: WordTokens, projection: Projection) -> numpy.ndarray:
    """Return a unit row for each word; not a number where its states cancel out."""
    import numpy

    if not len(words.sizes):
        return numpy.empty((0, STATE_SIZE), numpy.float32)
    starts = numpy.cumsum(words.sizes) - words.sizes
    sums = numpy.add.reduceat(states[words.places] * words.weights[:, None], starts, axis=0)
    with numpy.errstate(all="ignore"):
        return _normalise(_multiply(_normalise(sums) - projection.mean, projection.matrix))


def _are_usable(rows: numpy.ndarray) -> numpy.ndarray:
    import numpy

    return numpy.isfinite(rows.sum(axis=1))


def _multiply(rows: numpy.ndarray, matrix: numpy.ndarray) -> numpy.ndarray:
    """Return the product of rows and a matrix, computed in small blocks of rows."""
    # A large product would run on the threads of BLAS, which take ten times the CPU while every
    # core runs the network. In blocks of equal size, no row depends on the number of rows.
    import numpy

    size = max(MAX_PRODUCTS // matrix.size, 1)
    blocks = numpy.zeros((-(-len(rows) // size), size, len(matrix)), numpy.float32)
    blocks.reshape(-1, len(matrix))[: len(rows)] = rows
    return (blocks @ matrix).reshape(-1, matrix.shape[1])[: len(rows)]


def _normalise(rows: numpy.ndarray) -> numpy.ndarray:
    import numpy

    return rows / numpy.sqrt(numpy.sum(rows * rows, axis=1, keepdims=True))


def _group_tokens(
    offsets: Sequence[tuple[int, int]],
    shift: int,
    words: Sequence[WordSpan],
    stem: Callable[[str], str],
    *,
    distinct: bool = False,
) -> dict[str, dict[int, float]]:
    """Return the tokens of each of the first stems with their weights."""
    # With `distinct`, a new stem has a token that no earlier word has. Words in a script without
    # spaces are pairs or triples of characters, which share their tokens.
    first, covered = 0, set[int]()
    found: dict[str, dict[int, float]] = {}
    for word, start, end in words:
        start, end = start + shift, end + shift
        while first < len(offsets) and offsets[first][1] <= start:
            first += 1
        place, pieces = first, list[int]()
        while place < len(offsets) and offsets[place][0] < end:
            # Special tokens stand for no character.
            if offsets[place][1] > max(offsets[place][0], start):
                pieces.append(place)
            place += 1
        key, is_new = stem(word), not (distinct and covered.issuperset(pieces))
        if pieces and (key in found or (is_new and len(found) < MAX_WORDS)):
            group = found.setdefault(key, {})
            covered.update(pieces)
            for piece in pieces:
                group[piece] = group.get(piece, 0.0) + 1 / len(pieces)
    return found


def _pack_groups(found: dict[str, dict[int, float]]) -> WordTokens:
    import numpy

    return WordTokens(
        numpy.array([place for group in found.values() for place in group], numpy.int64),
        numpy.array(
            [weight for group in found.values() for weight in group.values()], numpy.float32
        ),
        numpy.array([len(group) for group in found.values()], numpy.int64),
    )


def _group_in_bytes(
    folded: bytes, stems: Sequence[str], offsets: Sequence[tuple[int, int]], shift: int
) -> WordTokens | None:
    """Group the tokens of words that are runs of bytes; None if a token is part of two words."""
    # The result is the same as of `_group_tokens`, in a tenth of the time.
    import numpy

    is_letter = numpy.frombuffer(folded, numpy.uint8) != ord(" ")
    edges = numpy.flatnonzero(numpy.diff(is_letter, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    numbers = numpy.fromiter(chain.from_iterable(offsets), numpy.int64, 2 * len(offsets))
    begins, stops = numbers[::2] - shift, numbers[1::2] - shift
    # The first word that ends after the beginning of a token is the only one it can be part of.
    word = numpy.searchsorted(ends, begins, side="right")
    # Special tokens stand for no character.
    inside = (stops > begins) & (stops > numpy.append(starts, len(folded) + 1)[word])
    if (inside & (stops > numpy.append(starts, [len(folded) + 1] * 2)[word + 1])).any():
        return None
    places = numpy.flatnonzero(inside)
    word = word[places]
    pieces = numpy.bincount(word, minlength=len(starts))
    codes: dict[str, int] = {}
    code_of = numpy.full(len(starts), -1)
    for number, (stem, count) in enumerate(zip(stems, pieces.tolist(), strict=True)):
        if stem and count and (stem in codes or len(codes) < MAX_WORDS):
            code_of[number] = codes.setdefault(stem, len(codes))
    code = code_of[word]
    order = numpy.argsort(code, kind="stable")[numpy.count_nonzero(code < 0) :]
    weights = (1 / pieces[word[order]]).astype(numpy.float32)
    return WordTokens(places[order], weights, numpy.bincount(code[order], minlength=len(codes)))
