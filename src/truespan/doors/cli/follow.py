"""Following a job that workers do, from the command that submitted it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from truespan.doors.cli.app import say
from truespan.doors.cli.progress import progress_bar
from truespan.doors.wire import EXIT_PARTIAL, EXIT_REFUSED, EXIT_UNHEALTHY, to_json
from truespan.errors import Interrupted
from truespan.ingest.report import Progress
from truespan.model.job import DocumentState, Job, JobLine, JobState

if TYPE_CHECKING:
    from truespan.engine.world import World

_POLL_SECONDS = 0.3


def followed(world: World, job: Job, *, as_json: bool, leave: bool) -> int:
    """Show how a job goes on until it is over, unless its follower is to leave at once.

    Raises:
        Interrupted: whoever follows it stopped; the job goes on.
    """
    if leave:
        say(to_json({"job": job}) if as_json else f"Workers have it as job {job.id}.")
        return 0
    if not as_json:
        sys.stderr.write(f"Workers have it as job {job.id}.\n")
    ended = _ended(world, job, hidden=as_json)
    return _told(world, ended, as_json)


def followed_upkeep(jobs: Sequence[tuple[World, Job]], *, as_json: bool, leave: bool) -> int:
    """Show how upkeep of one world after the other goes on, unless its follower is to leave.

    Raises:
        Interrupted: whoever follows it stopped; the jobs go on.
    """
    if leave:
        ids = ", ".join(job.id for _, job in jobs)
        told = to_json({"jobs": [{"job": job} for _, job in jobs]})
        say(told if as_json else f"Workers have it as {ids}.")
        return 0
    codes, members = [0], []
    for world, job in jobs:
        if not as_json:
            sys.stderr.write(f"World {world.name}: workers have it as job {job.id}.\n")
        ended = _ended(world, job, hidden=as_json)
        lines = world.jobs.lines(job.id)
        members.append({"job": ended, "log": lines})
        codes.append(_upkeep_code(ended, lines))
        if not as_json:
            from truespan.doors.cli.show_ingest import show_one_job

            say(show_one_job(ended, [], lines))
    if as_json:
        say(to_json({"jobs": members}))
    return max(codes, key=_SEVERITY.index)


_SEVERITY = (0, EXIT_UNHEALTHY, EXIT_REFUSED)


def _upkeep_code(job: Job, lines: Sequence[JobLine]) -> int:
    """Return how a job of upkeep ended: well, with something that is left to do, or not at all."""
    if job.state is not JobState.DONE:
        return EXIT_REFUSED
    return EXIT_UNHEALTHY if any(line.level != "info" for line in lines) else 0


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
                    f"No longer followed; workers go on with job {job.id}.",
                    advice=f"See 'truespan jobs follow {job.id}', or cancel it there.",
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


def _told(world: World, job: Job, as_json: bool) -> int:
    documents = world.jobs.documents(job.id)
    if as_json:
        say(to_json({"job": job, "documents": documents}))
    else:
        from truespan.doors.cli.show_ingest import show_one_job

        say(show_one_job(job, documents, []))
    if job.state is not JobState.DONE:
        return EXIT_REFUSED
    failed = [one for one in documents if one.state is DocumentState.FAILED]
    if not failed:
        return 0
    return EXIT_PARTIAL if len(failed) < len(documents) else EXIT_REFUSED
