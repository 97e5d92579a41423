"""Files as sources: named by themselves, below folders, by pattern, or by a manifest."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from truespan.errors import ManifestInvalid, SourceMissing
from truespan.files.jail import (
    Admitted,
    Jail,
    PathRefused,
    displayed,
    listing,
    read_file,
    source_at,
    walk,
)
from truespan.ingest.manifest import ANY_DEPTH, PathPattern, is_wild, parts_of, shown
from truespan.types.source import Declared, Entry, Found, Root, Source

_Identity = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A file as one line names it."""

    entry: Entry
    source: Source

    def order(self) -> tuple[int, int, str]:
        return -(self.entry.declared.priority or 0), self.entry.line, self.source.path

    def says_the_same(self, other: _Claim) -> bool:
        return replace(self.entry, line=0, path="") == replace(other.entry, line=0, path="")


@dataclass(slots=True)
class ManifestLines:
    """One manifest as its lines are looked up, and what went wrong so far."""

    manifest: str
    is_supported: Callable[[str], bool]
    jail: Jail = field(init=False)
    claims: dict[_Identity, _Claim] = field(default_factory=dict)
    passed_over: set[str] = field(default_factory=set)
    unmatched: list[str] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A manifest that is a link speaks for the folder it lies in, not for where it leads.
        folder, name = os.path.split(self.manifest)
        self.jail = Jail.around(folder or os.curdir)
        self.manifest = os.path.join(self.jail.root, name)

    def expand(self, entries: Sequence[Entry]) -> Found:
        """Return the sources of all lines.

        Raises:
            ManifestInvalid: lines cannot be used, by themselves or beside one another.
        """
        for entry in entries:
            self._take(entry)
        self._check_ids()
        if self.bad:
            raise ManifestInvalid(displayed(os.path.basename(self.manifest)), sorted(self.bad))
        ordered = sorted(self.claims.values(), key=_Claim.order)
        root = Root(self.jail.root, len(ordered), origin=displayed(self.manifest))
        return Found(
            tuple(claim.source for claim in ordered),
            len(self.passed_over),
            tuple(self.unmatched),
            (root,),
        )

    def _take(self, entry: Entry) -> None:
        """Add the files of one line."""
        try:
            found = self._matches(entry)
        except PathRefused as refused:
            self.bad.append((entry.line, f"path {shown(entry.path)} {refused}"))
            return
        if found is None:
            self.unmatched.append(f"line {entry.line}: {displayed(entry.path)}")
            return
        if entry.doc_id is not None and len(found) > 1:
            self.bad.append((entry.line, f"one doc_id for {len(found)} files"))
            return
        for file in found:
            self._claim(entry, file)

    def _matches(self, entry: Entry) -> list[Admitted] | None:
        """Return the files that a path means; None when there is no file at all."""
        exact = self.jail.look(entry.path)
        if exact is not None:
            return None if exact.is_folder else [exact]
        if not is_wild(entry.path):
            return None
        parts = parts_of(entry.path)
        first = next(place for place, part in enumerate(parts) if is_wild(part))
        folder = self.jail.admit(os.path.join(self.jail.root, *parts[:first]))
        if folder is None or not folder.is_folder:
            return None
        below = walk(folder.path, PathPattern.of(parts[first:]))
        met = [entry for entry in below if entry.path != self.manifest]
        return self._admitted(met) if met else None

    def _admitted(self, met: Sequence[os.DirEntry[str]]) -> list[Admitted]:
        """Return the files among what a pattern met, each once, whatever links lead to it."""
        files: dict[str, Admitted] = {}
        for entry in met:
            admitted = self._admit(entry) if self.is_supported(entry.name) else None
            if admitted is None or admitted.is_folder:
                self.passed_over.add(entry.path)
            else:
                files[admitted.path] = admitted
        return list(files.values())

    def _admit(self, entry: os.DirEntry[str]) -> Admitted | None:
        try:
            return self.jail.admit(entry.path)
        except PathRefused as refused:
            name = displayed(os.path.relpath(entry.path, self.jail.root))
            raise PathRefused(f"matches {shown(name)}, which {refused}") from None

    def _claim(self, entry: Entry, file: Admitted) -> None:
        """Take a file for a line, unless an earlier line has it and says something else."""
        source = source_at(
            file.path,
            file.status.st_size,
            entry.declared,
            doc_id=entry.doc_id,
            origin=displayed(self.manifest),
        )
        claim = _Claim(entry, source)
        first = self.claims.setdefault(_identity(file), claim)
        if not claim.says_the_same(first):
            self.bad.append(
                (
                    entry.line,
                    f"names {shown(source.name)}, of which line {first.entry.line} says otherwise",
                )
            )

    def _check_ids(self) -> None:
        """Refuse an id for two files, also where two ids are one to some file systems."""
        takers: dict[str, _Claim] = {}
        for claim in sorted(self.claims.values(), key=lambda claim: claim.entry.line):
            first = takers.setdefault(claim.source.doc_id.casefold(), claim)
            if first is not claim:
                given = f"doc_id {shown(claim.source.doc_id)}"
                self.bad.append(
                    (
                        claim.entry.line,
                        f"{given} is that of another file in line {first.entry.line}",
                    )
                )


def _identity(file: Admitted) -> _Identity:
    """Return what two paths share when they lead to the same file.

    Where a file system does not tell large letters from small ones, or composed characters from
    others, a file has many spellings: then the file itself is the same, and its name nearly.
    """
    spelled = unicodedata.normalize("NFC", file.path).casefold()
    return file.status.st_dev, file.status.st_ino, spelled


MAX_BYTES = 512 << 20
MAX_MANIFEST_BYTES = 64 << 20


class FileSources:
    """Finds and reads files. Hidden ones and links to folders are left out, unless named."""

    def __init__(self, is_supported: Callable[[str], bool], *, max_bytes: int = MAX_BYTES) -> None:
        self._is_supported = is_supported
        self._max_bytes = max_bytes

    def find(self, paths: Sequence[str], declared: Declared) -> Found:
        """Return sources in a stable order, each file once, unread.

        In a folder or by pattern, files of other kinds are passed over and counted; a file named by
        itself is always taken, so that its refusal is reported. A pattern is what does not exist
        just so, and holds `*`, `?` or `[`.

        Raises:
            SourceMissing: a path names nothing; a pattern that matches nothing is reported instead.
            SourceUnreadable: a folder cannot be listed.
        """
        search = _Search(self._is_supported, declared)
        for given in paths:
            search.take(given)
        return search.found()

    def expand(self, manifest: str, entries: Sequence[Entry]) -> Found:
        """Return the sources that the lines of a manifest name, by priority, line and name.

        Nothing outside the manifest's folder is found, whatever a line says or a link does. The
        origin of each source is the manifest's path.

        Raises:
            ManifestInvalid: with every line that leads outside, names no regular file, or does not
                agree with another line.
            SourceMissing: the manifest's folder is not there.
            SourceUnreadable: a folder cannot be listed.
        """
        return ManifestLines(manifest, self._is_supported).expand(entries)

    def absolute(self, path: str) -> str:
        """Return a path, or a pattern, that means the same from anywhere."""
        # Not normalised: behind a link, `..` leads elsewhere than it seems to.
        return os.path.join(os.getcwd(), path)

    def read_manifest(self, path: str) -> bytes:
        """Return the bytes of a manifest; raises as `read` does."""
        return read_file(
            path, displayed(path), jailed=False, max_bytes=min(MAX_MANIFEST_BYTES, self._max_bytes)
        )

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source; of one that a manifest named, without following links.

        Raises:
            SourceMissing: it is gone.
            SourceTooLarge: it is larger than a document may be; nothing of it was read.
            SourceUnreadable: it cannot be opened, is no regular file, or became a link.
        """
        return read_file(
            source.path, source.name, jailed=bool(source.origin), max_bytes=self._max_bytes
        )

    def is_there(self, path: str) -> bool:
        """Say whether something still lies at the path that a document was recorded with.

        Where that cannot be told, it is taken to be there: what is not there is removed.
        """
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "?" in path and _is_shown_as(path)
        except ValueError:
            return False
        except OSError:
            return True
        return True


@dataclass(slots=True)
class _Search:
    """One look for sources, and what it met so far."""

    is_supported: Callable[[str], bool]
    declared: Declared
    sources: dict[str, Source] = field(default_factory=dict)
    passed_over: set[str] = field(default_factory=set)
    unmatched: list[str] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)

    def take(self, given: str) -> None:
        """Add what one path names."""
        real = _real(given)
        if real is None and is_wild(given):
            self._take_pattern(given)
        elif real is None:
            raise SourceMissing(displayed(given), advice="Check the path.")
        elif os.path.isdir(real):
            self._take_below(real)
        else:
            self._add(real)

    def found(self) -> Found:
        """Return all that was met."""
        return Found(
            tuple(self.sources.values()),
            len(self.passed_over),
            tuple(self.unmatched),
            tuple(self.roots),
        )

    def _take_pattern(self, given: str) -> None:
        parts = Path(given).parts
        first = next(place for place, part in enumerate(parts) if is_wild(part))
        folder = os.path.join(*parts[:first]) if first else os.curdir
        real = _real(folder)
        if real is None or not os.path.isdir(real):
            raise SourceMissing(displayed(given), advice="Check the path.")
        if not self._take_below(real, parts[first:]):
            self.unmatched.append(displayed(given))

    def _take_below(self, folder: str, pattern: Sequence[str] = ()) -> int:
        """Add the files below a folder; say how many were taken or passed over."""
        taken = passed_over = 0
        for entry in walk(folder, PathPattern.of(pattern or [ANY_DEPTH])):
            if self.is_supported(entry.name) and _is_file(entry):
                self._add(entry.path)
                taken += 1
            else:
                self.passed_over.add(entry.path)
                passed_over += 1
        self.roots.append(Root(folder, taken, "/".join(pattern)))
        return taken + passed_over

    def _add(self, path: str) -> None:
        if path in self.sources:
            return
        try:
            size = os.stat(path).st_size
        except OSError:
            # It went away since it was listed. Reading it will tell.
            size = 0
        self.sources[path] = source_at(path, size, self.declared)


def _real(given: str) -> str | None:
    try:
        return os.path.realpath(Path(given), strict=True)
    except (OSError, ValueError):
        return None


def _is_shown_as(path: str) -> bool:
    """Say whether something lies at a path in which marks stand for bytes that are no text."""
    first, *parts = Path(path).parts
    places = [first]
    for part in parts:
        names = {place: [part] for place in places}
        if "?" in part:
            names = {place: [one.name for one in listing(place)] for place in places}
        joined = [os.path.join(place, name) for place in places for name in names[place]]
        places = [one for one in joined if displayed(os.path.basename(one)) == part]
        places = [one for one in places if os.path.lexists(one)]
    return bool(places)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        # A link that leads in a circle, for one.
        return False
