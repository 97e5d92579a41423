"""Free space, looked at before anything is written.

A full disk is no ordinary error for memory-mapped files: the system ends the process that writes to
a page for which there is no room. So writes are refused while there is still some.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from truespan.errors import StorageFull


def require_space(path: Path, reserve: int) -> None:
    """Refuse when fewer than `reserve` bytes are free where `path` is or will be.

    Raises:
        StorageFull: there are fewer.
    """
    free = shutil.disk_usage(_nearest_existing(path)).free
    if free < reserve:
        raise StorageFull(free, reserve)


def _nearest_existing(path: Path) -> Path:
    return next((place for place in (path, *path.absolute().parents) if place.exists()), path)
