"""Checksums of rows. Each covers what a row says and which row of which document and world it is.

A row that was changed, swapped with another or moved elsewhere does not match its checksum any
more, and is not believed. The checksums of a revision's rows are digested once more into its own
row, and those of its chunks into their tally, so that no row can be missing or be there twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from math import inf
from typing import Final, NamedTuple

import msgspec

from truespan.errors import StoreDamaged
from truespan.store.engines.session import Row, Session
from truespan.types.document import OutlineEntry, RevisionRef
from truespan.types.ids import WorldId
from truespan.types.text import CanonicalText, PageStart, Place

_SIZE: Final = 16
_NO_PLACE: Final = bytes(_SIZE)
"""What stands for the checksum of the place before the first one."""

_encode = msgspec.msgpack.Encoder().encode


def checksum(table: str, *cells: object) -> bytes:
    """Return the checksum of a row: of the name of its table, its identity and its cells."""
    return blake2b(_encode((table, cells)), digest_size=_SIZE).digest()


def checksums_after(table: str, *cells: object, more: int) -> Callable[..., bytes]:
    """Return a function of the last cells, `more` in number, that returns the checksum of a row
    with all cells. For thousands of rows that begin alike, it is half the work."""
    begun = _begin(table, *cells, more=more)

    def finish(*last: object) -> bytes:
        digest = begun.copy()
        # MessagePack begins a list of up to 15 cells with one byte, its length.
        digest.update(_encode(last)[1:])
        return digest.digest()

    return finish


def _begin(table: str, *cells: object, more: int) -> blake2b:
    """Return the checksum of a row as far as its first cells; `more` of them follow."""
    # None takes one byte, where the cells of each row come.
    return blake2b(_encode((table, (*cells, *[None] * more)))[:-more], digest_size=_SIZE)


def plain(cell: object) -> object:
    """Return a cell as both engines have it: SQLite has no type for true and false."""
    return int(cell) if isinstance(cell, bool) else cell


def vector_checksum(world: WorldId, profile: str, text_hash: str, vector: bytes) -> bytes:
    return checksum("vectors", world, profile, text_hash, vector)


def world_checksum(world: str, name: str, created_at: float, defaults: str) -> bytes:
    return checksum("worlds", world, name, created_at, defaults)


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
    r.shown_path, r.metadata"""
"""What the checksum of a revision covers, of its row `r` and of the row `d` of its document."""


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

    @property
    def ref(self) -> RevisionRef:
        return RevisionRef(self.document, self.number)


_FLAGS: Final = (
    RevisionCells._fields.index("language_declared") + 1,
    RevisionCells._fields.index("language_stated") + 1,
)
"""Where the cells that are true or false are, once the world is put before all cells."""

DETAILS: Final = "r.metadata, r.properties, r.derived, r.derived_error"
"""What the checksum of a revision's details covers."""
DETAILS_COUNT: Final = DETAILS.count(",") + 1


def revision_checksum(world: WorldId, cells: Sequence[object]) -> bytes:
    """Return the checksum of a revision; the cells are those of `REVISION_CELLS`."""
    covered = [world, *cells]
    for place in _FLAGS:
        covered[place] = plain(covered[place])
    # As `checksum` does, without another copy of the cells: it is done for every document of a run.
    return blake2b(_encode(("revisions", covered)), digest_size=_SIZE).digest()


def details_checksum(world: WorldId, ref: RevisionRef, cells: Sequence[object]) -> bytes:
    """Return the checksum of what describes a revision; the cells are those of `DETAILS`."""
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
    """A revision as its row is, and whether its checksums match."""

    key: int
    ref: RevisionRef
    checksum: bytes
    intact: bool
    details_intact: bool
    cells: RevisionCells
    details: Row

    @property
    def sealed(self) -> bool:
        """Whether both checksums match. Only then they may be replaced: no change makes damage look
        intact."""
        return self.intact and self.details_intact

    def checksums(self, world: WorldId) -> tuple[bytes, bytes]:
        return revision_checksum(world, self.cells), details_checksum(world, self.ref, self.details)


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
    """Write the checksums of a revision as its row is now."""
    own, details = revision.checksums(world)
    session.execute(
        """UPDATE revisions SET checksum = :checksum, details_checksum = :details
           WHERE key = :key""",
        checksum=own,
        details=details,
        key=revision.key,
    )


@contextmanager
def changing_revisions(session: Session, world: WorldId, document: int) -> Iterator[None]:
    """Write the checksums of a document's revisions again after changes to their rows. A row that
    was damaged before stays without a valid one."""
    damaged = {found.key for found in read_revisions(session, world, document) if not found.sealed}
    yield
    for found in read_revisions(session, world, document):
        if found.key not in damaged:
            seal_revision(session, world, found)


class Structure(NamedTuple):
    """The rows that describe a revision's text, in the order of their keys."""

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
        """Return the rows of a revision as they are."""
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
        places = CanonicalText(
            "",
            tuple(row[0] for row in self.places),
            tuple(Place(*row[1:]) for row in self.places),
            pages=tuple(PageStart(*row) for row in self.pages),
        )
        sentences = sentence_checksums(world, ref, self.sentences, places)
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
    """Return one of the digests of a revision's parts; nothing without a revision."""
    at = PARTS.index(name) * _SIZE
    return (parts or b"")[at : at + _SIZE]


def audits_checksum(world: WorldId, ref: RevisionRef, rows: Iterable[Row]) -> bytes:
    return checksum("audits", world, ref, *[tuple(map(plain, row)) for row in rows])


class StructureChecksums(NamedTuple):
    """The checksums of the rows of a `Structure`, and the digests of each table as a whole."""

    sentences: list[bytes]
    places: list[bytes]
    figures: list[bytes]
    parts: bytes


def sentence_checksum(
    world: WorldId, ref: RevisionRef, row: Sequence[object], place: Place, page: PageStart | None
) -> bytes:
    """Return the checksum of a sentence. It covers the chapter, section and page it lies in, so
    that damaged places and pages are noticed where they are shown."""
    return checksum("sentences", world, ref, *row, *place, *_page_cells(page))


def sentence_checksums(
    world: WorldId, ref: RevisionRef, rows: Iterable[Row], layout: CanonicalText
) -> list[bytes]:
    """Return `sentence_checksum` of each sentence of a text, in half the time: a document has
    thousands, and those that follow each other mostly lie in the same place and page."""
    # MessagePack begins a list of up to 15 cells with one byte, its length. It is left out here.
    begun = _begin("sentences", world, ref, more=_SENTENCE_CELLS)
    since, until, tail = inf, -inf, b""
    found: list[bytes] = []
    for row in rows:
        start = row[1]
        if not since <= start < until:
            since, until, place, page = layout.stretch_at(start)
            tail = _encode((*place, *_page_cells(page)))[1:]
        digest = begun.copy()
        digest.update(_encode(row)[1:] + tail)
        found.append(digest.digest())
    return found


def _page_cells(page: PageStart | None) -> tuple[int | None, str | None]:
    """Return the number and the unit of the page that a sentence begins on."""
    return (page.page, page.unit) if page else (None, None)


_SENTENCE_CELLS: Final = 9
"""Number of cells of a sentence: five of its row, two of its place, two of its page."""


def place_checksum(world: WorldId, ref: RevisionRef, before: bytes, entry: OutlineEntry) -> bytes:
    """Return the checksum of a place, given that of the place before it."""
    cells = entry.first_sid, entry.start, entry.chapter, entry.section
    return checksum("places", world, ref, before, *cells)


def figure_checksum(world: WorldId, ref: RevisionRef, row: Sequence[object]) -> bytes:
    return checksum("figures", world, ref, *row)


def verify_places(
    world: WorldId, ref: RevisionRef, rows: Iterable[Row]
) -> tuple[list[OutlineEntry], bytes]:
    """Return the first places of a revision, each checked, and the checksum of the last one. The
    rows are those of `read_places`."""
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
"""What the checksum of a chunk covers, of the row `s` of its state and the row `c` of the chunk.
The text itself has its hash."""
CHUNK_TABLES: Final = """states s LEFT JOIN chunks c ON c.revision = s.revision
    AND c.generation = s.generation AND c.position = s.position"""
"""The tables of `CHUNK_CELLS`."""


def chunk_checksum(
    world: WorldId, generation: int, ref: RevisionRef, cells: Sequence[object]
) -> bytes:
    """Return the checksum of a chunk; the cells are those of `CHUNK_CELLS`."""
    # Like `checksum`, without copying the cells once more: every chunk of a result is checked.
    cells = (world, generation, ref, *cells)
    return blake2b(_encode(("chunks", cells)), digest_size=_SIZE).digest()


def tally_checksum(world: WorldId, generation: int, ref: RevisionRef, chunks: list[bytes]) -> bytes:
    """Return the digest of all chunks of a revision in a generation, by their checksums."""
    return checksum("tallies", world, generation, ref, *chunks)
