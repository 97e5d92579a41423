"""Checks of a library's files: permissions, space, the clock, and content left after erasure."""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from truespan.types.chunk import numbers_of
from truespan.types.maintenance import Check, LeftoverMatch, Trace, Verdict

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
EARLIEST = 1_767_225_600.0
"""The start of 2026: a clock that shows an earlier time was never set."""
AHEAD = 86_400.0
_NUMBERS = 8
"""Numbers of a vector that are searched together: 32 bytes that no other vector has."""


def file_checks(folder: Path, settings_file: str, *, reserve: int, now: float) -> Iterator[Check]:
    """Yield the checks of a library's folder and files."""
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
    """Check that only the owner can read the library; a private folder is enough."""
    if not stat.S_IMODE(folder.stat().st_mode) & _OTHERS:
        return Check("privacy", Verdict.OK, "only its owner can open the folder")
    open_files = [
        path.name
        for path in sorted(folder.iterdir())
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS
    ]
    if not open_files:
        return Check("privacy", Verdict.OK, "only its owner can read the files")
    detail = f"others on this machine can read {', '.join(open_files[:3])}"
    return Check("privacy", Verdict.WARNING, detail, "Make the folder private: chmod 700.")


def _settings(path: Path) -> Check:
    if not path.exists():
        return Check(path.name, Verdict.OK, "does not exist: the defaults apply")
    if stat.S_IMODE(path.stat().st_mode) & _WRITABLE:
        says = "others on this machine can change it"
        return Check(path.name, Verdict.PROBLEM, says, "Make it private: chmod 600.")
    return Check(path.name, Verdict.OK, "is valid, and only its owner can change it")


def _room(folder: Path, reserve: int) -> Check:
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 20):.0f} MiB free, {reserve / (1 << 20):.0f} MiB in reserve"
    if free < reserve:
        return Check("room", Verdict.PROBLEM, says, "Free disk space: nothing can be written.")
    if free < 2 * reserve:
        return Check("room", Verdict.WARNING, says, "Free disk space soon.")
    return Check("room", Verdict.OK, says)


def _clock(folder: Path, now: float) -> Check:
    latest = max(path.stat().st_mtime for path in (folder, *folder.glob("store.db*")))
    if now < EARLIEST or latest > now + AHEAD:
        says = "is earlier than the last write to the library"
        return Check("clock", Verdict.WARNING, says, "Set the machine's clock.")
    return Check("clock", Verdict.OK, "is plausible")


def find_leftovers(places: Sequence[Path], traces: Sequence[Trace]) -> LeftoverMatch:
    """Search the files of the store, the index and the images for erased content."""
    paths: list[Path] = []
    for place in places:
        if place.is_dir():
            paths += (path for path in sorted(place.rglob("*")) if path.is_file())
        else:
            # A database has further files with the same prefix, such as its write-ahead log.
            paths += sorted(place.parent.glob(f"{place.name}*"))
    patterns = {form for trace in traces for form in _forms(trace)}
    size, found = 0, set[bytes]()
    for path in paths:
        length, present = _search_file(path, patterns - found)
        size, found = size + length, found | present
    return LeftoverMatch(len(traces), len(paths), size, len(found))


def _search_file(path: Path, patterns: set[bytes]) -> tuple[int, set[bytes]]:
    try:
        with path.open("rb") as file:
            length = path.stat().st_size
            if not length:
                return 0, set()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return length, {form for form in patterns if content.find(form) >= 0}
    except (OSError, ValueError):
        # Files of the index come and go while it runs; a deleted one contains nothing.
        return 0, set()


def _forms(trace: Trace) -> list[bytes]:
    """Return the forms of a trace in files: raw, and of vectors also as the index logs them."""
    if not trace.is_vector:
        return [trace.content]
    start = _find_distinct(trace.content)
    if start is None:
        return []
    stretch = trace.content[4 * start : 4 * (start + _NUMBERS)]
    return [stretch, b"".join(map(_to_cbor, numbers_of(stretch)))]


def _find_distinct(vector: bytes) -> int | None:
    """Return the start of a run of numbers that are all different and not zero."""
    numbers = numbers_of(vector)
    for start in range(len(numbers) // 2, len(numbers) - _NUMBERS + 1):
        part = numbers[start : start + _NUMBERS]
        if len(set(part)) == _NUMBERS and all(part):
            return start
    return None


def _to_cbor(number: float) -> bytes:
    """Return a number in CBOR, in the fewest bytes that represent it exactly."""
    half = struct.pack(">e", number) if abs(number) < 65000 else b""
    if half and struct.unpack(">e", half)[0] == number:
        return b"\xf9" + half
    return b"\xfa" + struct.pack(">f", number)
