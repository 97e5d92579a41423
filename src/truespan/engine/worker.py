"""Workers: run background jobs, and resume those that another process left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec.json import decode

from truespan.core.decoding import prepare
from truespan.engine.access import WorldAccess
from truespan.engine.components import Components
from truespan.engine.doctor import Doctor, repair_world
from truespan.engine.ingestion import Ingestion, WorkOutcome, claimer
from truespan.engine.jobs import (
    DOCTOR,
    REINDEX,
    REPAIR,
    discard_cancelled,
    discard_uploads,
    find_job,
    require_resumable,
    submit_job,
    sweep_uploads,
    with_real_state,
)
from truespan.engine.world import World
from truespan.errors import Cancelled, IndexUnavailable, Interrupted, NotFound, TruespanError
from truespan.ingest.report import JobLog
from truespan.maintenance.doctor.apply import plan_lines, result_lines, summary_line
from truespan.maintenance.doctor.plan import Finding
from truespan.observer import RequestTrace
from truespan.protocols import ignore_delay
from truespan.tables import require, tables
from truespan.types.job import DoctorJob, Job, JobOrder, JobState, Outcome, Phase, read_request
from truespan.types.scope import OWNER, Scope
from truespan.types.telemetry import Request

_REQUESTS = {REINDEX: Request.REINDEX, REPAIR: Request.REPAIR, DOCTOR: Request.DOCTOR}
"""Observed requests of the kinds of jobs other than ingestion."""


class LibraryWorker:
    """Worker for the jobs of a library. Permissions were checked when the jobs were submitted."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._lock = threading.Lock()
        self._current: set[str] = set()

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = ignore_delay,
    ) -> Outcome:
        """Run a queued job and record its outcome, even if it failed."""
        world, scope, job = self._find(order)
        if scope is None or job is None:
            return Outcome.OVER
        with self._lock:
            # Another thread of this process may run it.
            if job.id in self._current:
                return Outcome.AGAIN
            self._current.add(job.id)
        try:
            if self._start(scope, job):
                return self._run_started(world, scope, job, stopping, last, later)
            return Outcome.OVER
        finally:
            with self._lock:
                self._current.discard(job.id)

    def leave(self, order: JobOrder) -> None:
        """Record that a job of this process is interrupted. One that waited counts no crash; one
        that ran and did not stop in time does, so that it is not taken up for ever."""
        _, scope, job = self._find(order)
        if scope is not None and job is not None:
            own = self._components.processes.own()
            self._components.store.jobs.interrupt(scope, job.id, own)

    def _find(self, order: JobOrder) -> tuple[World, Scope | None, Job | None]:
        world = World(WorldAccess(self._components, OWNER, order.world))
        try:
            scope = world.access.scope()
        except NotFound as missing:
            missing.raise_unless("world_not_found")
            scope = None
        return world, scope, self._components.store.jobs.find(scope, order.job) if scope else None

    def _start(self, scope: Scope, job: Job) -> bool:
        """Make this process the owner of a job; False if it ended, waits, or has another owner."""
        components, own = self._components, self._components.processes.own()
        taken = job.state is JobState.RUNNING and job.background
        if taken and not _take_over(components, scope, job):
            return False
        return components.store.jobs.start(scope, job.id, own)

    def _run_started(
        self,
        world: World,
        scope: Scope,
        job: Job,
        stopping: Callable[[], bool],
        last: bool,
        later: Callable[[float], None],
    ) -> Outcome:
        components, own = self._components, self._components.processes.own()
        store, clock = components.store, components.clock

        def is_requeued(error: TruespanError) -> bool:
            retry = isinstance(error, Interrupted) or (error.retryable and not last)
            return components.queue.queue_id is not None and retry

        try:
            with components.observer.request(_REQUESTS.get(job.kind, Request.INGEST)) as trace:
                log = JobLog(
                    store,
                    scope,
                    job.id,
                    clock,
                    stopping=stopping,
                    trace=trace,
                    process=own,
                    try_claim=claimer(components, scope, job),
                )
                with log.record_end(is_requeued):
                    result = _run_kind(world, job, log, trace)
        except Cancelled:
            discard_cancelled(components, scope, job)
            return Outcome.OVER
        except TruespanError as error:
            # The job's record has the error, and the job can be resumed.
            later(getattr(error, "retry_after", None) or 0.0)
            if not is_requeued(error):
                return Outcome.OVER
            stopped = isinstance(error, Interrupted)
            return self._requeue(scope, job, Outcome.STOPPED if stopped else Outcome.AGAIN)
        if result is WorkOutcome.TAKEN:
            return self._requeue(scope, job, Outcome.LATER)
        discard_uploads(components, scope, job)
        # Finish erasures that a deletion could not do at once.
        components.remover().finish_erasures(urgent=True)
        return Outcome.OVER

    def _requeue(self, scope: Scope, job: Job, outcome: Outcome) -> Outcome:
        """Give a queued job back; `OVER` if it was removed, or another process has it."""
        store, owner = self._components.store, self._components.job_owner
        record = store.jobs.find(scope, job.id)
        requeued = record is not None and store.jobs.requeue(
            scope, job.id, owner, seen=JobState.QUEUED, crashes=record.crashes
        )
        return outcome if requeued else Outcome.OVER


def resume_waiting(components: Components, scopes: list[Scope]) -> list[Job]:
    """Queue background jobs again whose processes are gone, each by one process; return them."""
    background = [
        (scope, with_real_state(components, job))
        for scope in scopes
        for job in reversed(components.store.jobs.all(scope))
        if job.background
    ]
    background.sort(key=lambda entry: entry[1].created_at)
    resumed = [
        again
        for scope, job in background
        if job.state is JobState.INTERRUPTED
        and (again := _resume(components, scope, job)) is not None
    ]
    if components.queue.queue_id is not None:
        # A process may have ended between recording a job and submitting it.
        for scope, job in background:
            if not job.state.is_over:
                submit_job(components, scope.world, job)
    with suppress(TruespanError):
        sweep_uploads(components, scopes)
    return resumed


def _resume(components: Components, scope: Scope, seen: Job) -> Job | None:
    """Queue an interrupted job; None if another process was faster or it crashed too often."""
    try:
        job = require_resumable(components, scope, seen.id)
    except TruespanError:
        return None
    if job.state is not JobState.INTERRUPTED or job.crashes >= components.max_crashes:
        return None
    owner = components.job_owner
    if not components.store.jobs.requeue(scope, job.id, owner, seen=job.state, crashes=job.crashes):
        return None
    submit_job(components, scope.world, job)
    return find_job(components, scope, job.id)


def _take_over(components: Components, scope: Scope, job: Job) -> bool:
    """Queue a running job of a dead worker; return whether it can be started now."""
    # If that worker is alive after all, it notices when it next records its progress.
    if components.queue.queue_id is None:
        return False
    owner, max_crashes = components.job_owner, components.max_crashes
    components.store.jobs.take_over(
        scope, job.id, job.process, owner=owner, max_crashes=max_crashes
    )
    record = components.store.jobs.find(scope, job.id)
    if record is not None and record.state is JobState.CANCELLED:
        discard_cancelled(components, scope, record)
    return record is not None and record.state is JobState.QUEUED


def _run_kind(world: World, job: Job, log: JobLog, trace: RequestTrace) -> WorkOutcome:
    if job.kind == REINDEX:
        kind = tables().jobs.get(job.kind)
        run = require(kind and kind.run, "A reindex job", "quality")
        run(world.access, job, log, trace)
    elif job.kind == REPAIR:
        log.enter(Phase.EMBEDDING)
        report = repair_world(world.access, log.progress, trace)
        log.line(
            "info",
            f"{report.deleted_points} points deleted, {report.restored_texts} texts restored, "
            f"{len(report.quarantined)} quarantined, {report.reembedded} points written.",
        )
        if report.word_states:
            log.line("info", f"states of words computed for {report.word_states} texts.")
        for where, code in report.erasures_waiting.items():
            log.line("warning", f"not erased yet: {where} ({code})")
    elif job.kind == DOCTOR:
        _run_doctor(world, job, log)
    else:
        ingestion = Ingestion(world.access.components, world.access.writable_scope())
        return ingestion.work(job, log, trace)
    return WorkOutcome.DONE


def _run_doctor(world: World, job: Job, log: JobLog) -> None:
    log.enter(Phase.READING)
    request = read_request(job, partial(decode, type=prepare(DoctorJob)))
    access = world.access
    doctor = Doctor(access.components, access.authority, log.progress)
    plan = doctor.examine(
        [world.name], embed_sample=request.embed_sample, self_test=request.self_test
    )
    if any(item.finding is Finding.UNREACHABLE_INDEX for item in plan.all_items()):
        # Tried again later: a person who asks the doctor wants the rest now, a job has time.
        raise IndexUnavailable("The index did not answer, so that its points were not examined.")
    left, lines = plan, [*plan_lines(plan, will_apply=request.apply)]
    if request.apply:
        result = doctor.apply(plan)
        left = result.left
        lines += result_lines(result)
    # All lines at the end, so that a job that is started again writes none twice.
    for level, line in (*lines, summary_line(left)):
        log.line(level, line)
