"""Count the words of revisions, and lay out the chunks of a world for scoring.

The index knows nothing about words. They are counted when first needed, and kept in the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.retrieval.chunk_language import foreign_languages
from truespan.retrieval.deps import Restart
from truespan.types.chunk import NewChunk
from truespan.types.document import (
    CountedRevision,
    CountedWords,
    Postings,
    RevisionRef,
    WordCatalog,
    WordEntry,
)
from truespan.types.ids import ChunkId, TextHash, chunk_id, hash_bytes
from truespan.types.scope import Scope, Unlimited, World
from truespan.words.term_counts import count_each, count_terms
from truespan.words.terms import recipe_of, stemmer_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from truespan.store import Store

POSTING = [("index", "<u4"), ("count", "<u2")]
"""Layout of packed postings for numpy."""
MAX_COUNTED = 0xFFFF
"""Maximum count of a word in a chunk."""
OUTSIDE = -1
"""In place of a length: the chunk is not in scope."""
MAX_RECENT = 1_000_000
"""Maximum number of cached places of recent terms, sixteen bytes each."""
MAX_EXTENTS = 16
"""Maximum number of cached extents of scopes, one byte for each chunk of the world."""


class Extent(Struct, frozen=True):
    """The chunks of a layout in a scope, their number, their total words and their stemmers."""

    inside: NDArray[np.bool_]
    chunks: int
    total: int
    stemmers: tuple[str, ...]


class CountedPlace(Struct, frozen=True):
    """A chunk of a layout: its place, its document and index there, its language and stemmer."""

    place: int
    document: int
    index: int
    language: str
    stemmer: int
    """Number of the stemmer."""
    inside: bool
    """Whether the chunk is in scope."""


class Layout(Struct, frozen=True):
    """Revisions by their keys, and their chunks one after another.

    The place of a chunk is the start of its revision plus its index. `rows` has the row of the
    revision for each place, `codes` the number of the stemmer of the chunk's language.
    """

    due: tuple[WordEntry, ...]
    """Revisions whose words were not counted, or have changed since."""
    entries: tuple[WordEntry, ...]
    by_document: dict[int, int]
    by_key: dict[int, int]
    """The row of each revision, by its document and by its key."""
    segments: NDArray[np.int64]
    refs: NDArray[np.int64]
    """The segment, and the numbers of document and revision of each row."""
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    codes: NDArray[np.int64]
    stemmers: tuple[str, ...]
    recent: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    """The places of the latest terms: common words are in many queries."""
    extents: dict[tuple[object, ...], Extent]
    ids: dict[int, ChunkId]
    places: dict[ChunkId, int]
    """The ids of places, and the places of ids, as far as they were needed."""

    def place(self, document: int, revision: int, index: int) -> int | None:
        """Return the place of a chunk; None if it is not in this layout."""
        row = self.by_document.get(document)
        if row is None or self.entries[row].ref.revision != revision or index >= self.sizes[row]:
            return None
        return int(self.starts[row]) + index

    def place_of_key(self, key: int, index: int) -> int | None:
        """Return the place of a chunk by the key of its revision; None if it is not counted."""
        row = self.by_key.get(key)
        if row is None or index >= self.sizes[row]:
            return None
        return int(self.starts[row]) + index

    def ref(self, place: int) -> tuple[RevisionRef, int]:
        """Return the chunk at a place: its revision and its index."""
        row = int(self.rows[place])
        return self.entries[row].ref, place - int(self.starts[row])

    def locate(
        self, store: Store, scope: Scope, extent: Extent, ids: Sequence[ChunkId]
    ) -> dict[ChunkId, CountedPlace]:
        """Return the places of the chunks that have counted words and are embedded.

        Those that are not in scope are among them.
        """
        import numpy as np

        if unknown := [id for id in ids if id not in self.places]:
            for id, (key, index) in store.chunks.locate(scope, unknown).items():
                place = self.place_of_key(key, index)
                if place is not None and self.lengths[place] != OUTSIDE:
                    self.places[id] = place
        places = {id: self.places[id] for id in ids if id in self.places}
        found = np.array([*places.values()], np.int64)
        rows = self.rows[found]
        columns = (
            places.items(),
            [self.entries[row] for row in rows.tolist()],
            (found - self.starts[rows]).tolist(),
            self.codes[found].tolist(),
            extent.inside[found].tolist(),
        )
        return {
            id: CountedPlace(
                place=place,
                document=entry.ref.document,
                index=index,
                language=entry.languages.get(index, entry.language),
                stemmer=stemmer,
                inside=inside,
            )
            for (id, place), entry, index, stemmer, inside in zip(*columns, strict=True)
        }

    def language(self, place: int) -> str:
        """Return the language of the chunk at a place."""
        row = int(self.rows[place])
        entry = self.entries[row]
        return entry.languages.get(place - int(self.starts[row]), entry.language)

    def chunk_id(self, scope: Scope, place: int) -> ChunkId:
        found = self.ids.get(place)
        if found is None:
            world, generation, (ref, index) = scope.world, scope.generation.number, self.ref(place)
            found = chunk_id(world, generation, ref.document, ref.revision, index)
            self.ids[place], self.places[found] = found, place
        return found

    def extent(self, store: Store, scope: Scope) -> Extent:
        """Return the chunks in scope, cached since most requests share a few scopes."""
        import numpy as np

        key = (scope.documents, scope.chapter, scope.section)
        if known := self.extents.get(key):
            return known
        inside = self.lengths != OUTSIDE
        if not isinstance(scope.documents, Unlimited):
            wanted = [entry.ref.document in scope.documents for entry in self.entries]
            inside &= np.array(wanted, bool)[self.rows]
        if scope.names_place:
            found = (self.place_of_key(*chunk) for chunk in store.catalogs.placed(scope))
            within = np.zeros(len(inside), bool)
            within[[place for place in found if place is not None]] = True
            inside &= within
        codes = np.unique(self.codes[inside]).tolist()
        extent = Extent(
            inside,
            chunks=int(inside.sum()),
            total=int(self.lengths[inside].sum()),
            stemmers=tuple(self.stemmers[code] for code in codes),
        )
        if len(self.extents) >= MAX_EXTENTS:
            self.extents.clear()
        self.extents[key] = extent
        return extent

    def read_places(
        self, store: Store, scope: Scope, term: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the chunks with a term, and its count in each; see `recent`."""
        return self._place(store, scope, term, store.catalogs.postings(scope, [term])[term])

    def load_places(self, store: Store, scope: Scope, terms: Set[str]) -> None:
        """Find the places of many terms with one statement."""
        for term, postings in store.catalogs.postings(
            scope, [*(terms - self.recent.keys())]
        ).items():
            self._place(store, scope, term, postings)

    def _place(
        self, store: Store, scope: Scope, term: str, postings: Postings
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        import numpy as np

        if postings.damaged:
            store.catalogs.forget_words(scope, postings.damaged)
            raise Restart
        pairs = np.frombuffer(postings.packed, POSTING)
        keys = np.array(postings.keys, np.int64)
        refs = np.array(postings.refs, np.int64).reshape(-1, 2)
        row, known = np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        if self.entries:
            # Only active revisions count, and only those that name the segment of the row.
            documents = refs[:, 0].tolist()
            row = np.array([self.by_document.get(number, 0) for number in documents], np.int64)
            known = (self.refs[row] == refs).all(1) & (self.segments[row] == keys)
        repeated = np.repeat(row, postings.chunks)
        index = pairs["index"].astype(np.int64)
        kept = np.repeat(known, postings.chunks)
        if self.entries:
            kept &= index < self.sizes[repeated]
        places = self.starts[repeated[kept]] + index[kept]
        if sum(len(others) for others, _ in list(self.recent.values())) > MAX_RECENT:
            self.recent.clear()
        self.recent[term] = found = (places, pairs["count"][kept].astype(np.int64))
        return found


# Shared by threads: a cache of frozen layouts; their arrays are only read, and their dictionaries
# remember what any thread would compute alike.
@lru_cache(maxsize=4)
def layout_of(catalog: WordCatalog) -> Layout:
    """Return the layout of a catalog; the same object is laid out once."""
    import numpy as np

    entries = tuple(sorted(catalog.entries, key=lambda entry: entry.key))
    sizes = np.array([max(entry.lengths, default=-1) + 1 for entry in entries], np.int64)
    rows = np.repeat(np.arange(len(entries)), sizes)
    starts = np.cumsum(sizes) - sizes
    names = [stemmer_of(entry.language) for entry in entries]
    others = {
        int(starts[row]) + index: stemmer_of(language)
        for row, entry in enumerate(entries)
        for index, language in entry.languages.items()
        if index < sizes[row]
    }
    stemmers = tuple(sorted({*names, *others.values()}))
    codes = np.array([stemmers.index(name) for name in names], np.int64)[rows]
    codes[[*others]] = [stemmers.index(name) for name in others.values()]
    return Layout(
        due=tuple(
            entry
            for entry in catalog.entries
            if not entry.fresh or entry.recipe != recipe_of(entry.language)
        ),
        entries=entries,
        by_document={entry.ref.document: row for row, entry in enumerate(entries)},
        by_key={entry.key: row for row, entry in enumerate(entries)},
        segments=np.array([entry.segment for entry in entries], np.int64),
        refs=np.array(
            [(entry.ref.document, entry.ref.revision) for entry in entries], np.int64
        ).reshape(-1, 2),
        starts=starts,
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
        codes=codes,
        stemmers=stemmers,
        recent={},
        extents={},
        ids={},
        places={},
    )


REVISIONS_AT_ONCE = 64
"""Number of revisions stored in one transaction, so that others can write in between."""


def count_words(store: Store, scope: Scope, world: World) -> Layout:
    """Count the words of every active revision that has no current counts.

    Returns the layout of all counts. A chunk whose bytes do not match their hash is skipped; its
    revision is counted again once the world has changed.
    """
    layout, done = layout_of(store.catalogs.words(scope, world)), set[RevisionRef]()
    # Deleting the words of a revision also deletes words of others in the same rows, which are
    # counted again.
    while due := [entry for entry in layout.due if entry.ref not in done]:
        # For all callers: the scope of this one selects among the counted chunks.
        everyone = scope.for_everyone()
        for start in range(0, len(due), REVISIONS_AT_ONCE):
            part = due[start : start + REVISIONS_AT_ONCE]
            counted = [count_revision(store, everyone, entry.ref, entry.language) for entry in part]
            store.catalogs.keep_words(everyone, counted)
        done.update(entry.ref for entry in due)
        layout = layout_of(store.catalogs.words(scope, world))
    return layout


def complete_counts(store: Store, scope: Scope, named: Collection[str] | None = None) -> None:
    """Count the words of revisions that have no current counts; costs one query if all have.

    Words are counted when chunks are made. Words are missing if the language label of a document
    was changed, or if a chunk is too long for the model. If ids are given, only these documents are
    checked; if one of them is due, all that are due are counted.
    """
    recipes = store.catalogs.word_recipes(scope, named=named)
    if any(recipe != recipe_of(language) for language, recipe in recipes):
        world = store.worlds.find(scope.authority, scope.world, scope.generation.number)
        if world is not None:
            count_words(store, scope, world)


def keep_counting(store: Store, scope: Scope, named: Collection[str] | None = None) -> None:
    """Count the new words of a generation that has had a search by words before.

    For libraries that count no words while ingesting: without such searches it costs one query.
    """
    if store.catalogs.counts_words(scope):
        complete_counts(store, scope, named)


def count_revision(
    store: Store, scope: Scope, ref: RevisionRef, language: str, *, only: Set[int] | None = None
) -> CountedRevision:
    """Count the words of a revision, or of the chunks with `only` these indexes.

    A chunk whose bytes do not match their hash is left out.
    """
    chunks = [
        # The very bytes that were hashed are decoded; nothing is read a second time.
        (chunk.index, chunk.data.decode(), chunk.text_hash)
        for chunk in store.catalogs.countable(scope, ref)
        if (only is None or chunk.index in only) and hash_bytes(chunk.data) == chunk.text_hash
    ]
    return CountedRevision(ref, _count_texts(chunks, language))


def count_chunks(chunks: Iterable[NewChunk], language: str) -> CountedWords:
    """Count the words of new chunks, to be written with them."""
    texts = [(chunk.index, chunk.text, chunk.text_hash) for chunk in chunks]
    return _count_texts(texts, language)


def _count_texts(chunks: Sequence[tuple[int, str, TextHash]], language: str) -> CountedWords:
    """Count the words of texts, given with their index and hash, each in its own language."""
    import numpy as np

    indexes, texts = [index for index, _, _ in chunks], [text for _, text, _ in chunks]
    counts = count_terms(texts, language)
    if others := foreign_languages(texts, language, counts):
        counts = count_each([others.get(place, language) for place in range(len(texts))], texts)
    postings = np.empty(len(counts.text), POSTING)
    postings["index"] = np.array(indexes, np.int64)[counts.text]
    postings["count"] = np.minimum(counts.count, MAX_COUNTED)
    return CountedWords(
        recipe=recipe_of(language),
        hashes={index: text_hash for index, _, text_hash in chunks},
        lengths=dict(zip(indexes, counts.sizes, strict=True)),
        # The garbage collector ignores tuples of texts and of numbers, unlike lists.
        terms=tuple(counts.terms),
        chunks=tuple(np.bincount(counts.term, minlength=len(counts.terms)).tolist()),
        packed=postings.tobytes(),
        languages={indexes[place]: other for place, other in others.items()},
    )
