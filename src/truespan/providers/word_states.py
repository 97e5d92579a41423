"""States of words from the states of a network's tokens: grouping, projection, rounding.

Owns: the rows of a text and the projections.
Does not own: running the network, and storing the rows.
Must hold: rows depend on the text, the tokens' states and the projection alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
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


def document_states(tokens: TokenStates, projection: Projection) -> WordStates:
    """Return the rows of a text's content words; words with the same stem share one.

    The words alone decide on the language, so that equal texts have equal states.
    """
    # Imported here because a cached query needs no model.
    from truespan.words.stop_words import STOP_WORDS, guess_stemmer
    from truespan.words.terms import stem_function, word_spans

    spans = word_spans(tokens.text)
    stemmer = guess_stemmer({span.word for span in spans})
    unwanted = STOP_WORDS[stemmer]
    words = [span for span in spans if span.word not in unwanted and _is_content(span.word)]
    _, rows = _make_rows(tokens, words, projection, stem_function(stemmer))
    return WordStates(pack_rows(rows))


def query_states(tokens: TokenStates, projection: Projection) -> QueryStates:
    """Return the rows of the words of a query."""
    import numpy

    from truespan.words.terms import distinct_words, word_spans

    words = distinct_words(tokens.text, MAX_WORDS)
    known, found = _make_rows(tokens, word_spans(tokens.text), projection, str)
    rows = numpy.zeros((len(words), STATE_SIZE), numpy.float32)
    for word, row in zip(known, found, strict=True):
        if word in words:
            rows[words.index(word)] = row
    return QueryStates(words, pack_rows(rows))


def _is_content(word: str) -> bool:
    """Return whether a word is more than a single Latin letter, as in initials and lists."""
    return len(word) > 1 or not (word.isascii() and word.isalpha())


def _make_rows(
    tokens: TokenStates,
    words: Sequence[WordSpan],
    projection: Projection,
    stem: Callable[[str], str],
) -> tuple[list[str], numpy.ndarray]:
    """Return the first distinct stems and their unit rows; a word without tokens has none."""
    import numpy

    found = _group_tokens(tokens, words, stem)
    if not found:
        return [], numpy.empty((0, STATE_SIZE), numpy.float32)
    places = [place for group in found.values() for place in group]
    weights = [weight for group in found.values() for weight in group.values()]
    starts = numpy.cumsum([0, *map(len, found.values())])[:-1]
    states = tokens.states[places] * numpy.array(weights, numpy.float32)[:, None]
    sums = numpy.add.reduceat(states, starts, axis=0)
    with numpy.errstate(all="ignore"):
        rows = _normalise(_multiply(_normalise(sums) - projection.mean, projection.matrix))
    usable = numpy.isfinite(rows.sum(axis=1))
    known = [word for word, is_usable in zip(found, usable, strict=True) if is_usable]
    return known, rows[usable]


def _multiply(rows: numpy.ndarray, matrix: numpy.ndarray) -> numpy.ndarray:
    """Return the product of rows and a matrix, computed in small blocks of rows.

    A large product would run on the threads of BLAS, which take ten times the CPU while every core
    runs the network. In blocks of equal size, no row depends on the number of rows.
    """
    import numpy

    size = max(MAX_PRODUCTS // matrix.size, 1)
    blocks = numpy.zeros((-(-len(rows) // size), size, len(matrix)), numpy.float32)
    blocks.reshape(-1, len(matrix))[: len(rows)] = rows
    return (blocks @ matrix).reshape(-1, matrix.shape[1])[: len(rows)]


def _normalise(rows: numpy.ndarray) -> numpy.ndarray:
    import numpy

    return rows / numpy.sqrt(numpy.sum(rows * rows, axis=1, keepdims=True))


def _group_tokens(
    tokens: TokenStates, words: Sequence[WordSpan], stem: Callable[[str], str]
) -> dict[str, dict[int, float]]:
    """Return the tokens of each stem with their weights: occurrences count alike."""
    offsets, first = tokens.offsets, 0
    found: dict[str, dict[int, float]] = {}
    for word, start, end in words:
        start, end = start + tokens.first, end + tokens.first
        while first < len(offsets) and offsets[first][1] <= start:
            first += 1
        place, pieces = first, list[int]()
        while place < len(offsets) and offsets[place][0] < end:
            # Special tokens stand for no character.
            if offsets[place][1] > max(offsets[place][0], start):
                pieces.append(place)
            place += 1
        key = stem(word)
        if pieces and (key in found or len(found) < MAX_WORDS):
            group = found.setdefault(key, {})
            for piece in pieces:
                group[piece] = group.get(piece, 0.0) + 1 / len(pieces)
    return found
