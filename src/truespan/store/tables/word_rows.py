"""Rows of counted words: packed, written and verified.

Words are plain rows by term, the same in both engines. Packed bytes are copied between stores
unchanged, so only this module makes them. Revisions that are staged together share the rows of a
segment, which is identified by the key of its first revision. A segment never changes: when one of
its revisions is removed, all its rows are, and the words of the others are counted again.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from truespan.store.engines.session import Row, Session
from truespan.store.integrity.checksums import checksum
from truespan.types.document import PAIR, CountedWords, RevisionRef
from truespan.types.ids import WorldId
from truespan.types.scope import Scope

SEAL: Final = 8
"""Number of bytes of a checksum that follow packed numbers."""

LENGTHS: Final = "lengths and languages"
"""Kind of packed lengths in their checksum: another layout of the numbers needs another name, so
that earlier ones are counted again."""

MEMBER: Final = struct.Struct("<III")
"""A revision in a row of its segment: its document, its number, and how many of its chunks have the
term."""


def _seal(packed: bytes, *identity: object) -> bytes:
    """Return packed numbers as they are stored, with the beginning of their checksum."""
    return packed + checksum("packed", *identity, packed)[:SEAL]


def are_intact(scope: Scope, term: str, members: bytes, stored: bytes) -> bool:
    """Return whether a row of words matches its checksum."""
    identity = "words", scope.world, scope.generation.number, term, members
    return stored == _seal(stored[:-SEAL], *identity)


def part_of(ref: RevisionRef, members: bytes, stored: bytes) -> bytes | None:
    """Return the postings of one revision in a row of words; None if it has none there."""
    start = 0
    for document, revision, count in MEMBER.iter_unpack(members):
        end = start + PAIR.size * count
        if (document, revision) == (ref.document, ref.revision):
            return stored[start:end]
        start = end
    return None


def covered_words(scope: Scope, ref: RevisionRef, rows: Sequence[Row]) -> Iterable[object]:
    """Return the words that the checksum of a revision covers, from the rows of its segment."""
    terms: list[str] = []
    counts: list[int] = []
    packed = b""
    for term, members, stored in rows:
        if not are_intact(scope, term, members, stored):
            # The revisions of the row are unknown.
            return [(term, stored)]
        part = part_of(ref, members, stored)
        if part is not None:
            terms.append(term)
            counts.append(len(part) // PAIR.size)
            packed += part
    return terms, counts, packed


def words_checksum(
    world: WorldId,
    generation: int,
    ref: RevisionRef,
    cells: Sequence[object],
    words: Iterable[object],
) -> bytes:
    """Return the checksum of the words of a revision.

    The cells are recipe, digest of the texts, lengths, and the document and number of the revision
    that identifies the segment.
    """
    return checksum("word_counts", world, generation, ref, *cells, *words)


class WrittenWords(NamedTuple):
    """Words of a revision whose own row is written."""

    ref: RevisionRef
    key: int
    words: CountedWords


MAX_SEGMENT_CHUNKS: Final = 5120
"""Maximum number of chunks of a segment of several revisions.

Ingestion stages a few more than 4096 chunks at once, which become one segment. With at most 2560
chunks in a segment, novels take 28 % more rows. All of them are counted again when one revision is
purged.
"""


def write_staged_words(session: Session, scope: Scope, written: Sequence[WrittenWords]) -> None:
    """Write the words of new revisions, in segments."""
    segment, chunks = list[WrittenWords](), 0
    for found in written:
        if segment and chunks + len(found.words.hashes) > MAX_SEGMENT_CHUNKS:
            write_words(session, scope, segment)
            segment, chunks = [], 0
        segment.append(found)
        chunks += len(found.words.hashes)
    if segment:
        write_words(session, scope, segment)


def write_words(session: Session, scope: Scope, segment: Sequence[WrittenWords]) -> None:
    """Write the words of revisions that have none in the scope's generation, as one segment."""
    world, generation = scope.world, scope.generation.number
    first = segment[0]
    named = first.ref.document, first.ref.revision
    identity = "words", world, generation
    session.insert_many(
        "words",
        ("generation", "term", "revision", "revisions", "postings"),
        (
            (*(generation, term, first.key, members), _seal(packed, *identity, term, members))
            for term, members, packed in _share_rows(segment)
        ),
    )
    counts: list[Row] = []
    for ref, key, words in segment:
        numbers = array("I")
        for index, length in words.lengths.items():
            code = words.languages.get(index, "").encode()
            numbers.extend((index, length, int.from_bytes(code)))
        texts = digest_texts(sorted(words.hashes.items()))
        lengths = _seal(
            numbers.tobytes(), LENGTHS, world, generation, ref, words.recipe, texts, *named
        )
        cells = words.recipe, texts, lengths, *named
        covered = list(words.terms), list(words.chunks), words.packed
        own = words_checksum(world, generation, ref, cells, covered)
        counts.append((key, generation, first.key, words.recipe, texts, lengths, own))
    session.insert_many(
        "word_counts",
        ("revision", "generation", "segment", "recipe", "texts", "lengths", "checksum"),
        counts,
    )


def _share_rows(segment: Sequence[WrittenWords]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield each term of several revisions, in order, with its packed members and postings."""
    import numpy as np

    numbers: dict[str, int] = {}
    term_of = [
        numbers.setdefault(term, len(numbers)) for row in segment for term in row.words.terms
    ]
    terms = sorted(numbers)
    place = np.empty(len(terms), np.int64)
    place[[numbers[term] for term in terms]] = np.arange(len(terms))
    # One element for each term of each revision, then one for each chunk of these.
    found = place[term_of]
    counts = np.concatenate([np.array(row.words.chunks, np.int64) for row in segment])
    sizes = [len(row.words.terms) for row in segment]
    refs = np.array([(row.ref.document, row.ref.revision) for row in segment], np.int64)
    members = np.column_stack((np.repeat(refs, sizes, axis=0), counts)).astype("<u4")
    pairs = np.frombuffer(b"".join([row.words.packed for row in segment]), f"V{PAIR.size}")
    if len(terms) <= 1 << 16:
        # A stable sort of 16-bit numbers takes a fraction of the time.
        found = found.astype(np.uint16)
    order = np.argsort(found, kind="stable")
    packed_members = members[order].tobytes()
    packed_pairs = pairs[np.argsort(np.repeat(found, counts), kind="stable")].tobytes()
    ends = np.cumsum(np.bincount(found, minlength=len(terms))) * MEMBER.size
    pair_ends = np.cumsum(np.bincount(found, counts, len(terms)).astype(np.int64)) * PAIR.size
    start = pair_start = 0
    for term, end, pair_end in zip(terms, ends.tolist(), pair_ends.tolist(), strict=True):
        yield term, packed_members[start:end], packed_pairs[pair_start:pair_end]
        start, pair_start = end, pair_end


def digest_texts(texts: Iterable[tuple[int, str]]) -> bytes:
    """Return the digest of a list of chunk texts, given by index and hash."""
    return sha256("".join(f"{index}:{text_hash}\n" for index, text_hash in texts).encode()).digest()


_LENGTH_SIZE = 3 * array("I").itemsize
"""Bytes of the index, the length and the language of a chunk."""


def read_lengths(
    scope: Scope,
    ref: RevisionRef,
    recipe: str | None,
    texts: bytes | None,
    lengths: bytes | None,
    *segment: int | None,
) -> tuple[str | None, dict[int, int], dict[int, str]]:
    """Return the recipe of counted words, the number of words of each chunk, and other languages.

    Missing and damaged counts are None and empty. The code of a language has at most four letters.
    """
    packed = (lengths or b"")[:-SEAL]
    identity = LENGTHS, scope.world, scope.generation.number, ref, recipe, texts, *segment
    if lengths is None or lengths != _seal(packed, *identity) or len(packed) % _LENGTH_SIZE:
        return None, {}, {}
    numbers = array("I", packed)
    indexes = numbers[::3]
    codes = zip(indexes, numbers[2::3], strict=True)
    return (
        recipe,
        dict(zip(indexes, numbers[1::3], strict=True)),
        {index: code.to_bytes(4).strip(b"\0").decode() for index, code in codes if code},
    )
