"""One chunk against one point: pure, and the same when looking and when applying."""

from __future__ import annotations

from dataclasses import astuple
from hashlib import blake2b

import numpy as np

from truespan.model.chunk import IndexedPoint, PendingChunk, PointPlace
from truespan.upkeep.doctor.findings import Action, Finding
from truespan.upkeep.doctor.plan import Item

DIGEST = 16
LEAST_NORM = 1e-6
UNIT_WITHIN = 1e-3
"""Kept vectors have the length one. Rounding moves it far less than this."""
SAME_WITHIN = 1e-6
"""Two vectors this close give the same results; which of them is the older does not matter."""


def trace(point: IndexedPoint, dimensions: int) -> bytes:
    """Return all that has to be remembered of a point: digests of its parts, and its soundness.

    One byte object for each point keeps the memory of a scan small, whatever its vectors weigh.
    """
    flaw = vector_flaw(point.vector, dimensions)
    return (
        digest((point.text_hash or "?").encode())
        + digest(_spelled(point.place))
        + digest(point.vector)
        + (flaw.value if flaw else "").encode()
    )


def judge(chunk: PendingChunk, found: bytes | None, *, placed: bool = True) -> Item | None:
    """Return what is wrong between a chunk and its point, the gravest first; None if nothing is.

    `placed` is false where the chunk's row is broken, so that it does not know its own place.
    """
    finding = _difference(chunk, found, placed)
    if finding is None:
        return None
    return Item(finding, Action.WRITE, chunk.chunk_id, _seen(chunk, found))


def vector_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why no vector of the profile can look like this; None when one can."""
    if len(vector) != 4 * dimensions:
        return Finding.MIXED_MODEL
    norm = _norm(vector)
    # One comparison catches everything: NaN and infinity survive squaring and summing.
    return None if LEAST_NORM < norm < float("inf") else Finding.NON_FINITE


def kept_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why a kept vector cannot be believed; its length of one is its only checksum."""
    flaw = vector_flaw(vector, dimensions)
    if flaw is None and abs(_norm(vector) - 1.0) > UNIT_WITHIN:
        return Finding.CHANGED_VECTOR
    return flaw


def alike(one: bytes, other: bytes) -> float:
    """Return the cosine of two vectors; 0 if they cannot be compared."""
    if len(one) != len(other):
        return 0.0
    norms = _norm(one) * _norm(other)
    if not 0 < norms < float("inf"):
        return 0.0
    return float(_numbers(one) @ _numbers(other)) / norms


def digest(data: bytes) -> bytes:
    """Return a digest for comparing."""
    return blake2b(data, digest_size=DIGEST).digest()


def _difference(chunk: PendingChunk, found: bytes | None, placed: bool) -> Finding | None:
    if chunk.vector is None:
        return Finding.NO_VECTOR
    if found is None:
        return Finding.MISSING_POINT
    text, place, vector = (found[at : at + DIGEST] for at in (0, DIGEST, 2 * DIGEST))
    if text != digest(chunk.text_hash.encode()):
        return Finding.STALE_POINT
    if flaw := found[3 * DIGEST :]:
        return Finding(flaw.decode())
    if vector != digest(chunk.vector):
        return Finding.CHANGED_VECTOR
    if placed and place != digest(_spelled(_place(chunk))):
        return Finding.MISPLACED_POINT
    return None


def _place(chunk: PendingChunk) -> PointPlace:
    return PointPlace(
        chunk.document,
        chunk.first_sid,
        chunk.last_sid,
        chunk.reach,
        chunk.chapter.casefold(),
        chunk.section.casefold(),
        chunk.kind.value,
    )


def _spelled(place: PointPlace | None) -> bytes:
    return b"" if place is None else repr(tuple(map(_plain, astuple(place)))).encode()


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def _seen(chunk: PendingChunk, found: bytes | None) -> str:
    expected = repr((chunk.text_hash, _spelled(_place(chunk)), chunk.revision, chunk.index))
    parts = digest(expected.encode()) + digest(chunk.vector or b"") + (found or b"none")
    return digest(parts).hex()


def _norm(vector: bytes) -> float:
    # Numbers that are not finite are what is looked for here, and no reason for a warning.
    with np.errstate(all="ignore"):
        numbers = _numbers(vector)
        return float(np.sqrt(numbers @ numbers))


def _numbers(vector: bytes) -> np.ndarray:
    return np.frombuffer(vector, dtype="<f4").astype(np.float64)
