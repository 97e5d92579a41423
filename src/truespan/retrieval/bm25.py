"""Words of the trusted store: counted when they are first asked for, scored by BM25.

The index is never asked about words. What a score is made of are the chunks in scope and nothing
else: how many there are, how long they are, and in how many of them a word stands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from truespan.protocols import TrustedStore, WordStore
from truespan.retrieval.terms import recipe_of, stemmed, stemmer_of, terms, words
from truespan.types.ids import ChunkId, TextHash, chunk_id, hash_bytes
from truespan.types.scope import Scope, Unlimited, World
from truespan.types.words import CountedRevision, Postings, WordCatalog, WordEntry

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
def laid_out(shelf: WordCatalog) -> Layout:
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


K1, B = 1.2, 0.75
"""The usual constants of BM25: how soon a repeated word stops to count, and what length counts."""

REVISIONS_AT_ONCE = 64
"""Revisions whose words are kept in one commit: others may write in between."""


def count_words(store: WordStore, scope: Scope, world: World) -> WordCatalog:
    """Count the words of every revision in force that were not counted as they are now.

    Returns the revisions as they are then. A chunk whose bytes do not match their hash is passed
    over; its revision is looked at again once the world has changed.
    """
    shelf = store.word_shelf(scope, world)
    due = laid_out(shelf).due
    for start in range(0, len(due), REVISIONS_AT_ONCE):
        part = due[start : start + REVISIONS_AT_ONCE]
        store.keep_words(scope, [_counted(store, scope, entry) for entry in part])
    return store.word_shelf(scope, world) if due else shelf


def keep_counting(store: TrustedStore, scope: Scope) -> None:
    """Count what is new in a generation whose words somebody has asked for before.

    For the end of a run that changed documents. Where nobody has asked, this costs one look.
    """
    if store.counts_words(scope):
        world = store.find_world(scope.authority, scope.world, scope.generation.number)
        if world is not None:
            count_words(store, scope, world)


@dataclass(frozen=True, slots=True)
class WordScores:
    """The BM25 score of every chunk in scope; zero for one that has no word of the query."""

    scope: Scope
    layout: Layout
    values: NDArray[np.float64]

    @property
    def best(self) -> float:
        """Return the highest of all, by which the others are measured."""
        return float(self.values.max(initial=0.0))

    def of(self, document: int, revision: int, index: int) -> float:
        """Return the score of one chunk."""
        place = self.layout.place(document, revision, index)
        return 0.0 if place is None else float(self.values[place])

    def top(self, count: int, decimals: int) -> list[ChunkId]:
        """Return the ids of the best that have a word of the query, ties at the end included."""
        matching = self.values[self.values > 0]
        if not len(matching):
            return []
        matching.sort()
        least = round(float(matching[-min(count, len(matching))]), decimals)
        places = ((self.values > 0) & (self.values.round(decimals) >= least)).nonzero()[0]
        return [self.layout.chunk_id(self.scope, place) for place in places.tolist()]


def word_scores(store: WordStore, scope: Scope, world: World, query: str) -> WordScores:
    """Score the chunks in scope by the words of a query, which are counted first if need be."""
    import numpy as np

    layout = laid_out(count_words(store, scope, world))
    lengths = layout.lengths_in(store, scope)
    taking_part = lengths != OUTSIDE
    chunks, total = int(taking_part.sum()), int(lengths[taking_part].sum())
    values = np.zeros(len(lengths))
    codes = layout.stemmers_among(taking_part)
    for word in asked_words(query, [layout.stemmers[code] for code in codes]):
        forms = dict(zip(codes, word, strict=True))
        places, counts = _found(store, scope, layout, taking_part, forms)
        rarity = math.log(1 + (chunks - len(places) + 0.5) / (len(places) + 0.5))
        size = lengths[places] * chunks / (total or 1)
        values[places] += rarity * counts * (K1 + 1) / (counts + K1 * (1 - B + B * size))
    return WordScores(scope, layout, values)


def asked_words(query: str, stemmers: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the different words of a query, each as its term under every stemmer.

    What comes out equal under all of them is one word.
    """
    stems = [stemmed(name) for name in stemmers]
    return list(dict.fromkeys(tuple(stem(word) for stem in stems) for word in words(query)))


def _found(
    store: WordStore,
    scope: Scope,
    layout: Layout,
    taking_part: NDArray[np.bool_],
    forms: Mapping[int, str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which chunks have a word, and how often.

    A chunk has it if it has the word's term under the stemmer of its own language. How rare it is,
    is counted over all chunks in scope, whatever their language.
    """
    import numpy as np

    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for term in sorted(set(forms.values())):
        places, counts = layout.places_of(store, scope, term)
        speaking = [code for code, form in forms.items() if form == term]
        kept = taking_part[places] & np.isin(layout.codes[places], speaking)
        found.append((places[kept], counts[kept]))
    places, counts = zip(*found, strict=True) if found else ((), ())
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *places]), np.concatenate([empty, *counts])


def _counted(store: WordStore, scope: Scope, entry: WordEntry) -> CountedRevision:
    hashes: dict[int, TextHash] = {}
    lengths: dict[int, int] = {}
    places: dict[str, dict[int, int]] = {}
    for chunk in store.countable(scope, entry.ref):
        if hash_bytes(chunk.data) != chunk.text_hash:
            continue
        # The very bytes that were hashed are read; nothing is fetched a second time.
        found = terms(chunk.data.decode(), entry.language)
        hashes[chunk.index], lengths[chunk.index] = chunk.text_hash, len(found)
        for term, count in Counter(found).items():
            places.setdefault(term, {})[chunk.index] = count
    return CountedRevision(entry.ref, recipe_of(entry.language), hashes, lengths, places)
