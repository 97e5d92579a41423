"""Repair what retrieval found: delete wrong points, restore texts, write points again."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from truespan.errors import TruespanError
from truespan.observer import RequestTrace
from truespan.protocols import VectorIndex
from truespan.types.chunk import PendingChunk
from truespan.types.ids import ChunkId, TextHash
from truespan.types.scope import Scope
from truespan.types.telemetry import CounterName, RepairAction, Stage
from truespan.types.trust import FailureKind, Repair

if TYPE_CHECKING:
    from truespan.store import Store


@dataclass(slots=True)
class RepairReport:
    """What repairs did. `reembedded` counts chunks whose points were written again."""

    deleted_points: int = 0
    restored_texts: int = 0
    quarantined: list[ChunkId] = field(default_factory=list)
    reembedded: int = 0
    erasures: int = 0
    """Erasures done: files rewritten, or points and images of a deleted world removed."""
    erasures_waiting: dict[str, str] = field(default_factory=dict)

    def add(self, other: RepairReport) -> None:
        """Add the counts of another report."""
        self.deleted_points += other.deleted_points
        self.restored_texts += other.restored_texts
        self.quarantined += other.quarantined
        self.reembedded += other.reembedded


def apply_repairs(store: Store, index: VectorIndex, scope: Scope) -> RepairReport:
    """Apply every queued repair of a scope; safe to run twice or in two processes.

    Each chunk is checked again first: since it was found, it may have been embedded again, replaced
    or deleted.
    """
    report = RepairReport()
    repairs = store.repairs(scope)
    if not repairs:
        return report
    _restore_texts(store, scope, repairs, report)
    _delete_points(store, index, scope, repairs, report)
    store.finish_repairs(scope, [repair.number for repair in repairs])
    return report


def apply_observed_repairs(
    store: Store, index: VectorIndex, scope: Scope, trace: RequestTrace
) -> RepairReport:
    """Apply every queued repair, and count each kind."""
    with trace.stage(Stage.REPAIRED):
        report = apply_repairs(store, index, scope)
    trace.count(CounterName.REPAIRS, report.deleted_points, RepairAction.DELETED_POINT)
    trace.count(CounterName.REPAIRS, report.restored_texts, RepairAction.RESTORED_TEXT)
    trace.count(CounterName.REPAIRS, len(report.quarantined), RepairAction.QUARANTINED)
    return report


def _restore_texts(
    store: Store, scope: Scope, repairs: Sequence[Repair], report: RepairReport
) -> None:
    broken = {FailureKind.MISSING, FailureKind.DAMAGED}
    for chunk_id in _ids(repairs, broken):
        if store.rebuild_chunk(scope, chunk_id):
            report.restored_texts += 1
        else:
            report.quarantined.append(chunk_id)


def _delete_points(
    store: Store,
    index: VectorIndex,
    scope: Scope,
    repairs: Sequence[Repair],
    report: RepairReport,
) -> None:
    wrong = [
        repair.failure
        for repair in repairs
        if repair.failure.kind in (FailureKind.STALE, FailureKind.ORPHAN, FailureKind.QUARANTINED)
    ]
    quarantined = set(report.quarantined)
    found = store.read_chunks(scope, [flaw.chunk_id for flaw in wrong]) if wrong else {}
    stale: list[tuple[ChunkId, TextHash]] = []
    for flaw in wrong:
        record = found.get(flaw.chunk_id)
        # The chunk row's own hash may be forged; the state row has the one that was embedded.
        trusted = (
            record is not None
            and record.chunk is not None
            and record.recorded_hash == flaw.point_hash
        )
        if flaw.kind is FailureKind.QUARANTINED or not trusted:
            stale.append((flaw.chunk_id, flaw.point_hash))
    stale += [
        (repair.failure.chunk_id, repair.failure.point_hash)
        for repair in repairs
        if repair.failure.chunk_id in quarantined
    ]
    if stale:
        index.prepare(scope)
        index.delete_stale(scope, stale)
        index.flush(scope)
    if any(flaw.kind is FailureKind.ORPHAN for flaw in wrong):
        # It may be left of a deleted document, whose text must not stay in files either.
        store.queue_erasure(scope)
    report.deleted_points = len(stale)


def _ids(repairs: Sequence[Repair], kinds: set[FailureKind]) -> list[ChunkId]:
    return list(
        dict.fromkeys(repair.failure.chunk_id for repair in repairs if repair.failure.kind in kinds)
    )


CLOSING_SECONDS = 5.0

_log = logging.getLogger("truespan.jobs")


class BackgroundRepairs:
    """Applies queued repairs on its own thread, which starts with the first one.

    Repairs that are left at `close` stay queued in the store for `repair`.
    """

    def __init__(self, repair: Callable[[Scope], object]) -> None:
        self._repair = repair
        self._queue: queue.SimpleQueue[Scope | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, scope: Scope) -> None:
        """Queue the repairs of a scope."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="truespan-repairs", daemon=True
                )
                self._thread.start()
        self._queue.put(scope)

    def close(self) -> None:
        """Wait a few seconds for the queued repairs."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(CLOSING_SECONDS)

    def _work(self) -> None:
        while (scope := self._queue.get()) is not None:
            try:
                self._repair(scope)
            except TruespanError:
                # The repair stays queued in the store; the response did not depend on it.
                continue
            except Exception as error:
                # One failing repair must not stop the others.
                _log.error("A background repair failed with %s.", type(error).__name__)


_PAGE = 512


def refill(store: Store, index: VectorIndex, scope: Scope) -> int:
    """Write a point for every pending chunk that has a stored vector, in all generations.

    Returns how many were written. The others stay pending until they are embedded.
    """
    return sum(
        _refill(store, index, replace(scope, generation=kept.generation))
        for kept in store.kept_generations(scope)
    )


def _refill(store: Store, index: VectorIndex, scope: Scope) -> int:
    if index.prepare(scope):
        store.mark_all_pending(scope)
    done = 0
    for chunks in _pending(store, scope):
        points = [chunk.point(chunk.vector) for chunk in chunks if chunk.vector is not None]
        if points:
            index.upsert(scope, points)
            index.flush(scope)
            written = {point.chunk_id for point in points}
            store.mark_embedded(scope, [chunk for chunk in chunks if chunk.chunk_id in written])
        done += len(points)
    return done


def _pending(store: Store, scope: Scope) -> Iterator[list[PendingChunk]]:
    for ref in store.unfinished(scope):
        after = -1
        while page := store.pending(scope, ref, after=after, limit=_PAGE):
            after = page[-1].index
            yield page
