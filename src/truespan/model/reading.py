"""Readers: how far each has come, and what their chunks are where stored ones reach too far."""

from __future__ import annotations

from dataclasses import dataclass

from truespan.model.chunk import Vector
from truespan.model.ids import ChunkId, TextHash
from truespan.model.profile import ChunkingProfile

NOTHING_READ = -1


@dataclass(frozen=True, slots=True)
class Position:
    """The last sentence a reader has read of a document, in the revision it was set for."""

    reader: str
    document: int
    doc_id: str
    name: str
    declared_title: str | None
    chunking: ChunkingProfile
    revision: int
    sid: int
    current: bool

    @property
    def title(self) -> str:
        """Return the title a reader may see: one that somebody declared, or the file's name."""
        return self.declared_title or self.name


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """A sentence as it was read from the store, with what it must match."""

    sid: int
    start: int
    end: int
    tokens: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class TailChunk:
    """A chunk made of read sentences alone, as if the book ended at the position."""

    index: int
    part: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    text: str
    text_hash: TextHash
    tokens: int
    chapter: str | None
    section: str | None
    page: int | None = None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where cutting can begin again: the last stored chunk that a position leaves whole."""

    chunk_id: ChunkId
    index: int
    start: int
    first_sid: int
