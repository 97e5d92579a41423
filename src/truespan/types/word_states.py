"""States of words: the network's states of the words of a text, for a comparison word by word.

A row is the direction of one word's state, projected to `STATE_SIZE` dimensions. Its numbers take
four bits each. numpy is imported on first use to keep start-up fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NewType

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATE_SIZE = 128
"""Number of numbers in the row of a word."""
ROW_BYTES = STATE_SIZE // 2
MAX_WORDS = 128
"""Maximum number of rows of a text."""
RECIPE = "1"
"""Version of the rules for states; stored states of another version are computed again."""
_SCALE, _MAX = 24, 7
"""Factor of a number before it is rounded, and the maximum of the rounded number."""
MAX_PRODUCTS = 200_000
"""Maximum number of products that OpenBLAS computes on one thread, less a margin."""
_ZERO = 8
"""Stored form of the number 0."""

WordStates = NewType("WordStates", bytes)
"""Packed rows of the distinct content words of a text, in the order of their first occurrence."""


class QueryStates(Struct, frozen=True):
    """States of the first distinct words of a query, stop words included.

    Words are folded as in `words.terms`, and not stemmed.
    """

    words: tuple[str, ...] = ()
    rows: bytes = b""
    """One packed row for each word; zeros for a word that the model does not read."""

    @property
    def by_word(self) -> dict[str, bytes]:
        """Return the packed row of each word."""
        starts = range(0, len(self.rows), ROW_BYTES)
        rows = (self.rows[start : start + ROW_BYTES] for start in starts)
        return dict(zip(self.words, rows, strict=True))


def join_states(parts: Sequence[QueryStates]) -> QueryStates:
    """Return the states of a query from those of its parts; a word has its first row."""
    rows: dict[str, bytes] = {}
    for part in parts:
        rows = part.by_word | rows
    words = tuple(dict.fromkeys(word for part in parts for word in part.words))[:MAX_WORDS]
    return QueryStates(words, b"".join(rows[word] for word in words))


def pack_rows(rows: np.ndarray) -> bytes:
    """Return unit rows, rounded to four bits a number; the first of two is in the low bits."""
    import numpy as np

    numbers = np.rint(rows * _SCALE).clip(-_MAX, _MAX).astype(np.int8) + _ZERO
    return (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8).tobytes()


def compare_rows(packed: bytes, others: bytes) -> NDArray[np.float64]:
    """Return the cosine of each packed row with each of the others.

    Products of whole numbers are exact, so that a cosine does not depend on the other rows.
    """
    import numpy as np

    rows, columns = _numbers(packed), _numbers(others)
    # Larger products would run on the threads of BLAS, which take longer to start.
    size = max(MAX_PRODUCTS // columns.size, 1)
    parts = [rows[start : start + size] @ columns.T for start in range(0, len(rows), size)]
    products = np.concatenate(parts).astype(np.float64)
    norms = np.sqrt(np.outer(_squares(rows), _squares(columns)))
    # A row of zeros is similar to nothing.
    return products / np.maximum(norms, 1.0)


def _numbers(packed: bytes) -> NDArray[np.float32]:
    """Return packed rows as whole numbers."""
    import numpy as np

    pairs = np.frombuffer(packed, np.uint8).reshape(-1, ROW_BYTES)
    rows = np.empty((len(pairs), STATE_SIZE), np.float32)
    rows[:, ::2], rows[:, 1::2] = pairs & 15, pairs >> 4
    rows -= _ZERO
    return rows


def _squares(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    import numpy as np

    return np.einsum("ij,ij->i", rows, rows).astype(np.float64)
