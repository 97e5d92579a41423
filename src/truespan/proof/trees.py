"""A cache of Merkle trees, which are built when a receipt first needs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

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
