"""Archives made by hand, so that each of their numbers can be wrong."""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

DEFLATED, STORED = 8, 0


@dataclass(frozen=True)
class Member:
    """A member of an archive with everything that its two headers say."""

    name: bytes
    packed: bytes
    size: int
    crc: int
    method: int = DEFLATED
    flags: int = 0
    attributes: int = 0
    extra: bytes = b""
    packed_size: int | None = None
    local_name: bytes | None = None
    offset: int | None = None
    """Declared start of the directory, if it differs from the actual one."""

    @property
    def declared(self) -> int:
        return len(self.packed) if self.packed_size is None else self.packed_size

    def local(self) -> bytes:
        name = self.name if self.local_name is None else self.local_name
        return (
            struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, self.flags, self.method, 0, 33, self.crc,
                        self.declared & 0xFFFFFFFF, self.size & 0xFFFFFFFF, len(name), 0)
            + name
        )  # fmt: skip

    def entry(self, offset: int) -> bytes:
        return (
            struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, self.flags, self.method, 0, 33,
                        self.crc, self.declared & 0xFFFFFFFF, self.size & 0xFFFFFFFF,
                        len(self.name), len(self.extra), 0, 0, 0, self.attributes, offset)
            + self.name + self.extra
        )  # fmt: skip


def member(name: str | bytes, content: bytes, **changes: object) -> Member:
    """Return a valid member, except for the changed values."""
    raw = name.encode() if isinstance(name, str) else name
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(content) + packer.flush()
    made = Member(raw, packed, len(content), zlib.crc32(content))
    return replace(made, **changes)  # type: ignore[arg-type]


def stored(name: str | bytes, content: bytes) -> Member:
    raw = name.encode() if isinstance(name, str) else name
    return Member(raw, content, len(content), zlib.crc32(content), STORED)


def archive(members: Iterable[Member], *, end: bytes | None = None) -> bytes:
    """Return the archive of these members, with another end record if one is given."""
    parts, entries, offset = [], [], 0
    for one in members:
        entries.append(one.entry(offset if one.offset is None else one.offset))
        parts += [one.local(), one.packed]
        offset += len(parts[-2]) + len(parts[-1])
    directory = b"".join(entries)
    closing = end_record(len(entries), len(directory), offset) if end is None else end
    return b"".join([*parts, directory, closing])


def end_record(count: int, size: int, offset: int, comment: bytes = b"") -> bytes:
    few = min(count, 0xFFFF)
    return (
        struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, few, few, size, offset, len(comment)) + comment
    )


def members_of(parts: Mapping[str, bytes]) -> list[Member]:
    """Return the members of a document; the mark of a book is stored, as it must be."""
    return [
        stored(name, content) if name == "mimetype" else member(name, content)
        for name, content in parts.items()
    ]


def bomb(name: str, megabytes: int, **changes: object) -> Member:
    """Return a member of `megabytes` of spaces in a few kilobytes.

    The flushed blocks of one megabyte are repeated, so that not all of it is compressed.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = block * megabytes + b"\x03\x00"
    made = Member(name.encode(), packed, megabytes << 20, 0)
    return replace(made, **changes)  # type: ignore[arg-type]


def quoted_overlap(names: Sequence[str], kernel: Member) -> bytes:
    """Return an archive whose members share the bytes of one: each quotes the header of the next.

    The quotation is a stored block, after which the bytes of the next member simply go on.
    """
    members = [kernel]
    for name in reversed(names):
        following = members[0]
        header = following.local()
        quote = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)
        packed = quote + header + following.packed
        size = len(header) + following.size
        members.insert(0, Member(name.encode(), packed, size, 0))
    parts, entries, offset = [], [], 0
    for place, one in enumerate(members):
        entries.append(one.entry(offset))
        own = one.local() + (one.packed[:5] if place < len(members) - 1 else one.packed)
        parts.append(own)
        offset += len(own)
    directory = b"".join(entries)
    return b"".join([*parts, directory, end_record(len(entries), len(directory), offset)])
