"""A run of ingestion: its dependencies, its report and its log.

The log has progress for the caller, lines for Python's logging, and the record of the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import (
    Cancelled,
    Interrupted,
    InvalidArgument,
    TruespanError,
    resource_error,
)
from truespan.ingest.embed import Canary, Remark
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedder, SourceParser, TokenCounter, VectorIndex
from truespan.types.job import (
    DocumentState,
    JobCounts,
    JobDocument,
    JobLine,
    JobState,
    JobUpdate,
    Phase,
)
from truespan.types.profile import EmbeddingLimits
from truespan.types.scope import Scope
from truespan.types.source import Source
from truespan.types.telemetry import CounterName

if TYPE_CHECKING:
    from truespan.extensions.crawl.web import WebPages
    from truespan.files.assets import AssetFolder, PictureFolder
    from truespan.files.sources import FileSources
    from truespan.files.uploads import UploadFolder
    from truespan.ingest.draft import CountWords, Preparation
    from truespan.ingest.workers.client import DraftWorkers
    from truespan.store import Store

SECONDS_BETWEEN_RECORDS = 1.0
SECONDS_BETWEEN_CLAIMS = 0.25

_log = logging.getLogger("truespan.ingest")
# Without a handler Python would print warnings to stderr.
_log.addHandler(logging.NullHandler())
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

REMARKS = {
    Remark.BAD_VECTOR: (
        "provider_bad_reply",
        "The embedding provider returned no usable vector for a part of this document. "
        "Run the same command again to retry that part.",
    ),
    Remark.TOO_LONG: (
        "provider_text_too_long",
        "A part of this document is longer than the model's input limit and was skipped "
        "(setting on_token_limit).",
    ),
    Remark.TRUNCATED: (
        "text_truncated",
        "Only the beginning of a part of this document was embedded (setting on_token_limit).",
    ),
    Remark.MEAN_OF_PARTS: (
        "mean_of_parts",
        "A part of this document was embedded in pieces; its vector is their mean.",
    ),
}


class OtherGeneration(Struct, frozen=True):
    """Another generation that receives new documents; `named` if an alias points to it."""

    scope: Scope
    embedder: Embedder
    named: bool


class ProviderCheck(Struct):
    """Checks that a provider has passed, so that a job does not repeat them."""

    canary: Canary = field(default_factory=Canary)
    probed: bool = False


class IngestDeps(Struct, frozen=True):
    """Dependencies of ingestion, each as a port."""

    store: Store
    index: VectorIndex
    embedder: Embedder
    sources: FileSources
    parser: SourceParser
    counter: TokenCounter
    assets: AssetFolder
    clock: Clock
    limits: EmbeddingLimits
    preparation: Preparation
    uploads: UploadFolder | None = None
    pictures: PictureFolder | None = None
    """Keeps uploads that can be shown as they look; None to keep none."""
    pages: WebPages | None = None
    """Fetches web pages; None if no host is allowed."""
    count_words: CountWords | None = None
    """Counts the words of chunks; None if ingestion does not count words."""
    workers: DraftWorkers | None = None
    """Processes that make drafts; None to make all of them in this process."""
    word_states: bool = False
    """Whether to store the states of words, if the embedder gives them."""
    other_generations: Callable[[Scope], Sequence[OtherGeneration]] = lambda _scope: ()
    """Returns the other generations of the world that receive the documents too."""
    trace: RequestTrace = NULL_OBSERVER

    def require_pages(self) -> WebPages:
        """Return the fetcher of web pages; raises InvalidArgument if there is none."""
        if self.pages is None:
            raise InvalidArgument("Web pages are not fetched.", advice="Set ingest_hosts.")
        return self.pages

    checks: dict[int, ProviderCheck] = field(default_factory=dict)
    """Checks of the provider of each generation; runs of the same job share them."""

    def read(self, source: Source) -> bytes:
        if source.upload and self.uploads is not None:
            return self.uploads.read(source)
        return self.sources.read(source)


class Failure(Struct, frozen=True):
    """A source that did not become a document, with the reason."""

    name: str
    code: str
    message: str
    doc_id: str = ""


class Moved(Struct, frozen=True):
    """A document whose file was renamed or moved: its path before, and its path now."""

    before: str
    after: str


class Progress(Struct, frozen=True, gc=False):
    """Progress of a run: the fraction of bytes that are done, and counts so far."""

    fraction: float = 0.0
    documents: int = 0
    documents_total: int = 0
    chunks: int = 0
    embedded: int = 0
    current: str = ""
    reused: int = 0
    read: int = 0
    """Number of sources that were read; their chunks may not be embedded yet."""
    tokens: int = 0
    device: str = ""
    """Device that runs the embedding model; empty if the model does not say."""


RECORDED = tuple(name for name in Progress.__struct_fields__ if hasattr(JobCounts, name))


class IngestReport(Struct):
    """Result of a run."""

    ingested: list[str] = field(default_factory=list)
    unchanged: int = 0
    relabelled: list[str] = field(default_factory=list)
    """Documents with unchanged text and new labels: version, tags, metadata, URL, language or path.

    They count as unchanged too.
    """
    resumed: int = 0
    failures: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    unsupported: int = 0
    unmatched: tuple[str, ...] = ()
    """Paths of a manifest that matched no file."""
    removed: list[str] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    """Documents whose files were found under another path, with `prune`."""
    warnings: list[str] = field(default_factory=list)
    job: str = ""
    generation: int | None = None
    """The generation that an alias was moved to, if `update_alias` was set."""

    @property
    def changed(self) -> bool:
        return bool(self.ingested or self.relabelled or self.moved or self.removed or self.resumed)

    def __repr__(self) -> str:
        """Return one line for each field with a value, and the counts."""
        counts = ("unchanged", "chunks", "embedded")
        lines = [
            f"    {name}={value!r},\n"
            for name in self.__struct_fields__
            if (value := getattr(self, name)) or name in counts
        ]
        return f"{type(self).__name__}(\n{''.join(lines)})"


class RunLog:
    """Log of a run that is not a job: log lines only. `JobLog` adds the record of the job."""

    def enter(self, phase: Phase) -> None:
        """Record that a phase begins."""

    def progress(self, progress: Progress) -> None:
        """Record the progress of the run; a job raises Cancelled or Interrupted to stop."""

    def claim(self, doc_ids: Sequence[str]) -> None:
        """Wait until no other job ingests one of these documents, and reserve them."""

    def unchanged(self, documents: Sequence[JobDocument]) -> None:
        """Record sources that needed no work."""

    def document(self, document: JobDocument) -> None:
        """Record the outcome of a source."""
        if document.state is DocumentState.FAILED:
            self.line("warning", f"{document.name}: {document.code}")

    def line(self, level: str, line: str) -> None:
        """Log a line. Callers never pass document text or keys."""
        _log.log(_LEVELS[level], _single_line(line))


@dataclass
class JobLog(RunLog):
    """Writes a job's record at most once a second, and raises when the job has to stop."""

    store: Store
    scope: Scope
    job: str
    clock: Clock
    on_progress: Callable[[Progress], None] | None = None
    stopping: Callable[[], bool] = lambda: False
    trace: RequestTrace = NULL_OBSERVER
    process: str | None = None
    try_claim: Callable[[Sequence[str]], bool] = lambda _doc_ids: True
    """Reserves documents for the job; False if another job has one of them."""

    def __post_init__(self) -> None:
        self._phase = Phase.READING
        self._latest = Progress()
        self._unchanged = self._failed = 0
        self._news = JobUpdate()
        self._left_open = False
        self._start = self._recorded = self.clock.monotonic()
        self._lock = RLock()

    def enter(self, phase: Phase) -> None:
        with self._lock:
            self._check_running(record=phase is not self._phase, phase=phase)

    def progress(self, progress: Progress) -> None:
        with self._lock:
            if self.on_progress is not None:
                self.on_progress(progress)
            self._latest = progress
            due = self.clock.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS
            self._check_running(record=due, phase=self._phase)

    def claim(self, doc_ids: Sequence[str]) -> None:
        if self.try_claim(doc_ids):
            return
        self.line("info", "Waiting for another run that ingests the same documents.")
        while not self.try_claim(doc_ids):
            self.clock.sleep(SECONDS_BETWEEN_CLAIMS)
            self.progress(self._latest)

    def unchanged(self, documents: Sequence[JobDocument]) -> None:
        self.trace.count(CounterName.DOCUMENTS, len(documents), DocumentState.UNCHANGED)
        with self._lock:
            self._news.documents.update((document.doc_id, document) for document in documents)
        self._unchanged += len(documents)

    def document(self, document: JobDocument) -> None:
        if document.state is DocumentState.UNCHANGED:
            self.unchanged([document])
            return
        self.trace.count(CounterName.DOCUMENTS, 1, document.state)
        with self._lock:
            self._news.documents[document.doc_id] = document
        if document.state is DocumentState.FAILED:
            super().document(document)
            self._failed += 1

    def line(self, level: str, line: str) -> None:
        super().line(level, line)
        with self._lock:
            self._news.lines.append(JobLine(self.clock.now(), level, _single_line(line)))

    def leave_open(self) -> None:
        """Make `end` record nothing, because another process records the end of the job."""
        self._left_open = True

    def end(self, state: JobState, error: str | None = None) -> None:
        """Record the end of the job, unless it was left open."""
        if self._left_open:
            return
        if state is JobState.DONE:
            self._phase = Phase.FINISHED
            self._latest = replace(self._latest, fraction=1.0, current="")
        # The job was cancelled before it could be queued again.
        if self._write(state, error) and state is JobState.QUEUED:
            self._write(JobState.CANCELLED, None)
            raise Cancelled

    @contextmanager
    def record_end(
        self, will_retry: Callable[[TruespanError], bool] = lambda _: False
    ) -> Iterator[None]:
        """Run a block and record its end; an error that `will_retry` leaves the job queued."""
        try:
            yield
        except Cancelled:
            self.end(JobState.CANCELLED)
            raise
        except (KeyboardInterrupt, Interrupted):
            self.end(JobState.QUEUED if will_retry(Interrupted()) else JobState.INTERRUPTED)
            raise Interrupted from None
        except TruespanError as error:
            self.end(JobState.QUEUED if will_retry(error) else JobState.FAILED, error.code)
            raise
        except Exception as error:
            known = resource_error(error)
            # A job that no process runs must not be shown as running.
            if known is None:
                self.end(JobState.FAILED, type(error).__name__)
                raise
            self.end(JobState.QUEUED if will_retry(known) else JobState.FAILED, known.code)
            raise known from error
        self.end(JobState.DONE)

    def _check_running(self, *, record: bool, phase: Phase) -> None:
        self._phase = phase
        if record and self._write(JobState.RUNNING, None):
            raise Cancelled
        if self.stopping():
            # The process stops; the job is not cancelled and can be resumed.
            raise Interrupted

    def _write(self, state: JobState, error: str | None) -> bool:
        """Write the job's record; True if the job was cancelled meanwhile."""
        news, self._news = self._news, JobUpdate()
        self._recorded = self.clock.monotonic()
        seconds = round(self._recorded - self._start, 3)
        return self.store.jobs.record(
            self.scope,
            self.job,
            state=state,
            phase=self._phase,
            counts=JobCounts(
                **{name: getattr(self._latest, name) for name in RECORDED},
                unchanged=self._unchanged,
                failed=self._failed,
                seconds=seconds,
            ),
            news=news,
            error=error,
            process=self.process,
        )


def _single_line(line: str) -> str:
    """Replace line breaks and control characters: a file name must not forge a log line."""
    return "".join(char if char.isprintable() else " " for char in line)
