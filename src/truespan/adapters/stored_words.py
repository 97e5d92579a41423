"""How stores spell counted words, whatever engine they keep them in.

The bytes are moved between stores as they are, so there is one place that makes and reads them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from truespan.types.document import RevisionRef
from truespan.types.words import CountedRevision, Postings, WordEntry

_PAIR = struct.Struct("<IH")
"""A chunk's index and how often a term is in it."""
_MOST_COUNTED = 0xFFFF


def packed_places(places: Mapping[int, int]) -> bytes:
    """Return in which chunks a term stands, and how often."""
    return b"".join(_PAIR.pack(index, min(count, _MOST_COUNTED)) for index, count in places.items())


def packed_lengths(counted: CountedRevision) -> bytes:
    """Return how many words each chunk has."""
    return array("I", [number for pair in counted.lengths.items() for number in pair]).tobytes()


def texts_digest(texts: Iterable[tuple[int, str]]) -> bytes:
    """Return what tells one list of chunk texts, by index and hash, from another."""
    return sha256("".join(f"{index}:{text_hash}\n" for index, text_hash in texts).encode()).digest()


def postings_of(rows: Sequence[tuple[Any, ...]]) -> Postings:
    """Return where a term stands, from rows of a revision's key and its packed places."""
    packed = [row[1] for row in rows]
    chunks = [len(one) // _PAIR.size for one in packed]
    return Postings([row[0] for row in rows], chunks, b"".join(packed))


def word_entry(row: tuple[Any, ...], chunks: Sequence[tuple[Any, ...]]) -> WordEntry:
    """Return what is known of a revision, with its chunks as they are in force."""
    key, document, revision, language, recipe, texts, lengths = row
    counted = dict(_pairs(lengths)) if lengths else {}
    return WordEntry(
        key=key,
        ref=RevisionRef(document, revision),
        language=language,
        recipe=recipe,
        fresh=texts == texts_digest((index, text_hash) for _, index, text_hash, _ in chunks),
        lengths={
            index: counted[index]
            for _, index, _, embedded in chunks
            if embedded and index in counted
        },
    )


def _pairs(lengths: bytes) -> Iterable[tuple[int, int]]:
    numbers = array("I", lengths)
    return zip(numbers[::2], numbers[1::2], strict=True)
