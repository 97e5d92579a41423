"""Queries and conversions that several parts of the store share."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any, Final, LiteralString, NamedTuple

import msgspec

from truespan.core.decoding import prepare
from truespan.core.records import copy_fields
from truespan.errors import StoreDamaged
from truespan.store.engines.session import Row, Session, Statements
from truespan.store.integrity.checksums import (
    RevisionCells,
    part_of,
    sentence_checksum,
    verify_places,
)
from truespan.store.tables.fragments import REVISION
from truespan.types.chunk import DocumentLabel, FigureMark
from truespan.types.document import OutlineEntry, RevisionRef
from truespan.types.ids import WorldId, hash_bytes
from truespan.types.metadata import read_metadata
from truespan.types.reading import StoredSentence
from truespan.types.text import CanonicalText, PageStart, Place, PlacedSentence

_MAX_OFFSET: Final = 2**31 - 1


def numbers_of(ref: RevisionRef) -> dict[str, int]:
    """Return the values of `:document` and `:revision` for a revision."""
    return {"document": ref.document, "revision": ref.revision}


def revision_key(session: Session, ref: RevisionRef, *, state: str | None = None) -> int | None:
    """Return the key of a revision; None if it is gone or in another state."""
    return session.value(
        """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
             AND r.state = coalesce(CAST(:state AS TEXT), r.state) AND SEEN(r)""",
        **numbers_of(ref),
        state=state,
    )


def has_text(session: Session, key: int) -> bool:
    """Return whether the text of a revision has its recorded hash."""
    row = session.one(
        """SELECT BYTES(t.text), r.text_hash FROM revisions r JOIN texts t ON t.revision = r.key
           WHERE r.key = :key""",
        key=key,
    )
    return row is not None and hash_bytes(row[0]) == row[1]


def has_generation(session: Session) -> bool:
    """Return whether the scope's generation exists and is not being removed."""
    found = session.one(
        """SELECT 1 FROM generations
           WHERE world_id = :world AND number = :generation AND removed_at IS NULL"""
    )
    return found is not None


def tally_each(session: Session, changed: Iterable[Row]) -> None:
    """Count states again, in the transaction that changed them.

    The rows begin with the revision and the generation of a changed state.
    """
    by_generation: dict[int, set[int]] = {}
    for revision, generation, *_ in changed:
        by_generation.setdefault(generation, set()).add(revision)
    for generation, revisions in sorted(by_generation.items()):
        counts = session.all(
            """SELECT revision, count(*), count(*) FILTER (WHERE state = 'embedded'),
                 count(*) FILTER (WHERE state = 'quarantined')
               FROM states WHERE UNINDEXED(world_id) = :world AND revision IN LIST(:revisions)
                 AND generation = :generation GROUP BY revision""",
            revisions=sorted(revisions),
            generation=generation,
        )
        without = revisions - {row[0] for row in counts}
        rows = [(key, generation, *others) for key, *others in counts]
        rows += [(key, generation, 0, 0, 0) for key in without]
        session.insert_many(
            "tallies",
            ("revision", "generation", "chunks", "embedded", "quarantined"),
            sorted(rows),
            key=("revision", "generation"),
        )


class Layout(NamedTuple):
    """Starts of the chapters, sections and pages of a text."""

    starts: tuple[int, ...]
    places: tuple[Place, ...]
    pages: tuple[PageStart, ...]


_LAYOUT: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    ("places", "chapter, section"),
    ("pages", "page, unit"),
)


def read_layout(
    session: Session, key: int | None, start: int = 0, end: int = _MAX_OFFSET
) -> Layout:
    """Return the places and pages of the text of a revision from `start` to `end`."""
    places, pages = (
        session.all(
            f"""SELECT start, {columns} FROM {table}
                WHERE revision = :key AND start < :end AND start >= coalesce((SELECT max(start)
                  FROM {table} WHERE revision = :key AND start <= :start), 0) ORDER BY start""",
            key=key,
            start=start,
            end=end,
        )
        for table, columns in _LAYOUT
    )
    return Layout(
        tuple(row[0] for row in places),
        tuple(Place(*row[1:]) for row in places),
        tuple(PageStart(*row) for row in pages),
    )


def read_layouts(statements: Statements, keys: Iterable[int]) -> dict[int, CanonicalText]:
    """Return the chapters and sections of revisions, unverified and without text."""
    layouts = dict.fromkeys(keys, CanonicalText(""))
    rows = statements.all(
        """SELECT revision, start, chapter, section FROM places
           WHERE revision IN LIST(:keys) ORDER BY revision, start""",
        keys=list(layouts),
    )
    for key, group in groupby(rows, key=lambda row: row[0]):
        found = list(group)
        layouts[key] = CanonicalText(
            "", tuple(row[1] for row in found), tuple(Place(*row[2:]) for row in found)
        )
    return layouts


_SENTENCE: Final = """
    e.sid, e.start, e.finish, e.tokens, e.text_hash, e.checksum,
      (SELECT p.chapter FROM places p WHERE p.revision = e.revision AND p.start <= e.start
        ORDER BY p.start DESC LIMIT 1),
      (SELECT p.section FROM places p WHERE p.revision = e.revision AND p.start <= e.start
        ORDER BY p.start DESC LIMIT 1),
      (SELECT CAST(p.page AS TEXT) || ' ' || p.unit FROM pages p
        WHERE p.revision = e.revision AND p.start <= e.start ORDER BY p.start DESC LIMIT 1)"""
_SENTENCES_OF_CHUNKS: Final = f"""
    WITH s AS MATERIALIZED (
      SELECT chunk_id, revision, first_sid, last_sid FROM states
      WHERE chunk_id IN LIST(:ids) AND UNINDEXED(world_id) = :world
        AND generation + 0 = :generation
    )
    SELECT s.chunk_id, s.first_sid, s.last_sid, d.number, r.number, {_SENTENCE}
    FROM s JOIN revisions r ON r.key = s.revision AND SEEN(r)
    JOIN documents d ON d.key = r.document
    JOIN sentences e ON e.revision = s.revision AND e.sid BETWEEN s.first_sid AND s.last_sid"""


def read_sentences_of(
    statements: Statements, world: WorldId, ids: Sequence[str]
) -> dict[str, tuple[PlacedSentence, ...]]:
    """Return the sentences of chunks, by the ids of the chunks, including partial sentences.

    A chunk with a missing or damaged sentence is left out.
    """
    rows = statements.all(
        f"{_SENTENCES_OF_CHUNKS} ORDER BY s.chunk_id, e.sid",
        ids=[*ids],
    )
    found: dict[str, tuple[PlacedSentence, ...]] = {}
    for (chunk, first, last), group in groupby(rows, key=lambda row: row[:3]):
        sentences = [
            _read_sentence(world, RevisionRef(document, revision), row)
            for _, _, _, document, revision, *row in group
        ]
        if [sentence and sentence.sid for sentence in sentences] == [*range(first, last + 1)]:
            found[chunk] = tuple(sentence for sentence in sentences if sentence)
    return found


def read_chosen_sentences(
    statements: Statements, world: WorldId, chosen: Collection[tuple[str, int]]
) -> dict[tuple[str, int], PlacedSentence]:
    """Return single sentences of chunks, by the id of the chunk and the number of the sentence."""
    rows = statements.all(
        f"{_SENTENCES_OF_CHUNKS} AND e.sid + 0 IN LIST(:sids)",
        ids=[*{chunk for chunk, _ in chosen}],
        sids=[*{sid for _, sid in chosen}],
    )
    found: dict[tuple[str, int], PlacedSentence] = {}
    for chunk, _, _, document, revision, *row in rows:
        if (chunk, row[0]) in chosen:
            found[chunk, row[0]] = _require_sentence(world, RevisionRef(document, revision), row)
    return found


def read_sentences(
    statements: Statements, world: WorldId, ref: RevisionRef, first: int, last: int
) -> list[StoredSentence]:
    """Return sentences of a revision, verified together with chapter, section and page."""
    rows = statements.all(
        f"""SELECT {_SENTENCE} FROM sentences e
            WHERE e.revision = {REVISION} AND e.sid BETWEEN :first AND :last ORDER BY e.sid""",
        **numbers_of(ref),
        first=first,
        last=last,
    )
    return [_require_sentence(world, ref, row) for row in rows]


def _require_sentence(world: WorldId, ref: RevisionRef, row: Sequence[Any]) -> StoredSentence:
    if (sentence := _read_sentence(world, ref, row)) is None:
        raise StoreDamaged(
            f"A sentence of document {ref.document} does not match its checksum.",
            advice="Run 'truespan doctor'.",
        )
    return sentence


def _read_sentence(world: WorldId, ref: RevisionRef, row: Sequence[Any]) -> StoredSentence | None:
    """Return a row of `_SENTENCE` as a sentence; None if its checksum differs."""
    *cells, recorded, chapter, section, stored = row
    sid, start, end, tokens, digest = cells
    place, page_start = Place(chapter, section), None
    if stored is not None:
        page, _, unit = stored.partition(" ")
        page_start = PageStart(start, int(page), unit)
    if recorded != sentence_checksum(world, ref, cells, place, page_start):
        return None
    return StoredSentence(
        sid=sid,
        start=start,
        end=end,
        tokens=tokens,
        place=place,
        page_start=page_start,
        digest=digest,
    )


def active_revision(session: Session, document: int) -> tuple[int, RevisionRef] | None:
    """Return the key and the number of the active revision of a document."""
    row = session.one(
        """SELECT r.key, r.number FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.world_id = :world AND d.number = :document AND r.state = 'active'
             AND SEEN(r)""",
        document=document,
    )
    return (row[0], RevisionRef(document, row[1])) if row else None


def read_places(session: Session, key: int | None, end: int = _MAX_OFFSET) -> list[Row]:
    """Return the chapters and sections of a revision that begin before `end`, unverified.

    A row has the first sentence (0 without any), the offset, both names, and the checksum.
    """
    places = session.all(
        """SELECT start, chapter, section, checksum FROM places
           WHERE revision = :key AND start < :end ORDER BY start""",
        key=key,
        end=end,
    )
    if not places:
        return []
    # All sentences at once: looking up the first one of each place would be quadratic.
    sentences = session.all(
        "SELECT start, sid FROM sentences WHERE revision = :key ORDER BY start", key=key
    )
    starts = [start for start, _ in sentences]
    lowest = [*accumulate((sid for _, sid in reversed(sentences)), min)]
    lowest = [*reversed(lowest), 0]
    return [(lowest[bisect_left(starts, row[0])], *row) for row in places]


def read_outline(
    session: Session, world: WorldId, key: int, ref: RevisionRef
) -> list[OutlineEntry]:
    """Return all chapters and sections of a revision, verified."""
    entries, last = verify_places(world, ref, read_places(session, key))
    parts = session.value("SELECT parts FROM revisions WHERE key = :key", key=key)
    if part_of(parts, "places") != last:
        raise StoreDamaged(
            f"Chapters of document {ref.document} are missing.", advice="Run 'truespan doctor'."
        )
    return entries


def figure_text(mark: FigureMark) -> str:
    return msgspec.json.encode(mark).decode()


def figure_mark(stored: str) -> FigureMark:
    return msgspec.json.decode(stored, type=prepare(FigureMark))


def tags_of(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(json.loads(stored))


def document_label(cells: RevisionCells, *, intact: bool = True) -> DocumentLabel:
    """Return the labels of a document and revision; tags and metadata only if `intact`."""
    return copy_fields(
        DocumentLabel,
        cells,
        number=cells.document,
        revision=cells.number,
        path=cells.shown_path,
        tags=tags_of(cells.tags) if intact else (),
        language_declared=bool(cells.language_declared) and not cells.language_stated,
        metadata=(read_metadata(cells.metadata) or None) if intact else None,
    )


def drop_words(session: Session, key: int, generation: int | None = None) -> int:
    """Delete the words of a revision and of its segment, in one generation or in all.

    The words of other revisions of the segment are counted again when needed.

    Returns:
        The number of other revisions.
    """
    where = "" if generation is None else " AND generation = :generation"
    values = {} if generation is None else {"generation": generation}
    segments = session.all(
        f"SELECT segment FROM word_counts WHERE revision = :key{where}", key=key, **values
    )
    session.execute(f"DELETE FROM word_counts WHERE revision = :key{where}", key=key, **values)
    # The revision may identify a segment even if its own row, being damaged, does not say so.
    others = 0
    for segment in {key, *(row[0] for row in segments)}:
        session.execute(
            f"DELETE FROM words WHERE world_id = :world AND revision = :key{where}",
            key=segment,
            **values,
        )
        others += session.execute(
            f"DELETE FROM word_counts WHERE segment = :key{where}", key=segment, **values
        )
    if others:
        session.touch_world()
    return others
