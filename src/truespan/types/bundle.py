"""Results: passages with receipts, the context, and how they came about."""

from __future__ import annotations

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType, field

from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.request import Defaults, Mode
from truespan.types.text import SentencePlace
from truespan.types.trust import FusedScore, Match, OtherPlace, RerankScore


class Receipt(Struct, frozen=True):
    """What a passage was checked against, at the moment of reading."""

    text_hash: TextHash
    profile: str
    generation: int
    revision: int


class Passage(SourceLabels, frozen=True):
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
    chunk_type: ChunkKind
    text: str
    overlap_text: str
    token_count: int
    receipt: Receipt
    page: int | None = None
    location: str | None = None
    """The pages, slides, lines, cells or rows that it lies on, such as `pages 3-4` or `A5:F9`."""
    figure_id: str | None = None
    image_ref: str | None = None
    parent_chunk_id: ChunkId | None = None
    parent_chunk_local_index: int | None = None
    fused: FusedScore | None = None
    """In a fused search, what it was ranked by; `score` is always the similarity."""
    rerank: RerankScore | None = None
    """How a reranker moved it; None if none scored it."""
    match: Match | None = None
    """What in it matches the query; None unless the request asks for it."""
    best_sentence: SentencePlace | None = None
    """The place of the sentence that matches best; None where its own is as exact, or none does."""
    other_places: tuple[OtherPlace, ...] = ()
    """Other places of the same text within the scope. With the defaults `contract`, each place is
    a result of its own."""
    content: str | UnsetType = UNSET
    """The same as `text`. This member and the following are there in `contract` worlds only."""
    start_char: int | UnsetType = field(default=UNSET, name="startChar")
    end_char: int | UnsetType = field(default=UNSET, name="endChar")
    space_id: str | UnsetType = UNSET
    """The id of the world."""


class Notice(Struct, frozen=True):
    """Something the caller should know although the request succeeded."""

    code: str
    message: str


class Skipped(Struct, frozen=True):
    """How many hits were left out for one reason."""

    code: str
    count: int


class Funnel(Struct, frozen=True):
    """How many candidates were left after each stage."""

    in_scope: int
    fetched: int
    verified: int
    returned: int


class RerankReport(Struct, frozen=True):
    """What a reranker did to the order of a result.

    `candidates` is how many chunks it was given, `moved` how many of them changed their place.
    `failure` is the code of the error if it failed; then the order is the one without it.
    """

    model: str
    candidates: int
    moved: int
    failure: str | None = None


class SearchResult(Struct, frozen=True):
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
    floor_discriminates: bool | None = None
    """Whether the floor keeps unrelated text out under this profile; None without a calibration."""
    rerank: RerankReport | None = None
    """What a reranker changed; None if none was used."""
    mode: Mode = Mode.MEANING
    """How was searched."""
    defaults: Defaults = Defaults.CONTRACT
    """The defaults of the world."""
    chunk_text: str | UnsetType = UNSET
    """The same as `context`, in `contract` worlds only."""


class WhyNot(StrEnum):
    """Why a chunk is not among the results, in the order of the checks."""

    RETURNED = "returned"
    ABSENT = "absent"
    NOT_EMBEDDED = "not_embedded"
    NOT_TRUSTED = "not_trusted"
    FILTERED = "filtered_out"
    BELOW_FLOOR = "below_floor"
    NO_WORDS = "no_words"
    """Words alone name the candidates, and the chunk has no word of the query, or no phrase."""
    UNRELATED = "unrelated_to_selection"
    EXCLUDED = "excluded_kind"
    DUPLICATE = "duplicate_passage"
    OVER_BUDGET = "over_budget"
    OUTRANKED = "outranked"


class Reason(Struct, frozen=True):
    """Why a chunk is not among the results, with its score if it has one.

    `warnings` say if the search was not exact, so that it may have missed the chunk.
    """

    code: WhyNot
    score: float | None = None
    warnings: tuple[Notice, ...] = ()


class BundleStatus(StrEnum):
    """How a retrieval ended."""

    SUCCESS = "success"
    PARTIAL = "partial"
    NO_MATCHES = "no_matches"
    ERROR = "error"


class RetrievedChunk(Struct, frozen=True):
    """One chunk of a bundle; for a reader, what of it has been read.

    `source_url` is the declared URL, else the path; with the defaults `contract` it is always a
    URL, and without a declared one the address of the document.
    """

    content: str
    source_url: str
    chapter: str
    section: str
    chunk_id: ChunkId
    relevance_score: float
    token_count: int


class SourceNote(SourceLabels, frozen=True):
    """Where a retrieved chunk stands and what it was checked against; one for each, in order.

    A reader's has no revision: a number that counts changes would tell of what lies ahead.
    """

    chunk_id: ChunkId
    document: int
    source: str
    title: str
    first_sid: int
    last_sid: int
    start: int
    end: int
    text_hash: TextHash
    profile: str
    generation: int
    revision: int | None
    page: int | None = None
    location: str | None = None
    """The pages, slides, lines, cells or rows that it lies on, such as `pages 3-4` or `A5:F9`."""
    fused: FusedScore | None = None
    rerank: RerankScore | None = None
    chunk_type: ChunkKind = ChunkKind.TEXT
    match: Match | None = None
    best_sentence: SentencePlace | None = None
    other_places: tuple[OtherPlace, ...] = ()


class FigureNote(SourceLabels, frozen=True):
    """A figure that was found. It is shown to people; a model gets the text around it instead.

    `parent_chunk_id` is the text chunk in which it stands, `description` what is said of it.
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
    """A chunk within the caller's rights that lay just below the floor."""

    chunk_id: ChunkId
    score: float
    source: str
    chapter: str
    path: str


class Located(Struct, frozen=True):
    """Where a selected text stands."""

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
    """How a bundle came about."""

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
    mode: Mode = Mode.MEANING
    defaults: Defaults = Defaults.CONTRACT


class Problem(Struct, frozen=True):
    """Why a bundle failed."""

    code: str
    message: str
    retryable: bool


class ContextBundle(Struct, frozen=True):
    """Context for a model: chunks by relevance, the text rendered from them, and the account.

    `context` says nothing twice and holds text only; for a reader it is in reading order.
    """

    retrieved_chunks: tuple[RetrievedChunk, ...]
    metadata: BundleMetadata
    status: BundleStatus
    total_tokens: int
    context: str
    error: Problem | None = None
