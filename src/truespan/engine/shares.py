"""Jobs that are spread over workers: orders for their shares, and what comes after the last."""

from __future__ import annotations

from truespan.engine.given_up import give_up
from truespan.engine.parts import Components
from truespan.types.job import Job, JobOrder, JobState, Urgency
from truespan.types.scope import Scope


def to_be_ordered(parts: Components, scope: Scope, job: Job) -> list[str]:
    """Return for what there has to be an order so that a job ends: it, or its open shares."""
    if not job.shares:
        return [job.id]
    return [one.id for one in parts.store.shares(scope, job.id) if not one.state.is_over] or [
        job.id
    ]


def order_shares(parts: Components, scope: Scope, job: str) -> None:
    """Give the orders for all shares of a job that are not over; twice is as good as once."""
    for share in parts.store.shares(scope, job):
        if not share.state.is_over:
            parts.queue.submit(JobOrder(scope.world, share.id, Urgency.SHARE))


def settle(parts: Components, scope: Scope, job: str) -> None:
    """See whether a job that is spread is over, or has to be closed, and do what follows.

    Everybody does this who has done with a share, however that was. What somebody left undone who
    died in between is caught up by whoever gives the order for the job anew.
    """
    all_done = parts.store.settle_job(scope, job, keeper=parts.keeper)
    now = parts.store.job(scope, job)
    if now is None:
        return
    if all_done:
        parts.queue.submit(JobOrder(scope.world, job))
    elif now.state is JobState.CANCELLED:
        give_up(parts, scope, now)
