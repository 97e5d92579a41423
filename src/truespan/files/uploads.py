"""Uploads as files: `<folder>/<world>/<batch>/<number>`, and beside them a list of their names.

Files have numbers for names, so that no name an owner gives can mean a place, or mean another
file on a system that takes two spellings for one. A batch without its list was never whole. Before
a batch is made its lock is taken; the lock of a batch that can be had belongs to nobody any more.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import msgspec

from truespan.errors import InvalidConfiguration, SourceMissing, SourceTooLarge, SourceUnreadable
from truespan.files.disk import FileLock, require_space, sync_folder
from truespan.files.jail import read_file, upload_doc_id, upload_path
from truespan.types.ids import WorldId
from truespan.types.maintenance import NO_FILES, RemovedFiles
from truespan.types.source import Declared, Found, Source, Upload, checked_uploads

_LIST = ".list"
_PIECE = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
MAX_BYTES = 512 << 20


class _Kept(NamedTuple):
    """One file of a batch, as its list has it."""

    file: str
    name: str
    size: int


class UploadFolder:
    """Keeps uploads below one folder, and never outside it."""

    def __init__(self, folder: Path, *, reserve: int, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._reserve = reserve
        self._max_bytes = max_bytes

    @contextmanager
    def receive(self, world: WorldId, uploads: Sequence[Upload]) -> Iterator[str]:
        """Keep files durably, and give the name of their batch; gone if the block fails.

        Raises:
            InvalidSettings: a name cannot be used.
            SourceTooLarge: a file is larger than a document may be.
            StorageFull: there is no room.
            InvalidConfiguration: nothing can be written there.
        """
        checked = checked_uploads(uploads)
        batch = uuid4().hex
        home = self._home(world, batch)
        lock = _lock_of(home)
        try:
            self._write(home, lock, checked)
            yield batch
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        finally:
            _unlock(lock, home)

    def find(self, world: WorldId, batch: str, declared: Declared) -> Found:
        """Return the sources of a batch, unread.

        Raises:
            SourceMissing: nothing of it is left.
        """
        kept = _listed(self._home(world, batch))
        if not kept:
            raise SourceMissing("upload", advice="Upload it again.")
        return Found(
            tuple(
                Source(
                    path=upload_path(one.name),
                    name=one.name,
                    doc_id=upload_doc_id(one.name),
                    size=one.size,
                    declared=declared,
                    upload=f"{world}/{batch}/{one.file}",
                )
                for one in kept
            )
        )

    def is_there(self, world: WorldId, batch: str) -> bool:
        """Say whether anything of a batch is left."""
        return bool(_listed(self._home(world, batch)))

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source that `find` gave."""
        world, batch, file = source.upload.split("/")
        path = self._home(WorldId(world), batch).absolute() / _plain(file)
        return read_file(str(path), source.name, jailed=False, max_bytes=self._max_bytes)

    def discard(self, world: WorldId, batch: str) -> None:
        """Remove a batch; one that is gone is no error."""
        shutil.rmtree(self._home(world, batch), ignore_errors=True)

    def remove(self, world: WorldId, doc_id: str, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove what would become a document, from all batches that are not wanted."""
        removed = self.sweep(world, lambda batch: self._is_whole(world, batch))
        for home in self._unwanted(world, is_wanted):
            kept = _listed(home)
            doomed = [one for one in kept if upload_doc_id(one.name) == doc_id]
            if doomed:
                removed = _sum(removed, _dropped(home, kept, doomed))
        return removed

    def sweep(self, world: WorldId, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the batches that are not wanted; one that is being received is left alone."""
        removed = NO_FILES
        for home in self._unwanted(world, is_wanted):
            removed = _sum(removed, _removed(home))
        return removed

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all uploads of a world."""
        return _removed(self._folder / _plain(world))

    def worlds(self) -> list[WorldId]:
        """Return the worlds that uploads are kept of."""
        return [WorldId(path.name) for path in _folders(self._folder)]

    def _unwanted(self, world: WorldId, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
        """Give the batches that are not wanted, each while nobody else can have its lock.

        Whoever receives a batch lets go of it after its job was written down. So a batch is asked
        about only once its lock is held.
        """
        for home in _folders(self._folder / _plain(world)):
            lock = _lock_of(home)
            if not lock.acquire():
                continue
            try:
                if not is_wanted(home.name):
                    yield home
            finally:
                _unlock(lock, home)

    def _is_whole(self, world: WorldId, batch: str) -> bool:
        return (self._home(world, batch) / _LIST).exists()

    def _home(self, world: WorldId, batch: str) -> Path:
        return self._folder / _plain(world) / _plain(batch)

    def _write(self, home: Path, lock: FileLock, uploads: Sequence[Upload]) -> None:
        try:
            home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire()
            home.mkdir(mode=0o700)
            kept = [
                _Kept(str(number), one.name, self._written(home / str(number), one))
                for number, one in enumerate(uploads, 1)
            ]
            _write_list(home, kept)
            for folder in (home, home.parent, self._folder, self._folder.parent):
                sync_folder(folder)
        except OSError as error:
            if error.errno in _FULL:
                # However much is free: it was not enough.
                require_space(self._folder, 1 << 62)
            raise InvalidConfiguration(
                "The library's folder for uploads cannot be written.",
                advice="Check that this user may write there.",
            ) from None

    def _written(self, path: Path, upload: Upload) -> int:
        size = 0
        with _content(upload) as content, _created(path) as file:
            while piece := _piece(content, upload.name):
                size += len(piece)
                if size > self._max_bytes:
                    raise SourceTooLarge(upload.name)
                require_space(self._folder, self._reserve + len(piece))
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return size


def _lock_of(home: Path) -> FileLock:
    return FileLock(home.with_name(f".{home.name}.lock"))


def _unlock(lock: FileLock, home: Path) -> None:
    lock.release()
    with suppress(OSError):
        home.with_name(f".{home.name}.lock").unlink()


@contextmanager
def _content(upload: Upload) -> Iterator[BinaryIO]:
    """Give an upload's content to be read; a stream of the caller's stays open."""
    if isinstance(upload.content, bytes):
        yield io.BytesIO(upload.content)
    elif isinstance(upload.content, PurePath):
        try:
            file = open(upload.content, "rb")  # noqa: SIM115 -- closed below
        except OSError:
            raise SourceUnreadable(upload.name) from None
        with file:
            yield file
    else:
        yield upload.content


def _piece(content: BinaryIO, name: str) -> bytes:
    try:
        return content.read(_PIECE)
    except (OSError, ValueError):
        raise SourceUnreadable(name) from None


def _created(path: Path) -> BinaryIO:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def _write_list(home: Path, kept: Sequence[_Kept]) -> None:
    """Put the list of a batch in place, at once."""
    aside = home / f"{_LIST}-{uuid4().hex[:8]}"
    with _created(aside) as file:
        file.write(msgspec.json.encode(kept))
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, home / _LIST)


def _listed(home: Path) -> list[_Kept]:
    try:
        return msgspec.json.decode((home / _LIST).read_bytes(), type=list[_Kept])
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return []


def _dropped(home: Path, kept: Sequence[_Kept], doomed: Sequence[_Kept]) -> RemovedFiles:
    left = [one for one in kept if one not in doomed]
    if not left:
        return _removed(home)
    for one in doomed:
        (home / one.file).unlink(missing_ok=True)
    _write_list(home, left)
    return RemovedFiles(len(doomed), sum(one.size for one in doomed))


def _removed(folder: Path) -> RemovedFiles:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    sizes = []
    for path in files:
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    shutil.rmtree(folder, ignore_errors=True)
    return RemovedFiles(len(sizes), sum(sizes))


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _plain(name: str) -> str:
    """Return a name that was made here; anything else leads nowhere."""
    if not name or not all(char.isalnum() or char == "-" for char in name):
        raise SourceMissing("upload")
    return name


def _sum(one: RemovedFiles, other: RemovedFiles) -> RemovedFiles:
    return RemovedFiles(one.files + other.files, one.bytes + other.bytes)
