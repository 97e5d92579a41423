"""Files and folders as sources."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from truespan.errors import SourceMissing, SourceUnreadable
from truespan.model.source import Declared, Source

_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


class FileSources:
    """Finds files below the given paths. Hidden ones and links to folders are left out."""

    def __init__(self, is_supported: Callable[[str], bool]) -> None:
        self._is_supported = is_supported

    def find(self, paths: Sequence[str], declared: Declared) -> list[Source]:
        """Return sources in a stable order, each file once, unread.

        In a folder, files of other kinds are passed over; a file named by itself is always taken,
        so that its refusal is reported.
        """
        found: dict[str, Source] = {}
        for given in paths:
            for path, size in self._expand(given):
                found.setdefault(path, _source(path, size, declared))
        return list(found.values())

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source."""
        try:
            with open(source.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise SourceMissing(source.name) from None
        except OSError:
            raise SourceUnreadable(source.name, advice="Check that it may be read.") from None

    def _expand(self, given: str) -> Iterator[tuple[str, int]]:
        path = Path(given)
        try:
            real = os.path.realpath(path, strict=True)
        except (OSError, ValueError):
            raise SourceMissing(given, advice="Check the path.") from None
        if os.path.isdir(real):
            yield from self._walk(real)
        else:
            yield real, os.stat(real).st_size

    def _walk(self, folder: str) -> Iterator[tuple[str, int]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            raise SourceUnreadable(folder, advice="Check that it may be read.") from None
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(entry.path)
            elif self._is_supported(entry.name) and entry.is_file():
                yield entry.path, entry.stat().st_size


def doc_id_for(path: str) -> str:
    """Return the identity of a file: its name made plain, and a digest of where it lies.

    The same file gives the same id however it was reached; equal names in two folders differ.
    """
    stem = os.path.splitext(os.path.basename(path))[0]
    if not stem.isascii():
        stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    slug = _NOT_PLAIN.sub("-", stem.lower()).strip("-")[:48] or "document"
    return f"{slug}-{sha256(os.fsencode(path)).hexdigest()[:8]}"


def _source(path: str, size: int, declared: Declared) -> Source:
    name = os.path.basename(path)
    shown = name.encode("utf-8", "replace").decode()
    return Source(path=path, name=shown, doc_id=doc_id_for(path), size=size, declared=declared)
