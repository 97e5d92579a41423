"""Types of requests and replies of the HTTP API: they validate, and they are the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert, field
from msgspec.structs import asdict

from truespan.core.strict_json import JsonError, parse_json
from truespan.core.timestamp import IsoTime
from truespan.engine.documents import Documents
from truespan.engine.jobs import Jobs
from truespan.errors import InvalidArgument
from truespan.evaluation.compare import ALLOWED_DROP
from truespan.maintenance.delete import PointsRemoved
from truespan.types import decision as decisions
from truespan.types.answer import Citation, Quote, Support
from truespan.types.chunk import ChunkKind, ChunkState, DocumentLabel, FigureMark
from truespan.types.conversation import (
    CONVERSATION_LIMIT,
    MAX_CONVERSATIONS,
    ConversationInfo,
)
from truespan.types.document import (
    DEFAULT_FACET_VALUES,
    MAX_DOCUMENT_SEARCH_LENGTH,
    MAX_FACET_VALUES,
    MAX_PAGE_DOCUMENTS,
    AuditEntry,
    Document,
    DocumentStatus,
    DomainRecord,
    OutlineEntry,
    WorldStatus,
)
from truespan.types.job import Job, JobCounts, JobDocument, JobState, Phase
from truespan.types.metadata import read_metadata
from truespan.types.profile import Distance
from truespan.types.reading import (
    LAST_FIRST,
    MAX_PAGE_CHUNKS,
    MAX_PAGE_SENTENCES,
    PAGE_CHUNKS,
    PAGE_SENTENCES,
    ReadingPosition,
    RevisionChunks,
)
from truespan.types.request import (
    MAX_TOP_K,
    RETRIEVAL_TOP_K,
    Defaults,
    Mode,
)
from truespan.types.scope import MAX_GENERATION, Generation, World
from truespan.types.source import MAX_URL_LENGTH, UPLOAD
from truespan.wire.arguments import (
    METADATA_KEY,
    Arguments,
    Book,
    DefaultFilterFields,
    FilterFields,
    PassageFields,
    Query,
    ReadingArguments,
    Rerank,
    RetrievalArguments,
    SearchMode,
)
from truespan.wire.serialize import members, record_data

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation

WorldName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
WorldDefaults = Annotated[
    Literal["recommended", "contract"],
    Meta(description="What the requests of the world do unless they say otherwise."),
]
Label = Annotated[str, Meta(min_length=1, max_length=1000)]
GenerationNumber = Annotated[
    int, Meta(ge=0, le=MAX_GENERATION, description="The number of a generation.")
]
DomainKey = Annotated[str, Meta(min_length=1, max_length=200, description="A domain's key.")]
LastRead = Annotated[
    int, Meta(ge=-1, le=LAST_FIRST, description="The last sentence read; -1 for none.")
]
ChunkName = Annotated[str, Meta(min_length=1, max_length=200, description="A chunk's id.")]


NOT_BLANK = r"[^\s\u001c-\u001f\u0085]"
"""Matches a character that Python does not count as white space."""
_STRING = {"type": "string"}


class NewWorld(Arguments, frozen=True, kw_only=True):
    """A world to create."""

    name: WorldName
    defaults: WorldDefaults | None = None


class ChosenDefaults(Arguments, frozen=True, kw_only=True):
    """What the requests of a world do unless they say otherwise."""

    defaults: WorldDefaults


class NewGeneration(Arguments, frozen=True, kw_only=True):
    """How to build a new generation. Members left out default to the library's settings."""

    embedding: Label | None = None
    chunking: Label | None = None


class DoctorRequest(Arguments, frozen=True, kw_only=True):
    """Whether the doctor only reports, or also repairs."""

    apply: bool = False


class AliasMove(Arguments, frozen=True, kw_only=True):
    """Which alias to move: that of a domain, or the world's own."""

    domain: DomainKey | None = None


class RetrieveRequest(RetrievalArguments, frozen=True, kw_only=True):
    """A query, a selected text, or a query within a selected text; and filters."""

    near_misses: Annotated[bool, Meta(description="Include what scored just below the floor.")] = (
        False
    )

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"required": ["query"], "properties": {"query": {**_STRING, "pattern": NOT_BLANK}}},
            {
                "required": ["selected_text"],
                "properties": {
                    "query": {"type": "null"},
                    "selected_text": {**_STRING, "pattern": NOT_BLANK},
                    "mode": {"enum": [None, "auto", "vector"]},
                    "rerank": {"enum": [None, False]},
                },
            },
        ]
    }
    """Which members go together. The engine refuses other combinations with its own errors."""


class WhyNotRequest(DefaultFilterFields, frozen=True, kw_only=True):
    """A chunk, and the retrieve request that did not return it."""

    chunk_id: ChunkName
    query: Query
    top_k: Annotated[int, Meta(ge=1, le=MAX_TOP_K)] = RETRIEVAL_TOP_K
    mode: SearchMode | None = None
    rerank: Rerank | None = None


class Question(FilterFields, frozen=True, kw_only=True):
    """A question, and filters for the documents to answer from."""

    query: Query
    mode: SearchMode | None = None
    rerank: Rerank | None = None
    stream: Annotated[bool, Meta(description="Send the answer as server-sent events.")] = False


class ChatQuestion(Question, frozen=True, kw_only=True):
    """A question. The world may be left out if there is only one."""

    world: Label | None = None
    conversation_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The conversation that the question continues, or 'new' to start one; "
                "null for a question of its own.",
            ),
        ]
        | None
    ) = None


class ReaderFollowUp(PassageFields, frozen=True, kw_only=True):
    """A further question about the book of a conversation."""

    query: Query
    mode: SearchMode | None = None
    rerank: Rerank | None = None
    stream: bool = False


class ReaderQuestion(ReaderFollowUp, frozen=True, kw_only=True):
    """A question about the part of a book that the reader has read."""

    book: Book | None = None


class ReaderWhyNotRequest(ReadingArguments, frozen=True, kw_only=True):
    """A chunk, and the reader's request that did not return it."""

    chunk_id: ChunkName


MAX_GOLDEN_TEXT = 256 << 10
"""Maximum number of characters of golden queries in a request. Parsing them takes a second."""


class EvaluationRequest(Arguments, frozen=True, kw_only=True):
    """Golden queries, and how to ask them: in several modes, or of two generations."""

    golden: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_GOLDEN_TEXT,
            description="Golden queries as YAML or JSON Lines, as in a file.",
        ),
    ]
    modes: Annotated[
        list[SearchMode],
        Meta(description="Modes to compare; none for the default of the world.", max_length=3),
    ] = field(default_factory=list)
    generation: GenerationNumber | None = None
    against: (
        Annotated[GenerationNumber, Meta(description="Compare with this one, as the old.")] | None
    ) = None
    allowed_drop: Annotated[
        float, Meta(ge=0.0, le=1.0, description="How far a mean may fall below the old one.")
    ] = ALLOWED_DROP
    rerank: Rerank | None = None
    reader: Annotated[Label, Meta(description="Ask as this reader of the current book.")] | None = (
        None
    )
    stream: Annotated[bool, Meta(description="Send progress as server-sent events.")] = False


class NewPosition(Arguments, frozen=True, kw_only=True):
    """A reader's position: exactly one of a sentence, a chapter, or the passage read last."""

    book: Label
    sid: LastRead | None = None
    through_chapter: Label | None = None
    passage: Annotated[str, Meta(min_length=1, max_length=5000)] | None = None
    current: bool = True

    SCHEMA: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["sid"], "properties": {"sid": {"type": "integer"}}},
            {"required": ["through_chapter"], "properties": {"through_chapter": _STRING}},
            {"required": ["passage"], "properties": {"passage": _STRING}},
        ]
    }


class PageQuery(Arguments, frozen=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_SENTENCES)] = PAGE_SENTENCES


_LIST_AS_JSON = "A JSON array of strings."


class DocumentFilterQuery(Arguments, frozen=True, kw_only=True):
    """Filters that choose documents, in a query string."""

    language: Label | None = None
    version: Label | None = None
    source: Label | None = None
    documents: Annotated[str, Meta(description=_LIST_AS_JSON)] | None = None
    tags: Annotated[str, Meta(description=_LIST_AS_JSON)] | None = None
    kinds: Annotated[str, Meta(description=_LIST_AS_JSON)] | None = None
    metadata: Annotated[str, Meta(description="A JSON object, as in a search.")] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that were given, with what is JSON read; raises InvalidArgument."""
        left_out = (None, UNSET)
        values = {name: value for name, value in asdict(self).items() if value not in left_out}
        for name in values.keys() & {"keys", "documents", "tags", "kinds", "metadata"}:
            try:
                values[name] = parse_json(values[name])
            except JsonError as error:
                raise InvalidArgument(f"The argument {name!r} is wrong: {error}.") from None
            if not isinstance(values[name], dict if name == "metadata" else list):
                kind = "object" if name == "metadata" else "array"
                raise InvalidArgument(f"The argument {name!r} is wrong: it is no JSON {kind}.")
        return values


class FacetQuery(DocumentFilterQuery, frozen=True, kw_only=True):
    """What to count, and the filters that choose the documents."""

    keys: Annotated[str, Meta(description=f"Labels and keys. {_LIST_AS_JSON}")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_FACET_VALUES)] = DEFAULT_FACET_VALUES


class DocumentQuery(DocumentFilterQuery, frozen=True, kw_only=True):
    """Which documents to list, in which order, and how many; all of them without `count`."""

    search: (
        Annotated[
            str,
            Meta(
                max_length=MAX_DOCUMENT_SEARCH_LENGTH,
                description="Words in title, path, tags, URL or metadata, or the whole id.",
            ),
        ]
        | None
    ) = None
    status: Literal["ready", "ingesting", "updating", "incomplete", "damaged"] | UnsetType = UNSET
    sort: Literal[
        "number",
        "title",
        "path",
        "status",
        "kind",
        "language",
        "version",
        "characters",
        "chunks",
    ] = "number"
    descending: bool = False
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_DOCUMENTS)] | None = None


class ChunkQuery(Arguments, frozen=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_CHUNKS)] = PAGE_CHUNKS


class BookQuery(Arguments, frozen=True, kw_only=True):
    book: Label | None = None


class BookPageQuery(PageQuery, frozen=True, kw_only=True):
    book: Label | None = None


class GenerationQuery(Arguments, frozen=True, kw_only=True):
    """Which generation to ask; by default the world's, or that of the domain."""

    generation: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_GENERATION,
                description="The number of the generation to ask instead of the default; for "
                "callers who may read the whole world.",
            ),
        ]
        | None
    ) = None


class ReaderQuery(GenerationQuery, frozen=True, kw_only=True):
    """Which generation to ask, and from which position instead of the recorded one."""

    sid: (
        Annotated[
            int,
            Meta(
                ge=-1,
                le=LAST_FIRST,
                description="Answer as if this were the last sentence read of the book; nothing is "
                "recorded. For callers who may read the whole world.",
            ),
        ]
        | None
    ) = None


Highlight = Annotated[
    bool, Meta(description="Whether each passage says which of its sentences and words match.")
]


class PassageQuery(GenerationQuery, frozen=True, kw_only=True):
    """Which generation to ask, and whether passages say what in them matches."""

    highlight: Highlight = False


class ReaderPassageQuery(ReaderQuery, frozen=True, kw_only=True):
    """Which generation and position to ask from, and whether passages say what in them matches."""

    highlight: Highlight = False


class UsageQuery(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=0, le=10_000)] = 50


class ConversationsQuery(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_CONVERSATIONS)] = CONVERSATION_LIMIT
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0


class ReaderConversationsQuery(ConversationsQuery, frozen=True, kw_only=True):
    book: Label | None = None


class ExportQuery(Arguments, frozen=True, kw_only=True):
    format: Annotated[Literal["json", "markdown"], Meta(description="The format of the file.")] = (
        "json"
    )


class EraseQuery(Arguments, frozen=True, kw_only=True):
    """Whether to also erase the deleted data from the library's files."""

    erase: bool = True


class Permissions(Struct, frozen=True, kw_only=True):
    """What the caller may do. `unlimited` means every world or reader."""

    token: str | None
    worlds: list[str] | str
    verbs: list[str]
    readers: list[str] | str
    default_world: str | None


class WorldEntry(Struct, frozen=True, kw_only=True):
    """A world and its active generation, which is null while the world is empty."""

    id: str
    name: str
    generation: int | None
    defaults: Defaults


class WorldList(Struct, frozen=True, kw_only=True):
    """The worlds that the caller may see."""

    worlds: list[WorldEntry]


class WorldDetail(WorldEntry, frozen=True, kw_only=True):
    """A world and its statistics, which are null for callers who may not read all of it."""

    status: WorldStatus | None


class DocumentEntry(Struct, frozen=True, kw_only=True):
    """A document. `path` begins with the folder that was ingested, or is the name of an upload."""

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
    metadata: dict[str, Any]
    """What was declared."""
    path: str
    visible: bool
    """Whether it can be searched yet."""
    status: DocumentStatus
    revision: int | None
    """The active revision."""
    uploaded: bool
    """Whether it is an upload, and not a file of the server."""
    manifest: bool
    """Whether a manifest named it."""
    provider: str | UnsetType = UNSET
    """Of its embedding model. This member and the following are there in `contract` worlds only."""
    model: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    space_id: str | UnsetType = UNSET
    """The id of the world."""


class DocumentList(Struct, frozen=True, kw_only=True):
    """Documents of a world, from the one at `offset` on.

    `total` counts all that match, `statuses` those of each status, whichever was asked for.
    """

    documents: list[DocumentEntry]
    offset: int
    total: int
    statuses: dict[DocumentStatus, int]


class ChunkList(RevisionChunks, frozen=True, kw_only=True):
    """Chunks of a document in reading order, and the revision and generation they belong to."""

    created_at: IsoTime


class LabelChanges(Arguments, frozen=True, kw_only=True):
    """Labels to change; null removes one, and what is left out stays."""

    language: Label | UnsetType = UNSET
    version: Label | UnsetType | None = UNSET
    tags: list[Label] | UnsetType | None = UNSET
    source_url: Label | UnsetType | None = UNSET
    metadata: (
        Annotated[
            dict[str, Any],
            Meta(
                description="Keys to add or replace; a key with null is removed.",
                extra_json_schema={"propertyNames": METADATA_KEY},
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


MAX_PAGES_OF_REQUEST = 1000
Address = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]


MAX_TEXTS_OF_REQUEST = 1000
"""Maximum number of texts in a request."""


class PagesRequest(Arguments, frozen=True, kw_only=True):
    """Web pages to ingest, by their addresses or as a sitemap lists them."""

    urls: Annotated[list[Address], Meta(max_length=MAX_PAGES_OF_REQUEST)] = field(
        default_factory=list
    )
    sitemap: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_URL_LENGTH,
                description="The address of a sitemap that lists the pages instead.",
            ),
        ]
        | None
    ) = None
    prune: Annotated[
        bool, Meta(description="Remove documents of pages that are gone, or no longer listed.")
    ] = False
    kind: Literal["document", "book"] | None = None
    language: Label | None = None
    version: Label | None = None
    tags: list[Label] | None = None
    ocr: Annotated[bool, Meta(description="Recognise the text of pictures.")] | None = None


class TextsRequest(Arguments, frozen=True, kw_only=True):
    """Texts to ingest; each becomes a document."""

    texts: Annotated[list[str], Meta(min_length=1, max_length=MAX_TEXTS_OF_REQUEST)]
    ids: (
        Annotated[
            list[Label],
            Meta(
                description="A name for each text; another text of the same name is a new "
                "revision. Without names, texts are named by their hashes."
            ),
        ]
        | None
    ) = None
    metadata: Annotated[list[dict[str, Any]], Meta(description="Metadata of each text.")] | None = (
        None
    )
    kind: Literal["document", "book"] | None = None
    language: Label | None = None
    version: Label | None = None
    tags: list[Label] | None = None
    chunking: Label | None = None


class DocumentDetail(Struct, frozen=True, kw_only=True):
    """A document with its outline, its derived metadata and its sanitiser counts."""

    document: DocumentEntry
    outline: list[OutlineEntry]
    metadata: dict[str, Any]
    audit: list[AuditEntry]
    last_sid: int


class JobSummary(Struct, frozen=True, kw_only=True):
    """The state of a job."""

    id: str
    kind: str
    state: JobState
    phase: Phase
    created_at: IsoTime
    seen_at: IsoTime
    finished_at: IsoTime | None
    counts: JobCounts
    error: str | None
    resumable: bool
    """Whether it can be resumed: it did not complete, and its files are still there."""


class AcceptedJob(Struct, frozen=True, kw_only=True):
    """A job."""

    job: JobSummary


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a job's log. It contains no document text and no key."""

    at: IsoTime
    level: str
    line: str


class JobDetail(Struct, frozen=True, kw_only=True):
    """A job, the outcome of each source, and the last lines of its log."""

    job: JobSummary
    documents: list[JobDocument]
    lines: list[LogLine]


class JobList(Struct, frozen=True, kw_only=True):
    """The jobs of a world, newest first."""

    jobs: list[JobSummary]


class GenerationEntry(Struct, frozen=True, kw_only=True):
    """A generation in numbers. `missing` counts documents that it has no chunks of yet."""

    generation: Generation
    created_at: IsoTime
    documents: int
    chunks: int
    embedded: int
    pending: int
    quarantined: int
    missing: int
    is_default: bool
    domains: tuple[str, ...]


class GenerationList(Struct, frozen=True, kw_only=True):
    """The generations of a world."""

    generations: list[GenerationEntry]


class RemovedGeneration(Struct, frozen=True, kw_only=True):
    """The number of the removed generation."""

    removed: int


class FilesRemoved(Struct, frozen=True, kw_only=True):
    """How many files were removed, and their size."""

    files: int
    bytes: int


class EraseCheck(Struct, frozen=True, kw_only=True):
    """The search of all files for deleted data: how much was searched, and how much was found."""

    traces: int
    files: int
    bytes: int
    found: int


class DeletionReceipt(Struct, frozen=True, kw_only=True):
    """What a deletion removed, and whether any of it can still be found. It contains no text.

    `number` and `doc_id` are null if a whole world or conversations were deleted. `conversation`
    and `reader` say which conversations, if not all of the world. `erased` means that the data is
    gone from every file of the library; until then `waiting` says what is left to do and why.
    `outside` lists data in the files of database servers, which cannot be erased from here;
    `erased` is then false.
    """

    world: str
    world_id: str
    number: int | None
    doc_id: str | None
    name: str
    deleted_at: IsoTime
    rows: dict[str, int]
    redacted: dict[str, int]
    points: list[PointsRemoved]
    assets: FilesRemoved
    uploads: FilesRemoved
    erased: bool
    waiting: dict[str, str]
    outside: dict[str, str]
    check: EraseCheck | None
    digest: str
    conversation: str | UnsetType = UNSET
    reader: str | UnsetType = UNSET


class ChunkDetail(Struct, frozen=True, kw_only=True):
    """A chunk as stored. Most members are missing if only its state is left.

    `intact` says whether the stored bytes still match their hash; if not, `text` is null.
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
    location: str | UnsetType | None = UNSET
    chunk_type: ChunkKind | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    text_hash: str | UnsetType = UNSET
    dedupe_hash: str | UnsetType | None = UNSET
    figure: FigureMark | UnsetType | None = UNSET
    text: str | UnsetType | None = UNSET
    content: str | UnsetType | None = UNSET
    """The same as `text`. This member and the following are there in `contract` worlds only."""
    startChar: int | UnsetType = UNSET  # noqa: N815
    endChar: int | UnsetType = UNSET  # noqa: N815
    space_id: str | UnsetType = UNSET
    """The id of the world."""


class DomainList(Struct, frozen=True, kw_only=True):
    """The domains that the caller may use."""

    domains: list[DomainRecord]


class UsageEntry(Struct, frozen=True, kw_only=True):
    """An answered request as the log keeps it."""

    id: str
    created_at: IsoTime
    mode: decisions.AnswerMode
    milliseconds: int
    primary_model: str | None
    fallback_model: str | None
    evidence: dict[str, Any]
    decision_explain: dict[str, Any]


class UsageList(Struct, frozen=True, kw_only=True):
    """Answered requests, newest first."""

    usage: list[UsageEntry]


class Decision(Struct, frozen=True, kw_only=True):
    """Which mode answers, on what grounds, and what is to be done next.

    `retrieved` is the order of `retrieved_chunks_metadata`. `max_similarity` is that of the best
    chunk a model may be given, and None without one; `max_score` is the same on the scale of the
    thresholds. `context_characters` counts each character of the chosen chunks once.
    """

    mode: decisions.AnswerMode
    reason: decisions.DecisionReason
    step: decisions.Step
    refusal: decisions.Refusal | None
    used_llm: decisions.UsedModel
    thresholds: decisions.Thresholds
    score_mode: decisions.ScoreMode
    distance: Distance
    max_similarity: float | None
    max_score: float | None
    gates: tuple[decisions.Gate, ...]
    retrieved: tuple[decisions.Considered, ...]
    context_characters: int
    reading: bool
    primary: decisions.ModelOutcome
    fallback: decisions.ModelOutcome
    retrieval_target: str
    effective_query: str
    search_mode: Mode | None
    defaults: Defaults | None


class Replay(Struct, frozen=True, kw_only=True):
    """A decision recomputed from its record, and whether it equals the recorded one."""

    decision: Decision
    same: bool | None


class ConversationLabels(Struct, frozen=True, kw_only=True):
    """What a conversation is about, as far as the caller may see its turns.

    `title` is the first question. `book` is the number of the document that a reader's conversation
    is about. Of a damaged conversation only the id and the times are known.
    """

    id: str
    reader: str | None
    book: int | None
    title: str
    created_at: IsoTime
    updated_at: IsoTime
    damaged: bool


class ConversationEntry(ConversationLabels, frozen=True, kw_only=True):
    """A conversation, and how many turns it has."""

    turns: int


class ConversationList(Struct, frozen=True, kw_only=True):
    """Conversations, the latest first."""

    conversations: list[ConversationEntry]


class TurnEntry(Struct, frozen=True, kw_only=True):
    """A question of a conversation and its answer. `standalone` is what was searched for.

    `document` and `sid` are the book and the position of a reader when it was asked. A damaged
    turn has its id and its time alone.
    """

    id: str
    asked_at: IsoTime
    question: str
    standalone: str
    rewritten_by: decisions.RewrittenBy
    answer: str
    mode: decisions.AnswerMode | None
    citations: tuple[Citation, ...]
    quotes: tuple[Quote, ...]
    support: Support | None
    record: str | None
    document: int | None
    sid: int | None
    damaged: bool


class ConversationDetail(ConversationLabels, frozen=True, kw_only=True):
    """A conversation with its turns, the first turn first."""

    turns: list[TurnEntry]


class ReaderBooks(Struct, frozen=True, kw_only=True):
    """The books in which a reader has a position."""

    books: list[ReadingPosition]


class RecordedPosition(Struct, frozen=True, kw_only=True):
    """A reader's recorded position, without any text of the book."""

    document: int
    doc_id: str
    sid: int
    current: bool


class Health(Struct, frozen=True, kw_only=True):
    """The state and version of the server."""

    status: str
    version: str


def world_entry(world: World) -> WorldEntry:
    generation = world.generation.number if world.generation else None
    return WorldEntry(id=world.id, name=world.name, generation=generation, defaults=world.defaults)


def decision_detail(decision: decisions.Decision) -> Decision:
    """Convert a decision: the evidence it was made from is not repeated as a whole."""
    values: dict[str, Any] = {}
    for name in Decision.__struct_fields__:
        holders = (decision, decision.evidence, decision.evidence.settings)
        values[name] = getattr(next(each for each in holders if hasattr(each, name)), name)
    return Decision(**values)


def conversation_entry(info: ConversationInfo) -> ConversationEntry:
    return ConversationEntry(**record_data(info))


def conversation_detail(conversation: Conversation) -> ConversationDetail:
    """Convert a conversation with its visible turns."""
    return convert(conversation.export(), ConversationDetail)


def document_entry(document: Document) -> DocumentEntry:
    """Convert a document. Where on the server its file is, is for the operator only."""
    computed = {
        "path": document.shown_path,
        "visible": document.active is not None,
        "status": document.status,
        "revision": document.active,
        "uploaded": document.path.startswith(UPLOAD),
        "manifest": bool(document.origin),
    }
    others = (name for name in DocumentEntry.__struct_fields__ if name not in computed)
    values = members(document, *others) | computed
    values["tags"] = list(document.tags)
    values["metadata"] = read_metadata(document.metadata)
    return DocumentEntry(**values)


def document_list(documents: Documents, query: DocumentQuery) -> DocumentList:
    """Return the documents that a query asks for."""
    arguments = query.arguments()
    arguments["limit"] = query.limit
    found = documents.find(**arguments)
    return DocumentList(
        documents=[document_entry(document) for document in found.documents],
        offset=found.offset,
        total=found.total,
        statuses=found.statuses,
    )


def job_summary(job: Job, jobs: Jobs) -> JobSummary:
    """Convert a job, leaving out its request and its worker."""
    *names, _resumable = JobSummary.__struct_fields__
    return JobSummary(**record_data(job, *names), resumable=jobs.is_resumable(job))
