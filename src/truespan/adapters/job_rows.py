"""A job as both kinds of stores read it: its own row, and what its shares add up to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from truespan.types.job import Job, JobCounts, JobState, Phase

JOB_COLUMNS: Final = (
    "j.id, j.kind, j.state, j.phase, j.request, j.created_at, j.seen_at, j.finished_at, "
    "j.process, j.counts, j.error, j.background, j.crashes, j.parent"
)
SUM_COLUMNS: Final = (
    "s.shares, s.documents, s.documents_total, s.unchanged, s.failed, s.chunks, s.embedded, "
    "s.reused, s.weighed, s.weight, s.began_at, s.seen_at, s.crashes"
)
LATEST_COLUMNS: Final = """
    (SELECT c.phase FROM jobs c WHERE c.parent = j.id AND c.state = 'running'
     ORDER BY c.seen_at DESC, c.key LIMIT 1),
    (SELECT c.counts FROM jobs c WHERE c.parent = j.id AND c.state = 'running'
     ORDER BY c.seen_at DESC, c.key LIMIT 1)"""
"""What is told of the share that was heard of last."""
_OWN = 14


class _Sums(NamedTuple):
    """What the shares of a job add up to, in the order of the columns."""

    shares: int
    documents: int | None
    documents_total: int | None
    unchanged: int | None
    failed: int | None
    chunks: int | None
    embedded: int | None
    reused: int | None
    weighed: float | None
    weight: int
    began_at: float
    seen_at: float
    crashes: int
    phase: str | None
    counts: str | None


def job_of(row: tuple[Any, ...]) -> Job:
    """Return the job of a row of the columns above, as it stands with its shares."""
    job = _own(row[:_OWN])
    if not row[_OWN]:
        return job
    return _spread(job, _Sums(*row[_OWN:]))


def _own(row: tuple[Any, ...]) -> Job:
    job, kind, state, phase, request, created, seen, finished, process, counts, *rest = row
    error, background, crashes, parent = rest
    return Job(
        id=job,
        kind=kind,
        state=JobState(state),
        phase=Phase(phase),
        request=request,
        created_at=created,
        seen_at=seen,
        finished_at=finished,
        process=process,
        counts=msgspec.json.decode(counts, type=JobCounts),
        error=error,
        background=bool(background),
        crashes=crashes,
        parent=parent,
    )


def _spread(job: Job, sums: _Sums) -> Job:
    """Return a job with the numbers of its shares added to its own.

    It is as far as what they have read of what they have to read.
    """
    latest = msgspec.json.decode(sums.counts or "{}", type=JobCounts)
    own, done = job.counts, job.state is JobState.DONE
    counts = JobCounts(
        documents=own.documents + (sums.documents or 0),
        documents_total=own.documents_total + (sums.documents_total or 0),
        unchanged=own.unchanged + (sums.unchanged or 0),
        failed=own.failed + (sums.failed or 0),
        chunks=own.chunks + (sums.chunks or 0),
        embedded=own.embedded + (sums.embedded or 0),
        reused=own.reused + (sums.reused or 0),
        fraction=1.0 if done else min((sums.weighed or 0.0) / max(sums.weight, 1), 1.0),
        seconds=round(own.seconds + max(sums.seen_at - sums.began_at, 0.0), 3),
        current=latest.current,
    )
    return replace(
        job,
        phase=Phase(sums.phase) if sums.phase and not done else job.phase,
        seen_at=max(job.seen_at, sums.seen_at),
        counts=counts,
        crashes=max(job.crashes, sums.crashes),
        shares=sums.shares,
    )
