"""Small steps with files that a backup and a restore share."""

from __future__ import annotations

import shutil
from pathlib import Path

from truespan.adapters.file_lock import FileLock
from truespan.errors import InvalidSettings

_LOCK = ".lock"


def claim(folder: Path) -> FileLock:
    """Take a folder for oneself, emptied of what a killed predecessor left in it.

    Raises:
        InvalidSettings: somebody else is at work in it.
    """
    folder.mkdir(mode=0o700, exist_ok=True, parents=True)
    lock = FileLock(folder / _LOCK)
    if not lock.acquire():
        raise InvalidSettings(f"Another process is writing to {folder} just now.")
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    return lock


def give_up(folder: Path, lock: FileLock) -> None:
    """Remove a claimed folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()


def unclaim(folder: Path, lock: FileLock) -> None:
    """Let go of a folder that is to stay; nothing in it tells any more that it was claimed."""
    (folder / _LOCK).unlink(missing_ok=True)
    lock.release()
