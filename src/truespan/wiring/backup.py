"""Which files, settings and stores belong to a library's backups."""

from __future__ import annotations

from pathlib import Path

from truespan.files.assets import AssetFolder
from truespan.files.backup import (
    SETTINGS_ASIDE,
    BackupWriter,
    restore_to_folder,
    restore_to_server,
    verify_backup,
)
from truespan.protocols import Clock
from truespan.settings import FILE_NAME, names_server, read_settings
from truespan.settings.catalogue import Settings
from truespan.store import Store
from truespan.store.snapshot import FileSnapshots, ServerSnapshots
from truespan.system import SystemClock
from truespan.types.maintenance import Manifest
from truespan.wiring.servers import is_on_server, server_store

__all__ = [
    "ASSETS_FOLDER",
    "KEY_FILE",
    "STORE_FILE",
    "USAGE_KEY_FILE",
    "backup_writer",
    "find_settings_aside",
    "restore_library",
    "verify_backup",
]  # fmt: skip

STORE_FILE = "store.db"
ASSETS_FOLDER = "data/rag-assets"
KEY_FILE = "pseudonyms.key"
USAGE_KEY_FILE = "usage.key"


def backup_writer(
    folder: Path,
    assets: AssetFolder,
    settings: Settings,
    clock: Clock,
    server: Store | None = None,
) -> BackupWriter:
    """Return what writes backups of the library in a folder, whose store may be on a server."""
    return BackupWriter(
        store=FileSnapshots(folder / STORE_FILE)
        if server is None
        else ServerSnapshots(server.as_rows, settings.disk_reserve),
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


def restore_library(path: Path, folder: Path) -> Manifest:
    """Make a library from a backup, completely or not at all; its index is yet to be written.

    It goes into a new folder, unless the settings of the folder or the environment name a store on
    a server.
    """
    settings = read_settings(folder)
    if not is_on_server(settings):
        return restore_to_folder(path, folder, assets=ASSETS_FOLDER, names_server=names_server)
    store = server_store(folder, settings, SystemClock())
    try:
        return restore_to_server(
            path,
            folder,
            assets=folder / (settings.rag_assets_dir or ASSETS_FOLDER),
            target=store.as_rows(),
            names_server=names_server,
        )
    finally:
        store.close()


def find_settings_aside(folder: Path) -> Path | None:
    """Return the settings of a restored backup that did not take effect; None without any."""
    return folder / SETTINGS_ASIDE if (folder / SETTINGS_ASIDE).exists() else None
