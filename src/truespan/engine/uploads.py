"""What is kept of uploads, and for which job: as long as it can go on, and no longer."""

from __future__ import annotations

import json

from truespan.engine.parts import Components
from truespan.types.job import Job, JobState
from truespan.types.maintenance import NO_FILES, RemovedFiles
from truespan.types.scope import OWNER, Scope

_SETTLED = (JobState.DONE, JobState.CANCELLED)
_AT_WORK = (JobState.QUEUED, JobState.RUNNING)


def batch_of(job: Job) -> str | None:
    """Return the batch of uploads that a job is about; None for any other job."""
    return json.loads(job.request).get("uploads")


def let_go(parts: Components, scope: Scope, job: Job) -> None:
    """Remove the uploads of a job that needs them no longer."""
    batch = batch_of(job)
    if batch is not None and parts.uploads is not None:
        parts.uploads.discard(scope.world, batch)


def remove_uploads(parts: Components, scope: Scope, doc_id: str) -> RemovedFiles:
    """Remove what jobs that stopped would have made a document of.

    One that waits or runs keeps its upload: that came to replace the document.
    """
    if parts.uploads is None:
        return NO_FILES
    return parts.uploads.remove(
        scope.world, doc_id, lambda batch: _is_named(parts, scope, batch, at_work=True)
    )


def sweep_uploads(parts: Components, scope: Scope) -> None:
    """Remove what no job needs any more: its process was killed, or the job was forgotten."""
    if parts.uploads is not None:
        parts.uploads.sweep(
            scope.world, lambda batch: _is_named(parts, scope, batch, at_work=False)
        )


def sweep_worlds(parts: Components) -> None:
    """Remove the uploads of worlds that are gone."""
    if parts.uploads is None:
        return
    # Looked at first: a folder that is there now was made for a world that was there before.
    kept = parts.uploads.worlds()
    known = {world.id for world in parts.store.worlds(OWNER)}
    for world in kept:
        if world not in known:
            parts.uploads.remove_all(world)


def _is_named(parts: Components, scope: Scope, batch: str, *, at_work: bool) -> bool:
    """Say whether a job needs a batch; with `at_work`, one that waits or runs."""
    return any(
        batch_of(job) == batch
        for job in parts.store.jobs(scope)
        if (job.state in _AT_WORK and parts.processes.is_alive(job.process))
        or (not at_work and job.state not in _SETTLED)
    )
