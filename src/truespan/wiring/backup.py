"""Backups: who writes those of a library, and how a library is made of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from truespan.adapters.sqlite_store.snapshot import FileSource
from truespan.errors import TruespanError
from truespan.files.assets import AssetFolder
from truespan.files.backup.write import LibraryBackups, SnapshotSource
from truespan.protocols import Clock
from truespan.settings import FILE_NAME, names_server, read_settings
from truespan.settings.catalogue import Settings
from truespan.system import SystemClock
from truespan.wiring.servers import is_on_server, server_store

if TYPE_CHECKING:
    from truespan.adapters.postgres_store import PostgresStore
    from truespan.adapters.postgres_store.moving import PostgresRows
    from truespan.files.backup.restore import PlacedFiles
    from truespan.protocols import MovableRows
    from truespan.types.maintenance import Manifest

STORE_FILE = "store.db"
ASSETS_FOLDER = "data/rag-assets"
KEY_FILE = "pseudonyms.key"
USAGE_KEY_FILE = "usage.key"


def backups_of(
    folder: Path,
    assets: AssetFolder,
    settings: Settings,
    clock: Clock,
    server: PostgresStore | None = None,
) -> LibraryBackups:
    """Return who writes backups of the library in a folder, whose store may be on a server."""
    return LibraryBackups(
        store=FileSource(folder / STORE_FILE) if server is None else _rows_of(server, settings),
        assets=assets,
        settings={f"settings/{FILE_NAME}": folder / FILE_NAME},
        keys={f"keys/{name}": folder / name for name in (KEY_FILE, USAGE_KEY_FILE)},
        version=_version,
        clock=clock,
        reserve=settings.disk_reserve,
    )


def _version() -> str:
    from importlib.metadata import version

    return version("truespan")


def _rows_of(store: PostgresStore, settings: Settings) -> SnapshotSource:
    from truespan.engine.moved import copy_for_backup
    from truespan.files.backup.write import RowsSource

    return RowsSource(
        store.as_rows,
        lambda: store.as_rows().size(),
        copy_for_backup,
        reserve=settings.disk_reserve,
    )


def restore_library(path: Path, folder: Path) -> Manifest:
    """Make a library of a backup, whole or not at all; its index is yet to be written.

    It goes into a new folder, unless the settings of the folder or the environment name a store on
    a server.
    """
    settings = read_settings(folder)
    if is_on_server(settings):
        return _restore_to_server(path, folder, settings)
    from truespan.files.backup.restore import restore_files

    return restore_files(path, folder, assets=ASSETS_FOLDER, names_server=names_server)


def laid_aside(folder: Path) -> Path | None:
    """Return where the settings of a backup lie that were not put into force."""
    from truespan.files.backup.restore import SETTINGS_ASIDE

    return folder / SETTINGS_ASIDE if (folder / SETTINGS_ASIDE).exists() else None


def _restore_to_server(path: Path, folder: Path, settings: Settings) -> Manifest:
    from truespan.files.backup.restore import restore_rows

    store = server_store(folder, settings, SystemClock())

    def receive(rows: MovableRows, files: PlacedFiles) -> None:
        _take(rows, files, store.as_rows())

    try:
        return restore_rows(
            path,
            folder,
            assets=folder / (settings.rag_assets_dir or ASSETS_FOLDER),
            receive=receive,
            names_server=names_server,
        )
    finally:
        store.close()


def _take(rows: MovableRows, files: PlacedFiles, target: PostgresRows) -> None:
    """Write all rows in one transaction, whose commit comes after the files are in their places."""
    from truespan.adapters.sqlite_store.snapshot import UNRESTORED
    from truespan.engine.moved import copy_from_backup

    try:
        with target.at_once():
            copy_from_backup(rows, target, UNRESTORED)
            files.place()
    except BaseException:
        # An answer to the commit may have been lost: files stay where rows may speak of them.
        if not _may_have_arrived(target):
            files.take_back()
        raise


def _may_have_arrived(target: PostgresRows) -> bool:
    try:
        return bool(target.world_ids())
    except TruespanError:
        return True


def verified_backup(path: Path) -> Manifest:
    """Return what a backup says of itself, once all of it was read and found to be so."""
    from truespan.files.backup.restore import verify_backup

    return verify_backup(path)
