"""Merkle trees by RFC 6962, with proofs for neighbouring leaves, and a cache of trees."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from hashlib import sha256
from itertools import starmap
from threading import Lock
from typing import Any, TypeVar

from truespan.proof.verify import sentence_leaf, split_size

EMPTY_ROOT = sha256(b"").digest()
"""Root of a tree without leaves."""
# Shared by threads: a hash that is copied and never updated.
_NODE = sha256(b"\x01")
"""Beginning of the hash of an inner node. Copying it takes half the time of creating a hash."""


class MerkleTree:
    """A tree over leaves, with the hash of every complete subtree."""

    def __init__(self, leaves: Iterable[bytes]) -> None:
        self._levels = [list(leaves)]
        while len(level := self._levels[-1]) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            self._levels.append([_hash_node(a, b) for a, b in pairs])
        self._last: dict[int, bytes] = {}
        """Hashes of the incomplete subtrees, all of which end with the last leaf, by first leaf."""

    def __len__(self) -> int:
        return len(self._levels[0])

    def root(self) -> bytes:
        """Return the root of all leaves."""
        return self._hash(0, len(self)) if len(self) else EMPTY_ROOT

    def prove(self, first: int, last: int) -> list[bytes]:
        """Return the hashes that lead from the leaves `first` to `last` to the root."""
        # Subtrees before the leaves come the largest first, those after them the smallest first.
        hashes, place, size = list[bytes](), 0, len(self)
        for level in reversed(range(first.bit_length())):
            if first >> level & 1:
                hashes.append(self._levels[level][place >> level])
                place += 1 << level
        place = last + 1
        while place < size:
            end = min(place + (place & -place), size)
            hashes.append(self._hash(place, end))
            place = end
        return hashes

    def _hash(self, start: int, end: int) -> bytes:
        size = end - start
        if size & (size - 1) == 0:
            # A subtree whose size is a power of two begins at a multiple of that size.
            level = size.bit_length() - 1
            return self._levels[level][start >> level]
        if start not in self._last:
            middle = start + split_size(size)
            self._last[start] = _hash_node(self._hash(start, middle), self._hash(middle, end))
        return self._last[start]


def _hash_node(left: bytes, right: bytes) -> bytes:
    node = _NODE.copy()
    node.update(left + right)
    return node.digest()


def sentence_tree(sentences: Iterable[tuple[int, int, int, bytes]]) -> MerkleTree:
    """Return the tree over sentences, given by number, start, end and digest."""
    return MerkleTree(starmap(sentence_leaf, sentences))


T = TypeVar("T")
MAX_TREES = 64
"""Maximum number of trees that are kept: of the sentences of a revision, or of documents."""


# Shared by threads: a table that is changed under a lock; two threads may build a tree at once,
# and keep equal ones.
class ProofTrees:
    """The Merkle trees that were used last. A revision never changes, so its tree does not."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._trees: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the tree of a key, which `build` builds if it is not kept."""
        with self._lock:
            if key in self._trees:
                self._trees.move_to_end(key)
                return self._trees[key]
        built = build()
        with self._lock:
            self._trees[key] = built
            if len(self._trees) > MAX_TREES:
                self._trees.popitem(last=False)
        return built
