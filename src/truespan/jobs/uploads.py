"""The uploaded files of jobs, and what a cancelled job leaves.

A job about the caller's own files can be resumed and keeps what it did. A cancelled job about
uploads cannot, because its files are deleted with it. So the revisions that it staged, which no
request has seen, are deleted too.
"""

from __future__ import annotations

import json
from contextlib import suppress

from truespan.components import Components
from truespan.errors import SourceMissing, TruespanError
from truespan.types.document import RevisionRef
from truespan.types.job import Job, JobState
from truespan.types.maintenance import NO_FILES, RemovedFiles
from truespan.types.scope import OWNER, Scope
from truespan.types.source import DocumentOptions

_FINISHED = (JobState.DONE, JobState.CANCELLED)
_ACTIVE = (JobState.QUEUED, JobState.RUNNING)


def upload_batch(job: Job) -> str | None:
    """Return the batch of uploads that a job ingests; None for any other job."""
    return json.loads(job.request).get("uploads")


def discard_uploads(components: Components, scope: Scope, job: Job) -> None:
    """Delete the uploads of a job that is done."""
    batch = upload_batch(job)
    if batch is not None and components.uploads is not None:
        components.uploads.discard(scope.world, batch)


def discard_cancelled(components: Components, scope: Scope, job: Job) -> None:
    """Delete the uploads of a cancelled job, and the revisions that it staged.

    What cannot be written now stays, including the uploads; the next start tries again.
    """
    batch, uploads = upload_batch(job), components.uploads
    if batch is None or uploads is None:
        return
    with suppress(TruespanError):
        needed: set[str] = set()
        for other in components.store.jobs(scope):
            if (other_batch := upload_batch(other)) is None:
                continue
            if other.id != job.id and other.state not in _FINISHED:
                needed |= _doc_ids(components, scope, other_batch)
        _discard_staged(components, scope, _doc_ids(components, scope, batch) - needed)
        uploads.discard(scope.world, batch)


def discard_all_cancelled(components: Components, scope: Scope) -> None:
    """Clean up after cancelled jobs whose process ended before it could do so."""
    if components.uploads is None:
        return
    for job in components.store.jobs(scope):
        batch = upload_batch(job) if job.state is JobState.CANCELLED else None
        if batch is not None and components.uploads.exists(scope.world, batch):
            discard_cancelled(components, scope, job)


def remove_uploads(components: Components, scope: Scope, doc_id: str) -> RemovedFiles:
    """Delete a document's uploads of jobs that stopped.

    A queued or running job keeps its upload, which replaces the document.
    """
    if components.uploads is None:
        return NO_FILES
    return components.uploads.remove(
        scope.world, doc_id, lambda batch: _is_needed(components, scope, batch, active_only=True)
    )


def sweep_uploads(components: Components, scope: Scope) -> None:
    """Delete the uploads that no job needs: a process was killed, or the job's record is gone."""
    if components.uploads is not None:
        components.uploads.sweep(
            scope.world, lambda batch: _is_needed(components, scope, batch, active_only=False)
        )


def sweep_worlds(components: Components) -> None:
    """Delete the uploads of worlds that no longer exist."""
    if components.uploads is None:
        return
    # List folders before worlds: the world of each existing folder was created earlier.
    folders = components.uploads.worlds()
    known = {world.id for world in components.store.worlds(OWNER)}
    for world in folders:
        if world not in known:
            components.uploads.remove_all(world)


def _is_needed(components: Components, scope: Scope, batch: str, *, active_only: bool) -> bool:
    """Return whether a job needs a batch; with `active_only`, a queued or running one."""
    return any(
        upload_batch(job) == batch
        for job in components.store.jobs(scope)
        if (job.state in _ACTIVE and components.processes.is_alive(job.process))
        or (not active_only and job.state not in _FINISHED)
    )


def _discard_staged(components: Components, scope: Scope, doc_ids: set[str]) -> None:
    if not doc_ids:
        return
    documents = components.store.documents(scope, named=doc_ids)
    staged = [
        RevisionRef(document.number, document.staged)
        for document in documents
        if document.staged is not None
    ]
    if not staged:
        return
    components.store.discard_staged(scope, staged)
    # The rows are hidden already. If the index fails, the next write deletes the points.
    with suppress(TruespanError):
        components.remover().clear(scope, {ref.document for ref in staged})


def _doc_ids(components: Components, scope: Scope, batch: str) -> set[str]:
    """Return the ids of the documents of a batch."""
    if components.uploads is None:
        return set()
    try:
        found = components.uploads.find(scope.world, batch, DocumentOptions())
        return {source.doc_id for source in found}
    except SourceMissing:
        return set()
