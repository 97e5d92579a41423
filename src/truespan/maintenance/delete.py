"""Delete a document or a world: hide it, remove its points and rows, erase it from files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import asdict, replace

from truespan import errors
from truespan.core.clock import format_time
from truespan.core.disk import freeing_space
from truespan.protocols import Clock, VectorIndex
from truespan.types.document import Document, RevisionRef
from truespan.types.ids import WorldId
from truespan.types.maintenance import (
    NO_FILES,
    Erasure,
    ErasureKind,
    FileTreatment,
    RemovedFiles,
    sum_files,
)
from truespan.types.scope import OWNER, Authority, Generation, Scope, World

if TYPE_CHECKING:
    from truespan.files.assets import AssetFolder, PictureFolder
    from truespan.files.uploads import UploadFolder
    from truespan.store import Store


class PointsRemoved(Struct, frozen=True):
    """Number of points removed from the index of one generation."""

    generation: int
    profile: str
    points: int


class Receipt(Struct, frozen=True):
    """Receipt of a deletion.

    `rows` counts the deleted rows by table, `redacted` the job records that named the document.
    `erased` is true if every file of the library that had its bytes was rewritten or removed;
    otherwise `waiting` has the remaining work and the reasons, and 'truespan repair' does it.
    `outside` lists files of servers and the requests made there; then `erased` is always false.
    """

    world: str
    world_id: str
    number: int | None
    """The document's number; None if the whole world was deleted, or conversations."""
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
    digest: str = ""
    conversation: str | None = None
    """The id of a deleted conversation; in JSON only if there is one, as the reader."""
    reader: str | None = None
    """The reader whose conversations were deleted."""

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["assets"] = self.assets._asdict()
        fields["uploads"] = self.uploads._asdict()
        fields["points"] = to_builtins(self.points)
        fields["deleted_at"] = format_time(self.deleted_at)
        for name in ("conversation", "reader"):
            if fields[name] is None:
                del fields[name]
        return fields


def digest_of(receipt: Mapping[str, Any]) -> str:
    """Return the digest of a receipt in JSON, to compare it with the digest that it contains."""
    fields = {name: value for name, value in receipt.items() if name != "digest"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


_RETRIED_LATER = (
    *(errors.IndexUnavailable, errors.IndexRefused, errors.IndexKeyRefused, errors.IndexNotOwned),
    *(errors.IndexSchemaMismatch, errors.StorageFull),
    errors.StoreBusy,
)
"""Errors after which an erasure stays queued."""


class ErasureReport(Struct):
    """Finished erasures, and queued ones with their reasons."""

    done: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    outside: dict[str, FileTreatment] = field(default_factory=dict)
    """Files of servers, where erasure can be requested but not confirmed."""
    assets: RemovedFiles = NO_FILES
    uploads: RemovedFiles = NO_FILES


_DELETED_AT_ONCE = ("conversations", "turns", "notes")
"""Tables whose rows are deleted when a document is hidden, before its own rows are."""
_IMMEDIATE_KINDS = frozenset({ErasureKind.POINTS, ErasureKind.ASSETS})
_NOT_REQUESTED = "asked_for_later"


class Remover(Struct, frozen=True):
    """Deletes documents and worlds, erases them from files, and returns receipts."""

    store: Store
    index: VectorIndex
    assets: AssetFolder
    clock: Clock
    uploads: UploadFolder | None = None
    pictures: PictureFolder | None = None

    @freeing_space()
    def document(
        self,
        scope: Scope,
        world: World,
        document: Document,
        *,
        erase: bool,
        uploads: RemovedFiles = NO_FILES,
    ) -> Receipt:
        """Delete a document: hide it, delete images and points, then rows.

        With `erase`, its bytes are also removed from files. `uploads` are its uploaded files,
        removed before. If the index does not answer, points and rows wait for 'truespan repair'.
        """
        store = self.store
        redacted = dict(store.documents.tombstone(scope, document.number, erase=erase))
        refs = [ref for ref in store.documents.retired(scope) if ref.document == document.number]
        gone = document.doc_id in store.documents.deleted(scope)
        images = self._remove_files(scope.world, document.doc_id) if gone else NO_FILES
        points, rows, waiting = (), Counter[str](), {}
        rows.update({name: redacted.pop(name) for name in _DELETED_AT_ONCE if name in redacted})
        try:
            points = self._remove_points(scope, refs)
        except _RETRIED_LATER as error:
            # The document is hidden. Its rows stay until its points are deleted, because only the
            # rows identify the points.
            waiting["points"] = error.code
        else:
            for ref in refs:
                rows.update(store.documents.purge(scope, ref))
        receipt = self._receipt(
            world,
            rows,
            number=document.number,
            doc_id=document.doc_id,
            name=document.name,
            redacted=redacted,
            points=points,
            assets=images,
            uploads=uploads,
            waiting=waiting,
        )
        return self._erase_files(receipt, erase=erase)

    @freeing_space()
    def clear(self, scope: Scope, documents: Collection[int]) -> None:
        """Delete images, points and rows of discarded revisions of these documents.

        Active revisions stay. Erasure from files is queued, as when a revision is replaced.
        """
        refs = [ref for ref in self.store.documents.retired(scope) if ref.document in documents]
        for doc_id in self.store.documents.deleted(scope):
            self._remove_files(scope.world, doc_id)
        self._remove_points(scope, refs)
        for ref in refs:
            self.store.documents.purge(scope, ref)

    def _remove_files(self, world: WorldId, doc_id: str) -> RemovedFiles:
        removed = [self.assets.remove(world, doc_id)]
        if self.pictures is not None:
            removed.append(self.pictures.remove(world, doc_id))
        return sum_files(removed)

    @freeing_space()
    def world(self, authority: Authority, world: World, *, erase: bool) -> Receipt:
        """Delete a world with everything in it.

        One commit deletes its rows and queues the rest. From then on no request can name the world,
        so its remaining points cannot be found.
        """
        generation = world.generation
        scope = Scope(authority, world.id, generation) if generation else None
        points = []
        for kept in self.store.worlds.kept_generations(scope) if scope else ():
            own = Scope(authority, world.id, kept.generation)
            # An index that cannot count its points does not prevent a deletion.
            with suppress(errors.TruespanError):
                count = self.index.count(own)
                points.append(PointsRemoved(own.generation.number, own.profile.id, count))
        rows = self.store.erasures.delete_world(authority, world.id, erase=erase)
        receipt = self._receipt(world, rows, points=tuple(points))
        return self._erase_files(receipt, erase=erase)

    @freeing_space()
    def conversations(
        self,
        authority: Authority,
        world: World,
        *,
        conversation: str | None = None,
        reader: str | None = None,
        erase: bool,
    ) -> Receipt:
        """Delete one conversation of the caller, all of a reader, or all of a world."""
        rows = self.store.conversations.delete(
            authority, world.id, conversation=conversation, reader=reader, erase=erase
        )
        name = conversation or reader or world.name
        receipt = self._receipt(world, rows, name=name, conversation=conversation, reader=reader)
        return self._erase_files(receipt, erase=erase)

    def finish_erasures(
        self, *, urgent: bool = False, kinds: Collection[ErasureKind] = frozenset(ErasureKind)
    ) -> ErasureReport:
        """Execute queued erasures; with `urgent`, only requested ones.

        Erasures that fail stay queued, and the report has the reasons. Safe to run twice or in two
        processes: an erasure leaves the queue only after it was done, unless it was requested again
        meanwhile.
        """
        report = ErasureReport()
        for erasure in self.store.erasures.all(urgent=urgent):
            if erasure.kind not in kinds:
                continue
            try:
                fate = self._erase(erasure, report)
            except _RETRIED_LATER as error:
                report.waiting[erasure.kind.value] = error.code
                continue
            if fate is not FileTreatment.GONE:
                report.outside[erasure.kind.value] = fate
            self.store.erasures.finish(erasure)
            report.done += 1
        return report

    def _erase(self, erasure: Erasure, report: ErasureReport) -> FileTreatment:
        if erasure.kind is ErasureKind.STORE:
            return self.store.erasures.rewrite_file()
        if erasure.kind is ErasureKind.ASSETS:
            report.assets = self.assets.remove_all(erasure.world)
            if self.pictures is not None:
                pictures = self.pictures.remove_all(erasure.world)
                report.assets = sum_files([report.assets, pictures])
            if self.uploads is not None:
                report.uploads = self.uploads.remove_all(erasure.world)
            return FileTreatment.GONE
        if erasure.profile is None:
            raise AssertionError("points and index have a profile")
        if erasure.kind is ErasureKind.INDEX:
            return self.index.erase(erasure.profile)
        # `prepare` is not called: a missing collection has no points to remove.
        if erasure.profile.id in self.index.collections():
            scope = Scope(OWNER, erasure.world, Generation(erasure.generation, erasure.profile))
            self.index.drop(scope)
            self.index.flush(scope)
        return FileTreatment.GONE

    def _remove_points(
        self, scope: Scope, refs: Sequence[RevisionRef]
    ) -> tuple[PointsRemoved, ...]:
        removed = []
        for kept in self.store.worlds.kept_generations(scope):
            own = replace(scope, generation=kept.generation)
            if self.index.prepare(own):
                # The index was lost and recreated, so every chunk is pending again.
                self.store.chunks.mark_all_pending(own)
            ids = [chunk for ref in refs for chunk in self.store.documents.chunk_ids(own, ref)]
            self.index.delete(own, ids)
            self.index.flush(own)
            removed.append(PointsRemoved(own.generation.number, own.profile.id, len(ids)))
        return tuple(removed)

    def _receipt(self, world: World, rows: Mapping[str, int], **own: Any) -> Receipt:
        whole = {"number": None, "doc_id": None, "name": world.name}
        return Receipt(
            world=world.name,
            world_id=world.id,
            deleted_at=self.clock.now(),
            rows=dict(sorted(rows.items())),
            **whole | own,
        )

    def _erase_files(self, receipt: Receipt, *, erase: bool) -> Receipt:
        kinds = frozenset(ErasureKind) if erase else _IMMEDIATE_KINDS
        report = self.finish_erasures(urgent=True, kinds=kinds)
        receipt = replace(
            receipt,
            assets=sum_files([receipt.assets, report.assets]),
            uploads=sum_files([receipt.uploads, report.uploads]),
            erased=erase and not (receipt.waiting or report.waiting or report.outside),
            waiting={**(report.waiting if erase else {"files": _NOT_REQUESTED}), **receipt.waiting},
            outside={kind: fate.value for kind, fate in report.outside.items()},
        )
        return replace(receipt, digest=digest_of(receipt.to_json()))
