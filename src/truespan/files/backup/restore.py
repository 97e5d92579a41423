"""Restoring a backup into a store that is no file: every byte verified, then one commit of all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path

from truespan.adapters.sqlite_store.connection import known_schema
from truespan.adapters.sqlite_store.snapshot import make_ready, rows_of
from truespan.errors import InvalidSettings, MigrationRefused
from truespan.files.backup.archive import claim, give_up, read_archive, unclaim
from truespan.files.disk import FileLock, require_space, sync_folder
from truespan.files.moving import copy_file
from truespan.protocols import MovableRows
from truespan.types.maintenance import STORE, Manifest, Member

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


_ASIDE = ".restoring"
_ASSETS = "assets"


@dataclass(slots=True)
class PlacedFiles:
    """Files that are put in their places with the rows that speak of them, or taken back."""

    files: Mapping[Path, Path]
    """Where each comes from, by where it belongs."""
    _made: list[Path] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)

    def require_free(self) -> None:
        """Refuse where something else lies, before anything is written.

        Raises:
            InvalidSettings: a file is there that is not the one of the backup.
        """
        for target, source in self.files.items():
            if target.exists() and not _is_same(target, source):
                raise InvalidSettings(
                    f"There is another file {target} already.",
                    advice="Nothing is replaced; move it away, or restore into another folder.",
                )

    def place(self) -> None:
        """Copy the files that are not there yet, each read back."""
        try:
            for target, source in self.files.items():
                if not target.exists():
                    self._made.append(target)
                    self._folders += _missing(target.parent)
                copy_file(source, target)
        except MigrationRefused:
            raise InvalidSettings("A file came into the way of one of the backup's.") from None

    def take_back(self) -> None:
        """Remove what was placed, and the folders that were made for it."""
        for target in self._made:
            target.unlink(missing_ok=True)
        for folder in sorted(set(self._folders), key=lambda one: -len(one.parts)):
            with suppress(OSError):
                folder.rmdir()


def _is_same(one: Path, other: Path) -> bool:
    """Say whether both are files of the same bytes; neither is read as a whole."""
    return one.is_file() and cmp(one, other, shallow=False)


def _missing(folder: Path) -> list[Path]:
    return [one for one in (folder, *folder.parents) if not one.exists()]


Receive = Callable[[MovableRows, PlacedFiles], None]
"""Takes rows and files: all of them, or none and an error."""


def restore_rows(
    path: Path, folder: Path, *, assets: Path, receive: Receive, names_server: NamesServer
) -> Manifest:
    """Restore a backup into a library whose folder has settings and whose store is elsewhere.

    It is verified and unpacked below the folder first. What `receive` was given is gone when this
    returns, so it must have taken all of it by then.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written.
        InvalidSettings: the store holds worlds, or files are in the way.
        StorageFull: there is no room.
    """
    manifest = verify_backup(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_space(folder, 2 * manifest.size)
    aside = folder / _ASIDE
    lock = claim(aside)
    try:
        unpack(path, aside, _ASSETS)
        placed = PlacedFiles(dict(_places(aside, folder, assets, names_server)))
        placed.require_free()
        with rows_of(aside / UNREADY) as rows:
            receive(rows, placed)
    finally:
        give_up(aside, lock)
    return manifest


def _places(
    aside: Path, folder: Path, assets: Path, names_server: NamesServer
) -> Iterator[tuple[Path, Path]]:
    """Give where each file belongs, and where it is: the settings that are there stay in force."""
    for source in sorted((aside / _ASSETS).rglob("*")):
        if source.is_file():
            yield assets / source.relative_to(aside / _ASSETS), source
    for source in sorted(aside.glob("*.key")):
        yield folder / source.name, source
    settings = aside / SETTINGS
    if settings.exists():
        in_force = (folder / SETTINGS).exists() or names_server(settings)
        yield folder / (SETTINGS_ASIDE if in_force else SETTINGS), settings
