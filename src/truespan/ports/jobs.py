"""Jobs: what is remembered of them, and who does them behind the back of whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from truespan.model.job import (
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobNews,
    JobOrder,
    JobShare,
    JobState,
    Outcome,
    Phase,
)
from truespan.model.scope import Scope
from truespan.model.standing import QueueStanding


class JobStore(Protocol):
    """Jobs of a world, what became of their sources, and the last lines of their logs."""

    def begin_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that runs now; the oldest ones that are over are forgotten."""
        ...

    def queue_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that is to be done in the background; else as `begin_job`."""
        ...

    def queue_job_once(
        self, scope: Scope, kind: str, request: str, process: str, *, since: float | None = None
    ) -> Job:
        """Write down a job as `queue_job` does, unless one like it waits; then return that one.

        With `since`, one of its kind that was written down then or later is as good, however it
        stands. Of several who ask at once, only one writes one down.
        """
        ...

    def requeue_job(
        self, scope: Scope, job: str, process: str, *, seen: JobState, crashes: int
    ) -> bool:
        """Queue a job again; False when it is no longer in the state it was seen in.

        `crashes` is how many it is said to have had from now on.
        """
        ...

    def start_job(self, scope: Scope, job: str, process: str) -> bool:
        """Begin with a job that is queued; False when it is not, or not any more.

        Nor is a share begun with once its job is to stop, or another share of it went wrong.
        """
        ...

    def continue_job(self, scope: Scope, job: str, process: str) -> bool:
        """Take up a job that is over but not done; False when somebody else did, or it is done.

        It runs in the foreground from then on, whatever it did before.
        """
        ...

    def interrupt_job(self, scope: Scope, job: str, process: str) -> bool:
        """Write down that a job which a process had is interrupted; False when that has it not.

        If it ran, and in the background, that counts as a crash. One that was asked to stop is
        cancelled instead: nobody else need do so.
        """
        ...

    def take_over_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, most_crashes: int
    ) -> bool:
        """Queue a job that ran in a process which is gone, as a crash; False when that has it not.

        One that was asked to stop is cancelled instead, and one that has as many crashes as it may
        is interrupted. Nobody sees anything in between.
        """
        ...

    def record_job(
        self,
        scope: Scope,
        job: str,
        *,
        state: JobState,
        phase: Phase,
        counts: JobCounts,
        news: JobNews,
        error: str | None = None,
        process: str | None = None,
    ) -> bool:
        """Write down how a job stands; say whether somebody asked for it to be cancelled.

        Raises:
            Interrupted: a process is named, and that has the job no longer.
        """
        ...

    def cancel_job(self, scope: Scope, job: str) -> None:
        """Ask a job to stop; one that nobody runs is cancelled at once."""
        ...

    def job(self, scope: Scope, job: str) -> Job | None:
        """Return one job of the world. It is asked for often, and cheap.

        The numbers of one that is spread are those of its shares, added up.
        """
        ...

    def jobs(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first; shares are none."""
        ...

    def job_documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return what became of a job's sources, its shares' among them."""
        ...

    def job_lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of a job's log."""
        ...


class ShareStore(Protocol):
    """Jobs that several workers do at once, each a share. A job that is over has no shares."""

    def spread_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, shares: Sequence[JobShare]
    ) -> list[Job]:
        """Write down the shares of a job that a process runs, queued; who waits keeps the job.

        Raises:
            Interrupted: the process has the job no longer.
        """
        ...

    def shares(self, scope: Scope, job: str) -> list[Job]:
        """Return the shares of a job, in the order in which they are to be begun with."""
        ...

    def settle_job(self, scope: Scope, job: str, *, keeper: str) -> bool:
        """End a job once nobody is at any of its shares, if they are not all to be done.

        It was to stop, or one of them went wrong. Say whether all of them are done, and it has only
        to be gathered. Whoever asks at the same moment as others is answered after them.
        """
        ...

    def gather_job(self, scope: Scope, job: str, process: str, *, keeper: str) -> bool:
        """Run a job on whose shares its keeper waited; False unless all of them are done."""
        ...

    def claim_documents(self, scope: Scope, job: str, process: str, doc_ids: Sequence[str]) -> bool:
        """Have documents for a job alone while it runs; False while another has one of them.

        Raises:
            Interrupted: the process has the job no longer.
        """
        ...


def unheard(_seconds: float) -> None:
    """Let it pass that somebody asked to be left alone for some time."""


class JobWorker(Protocol):
    """Does what the record of a job says. An order is a name only: the store knows the rest."""

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = unheard,
    ) -> Outcome:
        """Do a job that is queued, and write down how it ended, however that was.

        Before each step it is asked whether it is to stop; then the job is interrupted. A job that
        is no longer queued is left alone. Where the queue outlives its processes, a job that was
        stopped, or failed for a reason that may pass in a try that is not the `last`, is queued;
        `later` is told of the seconds that whoever failed asked to be left alone for.
        """
        ...

    def leave(self, order: JobOrder) -> None:
        """Write down that a job of this process is interrupted: nobody here will do it."""
        ...


class JobQueue(Protocol):
    """Has jobs done, in this process or in others, in the order in which they are submitted."""

    @property
    def holder(self) -> str | None:
        """Who has jobs that wait, where orders outlive the process that gave them; else None.

        Then whoever carries out an order has the job for itself, whatever its record says of
        somebody who had it before.
        """
        ...

    def work_with(self, worker: JobWorker) -> None:
        """Say who does the work where it is done in this process."""
        ...

    def require_room(self) -> None:
        """Refuse another job while too many wait; asked before one is written down.

        Raises:
            Overloaded: so many do.
        """
        ...

    def submit(self, order: JobOrder) -> None:
        """Have a job done soon; it is written down as queued already. Twice is as good as once."""
        ...

    def standing(self) -> QueueStanding | None:
        """Return how orders and workers stand; None where orders end with their process.

        Raises:
            StoreBusy: nobody could be asked.
        """
        ...

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        now_and_then: Callable[[], None],
    ) -> int:
        """Carry out orders in this process until told to stop; return how many were carried out.

        With `once`, return when none is left that could be begun with. `now_and_then` is called
        every few minutes.

        Raises:
            InvalidConfiguration: nobody but the process that submits jobs can do them.
        """
        ...

    def close(self) -> None:
        """Stop what runs in this process before its next step, and wait a bounded time for it."""
        ...
