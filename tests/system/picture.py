"""A small picture, so that programs have one to put into documents."""

from __future__ import annotations

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY = 0


def png(size: int = 16) -> bytes:
    """Return a square of diagonal stripes as a PNG file."""
    rows = b"".join(
        b"\0" + bytes(255 * ((row + column) // 4 % 2) for column in range(size))
        for row in range(size)
    )
    head = struct.pack(">IIBBBBB", size, size, 8, _GREY, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
