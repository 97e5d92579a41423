"""The storage of a library, in its folder or on servers: store, index, jobs, files, backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from truespan.core.clock import SystemClock
from truespan.core.disk import DISK_RESERVE
from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock
from truespan.settings import FILE_NAME, STORE_FILE, names_server, read_settings
from truespan.settings.catalogue import Settings, split_list
from truespan.store import Store
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.tables import require, tables
from truespan.types.ids import WorldId
from truespan.types.maintenance import Manifest

if TYPE_CHECKING:
    from truespan.files.assets import AssetFolder, PictureFolder
    from truespan.files.backup import BackupWriter

__all__ = ["STORE_FILE"]

ASSETS_FOLDER = "data/rag-assets"
PICTURES_FOLDER = "data/page-pictures"
KEY_FILE = "pseudonyms.key"
USAGE_KEY_FILE = "usage.key"
SIGNING_KEYS_FILE = "signing.key"
KEY_FILES = (KEY_FILE, USAGE_KEY_FILE, SIGNING_KEYS_FILE)


def is_on_server(settings: Settings) -> bool:
    """Return whether the settings put the store on a server."""
    return bool(settings.store.url or settings.store.url_file)


def assets_folder(folder: Path, settings: Settings) -> Path:
    """Return the folder of images; a relative path is relative to the library."""
    return folder / (settings.rag_assets_dir or ASSETS_FOLDER)


def open_store(folder: Path, settings: Settings, clock: Clock) -> Store:
    """Return the store: a file, or a database on a server that is checked to separate worlds."""
    if is_on_server(settings):
        return Store(component("database", "cluster", folder, settings), clock)
    return Store(SqliteDatabase(folder / STORE_FILE, reserve=DISK_RESERVE), clock)


def component(name: str, extension: str, *arguments: object) -> Any:
    """Return a component that an extension creates."""
    return require(tables().components.get(name), name, extension)(*arguments)


def approximate_worlds(settings: Settings) -> frozenset[WorldId]:
    """Return the worlds that are searched approximately; raise unless all are ids."""
    worlds = split_list(settings.index.approximate_worlds)
    try:
        return frozenset(WorldId(str(UUID(world))) for world in worlds)
    except ValueError:
        raise InvalidConfiguration(
            "The setting index_approximate_worlds must be ids of worlds.",
            advice="'truespan status --json' shows them.",
        ) from None


def backup_writer(
    folder: Path,
    assets: AssetFolder,
    pictures: PictureFolder | None,
    settings: Settings,
    clock: Clock,
    store: Store,
) -> BackupWriter:
    from truespan.files.backup import BackupWriter
    from truespan.store.snapshot import FileSnapshots

    def version() -> str:
        from importlib import metadata

        return metadata.version("truespan")

    return BackupWriter(
        folder=folder,
        store=component("snapshots", "cluster", store, DISK_RESERVE)
        if is_on_server(settings)
        else FileSnapshots(folder / STORE_FILE),
        assets=assets,
        pictures=pictures,
        settings={f"settings/{FILE_NAME}": folder / FILE_NAME},
        keys={f"keys/{name}": folder / name for name in KEY_FILES},
        version=version,
        clock=clock,
        reserve=DISK_RESERVE,
    )


def restore_library(path: Path, folder: Path) -> Manifest:
    """Create a library from a backup, completely or not at all, without its index."""
    from truespan.files.backup import restore_to_folder

    settings = read_settings(folder)
    if not is_on_server(settings):
        return restore_to_folder(
            path, folder, assets=ASSETS_FOLDER, pictures=PICTURES_FOLDER, names_server=names_server
        )
    store = open_store(folder, settings, SystemClock())
    try:
        homes = assets_folder(folder, settings), folder / PICTURES_FOLDER
        return component("restore", "cluster", path, folder, store, *homes, names_server)
    finally:
        store.close()


def find_settings_aside(folder: Path) -> Path | None:
    """Return the settings of a restored backup that did not take effect; None if there are none."""
    from truespan.files.backup import RESTORED_SETTINGS

    return folder / RESTORED_SETTINGS if (folder / RESTORED_SETTINGS).exists() else None
