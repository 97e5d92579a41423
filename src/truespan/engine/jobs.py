"""The jobs of a world: listed, looked at, cancelled. Resuming is ingestion's business."""

from __future__ import annotations

from dataclasses import dataclass, replace

from truespan.engine.given_up import give_up
from truespan.engine.parts import Components
from truespan.engine.shares import settle
from truespan.engine.uploads import batch_of
from truespan.errors import JobNotFound, JobNotResumable, NotAllowed
from truespan.types.job import Job, JobDocument, JobLine, JobState
from truespan.types.scope import Scope, Verb

_ALIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one world; a world without a generation has none."""

    parts: Components
    scope: Scope | None

    def list(self) -> list[Job]:
        """Return all jobs that are remembered, the latest first."""
        if self.scope is None:
            return []
        return [self._as_it_is(job) for job in self.parts.store.jobs(self.scope)]

    def get(self, job: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: there is none, or none in this world.
        """
        found = self.parts.store.job(self.scope, job) if self.scope else None
        if found is None or found.parent is not None:
            raise JobNotFound(job)
        return self._as_it_is(found)

    def anybody_works(self) -> bool:
        """Say whether jobs that wait are begun with: by this process, or a worker that gave a sign.

        Raises:
            StoreBusy: the queue cannot be asked.
        """
        standing = self.parts.queue.standing()
        return standing is None or standing.workers > 0

    def documents(self, job: str) -> list[JobDocument]:
        """Return what became of a job's sources."""
        return self.parts.store.job_documents(self._own(job), job)

    def lines(self, job: str) -> list[JobLine]:
        """Return the last lines of a job's log."""
        return self.parts.store.job_lines(self._own(job), job)

    def cancel(self, job: str) -> Job:
        """Ask a job to stop; it does so before its next step. What it did stays.

        One that nobody runs is cancelled at once. What was uploaded for a job is gone then, and so
        is what it had not finished of that: it cannot go on.

        Raises:
            JobNotFound: there is none, or none in this world.
            NotAllowed: the caller may read here, and not write.
        """
        scope = self._own(job)
        if not scope.authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("cancel jobs")
        self.settle(self.get(job))
        self.parts.store.cancel_job(scope, job)
        if self.get(job).shares:
            # Where nobody is at any of its shares, nobody else would end it soon.
            settle(self.parts, scope, job)
        now = self.get(job)
        if now.state.is_over:
            give_up(self.parts, scope, now)
        return now

    def settle(self, job: Job) -> None:
        """Write down that a job was interrupted, if its process is gone.

        Nothing happens if somebody has taken it up since it was looked at.
        """
        if job.state is JobState.INTERRUPTED:
            self.parts.store.interrupt_job(self._own(job.id), job.id, job.process)

    def resumable(self, job: str) -> Job:
        """Return a job that did not end well, and is written down as over.

        Raises:
            JobNotFound: there is none, or none in this world.
            JobNotResumable: it is done or under way, or what was uploaded for it is gone.
        """
        found = self.get(job)
        if found.state in (JobState.DONE, *_ALIVE):
            raise JobNotResumable(job, found.state)
        batch, uploads = batch_of(found), self.parts.uploads
        if batch is not None:
            kept = uploads is not None and uploads.is_there(self._own(job).world, batch)
            if not kept:
                raise JobNotResumable(job, f"{found.state} and without its uploads")
        self.settle(found)
        return self.get(job)

    def _own(self, job: str) -> Scope:
        if self.scope is None:
            raise JobNotFound(job)
        self.get(job)
        return self.scope

    def _as_it_is(self, job: Job) -> Job:
        """Return a job with the state it really has: who runs it may be gone."""
        if job.background and self.parts.queue.holder is not None:
            # Somebody else takes it up again, or it is written down as interrupted.
            return job
        if job.state in _ALIVE and not self.parts.processes.is_alive(job.process):
            return replace(job, state=JobState.INTERRUPTED)
        return job
