"""Looking through a library's files for what should not be in any of them any more."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from truespan.types.maintenance import LeftoverMatch, Trace
from truespan.types.vectors import numbers_of

_NUMBERS = 8
"""How many numbers of a vector are looked for together: 32 bytes that no other vector has."""


class FolderRemains:
    """Looks through the files of a store, an index and images; not through the operator's own."""

    def __init__(self, *places: Path) -> None:
        self._places = places

    def look_for(self, traces: Sequence[Trace]) -> LeftoverMatch:
        """Search each file for each of the traces."""
        patterns = {form for trace in traces for form in _forms(trace)}
        files = size = 0
        found: set[bytes] = set()
        for path in self._files():
            length, present = _present(path, patterns - found)
            files, size, found = files + 1, size + length, found | present
        return LeftoverMatch(len(traces), files, size, len(found))

    def _files(self) -> Iterator[Path]:
        for place in self._places:
            if place.is_dir():
                yield from (path for path in sorted(place.rglob("*")) if path.is_file())
            else:
                # A database has companions: its log of writes, and others that share its name.
                yield from sorted(place.parent.glob(f"{place.name}*"))


def _present(path: Path, patterns: set[bytes]) -> tuple[int, set[bytes]]:
    try:
        with path.open("rb") as file:
            length = path.stat().st_size
            if not length:
                return 0, set()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return length, {one for one in patterns if content.find(one) >= 0}
    except (OSError, ValueError):
        # Files of the index come and go while it works; one that is gone holds nothing.
        return 0, set()


def _forms(trace: Trace) -> list[bytes]:
    """Return a trace as it may stand in a file: vectors are logged in a form of their own."""
    if not trace.is_vector:
        return [trace.content]
    start = _telling(trace.content)
    if start is None:
        return []
    stretch = trace.content[4 * start : 4 * (start + _NUMBERS)]
    return [stretch, b"".join(map(_logged, numbers_of(stretch)))]


def _telling(vector: bytes) -> int | None:
    """Return where numbers stand together that are all different, and none of them zero."""
    numbers = numbers_of(vector)
    for start in range(len(numbers) // 2, len(numbers) - _NUMBERS + 1):
        part = numbers[start : start + _NUMBERS]
        if len(set(part)) == _NUMBERS and all(part):
            return start
    return None


def _logged(number: float) -> bytes:
    """Return a number as CBOR writes it, in as few bytes as hold it exactly."""
    half = struct.pack(">e", number) if abs(number) < 65000 else b""
    if half and struct.unpack(">e", half)[0] == number:
        return b"\xf9" + half
    return b"\xfa" + struct.pack(">f", number)
