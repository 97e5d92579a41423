"""Backups of a store on a server: its rows are copied to a file, and back from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from filecmp import cmp
from pathlib import Path

from msgspec import Struct

from truespan import errors
from truespan.core.disk import create_file, hash_file, require_space, sync_folder
from truespan.errors import CopyDiffers
from truespan.extensions.cluster.copy import StoreRows, copy_rows, rows_of
from truespan.files.backup import (
    ASSETS,
    RESTORED_SETTINGS,
    RESTORING,
    SETTINGS,
    SOURCES,
    UNREADY_STORE,
    NamesServer,
    claim_folder,
    read_archive,
    remove_folder,
    unpack,
)
from truespan.store import Store
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.store.snapshot import CACHES, NOT_RESTORED, Snapshot, describe_snapshot
from truespan.types.maintenance import Manifest

_PARTIAL_COPY = ".moved"
_BLOCK = 1 << 20


class ServerSnapshots(Struct, frozen=True):
    """Snapshots of a store on a server: its rows are copied to a file."""

    rows: Callable[[], StoreRows]
    """Returns a new object for each snapshot, so that two backups share nothing."""
    reserve: int
    attempts: int = 2
    """Maximum number of attempts; a changed image makes another copy of the store necessary."""

    def size(self) -> int:
        return self.rows().size()

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of the store to a new file, page by page, and read it back."""
        database = SqliteDatabase(target, reserve=self.reserve)
        try:
            with database.map_errors():
                # The file is temporary, so it needs neither a journal nor durable commits.
                database.connection.pragma("journal_mode", "off")
                database.connection.pragma("synchronous", "off")
            skip = NOT_RESTORED if vectors else (*NOT_RESTORED, *CACHES)
            copy_rows(self.rows(), StoreRows(database), skip=skip)
            return describe_snapshot(database.connection)
        except errors.CopyDiffers:
            raise errors.BackupInvalid(
                "The copy of the store differs from the store; no backup was made.",
                advice="Try again. If that does not help, run 'truespan doctor'.",
            ) from None
        finally:
            database.close()


def make_snapshots(store: Store, reserve: int) -> ServerSnapshots:
    """Return the snapshots of a store on a server."""
    return ServerSnapshots(lambda: rows_of(store), reserve)


@contextmanager
def open_rows(store: Path) -> Iterator[StoreRows]:
    """Open the rows of a prepared file, to copy them to a store on another engine."""
    with closing(SqliteDatabase(store, reserve=0)) as database:
        if database.shared.all("SELECT 1 FROM pragma_foreign_key_check LIMIT 1"):
            raise errors.BackupInvalid("The backup's store has rows that refer to missing rows.")
        yield StoreRows(database)


def restore_to_server(
    path: Path,
    folder: Path,
    store: Store,
    assets: Path,
    pictures: Path,
    names_server: NamesServer,
) -> Manifest:
    """Restore a backup into a library with settings in its folder and its store on a server.

    The backup is verified and unpacked below the folder first. All rows are written in one
    transaction, which commits after the files are in place.
    """
    target, manifest = rows_of(store), read_archive(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_space(folder, 2 * manifest.size)
    work = folder / RESTORING
    lock = claim_folder(work)
    try:
        unpack(path, work, {ASSETS: ASSETS, SOURCES: SOURCES})
        files = {
            home / source.relative_to(work / name): source
            for name, home in ((ASSETS, assets), (SOURCES, pictures))
            for source in sorted((work / name).rglob("*"))
            if source.is_file()
        }
        files |= {folder / source.name: source for source in sorted(work.glob("*.key"))}
        if (settings := work / SETTINGS).exists():
            # Existing settings stay in effect.
            is_renamed = (folder / SETTINGS).exists() or names_server(settings)
            files[folder / (RESTORED_SETTINGS if is_renamed else SETTINGS)] = settings
        made: list[Path] = []
        _require_free(files)
        with open_rows(work / UNREADY_STORE) as rows:
            try:
                with target.single_commit():
                    _copy_into_empty(rows, target)
                    _place(files, made)
            except BaseException:
                # The reply to the commit may have been lost: files stay if rows may refer to them.
                with suppress(errors.TruespanError):
                    if not target.world_ids():
                        _take_back(made)
                raise
    finally:
        remove_folder(work, lock)
    return manifest


def _require_free(files: Mapping[Path, Path]) -> None:
    """Refuse if another file exists at a target, before anything is written."""
    for target, source in files.items():
        if target.exists() and not (target.is_file() and cmp(target, source, shallow=False)):
            raise errors.InvalidArgument(
                f"Another file {target} already exists.",
                advice="Nothing was replaced. Move the file, or restore into another folder.",
            )


def _place(files: Mapping[Path, Path], made: list[Path]) -> None:
    """Copy the files that do not exist yet and read each one back.

    New paths are added to `made`, folders after their content.
    """
    try:
        for target, source in files.items():
            missing = [path for path in (target, *target.parents) if not path.exists()]
            made[:0] = missing
            copy_file(source, target)
    except errors.CopyDiffers:
        raise errors.InvalidArgument(
            "A file with the name of a restored file was created meanwhile."
        ) from None


def _take_back(made: list[Path]) -> None:
    for path in made:
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()


def _copy_into_empty(rows: StoreRows, target: StoreRows) -> None:
    """Copy the store of a backup into an empty store, and read it back.

    The backup may come from anyone: if constraints of the target refuse a row, it is invalid.
    """
    if target.world_ids():
        raise errors.InvalidArgument(
            "The store already has worlds.", advice="Restore into a new, prepared store."
        )
    try:
        copy_rows(rows, target, skip=NOT_RESTORED)
    except (
        errors.CopyDiffers,
        errors.StoreDamaged,
        errors.InvalidArgument,
        errors.NotFound,
        UnicodeDecodeError,
    ):
        raise errors.BackupInvalid(
            "The store of the backup has rows that this store does not accept; nothing was kept.",
            advice="Restore the backup into a folder, and run 'truespan doctor' there.",
        ) from None


def copy_file(source: Path, target: Path, reserve: int = 0) -> bool:
    """Copy a file unless the target has the same content, and check the copy; True if copied."""
    if not source.is_file() or source.is_symlink():
        return False
    if target.exists():
        _require_same_content(source, target)
        return False
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_space(target.parent, reserve + source.stat().st_size)
    partial = target.with_name(target.name + _PARTIAL_COPY)
    try:
        partial.unlink(missing_ok=True)
        mode = source.stat().st_mode & 0o700
        with open(source, "rb") as content, create_file(partial, mode) as file:
            shutil.copyfileobj(content, file, _BLOCK)
        _require_same_content(source, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)
    return True


def _require_same_content(source: Path, target: Path) -> None:
    if hash_file(source) != hash_file(target):
        raise CopyDiffers(f"The file {target.name.removesuffix(_PARTIAL_COPY)} differs.")
