"""Catalogs that are cached until a world changes: labels of documents and counted words."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, Generic, LiteralString, NamedTuple, TypeVar

from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.protocols import Clock
from truespan.store.engines.session import BRIEF_WAIT, Database, Part, Row, retry_on_conflict
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    CHUNK_TABLES,
    DETAILS,
    REVISION_CELLS,
    RevisionCells,
    chunk_checksum,
    details_checksum,
    revision_checksum,
)
from truespan.store.tables.chunks import SHOWN_FROM
from truespan.store.tables.rows import drop_words, read_layouts, revision_key, tags_of
from truespan.store.tables.word_rows import (
    MEMBER,
    SEAL,
    WrittenWords,
    are_intact,
    covered_words,
    digest_texts,
    part_of,
    read_lengths,
    words_checksum,
    write_words,
)
from truespan.types.audience import audience_of
from truespan.types.catalog import CatalogEntry, DocumentCatalog, MetadataIndex
from truespan.types.chunk import ChunkKind, ChunkState
from truespan.types.document import (
    CountableChunk,
    CountedRevision,
    Postings,
    RevisionChunk,
    RevisionRef,
    RevisionWords,
    Vocabulary,
    WordCatalog,
    WordEntry,
)
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.metadata import read_metadata
from truespan.types.scope import (
    Authority,
    Generation,
    Scope,
    Unlimited,
    World,
    admits,
    unlimited_scope,
)
from truespan.types.text import NO_PLACE, CanonicalText, NamedPlace, Place

T = TypeVar("T")


_ACTIVE: Final = """
    FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state = 'active'
    JOIN tallies t ON t.revision = r.key AND t.generation = :generation
"""
_COUNTED: Final = "w.recipe, w.texts, w.lengths, sd.number, sr.number"
"""Cells of a row `w` of `word_counts`, and the revision that identifies its segment."""
_SEGMENT: Final = """LEFT JOIN revisions sr ON sr.key = w.segment
    LEFT JOIN documents sd ON sd.key = sr.document AND sd.world_id = :world"""
_IN_WORLD: Final = " WHERE d.world_id = :world AND d.deleted_at IS NULL"
_RECIPES: Final = f"""r.language, w.recipe {_ACTIVE} LEFT JOIN word_counts w
    ON w.revision = r.key AND w.generation = :generation"""


# Shared by threads: values are kept by the state of the world that the caller has read, under a
# lock.
class StateCache(Generic[T]):
    """Values read from states of worlds, cached by the state."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], T] = {}

    def get(self, scope: Scope, world: World, read: Callable[[Scope], T], *parts: object) -> T:
        """Return the value that `read` returns for a state of a world; `parts` identify it."""
        state = (world.id, world.changes, scope.generation.number, *parts)
        known = self._known.get(state)
        if known is None:
            # Callers of every audience share the value.
            known = read(scope.for_everyone())
            with self._lock:
                if len(self._known) >= self._max_entries:
                    self._known.clear()
                self._known[state] = known
        return known

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


# Shared by threads: caches that have locks, and a set that changes by single operations.
class Catalogs(Part):
    """Labels of documents, and occurrences of words in chunks."""

    def __init__(self, database: Database, clock: Clock, lost_words: set[WorldId]) -> None:
        super().__init__(database, clock)
        self._lost_words = lost_words
        self._document_catalogs = StateCache[DocumentCatalog](64)
        self._limited_catalogs = StateCache[DocumentCatalog](64)
        self._word_catalogs = StateCache[WordCatalog](8)
        self._revision_words = StateCache[RevisionWords](64)
        self._vocabularies = StateCache[Vocabulary](8)
        self._placed_counts = StateCache[Counter[int]](64)
        self._whole_counts = StateCache[int](1024)

    def documents(self, scope: Scope, world: World) -> DocumentCatalog:
        """Return the labels of all active documents that the caller sees, by number."""
        whole = self._document_catalogs.get(scope, world, self._read_documents)
        labels = scope.authority.audience
        if isinstance(labels, Unlimited):
            return whole

        def limit(scope: Scope) -> DocumentCatalog:
            rows = self._db.at(scope).all("SELECT number FROM documents WHERE world_id = :world")
            return whole.for_audience(labels, (number for (number,) in rows))

        return self._limited_catalogs.get(scope, world, limit, labels)

    def scope_of(self, authority: Authority, world: World, generation: Generation) -> Scope:
        """Return the scope of all documents of a world that a caller sees.

        The documents of an audience are found once for each state of the world.
        """
        if isinstance(authority.audience, Unlimited):
            return unlimited_scope(authority, world.id, generation)
        nothing = Scope(authority, world.id, generation, documents=frozenset())
        return replace(nothing, documents=self.documents(nothing, world).scope)

    def _read_documents(self, scope: Scope) -> DocumentCatalog:
        rows = self._db.at(scope).all(
            f"""SELECT t.embedded, t.chunks - t.embedded - t.quarantined, r.checksum,
                  {REVISION_CELLS}
                {_ACTIVE} {_IN_WORLD} ORDER BY d.number"""
        )
        entries = []
        for embedded, pending, recorded, *values in rows:
            cells = RevisionCells._make(values)
            intact = recorded == revision_checksum(scope.world, cells)
            entries.append(
                copy_fields(
                    CatalogEntry,
                    cells,
                    number=cells.document,
                    language_declared=bool(cells.language_declared),
                    tags=tags_of(cells.tags) if intact else (),
                    embedded=embedded,
                    pending=pending,
                    damaged=not intact,
                    path=cells.shown_path,
                    audience=audience_of(cells.audience) if intact else (),
                )
            )
        return DocumentCatalog(entries, lambda: self._read_metadata(scope))

    def _read_metadata(self, scope: Scope) -> MetadataIndex:
        rows = self._db.at(scope).all(
            f"""SELECT d.number, r.number, r.details_checksum, {DETAILS}
                {_ACTIVE} {_IN_WORLD} ORDER BY d.number"""
        )
        metadata: list[tuple[int, dict[str, Any]]] = []
        damaged: list[int] = []
        for document, revision, recorded, *details in rows:
            if recorded == details_checksum(scope.world, RevisionRef(document, revision), details):
                metadata.append((document, read_metadata(details[0])))
            else:
                damaged.append(document)
        return MetadataIndex(metadata, damaged)

    def intact_revisions(self, scope: Scope, numbers: Collection[int]) -> list[RevisionCells]:
        """Return the active revisions of some documents, by number, without damaged ones."""
        rows = self._db.at(scope).all(
            f"""SELECT r.checksum, {REVISION_CELLS} {_ACTIVE} {_IN_WORLD}
                AND d.number IN LIST(:documents) ORDER BY d.number""",
            documents=[*numbers],
        )
        found = ((recorded, RevisionCells._make(values)) for recorded, *values in rows)
        return [
            cells for recorded, cells in found if recorded == revision_checksum(scope.world, cells)
        ]

    def count_in_place(self, scope: Scope, world: World) -> int:
        """Return the number of embedded chunks in the chapter or section of the scope."""

        def read(scope: Scope) -> Counter[int]:
            return Counter(found.document for found in self._in_place(scope) if found.embedded)

        counts = self._placed_counts.get(scope, world, read, scope.chapter, scope.section)
        return sum(count for number, count in counts.items() if admits(scope.documents, number))

    def whole_chunks(self, scope: Scope, world: World, revision: RevisionRef, position: int) -> int:
        """Return the number of intact embedded chunks that depend on nothing past `position`."""

        def read(scope: Scope) -> int:
            chunks = self.revision_words(scope, world, revision).chunks.values()
            return sum(
                chunk.trusted and chunk.embedded and chunk.seen_from <= position for chunk in chunks
            )

        return self._whole_counts.get(scope, world, read, revision, position)

    def words(self, scope: Scope, world: World) -> WordCatalog:
        """Return the active revisions of the scope's generation, by document number.

        The catalog is cached until the world changes or words are counted.
        """
        return self._word_catalogs.get(scope, world, self._read_words)

    def _read_words(self, scope: Scope) -> WordCatalog:
        with self._db.read(scope) as session:
            revisions = session.all(
                f"""SELECT r.key, d.number, r.number, r.language, t.embedded, w.segment, {_COUNTED}
                    {_ACTIVE} LEFT JOIN word_counts w
                      ON w.revision = r.key AND w.generation = :generation {_SEGMENT}
                    {_IN_WORLD} ORDER BY d.number"""
            )
            states = session.all(
                f"""SELECT r.key, s.position, s.text_hash, s.state = 'embedded'
                    {_ACTIVE} JOIN states s ON s.revision = r.key AND s.generation = :generation
                      AND s.state <> 'quarantined'
                    {_IN_WORLD} ORDER BY d.number, s.position"""
            )
        chunks = {key: list(rows) for key, rows in groupby(states, key=lambda row: row[0])}
        entries = tuple(_read_entry(scope, row, chunks.get(row[0], [])) for row in revisions)
        if lost := frozenset(self.lost_words(scope, entries)):
            entries = tuple(
                replace(entry, fresh=False) if entry.key in lost else entry for entry in entries
            )
        return WordCatalog(entries)

    def lost_words(self, scope: Scope, entries: Sequence[WordEntry]) -> list[int]:
        """Return the keys of revisions with counted words that have lost all their rows."""
        counted = [entry for entry in entries if any(entry.lengths.values())]
        empty = self._db.at(scope, keys=list({entry.segment for entry in counted})).all(
            """SELECT r.key FROM revisions r WHERE r.key IN LIST(:keys) AND NOT EXISTS
                 (SELECT 1 FROM words w WHERE w.revision = r.key
                    AND w.generation = :generation AND UNINDEXED(w.world_id) = :world)"""
        )
        segments = {key for (key,) in empty}
        return [entry.key for entry in counted if entry.segment in segments]

    def revision_words(self, scope: Scope, world: World, revision: RevisionRef) -> RevisionWords:
        """Return the counted words of one revision, cached like the catalog."""

        def read(scope: Scope) -> RevisionWords:
            with self._db.read(scope) as session:
                key = revision_key(session, revision)
                counted = session.one(
                    f"""SELECT {_COUNTED} FROM word_counts w {_SEGMENT}
                        WHERE w.revision = :key AND w.generation = :generation""",
                    key=key,
                )
                tally = session.one(
                    """SELECT embedded FROM tallies
                       WHERE revision = :key AND generation = :generation""",
                    key=key,
                )
                rows = session.all(
                    f"""SELECT s.state, s.checksum, {CHUNK_CELLS}
                        FROM {CHUNK_TABLES}
                        WHERE s.world_id = :world AND s.revision = :key
                          AND s.generation = :generation ORDER BY s.position""",
                    key=key,
                )
            words = _read_revision_words(scope, revision, key or 0, counted, rows)
            return _mark_miscounted(words, tally[0] if tally else 0)

        return self._revision_words.get(scope, world, read, revision)

    def vocabulary(self, scope: Scope, world: World, key: int | None = None) -> Vocabulary:
        """Return the terms of the scope's generation, or of a revision; cached like the catalog.

        `key` is that of the revision. The revisions of its segment share the terms.
        """

        def read(scope: Scope) -> Vocabulary:
            # Rows are verified when their occurrences are read.
            of_segment: LiteralString = """
                AND revision = (SELECT segment FROM word_counts
                  WHERE revision = :key AND generation = :generation)"""
            # One row of all terms is read in a third of the time of a row each.
            ((terms,),) = self._db.at(scope, key=key, newline="\n").all(
                f"""SELECT string_agg(term, :newline) FROM (
                      SELECT DISTINCT term FROM words
                      WHERE world_id = :world AND generation = :generation
                      {"" if key is None else of_segment}) AS distinct_terms"""
            )
            return Vocabulary(tuple(terms.split("\n")) if terms else ())

        return self._vocabularies.get(scope, world, read, key)

    def counts_words(self, scope: Scope) -> bool:
        """Return whether the scope's generation has counted words."""
        return bool(
            self._db.at(scope).all(
                """SELECT 1 FROM words
                   WHERE world_id = :world AND generation = :generation LIMIT 1"""
            )
        )

    def word_recipes(
        self, scope: Scope, *, named: Collection[str] | None = None
    ) -> list[tuple[str, str | None]]:
        """Return the languages of active revisions with the recipes of their counted words.

        The recipe is None if words are not counted. With `named`, only these ids are considered.
        """
        statement: LiteralString = f"SELECT DISTINCT {_RECIPES} {_IN_WORLD}"
        if named is None:
            return self._db.at(scope).all(statement)
        return self._db.at(scope).all(f"{statement} AND d.doc_id IN LIST(:ids)", ids=[*named])

    def take_lost_words(self, world: WorldId) -> bool:
        """Return whether this process has purged words of other documents since the last call."""
        lost = world in self._lost_words
        self._lost_words.discard(world)
        return lost

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of a revision, in order, unverified."""
        with self._db.read(scope) as session:
            rows = session.all(
                """SELECT c.position, BYTES(c.text), s.text_hash
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.world_id = :world AND s.revision = :key
                     AND s.generation = :generation
                     AND s.state <> 'quarantined' ORDER BY s.position""",
                key=revision_key(session, revision),
            )
        return [CountableChunk(index, data, TextHash(found)) for index, data, found in rows]

    @retry_on_conflict
    def keep_words(
        self, scope: Scope, counted: Sequence[CountedRevision], *, brief: bool = False
    ) -> None:
        """Replace the counted words of revisions, in one commit.

        With `brief`, `StoreBusy` is raised soon if other writers hold the lock.
        """
        with self._db.write(scope, wait=BRIEF_WAIT if brief else None) as session:
            for revision in counted:
                key = revision_key(session, revision.ref)
                if key is not None:
                    drop_words(session, key, scope.generation.number)
                    write_words(session, scope, [WrittenWords(revision.ref, key, revision.words)])
        self._clear_words()

    def postings(self, scope: Scope, terms: Sequence[str]) -> dict[str, Postings]:
        """Return the occurrences of each of these terms in the scope's generation."""
        rows = self._db.at(scope, terms=list(terms)).all(
            """SELECT term, revision, revisions, postings FROM words
               WHERE world_id = :world AND generation = :generation AND term IN LIST(:terms)"""
        )
        every = {term: Postings([], [], [], b"", []) for term in terms}
        packed: dict[str, list[bytes]] = {term: [] for term in terms}
        for term, key, members, stored in rows:
            found = every[term]
            if not are_intact(scope, term, members, stored):
                found.damaged.append(key)
                continue
            packed[term].append(stored[:-SEAL])
            for document, revision, count in MEMBER.iter_unpack(members):
                found.keys.append(key)
                found.refs.append((document, revision))
                found.chunks.append(count)
        return {
            term: replace(found, packed=b"".join(packed[term])) for term, found in every.items()
        }

    def revision_postings(
        self, scope: Scope, ref: RevisionRef, key: int, terms: Sequence[str]
    ) -> dict[str, bytes] | None:
        """Return the occurrences of terms in one revision, packed as in `Postings`.

        None if rows are damaged or all missing.
        """
        rows = self._db.at(scope, key=key, terms=list(terms)).all(
            """SELECT term, revisions, postings FROM words
               WHERE world_id = :world AND generation = :generation AND term IN LIST(:terms)
                 AND revision = (SELECT segment FROM word_counts
                   WHERE revision = :key AND generation = :generation)"""
        )
        if not all(are_intact(scope, *row) for row in rows):
            return None
        if not rows and not self._db.at(scope, key=key).all(
            """SELECT 1 FROM words WHERE UNINDEXED(world_id) = :world
                 AND generation = :generation AND revision = (SELECT segment
                   FROM word_counts WHERE revision = :key AND generation = :generation)
               LIMIT 1"""
        ):
            return None
        parts = ((term, part_of(ref, members, stored)) for term, members, stored in rows)
        return {term: part for term, part in parts if part is not None}

    def _clear_words(self) -> None:
        self._word_catalogs.clear()
        self._revision_words.clear()
        self._vocabularies.clear()

    @retry_on_conflict
    def forget_words(self, scope: Scope, revisions: Sequence[int | RevisionRef]) -> None:
        """Delete the damaged words of revisions, so that they are counted again."""
        with self._db.write(scope, generation=scope.generation.number) as session:
            for found in revisions:
                key = found if isinstance(found, int) else revision_key(session, found)
                if key is not None:
                    drop_words(session, key, scope.generation.number)
            session.touch_world()
        self._clear_words()

    def word_flaws(self, scope: Scope) -> list[tuple[RevisionRef, str]]:
        """Return the revisions whose words do not match their checksum, with the wrong checksum."""
        flaws = []
        generation = scope.generation.number
        with self._db.read(scope) as session:
            rows = session.all(
                f"""SELECT d.number, r.number, w.segment, w.checksum, {_COUNTED}
                    {_ACTIVE} JOIN word_counts w
                      ON w.revision = r.key AND w.generation = :generation {_SEGMENT}
                    {_IN_WORLD} ORDER BY d.number"""
            )
            segment, terms = None, list[Row]()
            for document, number, own_segment, recorded, *cells in rows:
                if own_segment != segment:
                    segment = own_segment
                    terms = session.all(
                        """SELECT term, revisions, postings FROM words WHERE world_id = :world
                             AND generation = :generation AND revision = :key ORDER BY term""",
                        key=segment,
                    )
                ref = RevisionRef(document, number)
                own = covered_words(scope, ref, terms)
                made = words_checksum(scope.world, generation, ref, cells, own)
                if made != recorded:
                    flaws.append((ref, made.hex()))
        return flaws

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return the revision key and index of chunks in the scope's chapter and section."""
        return {
            (found.key, found.position)
            for found in self._in_place(scope)
            if admits(scope.documents, found.document)
        }

    def place_names(self, scope: Scope) -> list[NamedPlace]:
        """Return the distinct chapters and sections of the documents in scope, in their order.

        The chapter and the section of the scope are ignored.
        """
        return list(
            dict.fromkeys(
                name
                for revision in self._placed_revisions(scope)
                if admits(scope.documents, revision.document)
                for name in revision.names()
            )
        )

    def _placed_revisions(self, scope: Scope) -> list[_PlacedRevision]:
        """Return the places of all active revisions."""
        at = self._db.at(scope)
        rows = at.all(
            f"SELECT r.key, d.number, r.title, r.characters {_ACTIVE} {_IN_WORLD} ORDER BY 2"
        )
        found: list[_PlacedRevision] = []
        for start in range(0, len(rows), _KEYS_AT_ONCE):
            page = rows[start : start + _KEYS_AT_ONCE]
            layouts = read_layouts(at, [row[0] for row in page])
            found += [
                _PlacedRevision(key, number, title, end, layouts[key])
                for key, number, title, end in page
            ]
        return found

    def _in_place(self, scope: Scope) -> Iterator[_PlacedChunk]:
        """Yield the chunks of all documents with text in the scope's chapter and section."""
        revisions = {found.key: found for found in self._placed_revisions(scope)}
        inside = {
            key: spans
            for key, revision in revisions.items()
            if (spans := revision.spans(scope.covers))
        }
        keys = list(inside)
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            rows = self._db.at(scope, keys=keys[start : start + _KEYS_AT_ONCE]).all(
                f"""SELECT s.revision, s.position, s.state = 'embedded', s.kind, {SHOWN_FROM},
                      s.finish, c.chapter, c.section
                    FROM states s JOIN chunks c ON c.revision = s.revision
                      AND c.generation = s.generation AND c.position = s.position
                    WHERE UNINDEXED(s.world_id) = :world AND s.revision IN LIST(:keys)
                      AND s.generation = :generation"""
            )
            for key, index, embedded, kind, shown_from, end, *own in rows:
                revision = revisions[key]
                if kind == ChunkKind.FIGURE:
                    found = scope.covers(NamedPlace.of(Place(*own), revision.title))
                else:
                    ends, starts = inside[key]
                    at = bisect_right(ends, shown_from)
                    found = at < len(starts) and starts[at] < end
                if found:
                    yield _PlacedChunk(revision.document, key, index, bool(embedded))


_KEYS_AT_ONCE: Final = 500


class _PlacedRevision(NamedTuple):
    """A revision with its chapters and sections."""

    key: int
    document: int
    title: str
    end: int
    layout: CanonicalText

    def names(self) -> Iterator[NamedPlace]:
        """Return the chapters and sections of the whole text."""
        places = self.layout.places_between(0, self.end)
        return (NamedPlace.of(place, self.title) for place in places)

    def spans(
        self, covers: Callable[[NamedPlace], bool]
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the ends and the starts of the text at covered places, if any."""
        starts = (0, *self.layout.starts)
        places = (NO_PLACE, *self.layout.places)
        found = [
            (end, start)
            for place, start, end in zip(places, starts, (*starts[1:], self.end), strict=True)
            if start < end and covers(NamedPlace.of(place, self.title))
        ]
        if not found:
            return None
        ends, begins = zip(*found, strict=True)
        return ends, begins


class _PlacedChunk(NamedTuple):
    """A chunk with text in a chapter or section."""

    document: int
    key: int
    position: int
    embedded: bool


def _read_revision_words(
    scope: Scope, ref: RevisionRef, key: int, counted: Row | None, rows: Sequence[Row]
) -> RevisionWords:
    cells = counted or (None,) * 5
    texts = cells[1]
    recipe, known, languages = read_lengths(scope, ref, *cells)
    hashes, chunks = list[tuple[int, str]](), dict[ChunkId, RevisionChunk]()
    for state, recorded, *values in rows:
        index, chunk_id, *_, last_sid, reach, _, text_hash = values[:11]
        intact = recorded == chunk_checksum(scope.world, scope.generation.number, ref, values)
        chunks[ChunkId(chunk_id)] = RevisionChunk(
            index,
            max(last_sid, reach),
            TextHash(text_hash),
            trusted=intact and state != ChunkState.QUARANTINED,
            embedded=state == ChunkState.EMBEDDED,
            words=known.get(index),
            language=languages.get(index),
        )
        if index in known:
            hashes.append((index, text_hash))
    return RevisionWords(key, recipe, texts == digest_texts(hashes), chunks)


def _mark_miscounted(words: RevisionWords, tally: int) -> RevisionWords:
    """Mark pending chunks if fewer chunks are embedded than the tally counts.

    Both change in the same commits, so that a state was changed by another program.
    """
    if sum(chunk.embedded for chunk in words.chunks.values()) >= tally:
        return words
    chunks = {
        id: replace(chunk, miscounted=chunk.trusted and not chunk.embedded)
        for id, chunk in words.chunks.items()
    }
    return replace(words, chunks=chunks)


def _read_entry(scope: Scope, row: Row, chunks: Sequence[Row]) -> WordEntry:
    """Return the catalog entry of a revision, with the current state of its chunks."""
    key, document, revision, language, tally, segment, *cells = row
    # As in `_mark_miscounted`.
    is_miscounted = sum(embedded for *_, embedded in chunks) < tally
    ref, texts = RevisionRef(document, revision), cells[1]
    recipe, counted, languages = read_lengths(scope, ref, *cells)
    return WordEntry(
        key=key,
        segment=segment or key,
        ref=ref,
        language=language,
        recipe=recipe,
        fresh=texts == digest_texts((index, text_hash) for _, index, text_hash, _ in chunks),
        lengths={
            index: counted[index]
            for _, index, _, embedded in chunks
            if embedded and index in counted
        },
        languages=languages,
        miscounted={
            index: TextHash(text_hash)
            for _, index, text_hash, embedded in chunks
            if is_miscounted and not embedded
        },
    )
