"""Disk space, durable folders and copies, and an exclusive lock between processes.

The operating system releases the lock when its process ends, however it ends. The lock file stays:
a lock on a file that was deleted and created again would be two locks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from truespan.errors import StorageFull, resource_error

DISK_RESERVE = 256 << 20
"""Free bytes on a disk below which libraries refuse to write."""


def require_space(path: Path, reserve: int) -> None:
    """Raise StorageFull unless `reserve` bytes are free on the disk of a path, even a new one."""
    existing = next((place for place in (path, *path.absolute().parents) if place.exists()), path)
    free = shutil.disk_usage(existing).free
    if free < reserve:
        raise StorageFull(free, reserve)


_FREEING: ContextVar[bool] = ContextVar("truespan_freeing_space", default=False)


@contextmanager
def freeing_space() -> Iterator[None]:
    """Let the writes of a block use the reserve of the disk: they delete, which frees space."""
    previous = _FREEING.set(True)
    try:
        yield
    finally:
        _FREEING.reset(previous)


def require_reserve(path: Path, reserve: int) -> None:
    """Raise StorageFull unless the reserve is free, or the write is to free space."""
    if not _FREEING.get():
        require_space(path, reserve)


def require_descriptor() -> None:
    """Raise TooManyOpenFiles if no file descriptor is free.

    For engines that do not report the reason why they cannot open a file.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if known := resource_error(error):
            raise known from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    names = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(names)
    finally:
        os.close(names)


@contextmanager
def create_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Create a file, for its owner alone unless a mode is given, completely or not at all."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def create_once(path: Path, content: bytes) -> None:
    """Create a file for the owner only, unless it exists.

    If several processes do so at once, one succeeds, and none sees a file without its content.
    """
    draft = path.with_name(f"{path.name}.{uuid4().hex[:16]}")
    try:
        with create_file(draft) as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: readers see the old or the new content."""
    draft = path.with_name(f"{path.name}-{uuid4().hex[:8]}")
    with create_file(draft, mode) as file:
        file.write(content)
    os.replace(draft, path)


def hash_file(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file in hexadecimal, and its size."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest(), file.tell()


_PAUSE = 0.01


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileLock:
    """A lock on a file. The context manager waits; `acquire` does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock if it is free; True if this object holds it now."""
        if self._file is not None:
            return True
        # Descriptors are not inherited, so a child process does not keep the lock.
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _lock(file):
                self._file, file = file, -1
        finally:
            if file >= 0:
                os.close(file)
        return self._file is not None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> FileLock:
        while not self.acquire():
            time.sleep(_PAUSE)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
