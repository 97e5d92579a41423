"""Backups of a library: a ZIP file whose first member is a manifest of all the others.

Must hold: a file under its final name is complete and was read back; no name in an archive becomes
a path, and no content takes disk space, before the manifest was checked; a library is restored
completely or not at all. The index is not part of a backup: it is rebuilt.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from truespan import errors
from truespan.core.disk import (
    FileLock,
    create_file,
    hash_file,
    require_space,
    sync_folder,
)
from truespan.files.assets import AssetFolder, PictureFolder
from truespan.protocols import Clock
from truespan.store.engines.sqlite import known_schemas
from truespan.store.snapshot import Snapshot, Snapshots, prepare_snapshot
from truespan.types.maintenance import (
    MANIFEST,
    MAX_MANIFEST_SIZE,
    STORE,
    BackupReport,
    Manifest,
    Member,
    manifest_from_json,
)

ASSETS, SOURCES = "assets", "sources"
"""Folders of a backup: images, and kept uploads."""
SETTINGS = "truespan.toml"
RESTORED_SETTINGS = "truespan.toml.restored"
"""Name of restored settings that must not take effect because they name a server."""

_BLOCK = 1 << 20
_COMPRESSION_LEVEL = 1
_MAX_EXPANSION = 1100
"""Upper bound of the compression ratio of deflate; an archive with a higher ratio is forged."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FLAG_ENCRYPTED = 1
_LOCK = ".lock"
_PARTIAL = ".partial"
RESTORING = ".restoring"
_RETRY_SECONDS = 0.2
UNREADY_STORE = "store.part"
"""Name of the store until everything is in place: a folder without a store is no library."""

NamesServer = Callable[[Path], bool]
"""Returns whether a settings file names a server, which another library may use."""


def describe_file(name: str, path: Path) -> Member:
    digest, size = hash_file(path)
    return Member(name, size, digest)


def write_archive(target: Path, manifest: Manifest, sources: dict[str, Path]) -> None:
    """Write an archive, readable by its owner alone, and return once it is on the disk."""
    with create_file(target) as file, ZipFile(file, "w") as archive:
        archive.writestr(_zip_entry(MANIFEST), manifest.to_json(), ZIP_STORED)
        for member in manifest.members:
            entry = _zip_entry(member.name)
            # Images and most documents are compressed already.
            compressed = member.name.startswith((f"{ASSETS}/", f"{SOURCES}/"))
            entry.compress_type = ZIP_STORED if compressed else ZIP_DEFLATED
            entry._compresslevel = _COMPRESSION_LEVEL  # type: ignore[attr-defined]
            with (
                sources[member.name].open("rb") as content,
                archive.open(entry, "w", force_zip64=member.size >= 1 << 31) as written,
            ):
                shutil.copyfileobj(content, written, _BLOCK)


def read_archive(
    path: Path, sink: Callable[[Member, Iterator[bytes]], None] | None = None
) -> Manifest:
    """Verify every member of a backup by its manifest, and pass the members to `sink`.

    The output of `sink` may be used only after this returns.
    """
    with _map_errors(path), path.open("rb") as file, ZipFile(file) as archive:
        manifest = _check_entries(archive)
        if manifest.size > _MAX_EXPANSION * path.stat().st_size:
            raise errors.BackupInvalid(
                "The backup claims to contain more than a file of its size can."
            )
        for member in manifest.members:
            with archive.open(archive.getinfo(member.name)) as content:
                blocks = _verify_member(member, content)
                if sink is not None:
                    sink(member, blocks)
                for _ in blocks:
                    pass
        return manifest


def _zip_entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, _EPOCH)
    entry.external_attr = 0o600 << 16
    return entry


def _check_entries(archive: ZipFile) -> Manifest:
    entries = archive.infolist()
    first = entries[0] if entries else None
    if first is None or first.filename != MANIFEST or first.header_offset != 0:
        raise errors.BackupInvalid("The file is not a backup: it does not begin with a manifest.")
    if first.file_size > MAX_MANIFEST_SIZE or first.compress_type != ZIP_STORED:
        raise errors.BackupInvalid("The manifest of the backup is too large.")
    with archive.open(first) as content:
        text = content.read(MAX_MANIFEST_SIZE)
    manifest = manifest_from_json(text, schemas=known_schemas())
    found = [(entry.filename, entry.file_size) for entry in entries[1:]]
    if found != [(member.name, member.size) for member in manifest.members]:
        raise errors.BackupInvalid("The members of the backup do not match its manifest.")
    for entry in entries:
        known = entry.compress_type in (ZIP_STORED, ZIP_DEFLATED)
        if not known or entry.flag_bits & _FLAG_ENCRYPTED:
            raise errors.BackupInvalid(
                "The backup is packed in a way that Truespan does not write."
            )
    return manifest


def _verify_member(member: Member, content: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a member, at most its size; raises BackupInvalid if the hash differs."""
    digest, left = sha256(), member.size
    while block := content.read(min(_BLOCK, left + 1)):
        left -= len(block)
        if left < 0:
            break
        digest.update(block)
        yield block
    if left or digest.hexdigest() != member.sha256:
        raise errors.BackupInvalid(f"{member.name} in the backup has changed since it was written.")


@contextmanager
def _map_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except errors.TruespanError:
        raise
    except FileNotFoundError:
        raise errors.BackupInvalid(
            f"There is no backup at {path}.", advice="Check the path."
        ) from None
    except (IsADirectoryError, PermissionError) as error:
        raise errors.BackupInvalid(
            f"{path} cannot be read: {error.strerror}.", advice="Check the path."
        ) from None
    except OSError:
        raise
    except Exception:
        # zipfile raises errors of struct and zlib, its own, and others for odd bytes.
        raise errors.BackupInvalid("The file is not a backup, or is damaged.") from None


class BackupWriter(Struct, frozen=True):
    """Writes backups of one library. `settings` and `keys` are files by their names in a backup.

    `pictures` has the kept uploads; None if uploads are not kept.
    """

    folder: Path
    """Folder of the library."""
    store: Snapshots
    assets: AssetFolder
    pictures: PictureFolder | None
    settings: Mapping[str, Path]
    keys: Mapping[str, Path]
    version: Callable[[], str]
    clock: Clock
    reserve: int

    def write(
        self, path: str, *, vectors: bool, settings: bool, keys: bool, replace: bool
    ) -> BackupReport:
        """Write a backup under a temporary name, read it back, and then rename it."""
        target = Path(path).absolute()
        _require_free_name(target, replace=replace)
        # A deletion says that the text is gone from every file of the library. A link of this name
        # would be replaced itself, not the file that it leads to.
        if target.parent.resolve().is_relative_to(self.folder.resolve()):
            raise errors.InvalidArgument(
                f"{target} is in the folder of the library.",
                advice="Choose a path outside: a backup in it is lost with the library, and keeps "
                "what is deleted from it.",
            )
        require_space(target.parent, self.reserve + 2 * self.store.size())
        work = target.with_name(target.name + _PARTIAL)
        lock = claim_folder(work)
        try:
            manifest, sources = self._collect(work, vectors=vectors)
            extra = {**(self.settings if settings else {}), **(self.keys if keys else {})}
            sources |= {name: file for name, file in extra.items() if file.is_file()}
            members = tuple(describe_file(name, file) for name, file in sources.items())
            manifest = msgspec.structs.replace(manifest, members=members)
            written = work / "backup"
            write_archive(written, manifest, sources)
            read_archive(written)
            if replace:
                os.replace(written, target)
            else:
                try:
                    # Unlike a rename, a link does not replace a file that was created meanwhile.
                    os.link(written, target)
                except FileExistsError:
                    _require_free_name(target, replace=False)
                except OSError:
                    os.rename(written, target)
            sync_folder(target.parent)
        finally:
            remove_folder(work, lock)
        return BackupReport(str(target), target.stat().st_size, manifest)

    def _collect(self, work: Path, *, vectors: bool) -> tuple[Manifest, dict[str, Path]]:
        """Take a snapshot and the images that it refers to; repeat it if images changed meanwhile.

        Images are moved into place after the commit that shows them, so for a moment the store is
        ahead of the folder. Images that are missing for longer were missing before.
        """
        attempt, store = 0, work / STORE
        while True:
            attempt += 1
            store.unlink(missing_ok=True)
            shutil.rmtree(work / ASSETS, ignore_errors=True)
            snapshot = self.store.take(store, vectors=vectors)
            images: dict[str, Path] = {}
            missing = 0
            for world, doc_id, token in snapshot.images:
                folder = work / ASSETS / doc_id
                if self.assets.copy_published(world, doc_id, token, folder):
                    for file in sorted(folder.iterdir()):
                        images[f"{ASSETS}/{doc_id}/{file.name}"] = file
                else:
                    missing += 1
            if not missing or attempt >= self.store.attempts:
                break
            self.clock.sleep(_RETRY_SECONDS)
        manifest = Manifest(
            schema=snapshot.schema,
            truespan=self.version(),
            created_at=self.clock.now(),
            vectors=vectors,
            worlds=snapshot.worlds,
            documents=snapshot.documents,
            chunks=snapshot.chunks,
            missing_images=missing,
            members=(),
        )
        return manifest, {STORE: store, **images, **self._copy_sources(snapshot, work)}

    def _copy_sources(self, snapshot: Snapshot, work: Path) -> dict[str, Path]:
        """Copy the uploads that are kept; one that was removed meanwhile can be done without."""
        if self.pictures is None:
            return {}
        folder = work / SOURCES
        copies = (self.pictures.copy_source(*owner, folder) for owner in snapshot.sources)
        return {str(copy.relative_to(work).as_posix()): copy for copy in copies if copy is not None}


def _require_free_name(target: Path, *, replace: bool) -> None:
    if target.is_dir():
        raise errors.InvalidArgument(f"{target} is a folder; a backup is a file.")
    if target.exists() and not replace:
        raise errors.InvalidArgument(
            f"The file {target} already exists.", advice="Choose another name, or pass --force."
        )
    if not target.parent.is_dir():
        raise errors.InvalidArgument(f"There is no folder {target.parent}.")


def restore_to_folder(
    path: Path,
    folder: Path,
    *,
    assets: str,
    pictures: str,
    names_server: NamesServer = lambda _: False,
) -> Manifest:
    """Restore the files of a backup into a new or empty folder; the index is rebuilt later.

    The files are verified and unpacked beside the folder, and then renamed together, so that a
    folder never has a part of them. `assets` and `pictures` are the folders of images and of kept
    uploads in a library. Settings that name a server get another name: with them, the library on
    that server would be opened.
    """
    folder = folder.absolute()
    _require_empty(folder)
    manifest = read_archive(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    require_space(folder.parent, manifest.size)
    work = folder.with_name(f".{folder.name}{RESTORING}")
    lock = claim_folder(work)
    try:
        unpack(path, work, {ASSETS: assets, SOURCES: pictures})
        if (work / SETTINGS).exists() and names_server(work / SETTINGS):
            os.rename(work / SETTINGS, work / RESTORED_SETTINGS)
        _require_empty(folder)
        os.rename(work / UNREADY_STORE, work / STORE)
        (work / _LOCK).unlink(missing_ok=True)
        lock.release()
        # This replaces an empty folder, and no other.
        os.rename(work, folder)
        sync_folder(folder.parent)
    except BaseException:
        remove_folder(work, lock)
        raise
    return manifest


def unpack(path: Path, work: Path, folders: Mapping[str, str]) -> None:
    """Unpack a backup into a folder and prepare its store; return once all is on disk.

    `folders` maps folders of the backup to folders of the library.
    """

    def write_member(member: Member, blocks: Iterator[bytes]) -> None:
        parent, _, rest = member.name.partition("/")
        name = f"{folders[parent]}/{rest}" if parent in folders else rest
        target = work / (UNREADY_STORE if member.name == STORE else name)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with create_file(target) as file:
            file.writelines(blocks)

    read_archive(path, write_member)
    prepare_snapshot(work / UNREADY_STORE)
    for inner in (work, *(entry for entry in work.rglob("*") if entry.is_dir())):
        sync_folder(inner)


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise errors.InvalidArgument(
            f"{folder} is not empty.", advice="Restore into a folder that is new or empty."
        )


def claim_folder(folder: Path) -> FileLock:
    """Lock a work folder and remove the leftovers of a killed process."""
    folder.mkdir(mode=0o700, exist_ok=True, parents=True)
    lock = FileLock(folder / _LOCK)
    if not lock.acquire():
        raise errors.InvalidArgument(f"Another process is writing to {folder}.")
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    return lock


def remove_folder(folder: Path, lock: FileLock) -> None:
    """Remove a work folder and release its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
