"""The doctor's checks of a queue of jobs and its workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truespan import errors
from truespan.protocols import JobQueue
from truespan.store import Store
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import Scope

_QUEUE_WARNING_RATIO = 0.8
"""The doctor warns when the queue is filled above this part of its limit."""


def check_queue(queue: JobQueue, store: Store, scopes: Sequence[Scope]) -> Iterator[Check]:
    """Give the checks of the job queue, and of the recorded jobs against it."""
    try:
        # Read jobs before the queue: a job is recorded before it is submitted.
        open_jobs = [
            (scope, job.id)
            for scope in {scope.world: scope for scope in scopes}.values()
            for job in store.jobs.all(scope)
            if job.background and not job.state.is_over
        ]
        status = queue.status()
        if status is None:
            return
        missing = [entry for entry in open_jobs if entry[1] not in status.ordered]
        # Jobs that ended between the two reads are not missing.
        records = [store.jobs.find(scope, job) for scope, job in missing]
        lost = sum(record is not None and not record.state.is_over for record in records)
    except errors.TruespanError as error:
        yield Check("job queue", Verdict.PROBLEM, error.message, error.advice)
        return
    if status.workers:
        yield Check("workers", Verdict.OK, f"{status.workers} running")
    else:
        verdict = Verdict.PROBLEM if open_jobs else Verdict.WARNING
        remedy = "Start 'truespan worker' and keep it up."
        yield Check("workers", verdict, "none is running", remedy)
    is_filling = status.waiting >= status.max_waiting * _QUEUE_WARNING_RATIO
    yield Check(
        "queued jobs",
        Verdict.WARNING if is_filling else Verdict.OK,
        f"{status.waiting} of at most {status.max_waiting}",
        "Start more workers." if is_filling else "",
    )
    for name, count, remedy in (
        ("jobs of workers that are gone", status.orphaned, "Any running worker takes them over."),
        ("jobs missing from the queue", lost, "A worker submits them within five minutes."),
    ):
        verdict = Verdict.WARNING if count else Verdict.OK
        yield Check(name, verdict, str(count or "none"), remedy if count else "")
