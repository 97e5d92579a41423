"""The chunks of a state of a world laid out in a row, so that words are scored in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from truespan.model.ids import ChunkId, chunk_id
from truespan.model.scope import Scope, Unlimited
from truespan.model.words import Postings, WordEntry, WordShelf
from truespan.ports import WordStore
from truespan.query.terms import recipe_of, stemmer_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTSIDE = -1
"""In place of a length: the chunk does not take part."""
MOST_RECENT = 1_000_000
"""Places of recent terms that are remembered: sixteen bytes each."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Revisions by their keys, and their chunks one after another.

    A chunk's place is where its revision starts, plus its index. `rows` says for each place which
    revision it belongs to, `codes` which of the `stemmers` its language has.
    """

    due: tuple[WordEntry, ...]
    """Revisions whose words were not counted, or not as they are now."""
    entries: tuple[WordEntry, ...]
    by_document: dict[int, int]
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    codes: NDArray[np.int64]
    stemmers: tuple[str, ...]
    recent: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    """Where the terms that were asked for last stand: common words are asked for all the time."""

    def place(self, document: int, revision: int, index: int) -> int | None:
        """Return the place of a chunk; None when it is not laid out here."""
        row = self.by_document.get(document)
        if row is None or self.entries[row].ref.revision != revision or index >= self.sizes[row]:
            return None
        return int(self.starts[row]) + index

    def chunk_id(self, scope: Scope, place: int) -> ChunkId:
        """Return the id of the chunk at a place."""
        row = int(self.rows[place])
        ref, index = self.entries[row].ref, place - int(self.starts[row])
        return chunk_id(scope.world, scope.generation.number, ref.document, ref.revision, index)

    def lengths_in(self, store: WordStore, scope: Scope) -> NDArray[np.int64]:
        """Return the words of each chunk, and `OUTSIDE` for what is not in scope."""
        import numpy as np

        lengths = self.lengths
        if not isinstance(scope.documents, Unlimited):
            wanted = [entry.ref.document in scope.documents for entry in self.entries]
            lengths = np.where(np.array(wanted, bool)[self.rows], lengths, OUTSIDE)
        if scope.chapter is not None or scope.section is not None:
            placed = store.placed(scope)
            indexes = np.arange(len(self.rows)) - self.starts[self.rows]
            named = zip(self.keys[self.rows].tolist(), indexes.tolist(), strict=True)
            inside = np.fromiter((one in placed for one in named), bool, len(self.rows))
            lengths = np.where(inside, lengths, OUTSIDE)
        return lengths

    def stemmers_among(self, taking_part: NDArray[np.bool_]) -> list[int]:
        """Return the codes of the stemmers that some of these chunks have."""
        import numpy as np

        return np.unique(self.codes[taking_part]).tolist()

    def places_of(
        self, store: WordStore, scope: Scope, term: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places where a term stands, and how often it is in each."""
        found = self.recent.get(term)
        if found is None:
            found = self._places(store.postings(scope, term))
            if sum(len(places) for places, _ in list(self.recent.values())) > MOST_RECENT:
                self.recent.clear()
            self.recent[term] = found
        return found

    def _places(self, postings: Postings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lay out where a term stands; revisions that are not in force are left out."""
        import numpy as np

        pairs = np.frombuffer(postings.packed, np.dtype([("index", "<u4"), ("count", "<u2")]))
        keys = np.array(postings.keys, np.int64)
        row = np.searchsorted(self.keys, keys)
        row[row == len(self.keys)] = 0
        known = self.keys[row] == keys if len(self.keys) else np.zeros(len(keys), bool)
        repeated = np.repeat(row, postings.chunks)
        index = pairs["index"].astype(np.int64)
        kept = np.repeat(known, postings.chunks)
        if len(self.keys):
            kept &= index < self.sizes[repeated]
        places = self.starts[repeated[kept]] + index[kept]
        return places, pairs["count"][kept].astype(np.int64)


@lru_cache(maxsize=4)
def laid_out(shelf: WordShelf) -> Layout:
    """Lay out the revisions of a state; what is the same object is laid out once."""
    import numpy as np

    entries = tuple(sorted(shelf.entries, key=lambda entry: entry.key))
    sizes = np.array([max(entry.lengths, default=-1) + 1 for entry in entries], np.int64)
    rows = np.repeat(np.arange(len(entries)), sizes)
    names = [stemmer_of(entry.language) for entry in entries]
    stemmers = tuple(sorted(set(names)))
    codes = np.array([stemmers.index(name) for name in names], np.int64)
    return Layout(
        due=tuple(entry for entry in shelf.entries if _is_due(entry)),
        entries=entries,
        by_document={entry.ref.document: row for row, entry in enumerate(entries)},
        keys=np.array([entry.key for entry in entries], np.int64),
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        rows=rows,
        lengths=np.array(
            [
                entry.lengths.get(index, OUTSIDE)
                for entry, size in zip(entries, sizes.tolist(), strict=True)
                for index in range(size)
            ],
            np.int64,
        ),
        codes=codes[rows],
        stemmers=stemmers,
        recent={},
    )


def _is_due(entry: WordEntry) -> bool:
    return not entry.fresh or entry.recipe != recipe_of(entry.language)
