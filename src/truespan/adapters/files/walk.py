"""Walking folders: the files that a pattern means, in one order on every machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from truespan.errors import SourceUnreadable
from truespan.ingest.path_pattern import PathPattern


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
