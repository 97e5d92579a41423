"""Progress of jobs: bars and lines, and following a job on the workers until it ends."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from truespan.cli.app import ARGUMENTS, complete
from truespan.cli.output.documents import show_followed, show_one_job
from truespan.cli.terminal import (
    echo,
    overwrite_error_line,
    pluralize,
    printable,
    write_error,
)
from truespan.core.graphemes import shorten
from truespan.engine.jobs import MAINTENANCE, REINDEX, REPAIR
from truespan.errors import Cancelled, InternalError, Interrupted, TruespanError
from truespan.ingest.report import RECORDED, Progress
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState
from truespan.wire.serialize import (
    EXIT_PARTIAL,
    EXIT_REFUSED,
    EXIT_UNHEALTHY,
    advice_of,
    exit_code_of,
    members,
    record_data,
    to_json,
)

if TYPE_CHECKING:
    from truespan.engine.world import World


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Yield a function that shows progress: a bar, or lines where there is no terminal.

    It is None if progress is hidden.
    """
    if hidden:
        yield None
        return
    if not sys.stderr.isatty():
        yield ProgressLines(write_error, time.monotonic)
        return
    try:
        yield ProgressBar(time.monotonic)
    finally:
        overwrite_error_line("")


class ProgressBar:
    """Shows a bar in the last line of a terminal, at most ten times a second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._shown = 0.0

    def __call__(self, progress: Progress) -> None:
        now, done = self._clock(), progress.fraction
        if now - self._shown < _BETWEEN_BARS:
            return
        self._shown, seconds = now, now - self._began
        bar = ("━" * round(done * _BAR_WIDTH)).ljust(_BAR_WIDTH, "─")
        left = f"about {seconds * (1 - done) / done:.0f} s left" if done else ""
        parts = [describe_work(progress), bar, f"{done:>4.0%}", describe_rates(progress, seconds)]
        overwrite_error_line("  ".join(filter(None, [*parts, left])))


_BETWEEN_BARS = 0.1
"""Seconds between two bars."""
_BAR_WIDTH = 30


def describe_work(progress: Progress) -> str:
    """Return the current work of a run: the document, or at first the number of sources."""
    if progress.read and not progress.chunks:
        return f"reading {progress.read} of {progress.documents_total}"
    return printable(shorten(progress.current, 32)) or "working"


def describe_rates(progress: Progress, seconds: float) -> str:
    """Return the number of chunks, with chunks and tokens a second and the device once known."""
    if not progress.chunks:
        return ""
    said = [pluralize(progress.chunks, "chunk")]
    if seconds > _MIN_SECONDS:
        said.append(f"{progress.chunks / seconds:,.1f}/s")
        if progress.tokens:
            said.append(f"{progress.tokens / seconds:,.0f} tokens/s")
    return ", ".join([*said, *([f"on {progress.device}"] if progress.device else [])])


_MIN_SECONDS = 0.5
"""Seconds after which a rate says something."""


class ProgressLines:
    """Writes a plain line for each tenth of the work, once it has taken a few seconds."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._write, self._clock = write, clock
        self._began, self._tenth = clock(), 0

    def __call__(self, progress: Progress) -> None:
        tenth = int(progress.fraction * 10)
        # The result follows the last tenth at once.
        is_due = self._tenth < tenth < 10
        if not is_due or self._clock() - self._began < QUIET_SECONDS:
            return
        self._tenth = tenth
        seconds = self._clock() - self._began
        left = seconds * (1 - progress.fraction) / progress.fraction
        documents = f"{progress.documents} of {pluralize(progress.documents_total, 'document')}, "
        self._write(
            # A rebuilt index counts chunks only.
            f"{progress.fraction:.0%}: {documents if progress.documents_total else ''}"
            f"{describe_rates(progress, seconds) or '0 chunks'}, "
            f"{seconds:.0f} s, about {left:.0f} s left\n"
        )


QUIET_SECONDS = 2.0
"""Seconds before progress is shown where there is no terminal."""
_POLL_SECONDS = 0.3
_SEVERITY = (0, EXIT_UNHEALTHY, exit_code_of(Cancelled.code), EXIT_REFUSED, 4, 3, 1)
"""Exit codes by severity; of several jobs, the most severe counts."""


def follow_ingest(world: World, job: Job, *, as_json: bool, leave: bool) -> int:
    """Show the progress of a job until it ends, unless `leave`; return the exit code."""
    if leave:
        if not as_json:
            write_error(_no_worker_note(world, here=True))
        echo(to_json({"job": record_data(job)}) if as_json else f"Queued as job {job.id}.")
        return 0
    if not as_json:
        write_error(f"Queued as job {job.id}.\n{_no_worker_note(world, here=True)}")
    ended = _wait(world, job, hidden=as_json)
    documents = world.jobs.documents(job.id)
    if as_json:
        echo(to_json({"job": record_data(ended), "documents": documents}))
    else:
        echo(show_followed(ended, documents, world.jobs.lines(job.id)))
        report_failure(world, ended)
    return _ingest_code(ended, documents)


def follow_maintenance(jobs: Sequence[tuple[World, Job]], *, as_json: bool, leave: bool) -> int:
    """Show the progress of maintenance jobs, world by world, as `follow_ingest` does."""
    if leave:
        ids = ", ".join(job.id for _, job in jobs)
        result = {"jobs": [{"job": record_data(job)} for _, job in jobs]}
        echo(to_json(result) if as_json else f"Queued as {ids}.")
        return 0
    codes, results = [0], []
    for place, (world, job) in enumerate(jobs):
        if not as_json:
            note = "" if place else _no_worker_note(world, here=job.kind == REPAIR)
            write_error(f"World {world.name}: queued as job {job.id}.\n{note}")
        ended = _wait(world, job, hidden=as_json)
        lines = world.jobs.lines(job.id)
        log = [record_data(line) for line in lines]
        results.append({"job": record_data(ended), "log": log})
        codes.append(_maintenance_code(ended, lines))
        if not as_json:
            echo(show_one_job(ended, [], lines))
            report_failure(world, ended)
    if as_json:
        echo(to_json({"jobs": results}))
    return max(codes, key=_SEVERITY.index)


def exit_code_of_job(world: World, job: Job) -> int:
    """Return the exit code of a job of any kind that has ended."""
    if job.kind in MAINTENANCE:
        return _maintenance_code(job, world.jobs.lines(job.id))
    code = _ingest_code(job, world.jobs.documents(job.id))
    # A generation of which every document failed can be continued, as 'reindex' says.
    refused = job.state is JobState.DONE and code == EXIT_REFUSED
    return EXIT_PARTIAL if refused and job.kind == REINDEX else code


def report_failure(world: World, job: Job) -> None:
    """Print on standard error that a job failed or stopped, and what to do about it."""
    if job.state is JobState.DONE:
        return
    place = f"{job.id} -w {shlex.quote(world.name)}"
    resume = complete(f"'truespan jobs resume {place}' continues it.")
    if job.state is JobState.FAILED:
        code = _error_code(job)
        # The name of an unexpected exception says more than the code of a bug.
        reason = f"failed: {job.error or code}. {advice_of(code)}".rstrip()
        show = complete(f"'truespan jobs show {place}'")
        outcome = f"{reason} See {show}; {resume}"
    else:
        outcome = f"was {job.state}; everything done so far is kept. {resume}"
    write_error(f"truespan: Job {job.id} {outcome}\n")


def _no_worker_note(world: World, *, here: bool) -> str:
    """Return a note if no worker is running; empty if that is unknown.

    `here` offers to run the same command in this process instead.
    """
    with suppress(TruespanError):
        if not world.jobs.has_workers():
            note = complete("No worker is running; the job is queued. Start 'truespan worker'")
            if here:
                command = shlex.join(["truespan", *ARGUMENTS.get(), "--here"])
                note += f", or stop this command and run: {command}"
            return f"{note}\n"
    return ""


def _error_code(job: Job) -> str:
    codes = {JobState.CANCELLED: Cancelled.code, JobState.INTERRUPTED: Interrupted.code}
    return codes.get(job.state) or job.error or InternalError.code


def _maintenance_code(job: Job, lines: Sequence[JobLine]) -> int:
    """Return the exit code of a maintenance job: success, unfinished, or an error."""
    if job.state is not JobState.DONE:
        return exit_code_of(_error_code(job))
    return EXIT_UNHEALTHY if any(line.level != "info" for line in lines) else 0


def _ingest_code(job: Job, documents: Sequence[JobDocument]) -> int:
    """Return the exit code of an ingest job, the same as without workers."""
    if job.state is not JobState.DONE:
        return exit_code_of(_error_code(job))
    states = {document.state for document in documents} - {DocumentState.REMOVED}
    if DocumentState.FAILED not in states:
        return 0
    return EXIT_PARTIAL if len(states) > 1 else EXIT_REFUSED


def _wait(world: World, job: Job, *, hidden: bool) -> Job:
    """Return a job once it has ended, with a progress bar meanwhile."""
    with progress_bar(hidden=hidden) as on_progress:
        while True:
            latest = world.jobs.get(job.id)
            if latest.state.is_over:
                return latest
            if on_progress is not None:
                counts = members(latest.counts, *RECORDED)
                counts["current"] = counts["current"] or str(latest.state)
                on_progress(Progress(**counts))
            try:
                time.sleep(_POLL_SECONDS)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Stopped following; job {job.id} continues on the workers.",
                    advice=f"Follow it with 'truespan jobs show --follow {job.id}', or cancel it "
                    f"with 'truespan jobs cancel {job.id}'.",
                ) from None
