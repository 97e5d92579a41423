"""Moving a library between a folder and a server: its rows, then its files, then a new index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from truespan.errors import InvalidSettings, LibraryNotFound
from truespan.files.disk import copy_file, copy_tree
from truespan.settings import read_own_settings, read_settings
from truespan.settings.catalogue import Settings
from truespan.store import Store
from truespan.store.sqlite import SqliteDatabase
from truespan.store.transfer import StoreRows, copy_rows
from truespan.system import SystemClock
from truespan.types.maintenance import MigrationReport, MovedCount
from truespan.wiring import open_library
from truespan.wiring.backup import ASSETS_FOLDER, KEY_FILE, STORE_FILE, USAGE_KEY_FILE
from truespan.wiring.servers import is_on_server, server_store


@dataclass(frozen=True, slots=True)
class _Library:
    """The source or the target of a move."""

    folder: Path
    settings: Settings

    @property
    def assets(self) -> Path:
        return self.folder / (self.settings.rag_assets_dir or ASSETS_FOLDER)

    @property
    def on_server(self) -> bool:
        return is_on_server(self.settings)

    @contextmanager
    def open_rows(self) -> Iterator[StoreRows]:
        """Give the rows of its store."""
        clock, reserve = SystemClock(), self.settings.disk_reserve
        store = (
            server_store(self.folder, self.settings, clock)
            if self.on_server
            else Store(SqliteDatabase(self.folder / STORE_FILE, reserve=reserve), clock)
        )
        try:
            yield store.as_rows()
        finally:
            store.close()


def migrate_library(source: Path, target: Path) -> MigrationReport:
    """Move the library of one folder into that of another, wherever their stores and indexes are.

    Each step starts after the one before it was proved, and the source is only read. If it is
    stopped, the same call continues: rows and files that arrived are not sent again, and points are
    written for the chunks that have none.

    Raises:
        LibraryNotFound: there is no library to move.
        InvalidSettings: both are the same library.
        MigrationRefused: the target holds something else, or what arrived differs from the source.
    """
    moved, into = _require_library(source), _make_target(target)
    same_folder = source.resolve() == target.resolve()
    if same_folder and moved.on_server == into.on_server:
        raise _same_library()
    with moved.open_rows() as sent, into.open_rows() as received:
        # Two folders may name one database.
        if sent.identity() == received.identity():
            raise _same_library()
        copied = copy_rows(sent, received)
        files = copy_tree(moved.assets, into.assets, reserve=into.settings.disk_reserve)
        for name in (KEY_FILE, USAGE_KEY_FILE):
            if not same_folder:
                files += copy_file(source / name, target / name)
        with open_library(target) as library:
            library.refill()
            # Each point is compared with the store, which was compared with the source.
            plan = library.doctor(embed_sample=0)
            pending = library.pending()
    findings: dict[str, int] = {}
    for item in plan.all_items():
        findings[item.finding.value] = findings.get(item.finding.value, 0) + item.count
    return MigrationReport(
        path=str(target),
        worlds=copied.worlds,
        tables={
            name: MovedCount(table.rows, table.digest) for name, table in copied.tables.items()
        },
        files=files,
        points=sum(world.checked_points for world in plan.values()),
        pending=pending,
        findings=findings,
    )


def _require_library(folder: Path) -> _Library:
    if not folder.is_dir():
        raise LibraryNotFound(str(folder))
    library = _Library(folder, read_own_settings(folder))
    if not (library.on_server or (folder / STORE_FILE).exists()):
        raise LibraryNotFound(str(folder))
    return library


def _make_target(folder: Path) -> _Library:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidSettings(f"{folder} cannot be made: {error.strerror}.") from None
    return _Library(folder, read_settings(folder))


def _same_library() -> InvalidSettings:
    return InvalidSettings(
        "A library cannot be moved into itself.",
        advice="Name the folder that it is moved from, and with --library the other one.",
    )
