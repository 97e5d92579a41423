"""The jobs of a world, as its users see them: list, inspect, cancel and resume."""

from __future__ import annotations

from typing import Literal, overload

from truespan.engine.access import WorldAccess
from truespan.engine.ingestion import IngestJobs, OnProgress, OnPrune
from truespan.engine.jobs import INGEST, MAINTENANCE, REINDEX, Jobs, submit_job
from truespan.errors import Conflict, InvalidArgument
from truespan.ingest.report import IngestReport
from truespan.types.job import Job


class WorldJobs(Jobs, frozen=True):
    """The jobs of one world, which can also be resumed."""

    access: WorldAccess

    def __repr__(self) -> str:
        return f"<WorldJobs of world {self.access.shown_name()!r}>"

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
        if background:
            return self._requeue(job, kind)
        if kind != INGEST:
            own = " or with 'generations.resume'" if kind == REINDEX else ""
            raise InvalidArgument(
                f"This is a {kind} job.", advice=f"Resume it with background=True{own}."
            )
        jobs = IngestJobs(self.components, self.access.writable_scope())
        return jobs.resume(job, on_progress=on_progress, on_prune=on_prune)

    def _requeue(self, job: str, kind: str) -> Job:
        access, components = self.access, self.components
        if kind == REINDEX:
            # Raises NotAllowed unless the caller may change generations.
            access.generations_scope()
        scope = access.maintenance_scope() if kind in MAINTENANCE else access.writable_scope()
        earlier = self.require_resumable(job)
        components.queue.require_room()
        owner = components.job_owner
        if not components.store.jobs.requeue(scope, job, owner, seen=earlier.state, crashes=0):
            raise Conflict(code="job_not_resumable", job=job, state=self.get(job).state)
        resumed = self.get(job)
        submit_job(components, access.record().id, resumed)
        return resumed
