"""Doing jobs in the background, and taking up those that somebody else left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from truespan.engine.generations import KIND as REINDEX
from truespan.engine.given_up import give_up, give_up_cancelled
from truespan.engine.held import Repairs
from truespan.engine.intake import WorkOutcome
from truespan.engine.jobs import Jobs
from truespan.engine.parts import Components
from truespan.engine.removal import remover
from truespan.engine.shares import order_shares, settle
from truespan.engine.upkeep_orders import DOCTOR, REPAIR, UPKEEP, urgency_of
from truespan.engine.upkeep_work import do_upkeep
from truespan.engine.uploads import let_go, sweep_uploads, sweep_worlds
from truespan.engine.world import World
from truespan.errors import Cancelled, Interrupted, TruespanError, WorldNotFound
from truespan.ingest.indexing import ProviderCheck
from truespan.ingest.job_log import JobJournal, journaled
from truespan.observer import RequestTrace
from truespan.protocols import unheard
from truespan.types.job import Job, JobOrder, JobState, Outcome
from truespan.types.scope import OWNER, Scope
from truespan.types.telemetry import Request

_REQUESTS = {REINDEX: Request.REINDEX, REPAIR: Request.REPAIR, DOCTOR: Request.DOCTOR}
"""What jobs are to whoever watches, other than ingestion."""

_PROVED_JOBS = 8
"""Of how many jobs a process remembers that it has looked at their provider."""


class LibraryWorker:
    """Does the jobs of a library. Whether they may be done was decided when they were submitted."""

    def __init__(self, parts: Components, repairs: Repairs) -> None:
        self._parts = parts
        self._repairs = repairs
        self._lock = threading.Lock()
        self._current: set[str] = set()
        self._proofs: dict[str, dict[int, ProviderCheck]] = {}

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = unheard,
    ) -> Outcome:
        """Do a job that is queued, and write down how it ended, however that was."""
        world, store = World(self._parts, OWNER, self._repairs, order.world), self._parts.store
        scope = _scope_of(world)
        job = store.job(scope, order.job) if scope else None
        if scope is None or job is None:
            return Outcome.OVER
        with self._alone(job.id) as alone:
            if not alone:
                return Outcome.AGAIN
            begun = self._begun(scope, job)
            outcome = (
                self._done(world, scope, job, stopping, last, later) if begun else Outcome.OVER
            )
            if job.parent is not None or job.shares:
                settle(self._parts, scope, job.parent or job.id)
            return outcome

    def _begun(self, scope: Scope, job: Job) -> bool:
        """Make a job ours; False if it is over, another's, or not yet to be done."""
        store, own, keeper = self._parts.store, self._parts.processes.own(), self._parts.keeper
        if job.state is JobState.RUNNING and job.background:
            if job.shares and job.process == keeper:
                return store.gather_job(scope, job.id, own, keeper=keeper)
            if not _taken_from_another(self._parts, scope, job):
                return False
        return store.start_job(scope, job.id, own)

    def _done(
        self,
        world: World,
        scope: Scope,
        job: Job,
        stopping: Callable[[], bool],
        last: bool,
        later: Callable[[float], None],
    ) -> Outcome:
        """Do a job that is ours now."""
        parts, own = self._parts, self._parts.processes.own()
        kind = _REQUESTS.get(job.kind, Request.INGEST)

        def waits(error: TruespanError) -> bool:
            stopped = isinstance(error, Interrupted)
            return parts.queue.holder is not None and (stopped or (error.retryable and not last))

        try:
            with parts.watch.request(kind) as course:
                journal = JobJournal(
                    parts.store, scope, job.id, parts.clock,
                    course=course, stopping=stopping, process=own,
                )  # fmt: skip
                proofs = self._proofs_of(job)
                turn = journaled(journal, lambda: _work(world, job, journal, course, proofs), waits)
        except Cancelled:
            give_up(parts, scope, job)
        except TruespanError as error:
            # Its record says which one, and it can go on.
            later(getattr(error, "retry_after", None) or 0.0)
            return self._put_back(scope, job, error) if waits(error) else Outcome.OVER
        else:
            return self._after(turn, scope, job)
        return Outcome.OVER

    def _after(self, turn: WorkOutcome, scope: Scope, job: Job) -> Outcome:
        """See to what follows from a turn that went well."""
        if turn is WorkOutcome.TAKEN:
            return self._requeued(scope, job, Outcome.LATER)
        if turn is WorkOutcome.SPREAD:
            order_shares(self._parts, scope, job.id)
        elif job.parent is None:
            let_go(self._parts, scope, job)
            # What a deletion could not erase at once is caught up by whoever writes next.
            remover(self._parts).catch_up(urgent=True)
        return Outcome.OVER

    def _proofs_of(self, job: Job) -> dict[int, ProviderCheck]:
        """Return what this process has seen of providers for a job and all its shares."""
        with self._lock:
            proofs = self._proofs.pop(job.parent or job.id, {})
            self._proofs[job.parent or job.id] = proofs
            while len(self._proofs) > _PROVED_JOBS:
                del self._proofs[next(iter(self._proofs))]
            return proofs

    def _put_back(self, scope: Scope, job: Job, error: TruespanError) -> Outcome:
        stopped = isinstance(error, Interrupted)
        return self._requeued(scope, job, Outcome.STOPPED if stopped else Outcome.AGAIN)

    def _requeued(self, scope: Scope, job: Job, outcome: Outcome) -> Outcome:
        """Hand a job that is queued again back to the queue, unless somebody else has it.

        A share may be gone by now: its job is over.
        """
        store, now = self._parts.store, self._parts.store.job(scope, job.id)
        if now is None:
            return Outcome.OVER
        keeper, queued = self._parts.keeper, JobState.QUEUED
        again = store.requeue_job(scope, job.id, keeper, seen=queued, crashes=now.crashes)
        return outcome if again else Outcome.OVER

    @contextmanager
    def _alone(self, job: str) -> Iterator[bool]:
        """Say whether no other thread of this process is at a job; then none begins with it."""
        with self._lock:
            alone = job not in self._current
            self._current.add(job)
        try:
            yield alone
        finally:
            if alone:
                with self._lock:
                    self._current.discard(job)

    def leave(self, order: JobOrder) -> None:
        """Write down that a job of this process is interrupted; it is no crash."""
        scope = _scope_of(World(self._parts, OWNER, self._repairs, order.world))
        job = self._parts.store.job(scope, order.job) if scope else None
        if scope is not None and job is not None:
            self._parts.store.interrupt_job(scope, order.job, self._parts.processes.own())


def resume_waiting(parts: Components, scopes: list[Scope]) -> list[Job]:
    """Queue what was submitted in the background by processes that are gone; return the jobs.

    Of several processes that do this at once, only one takes each job.
    """
    background = [
        (job.created_at, scope, job)
        for scope in scopes
        for job in reversed(Jobs(parts, scope).list())
        if job.background
    ]
    background.sort(key=lambda one: one[0])
    left = [(scope, job) for _, scope, job in background if job.state is JobState.INTERRUPTED]
    taken = [job for scope, seen in left if (job := _taken_up(parts, scope, seen)) is not None]
    if parts.queue.holder is not None:
        # Whoever wrote a job down may have gone before it could give the order.
        for _, scope, job in background:
            if not job.state.is_over:
                order_shares(parts, scope, job.id)
                parts.queue.submit(order_for(scope, job))
    with suppress(TruespanError):
        sweep_worlds(parts)
        for scope in scopes:
            give_up_cancelled(parts, scope)
            sweep_uploads(parts, scope)
    return taken


def _taken_up(parts: Components, scope: Scope, seen: Job) -> Job | None:
    """Queue a job again, unless another process was faster or it takes its process with it."""
    jobs = Jobs(parts, scope)
    try:
        job = jobs.resumable(seen.id)
    except TruespanError:
        return None
    if job.state is not JobState.INTERRUPTED or job.crashes >= parts.most_crashes:
        return None
    again = parts.store.requeue_job
    if not again(scope, job.id, parts.keeper, seen=job.state, crashes=job.crashes):
        return None
    parts.queue.submit(order_for(scope, job))
    return jobs.get(job.id)


def _taken_from_another(parts: Components, scope: Scope, job: Job) -> bool:
    """Queue a job again that somebody had who lost the order for it; False if it is to be left.

    One that is not gone after all hears of it when it next writes down how far it came.
    """
    if parts.queue.holder is None:
        return False
    parts.store.take_over_job(
        scope, job.id, job.process, keeper=parts.keeper, most_crashes=parts.most_crashes
    )
    now = parts.store.job(scope, job.id)
    if now is not None and now.state is JobState.CANCELLED:
        give_up(parts, scope, now)
    return now is not None and now.state is JobState.QUEUED


def order_for(scope: Scope, job: Job) -> JobOrder:
    """Return the order to do a job, as urgent as jobs of its kind are."""
    return JobOrder(scope.world, job.id, urgency_of(job.kind))


def _work(
    world: World,
    job: Job,
    journal: JobJournal,
    course: RequestTrace,
    proofs: dict[int, ProviderCheck],
) -> WorkOutcome:
    if job.kind == REINDEX:
        world.generations._work(job, journal, course)
        return WorkOutcome.DONE
    if job.kind in UPKEEP:
        do_upkeep(world, job, journal, course)
        return WorkOutcome.DONE
    return world._intake(world._writing_scope()).work(job, journal, course, proofs)


def _scope_of(world: World) -> Scope | None:
    try:
        return world._scope()
    except WorldNotFound:
        return None
