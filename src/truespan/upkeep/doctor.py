"""Comparing store and index both ways, and making the index what the store says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from truespan.errors import IndexRefused, IndexSchemaMismatch
from truespan.model.chunk import PendingChunk
from truespan.model.document import RevisionRef
from truespan.model.ids import ChunkId, TextHash
from truespan.model.scope import Scope
from truespan.ports import TrustedStore, VectorIndex


class Finding(StrEnum):
    """What the doctor looks for."""

    DAMAGED_TEXT = "damaged_text"
    MISSING_POINT = "missing_point"
    STALE_POINT = "stale_point"
    CHANGED_VECTOR = "changed_vector"
    DUPLICATE_POINT = "duplicate_point"
    ORPHAN_POINT = "orphan_point"
    NO_VECTOR = "no_vector_kept"
    PENDING = "pending_chunk"
    QUARANTINED = "quarantined_chunk"
    RETIRED = "retired_revision"
    QUEUED_REPAIR = "queued_repair"
    UNREADABLE_INDEX = "unreadable_index"


REMEDIES = {
    Finding.DAMAGED_TEXT: "restore from canonical text, or quarantine",
    Finding.MISSING_POINT: "write the point again from the kept vector",
    Finding.STALE_POINT: "write the point again from the kept vector",
    Finding.CHANGED_VECTOR: "write the point again from the kept vector",
    Finding.DUPLICATE_POINT: "write the point again from the kept vector",
    Finding.ORPHAN_POINT: "delete the point",
    Finding.NO_VECTOR: "embed the chunk again",
    Finding.PENDING: "embed the chunk",
    Finding.QUARANTINED: "ingest its source again: the stored text is lost",
    Finding.RETIRED: "delete its points and rows",
    Finding.QUEUED_REPAIR: "apply it",
    Finding.UNREADABLE_INDEX: "rebuild the whole index from kept vectors",
}


@dataclass(slots=True)
class Plan:
    """What was found in one world, and therefore what applying would do."""

    checked_chunks: int = 0
    checked_points: int = 0
    found: dict[Finding, list[ChunkId]] = field(default_factory=dict)
    pending: int = 0
    quarantined: int = 0
    retired: list[RevisionRef] = field(default_factory=list)
    repairs: int = 0
    unreadable: bool = False

    def add(self, finding: Finding, chunk_id: ChunkId) -> None:
        """Note one finding."""
        self.found.setdefault(finding, []).append(chunk_id)

    def counts(self) -> dict[Finding, int]:
        """Return how often each thing was found, the absent ones left out."""
        counts = {finding: len(ids) for finding, ids in self.found.items()}
        counts |= {
            Finding.PENDING: self.pending,
            Finding.QUARANTINED: self.quarantined,
            Finding.RETIRED: len(self.retired),
            Finding.QUEUED_REPAIR: self.repairs,
            Finding.UNREADABLE_INDEX: int(self.unreadable),
        }
        return {finding: count for finding, count in counts.items() if count}

    @property
    def healthy(self) -> bool:
        """Say whether there is nothing to do."""
        return not self.counts()


def examine(store: TrustedStore, index: VectorIndex, scope: Scope) -> Plan:
    """Compare every chunk with its point and every point with its chunk, bit for bit.

    A search or a count that fails proves nothing about single points: only a whole scan does.
    """
    status = store.status(scope)
    plan = Plan(
        pending=status.pending,
        quarantined=status.quarantined,
        retired=store.retired(scope),
        repairs=status.repairs,
    )
    for chunk_id in store.damaged_chunks(scope):
        plan.add(Finding.DAMAGED_TEXT, chunk_id)
    try:
        # Not prepared first: looking must not make an empty index where one was lost.
        points = _scan(index, scope, plan)
    except (IndexRefused, IndexSchemaMismatch):
        plan.unreadable = True
        return plan
    _compare(store, scope, points, plan)
    return plan


def _scan(
    index: VectorIndex, scope: Scope, plan: Plan
) -> dict[ChunkId, tuple[TextHash | None, bytes]]:
    points: dict[ChunkId, tuple[TextHash | None, bytes]] = {}
    for page in index.scan(scope):
        for point in page:
            plan.checked_points += 1
            if point.chunk_id in points:
                plan.add(Finding.DUPLICATE_POINT, point.chunk_id)
            points[point.chunk_id] = (point.text_hash, _digest(point.vector))
    return points


def _compare(
    store: TrustedStore,
    scope: Scope,
    points: dict[ChunkId, tuple[TextHash | None, bytes]],
    plan: Plan,
) -> None:
    for page in store.expected(scope):
        for chunk in page:
            plan.checked_chunks += 1
            finding = _difference(chunk, points.pop(chunk.chunk_id, None))
            if finding is not None:
                plan.add(finding, chunk.chunk_id)
    known = _known(store, scope, list(points))
    for chunk_id in points:
        if chunk_id not in known:
            plan.add(Finding.ORPHAN_POINT, chunk_id)


def _difference(chunk: PendingChunk, point: tuple[TextHash | None, bytes] | None) -> Finding | None:
    if chunk.vector is None:
        return Finding.NO_VECTOR
    if point is None:
        return Finding.MISSING_POINT
    if point[0] != chunk.text_hash:
        return Finding.STALE_POINT
    return Finding.CHANGED_VECTOR if point[1] != _digest(chunk.vector) else None


def _known(store: TrustedStore, scope: Scope, ids: list[ChunkId]) -> set[ChunkId]:
    """Return the ids the store knows in any state: those points are somebody's work in progress."""
    known: set[ChunkId] = set()
    for start in range(0, len(ids), 256):
        known.update(store.read_chunks(scope, ids[start : start + 256]))
    return known


def _digest(vector: bytes) -> bytes:
    return blake2b(vector, digest_size=16).digest()


def apply_plan(plan: Plan, store: TrustedStore, index: VectorIndex, scope: Scope) -> None:
    """Do what the plan says, up to the point where pending chunks only have to be embedded.

    Everything that is to be written again is marked pending first, so a crash in the middle
    leaves the work recorded.
    """
    index.prepare(scope)
    orphans = plan.found.get(Finding.ORPHAN_POINT, [])
    damaged = plan.found.get(Finding.DAMAGED_TEXT, [])
    again = [
        chunk_id
        for finding, ids in plan.found.items()
        if finding not in (Finding.ORPHAN_POINT, Finding.DAMAGED_TEXT)
        for chunk_id in ids
    ]
    store.mark_pending(scope, again)
    lost = [chunk_id for chunk_id in damaged if not store.rebuild_chunk(scope, chunk_id)]
    index.delete(scope, [*orphans, *lost, *plan.found.get(Finding.DUPLICATE_POINT, [])])
    index.flush(scope)
