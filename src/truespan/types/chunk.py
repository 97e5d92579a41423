"""Chunks in their states: cut, stored, and as a point for the index."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from truespan.types.figure import ParentChunk
from truespan.types.ids import ChunkId, TextHash, hash_bytes

Vector = NewType("Vector", bytes)
"""A vector as its little-endian float32 numbers: what is stored, sent and compared, bit for bit."""


class ChunkKind(StrEnum):
    """What a chunk's text is."""

    TEXT = "text"
    FIGURE = "figure"


class ChunkState(StrEnum):
    """Whether the index can be expected to hold a chunk's point."""

    PENDING = "pending"
    EMBEDDED = "embedded"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class FigureMark:
    """Which figure a chunk of kind `figure` describes, and the text chunk it stands in."""

    figure_id: str
    image_ref: str | None
    parent: ParentChunk | None
    between: bool = False
    """Whether it stands between two blocks of text, and in none of them."""
    reach: int | None = None
    """The last sentence that decided its description, whichever chunk it stands in."""


@dataclass(slots=True)
class NewChunk:
    """A chunk as it was cut, before it has an id. `sentence_ends` are offsets within its text."""

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
    figure: FigureMark | None = None
    dedupe_hash: TextHash | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
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
    figure: FigureMark | None = None
    dedupe_hash: TextHash | None = None


@dataclass(frozen=True, slots=True)
class DocumentLabel:
    """The names of a document and revision that a result shows."""

    number: int
    doc_id: str
    name: str
    title: str
    declared_title: str | None
    revision: int
    tags: tuple[str, ...] = ()
    language: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """What the store knows of one chunk id: its state row, and its chunk row if that is there.

    `live` is false while the revision is staged, after it was superseded, and once its document is
    deleted. `recorded_hash` is the state row's: the hash of the text that the chunk was made with.
    """

    state: ChunkState
    live: bool
    document: DocumentLabel
    chunk: StoredChunk | None
    recorded_hash: TextHash

    def is_intact(self) -> bool:
        """Say whether the chunk row is there, with the text that the state row tells of.

        The row's own hash proves nothing by itself: it may have been changed with the text.
        """
        chunk = self.chunk
        return chunk is not None and hash_bytes(chunk.data) == chunk.text_hash == self.recorded_hash


@dataclass(slots=True)
class PendingChunk:
    """A chunk that the index should hold and, as far as the store knows, does not.

    `text` is empty when a vector for its hash is already kept.
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
    chapter: str
    section: str

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
            chapter=self.chapter,
            section=self.section,
        )


@dataclass(slots=True)
class Point:
    """What the index is given: a vector, the hash of the text it was made from, and its place.

    There is no text in it, so no reader of the index can mistake it for the source of text.
    """

    chunk_id: ChunkId
    vector: Vector
    text_hash: TextHash
    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    kind: ChunkKind
    chapter: str
    section: str


@dataclass(frozen=True, slots=True)
class PointPlace:
    """Where a point says it belongs: what filters on documents, places and positions go by."""

    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: str
    section: str
    kind: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """How many points each tenant has in a collection, and how many points there are in all."""

    tenants: dict[str, int]
    points: int


@dataclass(frozen=True, slots=True)
class IndexedPoint:
    """A point as the index holds it, read back to be compared with the store.

    `place` is None where something of it is missing or not of its kind.
    """

    chunk_id: ChunkId
    text_hash: TextHash | None
    vector: Vector
    place: PointPlace | None = None
