"""Follow a job on the workers from the command that submitted it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from truespan.cli.app import echo
from truespan.errors import Cancelled, InternalError, Interrupted, TruespanError
from truespan.ingest.job_log import Progress
from truespan.serialize import (
    EXIT_PARTIAL,
    EXIT_REFUSED,
    EXIT_UNHEALTHY,
    advice_of,
    exit_code_of,
    to_json,
)
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState

if TYPE_CHECKING:
    from truespan.world import World


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Yield a function that shows progress; None if it would not be visible."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[chunks]} chunks"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=1.0, chunks=0, rate="")

        def on_progress(progress: Progress) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{progress.chunks / elapsed:.1f}/s" if elapsed > 0.5 else ""
            bar.update(
                task,
                completed=progress.fraction,
                description=progress.current[:32] or "working",
                chunks=progress.chunks,
                rate=rate,
            )

        yield on_progress


_POLL_SECONDS = 0.3
_NO_WORKER = "No worker is running; the job is queued. Start 'truespan worker'.\n"


def follow_ingest(world: World, job: Job, *, as_json: bool, leave: bool) -> int:
    """Show how a job goes on until it is over, unless its follower is to leave at once.

    Raises:
        Interrupted: following was stopped; the job continues.
    """
    if leave:
        echo(to_json({"job": job}) if as_json else f"Queued as job {job.id}.")
        return 0
    if not as_json:
        sys.stderr.write(f"Queued as job {job.id}.\n{_no_worker_note(world)}")
    ended = _ended(world, job, hidden=as_json)
    return _print_result(world, ended, as_json)


def follow_maintenance(jobs: Sequence[tuple[World, Job]], *, as_json: bool, leave: bool) -> int:
    """Show how upkeep of one world after the other goes on, unless its follower is to leave.

    Raises:
        Interrupted: following was stopped; the jobs continue.
    """
    if leave:
        ids = ", ".join(job.id for _, job in jobs)
        told = to_json({"jobs": [{"job": job} for _, job in jobs]})
        echo(told if as_json else f"Queued as {ids}.")
        return 0
    codes, members = [0], []
    for place, (world, job) in enumerate(jobs):
        if not as_json:
            note = "" if place else _no_worker_note(world)
            sys.stderr.write(f"World {world.name}: queued as job {job.id}.\n{note}")
        ended = _ended(world, job, hidden=as_json)
        lines = world.jobs.lines(job.id)
        members.append({"job": ended, "log": lines})
        codes.append(_upkeep_code(ended, lines))
        if not as_json:
            from truespan.cli.output_ingest import show_one_job

            echo(show_one_job(ended, [], lines))
            report_failure(world, ended)
    if as_json:
        echo(to_json({"jobs": members}))
    return max(codes, key=_SEVERITY.index)


_SEVERITY = (0, EXIT_UNHEALTHY, exit_code_of(Cancelled.code), EXIT_REFUSED, 4, 3, 1)
"""Of several jobs that end differently, the exit code is the one that stands last here."""


def exit_code_of_job(world: World, job: Job) -> int:
    """Return the exit code of a job that is over, of whatever kind."""
    from truespan.jobs.world_jobs import MAINTENANCE, REINDEX

    if job.kind in MAINTENANCE:
        return _upkeep_code(job, world.jobs.lines(job.id))
    code = _ingest_code(job, world.jobs.documents(job.id))
    # A generation of which every document failed is one to go on with, as 'reindex' says.
    refused = job.state is JobState.DONE and code == EXIT_REFUSED
    return EXIT_PARTIAL if refused and job.kind == REINDEX else code


def report_failure(world: World, job: Job) -> None:
    """Say on standard error that a job did not end well, and what to do about it."""
    if job.state is JobState.DONE:
        return
    place = f"{job.id} -w {world.name}"
    if job.state is JobState.FAILED:
        code = _error_code(job)
        # For an unforeseen exception, its name says more than the code of a bug.
        said = f"failed: {job.error or code}. {advice_of(code)}".rstrip()
        told = (
            f"{said} See 'truespan jobs show {place}'; 'truespan jobs resume {place}' continues it."
        )
    else:
        told = (
            f"was {job.state}; everything done so far is kept. "
            f"'truespan jobs resume {place}' continues it."
        )
    sys.stderr.write(f"truespan: Job {job.id} {told}\n")


def _no_worker_note(world: World) -> str:
    """Return what is to be said where no worker is there; who cannot be asked is not in the way."""
    try:
        return "" if world.jobs.has_workers() else _NO_WORKER
    except TruespanError:
        return ""


def _error_code(job: Job) -> str:
    """Return the code of the error that a job which is over, and not done, ended with."""
    if job.state is JobState.CANCELLED:
        return Cancelled.code
    if job.state is JobState.INTERRUPTED:
        return Interrupted.code
    return job.error or InternalError.code


def _upkeep_code(job: Job, lines: Sequence[JobLine]) -> int:
    """Return how a job of upkeep ended: well, with something left to do, or by an error."""
    if job.state is not JobState.DONE:
        return exit_code_of(_error_code(job))
    return EXIT_UNHEALTHY if any(line.level != "info" for line in lines) else 0


def _ingest_code(job: Job, documents: Sequence[JobDocument]) -> int:
    """Return how a job that carries documents in ended, as if it had been done in this process."""
    if job.state is not JobState.DONE:
        return exit_code_of(_error_code(job))
    states = {one.state for one in documents} - {DocumentState.REMOVED}
    if DocumentState.FAILED not in states:
        return 0
    return EXIT_PARTIAL if len(states) > 1 else EXIT_REFUSED


def _ended(world: World, job: Job, *, hidden: bool) -> Job:
    with progress_bar(hidden=hidden) as on_progress:
        while True:
            now = world.jobs.get(job.id)
            if now.state.is_over:
                return now
            if on_progress is not None:
                on_progress(_progress(now))
            try:
                time.sleep(_POLL_SECONDS)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Stopped following; job {job.id} continues on the workers.",
                    advice=f"Follow it with 'truespan jobs follow {job.id}', or cancel it.",
                ) from None


def _progress(job: Job) -> Progress:
    counts = job.counts
    return Progress(
        fraction=counts.fraction,
        documents=counts.documents,
        documents_total=counts.documents_total,
        chunks=counts.chunks,
        embedded=counts.embedded,
        current=counts.current or str(job.state),
        reused=counts.reused,
    )


def _print_result(world: World, job: Job, as_json: bool) -> int:
    documents = world.jobs.documents(job.id)
    if as_json:
        echo(to_json({"job": job, "documents": documents}))
    else:
        from truespan.cli.output_ingest import show_followed

        echo(show_followed(job, documents, world.jobs.lines(job.id)))
        report_failure(world, job)
    return _ingest_code(job, documents)
