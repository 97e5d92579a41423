"""Doing what deletions left queued: until it is done, deleted bytes may lie in some file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexSchemaMismatch,
    IndexUnavailable,
    StorageFull,
    StoreBusy,
)
from truespan.model.erasure import NO_FILES, Erasure, ErasureKind, FileFate, RemovedFiles
from truespan.model.scope import OWNER, Generation, Scope
from truespan.ports import AssetStore, TrustedStore, UploadStore, VectorIndex

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
