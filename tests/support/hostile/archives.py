"""Archives that lie, explode or point elsewhere, as documents and as books."""

import stat
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tests.support.hostile.parts import docx, docx_parts, epub, epub_parts
from tests.support.hostile.registry import Trap, add
from tests.support.hostile.zip_maker import (
    DEFLATED,
    Member,
    archive,
    bomb,
    end_record,
    member,
    members_of,
    quoted_overlap,
    stored,
)

MAIN = {"docx": "word/document.xml", "epub": "OEBPS/c1.xhtml"}
Build = Callable[[list[Member], str, Trap], bytes]
"""From the members of an honest document, and the name of the one with its text, to an archive."""


def changed(members: list[Member], name: str, **changes: object) -> list[Member]:
    return [
        replace(one, **changes) if one.name == name.encode() else one  # type: ignore[arg-type]
        for one in members
    ]


def without(members: list[Member], name: str) -> list[Member]:
    return [one for one in members if one.name != name.encode()]


@cache
def _beginning_of_nested() -> bytes:
    """Return the first megabyte of archives in archives, with hundreds of bombs in it."""
    inner = archive([bomb("a.xml", 2)])
    for level in range(6):
        inner = archive([stored(f"{level}-{copy}.docx", inner) for copy in range(3)])
    return inner[: 1 << 20]


def itself_inside(members: list[Member], main: str, trap: Trap) -> bytes:
    inner = archive(members)
    return archive([*members, stored("word/embeddings/1.docx", inner), stored("again.zip", inner)])


def overlapping(members: list[Member], main: str, trap: Trap) -> bytes:
    """The overlap is the only fault of the archive."""
    kernel = bomb("kernel.xml", 1)
    return quoted_overlap([main, *(f"word/{number}.xml" for number in range(100))], kernel)


def sharing_one_member(members: list[Member], main: str, trap: Trap) -> bytes:
    text = next(one for one in members if one.name == main.encode())
    copies = [replace(text, name=f"{n}.xml".encode(), packed=b"", offset=0) for n in range(100)]
    shared = [replace(one, packed_size=len(text.packed)) for one in copies]
    return archive([text, *without(members, main), *shared])


def very_many_members(members: list[Member], main: str, trap: Trap) -> bytes:
    empty = Member(b"", b"", 0, 0, method=0)
    return archive([*members, *(replace(empty, name=b"m/%d" % n) for n in range(12_000))])


def cut_in_half(members: list[Member], main: str, trap: Trap) -> bytes:
    whole = archive(members)
    return whole[: len(whole) // 2]


def zeros_before_the_directory(members: list[Member], main: str, trap: Trap) -> bytes:
    directory = b"".join(one.entry(0) for one in members)
    parts = b"".join(one.local() + one.packed for one in members)
    return parts + bytes(10_000) + directory + end_record(len(members), len(directory), len(parts))


def zip64_lies(members: list[Member], main: str, trap: Trap) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, 1 << 62, 1 << 62, 1 << 62)
    lying = changed(members, main, size=0xFFFFFFFF, packed_size=0xFFFFFFFF, extra=extra)
    return archive(changed(lying, main, offset=0xFFFFFFFF))


def zip64_end_lies(members: list[Member], main: str, trap: Trap) -> bytes:
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 60, 1 << 60, 1 << 60, 0
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 1 << 60, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return archive(members, end=record + locator + end)


def end_within_the_comment(members: list[Member], main: str, trap: Trap) -> bytes:
    fake = end_record(0, 0, 0)
    return archive(members)[:-2] + struct.pack("<H", len(fake)) + fake


def flushed_for_ever(members: list[Member], main: str, trap: Trap) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    empty = packer.flush(zlib.Z_FULL_FLUSH) or b"\x00\x00\x00\xff\xff"
    return archive(changed(members, main, packed=empty * 200_000, method=DEFLATED))


CHANGES: dict[str, dict[str, Any]] = {
    "size-too-small": {"size": 10},
    "size-too-large": {"size": 1 << 30},
    "packed-size-too-large": {"packed_size": 1 << 30},
    "packed-size-zero": {"packed_size": 0},
    "wrong-checksum": {"crc": 0},
    "broken-stream": {"packed": b"\xff" * 200},
    "zip64-cut-off": {"size": 0xFFFFFFFF, "extra": struct.pack("<HH", 1, 24)},
    "encrypted": {"flags": 1},
    "strongly-encrypted": {"flags": 0x2041, "method": 99},
    "strange-compression": {"method": 97},
    "lzma-bomb": {"method": 14, "packed": b"\x09\x04\x05\x00" + bytes(200)},
    "bzip2": {"method": 12, "packed": b"BZh9" + bytes(200)},
    "patched": {"flags": 0x20},
    "other-name-in-its-own-header": {"local_name": b"word/other.xml"},
    "beginning-beyond-the-end": {"offset": 0x7FFFFFFF},
    "beginning-inside-another": {"offset": 7},
}
"""Archives of which the member with the text has other values in its headers."""

BUILDS: dict[str, Build] = {
    "flat-bomb": lambda members, main, trap: archive([*without(members, main), bomb(main, 4000)]),
    "modest-bomb": lambda members, main, trap: archive([*without(members, main), bomb(main, 100)]),
    "bomb-that-says-it-is-small": lambda members, main, trap: archive(
        [*without(members, main), bomb(main, 4000, size=100)]
    ),
    "bomb-beside-the-text": lambda members, main, trap: archive(
        [*members, bomb("word/media/image1.png", 3000, size=1000)]
    ),
    "many-bombs": lambda members, main, trap: archive(
        [*members, *(bomb(f"word/media/{n}.png", 200) for n in range(50))]
    ),
    "nested-bomb": lambda members, main, trap: archive(
        [*without(members, main), stored(main, _beginning_of_nested())]
    ),
    "itself-inside": itself_inside,
    "overlapping": overlapping,
    "overlapping-bombs": lambda members, main, trap: quoted_overlap(
        [main, *(f"word/{number}.xml" for number in range(200))], bomb("kernel.xml", 200)
    ),
    "sharing-one-member": sharing_one_member,
    "very-many-members": very_many_members,
    "twice-the-same-name": lambda members, main, trap: archive(
        [*members, member(main, b"<other/>")]
    ),
    "names-that-differ-in-case": lambda members, main, trap: archive(
        [*members, member(main.upper(), b"<other/>")]
    ),
    "link-to-a-file": lambda members, main, trap: archive(
        [
            *members,
            replace(
                stored("word/media/image1.png", trap.secret.encode()),
                attributes=((stat.S_IFLNK | 0o777) << 16),
            ),
        ]
    ),
    "text-is-a-link": lambda members, main, trap: archive(
        [
            *without(members, main),
            replace(stored(main, trap.secret.encode()), attributes=(stat.S_IFLNK | 0o777) << 16),
        ]
    ),
    "cut-in-half": cut_in_half,
    "cut-in-the-directory": lambda members, main, trap: archive(members)[:-60],
    "cut-by-one": lambda members, main, trap: archive(members)[:-1],
    "garbage-after": lambda members, main, trap: archive(members) + b"\x00garbage\xff" * 100,
    "another-archive-after": lambda members, main, trap: (
        archive(members) + archive([member(main, b"<other/>")])
    ),
    "zeros-before-the-directory": zeros_before_the_directory,
    "zip64-lies": zip64_lies,
    "zip64-end-lies": zip64_end_lies,
    "unreadable-name": lambda members, main, trap: archive(
        [*members, replace(member("x", b"x"), name=b"\xff\xfe\x80", flags=0x800)]
    ),
    "on-another-disk": lambda members, main, trap: archive(
        members, end=struct.pack("<4s4H2LH", b"PK\x05\x06", 7, 3, 1, 1, 100, 0, 0)
    ),
    "more-members-announced": lambda members, main, trap: archive(
        members, end=end_record(60_000, 1 << 20, 0)
    ),
    "no-end": lambda members, main, trap: archive(members, end=b""),
    "long-comment": lambda members, main, trap: (
        archive(members)[:-2] + struct.pack("<H", 65_535) + b"PK\x05\x06" * 16_383 + b"xyz"
    ),
    "end-within-the-comment": end_within_the_comment,
    "no-members": lambda members, main, trap: end_record(0, 0, 0),
    "text-is-missing": lambda members, main, trap: archive(without(members, main)),
    "text-is-a-folder": lambda members, main, trap: archive(
        [*without(members, main), stored(f"{main}/", b"")]
    ),
    "only-the-beginning": lambda members, main, trap: b"PK\x03\x04" + main.encode(),
    "flushed-for-ever": flushed_for_ever,
    "long-names": lambda members, main, trap: archive(
        [*members, *(stored(f"{'n' * 60_000}{n}", b"") for n in range(20))]
    ),
}

ESCAPES = {
    "parent": "../../../{}",
    "parent-inside": "word/../../../{}",
    "absolute": "/{}",
    "drive": "C:\\{}",
    "drive-relative": "C:{}",
    "share": "\\\\127.0.0.1\\share\\{}",
    "backslash": "..\\..\\{}",
    "nul": "word/a.xml\0{}",
    "dot": "./{}",
    "newline": "word/a\n{}",
}
"""Names that lead out of a folder, for a file that must not be overwritten."""


def _add(name: str, build: Build) -> None:
    add(
        f"docx-archive-{name}",
        lambda trap: ("a.docx", build(members_of(docx_parts()), MAIN["docx"], trap)),
    )
    add(
        f"epub-archive-{name}",
        lambda trap: ("a.epub", build(members_of(epub_parts()), MAIN["epub"], trap)),
    )


def _add_escape(kind: str, pattern: str) -> None:
    def path(trap: Trap) -> str:
        return pattern.format(trap.victim.lstrip("/"))

    add(f"docx-escape-{kind}", lambda trap: ("a.docx", docx({path(trap): b"overwritten"})))
    add(f"epub-escape-{kind}", lambda trap: ("a.epub", epub({path(trap): b"overwritten"})))


def _change(values: dict[str, Any]) -> Build:
    return lambda members, main, trap: archive(changed(members, main, **values))


for _name, _build in BUILDS.items():
    _add(_name, _build)
for _name, _values in CHANGES.items():
    _add(_name, _change(_values))
for _kind, _pattern in ESCAPES.items():
    _add_escape(_kind, _pattern)
