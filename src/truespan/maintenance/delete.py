"""Deleting a document or a world for good: out of sight, out of the index, out of every file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexSchemaMismatch,
    IndexUnavailable,
    StorageFull,
    StoreBusy,
    TruespanError,
)
from truespan.protocols import AssetStore, Clock, Remains, TrustedStore, UploadStore, VectorIndex
from truespan.types.document import Document, RevisionRef
from truespan.types.maintenance import (
    NO_FILES,
    Erasure,
    ErasureKind,
    FileFate,
    LeftoverMatch,
    RemovedFiles,
    Trace,
)
from truespan.types.scope import OWNER, Authority, Generation, Scope, World


@dataclass(frozen=True, slots=True)
class PointsRemoved:
    """How many points of one generation were removed from the index."""

    generation: int
    profile: str
    points: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion did.

    `rows` counts the rows that each table lost, `redacted` the records of jobs that named it.
    `erased` says that its bytes are gone from every file that the library keeps; until then
    `waiting` has what is left to do and why, and 'truespan repair' does it. `outside` has what lies
    in files of servers and what those were told; with any of that, `erased` is never claimed.
    `check` is the look through the library's own files that was taken afterwards; None when nothing
    distinctive could be looked for.
    """

    world: str
    world_id: str
    number: int | None
    """The document's number; None when the whole world was deleted."""
    doc_id: str | None
    name: str
    deleted_at: float
    rows: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)
    points: tuple[PointsRemoved, ...] = ()
    assets: RemovedFiles = NO_FILES
    uploads: RemovedFiles = NO_FILES
    erased: bool = False
    waiting: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    check: LeftoverMatch | None = None
    digest: str = ""

    def sealed(self) -> Receipt:
        """Return the receipt with the digest over all the rest of it."""
        return replace(self, digest=digest_of(self.told()))

    def told(self) -> dict[str, Any]:
        """Return the receipt as data, fit for JSON."""
        fields = asdict(self)
        fields["assets"] = self.assets._asdict()
        fields["uploads"] = self.uploads._asdict()
        fields["check"] = self.check._asdict() if self.check else None
        fields["points"] = list(fields["points"])
        return fields


def digest_of(told: Mapping[str, Any]) -> str:
    """Return the digest of a receipt that was told as data; whoever keeps one may check it."""
    fields = {name: value for name, value in told.items() if name != "digest"}
    spelled = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(spelled.encode()).hexdigest()


_LATER = (
    IndexUnavailable,
    IndexRefused,
    IndexKeyRefused,
    IndexSchemaMismatch,
    StorageFull,
    StoreBusy,
)
"""What may be otherwise the next time."""


@dataclass(slots=True)
class ErasureReport:
    """What was done, and what waits for what."""

    done: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    outside: dict[str, FileFate] = field(default_factory=dict)
    """Files of servers, which were at most asked: nobody here knows what is left in them."""
    assets: RemovedFiles = NO_FILES
    uploads: RemovedFiles = NO_FILES


def apply_erasures(
    store: TrustedStore,
    index: VectorIndex,
    assets: AssetStore,
    uploads: UploadStore | None = None,
    *,
    urgent: bool = False,
    kinds: Collection[ErasureKind] = frozenset(ErasureKind),
) -> ErasureReport:
    """Do all that is queued; what cannot be done now stays queued, and the report says why.

    Safe to run twice or in two processes: each piece of work is forgotten only after it was done,
    and only if nobody has asked for it again meanwhile.
    """
    report = ErasureReport()
    for one in store.erasures(urgent=urgent):
        if one.kind not in kinds:
            continue
        try:
            _erase(store, index, assets, uploads, one, report)
        except _LATER as error:
            report.waiting[one.kind.value] = error.code
        else:
            store.finish_erasure(one)
            report.done += 1
    return report


def _erase(
    store: TrustedStore,
    index: VectorIndex,
    assets: AssetStore,
    uploads: UploadStore | None,
    one: Erasure,
    report: ErasureReport,
) -> None:
    match one.kind:
        case ErasureKind.POINTS if one.profile is not None:
            _drop(index, Scope(OWNER, one.world, Generation(one.generation, one.profile)))
        case ErasureKind.ASSETS:
            report.assets = assets.remove_all(one.world)
            if uploads is not None:
                report.uploads = uploads.remove_all(one.world)
        case ErasureKind.INDEX if one.profile is not None:
            _note(report, one.kind, index.erase(one.profile))
        case ErasureKind.STORE:
            _note(report, one.kind, store.rewrite_file())
        case _:
            raise AssertionError("points and index have a profile")


def _note(report: ErasureReport, kind: ErasureKind, became: FileFate) -> None:
    if became is not FileFate.GONE:
        report.outside[kind.value] = became


def _drop(index: VectorIndex, scope: Scope) -> None:
    # Not prepared first: where there is no collection, there are no points to remove.
    if scope.profile.id in index.collections():
        index.drop(scope)
        index.flush(scope)


_VECTORS_LOOKED_FOR = 4
_AT_ONCE = frozenset({ErasureKind.POINTS, ErasureKind.ASSETS})
_IN_FILES = "asked_for_later"


@dataclass(frozen=True, slots=True)
class Remover:
    """Deletes, erases, and gives a receipt."""

    store: TrustedStore
    index: VectorIndex
    assets: AssetStore
    clock: Clock
    remains: Remains | None
    uploads: UploadStore | None = None

    def document(
        self,
        scope: Scope,
        world: World,
        document: Document,
        *,
        erase: bool,
        uploads: RemovedFiles = NO_FILES,
    ) -> Receipt:
        """Delete a document: hidden first, then without images and points, then without rows.

        With `erase`, its bytes are removed from the files as well, and looked for afterwards.
        `uploads` are files of it that were removed before.
        """
        store = self.store
        traces = self._traces(scope, document.number) if erase else []
        redacted = store.tombstone(scope, document.number, erase=erase)
        refs = [ref for ref in store.retired(scope) if ref.document == document.number]
        gone = document.doc_id in store.deleted(scope)
        images = self.assets.remove(scope.world, document.doc_id) if gone else RemovedFiles(0, 0)
        points = self._remove_points(scope, refs)
        rows: Counter[str] = Counter()
        for ref in refs:
            rows.update(store.purge(scope, ref))
        receipt = Receipt(
            world=world.name,
            world_id=world.id,
            number=document.number,
            doc_id=document.doc_id,
            name=document.name,
            deleted_at=self.clock.now(),
            rows=dict(sorted(rows.items())),
            redacted=dict(redacted),
            points=points,
            assets=images,
            uploads=uploads,
        )
        return self._erased(receipt, traces, erase=erase)

    def clear(self, scope: Scope, withdrawn: Collection[int]) -> None:
        """Remove images, points and rows of documents of which something was withdrawn.

        What is in force stays. What rows leave in files is queued, as when a revision is replaced.
        """
        refs = [ref for ref in self.store.retired(scope) if ref.document in withdrawn]
        for doc_id in self.store.deleted(scope):
            self.assets.remove(scope.world, doc_id)
        self._remove_points(scope, refs)
        for ref in refs:
            self.store.purge(scope, ref)

    def world(self, authority: Authority, world: World, *, erase: bool) -> Receipt:
        """Delete a world with all that is in it.

        One commit removes its rows and writes down what has to follow. From then on nothing can
        name it, so its points cannot be asked for while they last.
        """
        generation = world.generation
        scope = Scope(authority, world.id, generation) if generation else None
        traces = self._traces(scope, None) if scope and erase else []
        points = self._points_of(scope) if scope else ()
        rows = self.store.delete_world(authority, world.id, erase=erase)
        receipt = Receipt(
            world=world.name,
            world_id=world.id,
            number=None,
            doc_id=None,
            name=world.name,
            deleted_at=self.clock.now(),
            rows=dict(sorted(rows.items())),
            points=points,
        )
        return self._erased(receipt, traces, erase=erase)

    def catch_up(self, *, urgent: bool = False) -> ErasureReport:
        """Do what earlier deletions left queued; with `urgent`, only what was asked for."""
        return apply_erasures(self.store, self.index, self.assets, self.uploads, urgent=urgent)

    def _points_of(self, scope: Scope) -> tuple[PointsRemoved, ...]:
        """Return how many points each generation has, as far as the index can tell."""
        counted = []
        for kept in self.store.kept_generations(scope):
            own = replace(scope, generation=kept.generation)
            with suppress(TruespanError):
                points = self.index.count(own)
                counted.append(PointsRemoved(own.generation.number, own.profile.id, points))
        return tuple(counted)

    def _traces(self, scope: Scope, document: int | None) -> list[Trace]:
        """Return what to look for afterwards; nothing when nobody will look."""
        if self.remains is None:
            return []
        return [*self.store.traces(scope, document), *self._vectors(scope, document)]

    def _vectors(self, scope: Scope, document: int | None) -> list[Trace]:
        """Return a few vectors as the index holds them, that no other text has."""
        ids = self.store.own_chunks(scope, document, limit=_VECTORS_LOOKED_FOR)
        try:
            points = self.index.read(scope, ids) if ids else []
        except TruespanError:
            # An index that cannot be read does not keep anybody from deleting.
            return []
        return [Trace(True, point.vector) for point in points]

    def _remove_points(
        self, scope: Scope, refs: Sequence[RevisionRef]
    ) -> tuple[PointsRemoved, ...]:
        removed = []
        for kept in self.store.kept_generations(scope):
            own = replace(scope, generation=kept.generation)
            if self.index.prepare(own):
                # An index that is found empty holds nothing of what the store says it holds.
                self.store.forget_index(own)
            ids = [chunk for ref in refs for chunk in self.store.chunk_ids(own, ref)]
            self.index.delete(own, ids)
            self.index.flush(own)
            removed.append(PointsRemoved(own.generation.number, own.profile.id, len(ids)))
        return tuple(removed)

    def _erased(self, receipt: Receipt, traces: Sequence[Trace], *, erase: bool) -> Receipt:
        """Remove what is left in files, look for it, and seal the receipt."""
        report = self._apply(erase=erase)
        check = self._check(traces) if erase else None
        found = check.found if check else 0
        return replace(
            receipt,
            assets=RemovedFiles(
                receipt.assets.files + report.assets.files,
                receipt.assets.bytes + report.assets.bytes,
            ),
            uploads=RemovedFiles(
                receipt.uploads.files + report.uploads.files,
                receipt.uploads.bytes + report.uploads.bytes,
            ),
            erased=erase and not (report.waiting or report.outside or found),
            waiting=report.waiting if erase else {"files": _IN_FILES},
            outside={kind: became.value for kind, became in report.outside.items()},
            check=check,
        ).sealed()

    def _apply(self, *, erase: bool) -> ErasureReport:
        kinds = frozenset(ErasureKind) if erase else _AT_ONCE
        return apply_erasures(
            self.store, self.index, self.assets, self.uploads, urgent=True, kinds=kinds
        )

    def _check(self, traces: Sequence[Trace]) -> LeftoverMatch | None:
        if self.remains is None or not traces:
            return None
        return self.remains.look_for(traces)
