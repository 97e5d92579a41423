"""Applying what retrieval found: delete by comparison, restore from canonical text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from truespan.model.ids import ChunkId, TextHash
from truespan.model.names import Deed, Stage, Tally
from truespan.model.scope import Scope
from truespan.model.trail import FlawKind, Repair
from truespan.ports import Course, TrustedStore, VectorIndex


@dataclass(slots=True)
class RepairReport:
    """What repairs did. `reembedded` counts chunks whose points were written again."""

    deleted_points: int = 0
    restored_texts: int = 0
    quarantined: list[ChunkId] = field(default_factory=list)
    reembedded: int = 0
    erasures: int = 0
    """How often files were written anew, or points and images of a deleted world removed."""
    erasures_waiting: dict[str, str] = field(default_factory=dict)

    def add(self, other: RepairReport) -> None:
        """Count what was done elsewhere as well."""
        self.deleted_points += other.deleted_points
        self.restored_texts += other.restored_texts
        self.quarantined += other.quarantined
        self.reembedded += other.reembedded


def apply_repairs(store: TrustedStore, index: VectorIndex, scope: Scope) -> RepairReport:
    """Do every queued repair of the scope's world; safe to run twice or in two processes.

    Everything is looked at again first: between finding and mending, the chunk may have been
    embedded anew, replaced or deleted.
    """
    report = RepairReport()
    repairs = store.repairs(scope)
    if not repairs:
        return report
    _restore_texts(store, scope, repairs, report)
    _delete_points(store, index, scope, repairs, report)
    store.finish_repairs(scope, [repair.number for repair in repairs])
    return report


def watched_repairs(
    store: TrustedStore, index: VectorIndex, scope: Scope, course: Course
) -> RepairReport:
    """Do every queued repair, and say how many of each kind there were."""
    with course.stage(Stage.REPAIRED):
        report = apply_repairs(store, index, scope)
    course.count(Tally.REPAIRS, report.deleted_points, Deed.DELETED_POINT)
    course.count(Tally.REPAIRS, report.restored_texts, Deed.RESTORED_TEXT)
    course.count(Tally.REPAIRS, len(report.quarantined), Deed.QUARANTINED)
    return report


def _restore_texts(
    store: TrustedStore, scope: Scope, repairs: Sequence[Repair], report: RepairReport
) -> None:
    broken = {FlawKind.MISSING, FlawKind.DAMAGED}
    for chunk_id in _ids(repairs, broken):
        if store.rebuild_chunk(scope, chunk_id):
            report.restored_texts += 1
        else:
            report.quarantined.append(chunk_id)


def _delete_points(
    store: TrustedStore,
    index: VectorIndex,
    scope: Scope,
    repairs: Sequence[Repair],
    report: RepairReport,
) -> None:
    wrong = [
        repair.flaw
        for repair in repairs
        if repair.flaw.kind in (FlawKind.STALE, FlawKind.ORPHAN, FlawKind.QUARANTINED)
    ]
    quarantined = set(report.quarantined)
    found = store.read_chunks(scope, [flaw.chunk_id for flaw in wrong]) if wrong else {}
    stale: list[tuple[ChunkId, TextHash]] = []
    for flaw in wrong:
        record = found.get(flaw.chunk_id)
        chunk = record.chunk if record else None
        trusted = chunk is not None and chunk.text_hash == flaw.point_hash
        if flaw.kind is FlawKind.QUARANTINED or not trusted:
            stale.append((flaw.chunk_id, flaw.point_hash))
    stale += [
        (repair.flaw.chunk_id, repair.flaw.point_hash)
        for repair in repairs
        if repair.flaw.chunk_id in quarantined
    ]
    if stale:
        index.prepare(scope)
        index.delete_stale(scope, stale)
        index.flush(scope)
    if any(flaw.kind is FlawKind.ORPHAN for flaw in wrong):
        # It may be what was left of something deleted, and is not to be found in files either.
        store.queue_erasure(scope)
    report.deleted_points = len(stale)


def _ids(repairs: Sequence[Repair], kinds: set[FlawKind]) -> list[ChunkId]:
    return list(
        dict.fromkeys(repair.flaw.chunk_id for repair in repairs if repair.flaw.kind in kinds)
    )
