"""Checksums of rows. Each covers the cells of a row and its identity: table, world and document.

A row that was changed, swapped with another or moved elsewhere does not match its checksum and is
not trusted. The row of a revision has a digest of the checksums of its rows, and its tally one of
those of its chunks, so that no row can be missing or duplicated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from truespan.errors import StoreDamaged
from truespan.store.engines.session import Row, Session
from truespan.types.document import OutlineEntry, RevisionRef
from truespan.types.ids import WorldId
from truespan.types.text import CanonicalText, PageStart, Place
from truespan.types.vectors import RECIPE

_SIZE: Final = 16
_NO_PLACE: Final = bytes(_SIZE)
"""Previous checksum of the first place."""

_encode = msgspec.msgpack.Encoder().encode


def checksum(table: str, *cells: object) -> bytes:
    """Return the checksum of a row with this table, identity and cells."""
    return blake2b(_encode((table, cells)), digest_size=_SIZE).digest()


def plain(cell: object) -> object:
    """Return a cell in the form of both engines: SQLite has no booleans."""
    return int(cell) if isinstance(cell, bool) else cell


def vector_checksum(world: WorldId, profile: str, text_hash: str, vector: bytes) -> bytes:
    return checksum("vectors", world, profile, text_hash, vector)


def word_states_checksum(world: WorldId, profile: str, text_hash: str, states: bytes) -> bytes:
    return checksum("word_states", RECIPE, world, profile, text_hash, states)


def world_checksum(
    world: str, name: str, created_at: float, defaults: str, audience: str | None
) -> bytes:
    return checksum("worlds", world, name, created_at, defaults, audience)


def generation_checksum(
    world: str,
    number: int,
    profile: str,
    chunking: str | None,
    profile_id: str,
    created_at: float,
) -> bytes:
    return checksum("generations", world, number, profile, chunking, profile_id, created_at)


def position_checksum(
    world: WorldId, reader: str, ref: RevisionRef, sid: int, updated_at: float
) -> bytes:
    return checksum("positions", world, reader, ref, sid, updated_at)


REVISION_CELLS: Final = """d.number, d.doc_id, r.number, r.state, r.name, r.path, r.kind, r.title,
    r.declared_title, r.stated_title, r.language, r.language_declared, r.language_stated,
    r.version, r.tags, r.chunking, r.chunking_profile, r.source_hash, r.recipe, r.source_url,
    r.origin, r.text_hash, r.characters, r.sentences, r.created_at, r.parts,
    r.shown_path, r.metadata, r.audience"""
"""Cells that the checksum of a revision covers: of its row `r` and the row `d` of its document."""


class RevisionCells(NamedTuple):
    """The values of `REVISION_CELLS`, in the same order."""

    document: int
    doc_id: str
    number: int
    state: str
    name: str
    path: str
    kind: str
    title: str
    declared_title: str | None
    stated_title: str | None
    language: str
    language_declared: bool
    language_stated: bool
    version: str
    tags: str
    chunking: str
    chunking_profile: str
    source_hash: str
    recipe: str
    source_url: str | None
    origin: str
    text_hash: str
    characters: int
    sentences: int
    created_at: float
    parts: bytes
    shown_path: str
    metadata: str | None
    audience: str

    @property
    def ref(self) -> RevisionRef:
        return RevisionRef(self.document, self.number)


DETAILS: Final = "r.metadata, r.properties, r.derived, r.derived_error"
"""Cells that the checksum of a revision's details covers."""
DETAILS_COUNT: Final = DETAILS.count(",") + 1


def revision_checksum(world: WorldId, cells: RevisionCells) -> bytes:
    """Return the checksum of a revision."""
    declared, stated = cells.language_declared, cells.language_stated
    # Every document is verified in every run, so that a call for each cell would show.
    if isinstance(declared, bool) or isinstance(stated, bool):
        cells = cells._replace(language_declared=int(declared), language_stated=int(stated))
    return checksum("revisions", world, *cells)


def details_checksum(world: WorldId, ref: RevisionRef, cells: Sequence[object]) -> bytes:
    """Return the checksum of a revision's details; the cells are those of `DETAILS`."""
    return checksum("details", world, ref, *cells)


def damaged_labels(document: int) -> StoreDamaged:
    return StoreDamaged(
        f"The record of document {document} does not match its checksum.",
        advice="Run 'truespan doctor'; ingest its source again if it cannot be restored.",
    )


_REVISIONS: Final = f"""SELECT r.key, r.checksum, r.details_checksum, {DETAILS}, {REVISION_CELLS}
    FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number IN LIST(:documents)"""


class StoredRevision(NamedTuple):
    """The row of a revision, and whether its checksums match."""

    key: int
    ref: RevisionRef
    checksum: bytes
    intact: bool
    details_intact: bool
    cells: RevisionCells
    details: Row

    @property
    def sealed(self) -> bool:
        """Whether both checksums match. Only then may they be replaced, so that a change never
        makes damage look intact."""
        return self.intact and self.details_intact


def read_revisions(session: Session, world: WorldId, *documents: int) -> list[StoredRevision]:
    """Return every revision of some documents, in any state."""
    found = []
    for key, recorded, recorded_details, *cells in session.all(_REVISIONS, documents=[*documents]):
        details, own = tuple(cells[:DETAILS_COUNT]), RevisionCells._make(cells[DETAILS_COUNT:])
        ref = own.ref
        intact = recorded == revision_checksum(world, own)
        details_intact = recorded_details == details_checksum(world, ref, details)
        found.append(
            StoredRevision(
                key=key,
                ref=ref,
                checksum=recorded,
                intact=intact,
                details_intact=details_intact,
                cells=own,
                details=details,
            )
        )
    return found


def seal_revision(session: Session, world: WorldId, revision: StoredRevision) -> None:
    """Write the checksums of a revision for the current cells of its row."""
    session.execute(
        """UPDATE revisions SET checksum = :checksum, details_checksum = :details
           WHERE key = :key""",
        checksum=revision_checksum(world, revision.cells),
        details=details_checksum(world, revision.ref, revision.details),
        key=revision.key,
    )


@contextmanager
def changing_revisions(session: Session, world: WorldId, document: int) -> Iterator[None]:
    """Update the checksums of a document's revisions after the block has changed their rows.

    A row that was damaged before keeps its wrong checksum.
    """
    damaged = {found.key for found in read_revisions(session, world, document) if not found.sealed}
    yield
    for found in read_revisions(session, world, document):
        if found.key not in damaged:
            seal_revision(session, world, found)


class Structure(NamedTuple):
    """Rows that describe the text of a revision, in the order of their keys."""

    places: list[Row]
    """Start, chapter, section."""
    pages: list[Row]
    """Start, page, unit."""
    sentences: Sequence[Row]
    """Number, start, end, tokens, hash."""
    figures: list[Row]
    """Number, id, start, reference of the image, description as bytes, mark."""
    audits: list[Row]
    """Label, rule, count, whether it was redacted."""

    @classmethod
    def read(cls, session: Session, key: int) -> Structure:
        """Return the rows of a revision, unverified."""
        return cls(
            places=session.all(
                "SELECT start, chapter, section FROM places WHERE revision = :key ORDER BY start",
                key=key,
            ),
            pages=session.all(
                "SELECT start, page, unit FROM pages WHERE revision = :key ORDER BY start", key=key
            ),
            sentences=session.all(
                """SELECT sid, start, finish, tokens, text_hash FROM sentences
                   WHERE revision = :key ORDER BY sid""",
                key=key,
            ),
            figures=session.all(
                """SELECT number, figure_id, start, image_ref, BYTES(description), mark
                   FROM figures WHERE revision = :key ORDER BY number""",
                key=key,
            ),
            audits=session.all(
                """SELECT label, rule, count, redacted FROM audits WHERE revision = :key
                   ORDER BY 1, 2""",
                key=key,
            ),
        )

    def checksums(self, world: WorldId, ref: RevisionRef) -> StructureChecksums:
        text = CanonicalText(
            "",
            tuple(row[0] for row in self.places),
            tuple(Place(*row[1:]) for row in self.places),
            pages=tuple(PageStart(*row) for row in self.pages),
        )
        sentences = [
            sentence_checksum(world, ref, row, text.place_at(row[1]), text.page_start(row[1]))
            for row in self.sentences
        ]
        starts = [row[1] for row in self.sentences]
        chain = [_NO_PLACE]
        for start, chapter, section in self.places:
            first = bisect_left(starts, start)
            entry = OutlineEntry(first if first < len(starts) else 0, start, chapter, section)
            chain.append(place_checksum(world, ref, chain[-1], entry))
        figures = [figure_checksum(world, ref, row) for row in self.figures]
        parts = {
            "sentences": checksum("sentences", *sentences),
            "places": chain[-1],
            "pages": checksum("pages", world, ref, *self.pages),
            "figures": checksum("figures", *figures),
            "audits": audits_checksum(world, ref, self.audits),
        }
        return StructureChecksums(sentences, chain[1:], figures, b"".join(parts.values()))


PARTS: Final = ("sentences", "places", "pages", "figures", "audits")
"""The order of the digests in a revision's `parts`."""


def part_of(parts: bytes | None, name: str) -> bytes:
    """Return one of the digests of a revision's parts; empty without a revision."""
    at = PARTS.index(name) * _SIZE
    return (parts or b"")[at : at + _SIZE]


def audits_checksum(world: WorldId, ref: RevisionRef, rows: Iterable[Row]) -> bytes:
    return checksum("audits", world, ref, *[tuple(map(plain, row)) for row in rows])


class StructureChecksums(NamedTuple):
    """Checksums of the rows of a `Structure`, and the digest of each table."""

    sentences: list[bytes]
    places: list[bytes]
    figures: list[bytes]
    parts: bytes

    def match(self, recorded: bytes) -> bool:
        """Return whether these are the recorded digests of a revision.

        Earlier versions recorded the root of a Merkle tree after them.
        """
        return recorded[: len(self.parts)] == self.parts


def sentence_checksum(
    world: WorldId, ref: RevisionRef, row: Sequence[object], place: Place, page: PageStart | None
) -> bytes:
    """Return the checksum of a sentence.

    It covers chapter, section and page, so that damaged places are noticed where they are shown.
    """
    return checksum("sentences", world, ref, *row, *place, *_page_cells(page))


def _page_cells(page: PageStart | None) -> tuple[int | None, str | None]:
    """Return the number and the unit of the page that a sentence begins on."""
    return (page.page, page.unit) if page else (None, None)


def place_checksum(world: WorldId, ref: RevisionRef, before: bytes, entry: OutlineEntry) -> bytes:
    """Return the checksum of a place, given the checksum of the previous place."""
    cells = entry.first_sid, entry.start, entry.chapter, entry.section
    return checksum("places", world, ref, before, *cells)


def figure_checksum(world: WorldId, ref: RevisionRef, row: Sequence[object]) -> bytes:
    return checksum("figures", world, ref, *row)


def verify_places(
    world: WorldId, ref: RevisionRef, rows: Iterable[Row]
) -> tuple[list[OutlineEntry], bytes]:
    """Return the first places of a revision, verified, and the checksum of the last one.

    The rows are those of `read_places`.
    """
    before, entries = _NO_PLACE, []
    for *cells, recorded in rows:
        entry = OutlineEntry(*cells)
        before = place_checksum(world, ref, before, entry)
        if recorded != before:
            raise StoreDamaged(
                f"The chapters of document {ref.document} do not match their checksums.",
                advice="Run 'truespan doctor'.",
            )
        entries.append(entry)
    return entries, before


CHUNK_CELLS: Final = """s.position, s.chunk_id, s.kind, s.context_start, s.start, s.finish,
    s.first_sid, s.last_sid, s.reach, s.tokens, s.text_hash, c.text_hash, BYTES(c.overlap_text),
    c.sentence_ends, c.chapter, c.section, c.page, c.figure, c.dedupe_hash, c.location"""
"""Cells that the checksum of a chunk covers: of the row `s` of its state and its own row `c`. The
text has a separate hash."""
JOIN_CHUNKS: Final = """LEFT JOIN chunks c ON c.revision = s.revision
    AND c.generation = s.generation AND c.position = s.position"""
"""Joins the chunk of a state `s`."""
CHUNK_TABLES: Final = f"states s {JOIN_CHUNKS}"
"""Tables of `CHUNK_CELLS`."""


def chunk_checksum(
    world: WorldId, generation: int, ref: RevisionRef, cells: Sequence[object]
) -> bytes:
    """Return the checksum of a chunk; the cells are those of `CHUNK_CELLS`."""
    return checksum("chunks", world, generation, ref, *cells)


def tally_checksum(world: WorldId, generation: int, ref: RevisionRef, chunks: list[bytes]) -> bytes:
    """Return the digest of all chunks of a revision in a generation, by their checksums."""
    return checksum("tallies", world, generation, ref, *chunks)
