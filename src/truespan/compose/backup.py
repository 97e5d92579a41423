"""Backups: who writes those of a library, and how a library is made of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from truespan.adapters.asset_folder import AssetFolder
from truespan.adapters.backup.write import LibraryBackups
from truespan.ports import Clock
from truespan.settings import FILE_NAME, Settings

if TYPE_CHECKING:
    from truespan.model.backup import Manifest

STORE_FILE = "store.db"
ASSETS_FOLDER = "data/rag-assets"
KEY_FILE = "pseudonyms.key"
USAGE_KEY_FILE = "usage.key"


def backups_of(
    folder: Path, assets: AssetFolder, settings: Settings, clock: Clock
) -> LibraryBackups:
    """Return who writes backups of the library in a folder."""
    return LibraryBackups(
        store=folder / STORE_FILE,
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
    """Make a library of a backup, whole or not at all; its index is yet to be written."""
    from truespan.adapters.backup.restore import restore_files

    return restore_files(path, folder, assets=ASSETS_FOLDER)


def verified_backup(path: Path) -> Manifest:
    """Return what a backup says of itself, once all of it was read and found to be so."""
    from truespan.adapters.backup.restore import verify_backup

    return verify_backup(path)
