"""Repair the findings of retrieval: delete wrong points, restore texts, write points again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.observer import RequestTrace
from truespan.protocols import VectorIndex
from truespan.types.ids import ChunkId, TextHash
from truespan.types.scope import Scope
from truespan.types.telemetry import CounterName, RepairAction, Stage
from truespan.types.trust import FailureKind

if TYPE_CHECKING:
    from truespan.store import Store


class RepairReport(Struct):
    """Results of repairs. `reembedded` counts chunks whose points were written again."""

    deleted_points: int = 0
    restored_texts: int = 0
    quarantined: list[ChunkId] = field(default_factory=list)
    reembedded: int = 0
    word_states: int = 0
    """Texts whose states of words were missing or damaged, and were computed."""
    erasures: int = 0
    """Erasures done: files rewritten, or points and images of a deleted world removed."""
    erasures_waiting: dict[str, str] = field(default_factory=dict)

    def add(self, other: RepairReport) -> None:
        self.deleted_points += other.deleted_points
        self.restored_texts += other.restored_texts
        self.quarantined += other.quarantined
        self.reembedded += other.reembedded
        self.word_states += other.word_states


_BROKEN_TEXT = (FailureKind.MISSING, FailureKind.DAMAGED)


def apply_repairs(store: Store, index: VectorIndex, scope: Scope) -> RepairReport:
    """Apply all queued repairs of a scope; safe to run twice or in two processes.

    Each chunk is checked again first: it may have been embedded again, replaced or deleted since.
    """
    report = RepairReport()
    repairs = store.chunks.repairs(scope)
    if not repairs:
        return report
    failures = [repair.failure for repair in repairs]
    broken = [failure.chunk_id for failure in failures if failure.kind in _BROKEN_TEXT]
    for chunk_id in dict.fromkeys(broken):
        restored = store.chunks.rebuild(scope, chunk_id, only_lost=True)
        if restored:
            report.restored_texts += 1
        elif restored is False:
            report.quarantined.append(chunk_id)
    wrong = [failure for failure in failures if failure.kind not in _BROKEN_TEXT]
    records = store.chunks.read(scope, [failure.chunk_id for failure in wrong]) if wrong else {}
    stale: list[tuple[ChunkId, TextHash]] = []
    for failure in wrong:
        record = records.get(failure.chunk_id)
        # The chunk row's own hash may be forged; the state row has the one that was embedded.
        trusted = record and record.chunk and record.recorded_hash == failure.point_hash
        if failure.kind is FailureKind.QUARANTINED or not trusted:
            stale.append((failure.chunk_id, failure.point_hash))
    stale += [
        (failure.chunk_id, failure.point_hash)
        for failure in failures
        if failure.chunk_id in report.quarantined
    ]
    if stale:
        index.prepare(scope)
        index.delete_stale(scope, stale)
        index.flush(scope)
    if any(failure.kind is FailureKind.ORPHAN for failure in wrong):
        # It may belong to a deleted document, whose text must not stay in files.
        store.erasures.queue(scope)
    report.deleted_points = len(stale)
    store.chunks.finish_repairs(scope, [repair.number for repair in repairs])
    # Restored chunks have vectors, unless their text has to be embedded again.
    report.reembedded = _write_pending(store, index, scope)
    return report


def restore_points(store: Store, index: VectorIndex, scope: Scope) -> int:
    """Rewrite the points that the index of a generation has lost; return their number.

    Vectors come from the store; chunks without a vector are marked pending. Nothing is compared
    unless there are fewer points than embedded chunks.
    """
    whole = Scope(scope.authority, scope.world, scope.generation)
    if index.count(whole) >= store.worlds.status(whole).embedded:
        return 0
    index.prepare(whole)
    written = 0
    for page in store.chunks.expected(whole):
        present = {point.chunk_id for point in index.read(whole, [part.chunk_id for part in page])}
        lost = [part for part in page if part.chunk_id not in present]
        if bare := [part.chunk_id for part in lost if part.vector is None]:
            store.chunks.mark_pending(whole, bare)
        points = [part.point(part.vector) for part in lost if part.vector is not None]
        if points:
            index.upsert(whole, points)
            index.flush(whole)
            ids = [point.chunk_id for point in points]
            # Documents may have been deleted or replaced since the page was read.
            left = {part.chunk_id for part in store.scrub.expected_among(whole, ids)}
            if gone := [id for id in ids if id not in left]:
                index.delete(whole, gone)
            written += len(left)
    return written


def apply_observed_repairs(
    store: Store, index: VectorIndex, scope: Scope, trace: RequestTrace
) -> RepairReport:
    """Apply all queued repairs, rewrite lost points, and count both in metrics."""
    with trace.stage(Stage.REPAIRED):
        report = apply_repairs(store, index, scope)
        report.reembedded += restore_points(store, index, scope)
    trace.count(CounterName.REPAIRS, report.deleted_points, RepairAction.DELETED_POINT)
    trace.count(CounterName.REPAIRS, report.restored_texts, RepairAction.RESTORED_TEXT)
    trace.count(CounterName.REPAIRS, len(report.quarantined), RepairAction.QUARANTINED)
    trace.count(CounterName.REPAIRS, report.reembedded, RepairAction.REEMBEDDED)
    return report


_PAGE = 512


def refill(store: Store, index: VectorIndex, scope: Scope) -> int:
    """Write points for all pending chunks with stored vectors, in all generations.

    Other chunks stay pending until they are embedded.

    Returns:
        The number of points written.
    """
    written = 0
    for kept in store.worlds.kept_generations(scope):
        own = replace(scope, generation=kept.generation)
        if index.prepare(own):
            store.chunks.mark_all_pending(own)
        written += _write_pending(store, index, own)
    return written


def _write_pending(store: Store, index: VectorIndex, scope: Scope) -> int:
    written = 0
    for ref in store.chunks.unfinished(scope):
        after = -1
        while page := store.chunks.pending(scope, ref, after=after, limit=_PAGE):
            after = page[-1].index
            points = [chunk.point(chunk.vector) for chunk in page if chunk.vector is not None]
            if points:
                index.upsert(scope, points)
                index.flush(scope)
                ready = [chunk for chunk in page if chunk.vector is not None]
                store.documents.mark_embedded(scope, ready)
            written += len(points)
    return written
