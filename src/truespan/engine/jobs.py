"""The jobs of a world: listed, looked at, cancelled. Resuming is ingestion's business."""

from __future__ import annotations

from dataclasses import dataclass, replace

from truespan.errors import JobNotFound
from truespan.model.job import Job, JobDocument, JobLine, JobNews, JobState
from truespan.model.scope import Scope
from truespan.ports import Processes, TrustedStore


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one world; a world without a generation has none."""

    store: TrustedStore
    processes: Processes
    scope: Scope | None

    def list(self) -> list[Job]:
        """Return all jobs that are remembered, the latest first."""
        if self.scope is None:
            return []
        return [self._as_it_is(job) for job in self.store.jobs(self.scope)]

    def get(self, job: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: there is none, or none in this world.
        """
        for found in self.list():
            if found.id == job:
                return found
        raise JobNotFound(job)

    def documents(self, job: str) -> list[JobDocument]:
        """Return what became of a job's sources."""
        return self.store.job_documents(self._own(job), job)

    def lines(self, job: str) -> list[JobLine]:
        """Return the last lines of a job's log."""
        return self.store.job_lines(self._own(job), job)

    def cancel(self, job: str) -> Job:
        """Ask a job to stop; it does so before its next step. What it did stays."""
        scope = self._own(job)
        self.settle(self.get(job))
        self.store.cancel_job(scope, job)
        return self.get(job)

    def settle(self, job: Job) -> None:
        """Write down that a job was interrupted, if its process is gone."""
        stored = next((one for one in self.store.jobs(self._own(job.id)) if one.id == job.id), job)
        # Somebody may have taken it up since it was looked at.
        gone = stored.process == job.process and job.state is JobState.INTERRUPTED
        if stored.state is JobState.RUNNING and gone:
            self.store.record_job(
                self._own(job.id),
                job.id,
                state=JobState.INTERRUPTED,
                phase=job.phase,
                counts=job.counts,
                news=JobNews(),
            )

    def _own(self, job: str) -> Scope:
        if self.scope is None:
            raise JobNotFound(job)
        self.get(job)
        return self.scope

    def _as_it_is(self, job: Job) -> Job:
        """Return a job with the state it really has: who runs it may be gone."""
        if job.state is JobState.RUNNING and not self.processes.is_alive(job.process):
            return replace(job, state=JobState.INTERRUPTED)
        return job
