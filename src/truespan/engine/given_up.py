"""Jobs that were cancelled and cannot go on: nothing half-done is left of them.

A job about files of one's own can be resumed, and keeps what it did. One about uploads cannot,
since those are gone with it; so what it had staged, and nobody has seen, goes as well.
"""

from __future__ import annotations

from contextlib import suppress

from truespan.engine.parts import Components
from truespan.engine.uploads import batch_of
from truespan.errors import SourceMissing, TruespanError
from truespan.maintenance.delete import Remover
from truespan.types.document import RevisionRef
from truespan.types.job import Job, JobState
from truespan.types.scope import Scope
from truespan.types.source import Declared

_SETTLED = (JobState.DONE, JobState.CANCELLED)


def give_up(parts: Components, scope: Scope, job: Job) -> None:
    """Remove what was uploaded for a job that was cancelled, and what it had half made of that.

    Whatever cannot be written just now is left, uploads included; the next start catches up.
    """
    batch = batch_of(job)
    if batch is None or parts.uploads is None:
        return
    with suppress(TruespanError):
        _withdraw(parts, scope, _doc_ids(parts, scope, batch) - _wanted(parts, scope, job))
        parts.uploads.discard(scope.world, batch)


def give_up_cancelled(parts: Components, scope: Scope) -> None:
    """Catch up with jobs whose process was gone before it could leave nothing."""
    if parts.uploads is None:
        return
    for job in parts.store.jobs(scope):
        batch = batch_of(job) if job.state is JobState.CANCELLED else None
        if batch is not None and parts.uploads.is_there(scope.world, batch):
            give_up(parts, scope, job)


def _withdraw(parts: Components, scope: Scope, doc_ids: set[str]) -> None:
    if not doc_ids:
        return
    listed = parts.store.documents(scope, named=doc_ids)
    staged = [RevisionRef(one.number, one.staged) for one in listed if one.staged is not None]
    if not staged:
        return
    parts.store.withdraw(scope, staged)
    # Out of sight already; an index that is away is cleared by whoever writes next.
    with suppress(TruespanError):
        Remover(
            parts.store, parts.index, parts.assets, parts.clock, parts.remains, parts.uploads
        ).clear(scope, {ref.document for ref in staged})


def _doc_ids(parts: Components, scope: Scope, batch: str) -> set[str]:
    """Return the ids of the documents that a batch would become."""
    if parts.uploads is None:
        return set()
    try:
        return {source.doc_id for source in parts.uploads.find(scope.world, batch, Declared())}
    except SourceMissing:
        return set()


def _wanted(parts: Components, scope: Scope, given_up: Job) -> set[str]:
    """Return the ids of documents that another job makes, or would if it went on."""
    wanted: set[str] = set()
    for job in parts.store.jobs(scope):
        batch = batch_of(job)
        if batch is not None and job.id != given_up.id and job.state not in _SETTLED:
            wanted |= _doc_ids(parts, scope, batch)
    return wanted
