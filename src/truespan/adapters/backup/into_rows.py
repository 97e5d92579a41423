"""Restoring a backup into a store that is no file: every byte verified, then one commit of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path

from truespan.adapters.backup.files import claim, give_up
from truespan.adapters.backup.restore import (
    SETTINGS,
    SETTINGS_ASIDE,
    UNREADY,
    NamesServer,
    unpack,
    verify_backup,
)
from truespan.adapters.disk_space import require_space
from truespan.adapters.moved_files import copy_file
from truespan.adapters.sqlite_store.snapshot import rows_of
from truespan.errors import InvalidSettings, MigrationRefused
from truespan.model.backup import Manifest
from truespan.ports.moving import MovableRows

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
