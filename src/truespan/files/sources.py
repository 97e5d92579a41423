"""Files as sources: by path, below folders, by pattern, or from a manifest."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.files.jail import (
    Jail,
    JailedPath,
    PathRefused,
    hash_file,
    holder_of,
    list_folder,
    make_source,
    read_file,
    read_head,
    walk,
)
from truespan.ingest.manifest import (
    ANY_DEPTH,
    MAX_LINE_LENGTH,
    SIDECAR_ENDINGS,
    PathPattern,
    first_entry,
    has_wildcard,
    quote,
    split_path,
)
from truespan.types.source import (
    UNDECLARED,
    DocumentOptions,
    Entry,
    FoundSources,
    Root,
    Source,
    display_path,
    is_page,
    to_utf8,
)

IsSupported = Callable[..., bool]
"""Receives a name and the pattern that found it; see `parsing.supported`."""


def _with_ocr(is_supported: IsSupported, declared: DocumentOptions) -> IsSupported:
    return is_supported if declared.ocr is None else partial(is_supported, ocr=declared.ocr)


class _Claim(Struct, frozen=True):
    entry: Entry
    source: Source

    def agrees_with(self, other: _Claim) -> bool:
        return replace(self.entry, line=0, path="") == replace(other.entry, line=0, path="")


@dataclass(slots=True)
class _ManifestSearch:
    manifest: str
    is_supported: IsSupported
    jail: Jail = field(init=False)
    claims: dict[tuple[int, int, str], _Claim] = field(default_factory=dict)
    unsupported: set[str] = field(default_factory=set)
    unmatched: list[str] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # For a manifest that is a symbolic link, the folder of the link counts, not its target.
        folder, name = os.path.split(self.manifest)
        self.jail = Jail.around(folder or os.curdir)
        self.manifest = os.path.join(self.jail.root, name)

    def expand(self, entries: Sequence[Entry]) -> FoundSources:
        """Return the sources of all lines; raises LinesInvalid with every line that is wrong."""
        for entry in entries:
            self._add(entry)
        # Two files must not have the same id, nor ids that differ only in case.
        owners: dict[str, _Claim] = {}
        for claim in sorted(self.claims.values(), key=lambda claim: claim.entry.line):
            first = owners.setdefault(claim.source.doc_id.casefold(), claim)
            if first is not claim:
                doc_id, line = quote(claim.source.doc_id), first.entry.line
                fault = f"doc_id {doc_id} belongs to another file in line {line}"
                self.bad.append((claim.entry.line, fault))
        if self.bad:
            raise errors.LinesInvalid(
                "manifest_invalid", display_path(os.path.basename(self.manifest)), sorted(self.bad)
            )
        by_line = sorted(
            self.claims.values(), key=lambda claim: (claim.entry.line, claim.source.path)
        )
        ordered = sorted(by_line, key=lambda claim: -(claim.entry.declared.priority or 0))
        root = Root(self.jail.root, len(ordered), origin=display_path(self.manifest))
        return FoundSources(
            tuple(claim.source for claim in ordered),
            len(self.unsupported),
            tuple(self.unmatched),
            (root,),
        )

    def _add(self, entry: Entry) -> None:
        try:
            found = self._matches(entry)
        except PathRefused as refused:
            self.bad.append((entry.line, f"path {quote(entry.path)} {refused}"))
            return
        if found is None:
            self.unmatched.append(f"line {entry.line}: {display_path(entry.path)}")
            return
        if entry.doc_id is not None and len(found) > 1:
            self.bad.append((entry.line, f"one doc_id for {len(found)} files"))
            return
        for file in found:
            self._claim(entry, file)

    def _matches(self, entry: Entry) -> list[JailedPath] | None:
        exact = self.jail.look(entry.path)
        if exact is not None:
            return None if exact.is_folder else [exact]
        if not has_wildcard(entry.path):
            return None
        parts = split_path(entry.path)
        first = next(place for place, part in enumerate(parts) if has_wildcard(part))
        folder = self.jail.admit(os.path.join(self.jail.root, *parts[:first]))
        if folder is None or not folder.is_folder:
            return None
        matches = [
            match
            for match, _ in walk(folder.path, PathPattern.of(parts[first:]))
            if match.path != self.manifest and not match.name.endswith(SIDECAR_ENDINGS)
        ]
        # Each file counts once, however many links lead to it.
        files: dict[str, JailedPath] = {}
        for match in matches:
            wanted = _with_ocr(self.is_supported, entry.declared)(match.name, parts[-1])
            admitted = self._admit(match) if wanted else None
            if admitted is None or admitted.is_folder:
                self.unsupported.add(match.path)
            else:
                files[admitted.path] = admitted
        return list(files.values()) if matches else None

    def _admit(self, entry: os.DirEntry[str]) -> JailedPath | None:
        try:
            return self.jail.admit(entry.path)
        except PathRefused as refused:
            name = display_path(os.path.relpath(entry.path, self.jail.root))
            raise PathRefused(f"matches {quote(name)}, which {refused}") from None

    def _claim(self, entry: Entry, file: JailedPath) -> None:
        """Assign a file to a line; a line that names it with other fields is a fault."""
        source = make_source(
            file.path,
            file.status.st_size,
            entry.declared,
            root=self.jail.root,
            doc_id=entry.doc_id,
            origin=display_path(self.manifest),
        )
        claim = _Claim(entry, source)
        # Two paths are one file if device and inode are equal, and their names too, apart from case
        # and composition, which a file system may ignore.
        spelling = unicodedata.normalize("NFC", file.path).casefold()
        identity = file.status.st_dev, file.status.st_ino, spelling
        first = self.claims.setdefault(identity, claim)
        if not claim.agrees_with(first):
            fault = (
                f"names {quote(source.name)}, which line {first.entry.line} declares differently"
            )
            self.bad.append((entry.line, fault))


MAX_BYTES = 512 << 20
MAX_MANIFEST_BYTES = 64 << 20
MAX_SIDECAR_BYTES = 1 << 20
_MANIFEST_ENDINGS = (".jsonl", ".ndjson")


class FileSources:
    """Finds and reads files. Hidden files and links to folders are skipped unless named."""

    def __init__(
        self,
        is_supported: IsSupported,
        may_hold_members: Callable[[str], bool] = lambda _name: False,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._is_supported = is_supported
        self._may_hold_members = may_hold_members
        self._max_bytes = max_bytes

    def find(
        self,
        paths: Sequence[str],
        declared: DocumentOptions,
        *,
        within: Sequence[str] | None = None,
    ) -> FoundSources:
        """Return sources in a stable order, each file once, unread.

        In folders and patterns, files of unsupported formats are skipped and counted. A file named
        directly is always a source, so that its refusal is reported. A path that does not exist and
        contains `*`, `?` or `[` is a pattern; a pattern without a match is reported and is no
        error.

        Args:
            paths: Files, folders and patterns.
            declared: Options of all sources.
            within: Folders that files must be in, also after following links. Other files are
                refused if named, and skipped in folders.
        """
        is_supported = _with_ocr(self._is_supported, declared)
        search = _PathSearch(is_supported, self._may_hold_members, declared, within)
        for path in paths:
            search.add(path)
        return FoundSources(
            tuple(search.sources.values()),
            len(search.unsupported),
            tuple(search.unmatched),
            tuple(search.roots),
        )

    def expand(self, manifest: str, entries: Sequence[Entry]) -> FoundSources:
        """Return the sources that the lines of a manifest name, by priority, line and name.

        Files outside its folder are never found, even if lines or links lead there.
        """
        return _ManifestSearch(manifest, self._is_supported).expand(entries)

    def absolute(self, path: str) -> str:
        """Return an absolute path or pattern."""
        # Not normalised: after a symbolic link, `..` does not lead back.
        return os.path.join(os.getcwd(), path)

    def folder_of(self, path: str) -> str:
        """Return the folder of the file at a recorded path, or of the file that contains it."""
        return os.path.dirname(holder_of(path, self._may_hold_members) or path)

    def read_manifest(self, path: str) -> bytes:
        return read_file(
            path,
            display_path(path),
            jailed=False,
            max_bytes=min(MAX_MANIFEST_BYTES, self._max_bytes),
        )

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source; links are not followed for a confined source."""
        jailed = source.confined or bool(source.origin)
        return read_file(source.path, source.name, jailed=jailed, max_bytes=self._max_bytes)

    def locate(self, path: str) -> Source:
        """Return the file at the recorded path of a document, or the file that contains it."""
        if os.path.lexists(path):
            return make_source(path, 0, UNDECLARED, root=os.path.dirname(path), confined=True)
        holder = holder_of(path, self._may_hold_members)
        if holder is not None:
            root, member = os.path.dirname(holder), path[len(holder) + 1 :]
            return make_source(holder, 0, UNDECLARED, root=root, confined=True, member=member)
        name = display_path(os.path.basename(path))
        raise (
            errors.SourceRefused("source_unreadable", name)
            if self.exists(path)
            else errors.SourceRefused("source_missing", name)
        )

    def digest(self, source: Source) -> str:
        """Return the SHA-256 of a file, without following links; raises SourceRefused."""
        return hash_file(source.path, source.name, max_bytes=self._max_bytes)

    def read_sidecar(self, source: Source) -> tuple[str, bytes] | None:
        """Return name and bytes of the sidecar of a source; None without one.

        Its name is that of the source with one of `SIDECAR_ENDINGS`.
        """
        endings = [ending for ending in SIDECAR_ENDINGS if os.path.lexists(source.path + ending)]
        if not endings:
            return None
        names = [f"{source.name}{ending}" for ending in endings]
        if len(names) > 1:
            raise errors.SourceRefused(
                "sidecar_invalid",
                names[0],
                reason=f"there is {names[1]} too; keep only one of them",
            )
        content = read_file(
            f"{source.path}{endings[0]}",
            names[0],
            jailed=source.confined or bool(source.origin),
            max_bytes=MAX_SIDECAR_BYTES,
        )
        return names[0], content

    def exists(self, path: str) -> bool:
        """Return whether a file still exists at the recorded path of a document.

        True if that cannot be determined, because documents of missing files are removed.
        """
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            # A member of a file that was not opened may still exist.
            inside = holder_of(path, self._may_hold_members)
            return inside is not None or ("?" in path and _exists_as_recorded(path))
        except ValueError:
            return False
        except OSError:
            return True
        return True


class _PathSearch(Struct):
    is_supported: IsSupported
    may_hold_members: Callable[[str], bool]
    declared: DocumentOptions
    within: Sequence[str] | None = None
    """Folders that files must be in; None allows all folders."""
    jails: tuple[Jail, ...] | None = None
    sources: dict[str, Source] = msgspec.field(default_factory=dict)
    unsupported: set[str] = msgspec.field(default_factory=set)
    unmatched: list[str] = msgspec.field(default_factory=list)
    roots: list[Root] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.within is not None:
            self.jails = tuple(Jail.around(folder) for folder in self.within)

    def add(self, path: str) -> None:
        real = self._resolve(path)
        if real is not None:
            if os.path.isdir(real):
                self._add_folder(real)
            else:
                self._add_file(real, os.path.dirname(real))
            return
        holder = holder_of(path, self.may_hold_members)
        if holder is not None and (real := self._resolve(holder)) is not None:
            self._add_file(real, os.path.dirname(real), path[len(holder) + 1 :])
            return
        parts = Path(path).parts
        first = next((place for place, part in enumerate(parts) if has_wildcard(part)), None)
        if first is not None:
            real = self._resolve(os.path.join(*parts[:first]) if first else os.curdir)
        if first is None or real is None or not os.path.isdir(real):
            raise errors.SourceRefused("source_missing", self._show(path), advice="Check the path.")
        if not self._add_folder(real, parts[first:]):
            self.unmatched.append(self._show(path))

    def _show(self, path: str) -> str:
        """Return a path for messages, without the allowed folder, which callers must not learn."""
        for folder in self.within or ():
            path = path.removeprefix(os.path.join(folder, ""))
        return display_path(path)

    def _resolve(self, path: str) -> str | None:
        """Return a path without links; None if nothing exists there. Raises SourceRefused."""
        if self.jails is None:
            return _resolve(path)
        for jail in self.jails:
            with suppress(PathRefused):
                found = jail.admit(path)
                return None if found is None else found.path
        raise errors.SourceRefused("source_outside", self._show(path))

    def _add_folder(self, folder: str, pattern: Sequence[str] = ()) -> int:
        added = skipped = 0
        last = pattern[-1] if pattern else ""
        for entry, sidecars in walk(folder, PathPattern.of(pattern or [ANY_DEPTH])):
            if sidecars and entry.name.endswith(SIDECAR_ENDINGS):
                continue
            file = None
            # `suppress` would cost more than the rest.
            try:
                if self.is_supported(entry.name, last) and entry.is_file():
                    file = entry.path if self.jails is None else self._resolve(entry.path)
            except OSError:
                # There may be a circle of links.
                file = None
            except errors.SourceRefused as refused:
                refused.raise_unless("source_outside")
                file = None
            if file is not None and not _is_manifest(file, jailed=self.jails is not None):
                # The target of a link has its sidecar elsewhere.
                alone = not sidecars and file == entry.path
                self._add_file(file, folder, no_sidecar=alone)
                added += 1
            else:
                self.unsupported.add(entry.path)
                skipped += 1
        self.roots.append(Root(folder, added, "/".join(pattern)))
        return added + skipped

    def _add_file(
        self, path: str, root: str, member: str = "", *, no_sidecar: bool = False
    ) -> None:
        key = f"{path}/{member}" if member else path
        if key in self.sources or path in self.sources:
            return
        try:
            size = os.stat(path).st_size
        except OSError:
            # The file was deleted since it was listed; reading it will report that.
            size = 0
        confined = self.jails is not None
        self.sources[key] = make_source(
            path,
            size,
            self.declared,
            root=root,
            confined=confined,
            member=member,
            no_sidecar=no_sidecar,
        )


def _is_manifest(path: str, *, jailed: bool) -> bool:
    """Return whether a file in a folder is a manifest.

    The first line of a manifest has only fields of manifests, and names a page or an existing file.
    """
    if not path.lower().endswith(_MANIFEST_ENDINGS):
        return False
    entry = first_entry(read_head(path, MAX_LINE_LENGTH, jailed=jailed))
    if entry is None:
        return False
    named = os.path.join(os.path.dirname(path), entry.path)
    return is_page(entry.path) or has_wildcard(entry.path) or os.path.lexists(named)


def _resolve(path: str) -> str | None:
    try:
        return os.path.realpath(Path(path), strict=True)
    except (OSError, ValueError):
        return None


def _exists_as_recorded(path: str) -> bool:
    """Return whether a file exists at a path in which `?` replaces bytes that are not UTF-8."""
    first, *parts = Path(path).parts
    folders = [first]
    for part in parts:
        names = {folder: [part] for folder in folders}
        if "?" in part:
            names = {folder: [entry.name for entry in list_folder(folder)] for folder in folders}
        folders = [
            joined
            for folder in folders
            for name in names[folder]
            if to_utf8(name) == part and os.path.lexists(joined := os.path.join(folder, name))
        ]
    return bool(folders)
