"""Images of documents as files: `<folder>/<doc_id>/img_<NNN>.<ext>`.

A revision's images are put aside first, and take the place of the earlier ones when readers see
the revision. A folder belongs to the world that made it; another world's document of the same id
is refused there, so that neither can show or remove what is the other's.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from truespan.errors import AssetsTaken, InvalidConfiguration
from truespan.files.disk import require_space
from truespan.types.figure import image_name
from truespan.types.ids import WorldId
from truespan.types.maintenance import RemovedFiles
from truespan.types.text import Image

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_IMAGE = re.compile(r"img_[0-9]{3,9}\.[a-z0-9]{1,5}")
_OWNER = ".world"
"""Names the world, and in a second line the token of the revision whose images are shown."""
_ASIDE = ".aside-"
_NAMES = ".names"


class AssetFolder:
    """Writes and removes images below one folder, and never outside it."""

    def __init__(self, folder: Path, *, reserve: int) -> None:
        self._folder = folder
        self._reserve = reserve

    def put_aside(self, world: WorldId, doc_id: str, token: str, images: Sequence[Image]) -> None:
        """Write images where nobody looks yet, under a token that names their revision.

        Raises:
            AssetsTaken: the folder belongs to another world.
            StorageFull: there is no room.
            InvalidConfiguration: nothing can be written there.
        """
        home = self._home(doc_id)
        try:
            self._claim(world, home)
            require_space(self._folder, self._reserve + sum(len(one.data) for one in images))
            _put(home / f"{_ASIDE}{token}", images)
        except OSError:
            raise InvalidConfiguration(
                "The folder for images cannot be written.",
                advice="Check RAG_ASSETS_DIR, and that this user may write there.",
            ) from None

    def pictured(self) -> frozenset[str]:
        """Return the ids of all documents that have a folder here, whoever owns it."""
        try:
            return frozenset(os.listdir(self._folder))
        except OSError:
            return frozenset()

    def publish(self, world: WorldId, doc_id: str, token: str) -> bool:
        """Put images in the place of the earlier ones; False when there are none of this token,
        neither aside nor in place.

        Whatever moment it is stopped at, calling it again ends in the same state.
        """
        home = self._home(doc_id)
        aside = home / f"{_ASIDE}{token}"
        if not self._is_own(world, home):
            return False
        try:
            arriving = (aside / _NAMES).read_text(encoding="ascii").split("\n")
            waiting_since = (aside / _NAMES).stat().st_mtime_ns
        except FileNotFoundError:
            return self._owner(home)[1:] == [token]
        for name in arriving:
            # What another run of the same revision has moved before us is in place.
            with suppress(FileNotFoundError):
                os.replace(aside / name, home / name)
        for entry in home.iterdir():
            if entry.is_file() and entry.name not in arriving and not entry.name.startswith(_OWNER):
                entry.unlink(missing_ok=True)
        _write_whole(home / _OWNER, f"{world}\n{token}")
        shutil.rmtree(aside, ignore_errors=True)
        _remove_older(home, waiting_since)
        return True

    def read(self, world: WorldId, doc_id: str, token: str, name: str) -> bytes | None:
        """Return the bytes of one image of the revision that a token names.

        None when there is none, or when others are just taking its place.
        """
        if not (_PLAIN.fullmatch(doc_id) and _IMAGE.fullmatch(name)) or ".." in doc_id:
            return None
        home = self._folder / doc_id
        aside = home / f"{_ASIDE}{token}"
        # A folder that is only a link leads to what nobody put there for us.
        if home.is_symlink() or aside.is_symlink() or not self._is_own(world, home):
            return None
        if (waiting := _plain_bytes(aside / name)) is not None:
            return waiting
        shown = _plain_bytes(home / name)
        # Looked at last, as in `copy_shown`: what was read may have been another revision's.
        moving = [one for one in _waiting(home) if _is_moving(one)]
        settled = self._owner(home) == [world, token] and not moving
        return shown if settled or (moving == [aside] and _brings(aside, name)) else None

    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles:
        """Remove all images of a document; absent ones are no error."""
        home = self._home(doc_id)
        if not self._is_own(world, home):
            return RemovedFiles(0, 0)
        removed = _weighed(home)
        # The owner's name goes last: whoever is stopped on the way may still go on.
        for entry in home.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _OWNER:
                entry.unlink(missing_ok=True)
        shutil.rmtree(home, ignore_errors=True)
        return removed

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all images of a world, also those that were being written when it went."""
        removed = [self.remove(world, name) for name in self.pictured() if _PLAIN.fullmatch(name)]
        for made in self._folder.glob(f".new-{world}-*"):
            shutil.rmtree(made, ignore_errors=True)
        return RemovedFiles(sum(one.files for one in removed), sum(one.bytes for one in removed))

    def copy_shown(self, world: WorldId, doc_id: str, token: str, target: Path) -> bool:
        """Copy the images of a revision into a new folder, as they are shown or are about to be.

        False when other images are shown, or are just taking their place.
        """
        home = self._home(doc_id)
        aside = home / f"{_ASIDE}{token}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            if aside.is_dir():
                names = _names(aside)
                images = [aside / name for name in names]
            else:
                images = sorted(home.glob("img_*"))
            for image in images:
                _share(image, target / image.name)
        except FileNotFoundError:
            return False
        _write_whole(target / _OWNER, f"{world}\n{token}")
        # Looked at last: whoever changes the images writes their token after that, and until then
        # some are missing where they waited.
        if images and images[0].parent == aside:
            return True
        return self._owner(home) == [world, token] and not any(map(_is_moving, _waiting(home)))

    def _home(self, doc_id: str) -> Path:
        if not _PLAIN.fullmatch(doc_id) or ".." in doc_id:
            raise AssetsTaken(doc_id, advice="Give it a doc_id of letters, digits, '-' and '_'.")
        return self._folder / doc_id

    def _claim(self, world: WorldId, home: Path) -> None:
        """Make the folder together with its owner's name, so that it never stands without one."""
        if not (home / _OWNER).exists():
            made = home.with_name(f".new-{world}-{home.name}")
            try:
                made.mkdir(parents=True, exist_ok=True)
                (made / _OWNER).write_text(world, encoding="ascii")
                os.rename(made, home)
            except OSError:
                shutil.rmtree(made, ignore_errors=True)
                # Unless somebody was faster, there is no folder now.
                if not home.exists():
                    raise
        if not self._is_own(world, home):
            raise AssetsTaken(home.name)

    def _is_own(self, world: WorldId, home: Path) -> bool:
        return self._owner(home)[:1] == [world]

    def _owner(self, home: Path) -> list[str]:
        """Return the world that a folder belongs to, and the token of what is shown in it."""
        try:
            return (home / _OWNER).read_text(encoding="ascii").split("\n")
        except (OSError, UnicodeDecodeError):
            return []


def _plain_bytes(path: Path) -> bytes | None:
    """Return what a file holds; None for whatever is no file of its own, links and pipes too."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():
            return None
        with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def _weighed(home: Path) -> RemovedFiles:
    """Return how many images lie in a folder, and how large they are together."""
    images = [path for path in home.rglob("*") if path.is_file() and path.name[0] != "."]
    return RemovedFiles(len(images), sum(path.stat().st_size for path in images))


def _put(aside: Path, images: Sequence[Image]) -> None:
    """Make a folder with images and the list of their names, all of it at once.

    Where another run was faster there is nothing to do: one token means the very same images.
    """
    spare = aside.with_name(f"{aside.name}-{uuid4().hex[:8]}")
    spare.mkdir()
    names = [image_name(place, image.extension) for place, image in enumerate(images, 1)]
    for name, image in zip(names, images, strict=True):
        (spare / name).write_bytes(image.data)
    (spare / _NAMES).write_text("\n".join(names), encoding="ascii")
    try:
        os.rename(spare, aside)
    except OSError as error:
        shutil.rmtree(spare, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES):
            raise


def _waiting(home: Path) -> list[Path]:
    return [path for path in home.glob(f"{_ASIDE}*") if (path / _NAMES).exists()]


def _names(aside: Path) -> list[str]:
    """Return the images that were put aside together."""
    names = (aside / _NAMES).read_text(encoding="ascii").split("\n")
    return [name for name in names if name]


def _brings(aside: Path, name: str) -> bool:
    """Say whether an image is one of those that wait, or that waited, there."""
    try:
        return name in _names(aside)
    except FileNotFoundError:
        return False


def _is_moving(aside: Path) -> bool:
    """Say whether some of the images that waited have taken their place already."""
    try:
        return not all((aside / name).exists() for name in _names(aside))
    except FileNotFoundError:
        return True


def _share(image: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be; images are never written to."""
    try:
        os.link(image, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(image, target)


def _write_whole(path: Path, text: str) -> None:
    spare = path.with_name(f"{path.name}-{os.getpid()}")
    spare.write_text(text, encoding="ascii")
    os.replace(spare, path)


def _remove_older(home: Path, moment: int) -> None:
    """Remove what waits longer than since a moment; what came later belongs to a later revision."""
    for left in home.glob(f"{_ASIDE}*"):
        with suppress(FileNotFoundError):
            if left.stat().st_mtime_ns <= moment:
                shutil.rmtree(left, ignore_errors=True)
