"""Moving a library between one machine and many: which stores, folders and index are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from truespan.adapters.sqlite_store import SqliteStore
from truespan.engine.moved import move_library
from truespan.errors import InvalidSettings, LibraryNotFound
from truespan.files.moving import copy_file, copy_tree
from truespan.protocols import MovableRows
from truespan.settings import read_own_settings, read_settings
from truespan.settings.catalogue import Settings
from truespan.system import SystemClock
from truespan.types.maintenance import MigrationReport
from truespan.wiring import open_library
from truespan.wiring.backup import ASSETS_FOLDER, KEY_FILE, STORE_FILE, USAGE_KEY_FILE
from truespan.wiring.servers import is_on_server, server_store


@dataclass(frozen=True, slots=True)
class _Library:
    """A library that is moved, or that is moved into: where it is, and how it works."""

    folder: Path
    settings: Settings

    @property
    def assets(self) -> Path:
        return self.folder / (self.settings.rag_assets_dir or ASSETS_FOLDER)

    @property
    def on_server(self) -> bool:
        return is_on_server(self.settings)

    @contextmanager
    def rows(self) -> Iterator[MovableRows]:
        """Give the rows of its store."""
        clock, settings = SystemClock(), self.settings
        store = (
            server_store(self.folder, settings, clock)
            if self.on_server
            else SqliteStore(self.folder / STORE_FILE, clock, reserve=settings.disk_reserve)
        )
        try:
            yield store.as_rows()
        finally:
            store.close()


def migrate_library(
    source: Path, target: Path, on_moved: Callable[[str, int], None] | None = None
) -> MigrationReport:
    """Move the library of one folder into that of another, wherever their stores and indexes are.

    Raises:
        LibraryNotFound: there is nothing to be moved.
        InvalidSettings: both are one library.
        MigrationRefused: the target holds something else, or what arrived is not what was sent.
    """
    given = _existing(source)
    _make(target)
    taken = _Library(target, read_settings(target))
    _require_two(given, taken)
    with given.rows() as sent, taken.rows() as received:
        # Two folders may name one database.
        if sent.identity() == received.identity():
            raise _one_library()
        return move_library(
            sent,
            received,
            copy_files=lambda: _copy_files(given, taken),
            open_target=lambda: open_library(target),
            path=str(target),
            on_moved=on_moved,
        )


def _existing(folder: Path) -> _Library:
    if not folder.is_dir():
        raise LibraryNotFound(str(folder))
    library = _Library(folder, read_own_settings(folder))
    if not (library.on_server or (folder / STORE_FILE).exists()):
        raise LibraryNotFound(str(folder))
    return library


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidSettings(f"{folder} cannot be made: {error.strerror}.") from None


def _require_two(given: _Library, taken: _Library) -> None:
    same_folder = given.folder.resolve() == taken.folder.resolve()
    if same_folder and given.on_server == taken.on_server:
        raise _one_library()


def _one_library() -> InvalidSettings:
    return InvalidSettings(
        "A library cannot be moved into itself.",
        advice="Name the folder that it is moved from, and with --library the other one.",
    )


def _copy_files(given: _Library, taken: _Library) -> int:
    """Copy images, and the keys that pseudonyms and the usage log were made with."""
    copied = copy_tree(given.assets, taken.assets, reserve=taken.settings.disk_reserve)
    for name in (KEY_FILE, USAGE_KEY_FILE):
        if given.folder.resolve() != taken.folder.resolve():
            copied += copy_file(given.folder / name, taken.folder / name)
    return copied
