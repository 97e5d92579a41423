"""The jobs of a world, as its users see them: list, inspect, cancel and resume."""

from __future__ import annotations

import builtins
from typing import Literal, overload

from truespan.engine.access import WorldPart
from truespan.engine.ingestion import IngestJobs, OnProgress, OnPrune
from truespan.engine.jobs import (
    INGEST,
    MAINTENANCE,
    REINDEX,
    discard_cancelled,
    find_job,
    is_resumable,
    require_resumable,
    submit_job,
    with_real_state,
)
from truespan.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from truespan.ingest.report import IngestReport
from truespan.types.job import Job, JobDocument, JobLine, JobState
from truespan.types.scope import Scope, Verb


class WorldJobs(WorldPart, frozen=True):
    """The jobs of one world. Reading them needs permission to write, or to read everything."""

    def list(self) -> list[Job]:
        """Return all jobs that are still recorded, the latest first."""
        scope, components = self._scope(), self._access.components
        jobs = components.store.jobs.all(scope) if scope else []
        return [with_real_state(components, job) for job in jobs]

    def get(self, job: str) -> Job:
        """Return one job.

        Args:
            job: Id of the job.
        """
        return find_job(self._access.components, self._scope(), job)

    def has_workers(self) -> bool:
        """Return whether queued jobs are started: by this process, or by a live worker."""
        status = self._access.components.queue.status()
        return status is None or status.workers > 0

    def documents(self, job: str) -> builtins.list[JobDocument]:
        """Return the outcome of each source of a job.

        Args:
            job: Id of the job.
        """
        scope, _ = self._find(job)
        return self._access.components.store.jobs.documents(scope, job)

    def lines(self, job: str) -> builtins.list[JobLine]:
        """Return the last lines of a job's log.

        Args:
            job: Id of the job.
        """
        scope, _ = self._find(job)
        return self._access.components.store.jobs.lines(scope, job)

    def cancel(self, job: str) -> Job:
        """Ask a job to stop before its next step. Its results stay.

        A job that no process runs is cancelled at once. Files uploaded for the job are deleted with
        the revisions it had not finished, so that it cannot be resumed.

        Args:
            job: Id of the job.

        Returns:
            The job, which may still be running.
        """
        scope, found = self._find(job)
        if not scope.authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("cancel jobs")
        components = self._access.components
        if found.state is JobState.INTERRUPTED:
            components.store.jobs.interrupt(scope, job, found.process)
        components.store.jobs.cancel(scope, job)
        cancelled = find_job(components, scope, job)
        if cancelled.state.is_over:
            discard_cancelled(components, scope, cancelled)
        return cancelled

    def is_resumable(self, job: Job) -> bool:
        """Return whether a job stopped before it was done and its uploads are still there.

        Args:
            job: The job.
        """
        return is_resumable(self._access.components, self._access.record().id, job)

    @overload
    def resume(self, job: str, *, background: Literal[True]) -> Job: ...

    @overload
    def resume(
        self,
        job: str,
        *,
        background: Literal[False] = False,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport: ...

    def resume(
        self,
        job: str,
        *,
        background: bool = False,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport | Job:
        """Continue a job that failed, was cancelled or was interrupted.

        Args:
            job: Id of the job.
            background: Whether to queue the job again and return it at once; jobs other than
                ingestions need it.
            on_progress: Called with the progress after each step.
            on_prune: Called with the documents that an ingestion is about to delete.

        Raises:
            Conflict: The job is done, queued or running, or its uploads are gone.
            InvalidArgument: The job is no ingestion, and `background` is not given.
        """
        kind = self.get(job).kind
        access, components = self._access, self._access.components
        if background:
            if kind == REINDEX:
                # Raises NotAllowed unless the caller may change generations.
                access.generations_scope()
            scope = access.maintenance_scope() if kind in MAINTENANCE else access.writable_scope()
            earlier = require_resumable(components, scope, job)
            components.queue.require_room()
            owner = components.job_owner
            if not components.store.jobs.requeue(scope, job, owner, seen=earlier.state, crashes=0):
                raise Conflict(code="job_not_resumable", job=job, state=self.get(job).state)
            resumed = self.get(job)
            submit_job(components, scope.world, resumed)
            return resumed
        if kind != INGEST:
            own = " or with 'generations.resume'" if kind == REINDEX else ""
            raise InvalidArgument(
                f"This is a {kind} job.", advice=f"Resume it with background=True{own}."
            )
        jobs = IngestJobs(components, access.writable_scope())
        return jobs.resume(job, on_progress=on_progress, on_prune=on_prune)

    def _find(self, job: str) -> tuple[Scope, Job]:
        """Return a job, and the scope of its world."""
        scope = self._scope()
        if scope is None:
            raise NotFound("job", job)
        return scope, find_job(self._access.components, scope, job)

    def _scope(self) -> Scope | None:
        """Return the scope for reading jobs; None while the world has no generation."""
        scope = self._access.scope()
        if scope is None or not scope.authority.may(Verb.WRITE, scope.world):
            scope = self._access.whole_scope("read jobs")
        return scope
