"""Moving a library: the rows of its store, then its files, then an index made of what arrived."""

from __future__ import annotations

from collections.abc import Callable, Collection

from truespan.errors import (
    BackupInvalid,
    InvalidSettings,
    MigrationRefused,
    StoreDamaged,
    WorldNotFound,
)
from truespan.library import Library
from truespan.maintenance.doctor.plan import count_findings
from truespan.maintenance.move import OnMoved, move
from truespan.protocols import MovableRows
from truespan.types.maintenance import MigrationReport, MovedCount


def move_library(
    source: MovableRows,
    target: MovableRows,
    *,
    copy_files: Callable[[], int],
    open_target: Callable[[], Library],
    path: str,
    on_moved: OnMoved | None = None,
) -> MigrationReport:
    """Move everything, each step after the one before it was proved; the source is only read.

    Stopped anywhere, the same call goes on: rows and files that are there are not sent again, and
    points are written for the chunks that have none.

    Raises:
        MigrationRefused: the target holds something else, or what arrived is not what was sent.
    """
    moved = move(source, target, on_moved)
    files = copy_files()
    with open_target() as library:
        library.refill()
        # Each point is held against the store, which was held against the source.
        plan = library.doctor(embed_sample=0)
        pending = library.pending()
    return MigrationReport(
        path=path,
        worlds=moved.worlds,
        tables={name: MovedCount(one.rows, one.digest) for name, one in moved.tables.items()},
        files=files,
        points=sum(world.checked_points for world in plan.values()),
        pending=pending,
        findings={
            finding.value: count for finding, count in count_findings(plan.all_items()).items()
        },
    )


def copy_for_backup(source: MovableRows, target: MovableRows, leave: Collection[str]) -> None:
    """Copy one state of a store into an empty one, and read it back.

    Raises:
        BackupInvalid: what arrived is not what was sent.
        StoreDamaged: rows of the source refer to what is not there.
    """
    try:
        move(source, target, leave=leave)
    except MigrationRefused:
        raise BackupInvalid(
            "The copy of the store is not what was read from it; no backup was made.",
            advice="Try again. If that stays so, run 'truespan doctor'.",
        ) from None


def copy_from_backup(source: MovableRows, target: MovableRows, leave: Collection[str]) -> None:
    """Copy what a backup's store holds into an empty one, and read it back.

    The backup may be anybody's: whatever the target's own rules refuse is the backup's fault.

    Raises:
        InvalidSettings: the target has worlds.
        BackupInvalid: it holds what the other kind of store does not take.
    """
    if target.world_ids():
        raise InvalidSettings(
            "The store holds worlds already.", advice="Restore into one that is new and prepared."
        )
    try:
        move(source, target, leave=leave)
    except (MigrationRefused, StoreDamaged, InvalidSettings, WorldNotFound, UnicodeDecodeError):
        raise BackupInvalid(
            "The backup's store holds what this store does not take; nothing was kept.",
            advice="Restore it into a folder, where 'truespan doctor' says what is wrong.",
        ) from None
