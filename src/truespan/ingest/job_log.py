"""The journal of a run: told to whoever watches, to the log, and to the job's record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from truespan.errors import Cancelled, Interrupted, TruespanError
from truespan.ingest.embed import Remark
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, JobStore
from truespan.types.job import (
    DocumentState,
    JobCounts,
    JobDocument,
    JobLine,
    JobNews,
    JobState,
    Phase,
)
from truespan.types.scope import Scope
from truespan.types.telemetry import CounterName


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that did not become a document, and why."""

    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come. `fraction` is of the bytes to read, the rest are counts so far."""

    fraction: float
    documents: int
    documents_total: int
    chunks: int
    embedded: int
    current: str
    reused: int = 0


@dataclass(slots=True)
class IngestReport:
    """What a run did."""

    ingested: list[str] = field(default_factory=list)
    unchanged: int = 0
    resumed: int = 0
    failures: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    passed_over: int = 0
    """Files of other kinds that folders held."""
    unmatched: tuple[str, ...] = ()
    """Paths of a manifest that matched no file."""
    removed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    job: str = ""
    generation: int | None = None
    """The generation that an alias was moved to, where that was asked for."""


@dataclass(slots=True)
class Meter:
    """Counts along the way."""

    total: int = 0
    size: int = 0
    done: float = 0.0
    part: float = 0.0
    documents: int = 0
    chunks: int = 0

    def fraction(self) -> float:
        """Return the share of the work that is done."""
        return min((self.done + self.part) / self.size, 1.0) if self.size else 0.0


REMARKS = {
    Remark.BAD_VECTOR: (
        "provider_bad_reply",
        "The embedding provider gave no usable vector for a part of this document. "
        "The same command tries that part again.",
    ),
    Remark.TOO_LONG: (
        "provider_text_too_long",
        "A part of this document is longer than the model reads and was left out, "
        "as on_token_limit says.",
    ),
    Remark.TRUNCATED: (
        "text_truncated",
        "Of a part of this document only the beginning was embedded, as on_token_limit says.",
    ),
    Remark.MEAN_OF_PARTS: (
        "mean_of_parts",
        "A part of this document was embedded in pieces, of which the mean was kept.",
    ),
}
"""The code and the words of each remark."""


SECONDS_BETWEEN_RECORDS = 1.0

_log = logging.getLogger("truespan.ingest")
# Who wants the lines asks for them; without a handler Python would print warnings by itself.
_log.addHandler(logging.NullHandler())
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Journal:
    """What a run tells of itself. This one keeps nothing; `JobJournal` does."""

    def __init__(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        course: RequestTrace = NULL_OBSERVER,
    ) -> None:
        self._on_progress = on_progress
        self._course = course

    def enter(self, phase: Phase) -> None:
        """Say that a phase begins."""

    def progress(self, progress: Progress) -> None:
        """Say how far the run has come.

        Raises:
            Cancelled: somebody asked for the run to stop.
        """
        if self._on_progress is not None:
            self._on_progress(progress)

    def document(self, document: JobDocument) -> None:
        """Say what became of a source."""
        self._course.count(CounterName.DOCUMENTS, 1, document.state)
        if document.state is DocumentState.FAILED:
            self.line("warning", f"{document.name}: {document.code}")

    def line(self, level: str, line: str) -> None:
        """Write a line that holds no text of a document and no key."""
        _log.log(_LEVELS[level], _in_one_line(line))

    def end(self, state: JobState, error: str | None = None) -> None:
        """Say how the run ended."""


class JobJournal(Journal):
    """Keeps a job's record, at most once a second, and hears whether it is to stop."""

    def __init__(
        self,
        store: JobStore,
        scope: Scope,
        job: str,
        clock: Clock,
        on_progress: Callable[[Progress], None] | None = None,
        stopping: Callable[[], bool] = lambda: False,
        course: RequestTrace = NULL_OBSERVER,
        process: str | None = None,
    ) -> None:
        super().__init__(on_progress, course)
        self._stopping = stopping
        self._process = process
        self._store = store
        self._scope = scope
        self._job = job
        self._clock = clock
        self._phase = Phase.READING
        self._latest = Progress(0.0, 0, 0, 0, 0, "")
        self._unchanged = self._failed = 0
        self._news = JobNews()
        self._handed_on = False
        self._began = self._recorded = clock.monotonic()

    def enter(self, phase: Phase) -> None:
        """Say that a phase begins."""
        if phase is not self._phase:
            self._phase = phase
            self._record(JobState.RUNNING)
        self._stop_if_asked()

    def progress(self, progress: Progress) -> None:
        """Take note of how far the run has come; raises when it is to stop.

        Raises:
            Cancelled: somebody asked for it.
            Interrupted: the process is about to end.
        """
        super().progress(progress)
        self._latest = progress
        if self._clock.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
            self._record(JobState.RUNNING)
        self._stop_if_asked()

    def document(self, document: JobDocument) -> None:
        """Take note of what became of a source."""
        super().document(document)
        self._news.documents[document.doc_id] = document
        if document.state is DocumentState.UNCHANGED:
            self._unchanged += 1
        elif document.state is DocumentState.FAILED:
            self._failed += 1

    def line(self, level: str, line: str) -> None:
        """Write a line to the log and to the job."""
        super().line(level, line)
        self._news.lines.append(JobLine(self._clock.now(), level, _in_one_line(line)))

    def hand_on(self) -> None:
        """Leave it to others to say how the job ends: they do it from now on."""
        self._handed_on = True

    def end(self, state: JobState, error: str | None = None) -> None:
        """Write down how the job ended, unless that is for others to say.

        Raises:
            Cancelled: it was to be queued again, and somebody asked for it to stop.
        """
        if self._handed_on:
            return
        if state is JobState.DONE:
            self._phase = Phase.FINISHED
            self._latest = replace(self._latest, fraction=1.0, current="")
        if self._write(state, error) and state is JobState.QUEUED:
            self._write(JobState.CANCELLED, None)
            raise Cancelled

    def _stop_if_asked(self) -> None:
        """Stop because the process is about to end, which is nobody's wish to give the job up."""
        if self._stopping():
            raise Interrupted

    def _record(self, state: JobState) -> None:
        if self._write(state, None):
            raise Cancelled

    def _write(self, state: JobState, error: str | None) -> bool:
        news, self._news = self._news, JobNews()
        now = self._clock.monotonic()
        self._recorded = now
        return self._store.record_job(
            self._scope,
            self._job,
            state=state,
            phase=self._phase,
            counts=self._counts(now),
            news=news,
            error=error,
            process=self._process,
        )

    def _counts(self, now: float) -> JobCounts:
        latest = self._latest
        return JobCounts(
            documents=latest.documents,
            documents_total=latest.documents_total,
            unchanged=self._unchanged,
            failed=self._failed,
            chunks=latest.chunks,
            embedded=latest.embedded,
            reused=latest.reused,
            fraction=latest.fraction,
            seconds=round(now - self._began, 3),
            current=latest.current,
        )


T = TypeVar("T")


def _never(error: TruespanError) -> bool:
    del error
    return False


def journaled(
    journal: Journal, work: Callable[[], T], waits: Callable[[TruespanError], bool] = _never
) -> T:
    """Do the work of a run, and write down how it ended, however that was.

    Where it `waits` to be tried again after an error, it is written down as queued.
    """
    try:
        done = work()
    except Cancelled:
        journal.end(JobState.CANCELLED)
        raise
    except (KeyboardInterrupt, Interrupted):
        journal.end(JobState.QUEUED if waits(Interrupted()) else JobState.INTERRUPTED)
        raise Interrupted from None
    except TruespanError as error:
        journal.end(JobState.QUEUED if waits(error) else JobState.FAILED, error.code)
        raise
    except Exception as error:
        # Whatever it was, a job that nobody works at any more must not seem to run.
        journal.end(JobState.FAILED, type(error).__name__)
        raise
    journal.end(JobState.DONE)
    return done


def _in_one_line(line: str) -> str:
    """Return a line that the name of a file cannot make two of, nor steer a terminal with."""
    return "".join(char if char.isprintable() else " " for char in line)
