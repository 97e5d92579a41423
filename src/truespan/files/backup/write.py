"""Writing a backup: a snapshot of the store, the images that belong to it, and one file of both."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from truespan.adapters.sqlite_store.snapshot import (
    CACHES,
    UNRESTORED,
    Pictured,
    Snapshot,
    fill_snapshot,
)
from truespan.errors import InvalidSettings
from truespan.files.assets import AssetFolder
from truespan.files.backup.archive import claim, describe, give_up, read_archive, write_archive
from truespan.files.disk import require_space, sync_folder
from truespan.protocols import Clock, MovableRows
from truespan.types.maintenance import STORE, BackupReport, Manifest

CopyRows = Callable[[MovableRows, MovableRows, Collection[str]], None]
"""Copies all rows of one store into an empty one, but for the named tables, and reads them back."""


@dataclass(frozen=True, slots=True)
class RowsSource:
    """A store on a server, to be backed up. `rows` gives it anew, so that backups share nothing."""

    rows: Callable[[], MovableRows]
    measure: Callable[[], int]
    copy: CopyRows
    reserve: int
    attempts: int = 2
    """A whole copy for the sake of an image that has just changed; what lies on another machine
    will not be there the next time either."""

    def size(self) -> int:
        """Return about how many bytes its rows take."""
        return self.measure()

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of it into a new file, a few rows at a time."""
        leave = UNRESTORED if vectors else (*UNRESTORED, *CACHES)
        return fill_snapshot(
            target, lambda taken: self.copy(self.rows(), taken, leave), reserve=self.reserve
        )


_PAUSE = 0.2
_PARTIAL = ".partial"


class SnapshotSource(Protocol):
    """A store of which one state can be had as a file, while others write to it."""

    @property
    def attempts(self) -> int:
        """Return how often that is worth doing, for images that change meanwhile."""
        ...

    def size(self) -> int:
        """Return about how many bytes it takes."""
        ...

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of it into a new file."""
        ...


@dataclass(frozen=True, slots=True)
class LibraryBackups:
    """Writes backups of one library. `settings` and `keys` are files by their names in a backup."""

    store: SnapshotSource
    assets: AssetFolder
    settings: Mapping[str, Path]
    keys: Mapping[str, Path]
    version: Callable[[], str]
    clock: Clock
    reserve: int

    def write(
        self, path: str, *, vectors: bool, settings: bool, keys: bool, replace: bool
    ) -> BackupReport:
        """Write a backup under another name, read it back, and only then give it its own."""
        target = Path(path).absolute()
        _refuse(target, replace=replace)
        require_space(target.parent, self.reserve + 2 * self.store.size())
        aside = target.with_name(target.name + _PARTIAL)
        lock = claim(aside)
        try:
            manifest, sources = self._gather(aside, vectors=vectors)
            extra = {**(self.settings if settings else {}), **(self.keys if keys else {})}
            sources |= {name: file for name, file in extra.items() if file.is_file()}
            members = tuple(describe(name, file) for name, file in sources.items())
            whole = dataclasses.replace(manifest, members=members)
            written = aside / "backup"
            write_archive(written, whole, sources)
            read_archive(written, whole.schema, lambda _member, blocks: _exhaust(blocks))
            _publish(written, target, replace=replace)
        finally:
            give_up(aside, lock)
        return BackupReport(str(target), target.stat().st_size, whole)

    def _gather(self, aside: Path, *, vectors: bool) -> tuple[Manifest, dict[str, Path]]:
        """Take a snapshot, and the images it speaks of; again, if they changed in between.

        Images take their place after the commit that shows them, so for a moment the store is ahead
        of the folder. What is missing for longer was missing before.
        """
        attempt, snapshot_file = 0, aside / STORE
        while True:
            attempt += 1
            snapshot_file.unlink(missing_ok=True)
            shutil.rmtree(aside / "assets", ignore_errors=True)
            snapshot = self.store.take(snapshot_file, vectors=vectors)
            images, missing = self._images(snapshot, aside / "assets")
            if not missing or attempt >= self.store.attempts:
                break
            self.clock.sleep(_PAUSE)
        return self._manifest(snapshot, vectors, missing), {STORE: snapshot_file, **images}

    def _images(self, snapshot: Snapshot, aside: Path) -> tuple[dict[str, Path], int]:
        images: dict[str, Path] = {}
        missing = 0
        for documents_with_images in snapshot.documents_with_images:
            home = aside / documents_with_images.doc_id
            if self.assets.copy_published(
                documents_with_images.world,
                documents_with_images.doc_id,
                documents_with_images.token,
                home,
            ):
                images |= _named(documents_with_images, home)
            else:
                missing += 1
        return images, missing

    def _manifest(self, snapshot: Snapshot, vectors: bool, missing: int) -> Manifest:
        return Manifest(
            schema=snapshot.schema,
            truespan=self.version(),
            created_at=self.clock.now(),
            vectors=vectors,
            worlds=snapshot.worlds,
            documents=snapshot.documents,
            chunks=snapshot.chunks,
            missing_images=missing,
            members=(),
        )


def _named(documents_with_images: Pictured, home: Path) -> dict[str, Path]:
    return {
        f"assets/{documents_with_images.doc_id}/{file.name}": file
        for file in sorted(home.iterdir())
    }


def _refuse(target: Path, *, replace: bool) -> None:
    if target.is_dir():
        raise InvalidSettings(f"{target} is a folder; a backup is a file.")
    if target.exists() and not replace:
        raise InvalidSettings(
            f"There is a file {target} already.", advice="Give another name, or --force."
        )
    if not target.parent.is_dir():
        raise InvalidSettings(f"There is no folder {target.parent}.")


def _publish(written: Path, target: Path, *, replace: bool) -> None:
    if replace:
        os.replace(written, target)
    else:
        try:
            # A link refuses to take the place of a file that came meanwhile; a rename would not.
            os.link(written, target)
        except FileExistsError:
            _refuse(target, replace=False)
        except OSError:
            os.rename(written, target)
    sync_folder(target.parent)


def _exhaust(blocks: Iterator[bytes]) -> None:
    for _ in blocks:
        pass
