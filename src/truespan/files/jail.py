"""The jail for what a manifest names, and reading files so that nothing can slip in between.

A path is judged where it really leads. What was judged is remembered as a path without any link in
it, and it is opened name by name without following one. Whoever puts a link there after the check
gains nothing. A hard link is the file itself, and a mounted folder belongs to where it is mounted.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from truespan.errors import SourceMissing, SourceTooLarge, SourceUnreadable
from truespan.ingest.manifest import PathPattern, parts_of, path_fault
from truespan.types.source import Declared, Source

_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def doc_id_for(path: str) -> str:
    """Return the identity of a file: its name made plain, and a digest of where it lies.

    The same file gives the same id however it was reached; equal names in two folders differ.
    """
    return f"{_slug(os.path.basename(path))}-{sha256(os.fsencode(path)).hexdigest()[:8]}"


def upload_doc_id(name: str) -> str:
    """Return the identity of an upload: its name alone, wherever the library lies."""
    return f"{_slug(name)}-{sha256(upload_path(name).encode()).hexdigest()[:8]}"


def upload_path(name: str) -> str:
    """Return what is recorded as the place of an upload; no file has a path like it."""
    return f"upload:{name}"


def _slug(name: str) -> str:
    stem = os.path.splitext(name)[0]
    if not stem.isascii():
        stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    return _NOT_PLAIN.sub("-", stem.lower()).strip("-")[:48] or "document"


def source_at(
    path: str, size: int, declared: Declared, *, doc_id: str | None = None, origin: str = ""
) -> Source:
    """Return the source that a file is, under its own identity or under one that was declared."""
    return Source(
        path=path,
        name=displayed(os.path.basename(path)),
        doc_id=doc_id or doc_id_for(path),
        size=size,
        declared=declared,
        origin=origin,
    )


def walk(folder: str, pattern: PathPattern) -> Iterator[os.DirEntry[str]]:
    """Give what lies below a folder and matches, by name; links to folders are not entered.

    Everything but a folder is given, also what is no file.

    Raises:
        SourceUnreadable: a folder cannot be listed, so nobody knows what is missing.
    """
    # A list of what is open, and no recursion: folders may lie deeper than Python can call.
    opened = [(pattern.begin(), iter(listing(folder)))]
    while opened:
        states, entries = opened[-1]
        entry = next(entries, None)
        if entry is None:
            opened.pop()
        elif not _is_folder(entry):
            if pattern.accepts(states, entry.name):
                yield entry
        elif deeper := pattern.enter(states, entry.name):
            opened.append((deeper, iter(listing(entry.path))))


def listing(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder by name."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        raise SourceUnreadable(displayed(folder), advice="Check that it may be read.") from None


def displayed(path: str) -> str:
    """Return a path that can be printed and stored: a byte that is no text becomes a mark."""
    return path.encode("utf-8", "replace").decode()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Why a path names no file. Anything else means that nobody knows."""
_READ = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK")
)
"""Without waiting: a pipe that nobody writes to would keep us for ever."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_LINK_AT_ALL = getattr(os, "O_NOFOLLOW_ANY", 0)
_BY_NAME = {os.open, os.stat} <= os.supports_dir_fd
_PIECE = 1 << 20


class PathRefused(Exception):
    """Why a path of a manifest may not be used, in words that follow it."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a path inside the jail leads to; `path` has no links in it."""

    path: str
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Say whether it is a folder."""
        return stat.S_ISDIR(self.status.st_mode)


@dataclass(frozen=True, slots=True)
class Jail:
    """A folder that nothing a manifest names may lie outside of; `root` has no links in it."""

    root: str

    @classmethod
    def around(cls, folder: str) -> Jail:
        """Make a jail of a folder.

        Raises:
            SourceMissing: there is no such folder.
        """
        try:
            root = os.path.realpath(folder, strict=True)
        except (OSError, ValueError):
            raise SourceMissing(displayed(folder), advice="Check the path.") from None
        if not os.path.isdir(root):
            raise SourceMissing(displayed(folder), advice="Check the path.")
        return cls(root)

    def look(self, path: str) -> Admitted | None:
        """Return what a relative path leads to; None when there is nothing.

        Raises:
            PathRefused: it leads outside, or to something that is neither file nor folder.
            SourceUnreadable: nobody can tell what is there.
        """
        if fault := path_fault(path):
            raise PathRefused(fault)
        return self.admit(os.path.join(self.root, *parts_of(path)))

    def admit(self, place: str) -> Admitted | None:
        """Return what a place below the root leads to, as `look` does."""
        # Not strict: where a link leads is judged whether or not anything is there.
        real = os.path.realpath(place)
        if not self._holds(real):
            raise PathRefused("leads outside of the manifest's folder")
        try:
            status = os.lstat(real)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise SourceUnreadable(displayed(real), advice="Check that it may be read.") from None
        if stat.S_ISLNK(status.st_mode):
            # Where links lead in a circle, one of them is all that is left.
            return None
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise PathRefused("is neither a file nor a folder")
        return Admitted(real, status)

    def _holds(self, real: str) -> bool:
        return real == self.root or real.startswith(os.path.join(self.root, ""))


def read_file(path: str, name: str, *, jailed: bool, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; a jailed one is opened without following any link.

    Raises:
        SourceMissing: it is gone.
        SourceTooLarge: it has more than `max_bytes`; then nothing of it was read.
        SourceUnreadable: it cannot be opened, is no file, or became a link.
    """
    try:
        opened = _opened_in_jail(path) if jailed else _opened(path, os.stat, os.open)
        with os.fdopen(opened, "rb", buffering=0) as file:
            return _content(file.fileno(), name, max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceMissing(name) from None
    except _NotPlain:
        raise SourceUnreadable(name, advice="It is a link or no regular file.") from None
    except (OSError, ValueError):
        raise SourceUnreadable(name, advice="Check that it may be read.") from None


class _NotPlain(Exception):
    """It is no regular file, or one that stands behind a link where none may be."""


def _content(opened: int, name: str, max_bytes: int) -> bytes:
    size = os.fstat(opened).st_size
    if size > max_bytes:
        raise SourceTooLarge(name)
    # It may grow while it is read: one byte past the end is asked for to find out.
    pieces, left = [], max_bytes + 1
    wanted = size + 1
    while left > 0 and (piece := os.read(opened, min(wanted, left))):
        pieces.append(piece)
        left -= len(piece)
        wanted = wanted - len(piece) or _PIECE
    if left <= 0:
        raise SourceTooLarge(name)
    return b"".join(pieces)


def _opened(
    path: str,
    look: Callable[[str], os.stat_result],
    open_file: Callable[[str, int], int],
    flags: int = _READ,
) -> int:
    """Open a regular file. What is none is not opened, and looked at again once it is open."""
    if not stat.S_ISREG(look(path).st_mode):
        raise _NotPlain
    opened = open_file(path, flags)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _NotPlain
    return opened


def _opened_in_jail(path: str) -> int:
    try:
        if _NO_LINK_AT_ALL:
            return _opened(path, os.lstat, os.open, _READ | _NO_LINK_AT_ALL)
        if _BY_NAME and _NO_LINK:
            return _opened_by_name(path)
        return _opened_and_compared(path)
    except NotADirectoryError:
        raise _NotPlain from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _NotPlain from None
        raise


def _opened_by_name(path: str) -> int:
    """Open a file from the top of the file system down, each name within the folder before it."""
    top, *folders, last = path.split(os.sep)
    folder = os.open(top or os.sep, _FOLDER)
    try:
        for name in folders:
            below = os.open(name, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = below
        return _opened(
            last,
            lambda name: os.stat(name, dir_fd=folder, follow_symlinks=False),
            lambda name, flags: os.open(name, flags, dir_fd=folder),
            _READ | _NO_LINK,
        )
    finally:
        os.close(folder)


def _opened_and_compared(path: str) -> int:
    """Open a file where the system cannot refuse links, and see that none was on the way."""
    opened = _opened(path, os.lstat, os.open)
    unlinked = os.path.realpath(path) == path
    if not unlinked or not os.path.samestat(os.fstat(opened), os.lstat(path)):
        os.close(opened)
        raise _NotPlain
    return opened
