"""The files that the lines of a manifest name, and whether the lines agree about them."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from truespan.adapters.files.identity import source_at
from truespan.adapters.files.jail import Admitted, Jail, PathRefused
from truespan.adapters.files.walk import displayed, walk
from truespan.errors import ManifestInvalid
from truespan.ingest.manifest.fields import shown
from truespan.ingest.path_pattern import PathPattern, is_wild, parts_of
from truespan.model.found import Entry, Found, Root
from truespan.model.source import Source

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
