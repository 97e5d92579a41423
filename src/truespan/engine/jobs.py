"""The states of jobs, their queue and their uploads; maintenance jobs.

A job about the caller's own files can be resumed and keeps its results. A cancelled job about
uploads cannot, because its files are deleted with it. So the revisions that it staged, which no
request has seen, are deleted too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec.structs import replace

from truespan import errors
from truespan.engine.components import Components
from truespan.maintenance.repair import apply_observed_repairs
from truespan.types.document import RevisionRef
from truespan.types.ids import WorldId
from truespan.types.job import Job, JobOrder, JobState, Urgency, read_request
from truespan.types.maintenance import NO_FILES, RemovedFiles
from truespan.types.scope import OWNER, Scope
from truespan.types.source import DocumentOptions, upload_of
from truespan.types.telemetry import Request

INGEST = "ingest"
REINDEX = "reindex"
REPAIR = "repair"
DOCTOR = "doctor"
MAINTENANCE = frozenset({REPAIR, DOCTOR})
"""Kinds of jobs that repair or examine a world, and add no documents."""

REPAIR_RETRY_SECONDS = 3600.0
"""Minimum seconds before repairs that no worker did are queued again."""

_URGENCIES = {REINDEX: Urgency.REINDEX, REPAIR: Urgency.MAINTENANCE, DOCTOR: Urgency.MAINTENANCE}
_FINISHED = (JobState.DONE, JobState.CANCELLED)

_log = logging.getLogger("truespan.jobs")
_log.addHandler(logging.NullHandler())


def find_job(components: Components, scope: Scope | None, job: str) -> Job:
    """Return a job of a world; a world without a generation has none."""
    found = components.store.jobs.find(scope, job) if scope else None
    if found is None:
        raise errors.NotFound("job", job)
    return with_real_state(components, found)


def with_real_state(components: Components, job: Job) -> Job:
    """Return a job as interrupted if its process has ended."""
    if job.background and components.queue.queue_id is not None:
        # A worker takes the job over, or records that it was interrupted.
        return job
    if not (job.state.is_over or components.processes.is_alive(job.process)):
        return replace(job, state=JobState.INTERRUPTED)
    return job


def require_resumable(components: Components, scope: Scope, job: str) -> Job:
    """Return a job that failed, was cancelled or was interrupted; raises Conflict for others."""
    found = find_job(components, scope, job)
    if not is_resumable(components, scope.world, found):
        stopped = found.state.is_over and found.state is not JobState.DONE
        state = f"{found.state} and without its uploads" if stopped else found.state
        raise errors.Conflict(code="job_not_resumable", job=job, state=state)
    if found.state is JobState.INTERRUPTED:
        # Unless another process has resumed the job meanwhile.
        components.store.jobs.interrupt(scope, job, found.process)
    return find_job(components, scope, job)


def is_resumable(components: Components, world: WorldId, job: Job) -> bool:
    """Return whether a job stopped before it was done and its uploads are still there."""
    if job.state is JobState.DONE or not job.state.is_over:
        return False
    batch, uploads = upload_batch(job), components.uploads
    return not batch or bool(uploads and uploads.exists(world, batch))


def submit_job(components: Components, world: WorldId, job: Job) -> None:
    """Submit a recorded job to the queue: ingestion goes first, maintenance last."""
    urgency = _URGENCIES.get(job.kind, Urgency.INGEST)
    components.queue.submit(JobOrder(world, job.id, urgency))


def submit_maintenance(
    components: Components,
    scope: Scope,
    kind: str,
    request: str = "{}",
    *,
    since: float | None = None,
) -> Job:
    """Queue maintenance of a world, unless the same is queued or was created after `since`."""
    components.queue.require_room()
    job = components.store.jobs.add(
        scope, kind, request, components.job_owner, since=since, queued=True, once=True
    )
    if job.state is JobState.QUEUED:
        submit_job(components, scope.world, job)
    return job


def background_repair(components: Components) -> Callable[[Scope], object]:
    """Return the function that repairs the findings of a search, or queues the repair."""

    def submit(scope: Scope) -> None:
        submit_maintenance(components, Scope(OWNER, scope.world, scope.generation), REPAIR)

    def repair(scope: Scope) -> None:
        with components.observer.request(Request.REPAIR) as trace:
            whole = scope.for_everyone()
            apply_observed_repairs(components.store, components.index, whole, trace)

    return repair if components.queue.queue_id is None else submit


def submit_due_maintenance(components: Components, scopes: Iterable[Scope]) -> None:
    """Queue repairs that were never queued, each of them once."""
    now, store = components.clock.now(), components.store
    for scope in scopes:
        try:
            needs_repair = any(
                store.chunks.repairs(replace(scope, generation=kept.generation))
                for kept in store.worlds.kept_generations(scope)
            )
            if needs_repair:
                submit_maintenance(components, scope, REPAIR, since=now - REPAIR_RETRY_SECONDS)
        except errors.TruespanError as error:
            # A world that was deleted meanwhile must not keep others from maintenance.
            _log.warning("Maintenance of a world was not queued: %s.", error.code)


def upload_batch(job: Job) -> str | None:
    """Return the batch of uploads that a job ingests; None for any other job."""
    # A job whose request is damaged is never run, so it needs no files.
    with suppress(errors.StoreDamaged):
        return read_request(job, lambda text: json.loads(text).get("uploads"))
    return None


def discard_uploads(components: Components, scope: Scope, job: Job) -> None:
    """Delete the uploads of a job that is done."""
    batch = upload_batch(job)
    if batch is not None and components.uploads is not None:
        components.uploads.discard(scope.world, batch)


def discard_cancelled(components: Components, scope: Scope, job: Job) -> None:
    """Delete the uploads of a cancelled job, and the revisions that it staged."""
    # What cannot be written now stays, including the uploads; the next start tries again.
    batch, uploads, store = upload_batch(job), components.uploads, components.store
    if batch is None or uploads is None:
        return

    def paths(batch: str | None) -> set[str]:
        if batch is None:
            return set()
        try:
            return {source.path for source in uploads.find(scope.world, batch, DocumentOptions())}
        except errors.SourceRefused as refused:
            refused.raise_unless("source_missing")
            return set()

    with suppress(errors.TruespanError):
        discarded = paths(batch)
        for other in store.jobs.all(scope):
            if other.id != job.id and other.state not in _FINISHED:
                discarded -= paths(upload_batch(other))
        # The members of a file are not listed here: opening it may be what went wrong.
        staged = [
            RevisionRef(document.number, document.staged)
            for document in (store.documents.all(scope) if discarded else ())
            if document.staged is not None and upload_of(document.path) in discarded
        ]
        if staged:
            store.documents.discard_staged(scope, staged)
            # The rows are hidden already. If the index fails, the next write deletes the points.
            with suppress(errors.TruespanError):
                components.remover().clear(scope, {ref.document for ref in staged})
        uploads.discard(scope.world, batch)


def remove_uploads(components: Components, scope: Scope, path: str) -> RemovedFiles:
    """Delete a document's uploads of jobs that stopped; a waiting upload will replace it."""
    if components.uploads is None:
        return NO_FILES
    return components.uploads.remove(
        scope.world,
        path,
        lambda batch: any(
            upload_batch(job) == batch
            for job in components.store.jobs.all(scope)
            if not job.state.is_over and components.processes.is_alive(job.process)
        ),
    )


def sweep_uploads(components: Components, scopes: Iterable[Scope]) -> None:
    """Delete the uploads that no job needs: a process was killed, or a job or world is gone."""
    uploads, store = components.uploads, components.store
    if uploads is None:
        return
    # List folders before worlds: the world of each existing folder was created earlier.
    folders = uploads.worlds()
    known = {world.id for world in store.worlds.all(OWNER)}
    for world in folders:
        if world not in known:
            uploads.remove_all(world)
    for scope in scopes:
        for job in store.jobs.all(scope):
            batch = upload_batch(job) if job.state is JobState.CANCELLED else None
            if batch is not None and uploads.exists(scope.world, batch):
                discard_cancelled(components, scope, job)
        uploads.sweep(
            scope.world,
            lambda batch, scope=scope: any(
                upload_batch(job) == batch
                for job in store.jobs.all(scope)
                if job.state not in _FINISHED
            ),
        )
