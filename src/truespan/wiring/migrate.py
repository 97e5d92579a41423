"""Migration of a library between a folder and a server: rows, then files, then a new index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truespan.core.clock import SystemClock
from truespan.core.disk import copy_file, copy_tree
from truespan.errors import InvalidArgument, LibraryNotFound, resource_error
from truespan.maintenance.doctor.plan import count_findings
from truespan.settings import read_own_settings, read_settings
from truespan.settings.catalogue import Settings
from truespan.store.transfer.copy import StoreRows, copy_rows
from truespan.types.maintenance import MigrationReport, MovedCount
from truespan.wiring import open_library, storage


@contextmanager
def _open_rows(folder: Path, settings: Settings) -> Iterator[StoreRows]:
    store = storage.open_store(folder, settings, SystemClock())
    try:
        yield store.as_rows()
    finally:
        store.close()


def migrate_library(source: Path, target: Path) -> MigrationReport:
    """Move the library of one folder to another folder, whose store and index may be on servers.

    Each step starts after the step before it was verified, and the source is only read. After an
    interruption the same call continues: rows and files that arrived are not sent again, and points
    are written for the chunks that have none.

    Raises:
        LibraryNotFound: there is no library to move.
        InvalidArgument: both are the same library.
        MigrationRefused: the target holds something else, or what arrived differs from the source.
    """
    if not source.is_dir():
        raise LibraryNotFound(str(source))
    old = read_own_settings(source)
    if not (storage.is_on_server(old) or (source / storage.STORE_FILE).exists()):
        raise LibraryNotFound(str(source))
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        refusal = InvalidArgument(f"{target} cannot be made: {error.strerror}.")
        raise resource_error(error) or refusal from None
    new = read_settings(target)
    same_library = InvalidArgument(
        "A library cannot be moved into itself.",
        advice="Name the folder that it is moved from, and with --library the other one.",
    )
    same_folder = source.resolve() == target.resolve()
    if same_folder and storage.is_on_server(old) == storage.is_on_server(new):
        raise same_library
    with _open_rows(source, old) as sent, _open_rows(target, new) as received:
        # Two folders may name one database.
        if sent.identity() == received.identity():
            raise same_library
        copied = copy_rows(sent, received)
        images, copies = storage.assets_folder(source, old), storage.assets_folder(target, new)
        files = copy_tree(images, copies, reserve=new.disk_reserve)
        for name in (storage.KEY_FILE, storage.USAGE_KEY_FILE):
            if not same_folder:
                files += copy_file(source / name, target / name)
        with open_library(target) as library:
            library.server.refill()
            # Each point is compared with the store, which was compared with the source.
            plan = library.doctor(embed_sample=0)
            pending = library.server.pending()
    counts = {name: MovedCount(table.rows, table.digest) for name, table in copied.tables.items()}
    return MigrationReport(
        path=str(target),
        worlds=copied.worlds,
        tables=counts,
        files=files,
        points=sum(world.checked_points for world in plan.values()),
        pending=pending,
        findings={code.value: count for code, count in count_findings(plan.all_items()).items()},
    )
