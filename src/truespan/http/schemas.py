"""What calls take and give, where that is not a type of the model itself."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from truespan.arguments import (
    Arguments,
    Book,
    DefaultFilterFields,
    FilterFields,
    Query,
    ReadingArguments,
    RetrievalArguments,
)
from truespan.maintenance.delete import PointsRemoved
from truespan.retrieval.positions import ReadingPosition
from truespan.types.answer import UsageRecord
from truespan.types.chunk import ChunkKind, ChunkState, DocumentLabel, FigureMark
from truespan.types.document import (
    AuditEntry,
    Document,
    DomainRecord,
    GenerationRecord,
    OutlineEntry,
    WorldStatus,
)
from truespan.types.job import Job, JobCounts, JobDocument, JobLine, JobState, Phase
from truespan.types.reading import LAST_FIRST, MOST_PAGE_SENTENCES, PAGE_SENTENCES
from truespan.types.request import MOST_TOP_K, RETRIEVAL_TOP_K
from truespan.types.scope import World

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
Label = Annotated[str, Meta(min_length=1, max_length=1000)]
DomainKey = Annotated[str, Meta(min_length=1, max_length=200, description="A domain's key.")]
LastRead = Annotated[
    int, Meta(ge=-1, le=LAST_FIRST, description="The last sentence read; -1 for none.")
]
ChunkName = Annotated[str, Meta(min_length=1, max_length=200, description="A chunk's id.")]


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request. What it does not know it refuses."""


class Shape(Struct, frozen=True, kw_only=True):
    """Part of a reply."""


class NewWorld(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A world to be made."""

    name: Name


class NewGeneration(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a new generation is built; what is left out is as the library has it."""

    embedding: Label | None = None
    chunking: Label | None = None


class DoctorRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the doctor is to do: look, or look and mend."""

    apply: bool = False


class AliasMove(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which alias is moved: a domain's, or the world's own."""

    domain: DomainKey | None = None


class Retrieving(RetrievalArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query, a selected text, or a query within a selected text; and filters."""

    near_misses: Annotated[bool, Meta(description="Tell what lay just below the floor.")] = False


class Missing(DefaultFilterFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chunk, and the request that did not bring it."""

    chunk_id: ChunkName
    query: Query
    top_k: Annotated[int, Meta(ge=1, le=MOST_TOP_K)] = RETRIEVAL_TOP_K


class Question(FilterFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, and in which documents its answer may be looked for."""

    query: Query
    fused: bool = False
    stream: Annotated[bool, Meta(description="Send the answer piece by piece.")] = False


class ChatQuestion(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question; the world need not be named where there is only one to ask."""

    world: Label | None = None


class ReadingQuestion(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to a book, as far as it has been read."""

    query: Query
    book: Book | None = None
    stream: bool = False


class ReadingMissing(ReadingArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chunk, and the reader's request that did not bring it."""

    chunk_id: ChunkName


class NewPosition(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a reader is: by a sentence, a chapter, or the words read last; one of them."""

    book: Label
    sid: LastRead | None = None
    through_chapter: Label | None = None
    passage: Annotated[str, Meta(min_length=1, max_length=5000)] | None = None
    current: bool = True


class PageQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sentences are wanted."""

    first: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    count: Annotated[int, Meta(ge=1, le=MOST_PAGE_SENTENCES)] = PAGE_SENTENCES


class BookQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which book is meant; the current one when left out."""

    book: Label | None = None


class BookPageQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sentences of which book are wanted."""

    book: Label | None = None


class UsageQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many records are wanted."""

    limit: Annotated[int, Meta(ge=0, le=10_000)] = 50


class EraseQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the files that held it are written anew as well."""

    erase: bool = True


class Permissions(Shape, frozen=True, kw_only=True):
    """What the caller may do. `unlimited` is said in so many words."""

    token: str | None
    worlds: list[str] | str
    verbs: list[str]
    readers: list[str] | str


class WorldEntry(Shape, frozen=True, kw_only=True):
    """A world, and which generation is in use; null while it holds nothing."""

    id: str
    name: str
    generation: int | None


class WorldList(Shape, frozen=True, kw_only=True):
    """The worlds that the caller sees."""

    worlds: list[WorldEntry]


class WorldDetail(WorldEntry, frozen=True, kw_only=True):
    """A world in numbers; they are null for whoever may not read all of it."""

    status: WorldStatus | None


class DocumentEntry(Shape, frozen=True, kw_only=True):
    """A document as it stands. Where its file lay is not told here."""

    number: int
    doc_id: str
    name: str
    kind: str
    title: str
    language: str
    version: str
    tags: list[str]
    chunking: str
    chunks: int
    embedded: int
    quarantined: int
    skipped: int
    characters: int
    sentences: int
    source_url: str | None
    visible: bool
    """Whether it can be asked already."""


class DocumentList(Shape, frozen=True, kw_only=True):
    """The documents of a world."""

    documents: list[DocumentEntry]


class DocumentDetail(Shape, frozen=True, kw_only=True):
    """A document with its structure, and what was derived from it and counted in it."""

    document: DocumentEntry
    outline: list[OutlineEntry]
    metadata: dict[str, Any]
    audit: list[AuditEntry]
    last_sid: int


class JobSummary(Shape, frozen=True, kw_only=True):
    """How a job stands."""

    id: str
    kind: str
    state: JobState
    phase: Phase
    created_at: float
    seen_at: float
    finished_at: float | None
    counts: JobCounts
    error: str | None


class OneJob(Shape, frozen=True, kw_only=True):
    """A job."""

    job: JobSummary


class JobDetail(Shape, frozen=True, kw_only=True):
    """A job, what became of its sources, and the last lines of its log."""

    job: JobSummary
    documents: list[JobDocument]
    lines: list[JobLine]


class JobList(Shape, frozen=True, kw_only=True):
    """The jobs of a world, the latest first."""

    jobs: list[JobSummary]


class GenerationList(Shape, frozen=True, kw_only=True):
    """The generations of a world."""

    generations: list[GenerationRecord]


class Removed(Shape, frozen=True, kw_only=True):
    """The number of what was removed."""

    removed: int


class FilesRemoved(Shape, frozen=True, kw_only=True):
    """Files that were removed, and how large they were."""

    files: int
    bytes: int


class Remains(Shape, frozen=True, kw_only=True):
    """What a look through all files gave: how much was looked through, and how much was found."""

    traces: int
    files: int
    bytes: int
    found: int


class DeletionReceipt(Shape, frozen=True, kw_only=True):
    """What a deletion did, and whether anything of it can still be found. It holds no text.

    `number` and `doc_id` are null where the whole world went. `erased` says that its bytes are gone
    from every file of the library; until then `waiting` has what is left to do, and why. `outside`
    has what lies in files of servers: those were asked at most, and `erased` is then false.
    """

    world: str
    world_id: str
    number: int | None
    doc_id: str | None
    name: str
    deleted_at: float
    rows: dict[str, int]
    redacted: dict[str, int]
    points: list[PointsRemoved]
    assets: FilesRemoved
    uploads: FilesRemoved
    erased: bool
    waiting: dict[str, str]
    outside: dict[str, str]
    check: Remains | None
    digest: str


class ChunkDetail(Shape, frozen=True, kw_only=True):
    """A chunk as the store holds it. Its own members are missing where only its state is left.

    `text` is null unless the bytes have the hash they were written with, which `intact` says.
    """

    state: ChunkState
    live: bool
    document: DocumentLabel
    intact: bool
    chunk_id: str | UnsetType = UNSET
    index: int | UnsetType = UNSET
    start: int | UnsetType = UNSET
    end: int | UnsetType = UNSET
    first_sid: int | UnsetType = UNSET
    last_sid: int | UnsetType = UNSET
    page: int | UnsetType | None = UNSET
    kind: ChunkKind | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    text_hash: str | UnsetType = UNSET
    dedupe_hash: str | UnsetType | None = UNSET
    figure: FigureMark | UnsetType | None = UNSET
    text: str | UnsetType | None = UNSET


class DomainList(Shape, frozen=True, kw_only=True):
    """The domains that the caller may ask."""

    domains: list[DomainRecord]


class UsageList(Shape, frozen=True, kw_only=True):
    """Answered requests, the newest first."""

    usage: list[UsageRecord]


class ReaderBooks(Shape, frozen=True, kw_only=True):
    """The books in which a reader has a position."""

    books: list[ReadingPosition]


class QueueStatus(Shape, frozen=True, kw_only=True):
    """Where a reader was put, without a word of the book."""

    document: int
    doc_id: str
    sid: int
    current: bool


class Health(Shape, frozen=True, kw_only=True):
    """The server runs."""

    status: str
    version: str


def world_entry(world: World) -> WorldEntry:
    """Return a world as an entry of a list."""
    return WorldEntry(
        id=world.id,
        name=world.name,
        generation=world.generation.number if world.generation else None,
    )


def document_entry(document: Document) -> DocumentEntry:
    """Return a document without where its file lay, which is the operator's business."""
    names = [field.name for field in structs.fields(DocumentEntry)]
    told = {name: getattr(document, name) for name in names if name not in ("tags", "visible")}
    return DocumentEntry(**told, tags=list(document.tags), visible=document.active is not None)


def job_summary(job: Job) -> JobSummary:
    """Return how a job stands, without what it was asked and who runs it."""
    names = [field.name for field in structs.fields(JobSummary)]
    return JobSummary(**{name: getattr(job, name) for name in names})
