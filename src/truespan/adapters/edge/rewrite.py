"""A collection written anew beside itself, from its live points alone.

Edge keeps what was deleted in its files: in the segment that held it and in the log of writes. Only
files that never held it are free of it. So the live points are copied, a page at a time, into fresh
files, which then take the place of the old ones. Between two pages the old files answer whoever
asks, and whatever is written to them meanwhile is written to the fresh ones as well.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from truespan.adapters.durable import sync_folder
from truespan.adapters.edge.shard import EnginePanicked, Shard, create_files
from truespan.adapters.edge.wire import Collection, Delete, DeleteStale, Request, Upsert
from truespan.errors import IndexRefused

DRAFT = ".new"
REMOVED = ".removed"
_FRESH = ".fresh"
_READY = ".ready"
_POINTS_PER_STEP = 256


class Rewrite:
    """One rewriting of a collection, from its beginning to the change of files."""

    def __init__(self, path: Path, collection: Collection) -> None:
        self._path = path
        self._fresh = path.with_suffix(_FRESH)
        _remove(self._fresh)
        create_files(self._fresh, collection)
        self._shard = Shard(self._fresh, collection)
        self._next: str | None = None
        self.copied = False

    def step(self, source: Shard) -> None:
        """Copy the next page of points; `copied` says whether that was the last one."""
        self._next = source.copy_page(self._shard, self._next, _POINTS_PER_STEP)
        self.copied = self._next is None

    def repeat(self, request: Request) -> bool:
        """Do in the fresh files what was done in the old ones; False when that failed."""
        try:
            match request:
                case Upsert():
                    self._shard.upsert(request)
                case Delete():
                    self._shard.delete(request.where)
                case DeleteStale():
                    self._shard.delete_stale(request)
                case _:
                    pass
        except EnginePanicked:
            raise
        except IndexRefused:
            return False
        return True

    def put_in_place(self, old: Shard) -> None:
        """Let the fresh files take the place of the old ones, which are removed.

        Killed between any two of these lines, `recover` ends with either all old files or all fresh
        ones: the fresh are called ready only once they are whole and on the disk.
        """
        self._shard.close()
        ready, removed = self._path.with_suffix(_READY), self._path.with_suffix(REMOVED)
        try:
            _remove(ready)
            _remove(removed)
            self._fresh.rename(ready)
            sync_folder(self._path.parent)
            old.close()
            self._path.rename(removed)
            ready.rename(self._path)
            sync_folder(self._path.parent)
            _remove(removed)
        except OSError as error:
            # Whoever starts next finds out how far it came; this process cannot be sure.
            raise EnginePanicked("The index could not put its fresh files in place.") from error

    def abandon(self) -> None:
        """Give up, and remove the fresh files."""
        with suppress(IndexRefused):
            self._shard.close()
        _remove(self._fresh)


def recover(folder: Path) -> None:
    """Finish or undo what a process that was killed left half done; before any file is opened."""
    for ready in folder.glob(f"*{_READY}"):
        if not ready.with_suffix("").exists():
            ready.rename(ready.with_suffix(""))
    # What still stands beside its collection is from before the change, and may be out of date.
    for suffix in (_READY, _FRESH, DRAFT, REMOVED):
        for left in folder.glob(f"*{suffix}"):
            _remove(left)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
