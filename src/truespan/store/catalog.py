"""Catalogs that are cached until a world changes: labels of documents, and counted words.

Words are plain rows by term, so that both engines hold them alike. The packed bytes are moved
between stores as they are, so this is the one place that makes and reads them.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Final, Generic, TypeVar

from truespan.store.rows import revision_key, tags_of
from truespan.store.session import Part, Row, Session, retry_on_conflict
from truespan.types.document import (
    CatalogEntry,
    CountableChunk,
    CountedRevision,
    DocumentCatalog,
    Postings,
    RevisionRef,
    WordCatalog,
    WordEntry,
)
from truespan.types.ids import TextHash
from truespan.types.scope import Scope, World, admits

T = TypeVar("T")

_PAIR = struct.Struct("<IH")
"""A chunk's index and how often a term is in it."""
_MOST_COUNTED = 0xFFFF

_ACTIVE: Final = """
    FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state = 'active'
    JOIN tallies t ON t.revision = r.key AND t.generation = :generation
"""
_IN_WORLD: Final = " WHERE d.world_id = :world AND d.deleted_at IS NULL"
_CHAPTER_AND_SECTION: Final = """coalesce(c.chapter, r.title),
    coalesce(c.section, c.chapter, r.title)"""


class _Cache(Generic[T]):
    """What was read of states of worlds, which the caller has just read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int, int], T] = {}

    def get(self, scope: Scope, world: World, read: Callable[[Scope], T]) -> T:
        state = (world.id, world.changes, scope.generation.number)
        known = self._known.get(state)
        if known is None:
            known = read(scope)
            with self._lock:
                if len(self._known) >= self._most:
                    self._known.clear()
                self._known[state] = known
        return known

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


class Catalogs(Part):
    """The part of the store that knows documents by their labels, and how often words occur in
    which chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._document_catalogs = _Cache[DocumentCatalog](64)
        self._word_catalogs = _Cache[WordCatalog](8)

    def document_catalog(self, scope: Scope, world: World) -> DocumentCatalog:
        """Return the labels of every document that readers see, by number."""
        return self._document_catalogs.get(scope, world, self._read_documents)

    def _read_documents(self, scope: Scope) -> DocumentCatalog:
        rows = self._db.at(scope).all(
            f"""SELECT d.number, d.doc_id, r.name, r.language, r.language_declared, r.version,
                  r.tags, t.embedded, t.chunks - t.embedded - t.quarantined
                {_ACTIVE} {_IN_WORLD} ORDER BY d.number"""
        )
        return DocumentCatalog(
            CatalogEntry(
                number, doc_id, name, language, bool(declared), version, tags_of(tags), *counts
            )
            for number, doc_id, name, language, declared, version, tags, *counts in rows
        )

    def embedded_count(self, scope: Scope, world: World) -> int:
        """Return how many chunks of the revisions readers see are embedded, within the scope."""
        if scope.chapter is None and scope.section is None:
            return self.document_catalog(scope, world).embedded(scope.documents)
        rows = self._db.at(scope).all(
            f"""SELECT d.number, {_CHAPTER_AND_SECTION}, count(*)
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = :generation
                 AND s.state = 'embedded'
               JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
                 AND c.position = s.position
               {_IN_WORLD} GROUP BY 1, 2, 3"""
        )
        return sum(row[3] for row in rows if _is_within(scope, *row[:3]))

    def word_catalog(self, scope: Scope, world: World) -> WordCatalog:
        """Return every active revision of the scope's generation, by document number. It is cached
        until the world changes or words are counted."""
        return self._word_catalogs.get(scope, world, self._read_words)

    def _read_words(self, scope: Scope) -> WordCatalog:
        with self._db.read(scope) as session:
            revisions = session.all(
                f"""SELECT r.key, d.number, r.number, r.language, w.recipe, w.texts, w.lengths
                    {_ACTIVE} LEFT JOIN word_counts w
                      ON w.revision = r.key AND w.generation = :generation
                    {_IN_WORLD} ORDER BY d.number"""
            )
            states = session.all(
                f"""SELECT r.key, s.position, s.text_hash, s.state = 'embedded'
                    {_ACTIVE} JOIN states s ON s.revision = r.key AND s.generation = :generation
                      AND s.kind = 'text' AND s.state <> 'quarantined'
                    {_IN_WORLD} ORDER BY d.number, s.position"""
            )
        chunks = {key: list(rows) for key, rows in groupby(states, key=lambda row: row[0])}
        return WordCatalog(tuple(_read_entry(row, chunks.get(row[0], [])) for row in revisions))

    def counts_words(self, scope: Scope) -> bool:
        """Say whether words were ever counted in the scope's world and generation."""
        return bool(
            self._db.at(scope).all(
                """SELECT 1 FROM words
                   WHERE world_id = :world AND generation = :generation LIMIT 1"""
            )
        )

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of kind text of a revision, in order, not yet believed."""
        with self._db.read(scope) as session:
            rows = session.all(
                """SELECT c.position, BYTES(c.text), s.text_hash
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.world_id = :world AND s.revision = :key
                     AND s.generation = :generation AND s.kind = 'text'
                     AND s.state <> 'quarantined' ORDER BY s.position""",
                key=revision_key(session, revision),
            )
        return [CountableChunk(index, data, TextHash(found)) for index, data, found in rows]

    @retry_on_conflict
    def keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        """Replace what is held of the words of revisions, in one commit."""
        with self._db.write(scope) as session:
            for revision in counted:
                key = revision_key(session, revision.ref)
                if key is not None:
                    _write_words(session, scope.generation.number, key, revision)
        self._word_catalogs.clear()

    def postings(self, scope: Scope, term: str) -> Postings:
        """Return where a term occurs, in any revision of the scope's world and generation."""
        rows = self._db.at(scope, term=term).all(
            """SELECT revision, postings FROM words
               WHERE world_id = :world AND generation = :generation AND term = :term"""
        )
        packed = [row[1] for row in rows]
        chunks = [len(places) // _PAIR.size for places in packed]
        return Postings([row[0] for row in rows], chunks, b"".join(packed))

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return the key and the chunk index of what is in the scope's chapter and section."""
        rows = self._db.at(scope).all(
            f"""SELECT d.number, {_CHAPTER_AND_SECTION}, r.key, c.position
                {_ACTIVE} JOIN chunks c ON c.revision = r.key AND c.generation = :generation
                {_IN_WORLD}"""
        )
        return {(key, index) for *place, key, index in rows if _is_within(scope, *place)}


def _is_within(scope: Scope, number: int, chapter: str, section: str) -> bool:
    return (
        admits(scope.documents, number)
        and scope.chapter in (None, chapter.casefold())
        and scope.section in (None, section.casefold())
    )


def _write_words(session: Session, generation: int, key: int, counted: CountedRevision) -> None:
    session.execute(
        """DELETE FROM words
           WHERE world_id = :world AND revision = :key AND generation = :generation""",
        key=key,
        generation=generation,
    )
    session.insert_many(
        "words",
        ("generation", "term", "revision", "postings"),
        [
            (
                *(generation, term, key),
                b"".join(_PAIR.pack(at, min(count, _MOST_COUNTED)) for at, count in places.items()),
            )
            for term, places in sorted(counted.terms.items())
        ],
    )
    lengths = [number for pair in counted.lengths.items() for number in pair]
    session.insert(
        "word_counts",
        key=("revision", "generation"),
        revision=key,
        generation=generation,
        recipe=counted.recipe,
        texts=_digest_texts(sorted(counted.hashes.items())),
        lengths=array("I", lengths).tobytes(),
    )


def _digest_texts(texts: Iterable[tuple[int, str]]) -> bytes:
    """Return what tells one list of chunk texts, by index and hash, from another."""
    return sha256("".join(f"{index}:{text_hash}\n" for index, text_hash in texts).encode()).digest()


def _read_entry(row: Row, chunks: Sequence[Row]) -> WordEntry:
    """Return what is known of a revision, with its chunks as they are now."""
    key, document, revision, language, recipe, texts, lengths = row
    numbers = array("I", lengths or b"")
    counted = dict(zip(numbers[::2], numbers[1::2], strict=True))
    return WordEntry(
        key=key,
        ref=RevisionRef(document, revision),
        language=language,
        recipe=recipe,
        fresh=texts == _digest_texts((index, text_hash) for _, index, text_hash, _ in chunks),
        lengths={
            index: counted[index]
            for _, index, _, embedded in chunks
            if embedded and index in counted
        },
    )
