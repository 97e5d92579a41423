"""The jobs of a world, as its users see them: submit, list, inspect, cancel and resume."""

from __future__ import annotations

import builtins

from msgspec.json import encode

from truespan.engine.access import WorldPart
from truespan.engine.ingestion import Ingestion, OnProgress, OnPrune
from truespan.engine.jobs import (
    DOCTOR,
    INGEST,
    MAINTENANCE,
    REINDEX,
    REPAIR,
    discard_cancelled,
    find_job,
    is_resumable,
    require_resumable,
    submit_job,
    submit_maintenance,
    with_real_state,
)
from truespan.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from truespan.ingest.report import IngestReport
from truespan.tables import require, tables
from truespan.types.job import (
    DoctorJob,
    IngestJob,
    Job,
    JobDocument,
    JobLine,
    JobState,
    ReindexJob,
    RepairJob,
)
from truespan.types.scope import Scope, Verb

JobRequest = IngestJob | ReindexJob | RepairJob | DoctorJob


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

    def submit(self, request: JobRequest | Job) -> Job:
        """Queue work and return its job at once.

        Repairs or an examination that are queued already are not queued again; their job is
        returned. A job that failed, was cancelled or was interrupted is continued.

        Args:
            request: An `IngestJob`, `ReindexJob`, `RepairJob` or `DoctorJob`, or a stopped job.

        Raises:
            Conflict: The job is done, queued or running, or its uploads are gone.
            SourceRefused: A path does not exist, or an upload is larger than a document may be.
        """
        access, components = self._access, self._access.components
        match request:
            case IngestJob():
                job = self._queue_ingestion(request)
            case ReindexJob():
                kind = tables().jobs.get(REINDEX)
                job = require(kind and kind.queue, "A reindex job", "quality")(access, request)
            case RepairJob():
                return submit_maintenance(components, access.maintenance_scope(), REPAIR)
            case DoctorJob():
                text = encode(request).decode()
                return submit_maintenance(components, access.maintenance_scope(), DOCTOR, text)
            case Job():
                job = self._requeue(request.id)
            case _:
                raise InvalidArgument("request must be a request for a job, or a job.")
        submit_job(components, access.record().id, job)
        return job

    def _queue_ingestion(self, request: IngestJob) -> Job:
        if request.uploads:
            # Refuse before files are stored.
            self._access.components.queue.require_room()
        ingestion = Ingestion(self._access.components, self._access.writable_scope())
        with ingestion.prepare(request) as prepared:
            return ingestion.queue(prepared)

    def _requeue(self, job: str) -> Job:
        access, components, kind = self._access, self._access.components, self.get(job).kind
        if kind == REINDEX:
            # Raises NotAllowed unless the caller may change generations.
            access.generations_scope()
        scope = access.maintenance_scope() if kind in MAINTENANCE else access.writable_scope()
        seen, owner = require_resumable(components, scope, job).state, components.job_owner
        components.queue.require_room()
        if not components.store.jobs.requeue(scope, job, owner, seen=seen, crashes=0):
            raise Conflict(code="job_not_resumable", job=job, state=self.get(job).state)
        return self.get(job)

    def resume(
        self, job: str, *, on_progress: OnProgress | None = None, on_prune: OnPrune | None = None
    ) -> IngestReport:
        """Continue an ingestion that failed, was cancelled or was interrupted, in this process.

        Args:
            job: Id of the job.
            on_progress: Called with the progress after each step.
            on_prune: Called with the documents that the ingestion is about to delete.

        Raises:
            Conflict: The job is done, queued or running, or its uploads are gone.
            InvalidArgument: The job is no ingestion.
        """
        if (kind := self.get(job).kind) != INGEST:
            own = " or 'generations.resume'" if kind == REINDEX else ""
            raise InvalidArgument(
                f"This is a {kind} job.", advice=f"Resume it with 'jobs.submit'{own}."
            )
        ingestion = Ingestion(self._access.components, self._access.writable_scope())
        return ingestion.resume(job, on_progress=on_progress, on_prune=on_prune)

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
