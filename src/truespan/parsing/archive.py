"""Untrusted ZIP archives: declared values are not trusted, and nothing is written.

The standard library reads the directory; this module unpacks members within limits. A declared size
matters only if it is too large. A nested archive is returned as bytes and never opened.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable

from truespan import errors

MAX_MEMBERS = 10_000
MAX_MEMBER_SIZE = 256 << 20
MAX_TOTAL_SIZE = 512 << 20
MAX_RATIO = 200
"""Maximum number of unpacked bytes for each packed byte."""
FREE_SIZE = 8 << 20
"""Unpacked size up to which any ratio is allowed: short repetitive texts are harmless."""

_RECORD = b"PK\x01\x02"
_MAX_RECORDS = 20 * MAX_MEMBERS
"""Maximum number of entry signatures, which may also occur in nested archives."""
_LOCAL_MARK = b"PK\x03\x04"
_LOCAL = struct.Struct("<4s2xH18xHH")
_ENCRYPTED, _UTF_8 = 0x1, 0x800
_DRIVE = re.compile("[A-Za-z]:")
_ZIP_FAULTS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError, IndexError,
    OverflowError, EOFError, OSError, RuntimeError, struct.error,
)  # fmt: skip


class Archive:
    """The members of an archive by their stored names; raises SourceRefused if they are unsafe.

    With `lenient`, an unusable member does not refuse the whole archive, names are not checked, and
    the last of several members with one name is used.
    """

    def __init__(self, name: str, data: bytes, *, lenient: bool = False) -> None:
        self._name, self._bytes = name, memoryview(data)
        self._left = MAX_TOTAL_SIZE
        # Checked first, because the standard library builds an object for each entry.
        if data.count(_RECORD) > _MAX_RECORDS:
            raise errors.SourceRefused("source_too_large", name)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                entries, end = opened.infolist(), opened.start_dir
        except _ZIP_FAULTS as error:
            raise errors.SourceRefused("source_broken", name) from error
        if len(entries) > MAX_MEMBERS:
            raise errors.SourceRefused("source_too_large", name)
        if not lenient:
            if len({entry.orig_filename for entry in entries}) < len(entries):
                raise errors.SourceRefused("source_unsafe", name)
            for entry in entries:
                # The stored name; `filename` is cut at a NUL and could look safe.
                member = entry.orig_filename
                if "\0" in member or "\\" in member or member.startswith("/"):
                    raise errors.SourceRefused("source_unsafe", name)
                if _DRIVE.match(member) or (".." in member and ".." in member.split("/")):
                    raise errors.SourceRefused("source_unsafe", name)
                _check_entry(name, entry)
        if sum(entry.file_size for entry in entries) > MAX_TOTAL_SIZE:
            raise errors.SourceRefused("source_too_large", name)
        self._starts = _find_starts(name, data, entries, end)
        self._entries = {
            entry.orig_filename: entry for entry in entries if not entry.orig_filename.endswith("/")
        }
        self._folded = {member.lower(): member for member in reversed(self._entries)}
        self._counted: set[str] = set()
        self.names = frozenset(self._entries)
        self.listed = tuple(entry.orig_filename for entry in entries)
        """Names of all entries in order, including folders."""

    def find(self, member: str) -> str | None:
        """Return the stored name of a member, ignoring case; None if it does not exist."""
        return member if member in self._entries else self._folded.get(member.lower())

    def read(self, member: str) -> bytes | None:
        """Return the bytes of a member; None if it does not exist."""
        entry = self._entries.get(member)
        if entry is None:
            return None
        _check_entry(self._name, entry)
        start = self._starts[entry.header_offset]
        packed = self._bytes[start : start + entry.compress_size]
        counted = member in self._counted
        room = MAX_MEMBER_SIZE if counted else min(MAX_MEMBER_SIZE, self._left)
        if entry.compress_type == zipfile.ZIP_STORED:
            if len(packed) > room:
                raise errors.SourceRefused("source_too_large", self._name)
            content = bytes(packed)
        elif entry.compress_type == zipfile.ZIP_DEFLATED:
            # Limited by the remaining size and by the maximum ratio.
            fair = max(FREE_SIZE, MAX_RATIO * len(packed))
            limit = min(room, fair)
            try:
                content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit + 1)
            except zlib.error as error:
                raise errors.SourceRefused("source_broken", self._name) from error
            if len(content) > limit:
                code = "source_unsafe" if limit == fair else "source_too_large"
                raise errors.SourceRefused(code, self._name)
        else:
            raise errors.SourceRefused("source_unsupported", self._name)
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            raise errors.SourceRefused("source_broken", self._name)
        if not counted:
            self._counted.add(member)
            self._left -= len(content)
        return content


def resolve_path(folder: str, path: str) -> str:
    """Resolve a path from a folder of an archive; the result never leaves the archive."""
    steps = [] if path.startswith("/") else folder.split("/")
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(step for step in steps if step)


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & _ENCRYPTED:
        raise errors.SourceRefused("source_encrypted", name)
    if entry.file_size > MAX_MEMBER_SIZE:
        raise errors.SourceRefused("source_too_large", name)


def _find_starts(
    name: str, data: bytes, entries: Iterable[zipfile.ZipInfo], end: int
) -> dict[int, int]:
    """Return the start of the bytes of each member, by the offset of its header."""
    # The header must match the directory. Members must not share bytes: that is how a small archive
    # claims to contain petabytes.
    starts: dict[int, int] = {}
    free_from = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        header = entry.header_offset
        if header < free_from:
            raise errors.SourceRefused("source_unsafe", name)
        if header + _LOCAL.size > len(data):
            raise errors.SourceRefused("source_broken", name)
        mark, flags, name_size, extra_size = _LOCAL.unpack_from(data, header)
        start = header + _LOCAL.size
        encoding = "utf-8" if flags & _UTF_8 else "cp437"
        member = data[start : start + name_size].decode(encoding, "replace")
        if mark != _LOCAL_MARK or member != entry.orig_filename:
            raise errors.SourceRefused("source_broken", name)
        starts[header] = start + name_size + extra_size
        free_from = starts[header] + entry.compress_size
        if free_from > end:
            raise errors.SourceRefused("source_broken", name)
    return starts
