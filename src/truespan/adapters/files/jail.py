"""The jail for what a manifest names, and reading files so that nothing can slip in between.

A path is judged where it really leads. What was judged is remembered as a path without any link in
it, and it is opened name by name without following one. Whoever puts a link there after the check
gains nothing. A hard link is the file itself, and a mounted folder belongs to where it is mounted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from truespan.adapters.files.walk import displayed
from truespan.errors import SourceMissing, SourceTooLarge, SourceUnreadable
from truespan.ingest.manifest.fields import path_fault
from truespan.ingest.path_pattern import parts_of

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
