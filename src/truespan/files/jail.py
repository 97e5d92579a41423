"""Confining manifests to their folder, and reading files without a race between check and open.

A path is checked after its links are resolved. The checked path has no links, and it is opened name
by name without following links, so a link that is created after the check has no effect. A hard
link is the file itself, and a mounted folder belongs to its mount point.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import file_digest, sha256
from typing import TypeVar

from msgspec import Struct

from truespan.errors import SourceRefused, resource_error
from truespan.ingest.manifest import SIDECAR_ENDINGS, PathPattern, path_fault, split_path
from truespan.types.ids import slug
from truespan.types.source import UPLOAD, DocumentOptions, Source, display_path, short_path

T = TypeVar("T")
_HAS_SLASHES = os.sep == "/"


def _doc_id(path: str, name: str) -> str:
    data = path.encode() if path.isascii() else os.fsencode(path)
    return f"{slug(name)}-{sha256(data).hexdigest()[:8]}"


def upload_doc_id(name: str) -> str:
    """Return the id of an upload, which depends on its name only."""
    return f"{slug(name)}-{sha256(upload_path(name).encode()).hexdigest()[:8]}"


def upload_path(name: str) -> str:
    """Return the recorded path of an upload; no file can have it."""
    return UPLOAD + name


def make_source(
    path: str,
    size: int,
    declared: DocumentOptions,
    *,
    root: str,
    doc_id: str | None = None,
    origin: str = "",
    confined: bool = False,
    member: str = "",
    no_sidecar: bool = False,
) -> Source:
    """Return a file below a folder as a source.

    The path to show begins with the name of that folder and hides where the folder is.
    """
    below = root + os.sep
    if _HAS_SLASHES and path.startswith(below):
        # The same as below, and faster: it is done for every file of a folder.
        name, top, inside = path.rpartition("/")[2], root.rpartition("/")[2], path[len(below) :]
        shown_path = display_path(f"{top}/{inside}" if top else inside)
    else:
        name, inside = os.path.basename(path), os.path.relpath(path, root)
        # A link may lead to a file elsewhere.
        folders = 1 if inside.startswith(os.pardir + os.sep) else inside.count(os.sep) + 1
        shown_path = short_path(path, folders)
    return Source(
        path=path,
        name=display_path(name),
        doc_id=doc_id or _doc_id(path, name),
        size=size,
        declared=declared,
        origin=origin,
        shown_path=shown_path,
        confined=confined,
        member=member,
        no_sidecar=no_sidecar,
    )


def walk(folder: str, pattern: PathPattern) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Yield the matching entries below a folder, by name, and whether each has sidecars beside it.

    Every entry except a folder is yielded, even if it is not a regular file. Links to folders are
    not entered.
    """
    # A stack instead of recursion: folders may be nested deeper than Python can call.
    opened = [(pattern.begin(), *_list_with_sidecars(folder))]
    while opened:
        states, entries, sidecars = opened[-1]
        entry = next(entries, None)
        if entry is None:
            opened.pop()
        elif not _is_folder(entry):
            if pattern.accepts(states, entry.name):
                yield entry, sidecars
        elif deeper := pattern.enter(states, entry.name):
            opened.append((deeper, *_list_with_sidecars(entry.path)))


def _list_with_sidecars(folder: str) -> tuple[Iterator[os.DirEntry[str]], bool]:
    entries = list_folder(folder)
    # The file system may ignore case.
    names = [entry.name.casefold() for entry in entries]
    return iter(entries), any(name.endswith(SIDECAR_ENDINGS) for name in names)


def list_folder(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        refusal = SourceRefused(
            "source_unreadable", short_path(folder), advice="Check that it may be read."
        )
        raise resource_error(error) or refusal from None


def holder_of(path: str, may_hold: Callable[[str], bool]) -> str | None:
    """Return the file above a missing path, if it may contain documents; else None."""
    above = os.path.dirname(path)
    while above and above != os.path.dirname(above):
        if os.path.lexists(above):
            is_holder = may_hold(os.path.basename(above)) and os.path.isfile(above)
            return above if is_holder else None
        above = os.path.dirname(above)
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Error numbers of a path that names no file; after others its existence is unknown."""
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""Flags for reading; without O_NONBLOCK, opening a pipe would wait for a writer."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_NO_LINK = os.O_NOFOLLOW
_NO_LINK_AT_ALL = getattr(os, "O_NOFOLLOW_ANY", 0)
_PIECE = 1 << 20


class PathRefused(Exception):
    """A path of a manifest that cannot be used; the message follows the path."""


class JailedPath(Struct, frozen=True):
    """A file or folder inside the jail; `path` has no links."""

    path: str
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


class Jail(Struct, frozen=True):
    """A folder that the paths of a manifest must not leave; `root` has no links."""

    root: str

    @classmethod
    def around(cls, folder: str) -> Jail:
        """Return the jail of a folder; raises SourceRefused if the folder does not exist."""
        with suppress(OSError, ValueError):
            root = os.path.realpath(folder, strict=True)
            if os.path.isdir(root):
                return cls(root)
        raise SourceRefused("source_missing", display_path(folder), advice="Check the path.")

    def look(self, path: str) -> JailedPath | None:
        """Return the file or folder at a relative path; None if there is none."""
        if fault := path_fault(path):
            raise PathRefused(fault)
        return self.admit(os.path.join(self.root, *split_path(path)))

    def admit(self, place: str) -> JailedPath | None:
        """Return the file or folder at a path below the root, as `look` does."""
        try:
            # Not strict: the target of a link is checked whether or not it exists.
            real = os.path.realpath(place)
        except ValueError:
            # A name that no file can have, such as one with a NUL character.
            return None
        if real != self.root and not real.startswith(os.path.join(self.root, "")):
            raise PathRefused("leads outside of the manifest's folder")
        try:
            status = os.lstat(real)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            shown = display_path(os.path.relpath(real, self.root))
            refusal = SourceRefused("source_unreadable", shown, advice="Check that it may be read.")
            raise resource_error(error) or refusal from None
        if stat.S_ISLNK(status.st_mode):
            # The links form a circle.
            return None
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise PathRefused("is neither a file nor a folder")
        return JailedPath(real, status)


def read_file(path: str, name: str, *, jailed: bool, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; with `jailed`, without following any link."""
    return _with_file(
        path, name, lambda opened, size: _read(opened, size, name, max_bytes), jailed=jailed
    )


def hash_file(path: str, name: str, *, max_bytes: int) -> str:
    """Return the SHA-256 of a regular file, read piece by piece without following any link.

    Raises the errors of `read_file`.
    """

    def digest(opened: int, size: int) -> str:
        if size > max_bytes:
            raise _too_large(name, max_bytes)
        with os.fdopen(opened, "rb", buffering=0, closefd=False) as file:
            return file_digest(file, "sha256").hexdigest()

    return _with_file(path, name, digest, jailed=True)


def _with_file(path: str, name: str, use: Callable[[int, int], T], *, jailed: bool) -> T:
    """Return the result of `use` for the descriptor and the size of an opened file."""
    try:
        opened, status = _open_in_jail(path) if jailed else _open(path, os.stat, os.open)
        try:
            return use(opened, status.st_size)
        finally:
            os.close(opened)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceRefused("source_missing", name) from None
    except _NotPlain:
        raise SourceRefused(
            "source_unreadable", name, advice="It is a link or not a regular file."
        ) from None
    except (OSError, ValueError) as error:
        refusal = SourceRefused("source_unreadable", name, advice="Check that it may be read.")
        raise resource_error(error) or refusal from None


def read_head(path: str, length: int, *, jailed: bool) -> bytes:
    """Return the first bytes of a regular file; empty if it cannot be read."""
    try:
        opened, _ = _open_in_jail(path) if jailed else _open(path, os.stat, os.open)
        with os.fdopen(opened, "rb", buffering=0) as file:
            return file.read(length)
    except (OSError, ValueError, _NotPlain) as error:
        if isinstance(error, OSError) and (known := resource_error(error)):
            raise known from None
        return b""


class _NotPlain(Exception):
    """Not a regular file, or a forbidden link."""


def _read(opened: int, size: int, name: str, max_bytes: int) -> bytes:
    if size > max_bytes:
        raise _too_large(name, max_bytes)
    # The file may grow while it is read, so one byte past the end is requested.
    content = os.read(opened, size + 1)
    if len(content) == size:
        return content
    pieces, left = [content], max_bytes + 1 - len(content)
    wanted = size + 1 - len(content) or _PIECE
    while content and left > 0 and (piece := os.read(opened, min(wanted, left))):
        pieces.append(piece)
        left -= len(piece)
        wanted = wanted - len(piece) or _PIECE
    if left <= 0:
        raise _too_large(name, max_bytes)
    return b"".join(pieces)


def _too_large(name: str, max_bytes: int) -> SourceRefused:
    most = f"At most {max_bytes >> 20} MiB are read."
    return SourceRefused("source_too_large", name, advice=f"{most} Split it into smaller files.")


def _open(
    path: str,
    look: Callable[[str], os.stat_result],
    open_file: Callable[[str, int], int],
    flags: int = _READ,
) -> tuple[int, os.stat_result]:
    """Open a regular file, checked before and after opening; return descriptor and status."""
    if not stat.S_ISREG(look(path).st_mode):
        raise _NotPlain
    opened = open_file(path, flags)
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise _NotPlain
    return opened, status


def _open_in_jail(path: str) -> tuple[int, os.stat_result]:
    try:
        if _NO_LINK_AT_ALL:
            return _open(path, os.lstat, os.open, _READ | _NO_LINK_AT_ALL)
        return _open_by_name(path)
    except NotADirectoryError:
        raise _NotPlain from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _NotPlain from None
        raise


def _open_by_name(path: str) -> tuple[int, os.stat_result]:
    """Open a file from the root of the file system down, each name in the folder before it."""
    top, *folders, last = path.split(os.sep)
    folder = os.open(top or os.sep, _FOLDER)
    try:
        for name in folders:
            below = os.open(name, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = below
        return _open(
            last,
            lambda name: os.stat(name, dir_fd=folder, follow_symlinks=False),
            lambda name, flags: os.open(name, flags, dir_fd=folder),
            _READ | _NO_LINK,
        )
    finally:
        os.close(folder)
