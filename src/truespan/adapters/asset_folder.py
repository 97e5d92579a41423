"""Images of documents as files: `<folder>/<doc_id>/img_<NNN>.<ext>`.

A revision's images are put aside first, and take the place of the earlier ones when readers see
the revision. A folder belongs to the world that made it; another world's document of the same id
is refused there, so that neither can show or remove what is the other's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from truespan.adapters.disk_space import require_space
from truespan.errors import AssetsTaken, InvalidConfiguration
from truespan.model.figure import image_name
from truespan.model.ids import WorldId
from truespan.model.text import Image

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OWNER = ".world"
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
            aside = _emptied(home / f"{_ASIDE}{token}")
            names = [image_name(place, image.extension) for place, image in enumerate(images, 1)]
            for name, image in zip(names, images, strict=True):
                (aside / name).write_bytes(image.data)
            # Written last: without it nothing of this is ever published.
            (aside / _NAMES).write_text("\n".join(names), encoding="ascii")
        except OSError:
            raise InvalidConfiguration(
                "The folder for images cannot be written.",
                advice="Check RAG_ASSETS_DIR, and that this user may write there.",
            ) from None

    def publish(self, world: WorldId, doc_id: str, token: str) -> bool:
        """Put images in the place of the earlier ones; False when none are aside under the token.

        Whatever moment it is stopped at, calling it again ends in the same state.
        """
        home = self._home(doc_id)
        aside = home / f"{_ASIDE}{token}"
        if not self._is_own(world, home) or not (aside / _NAMES).is_file():
            return False
        arriving = (aside / _NAMES).read_text(encoding="ascii").split("\n")
        for name in arriving:
            if (aside / name).is_file() and name != _NAMES:
                os.replace(aside / name, home / name)
        for entry in home.iterdir():
            if entry.is_file() and entry.name not in (*arriving, _OWNER):
                entry.unlink()
        for left in home.glob(f"{_ASIDE}*"):
            shutil.rmtree(left, ignore_errors=True)
        return True

    def remove(self, world: WorldId, doc_id: str) -> None:
        """Remove all images of a document; absent ones are no error."""
        home = self._home(doc_id)
        if self._is_own(world, home):
            shutil.rmtree(home, ignore_errors=True)

    def _home(self, doc_id: str) -> Path:
        if not _PLAIN.fullmatch(doc_id) or ".." in doc_id:
            raise AssetsTaken(doc_id, advice="Give it a doc_id of letters, digits, '-' and '_'.")
        return self._folder / doc_id

    def _claim(self, world: WorldId, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        try:
            with open(home / _OWNER, "x", encoding="ascii") as owner:
                owner.write(world)
        except FileExistsError:
            if not self._is_own(world, home):
                raise AssetsTaken(home.name) from None

    def _is_own(self, world: WorldId, home: Path) -> bool:
        try:
            return (home / _OWNER).read_text(encoding="ascii") == world
        except (OSError, UnicodeDecodeError):
            return False


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
