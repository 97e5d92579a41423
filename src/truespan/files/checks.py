"""Checks of a library's folder: who may read it, whether it can be written, how much room is."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from truespan.types.maintenance import Check, Verdict

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
EARLIEST = 1_767_225_600.0
"""The first moment of 2026: whatever clock says an earlier one was never set."""
AHEAD = 86_400.0


def file_checks(folder: Path, settings_file: str, *, reserve: int, now: float) -> Iterator[Check]:
    """Give the checks of a library's folder and files."""
    yield _writable(folder)
    if os.name == "posix":
        yield _private(folder)
        yield _settings(folder / settings_file)
    yield _room(folder, reserve)
    yield _clock(folder, now)


def _writable(folder: Path) -> Check:
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Check("folder", Verdict.OK, "can be read and written")
    remedy = "Run as its owner, or correct its permissions."
    return Check("folder", Verdict.PROBLEM, "cannot be written", remedy)


def _private(folder: Path) -> Check:
    """Say whether anybody but the owner could read the library; a closed folder is enough."""
    if not stat.S_IMODE(folder.stat().st_mode) & _OTHERS:
        return Check("privacy", Verdict.OK, "only its owner can look into the folder")
    open_files = [
        path.name
        for path in sorted(folder.iterdir())
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS
    ]
    if not open_files:
        return Check("privacy", Verdict.OK, "only its owner can read the files")
    says = f"others on this machine can read {', '.join(open_files[:3])}"
    return Check("privacy", Verdict.WARNING, says, "Close the folder: chmod 700.")


def _settings(path: Path) -> Check:
    if not path.exists():
        return Check(path.name, Verdict.OK, "is not there: the defaults hold")
    if stat.S_IMODE(path.stat().st_mode) & _WRITABLE:
        says = "others on this machine can change it"
        return Check(path.name, Verdict.PROBLEM, says, "Close it: chmod 600.")
    return Check(path.name, Verdict.OK, "is valid, and only its owner can change it")


def _room(folder: Path, reserve: int) -> Check:
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 20):.0f} MiB free, {reserve / (1 << 20):.0f} MiB in reserve"
    if free < reserve:
        return Check("room", Verdict.PROBLEM, says, "Make room: nothing can be written.")
    if free < 2 * reserve:
        return Check("room", Verdict.WARNING, says, "Make room soon.")
    return Check("room", Verdict.OK, says)


def _clock(folder: Path, now: float) -> Check:
    latest = max(path.stat().st_mtime for path in (folder, *folder.glob("store.db*")))
    if now < EARLIEST or latest > now + AHEAD:
        says = "is behind the time at which the library was last written"
        return Check("clock", Verdict.WARNING, says, "Set the machine's clock.")
    return Check("clock", Verdict.OK, "is plausible")
