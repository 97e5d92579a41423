"""Results of searches and retrievals: passages with receipts, context and explanation."""

from __future__ import annotations

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType, field

from truespan.core.records import copy_fields
from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.note import FoundNote
from truespan.types.origin import Result
from truespan.types.request import Defaults, Mode
from truespan.types.trust import FoundText


class Receipt(Struct, frozen=True):
    """The stored values that a passage was verified against when it was read."""

    text_hash: TextHash
    profile: str
    generation: int
    revision: int


class Passage(FoundText, frozen=True, kw_only=True):
    """A verified result of a search with all fields."""

    score: float
    doc_id: str
    chapter: str
    section: str
    index: int
    chunk_type: ChunkKind
    text: str
    overlap_text: str
    token_count: int
    receipt: Receipt
    figure_id: str | None = None
    image_ref: str | None = None
    parent_chunk_id: ChunkId | None = None
    parent_chunk_local_index: int | None = None
    text_language: str | None = None
    """Language of the text itself, if `language` is another."""
    content: str | UnsetType = UNSET
    """Same as `text`. Set in `contract` worlds only, like the fields below."""
    start_char: int | UnsetType = field(default=UNSET, name="startChar")
    end_char: int | UnsetType = field(default=UNSET, name="endChar")
    space_id: str | UnsetType = UNSET
    """Id of the world."""


class Notice(Struct, frozen=True):
    """A warning about a request that succeeded."""

    code: str
    message: str


NOTHING_CLOSE = Notice(
    "nothing_close",
    "Nothing that has been read is close to the query. Use names or words of the book.",
)


class Skipped(Struct, frozen=True):
    """Number of hits left out for one reason."""

    code: str
    count: int


class Funnel(Struct, frozen=True):
    """Number of candidates after each stage."""

    in_scope: int
    fetched: int
    verified: int
    returned: int


class RerankReport(Struct, frozen=True):
    """Effect of a reranker on a result.

    `candidates` is the number of chunks it scored, `moved` the number that changed rank. `failure`
    is the error code if it failed; the order is then unchanged.
    """

    model: str
    candidates: int
    moved: int
    failure: str | None = None


class SearchResult(Result, frozen=True):
    """Result of a search. It has the same fields if nothing was found."""

    world: WorldId
    passages: tuple[Passage, ...]
    context: str
    requested_k: int
    effective_k: int
    floor: float
    funnel: Funnel
    skipped: tuple[Skipped, ...]
    warnings: tuple[Notice, ...]
    processing_time_ms: int
    floor_discriminates: bool | None = None
    """Whether the floor excludes unrelated text for this profile; None without a calibration."""
    rerank: RerankReport | None = None
    """Effect of the reranker; None without a reranker."""
    mode: Mode = Mode.VECTOR
    """Search mode that was used."""
    defaults: Defaults = Defaults.CONTRACT
    """Defaults of the world."""
    chunk_text: str | UnsetType = UNSET
    """Same as `context`, in `contract` worlds only."""


class WhyNot(StrEnum):
    """Reason why a chunk is not in the results, in the order of the checks."""

    RETURNED = "returned"
    ABSENT = "absent"
    NOT_EMBEDDED = "not_embedded"
    NOT_TRUSTED = "not_trusted"
    OUTSIDE_AUDIENCE = "outside_audience"
    """The caller has no label of the document; only the owner of the library gets this reason."""
    FILTERED = "filtered_out"
    BELOW_FLOOR = "below_floor"
    NO_WORDS = "no_words"
    """In keyword mode, the chunk contains no word, or no phrase, of the query."""
    UNRELATED = "unrelated_to_selection"
    EXCLUDED = "excluded_kind"
    DUPLICATE = "duplicate_passage"
    OVER_BUDGET = "over_budget"
    OUTRANKED = "outranked"


class Reason(Struct, frozen=True):
    """Reason why a chunk is not in the results, with its score if it has one.

    `warnings` report an inexact search, which may have missed the chunk.
    """

    code: WhyNot
    score: float | None = None
    warnings: tuple[Notice, ...] = ()


class BundleStatus(StrEnum):
    """Outcome of a retrieval."""

    SUCCESS = "success"
    PARTIAL = "partial"
    NO_MATCHES = "no_matches"
    ERROR = "error"


class RetrievedChunk(Struct, frozen=True):
    """A chunk of a bundle; for a reader, the part of it that has been read.

    `source_url` is the declared URL, else the path. In `contract` worlds it is the declared URL,
    else the URI of the document in Truespan.
    """

    content: str
    source_url: str
    chapter: str
    section: str
    chunk_id: ChunkId
    relevance_score: float
    token_count: int


class SourceNote(FoundText, frozen=True, kw_only=True):
    """Place and verification of a retrieved chunk; one for each chunk, in order.

    `revision` is None for a reader: a change count would reveal something about unread text.
    """

    text_hash: TextHash
    profile: str
    generation: int
    revision: int | None
    chunk_type: ChunkKind = ChunkKind.TEXT
    text_language: str | None = None
    """Language of the text itself, if `language` is another."""


class ContextPassage(SourceNote, frozen=True, kw_only=True):
    """A chunk of a bundle together with its note: text, score and place in one record."""

    text: str
    score: float
    chapter: str
    section: str
    token_count: int


class FigureNote(SourceLabels, frozen=True):
    """A figure that was found, for display; a model gets the text around it instead.

    `parent_chunk_id` is the text chunk around it, `description` the text of the figure chunk.
    """

    chunk_id: ChunkId
    figure_id: str
    image_ref: str | None
    parent_chunk_id: ChunkId | None
    parent_chunk_local_index: int | None
    description: str
    document: int
    source: str
    title: str
    chapter: str
    section: str
    page: int | None
    relevance_score: float
    chunk_type: ChunkKind = ChunkKind.FIGURE
    location: str | None = None


class NearMiss(Struct, frozen=True):
    """A chunk just below the floor that the caller may see."""

    chunk_id: ChunkId
    score: float
    source: str
    chapter: str
    path: str


class Located(Struct, frozen=True):
    """Place of a selected text."""

    document: int
    source: str
    path: str
    chapter: str
    section: str
    first_sid: int
    last_sid: int
    start: int
    end: int


class BundleMetadata(Struct, frozen=True):
    """Explanation of a bundle: counts, warnings and sources."""

    query_type: str
    processing_time_ms: int
    original_top_k: int
    returned_count: int
    trace: tuple[str, ...]
    funnel: Funnel
    skipped: tuple[Skipped, ...]
    warnings: tuple[Notice, ...]
    near_misses: tuple[NearMiss, ...]
    sources: tuple[SourceNote, ...]
    located: tuple[Located, ...]
    floor: float | None
    figures: tuple[FigureNote, ...] = ()
    floor_discriminates: bool | None = None
    rerank: RerankReport | None = None
    mode: Mode = Mode.VECTOR
    defaults: Defaults = Defaults.CONTRACT


class Problem(Struct, frozen=True):
    """Error of a failed bundle."""

    code: str
    message: str
    retryable: bool


class ContextBundle(Result, frozen=True):
    """Context for a model: chunks by relevance, the text rendered from them, and metadata.

    `context` is text without repetitions; for a reader it is in reading order.
    """

    retrieved_chunks: tuple[RetrievedChunk, ...]
    metadata: BundleMetadata
    status: BundleStatus
    total_tokens: int
    context: str
    error: Problem | None = None
    notes: tuple[FoundNote, ...] | UnsetType = UNSET
    """Notes of the reader with words of the query, the best first, if they were requested."""

    @property
    def passages(self) -> tuple[ContextPassage, ...]:
        """`retrieved_chunks`, each with its note of `metadata.sources`."""
        return tuple(
            copy_fields(
                ContextPassage, note, chunk, text=chunk.content, score=chunk.relevance_score
            )
            for chunk, note in zip(self.retrieved_chunks, self.metadata.sources, strict=True)
        )
