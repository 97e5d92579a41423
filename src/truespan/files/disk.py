"""Disk space, durable folders, and an exclusive lock between processes.

The operating system releases the lock when its process ends, however it ends. The lock file stays:
a lock on a file that was deleted and created again would be two locks.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType

from truespan.errors import StorageFull


def require_space(path: Path, reserve: int) -> None:
    """Check that `reserve` bytes are free on the disk of `path`, which need not exist yet.

    Raises:
        StorageFull: fewer are free.
    """
    existing = next((place for place in (path, *path.absolute().parents) if place.exists()), path)
    free = shutil.disk_usage(existing).free
    if free < reserve:
        raise StorageFull(free, reserve)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine, if the system supports it."""
    if os.name == "posix":
        names = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)


_PAUSE = 0.01


if sys.platform == "win32":
    import msvcrt

    # Windows forbids reading a locked byte, so it lies after any content.
    _LOCKED_BYTE = 2**30

    def _lock(file: int) -> bool:
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """A lock on one file. As a context manager it waits; `acquire` does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock if it is free; True if this object holds it now."""
        if self._file is not None:
            return True
        # Python's descriptors are not inherited, so a child process does not keep the lock.
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _lock(file):
                self._file, file = file, -1
        finally:
            if file >= 0:
                os.close(file)
        return self._file is not None

    def release(self) -> None:
        """Release the lock; without effect if it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> FileLock:
        while not self.acquire():
            time.sleep(_PAUSE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
