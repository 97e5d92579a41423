"""Doing jobs in the background, and taking up those that somebody else left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from truespan.engine.generations import KIND as REINDEX
from truespan.engine.held import Repairs
from truespan.engine.jobs import Jobs
from truespan.engine.parts import Parts
from truespan.engine.removal import remover
from truespan.engine.uploads import let_go, sweep_uploads, sweep_worlds
from truespan.engine.world import World
from truespan.errors import Cancelled, TruespanError, WorldNotFound
from truespan.ingest.journal import JobJournal, journaled
from truespan.model.job import Job, JobOrder, JobState
from truespan.model.names import Request
from truespan.model.scope import OWNER, Scope
from truespan.ports import Course

MOST_CRASHES = 3
"""A job under which the process went away so often is left to somebody who looks into it."""


class LibraryWorker:
    """Does the jobs of a library. Whether they may be done was decided when they were submitted."""

    def __init__(self, parts: Parts, repairs: Repairs) -> None:
        self._parts = parts
        self._repairs = repairs

    def run(self, order: JobOrder, stopping: Callable[[], bool]) -> None:
        """Do a job that is queued, and write down how it ended, however that was."""
        world, parts = World(self._parts, OWNER, self._repairs, order.world), self._parts
        scope = _scope_of(world)
        job = parts.store.job(scope, order.job) if scope else None
        if scope is None or job is None:
            return
        if not parts.store.start_job(scope, job.id, parts.processes.own()):
            return
        kind = Request.REINDEX if job.kind == REINDEX else Request.INGEST
        try:
            with parts.watch.request(kind) as course:
                journal = JobJournal(
                    parts.store, scope, job.id, parts.clock, course=course, stopping=stopping
                )
                journaled(journal, lambda: _work(world, job, journal, course))
        except Cancelled:
            let_go(parts, scope, job)
        except TruespanError:
            # Its record says which one, and it can go on.
            return
        else:
            let_go(parts, scope, job)
            # What a deletion could not erase at once is caught up by whoever writes next.
            remover(parts).catch_up(urgent=True)

    def leave(self, order: JobOrder) -> None:
        """Write down that a job of this process is interrupted; it is no crash."""
        scope = _scope_of(World(self._parts, OWNER, self._repairs, order.world))
        job = self._parts.store.job(scope, order.job) if scope else None
        if scope is not None and job is not None:
            self._parts.store.interrupt_job(scope, order.job, self._parts.processes.own())


def resume_waiting(parts: Parts, scopes: list[Scope]) -> list[Job]:
    """Queue what was submitted in the background by processes that are gone; return the jobs.

    Of several processes that do this at once, only one takes each job.
    """
    left = [
        (job.created_at, scope, job)
        for scope in scopes
        for job in reversed(Jobs(parts, scope).list())
        if job.background and job.state is JobState.INTERRUPTED
    ]
    left.sort(key=lambda one: one[0])
    taken = [job for _, scope, seen in left if (job := _taken_up(parts, scope, seen)) is not None]
    with suppress(TruespanError):
        sweep_worlds(parts)
        for scope in scopes:
            sweep_uploads(parts, scope)
    return taken


def _taken_up(parts: Parts, scope: Scope, seen: Job) -> Job | None:
    """Queue a job again, unless another process was faster or it takes its process with it."""
    jobs, own = Jobs(parts, scope), parts.processes.own()
    try:
        job = jobs.resumable(seen.id)
    except TruespanError:
        return None
    if job.state is not JobState.INTERRUPTED or job.crashes >= MOST_CRASHES:
        return None
    if not parts.store.requeue_job(scope, job.id, own, seen=job.state, crashes=job.crashes):
        return None
    parts.queue.submit(JobOrder(scope.world, job.id))
    return jobs.get(job.id)


def _work(world: World, job: Job, journal: JobJournal, course: Course) -> None:
    if job.kind == REINDEX:
        world.generations._work(job, journal, course)
    else:
        world._intake(world._writing_scope()).work(job, journal, course)


def _scope_of(world: World) -> Scope | None:
    try:
        return world._scope()
    except WorldNotFound:
        return None
