"""What a caller gets: passages with receipts, the context, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass

from truespan.model.chunk import ChunkKind
from truespan.model.ids import ChunkId, TextHash, WorldId


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a passage was checked against, at the moment of reading."""

    text_hash: TextHash
    profile: str
    generation: int
    revision: int


@dataclass(frozen=True, slots=True)
class Passage:
    """One verified result in its rich form."""

    chunk_id: ChunkId
    score: float
    document: int
    doc_id: str
    source: str
    title: str
    chapter: str
    section: str
    index: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    kind: ChunkKind
    text: str
    overlap_text: str
    token_count: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the caller should know although the request succeeded."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """How many hits were left out for one reason."""

    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many candidates were left after each stage."""

    in_scope: int
    fetched: int
    verified: int
    returned: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to a search. It has the same members whether it is full or empty."""

    world: WorldId
    results: tuple[Passage, ...]
    context: str
    requested_k: int
    effective_k: int
    floor: float
    funnel: Funnel
    skipped: tuple[Skipped, ...]
    warnings: tuple[Notice, ...]
    processing_time_ms: int
