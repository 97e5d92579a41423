"""Files that contain several documents: the list of members, and the bytes of each.

Both functions run in the parser process. `list_members` lists all members of a file; `read_members`
returns the bytes in pieces of at most `PIECE`, so that neither process keeps all of them. A member
is parsed like a separate file.

To add a kind of file: write a generator that takes the name and the bytes of the file, and name it
as `open` of its `FileFormat`. That of a format with records also takes the declared fields. It
yields each member with its bytes, always in the same order and under the same name, because the
name identifies the document. A name is a unique relative path with `/`. The generator yields a
refusal for a member that cannot be read, and None for an unsupported one. A member without a name
is the file itself. If the generator raises `SourceRefused`, the whole file is refused; if it yields
nothing, the file is a single document.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

from msgspec.structs import replace

from truespan.errors import SourceRefused
from truespan.parsing.archive import Archive
from truespan.parsing.detect import format_by_name, format_of, supported
from truespan.tables import import_member
from truespan.types.source import DocumentOptions, Member, Members, Refusal

PIECE = 32 << 20
"""Maximum number of bytes of members returned at once, unless a single member has more."""
MAX_NAME_LENGTH = 1024
_DRIVE = re.compile("[A-Za-z]:")
_UNPACKED_BY_SYSTEMS = "__MACOSX"


def list_members(name: str, data: bytes, options: DocumentOptions) -> Members:
    """Return all members of a file without their bytes; none for a single document."""
    listed: list[Member] = []
    unsupported = 0
    for member in _open(name, data, options):
        if member is None:
            unsupported += 1
        else:
            listed.append(replace(member, data=b"", size=len(member.data)))
    return Members(tuple(listed), unsupported)


def read_members(name: str, data: bytes, options: DocumentOptions, first: str) -> Members:
    """Return the member `first` and the following members that fit into a piece."""
    piece: list[Member] = []
    size = 0
    for member in _open(name, data, options):
        if member is None or (not piece and member.name != first):
            continue
        size += len(member.data)
        if piece and size > PIECE:
            break
        piece.append(member)
    return Members(tuple(piece))


def _open(name: str, data: bytes, options: DocumentOptions) -> Iterator[Member | None]:
    found = format_of(name, data)
    if found is None or not found.open:
        return
    if not found.has_records:
        yield from import_member(found.open)(name, data)
    elif options.fields is not None:
        yield from import_member(found.open)(name, data, options.fields)


def refuse_empty_archive(name: str, data: bytes) -> NoReturn:
    """Raise an error for an archive without members; the members of others are the documents."""
    Archive(name, data, lenient=True)
    raise SourceRefused(
        "source_empty", name, advice="The archive has no file with a supported format."
    )


def open_archive(name: str, data: bytes) -> Iterator[Member | None]:
    """Yield the files of an archive that have a parser; hidden files are skipped, as in folders."""
    archive = Archive(name, data, lenient=True)
    seen: Counter[str] = Counter()
    for stored in archive.listed:
        # Some Windows programs write backslashes; macOS writes decomposed names.
        member = unicodedata.normalize("NFC", stored.replace("\\", "/")).removeprefix("./")
        folders = member.split("/")
        if member.endswith("/") or folders[0] == _UNPACKED_BY_SYSTEMS:
            continue
        leads_out = ".." in folders or member.startswith("/") or bool(_DRIVE.match(member))
        if not leads_out and any(folder.startswith(".") for folder in folders):
            continue
        if not supported(member) or format_by_name(member).only_members:
            yield None
            continue
        shown = "".join(char if char.isprintable() else "?" for char in member)
        is_usable = shown == member and "" not in folders and len(member) <= MAX_NAME_LENGTH
        advice = "Two files in the archive have this name."
        if leads_out or not is_usable:
            # The name cannot be recorded, and must differ from the name of a readable file.
            plain = "/".join(part for part in shown.split("/") if part.strip(". "))
            shown = f"{plain[-MAX_NAME_LENGTH:]} (unsafe path)"
            advice = "The path in the archive is invalid or leads outside."
        seen[shown] += 1
        if leads_out or not is_usable or seen[shown] > 1:
            number = f" ({seen[shown]})" if seen[shown] > 1 else ""
            yield Member(f"{shown}{number}", refusal=Refusal("source_unsafe", advice))
            continue
        try:
            yield Member(member, archive.read(stored) or b"")
        except SourceRefused as refused:
            yield Member(member, refusal=Refusal(refused.code, refused.own_advice))
