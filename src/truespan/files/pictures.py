"""Drawn pages and kept uploads as files: `<folder>/<world>/<document>/<source>-<name>`.

All of them can be made again or done without, so the oldest are removed when they take too much
space. Each file begins with the digest of its content.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from truespan.core.disk import create_file, replace_file, require_space
from truespan.errors import StorageFull, resource_error
from truespan.types.ids import WorldId
from truespan.types.maintenance import RemovedFiles, sum_files
from truespan.types.picture import SOURCE

_DIGEST = sha256().digest_size
_SHORT = 32
"""Number of hexadecimal digits of a hash in a name."""
_PLAIN = re.compile(r"[A-Za-z0-9-]{1,64}")


# Shared by threads and processes: files are replaced as a whole, and a missing one is made again.
class PictureFolder:
    """Reads, writes and removes pictures below one folder, up to `max_bytes` in all."""

    def __init__(self, folder: Path, *, max_bytes: int, reserve: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._reserve = reserve

    def read(self, world: WorldId, doc_id: str, source_hash: str, name: str) -> bytes | None:
        """Return a file; None if it is absent or damaged."""
        path = self._path(world, doc_id, source_hash, name)
        try:
            content = path.read_bytes()
            # The time of the last use decides what is removed first.
            path.touch()
        except OSError as error:
            if known := resource_error(error):
                raise known from None
            return None
        digest, data = content[:_DIGEST], content[_DIGEST:]
        return data if sha256(data).digest() == digest else None

    def write(self, world: WorldId, doc_id: str, source_hash: str, name: str, data: bytes) -> None:
        """Keep a file; if there is no room for it, nothing is written and nothing raised."""
        path = self._path(world, doc_id, source_hash, name)
        if len(data) > self._max_bytes:
            return
        try:
            require_space(self._folder, self._reserve + len(data))
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(len(data))
            replace_file(path, sha256(data).digest() + data)
        except StorageFull:
            return
        except OSError as error:
            known = resource_error(error)
            if known is not None and not isinstance(known, StorageFull):
                raise known from None

    def copy_source(
        self, world: WorldId, doc_id: str, source_hash: str, folder: Path
    ) -> Path | None:
        """Copy a kept source below another folder and return the copy; None if there is none."""
        data = self.read(world, doc_id, source_hash, SOURCE)
        if data is None:
            return None
        target = folder / self._path(world, doc_id, source_hash, SOURCE).relative_to(self._folder)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with create_file(target) as file:
            file.write(sha256(data).digest() + data)
        return target

    def keep_only(self, world: WorldId, doc_id: str, source_hash: str) -> None:
        """Remove the files of a document that were made from another source."""
        for path in _files(self._home(world, doc_id)):
            if not path.name.startswith(f"{source_hash[:_SHORT]}-"):
                path.unlink(missing_ok=True)

    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles:
        """Remove the files of a document."""
        return _remove_folder(self._home(world, doc_id))

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove the files of a world."""
        return _remove_folder(self._folder / _check(world))

    def _home(self, world: WorldId, doc_id: str) -> Path:
        return self._folder / _check(world) / sha256(doc_id.encode()).hexdigest()[:_SHORT]

    def _path(self, world: WorldId, doc_id: str, source_hash: str, name: str) -> Path:
        return self._home(world, doc_id) / f"{_check(source_hash)[:_SHORT]}-{_check(name)}"

    def _make_room(self, size: int) -> None:
        """Remove the files that were not used for the longest time, until `size` bytes fit."""
        found: list[tuple[float, int, Path]] = []
        for path in _files(self._folder):
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(own for _, own, _ in found) + size
        for _, own, path in sorted(found, key=lambda each: each[0]):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= own


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _remove_folder(folder: Path) -> RemovedFiles:
    removed: list[RemovedFiles] = []
    for path in list(_files(folder)):
        with suppress(FileNotFoundError):
            removed.append(RemovedFiles(1, path.stat().st_size))
    shutil.rmtree(folder, ignore_errors=True)
    return sum_files(removed)


def _check(name: str) -> str:
    if not _PLAIN.fullmatch(name):
        raise ValueError("A name of a picture has letters, digits and '-' only.")
    return name
