"""The states of trust that a found chunk goes through, each with its own type.

    Hit ──verify──> Verified ──reveal──> Visible ──rank, pack──> bundle
     └────────────> VerificationFailure (reported, repaired) or superseded (ignored)

A `Hit` has no text, so text that was never checked cannot be shown.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from truespan.types.chunk import ChunkKind, DocumentLabel, FigureMark, SourceLabels, StoredChunk
from truespan.types.ids import ChunkId, TextHash
from truespan.types.text import SentencePlace


class Hit(Struct, frozen=True):
    """A claim by the index: this chunk, this score, when its text had this hash."""

    chunk_id: ChunkId
    score: float
    text_hash: TextHash


class FusedScore(Struct, frozen=True):
    """How the words of a query and its similarity together rank a chunk.

    `blend` is None for a chunk past the candidates that were blended: it follows by similarity.
    """

    bm25: float
    blend: float | None


class RerankScore(Struct, frozen=True):
    """How a reranker scored a chunk, and its place before and after, counted from 1.

    Scores of different models cannot be compared; higher is better.
    """

    model: str
    score: float
    before: int
    after: int


class Verified(Struct, frozen=True):
    """A chunk whose stored text is, at this moment, the text that was embedded."""

    chunk: StoredChunk
    document: DocumentLabel
    text: str
    score: float
    fused: FusedScore | None = None
    """In a fused search, what it is ranked by."""
    rerank: RerankScore | None = None
    """Set once a reranker has scored what is visible of it."""


class Match(Struct, frozen=True):
    """What in a passage matches a query: a sentence, and words.

    `start` and `end` are characters of the passage's text, as are the pairs of `words`. `sid` is
    the sentence between them; all three are None where none stands out.
    """

    sid: int | None = None
    start: int | None = None
    end: int | None = None
    words: tuple[tuple[int, int], ...] = ()


class OtherPlace(Struct, frozen=True):
    """Another place where the text of a passage stands, word for word."""

    chunk_id: ChunkId
    document: int
    source: str
    title: str
    chapter: str
    section: str
    first_sid: int
    last_sid: int
    start: int
    end: int
    source_url: str
    path: str
    page: int | None = None
    location: str | None = None


class Visible(Struct, frozen=True):
    """The part of a verified chunk that this caller may see and asked for.

    Only this can be packed into a bundle. `revision` is None where a reader must not see it.
    """

    chunk_id: ChunkId
    document: int
    source: str
    title: str
    revision: int | None
    index: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    chapter: str
    section: str
    kind: ChunkKind
    text: str
    text_hash: TextHash
    tokens: int
    score: float
    labels: SourceLabels
    page: int | None = None
    location: str | None = None
    """The label of the pages, slides, lines, cells or rows that it lies on."""
    figure: FigureMark | None = None
    parent_id: ChunkId | None = None
    """For a figure, the id under which this caller knows the chunk it stands in."""
    fused: FusedScore | None = None
    rerank: RerankScore | None = None
    """Set once a reranker has scored it."""
    match: Match | None = None
    """Set where a request asks what in the passage matches."""
    embedded_hash: TextHash | None = None
    """If only a part of the chunk is visible: the hash of all of it, which its vector has."""
    sentence_ends: bytes = b""
    """Ends of its sentences in its text, as `NewChunk` has them in the rows; empty if that is not
    known, as for a part of a chunk."""
    best_sentence: SentencePlace | None = None
    """The place of the sentence that matches best; None where its own is as exact, or none does."""
    other_places: tuple[OtherPlace, ...] = ()
    """Other places of the same text, among what this caller may see and asked for."""


class FailureKind(StrEnum):
    """Why a hit could not be verified."""

    STALE = "stale_vector"
    MISSING = "missing_chunk"
    DAMAGED = "damaged_text"
    ORPHAN = "orphan_point"
    QUARANTINED = "quarantined_chunk"
    DOCUMENT = "damaged_document"


class VerificationFailure(Struct, frozen=True):
    """A hit that was not shown. `point_hash` is what the index said, `row_hash` what the store
    recorded; a repair acts only while both still hold."""

    kind: FailureKind
    chunk_id: ChunkId
    point_hash: TextHash
    row_hash: TextHash | None = None
    score: float = 0.0


class Repair(Struct, frozen=True):
    """A repair that a retrieval queued, ordered by `number`."""

    number: int
    failure: VerificationFailure
