"""The archive of a backup: a ZIP whose first member says what all the others must be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from truespan.errors import BackupInvalid, InvalidSettings, TruespanError
from truespan.files.disk import FileLock
from truespan.types.maintenance import LARGEST_MANIFEST, MANIFEST, Manifest, Member, read_manifest

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


_BLOCK = 1 << 20
_LEVEL = 1
_EXPANSION = 1100
"""More than deflate can shrink anything by: what claims to unpack to more is lying."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FLAG_ENCRYPTED = 1

Sink = Callable[[Member, Iterator[bytes]], None]


def describe(name: str, path: Path) -> Member:
    """Return what a manifest says of a file."""
    digest, size = sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return Member(name, size, digest.hexdigest())


def write_archive(target: Path, manifest: Manifest, sources: dict[str, Path]) -> None:
    """Write an archive, readable by its owner alone, and return once it is on the disk."""
    with open(target, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        with ZipFile(file, "w") as archive:
            archive.writestr(_entry(MANIFEST), manifest.spelled(), ZIP_STORED)
            for member in manifest.members:
                _add(archive, member, sources[member.name])
        file.flush()
        os.fsync(file.fileno())


def _add(archive: ZipFile, member: Member, source: Path) -> None:
    entry = _entry(member.name)
    # Images are compressed already.
    entry.compress_type = ZIP_STORED if member.name.startswith("assets/") else ZIP_DEFLATED
    entry._compresslevel = _LEVEL  # type: ignore[attr-defined]
    with (
        source.open("rb") as content,
        archive.open(entry, "w", force_zip64=member.size >= 1 << 31) as written,
    ):
        while block := content.read(_BLOCK):
            written.write(block)


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, _EPOCH)
    entry.external_attr = 0o600 << 16
    return entry


def read_archive(path: Path, known_schema: int, sink: Sink) -> Manifest:
    """Read a backup, every member against its manifest, and hand the members to `sink`.

    What the sink was given is to be believed only once this returns.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written.
    """
    with _doubted(path), path.open("rb") as file, ZipFile(file) as archive:
        manifest = _checked_manifest(archive, known_schema)
        size = path.stat().st_size
        if manifest.size > _EXPANSION * size:
            raise BackupInvalid("The backup claims to hold more than a file of its size can.")
        for member in manifest.members:
            entry = archive.getinfo(member.name)
            with archive.open(entry) as content:
                sink(member, _verified(member, content))
        return manifest


def _checked_manifest(archive: ZipFile, known_schema: int) -> Manifest:
    entries = archive.infolist()
    first = entries[0] if entries else None
    if first is None or first.filename != MANIFEST or first.header_offset != 0:
        raise BackupInvalid("The file is not a backup: it does not begin with a manifest.")
    if first.file_size > LARGEST_MANIFEST or first.compress_type != ZIP_STORED:
        raise BackupInvalid("The manifest of the backup is too large.")
    with archive.open(first) as content:
        manifest = read_manifest(content.read(LARGEST_MANIFEST), known_schema=known_schema)
    found = [(entry.filename, entry.file_size) for entry in entries[1:]]
    if found != [(member.name, member.size) for member in manifest.members]:
        raise BackupInvalid("The backup does not hold what its manifest says.")
    for entry in entries:
        known = entry.compress_type in (ZIP_STORED, ZIP_DEFLATED)
        if not known or entry.flag_bits & _FLAG_ENCRYPTED:
            raise BackupInvalid("The backup is packed in a way that Truespan does not write.")
    return manifest


def _verified(member: Member, content: IO[bytes]) -> Iterator[bytes]:
    """Give a member's bytes, never more than it should have, and refuse it if they are others."""
    digest, left = sha256(), member.size
    while block := content.read(min(_BLOCK, left + 1)):
        left -= len(block)
        if left < 0:
            break
        digest.update(block)
        yield block
    if left or digest.hexdigest() != member.sha256:
        raise BackupInvalid(f"{member.name} in the backup is not as it was written.")


@contextmanager
def _doubted(path: Path) -> Iterator[None]:
    """Take whatever a reader of archives stumbles over for what it is: a file that is no backup."""
    try:
        yield
    except (TruespanError, KeyboardInterrupt, SystemExit):
        raise
    except FileNotFoundError:
        raise BackupInvalid(f"There is no backup at {path}.") from None
    except OSError as error:
        if isinstance(error, IsADirectoryError | PermissionError):
            raise BackupInvalid(f"{path} cannot be read: {error.strerror}.") from None
        raise
    except Exception:
        # zipfile raises what its parts raise: struct, zlib, its own, and more on odd bytes.
        raise BackupInvalid("The file is not a backup, or is damaged.") from None
