"""Files with several documents: each member becomes a source.

Files are opened twice: once to list their members, when sources are found, and once to read them.
While members are read, the bytes of one file and a part of its members stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.core.fields import FieldError, check_fields
from truespan.ingest.manifest import parse_sidecar
from truespan.ingest.report import IngestDeps
from truespan.parsing.detect import format_by_name, may_hold_members
from truespan.types.ids import member_doc_id
from truespan.types.source import (
    FIELD_CHECKS,
    DocumentOptions,
    FoundSources,
    Member,
    Refusal,
    Source,
    to_utf8,
)

_MAX_MISSING = 8
"""Maximum number of searches of a file for members that are no longer in it."""
_STATED = frozenset({"title", "language", "version", "tags", "source_url", "metadata"})
"""Labels that a file may state for its members."""
_STATED_FIRST = ("title", "source_url", "audience")
"""Labels of a member that take precedence over declared labels of the whole file."""


ReadSidecar: TypeAlias = Callable[[Source], tuple[str, bytes] | None]


def declared_with_sidecar(read_sidecar: ReadSidecar, source: Source) -> DocumentOptions:
    """Return the declared options of a file, completed by its sidecar; members have no sidecar."""
    sidecar = None if source.upload or source.member else read_sidecar(source)
    if sidecar is None:
        return source.declared
    try:
        return source.declared.over(parse_sidecar(*sidecar))
    except FieldError as error:
        raise errors.SourceRefused(
            "sidecar_invalid", sidecar[0], reason=f"metadata {error}, with those declared"
        ) from None


def expand_members(deps: IngestDeps, found: FoundSources) -> FoundSources:
    """Return sources with the members of each file that holds several documents in its place."""
    # A file that cannot be opened stays, with the reason, so that the run reports it.
    sources: list[Source] = []
    opened: list[str] = []
    unsupported = found.unsupported
    for source in found:
        if not may_hold_members(source.name):
            sources.append(source)
            continue
        try:
            members, skipped = _open(deps, source)
        except errors.SourceRefused as refused:
            if refused.code == "sidecar_invalid":
                # Reading the source raises the same error.
                sources.append(source)
                continue
            name = source.member.rpartition("/")[2] or source.name
            refusal = Refusal(refused.code, refused.own_advice)
            sources.append(replace(source, name=name, refusal=refusal))
            continue
        sources.extend(members)
        unsupported += skipped
        if not source.member:
            opened.append(to_utf8(source.path))
    return replace(found, sources=tuple(sources), unsupported=unsupported, opened=tuple(opened))


def _open(deps: IngestDeps, source: Source) -> tuple[list[Source], int]:
    """Return the members of a file, or the named member, and the number of unsupported ones."""
    # A file without members is returned itself.
    declared = declared_with_sidecar(deps.sources.read_sidecar, replace(source, member=""))
    if declared.fields is None and format_by_name(source.name).has_records:
        if source.member:
            advice = "It is a record: ingest its file, with the fields that make it a document."
            raise errors.SourceRefused("source_missing", source.name, advice=advice)
        return [source], 0
    found = deps.parser.members(source.name, deps.read(source), declared)
    names = [member.name for member in found.members if member.name]
    ids = {"": source.doc_id, **{each: member_doc_id(source.doc_id, each) for each in names}}
    members = [
        _make_source(source, declared, member, ids)
        for member in found.members
        if source.member in ("", member.name)
    ]
    if source.member and not members:
        raise errors.SourceRefused(
            "source_missing", source.name, advice="The file has no such member."
        )
    if not found.members:
        return [source], 0
    return members, found.unsupported


def _make_source(
    source: Source, declared: DocumentOptions, member: Member, ids: Mapping[str, str]
) -> Source:
    """Return a member as a source, with checked labels: the parser process is not trusted."""
    refusal = member.refusal
    stated: dict[str, Any] = {k: v for k, v in member.declared.items() if k in _STATED}
    if declared.fields is not None and declared.fields.audience is not None:
        # Only a record may name its audience, and only by the field that the caller chose.
        stated |= {k: v for k, v in member.declared.items() if k == "audience"}
    if member.parent is not None and member.parent in ids:
        stated["metadata"] = {**stated.get("metadata", {}), "parent": ids[member.parent]}
    checked, faults = check_fields(stated, FIELD_CHECKS)
    own = DocumentOptions(**checked)
    try:
        joined = declared.over(own)
    except FieldError as error:
        joined, faults = declared, [*faults, f"metadata {error}, with those declared"]
    first = {name: value for name in _STATED_FIRST if (value := getattr(own, name)) is not None}
    if faults and refusal is None:
        where = f"In line {member.line} the" if member.line else "The"
        refusal = Refusal("record_invalid", f"{where} {'; the '.join(faults)}.")
    if not member.name:
        # The file itself: declared values take precedence over stated ones.
        return replace(source, declared=joined, refusal=refusal)
    return replace(
        source,
        name=member.name.rpartition("/")[2],
        doc_id=ids[member.name],
        size=member.size,
        declared=replace(joined, **first),
        shown_path=f"{source.shown_path}/{member.name}",
        member=member.name,
        refusal=refusal,
    )


class ReadSource(NamedTuple):
    """The bytes of a source, and the name to parse it by."""

    name: str
    content: bytes
    line: int = 0
    """Line of the file in which a record without an id begins, counted from 1."""


class MemberReader:
    """Reads sources; members of a file are read in parts."""

    def __init__(self, deps: IngestDeps) -> None:
        self._deps = deps
        # Looked up once: a run may read many files.
        self._read_file = deps.sources.read
        self._opened = _OpenedFile("", "", "")
        self._members: dict[str, Member] = {}

    def read(self, source: Source) -> ReadSource:
        if source.refusal is not None:
            raise errors.source_refusal(source.refusal.code, source.name, source.refusal.advice)
        if not source.member:
            read = self._deps.read if source.upload else self._read_file
            return ReadSource(source.name, read(source))
        opened = self._open(source)
        member = self._members.pop(source.member, None)
        if member is None and opened.missing < _MAX_MISSING:
            found = self._deps.parser.members(
                opened.name, opened.content, source.declared, source.member
            )
            self._members = {each.name: each for each in found.members}
            member = self._members.pop(source.member, None)
            opened.missing += member is None
        if member is None:
            raise errors.SourceRefused("source_missing", source.name)
        if member.refusal is not None:
            raise errors.source_refusal(member.refusal.code, source.name, member.refusal.advice)
        fields = source.declared.fields
        # A record with an id is identified by it, wherever it is in its file.
        line = member.line if fields is not None and fields.id is None else 0
        return ReadSource(f"{source.name}{member.ending}", member.data, line)

    def _open(self, source: Source) -> _OpenedFile:
        opened = self._opened
        if (opened.path, opened.upload) != (source.path, source.upload):
            name = to_utf8(source.path).replace("\\", "/").rpartition("/")[2]
            # Free the last file first: both may be large.
            self._opened, self._members = _OpenedFile("", "", ""), {}
            content = self._deps.read(source)
            self._opened = opened = _OpenedFile(source.path, source.upload, name, content)
        return opened


class _OpenedFile(Struct):
    path: str
    upload: str
    name: str
    content: bytes = b""
    missing: int = 0
