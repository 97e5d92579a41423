"""Copying the files of a library that is moved: each is read back, and none is ever replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from truespan.errors import MigrationRefused
from truespan.files.disk import require_space, sync_folder

_UNFINISHED = ".new-"
_SPARE = ".moved"
_PART = 1 << 20


def copy_tree(source: Path, target: Path, *, reserve: int) -> int:
    """Copy every file below a folder that is not in the other one yet; return how many.

    Raises:
        MigrationRefused: a file of the same name is there and holds something else.
        StorageFull: there is no room.
    """
    if not source.is_dir() or source.resolve() == target.resolve():
        return 0
    return sum(copy_file(one, target / one.relative_to(source), reserve) for one in _files(source))


def copy_file(source: Path, target: Path, reserve: int = 0) -> bool:
    """Copy one file unless it is there already; say whether it was copied. Raises as above."""
    if not source.is_file() or source.is_symlink():
        return False
    if target.exists():
        _require_same(source, target)
        return False
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_space(target.parent, reserve + source.stat().st_size)
    spare = target.with_name(target.name + _SPARE)
    try:
        _write(source, spare)
        _require_same(source, spare)
        os.replace(spare, target)
    finally:
        spare.unlink(missing_ok=True)
    sync_folder(target.parent)
    return True


def _files(folder: Path) -> Iterator[Path]:
    for parent, names, files in os.walk(folder):
        # A folder that was just being made when its process ended belongs to nobody.
        names[:] = sorted(name for name in names if not name.startswith(_UNFINISHED))
        yield from (Path(parent) / name for name in sorted(files) if not name.endswith(_SPARE))


def _write(source: Path, spare: Path) -> None:
    spare.unlink(missing_ok=True)
    mode = source.stat().st_mode & 0o700
    descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(source, "rb") as given, open(descriptor, "wb") as taken:
        while part := given.read(_PART):
            taken.write(part)
        taken.flush()
        os.fsync(taken.fileno())


def _require_same(source: Path, target: Path) -> None:
    if _digest(source) != _digest(target):
        raise MigrationRefused(
            f"A file {target.name.removesuffix(_SPARE)} of the target is not as it is here.",
            advice="Begin again with an empty target, while nothing writes to this library.",
        )


def _digest(path: Path) -> bytes:
    digest = sha256()
    with open(path, "rb") as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.digest()
