"""Old Office files: recognition of workbooks by the names of their streams."""

from __future__ import annotations

import struct

_COMPOUND = struct.Struct("<30xH16xI24x109I")
_MAX_SECTORS = 1024
"""Maximum number of directory sectors that are read."""


def is_workbook(data: bytes) -> bool:
    """Return whether an old Office file is a workbook."""
    return not _streams(data).isdisjoint({"workbook", "book"})


def _streams(data: bytes) -> set[str]:
    """Return the names of the streams of an old Office file, in lower case."""
    if len(data) < _COMPOUND.size:
        return set()
    shift, sector, *tables = _COMPOUND.unpack_from(data)
    size = 1 << min(max(shift, 7), 12)
    names: set[str] = set()
    for _ in range(_MAX_SECTORS):
        start = (sector + 1) * size
        for entry in range(start, min(start + size, len(data) - 127), 128):
            length = min(int.from_bytes(data[entry + 64 : entry + 66], "little"), 64)
            name = data[entry : entry + max(length - 2, 0)]
            names.add(name.decode("utf-16-le", "replace").lower())
        # Follow the allocation table to the next sector of the directory.
        table, place = divmod(sector * 4, size)
        if table >= len(tables):
            break
        at = (tables[table] + 1) * size + place
        sector = int.from_bytes(data[at : at + 4], "little")
        if sector >= len(data) // size:
            break
    return names
