"""Chunks in their states, the figures and vectors that belong to them, points of the index."""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, NewType, cast

from msgspec import Struct

from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.text import PlacedSentence

Vector = NewType("Vector", bytes)
"""A vector as its little-endian float32 numbers: what is stored, sent and compared, bit for bit."""
MIN_LENGTH = 1e-6
"""A vector shorter than this is taken for zero, here as in the checks that follow."""
NO_VECTOR = Vector(b"")
"""Stands for a vector that a provider did not give; every check on vectors refuses it."""


class QueryEntry(NamedTuple):
    """The vector of a query, its key in the cache, and when it was embedded."""

    key: str
    vector: Vector
    embedded_at: float


def numbers_of(vector: bytes) -> array[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def bytes_of(numbers: Iterable[float]) -> bytes:
    """Return numbers as a vector; each must be one that a float32 can hold."""
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unit_vector(numbers: Sequence[float | None] | None) -> Vector:
    """Return a vector of length one, computed in double precision and rounded once.

    The profile's cosine is taken over unit vectors. Not every provider scales them, and some do not
    when dimensions are cut. What cannot be scaled stays as it is, and what is not all numbers is no
    vector, for the checks that follow to refuse: the other texts of a batch are not lost with it.
    """
    if numbers is None or None in numbers:
        return NO_VECTOR
    known = cast("Sequence[float]", numbers)
    length = math.hypot(*known)
    if not MIN_LENGTH < length < math.inf:
        return Vector(bytes_of(known))
    return Vector(bytes_of(number / length for number in known))


_IMAGE_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})/(img_[0-9]{3,9}\.([a-z0-9]{1,5}))")


class ImageFile(NamedTuple):
    """Where an image lies: the document it is of, the name of its file, and that name's ending."""

    doc_id: str
    name: str
    extension: str


class FigureFlags(Struct, frozen=True):
    """What is done with pictures. All off: the text is what it would be without any."""

    extract_images: bool = False
    """Write their bytes below the folder for assets."""
    placeholders: bool = False
    """Put a marker at the place of each into the text."""
    chunks: bool = False
    """Make a chunk of a description of each."""
    debug: bool = False
    """Log a line for each."""

    @property
    def any(self) -> bool:
        """Say whether pictures leave a trace at all."""
        return self.extract_images or self.placeholders or self.chunks


class ParentChunk(Struct, frozen=True):
    """The text chunk in which a figure stands, as far as its id is made from it."""

    index: int
    start: int
    first_sid: int
    last_sid: int
    text_hash: TextHash


class FigureRecord(Struct, frozen=True):
    """A figure of a revision. `offset` is its place in the canonical text.

    `description` is what its chunk holds. `image_ref` is relative to the folder for assets, and
    None when no image was stored.
    """

    number: int
    figure_id: str
    offset: int
    image_ref: str | None
    description: str
    first_sid: int
    last_sid: int
    reach: int
    parent: ParentChunk | None
    between: bool = False
    own_reach: int | None = None
    """The reach without that of the chunk it stands in."""


def figure_id_of(doc_id: str, number: int) -> str:
    """Return the id of a document's figure; figures count from 1 in reading order."""
    return f"{doc_id}-fig-{number:03d}"


def image_name(number: int, extension: str) -> str:
    """Return the name of the file of an image; images count from 1."""
    return f"img_{number:03d}.{extension}"


def image_file(image_ref: str) -> ImageFile | None:
    """Return what a reference to an image names; None for anything that could not be one."""
    found = _IMAGE_REF.fullmatch(image_ref)
    return ImageFile(*found.groups()) if found and ".." not in image_ref else None


def marker(figure_id: str) -> str:
    """Return what stands in the text at a figure's place."""
    return f"[FIGURE:{figure_id}]"


class ChunkKind(StrEnum):
    """What a chunk's text is."""

    TEXT = "text"
    FIGURE = "figure"


class ChunkState(StrEnum):
    """Whether the index can be expected to hold a chunk's point."""

    PENDING = "pending"
    EMBEDDED = "embedded"
    QUARANTINED = "quarantined"


class FigureMark(Struct, frozen=True):
    """Which figure a chunk of kind `figure` describes, and the text chunk it stands in."""

    figure_id: str
    image_ref: str | None
    parent: ParentChunk | None
    between: bool = False
    """Whether it stands between two blocks of text, and in none of them."""
    reach: int | None = None
    """The last sentence that decided its description, whichever chunk it stands in."""


class NewChunk(Struct, gc=False):
    """A chunk as it was cut, before it has an id. `sentence_ends` are offsets within its text.

    There are thousands at a time, and none can refer to itself: the garbage collector ignores them.
    """

    index: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    reach: int
    text: str
    text_hash: TextHash
    overlap_text: str
    tokens: int
    sentence_ends: list[int]
    chapter: str | None
    section: str | None
    kind: ChunkKind = ChunkKind.TEXT
    page: int | None = None
    location: str | None = None
    """The label of the pages, slides, lines, cells or rows that it lies on."""
    figure: FigureMark | None = None
    dedupe_hash: TextHash | None = None


class StoredChunk(Struct, frozen=True):
    """A chunk row as it was read, not yet believed: `data` are the bytes found, `text_hash` what
    they hashed to when they were written."""

    chunk_id: ChunkId
    index: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    reach: int
    kind: ChunkKind
    data: bytes
    text_hash: TextHash
    overlap_text: str
    tokens: int
    chapter: str | None
    section: str | None
    page: int | None = None
    location: str | None = None
    figure: FigureMark | None = None
    dedupe_hash: TextHash | None = None
    sentences: tuple[PlacedSentence, ...] = ()
    """Those that it has at least a part of, read only for a scope with a chapter or section. Its
    first and its last one may begin before it or end after it."""
    vector: Vector | None = None
    """The stored vector of its text, if that was read too and is intact."""
    sentence_ends: bytes = b""
    """Ends of its sentences in its text, as its row has them."""


class DocumentLabel(Struct, frozen=True):
    """The names of a document and revision that a result shows.

    `path` is that of its file from the folder that was ingested on, or the name of an upload.
    """

    number: int
    doc_id: str
    name: str
    title: str
    declared_title: str | None
    revision: int
    tags: tuple[str, ...] = ()
    language: str = ""
    version: str = ""
    path: str = ""
    source_url: str | None = None
    """The declared one."""
    language_declared: bool = False
    """Whether the caller declared the language; otherwise it comes from the file."""
    metadata: dict[str, Any] | None = None
    """What the caller declared besides; None if that is nothing, or cannot be trusted."""


class SourceLabels(Struct, frozen=True, kw_only=True):
    """What a result says of the document that it is from.

    `source_url` is the declared URL, else the path. A reader gets no metadata, and a language only
    if it was declared.
    """

    source_url: str
    address: str
    """The address of the document within Truespan."""
    path: str
    """Of its file, from the folder that was ingested on; the name of an upload."""
    language: str | None
    version: str
    tags: tuple[str, ...]
    metadata: dict[str, Any] | None = None


def labels_of(world: WorldId, document: DocumentLabel, *, for_reader: bool) -> SourceLabels:
    """Return what results of a document say of it."""
    return SourceLabels(
        source_url=document.source_url or document.path,
        address=f"truespan://{world}/{document.number}",
        path=document.path,
        language=None if for_reader and not document.language_declared else document.language,
        version=document.version,
        tags=document.tags,
        metadata=None if for_reader else document.metadata,
    )


class ChunkRecord(Struct, frozen=True):
    """What the store knows of one chunk id: its state row, and its chunk row if that is there.

    `live` is false while the revision is staged, after it was superseded, and once its document is
    deleted. `recorded_hash` is the state row's: the hash of the text that the chunk was made with.
    `intact` says whether both rows and the text match their checksum, `labels_intact` whether the
    names of the document and the state of the revision do. `changes` is the change count of the
    world at the moment of the read.
    """

    state: ChunkState
    live: bool
    document: DocumentLabel
    chunk: StoredChunk | None
    recorded_hash: TextHash
    intact: bool
    labels_intact: bool
    changes: int = -1
    space_id: str | None = None
    """The id of its world, in `contract` worlds."""

    def is_intact(self) -> bool:
        """Say whether all that is known of the chunk is what was written."""
        return self.chunk is not None and self.intact and self.labels_intact


class PendingChunk(Struct, gc=False):
    """A chunk that the index should hold and, as far as the store knows, does not.

    `text` is empty when a vector for its hash is already stored.
    """

    chunk_id: ChunkId
    document: int
    revision: int
    index: int
    text_hash: TextHash
    text: str
    vector: Vector | None
    first_sid: int
    last_sid: int
    reach: int
    kind: ChunkKind
    chapters: tuple[str, ...]
    sections: tuple[str, ...]

    def point(self, vector: Vector) -> Point:
        """Return what the index is given for it."""
        return Point(
            chunk_id=self.chunk_id,
            vector=vector,
            text_hash=self.text_hash,
            document=self.document,
            pos_start=self.first_sid,
            pos_end=self.last_sid,
            pos_reach=self.reach,
            kind=self.kind,
            chapters=self.chapters,
            sections=self.sections,
        )


class Point(Struct, gc=False):
    """What the index is given: a vector, the hash of the text it was made from, and its place.

    There is no text in it, so no reader of the index can mistake it for the source of text.
    `chapters` and `sections` are all that the text lies in, in its order.
    """

    chunk_id: ChunkId
    vector: Vector
    text_hash: TextHash
    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    kind: ChunkKind
    chapters: tuple[str, ...]
    sections: tuple[str, ...]


class PointPlace(Struct, frozen=True):
    """Where a point says it belongs: what filters on documents, places and positions go by.

    A point that names no kind is one of text. A point of an earlier version names one chapter and
    one section, those that its text begins in.
    """

    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: tuple[str, ...]
    section: tuple[str, ...]
    kind: str = ChunkKind.TEXT.value


class Holdings(Struct, frozen=True):
    """How many points each tenant has in a collection, and how many points there are in all."""

    tenants: dict[str, int]
    points: int


class IndexedPoint(Struct, frozen=True):
    """A point as the index holds it, read back to be compared with the store.

    `place` is None where something of it is missing or not of its kind.
    """

    chunk_id: ChunkId
    text_hash: TextHash | None
    vector: Vector
    place: PointPlace | None = None
