"""Background jobs: requests for them, their states, counts, documents, log lines and queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, StrEnum
from pathlib import PurePath
from typing import TypeVar, Unpack

from msgspec import Struct, field

from truespan.errors import InvalidArgument, StoreDamaged
from truespan.types.ids import WorldId
from truespan.types.maintenance import MAX_SAMPLE
from truespan.types.request import check_whole
from truespan.types.source import IngestArguments, IngestOptions, Upload, check_uploads

T = TypeVar("T")
Paths = str | PurePath | Sequence[str | PurePath]
Sources = str | PurePath | Upload | Sequence[str | PurePath | Upload]
MAX_CRASHES = 3
"""Number of crashes after which a job is no longer retried automatically."""


class IngestJob:
    """Sources to ingest as a job, given by the arguments that `World.ingest` has for them."""

    def __init__(
        self,
        paths: Sources = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        **options: Unpack[IngestArguments],
    ) -> None:
        self.options = IngestOptions.from_arguments(**options)
        # A caller without a type checker may pass anything.
        given = [paths] if isinstance(paths, str) or not isinstance(paths, Iterable) else [*paths]
        uploads = [source for source in given if isinstance(source, Upload)]
        self.paths = [source for source in given if not isinstance(source, Upload)]
        if uploads and self.paths:
            raise InvalidArgument("Uploads cannot be combined with paths.")
        self.uploads = check_uploads(uploads) if uploads else ()
        self.manifest, self.sitemap = manifest, sitemap
        labels = IngestOptions(self.options.declared)
        if uploads and (manifest or sitemap or self.options != labels):
            raise InvalidArgument("Uploads can only be combined with labels of documents.")


class ReindexJob(Struct, frozen=True):
    """A generation to build as a job; see `Generations.reindex`."""

    model: str | None = None
    chunking: str | None = None


class RepairJob(Struct, frozen=True):
    """Queued repairs to apply as a job; see `World.repair`."""


class DoctorJob(Struct, frozen=True):
    """An examination as a job, whose lines are the findings; see `World.doctor`."""

    apply: bool = False
    embed_sample: int = 0
    self_test: bool = False

    def __post_init__(self) -> None:
        check_whole("embed_sample", self.embed_sample, 0, MAX_SAMPLE)


class JobState(StrEnum):
    """The state of a job. A job whose process is gone counts as interrupted."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_over(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Phase(StrEnum):
    """Current activity of a job."""

    READING = "reading"
    EMBEDDING = "embedding"
    METADATA = "metadata"
    REMOVING = "removing"
    FINISHED = "finished"


class DocumentState(StrEnum):
    """The result for one source."""

    READ = "read"
    EMBEDDED = "embedded"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    REMOVED = "removed"


class JobCounts(Struct, frozen=True):
    """The counts of a job."""

    documents: int = 0
    documents_total: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    fraction: float = 0.0
    seconds: float = 0.0
    current: str = ""
    tokens: int = 0
    """Number of tokens of the chunks, about."""
    device: str = ""
    """Device that runs the embedding model; empty if the model does not say."""


class JobDocument(Struct, frozen=True, gc=False):
    """One source of a job. A failure has a code and a reason."""

    doc_id: str
    name: str
    state: DocumentState
    code: str | None = None
    reason: str | None = None
    chunks: int = 0


class JobLine(Struct, frozen=True):
    """A line of a job's log. It contains no document text and no key."""

    at: float
    level: str
    line: str


class Job(Struct, frozen=True):
    """A job and its current state. `request` is its arguments as JSON."""

    id: str
    kind: str
    state: JobState
    phase: Phase
    request: str
    created_at: float
    seen_at: float
    finished_at: float | None
    process: str
    counts: JobCounts = field(default_factory=JobCounts)
    error: str | None = None
    background: bool = False
    """Whether the job runs in the background."""
    crashes: int = 0
    """Number of crashes since the job was last submitted."""


def read_request(job: Job, parse: Callable[[str], T]) -> T:
    """Parse the request of a job; raises StoreDamaged if that fails."""
    try:
        return parse(job.request)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise damaged_job(job.id) from None


def damaged_job(job: str) -> StoreDamaged:
    return StoreDamaged(
        f"The record of job {job} is damaged.", advice="Start the work again with a new job."
    )


class Urgency(IntEnum):
    """The priority of a queued job; the highest number is started first."""

    MAINTENANCE = -10
    REINDEX = -5
    INGEST = 0


class Outcome(StrEnum):
    """Treatment of a queued task after an attempt to run it."""

    OVER = "over"
    """The task is finished."""
    AGAIN = "again"
    """The failure may be temporary; retry later."""
    STOPPED = "stopped"
    """The worker was stopped; another may continue at once."""
    LATER = "later"
    """Another worker holds one of the documents; wait without counting an attempt."""


class JobOrder(Struct, frozen=True):
    """A queued task: names the job that a worker should run."""

    world: WorldId
    job: str
    urgency: Urgency = Urgency.INGEST


class JobUpdate(Struct):
    """Changes of a job since it was last saved."""

    documents: dict[str, JobDocument] = field(default_factory=dict)
    lines: list[JobLine] = field(default_factory=list)


class QueueStatus(Struct, frozen=True):
    """The queue at one moment. It names jobs by id and contains nothing else of them."""

    waiting: int
    """Number of tasks that no worker has started."""
    max_waiting: int
    """Maximum number of waiting tasks."""
    orphaned: int
    """Number of tasks started by a worker that is gone."""
    workers: int
    """Number of workers with a recent heartbeat."""
    ordered: frozenset[str]
    """Ids of the jobs that have a task, started or not."""
