"""Types of replies of the HTTP API, most of them made from the records of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, convert, defstruct, structs

from truespan.core.clock import IsoTime
from truespan.core.decoding import prepare
from truespan.engine.documents import Documents
from truespan.engine.world_jobs import WorldJobs
from truespan.extensions.crawl.freshness import DocumentFreshness
from truespan.extensions.proof.types import VerifiedReceipt
from truespan.extensions.server.http.requests import DocumentQuery
from truespan.maintenance.delete import Receipt
from truespan.types.answer import UsageRecord
from truespan.types.chunk import ChunkKind, ChunkState, DocumentLabel, FigureMark
from truespan.types.conversation import ConversationInfo, Turn
from truespan.types.document import (
    AuditEntry,
    Document,
    DocumentStatus,
    DomainRecord,
    GenerationRecord,
    OutlineEntry,
    WorldStatus,
)
from truespan.types.job import Job, JobDocument, JobLine
from truespan.types.metadata import read_metadata
from truespan.types.note import Note
from truespan.types.reading import ChunkPage, ReadingPosition
from truespan.types.scope import World
from truespan.types.source import UPLOAD
from truespan.wire.serialize import TIMES, record_data

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation

Kind = TypeVar("Kind", bound=Struct)
_TIMES: dict[Any, Any] = {
    float: IsoTime,
    float | None: IsoTime | None,  # pyright: ignore[reportOperatorIssue]
}


def members_of(record: type[Struct], names: str) -> Callable[[type[Kind]], type[Kind]]:
    """Return a decorator that gives a type of reply the named members of a record.

    A new member of a record is in no reply until it is named here. Members of the type itself
    replace those of the record. Times, which records have in seconds, are in ISO 8601, as
    `record_data` gives them.
    """

    def derive(kind: type[Kind]) -> type[Kind]:
        own = {each.name: each for each in structs.fields(kind)}
        known = {each.name: each for each in structs.fields(record)}
        fields = {name: known[name] for name in names.split()}
        members: list[Any] = []
        for name, field in (fields | own).items():
            shown = _TIMES.get(field.type, field.type) if name in TIMES else field.type
            is_optional = field.default is UNSET
            members.append((name, shown, UNSET) if is_optional else (name, shown))
        return defstruct(  # type: ignore[return-value]
            kind.__name__,
            members,
            namespace={"__doc__": kind.__doc__},
            module=kind.__module__,
            frozen=True,
            kw_only=True,
        )

    return derive


class Permissions(Struct, frozen=True, kw_only=True):
    """Permissions of the caller. `unlimited` means every world, every reader or every label."""

    token: str | None
    worlds: list[str] | str
    verbs: list[str]
    readers: list[str] | str
    audience: list[str] | str
    default_world: str | None


@members_of(World, "id name generation defaults")
class WorldEntry(Struct, frozen=True, kw_only=True):
    """A world and its active generation, which is null while the world is empty."""

    generation: int | None


class WorldList(Struct, frozen=True, kw_only=True):
    """The worlds that the caller may see."""

    worlds: list[WorldEntry]


@members_of(World, "id name generation defaults")
class WorldDetail(Struct, frozen=True, kw_only=True):
    """A world and its statistics, which are null for callers who may not read all of it.

    `audience` applies to new documents that declare none; null if each must declare one, and for
    callers with labels.
    """

    generation: int | None
    status: WorldStatus | None
    audience: list[str] | None


@members_of(
    Document,
    "number doc_id name path kind title language version tags audience chunking chunks embedded "
    "quarantined characters sentences source_url metadata skipped provider model dimensions "
    "space_id",
)
class DocumentEntry(Struct, frozen=True, kw_only=True):
    """A document. `path` begins with the folder that was ingested, or is the name of an upload.

    `visible` says whether it can be searched yet, `revision` is the active one, `uploaded` says
    whether it is an upload and not a file of the server, and `manifest` whether a manifest named
    it. `audience` has the labels of those who see it, for a caller with labels only the caller's
    own. `metadata` is what was declared. `provider`, `model` and `dimensions` of its embedding
    model, and `space_id`, the id of the world, are there in `contract` worlds only.
    """

    metadata: dict[str, Any]
    visible: bool
    status: DocumentStatus
    revision: int | None
    uploaded: bool
    manifest: bool


class DocumentList(Struct, frozen=True, kw_only=True):
    """Documents of a world, starting at `offset`. `total` counts all matches, `statuses` the
    matches of each status, regardless of the requested status.
    """

    documents: list[DocumentEntry]
    offset: int
    total: int
    statuses: dict[DocumentStatus, int]


@members_of(
    ChunkPage,
    "document doc_id title source path revision source_hash text_hash recipe generation "
    "chunking characters offset total chunks created_at",
)
class ChunkList(Struct, frozen=True, kw_only=True):
    """Chunks of a document in reading order, and the revision and generation they belong to."""


class DocumentDetail(Struct, frozen=True, kw_only=True):
    """A document with its outline, its derived metadata and its sanitiser counts."""

    document: DocumentEntry
    outline: list[OutlineEntry]
    metadata: dict[str, Any]
    audit: list[AuditEntry]
    last_sid: int


@members_of(Job, "id kind state phase created_at seen_at finished_at counts error")
class JobSummary(Struct, frozen=True, kw_only=True):
    """The state of a job.

    `resumable` says whether it can be resumed: it did not complete, and its files are still there.
    """

    resumable: bool


class AcceptedJob(Struct, frozen=True, kw_only=True):
    """A job."""

    job: JobSummary


@members_of(JobLine, "at level line")
class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a job's log. It contains no document text and no key."""


class JobDetail(Struct, frozen=True, kw_only=True):
    """A job, the outcome of each source, and the last lines of its log."""

    job: JobSummary
    documents: list[JobDocument]
    lines: list[LogLine]


class JobList(Struct, frozen=True, kw_only=True):
    """The jobs of a world, newest first."""

    jobs: list[JobSummary]


@members_of(
    GenerationRecord,
    "generation created_at documents chunks embedded pending quarantined missing is_default "
    "domains",
)
class GenerationEntry(Struct, frozen=True, kw_only=True):
    """A generation in numbers. `missing` counts documents that it has no chunks of yet."""


class GenerationList(Struct, frozen=True, kw_only=True):
    """The generations of a world."""

    generations: list[GenerationEntry]


class RemovedGeneration(Struct, frozen=True, kw_only=True):
    """The number of the removed generation."""

    removed: int


class FilesRemoved(Struct, frozen=True, kw_only=True):
    """Number and size of removed files."""

    files: int
    bytes: int


@members_of(
    Receipt,
    "world world_id number doc_id name deleted_at rows redacted points assets uploads erased "
    "waiting outside digest conversation reader",
)
class DeletionReceipt(Struct, frozen=True, kw_only=True):
    """The receipt of a deletion: removed data, and what is left to do; no text.

    `number` and `doc_id` are null if a whole world or conversations were deleted. `conversation`
    and `reader` say which conversations, if not all of the world. `erased` means that the data is
    gone from every file of the library; until then `waiting` says what is left to do and why.
    `outside` lists data in the files of database servers, which cannot be erased from here;
    `erased` is then false.
    """

    assets: FilesRemoved
    uploads: FilesRemoved
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


@members_of(
    UsageRecord,
    "id created_at mode milliseconds primary_model fallback_model evidence decision_explain",
)
class UsageEntry(Struct, frozen=True, kw_only=True):
    """An answered request as the log keeps it."""


class ReceiptCheck(Struct, frozen=True, kw_only=True):
    """Whether a receipt is valid, with its claims or the reason why it is not."""

    valid: bool
    receipt: VerifiedReceipt | UnsetType = UNSET
    failure: str | UnsetType = UNSET
    """Name of the failure, as the verifier has it."""
    message: str | UnsetType = UNSET


class FreshnessList(Struct, frozen=True, kw_only=True):
    """State of the source of each document, by number."""

    documents: list[DocumentFreshness]


class UsageList(Struct, frozen=True, kw_only=True):
    """Answered requests, newest first."""

    usage: list[UsageEntry]


@members_of(ConversationInfo, "id reader book title created_at updated_at turns damaged")
class ConversationEntry(Struct, frozen=True, kw_only=True):
    """A conversation, and how many turns of it the caller may see.

    `title` is the first question. `book` is the number of the document that a reader's conversation
    is about. Of a damaged conversation only the id and the times are known.
    """


class ConversationList(Struct, frozen=True, kw_only=True):
    """Conversations, the latest first."""

    conversations: list[ConversationEntry]


@members_of(
    Turn,
    "id asked_at question standalone rewritten_by answer mode citations quotes support "
    "record document sid damaged",
)
class TurnEntry(Struct, frozen=True, kw_only=True):
    """A question of a conversation and its answer. `standalone` is what was searched for.

    `document` and `sid` are the book and the position of a reader when it was asked. A damaged turn
    has only its id and its time.
    """


@members_of(ConversationInfo, "id reader book title created_at updated_at turns damaged")
class ConversationDetail(Struct, frozen=True, kw_only=True):
    """A conversation with its turns, the first turn first."""

    turns: list[TurnEntry]


class ReaderList(Struct, frozen=True, kw_only=True):
    """The readers who have a position in a book of a world."""

    readers: list[str]


@members_of(Note, "id document doc_id title sid first last quote text written_at damaged")
class NoteEntry(Struct, frozen=True, kw_only=True):
    """A note of a reader about a book.

    `first` and `last` are the marked sentences, null if the present text does not have them.
    `quote` is their text when the note was written. A note is visible from the position `sid` on.
    A damaged note has no text.
    """


class NoteList(Struct, frozen=True, kw_only=True):
    """Notes of a reader, in the order of the text."""

    notes: list[NoteEntry]


class WrittenNote(Struct, frozen=True, kw_only=True):
    """A new note, without text of the book: a stored reply may be repeated at another position."""

    id: str
    document: int
    sid: int
    first: int | None
    last: int | None


class DeletedNotes(Struct, frozen=True, kw_only=True):
    """The number of notes that were deleted."""

    deleted: int


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


def world_data(world: World) -> dict[str, Any]:
    """Return the members of a `WorldEntry`."""
    generation = world.generation.number if world.generation else None
    return record_data(world, "id", "name", "defaults") | {"generation": generation}


def conversation_detail(conversation: Conversation) -> ConversationDetail:
    """Convert a conversation with its visible turns."""
    return convert(conversation.export(), prepare(ConversationDetail))


def document_entry(document: Document) -> DocumentEntry:
    """Convert a document. The path of its file on the server is for the operator only."""
    computed = {
        "path": document.shown_path,
        "visible": document.active is not None,
        "status": document.status,
        "revision": document.active,
        "uploaded": document.path.startswith(UPLOAD),
        "manifest": bool(document.origin),
        "metadata": read_metadata(document.metadata),
    }
    others = (name for name in DocumentEntry.__struct_fields__ if name not in computed)
    return DocumentEntry(**record_data(document, *others), **computed)


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


def job_summary(job: Job, jobs: WorldJobs) -> JobSummary:
    """Convert a job, leaving out its request and its worker."""
    *names, _resumable = JobSummary.__struct_fields__
    return JobSummary(**record_data(job, *names), resumable=jobs.is_resumable(job))
