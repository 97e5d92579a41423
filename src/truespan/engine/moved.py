"""Moving a library: the rows of its store, then its files, then an index made of what arrived."""

from __future__ import annotations

from collections.abc import Callable

from truespan.engine.library import Library
from truespan.model.migration import MigrationReport, MovedCount
from truespan.ports.moving import MovableRows
from truespan.upkeep.doctor.plan import counted
from truespan.upkeep.move import OnMoved, move


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
        findings={finding.value: count for finding, count in counted(plan.all_items()).items()},
    )
