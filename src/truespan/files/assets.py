"""Images of documents, as files `<folder>/<doc_id>/img_<NNN>.<ext>`, and drawn pages.

Images of a revision are staged first, and replace the earlier ones when the revision becomes
active. A folder belongs to the world that created it. A document of another world with the same id
is refused, so that no world can show or remove images of another world.

Drawn pages and kept uploads are files `<folder>/<world>/<document>/<source>-<name>`. They can be
made again or done without, so the oldest are removed when they take too much space. Each begins
with the digest of its content.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from truespan.core.disk import create_file, replace_file, require_space
from truespan.errors import InvalidConfiguration, SourceRefused, StorageFull, resource_error
from truespan.types.chunk import image_name
from truespan.types.ids import WorldId
from truespan.types.maintenance import RemovedFiles, sum_files
from truespan.types.picture import SOURCE
from truespan.types.text import Image

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_IMAGE = re.compile(r"img_[0-9]{3,9}\.[a-z0-9]{1,5}")
_OWNER = ".world"
"""File with the world, and in a second line the token of the published revision."""
_STAGED = ".staged-"
_NAMES = ".names"


class AssetFolder:
    """Writes and removes images below one folder."""

    def __init__(self, folder: Path, *, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve

    def stage_images(
        self, world: WorldId, doc_id: str, token: str, images: Sequence[Image]
    ) -> None:
        """Stage images under the token of their revision, invisible until `publish`."""
        home = self._home(doc_id)
        try:
            self._claim(world, home)
            require_space(self._folder, self._reserve + sum(len(image.data) for image in images))
            staged = home / f"{_STAGED}{token}"
            spare = staged.with_name(f"{staged.name}-{uuid4().hex[:8]}")
            spare.mkdir()
            names = [image_name(place, image.extension) for place, image in enumerate(images, 1)]
            try:
                for name, image in zip(names, images, strict=True):
                    (spare / name).write_bytes(image.data)
                (spare / _NAMES).write_text("\n".join(names), encoding="ascii")
                os.rename(spare, staged)
            except OSError as error:
                shutil.rmtree(spare, ignore_errors=True)
                # Another run may have created it: equal tokens mean equal images.
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES):
                    raise
        except OSError as error:
            refusal = InvalidConfiguration(
                "The folder for images cannot be written.",
                advice="Check RAG_ASSETS_DIR and the permissions of the folder.",
            )
            raise resource_error(error) or refusal from None

    def documents_with_images(self) -> frozenset[str]:
        """Return the ids of all documents with images, of any world."""
        try:
            return frozenset(os.listdir(self._folder))
        except OSError as error:
            if known := resource_error(error):
                raise known from None
            return frozenset()

    def publish(self, world: WorldId, doc_id: str, token: str) -> bool:
        """Replace the earlier images by the staged ones; False if the token has no images.

        After an interruption, call it again to complete it.
        """
        home = self._home(doc_id)
        staged = home / f"{_STAGED}{token}"
        if not self._is_own(world, home):
            return False
        try:
            names = _read_names(staged)
            staged_at = (staged / _NAMES).stat().st_mtime_ns
        except FileNotFoundError:
            return self._read_owner(home)[1:] == [token]
        for name in names:
            # Another run of the same revision may have moved it already.
            with suppress(FileNotFoundError):
                os.replace(staged / name, home / name)
        for entry in home.iterdir():
            if entry.is_file() and entry.name not in names and not entry.name.startswith(_OWNER):
                entry.unlink(missing_ok=True)
        replace_file(home / _OWNER, f"{world}\n{token}".encode(), mode=0o666)
        shutil.rmtree(staged, ignore_errors=True)
        # Images that were staged later belong to a later revision.
        for left in home.glob(f"{_STAGED}*"):
            with suppress(FileNotFoundError):
                if left.stat().st_mtime_ns <= staged_at:
                    shutil.rmtree(left, ignore_errors=True)
        return True

    def read(self, world: WorldId, doc_id: str, token: str, name: str) -> bytes | None:
        """Return the bytes of an image of the revision with this token.

        None if there is no such image, or if images of another revision are being published.
        """
        if not (_PLAIN.fullmatch(doc_id) and _IMAGE.fullmatch(name)) or ".." in doc_id:
            return None
        home = self._folder / doc_id
        staged = home / f"{_STAGED}{token}"
        # This class creates no links, so a link is foreign.
        if home.is_symlink() or staged.is_symlink() or not self._is_own(world, home):
            return None
        if (content := _read_regular(staged / name)) is not None:
            return content
        content = _read_regular(home / name)
        # Checked last, as in `copy_published`: the bytes may belong to another revision.
        moving = [folder for folder in _staged_folders(home) if _is_moving(folder)]
        published = self._read_owner(home) == [world, token] and not moving
        if not published and moving == [staged]:
            with suppress(FileNotFoundError):
                published = name in _read_names(staged)
        return content if published else None

    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles:
        """Remove all images of a document, if there are any."""
        home = self._home(doc_id)
        if not self._is_own(world, home):
            return RemovedFiles(0, 0)
        images = [path for path in home.rglob("*") if path.is_file() and path.name[0] != "."]
        removed = RemovedFiles(len(images), sum(path.stat().st_size for path in images))
        # The owner file goes last, so that an interrupted removal can be repeated.
        for entry in home.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _OWNER:
                entry.unlink(missing_ok=True)
        shutil.rmtree(home, ignore_errors=True)
        return removed

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all images of a world, including unfinished ones."""
        names = filter(_PLAIN.fullmatch, self.documents_with_images())
        removed = sum_files([self.remove(world, name) for name in names])
        for made in self._folder.glob(f".new-{world}-*"):
            shutil.rmtree(made, ignore_errors=True)
        return removed

    def copy_published(self, world: WorldId, doc_id: str, token: str, target: Path) -> bool:
        """Copy the published or staged images of a revision into a new folder.

        False if images of another revision are published, or being published.
        """
        home = self._home(doc_id)
        staged = home / f"{_STAGED}{token}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            if staged.is_dir():
                images = [staged / name for name in _read_names(staged)]
            else:
                images = sorted(home.glob("img_*"))
            for image in images:
                try:
                    # Images are never modified, so a link is as good as a copy.
                    os.link(image, target / image.name)
                except FileNotFoundError:
                    raise
                except OSError:
                    shutil.copyfile(image, target / image.name)
        except FileNotFoundError:
            return False
        replace_file(target / _OWNER, f"{world}\n{token}".encode(), mode=0o666)
        # Checked last: `publish` writes the token after moving the images, and until then images
        # are missing in the staged folder.
        if images and images[0].parent == staged:
            return True
        moving = any(map(_is_moving, _staged_folders(home)))
        return self._read_owner(home) == [world, token] and not moving

    def _home(self, doc_id: str) -> Path:
        if not _PLAIN.fullmatch(doc_id) or ".." in doc_id:
            raise SourceRefused(
                "assets_taken", doc_id, advice="Use a doc_id of letters, digits, '-' and '_'."
            )
        return self._folder / doc_id

    def _claim(self, world: WorldId, home: Path) -> None:
        if not (home / _OWNER).exists():
            made = home.with_name(f".new-{world}-{home.name}")
            try:
                made.mkdir(parents=True, exist_ok=True)
                (made / _OWNER).write_text(world, encoding="ascii")
                os.rename(made, home)
            except OSError:
                shutil.rmtree(made, ignore_errors=True)
                # If the folder exists now, another process has created it.
                if not home.exists():
                    raise
        if not self._is_own(world, home):
            raise SourceRefused("assets_taken", home.name)

    def _is_own(self, world: WorldId, home: Path) -> bool:
        return self._read_owner(home)[:1] == [world]

    def _read_owner(self, home: Path) -> list[str]:
        try:
            return (home / _OWNER).read_text(encoding="ascii").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            if known := resource_error(error):
                raise known from None
            return []


def _read_regular(path: Path) -> bytes | None:
    """Return the bytes of a regular file; None for anything else, such as a link or a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():
            return None
        with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError as error:
        if known := resource_error(error):
            raise known from None
        return None


def _staged_folders(home: Path) -> list[Path]:
    return [path for path in home.glob(f"{_STAGED}*") if (path / _NAMES).exists()]


def _read_names(staged: Path) -> list[str]:
    names = (staged / _NAMES).read_text(encoding="ascii").split("\n")
    return [name for name in names if name]


def _is_moving(staged: Path) -> bool:
    try:
        return not all((staged / name).exists() for name in _read_names(staged))
    except FileNotFoundError:
        return True


_DIGEST = sha256().digest_size
_SHORT = 32
"""Number of hexadecimal digits of a hash in a name."""
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


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
        """Write a file; if the disk is full, write nothing and raise nothing."""
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
        return remove_folder(self._home(world, doc_id))

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove the files of a world."""
        return remove_folder(self._folder / _check(world))

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


def remove_folder(folder: Path) -> RemovedFiles:
    """Remove a folder, and return its files without those that begin with a dot, such as locks."""
    removed: list[RemovedFiles] = []
    for path in [path for path in _files(folder) if path.name[0] != "."]:
        with suppress(FileNotFoundError):
            removed.append(RemovedFiles(1, path.stat().st_size))
    shutil.rmtree(folder, ignore_errors=True)
    return sum_files(removed)


def _check(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("A name of a picture has letters, digits and '-' only.")
    return name
