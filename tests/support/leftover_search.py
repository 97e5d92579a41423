"""Search for deleted data: in every file below a folder, in every form it may have."""

import errno
import os
import random
import re
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from truespan.types.vectors import Vector

_EMPTY = re.compile(rb"\x00{512,}")
_NUMBERS = 8


def rare_text(seed: str, sentences: int = 40) -> str:
    rng = random.Random(seed)
    return " ".join(
        " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(8)) + "."
        for _ in range(sentences)
    )


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the content of every file, without long runs of zeros."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: _EMPTY.sub(b"\x00", b"\x00".join(_written_parts(path))) for path in found}


def _written_parts(path: Path) -> Iterator[bytes]:
    """Yield the written parts of a file; an index reserves tens of megabytes."""
    with path.open("rb") as file:
        end = 0
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # Nothing was written after this.
                    return
                raise
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            yield os.pread(file.fileno(), end - start, start)


def traces(
    folder: Path, text: str, vectors: list[Vector], states: Sequence[bytes] = ()
) -> list[str]:
    """Return the places where a text, vectors or states of words remain."""
    files = contents(folder)
    words = {word.strip(".").encode() for word in text.split()}
    left = [
        f"{path.relative_to(folder)}: words"
        for path, content in files.items()
        if any(word in content for word in words)
    ]
    stretches = {form for vector in vectors for form in _forms(vector)}
    left += [
        f"{path.relative_to(folder)}: vector"
        for path, content in files.items()
        if any(stretch in content for stretch in stretches)
    ]
    rows = {own[start : start + 32] for own in states for start in range(0, len(own), 32)}
    left += [
        f"{path.relative_to(folder)}: states"
        for path, content in files.items()
        if any(row in content for row in rows)
    ]
    return sorted(set(left))


def _forms(vector: Vector) -> list[bytes]:
    """Return every distinctive stretch of 32 bytes, as numbers and as in the log of the index."""
    numbers = array("f", vector)
    forms = []
    for start in range(len(numbers) - _NUMBERS + 1):
        part = numbers[start : start + _NUMBERS]
        if sum(map(bool, part)) >= 6:
            forms += [part.tobytes(), b"".join(map(_logged, part))]
    return forms


def _logged(number: float) -> bytes:
    half = struct.pack(">e", number)
    if struct.unpack(">e", half)[0] == number:
        return b"\xf9" + half
    return b"\xfa" + struct.pack(">f", number)
