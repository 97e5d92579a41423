"""Chunks in their states, their figures and vectors, and the points of the index."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from truespan.types.ids import ChunkId, TextHash
from truespan.types.text import PlacedSentence
from truespan.types.vectors import Vector, WordStates


class QueryEntry(NamedTuple):
    """A cached query: its key, vector, states of words, and the time of embedding.

    `states` are the rows of `QueryStates`; None if they were not requested, and empty if the model
    gives none. `unconfirmed` names the model that has not been confirmed since; None once it has.
    """

    key: str
    vector: Vector
    states: bytes | None
    embedded_at: float
    unconfirmed: str | None = None


_IMAGE_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})/(img_[0-9]{3,9}\.([a-z0-9]{1,5}))")


class ImageFile(NamedTuple):
    """An image file: the document, the file name and its extension."""

    doc_id: str
    name: str
    extension: str


class FigureFlags(Struct, frozen=True):
    """Processing of pictures. With all flags off, pictures do not affect the text."""

    extract_images: bool = False
    """Whether to write images to the assets folder."""
    placeholders: bool = False
    """Whether to insert a marker into the text at each figure."""
    chunks: bool = False
    """Whether to make a chunk from the description of each figure."""
    debug: bool = False
    """Whether to log a line for each figure."""

    @property
    def any(self) -> bool:
        """Whether any flag for figures is on."""
        return self.extract_images or self.placeholders or self.chunks


class ParentChunk(Struct, frozen=True):
    """The text chunk around a figure, with the fields that determine its id."""

    index: int
    start: int
    first_sid: int
    last_sid: int
    text_hash: TextHash


class FigureRecord(Struct, frozen=True):
    """A figure of a revision. `offset` is its offset in the canonical text.

    `description` is the text of its chunk. `image_ref` is relative to the assets folder; None if no
    image was stored.
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
    """Reach of the figure without the reach of the chunk around it."""


def figure_id_of(doc_id: str, number: int) -> str:
    """Return the id of a figure; figures count from 1 in reading order."""
    return f"{doc_id}-fig-{number:03d}"


def image_name(number: int, extension: str) -> str:
    """Return the file name of an image; images count from 1."""
    return f"img_{number:03d}.{extension}"


def image_file(image_ref: str) -> ImageFile | None:
    """Parse a reference to an image; None if it is not valid."""
    found = _IMAGE_REF.fullmatch(image_ref)
    return ImageFile(*found.groups()) if found and ".." not in image_ref else None


def marker(figure_id: str) -> str:
    """Return the marker of a figure in the text."""
    return f"[FIGURE:{figure_id}]"


class ChunkKind(StrEnum):
    """Kind of a chunk's text."""

    TEXT = "text"
    FIGURE = "figure"


class ChunkState(StrEnum):
    """State of a chunk's point in the index."""

    PENDING = "pending"
    EMBEDDED = "embedded"
    QUARANTINED = "quarantined"


class FigureMark(Struct, frozen=True):
    """The figure that a chunk of kind `figure` describes, and the text chunk around it."""

    figure_id: str
    image_ref: str | None
    parent: ParentChunk | None
    between: bool = False
    """Whether the figure is between two blocks of text."""
    reach: int | None = None
    """Last sentence that affected the description."""


class ChunkPlace(Struct, frozen=True, kw_only=True):
    """Place of a chunk in the text of a document, and the size and hash of its own text."""

    index: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    text_hash: TextHash
    tokens: int
    chapter: str | None
    section: str | None
    page: int | None = None
    location: str | None = None
    """Label of the pages, slides, lines, cells or rows of the text."""


class SplitChunk(ChunkPlace, frozen=True, kw_only=True):
    """A chunk as a whole document was split into it."""

    reach: int
    overlap_text: str
    kind: ChunkKind = ChunkKind.TEXT
    figure: FigureMark | None = None
    dedupe_hash: TextHash | None = None


class NewChunk(SplitChunk, frozen=True, kw_only=True, gc=False):
    """A new chunk without an id. `sentence_ends` are offsets in its text.

    Not tracked by the garbage collector: there are thousands at a time, without cycles.
    """

    text: str
    sentence_ends: list[int]


class StoredChunk(SplitChunk, frozen=True, kw_only=True):
    """A chunk row as read, not yet verified.

    `data` are the stored bytes, `text_hash` their hash at the time of writing.
    """

    chunk_id: ChunkId
    data: bytes
    sentences: tuple[PlacedSentence, ...] = ()
    """Sentences that overlap the chunk, read only for a scope with a chapter or section. The first
    may begin before the chunk and the last may end after it."""
    vector: Vector | None = None
    """Stored vector of the text, if it was read and is intact."""
    word_states: WordStates | None = None
    """Stored states of the words of the text, if they were read and are intact."""
    sentence_ends: bytes = b""
    """Packed sentence ends in the text, as in the row."""


class DocumentNames(Struct, frozen=True, kw_only=True):
    """Names and labels of a document, in every record of a document."""

    doc_id: str
    name: str
    language: str = ""
    language_declared: bool = False
    version: str = ""
    tags: tuple[str, ...] = ()
    source_url: str | None = None
    """Declared URL."""


class DocumentLabel(DocumentNames, frozen=True, kw_only=True):
    """Names and labels of a document and revision that results show.

    `path` is relative to the ingested folder, or the name of an upload. `language_declared` says
    whether the caller declared the language; otherwise the file states it or it was detected.
    """

    number: int
    title: str
    declared_title: str | None
    revision: int
    path: str = ""
    metadata: dict[str, Any] | None = None
    """Declared metadata; None if there are none, or they cannot be trusted."""


class SourceLabels(Struct, frozen=True, kw_only=True):
    """Labels of the document of a result.

    `source_url` is the declared URL, else the path. A reader gets no metadata, and the language
    only if it was declared.
    """

    source_url: str
    address: str
    """URI of the document in Truespan: `truespan://<world>/<number>`."""
    path: str
    """Path of the file, relative to the ingested folder; the name of an upload."""
    language: str | None
    version: str
    tags: tuple[str, ...]
    metadata: dict[str, Any] | None = None


class ChunkRecord(Struct, frozen=True):
    """The stored state of a chunk id: its state row, and its chunk row if present.

    `live` is false if the revision is staged or superseded, or its document deleted.
    `recorded_hash` is the text hash in the state row. `intact` is true if both rows and the text
    match their checksums, `labels_intact` if the document labels and the revision state do.
    `changes` is the change count of the world at the time of the read.
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
    """Id of the world, in `contract` worlds only."""

    @property
    def content(self) -> str | UnsetType | None:
        """The text, in `contract` worlds only; None if it is damaged or missing."""
        if self.space_id is None:
            return UNSET
        return self.chunk.data.decode() if self.chunk and self.is_intact() else None

    @property
    def start_char(self) -> int | UnsetType:
        """Start of the chunk in the text of the document, in `contract` worlds only."""
        return UNSET if self.space_id is None or self.chunk is None else self.chunk.start

    @property
    def end_char(self) -> int | UnsetType:
        """End of the chunk in the text of the document, in `contract` worlds only."""
        return UNSET if self.space_id is None or self.chunk is None else self.chunk.end

    def is_intact(self) -> bool:
        """Return whether the chunk exists and everything read matches its checksum."""
        return self.chunk is not None and self.intact and self.labels_intact


class PendingChunk(Struct, gc=False):
    """A chunk that the index should contain but, according to the store, does not.

    `text` is empty if a vector for its hash is already stored.
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
        """Return the point of the chunk for the index."""
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
    """A point of the index: a vector, the hash of its text, and its place.

    A point has no text, so the index can never be used as a source of text. `chapters` and
    `sections` are those of the text, in order.
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
    """Payload of a point that filters on documents, places and positions use.

    A point without a kind is text, and one without chapters or sections has no field for them.
    """

    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: tuple[str, ...] = ()
    section: tuple[str, ...] = ()
    kind: str = ChunkKind.TEXT.value


class PointCounts(Struct, frozen=True):
    """Number of points of each tenant in a collection, and the total."""

    tenants: dict[str, int]
    points: int


class IndexedPoint(Struct, frozen=True):
    """A point read back from the index for comparison with the store.

    `place` is None if a field of the payload is missing or has the wrong type.
    """

    chunk_id: ChunkId
    text_hash: TextHash | None
    vector: Vector
    place: PointPlace | None = None
