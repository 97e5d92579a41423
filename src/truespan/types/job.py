"""Jobs: ingestion that can be listed, followed, cancelled and resumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from truespan.types.ids import WorldId

MOST_CRASHES = 3
"""How often a process may go away under a job before nobody takes it up by itself any more."""


class JobState(StrEnum):
    """How a job stands. One whose process is gone is interrupted, whatever it wrote last."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_over(self) -> bool:
        """Say whether nothing more will happen by itself."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Phase(StrEnum):
    """What a job is doing."""

    READING = "reading"
    EMBEDDING = "embedding"
    METADATA = "metadata"
    REMOVING = "removing"
    FINISHED = "finished"


class DocumentState(StrEnum):
    """What became of one source."""

    READ = "read"
    EMBEDDED = "embedded"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class JobCounts:
    """A job in numbers."""

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


@dataclass(frozen=True, slots=True)
class JobDocument:
    """One source of a job. A failure has a code and a reason."""

    doc_id: str
    name: str
    state: DocumentState
    code: str | None = None
    reason: str | None = None
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class JobLine:
    """A line of a job's log. It holds no text of a document and no key."""

    at: float
    level: str
    line: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands. `request` is what it was asked to do, as JSON."""

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
    """Whether it was handed to somebody who works in the background."""
    crashes: int = 0
    """How often its process went away under it since somebody last asked for it."""
    parent: str | None = None
    """The job that this is a share of; nobody but workers sees it."""
    shares: int = 0
    """Into how many shares it is spread just now. How these stand is part of how it stands."""


@dataclass(frozen=True, slots=True)
class JobShare:
    """A part of a job that one worker does: what it is asked to do, and how much that is."""

    request: str
    documents: int
    size: int


class Urgency(IntEnum):
    """Which of the jobs that wait is begun with first: one of the greatest number."""

    MAINTENANCE = -10
    REINDEX = -5
    SHARE = -1
    """A part of a large job lets the small ones past, so that nobody waits for a whole folder."""
    INGEST = 0


class Outcome(StrEnum):
    """What becomes of an order after somebody tried to carry it out."""

    OVER = "over"
    """There is nothing more to do about it."""
    AGAIN = "again"
    """What kept the job from being done may pass: it is to be tried once more, and not at once."""
    STOPPED = "stopped"
    """Who did it was told to stop; anybody else may go on now."""
    LATER = "later"
    """Somebody else is at one of its documents: it is to wait a little, which is no try."""


@dataclass(frozen=True, slots=True)
class JobOrder:
    """Names a job that is to be done, for a worker in whatever process."""

    world: WorldId
    job: str
    urgency: Urgency = Urgency.INGEST


@dataclass(slots=True)
class JobNews:
    """What happened since a job was last written down."""

    documents: dict[str, JobDocument] = field(default_factory=dict)
    lines: list[JobLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """Orders and workers at one moment. It names jobs by their ids, and holds nothing of them."""

    waiting: int
    """Orders that nobody has begun with."""
    most_waiting: int
    """So many may wait."""
    orphaned: int
    """Orders that a worker has begun with which is gone."""
    workers: int
    """Workers that gave a sign of life of late."""
    ordered: frozenset[str]
    """The jobs that there is an order for, carried out or not."""
