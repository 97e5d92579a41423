"""The queue of jobs as the doctor sees it: who works, what waits, and what nobody will begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truespan.engine.parts import Components
from truespan.engine.shares import to_be_ordered
from truespan.errors import TruespanError
from truespan.types.job import QueueStanding
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import Scope

_CROWDED = 0.8
"""The part of what may wait above which it is told."""
_START = "Start 'truespan worker', and see that it stays up."


def queue_checks(parts: Components, scopes: Sequence[Scope]) -> Iterator[Check]:
    """Give the checks of a library with workers; none where jobs are done by who submits them."""
    if parts.queue.holder is None:
        return
    try:
        # Jobs before orders: a job is written down first, and its order is given then.
        open_jobs = _open_jobs(parts, scopes)
        found = parts.queue.standing()
        lost = _without_order(parts, open_jobs, found) if found else []
    except TruespanError as error:
        yield Check("queue of jobs", Verdict.PROBLEM, error.message, error.advice)
        return
    if found is not None:
        yield _workers(found, bool(open_jobs))
        yield _waiting(found)
        yield _orphaned(found)
        yield _lost(len(lost))


def _open_jobs(parts: Components, scopes: Sequence[Scope]) -> list[tuple[Scope, str]]:
    return [
        (scope, name)
        for scope in {scope.world: scope for scope in scopes}.values()
        for job in parts.store.jobs(scope)
        if job.background and not job.state.is_over
        for name in to_be_ordered(parts, scope, job)
    ]


def _without_order(
    parts: Components, open_jobs: Sequence[tuple[Scope, str]], found: QueueStanding
) -> list[str]:
    """Return the jobs that are still to be done, and that nobody was told of."""
    doubted = [(scope, job) for scope, job in open_jobs if job not in found.ordered]
    # Some were done between the two looks.
    now = [(job, parts.store.job(scope, job)) for scope, job in doubted]
    return [job for job, record in now if record is not None and not record.state.is_over]


def _workers(found: QueueStanding, wanted: bool) -> Check:
    if found.workers:
        return Check("workers", Verdict.OK, f"{found.workers} gave a sign of life of late")
    verdict = Verdict.PROBLEM if wanted else Verdict.WARNING
    return Check("workers", verdict, "none gave a sign of life of late", _START)


def _waiting(found: QueueStanding) -> Check:
    says = f"{found.waiting} wait, of {found.most_waiting} that may"
    crowded = found.waiting >= found.most_waiting * _CROWDED
    verdict = Verdict.WARNING if crowded else Verdict.OK
    return Check("orders", verdict, says, "Start more workers." if crowded else "")


def _orphaned(found: QueueStanding) -> Check:
    name = "orders of workers that are gone"
    if not found.orphaned:
        return Check(name, Verdict.OK, "none")
    remedy = "Any worker that runs takes them up."
    return Check(name, Verdict.WARNING, str(found.orphaned), remedy)


def _lost(count: int) -> Check:
    name = "jobs without an order"
    if not count:
        return Check(name, Verdict.OK, "none")
    remedy = "A worker gives it within five minutes, or when it starts."
    return Check(name, Verdict.WARNING, str(count), remedy)
