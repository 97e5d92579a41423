"""Libraries of files that were asked before, in the user's cache folder.

The name of a library is a hash of the paths and contents of its files, of the settings and of the
version of Truespan, so that a library is never asked about other files than it was made of.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from truespan.core.disk import FileLock, hash_file
from truespan.settings import cache_folder, read_settings
from truespan.types.source import is_page

if TYPE_CHECKING:
    from truespan.engine.library import Library

MAX_BYTES = 1 << 30
"""Maximum size of all libraries; the ones that were not asked for the longest time are removed."""
MAX_FILES = 2000
MAX_SOURCE_BYTES = 256 << 20
"""Maximum number and size of files whose library is kept."""
_COMPLETE = "complete"


@contextmanager
def open_cached(
    sources: Sequence[str], settings_folder: Path
) -> "Iterator[tuple[Library, Path | None, bool]]":
    """Open the library of some files; yield it, its folder, and whether it has the documents.

    The folder is None for a temporary library: if the files are too many, are web pages, or are
    asked by another process at the same time. Call `mark_complete` after ingesting.
    """
    import truespan

    with ExitStack() as stack:
        folder = None
        with suppress(OSError):
            folder = _claim(sources, settings_folder, stack)
        if folder is None:
            yield stack.enter_context(truespan.open_temporary(settings_folder)), None, False
            return
        complete = folder / _COMPLETE
        known = complete.exists()
        if known:
            # The time of the last use decides which library is removed first.
            complete.touch()
        else:
            # Another process may remove a file meanwhile.
            with suppress(OSError):
                make_room(folder.parent)
        opened = truespan.open_temporary(settings_folder, folder=folder)
        yield stack.enter_context(opened), folder, known


def mark_complete(folder: Path) -> None:
    """Say that a library has all documents that can be read."""
    (folder / _COMPLETE).touch()


def make_room(home: Path, max_bytes: int = MAX_BYTES) -> None:
    """Remove the libraries that were not asked for the longest time, until the others fit."""
    found: list[tuple[float, int, Path]] = []
    for folder in home.iterdir():
        if folder.is_dir():
            files = [path for path in folder.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            used = folder / _COMPLETE
            found.append((used.stat().st_mtime if used.exists() else 0.0, size, folder))
    total = sum(size for _, size, _ in found)
    for _, size, folder in sorted(found):
        if total <= max_bytes:
            return
        lock = FileLock(home / f"{folder.name}.lock")
        if lock.acquire():
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
            total -= size


def _claim(sources: Sequence[str], settings_folder: Path, stack: ExitStack) -> Path | None:
    """Return the folder for some files, locked; None if there is none, or it is in use."""
    name = _name_of(sources, settings_folder)
    if name is None:
        return None
    home = cache_folder() / "asked"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(home / f"{name}.lock")
    if not lock.acquire():
        return None
    stack.callback(lock.release)
    return home / name


def _name_of(sources: Sequence[str], settings_folder: Path) -> str | None:
    """Return a hash of what a library of these files depends on; None if there are too many."""
    if any(is_page(source) for source in sources):
        return None
    known = sha256(repr((metadata.version("truespan"), read_settings(settings_folder))).encode())
    size = 0
    for number, path in enumerate(path for source in sources for path in _files_of(source)):
        size += path.stat().st_size
        if number >= MAX_FILES or size > MAX_SOURCE_BYTES:
            return None
        known.update(f"{path}\0{hash_file(path)[0]}\0".encode("utf-8", "surrogatepass"))
    return known.hexdigest()[:32]


def _files_of(source: str) -> Iterator[Path]:
    path = Path(os.path.abspath(source))
    if not path.is_dir():
        yield path
        return
    for folder, inner, names in os.walk(path):
        inner.sort()
        yield from (file for name in sorted(names) if (file := Path(folder, name)).is_file())
