"""Uploads as files: `<folder>/<world>/<batch>/<number>`, with a list of their names.

Files are named by numbers, so that the name of an upload can neither be a path nor collide with
another name on a case-insensitive file system. A batch without its list is incomplete. While a
batch is received its lock is held; if the lock can be acquired, no process is receiving it.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from truespan import errors
from truespan.core.decoding import prepare
from truespan.core.disk import FileLock, create_file, replace_file, require_space, sync_folder
from truespan.files.assets import remove_folder
from truespan.files.jail import read_file, upload_doc_id, upload_path
from truespan.types.ids import WorldId
from truespan.types.maintenance import RemovedFiles, sum_files
from truespan.types.source import (
    DocumentOptions,
    FoundSources,
    Source,
    Upload,
    check_uploads,
    holds,
)

_LIST = ".list"
_PIECE = 1 << 20
MAX_BYTES = 512 << 20


class _StoredFile(NamedTuple):
    file: str
    name: str
    size: int
    metadata: str | None = None
    """Metadata of the file as JSON; None for the metadata of the whole upload."""


class UploadFolder:
    """Stores uploads below one folder."""

    def __init__(self, folder: Path, *, reserve: int, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._reserve = reserve
        self._max_bytes = max_bytes

    @contextmanager
    def receive(self, world: WorldId, uploads: Sequence[Upload]) -> Iterator[str]:
        """Store files durably and yield the name of their batch; removed if the block fails."""
        checked = check_uploads(uploads)
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

    def find(self, world: WorldId, batch: str, declared: DocumentOptions) -> FoundSources:
        """Return the sources of a batch, unread; raises SourceRefused if the batch was removed."""
        files = _read_list(self._home(world, batch))
        if not files:
            raise errors.SourceRefused("source_missing", "upload", advice="Upload it again.")
        return FoundSources(
            tuple(
                Source(
                    path=upload_path(stored.name),
                    name=stored.name,
                    doc_id=upload_doc_id(stored.name),
                    size=stored.size,
                    declared=(
                        declared
                        if stored.metadata is None
                        else replace(declared, metadata=stored.metadata)
                    ),
                    upload=f"{world}/{batch}/{stored.file}",
                    shown_path=stored.name,
                )
                for stored in files
            )
        )

    def exists(self, world: WorldId, batch: str) -> bool:
        return bool(_read_list(self._home(world, batch)))

    def read(self, source: Source) -> bytes:
        world, batch, file = source.upload.split("/")
        path = self._home(WorldId(world), batch).absolute() / _check_name(file)
        return read_file(str(path), source.name, jailed=False, max_bytes=self._max_bytes)

    def discard(self, world: WorldId, batch: str) -> None:
        shutil.rmtree(self._home(world, batch), ignore_errors=True)

    def remove(self, world: WorldId, path: str, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the files of a document from all batches that are not wanted; of a member, the
        file that it is in."""
        removed = [self.sweep(world, lambda batch: (self._home(world, batch) / _LIST).exists())]
        for home in self._unwanted(world, is_wanted):
            files = _read_list(home)
            left = [stored for stored in files if not holds(upload_path(stored.name), path)]
            if left == files:
                continue
            if not left:
                removed.append(remove_folder(home))
                continue
            gone = [stored for stored in files if stored not in left]
            for stored in gone:
                (home / stored.file).unlink(missing_ok=True)
            replace_file(home / _LIST, msgspec.json.encode(left))
            removed.append(RemovedFiles(len(gone), sum(stored.size for stored in gone)))
        return sum_files(removed)

    def sweep(self, world: WorldId, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the batches that are not wanted, except those being received."""
        return sum_files(map(remove_folder, self._unwanted(world, is_wanted)))

    def remove_all(self, world: WorldId) -> RemovedFiles:
        return remove_folder(self._folder / _check_name(world))

    def worlds(self) -> list[WorldId]:
        return [WorldId(path.name) for path in _folders(self._folder)]

    def _unwanted(self, world: WorldId, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
        """Yield the batches that are not wanted, each while its lock is held. A process that
        receives a batch releases the lock after it stored the job, so `is_wanted` is called only
        while the lock is held."""
        for home in _folders(self._folder / _check_name(world)):
            lock = _lock_of(home)
            if not lock.acquire():
                continue
            try:
                if not is_wanted(home.name):
                    yield home
            finally:
                _unlock(lock, home)

    def _home(self, world: WorldId, batch: str) -> Path:
        return self._folder / _check_name(world) / _check_name(batch)

    def _write(self, home: Path, lock: FileLock, uploads: Sequence[Upload]) -> None:
        try:
            home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire()
            home.mkdir(mode=0o700)
            files = [
                _StoredFile(
                    file=str(number),
                    name=upload.name,
                    size=self._write_file(home / str(number), upload),
                    metadata=DocumentOptions.from_arguments(metadata=upload.metadata).metadata,
                )
                for number, upload in enumerate(uploads, 1)
            ]
            replace_file(home / _LIST, msgspec.json.encode(files))
            for folder in (home, home.parent, self._folder, self._folder.parent):
                sync_folder(folder)
        except OSError as error:
            refusal = errors.InvalidConfiguration(
                "The library's folder for uploads cannot be written.",
                advice="Check its permissions.",
            )
            raise errors.resource_error(error) or refusal from None

    def _write_file(self, path: Path, upload: Upload) -> int:
        size = 0
        with _open_content(upload) as content, create_file(path) as file:
            while piece := _read(content, upload.name):
                size += len(piece)
                if size > self._max_bytes:
                    limit = self._max_bytes >> 20
                    raise errors.SourceRefused(
                        "source_too_large",
                        upload.name,
                        advice=f"At most {limit} MiB are accepted; the setting is source_max_mib.",
                    )
                require_space(self._folder, self._reserve + len(piece))
                file.write(piece)
        return size


def _lock_of(home: Path) -> FileLock:
    return FileLock(home.with_name(f".{home.name}.lock"))


def _unlock(lock: FileLock, home: Path) -> None:
    lock.release()
    with suppress(OSError):
        home.with_name(f".{home.name}.lock").unlink()


@contextmanager
def _open_content(upload: Upload) -> Iterator[BinaryIO]:
    if isinstance(upload.content, bytes):
        yield io.BytesIO(upload.content)
    elif isinstance(upload.content, PurePath):
        try:
            file = open(upload.content, "rb")  # noqa: SIM115 -- closed below
        except OSError as error:
            raise errors.resource_error(error) or errors.SourceRefused(
                "source_unreadable", upload.name
            ) from None
        with file:
            yield file
    else:
        yield upload.content


def _read(content: BinaryIO, name: str) -> bytes:
    try:
        return content.read(_PIECE)
    except (OSError, ValueError) as error:
        raise errors.resource_error(error) or errors.SourceRefused(
            "source_unreadable", name
        ) from None


def _read_list(home: Path) -> list[_StoredFile]:
    try:
        return msgspec.json.decode((home / _LIST).read_bytes(), type=prepare(list[_StoredFile]))
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return []


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _check_name(name: str) -> str:
    """Return a name that this class made; any other could be a path and is refused."""
    if not name or not all(char.isalnum() or char == "-" for char in name):
        raise errors.SourceRefused("source_missing", "upload")
    return name
