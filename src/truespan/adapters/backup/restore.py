"""Restoring a backup into a new folder: every byte verified first, then all of it at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from truespan.adapters.backup.archive import read_archive
from truespan.adapters.backup.files import claim, give_up, unclaim
from truespan.adapters.disk_space import require_space
from truespan.adapters.durable import sync_folder
from truespan.adapters.file_lock import FileLock
from truespan.adapters.sqlite_store.connection import known_schema
from truespan.adapters.sqlite_store.snapshot import make_ready
from truespan.errors import InvalidSettings
from truespan.model.backup import STORE, Manifest, Member

UNREADY = "store.part"
"""What the store is called until all is in its place: a folder without a store is no library."""
SETTINGS = "truespan.toml"
SETTINGS_ASIDE = "truespan.toml.restored"
"""What settings are called that a library must not simply go by: those that name a server."""

NamesServer = Callable[[Path], bool]
"""Says whether a file of settings names a server that another library may work with."""


def verify_backup(path: Path) -> Manifest:
    """Read a whole backup against its manifest.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written.
    """

    def look(_member: Member, blocks: Iterator[bytes]) -> None:
        for _ in blocks:
            pass

    return read_archive(path, known_schema(), look)


def restore_files(
    path: Path, folder: Path, *, assets: str, names_server: NamesServer = lambda _: False
) -> Manifest:
    """Put the files of a backup into a folder that is absent or empty; the index comes later.

    They are verified and unpacked beside it, and the whole is renamed: a folder that is there has
    everything. `assets` is where images lie in a library. Settings that name a server are laid
    aside: what was restored would be opened as the library that is on that server.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written.
        InvalidSettings: the folder holds something.
        StorageFull: there is no room.
    """
    folder = folder.absolute()
    _require_empty(folder)
    manifest = verify_backup(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    require_space(folder.parent, manifest.size)
    aside = folder.with_name(f".{folder.name}.restoring")
    lock = claim(aside)
    try:
        unpack(path, aside, assets)
        if (aside / SETTINGS).exists() and names_server(aside / SETTINGS):
            os.rename(aside / SETTINGS, aside / SETTINGS_ASIDE)
        _require_empty(folder)
        _put_in_place(aside, folder, lock)
    except BaseException:
        give_up(aside, lock)
        raise
    return manifest


def unpack(path: Path, aside: Path, assets: str) -> None:
    """Unpack a backup into a folder that was claimed, its store made ready, all of it on the disk.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written.
    """

    def place(member: Member, blocks: Iterator[bytes]) -> None:
        target = aside / _place_of(member.name, assets)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(target, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    read_archive(path, known_schema(), place)
    make_ready(aside / UNREADY)
    for inner in (aside, *(entry for entry in aside.rglob("*") if entry.is_dir())):
        sync_folder(inner)


def _place_of(name: str, assets: str) -> str:
    folder, _, rest = name.partition("/")
    if name == STORE:
        return UNREADY
    return f"{assets}/{rest}" if folder == "assets" else rest


def _put_in_place(aside: Path, folder: Path, lock: FileLock) -> None:
    os.rename(aside / UNREADY, aside / STORE)
    unclaim(aside, lock)
    if os.name != "posix" and folder.exists():
        folder.rmdir()
    # On POSIX this takes the place of an empty folder, and of no other.
    os.rename(aside, folder)
    sync_folder(folder.parent)


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidSettings(
            f"{folder} is not empty.", advice="Restore into a folder that is new or empty."
        )
