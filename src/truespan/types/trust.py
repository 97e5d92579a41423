"""The states of trust of a found chunk, each with its own type.

    Hit ──verify──> Verified ──reveal──> Visible ──rank, pack──> bundle
     └────────────> VerificationFailure (reported, repaired) or superseded (ignored)

A `Hit` has no text, so unverified text cannot be shown.
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
    """Scores of a chunk in a blended search.

    `blend` is None for chunks after the blended candidates, which are ranked by similarity. It
    contains the gains from the text, which only the best candidates have.
    """

    bm25: float
    blend: float | None
    window: float | None = None
    """Share of the query's words that are close together, weighted by rarity."""
    late: float | None = None
    """Similarity of the chunk's words to the query's words, compared word by word."""
    feedback: float | None = None
    """Similarity of the chunk to the best results of a long query."""


class RerankScore(Struct, frozen=True):
    """Score of a chunk from a reranker, and its rank before and after, from 1.

    Higher is better. Scores of different models are not comparable.
    """

    model: str
    score: float
    before: int
    after: int


class Verified(Struct, frozen=True):
    """A chunk whose stored text is verified to be the text that was embedded."""

    chunk: StoredChunk
    document: DocumentLabel
    text: str
    score: float
    fused: FusedScore | None = None
    """Scores of a blended search."""
    rerank: RerankScore | None = None
    """Score from a reranker for the visible part; None before reranking."""
    language: str | None = None
    """Language in which the words of the text were compared; None if they were not."""


class Match(Struct, frozen=True):
    """The sentence and the words of a passage that match a query.

    `start`, `end` and the pairs of `words` are offsets in the text of the passage. `sid` is the
    sentence from `start` to `end`; all three are None if no sentence stands out.
    """

    sid: int | None = None
    start: int | None = None
    end: int | None = None
    words: tuple[tuple[int, int], ...] = ()


class OtherPlace(Struct, frozen=True):
    """Another place with the same text as a passage, word for word."""

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


class FoundText(SourceLabels, frozen=True, kw_only=True):
    """A found text: its place, the labels of its document, and how it was found."""

    chunk_id: ChunkId
    document: int
    source: str
    title: str
    first_sid: int
    last_sid: int
    start: int
    end: int
    page: int | None = None
    location: str | None = None
    """Pages, slides, lines, cells or rows of the text, such as `pages 3-4` or `A5:F9`."""
    fused: FusedScore | None = None
    """Scores of a blended search."""
    rerank: RerankScore | None = None
    """Score and ranks from a reranker; None if it was not reranked."""
    match: Match | None = None
    """Matching sentence and words; None unless requested."""
    best_sentence: SentencePlace | None = None
    """Place of the best matching sentence; None if no more exact than the place of the passage."""
    other_places: tuple[OtherPlace, ...] = ()
    """Other places of the same text that the caller may see and requested; empty in `contract`
    worlds, where each place is a separate result."""


class Visible(FoundText, frozen=True, kw_only=True):
    """The part of a verified chunk that the caller may see and requested.

    Only a `Visible` can be packed into a bundle. `revision` is None if a reader must not see it.
    """

    revision: int | None
    index: int
    chapter: str
    section: str
    kind: ChunkKind
    text: str
    text_hash: TextHash
    tokens: int
    score: float
    figure: FigureMark | None = None
    parent_id: ChunkId | None = None
    """For a figure, the id of the chunk around it, as the caller knows it."""
    embedded_hash: TextHash | None = None
    """Hash of the whole chunk, which the vector refers to, if only a part is visible."""
    compared_language: str | None = None
    """Language in which the words of the text were compared; None if they were not."""
    sentence_ends: bytes = b""
    """Packed sentence ends in the text, as in the chunk row; empty if unknown, as for a part."""


class FailureKind(StrEnum):
    """Reason why a hit could not be verified."""

    STALE = "stale_vector"
    MISSING = "missing_chunk"
    DAMAGED = "damaged_text"
    ORPHAN = "orphan_point"
    QUARANTINED = "quarantined_chunk"
    DOCUMENT = "damaged_document"


class VerificationFailure(Struct, frozen=True):
    """A hit that was not shown because it could not be verified.

    `point_hash` comes from the index, `row_hash` from the store. A repair acts only while both are
    unchanged.
    """

    kind: FailureKind
    chunk_id: ChunkId
    point_hash: TextHash
    row_hash: TextHash | None = None
    score: float = 0.0


class Repair(Struct, frozen=True):
    """A repair queued by a retrieval. Repairs are ordered by `number`."""

    number: int
    failure: VerificationFailure
