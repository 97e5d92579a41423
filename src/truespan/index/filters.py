"""Filters, payloads and scores of Qdrant, embedded or on a server.

A condition is a small value that can be compared, sent and shown in a test. `build` turns
conditions into the classes of one Qdrant module: the embedded engine and the client library of the
server have different classes of the same names. No other module builds a filter.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from truespan.core.decoding import prepare
from truespan.errors import IndexRefused
from truespan.types.chunk import ChunkKind, IndexedPoint, Point, PointPlace
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import float32
from truespan.types.text import fold_names
from truespan.types.trust import Hit
from truespan.types.vectors import Vector, bytes_of, norm_of

if TYPE_CHECKING:
    from truespan.types.scope import Scope


T = TypeVar("T")

_EXACT = 2**53
"""Ranges are compared as float64, which has gaps beyond this number."""


class Field(StrEnum):
    """The payload fields of a point. There is no field for text."""

    TENANT = "tenant"
    DOCUMENT = "document"
    TEXT_HASH = "text_hash"
    POS_START = "pos_start"
    POS_END = "pos_end"
    POS_REACH = "pos_reach"
    CHAPTER = "chapter"
    SECTION = "section"
    KIND = "kind"


_TENANT, _DOCUMENT, _TEXT_HASH, _START, _END, _REACH, _CHAPTER, _SECTION, _KIND = (
    field.value for field in Field
)


def payload_of(tenant: str, point: Point) -> dict[str, str | int | list[str]]:
    """Return the payload of a point: the text hash and the fields of filters, but no text.

    A condition on a field with several values holds if it holds for one of them.
    """
    payload: dict[str, str | int | list[str]] = {
        _TENANT: tenant,
        _DOCUMENT: point.document,
        _TEXT_HASH: point.text_hash,
        _START: point.pos_start,
        _END: point.pos_end,
        _REACH: point.pos_reach,
    }
    # Converting texts and lists takes Edge longer than storing them, so a point has few of them: an
    # empty list of names costs a tenth of writing a point.
    if point.chapters:
        payload[_CHAPTER] = _names_of(point.chapters)
    if point.sections:
        payload[_SECTION] = _names_of(point.sections)
    if point.kind is not ChunkKind.TEXT:
        payload[_KIND] = point.kind.value
    return payload


# Shared by threads: an `lru_cache`, which locks, of texts and of lists that are only read.
@lru_cache(maxsize=1024)
def _names_of(names: tuple[str, ...]) -> str | list[str]:
    """Return names in the form for comparison; a single name needs no list."""
    folded = fold_names(names)
    return folded[0] if len(folded) == 1 else list(folded)


def text_hash_of(payload: dict[str, Any] | None) -> TextHash | None:
    """Return the text hash in a payload; None if there is none or it is not text."""
    found = payload.get(_TEXT_HASH) if payload else None
    return TextHash(found) if isinstance(found, str) else None


def indexed_point(record: Any, vector: list[float] | None) -> IndexedPoint:
    """Return a record of Qdrant as a point; an incomplete or invalid place is left out."""
    payload: dict[str, Any] = {**(record.payload or {})}
    for field in (_CHAPTER, _SECTION):
        if isinstance(name := payload.get(field), str):
            payload[field] = (name,)
    try:
        place = msgspec.convert(payload, prepare(PointPlace), strict=True)
    except msgspec.ValidationError:
        place = None
    text_hash = text_hash_of(record.payload)
    return IndexedPoint(ChunkId(str(record.id)), text_hash, Vector(bytes_of(vector or ())), place)


class Equals(Struct, frozen=True, tag="equals", array_like=True):
    """The field has exactly this value."""

    field: Field
    value: str | int

    def __post_init__(self) -> None:
        if type(self.value) not in (str, int):
            raise TypeError("A filter compares with a string or a whole number.")


class AnyOf(Struct, frozen=True, tag="any_of", array_like=True):
    """The field has one of these values. An empty list is refused, not read as "any value"."""

    field: Field
    values: tuple[str | int, ...]

    def __post_init__(self) -> None:
        _check_values(self.values)


class Numbers(Struct, frozen=True, tag="numbers", array_like=True):
    """The document is one of many, or none of them if they are `excluded`.

    `packed` has the numbers, sorted, in four bytes each: converting a list of 50,000 numbers for
    each search takes milliseconds. `share` is that of the documents in scope; 0 if unknown.
    """

    packed: bytes
    excluded: bool = False
    share: float = 0.0

    def __post_init__(self) -> None:
        if type(self.packed) is not bytes or not self.packed or len(self.packed) % NUMBER_BYTES:
            raise TypeError("Numbers of documents are packed in four bytes each, at least one.")

    def admits(self, document: object) -> bool:
        """Return whether a point of this document meets the condition."""
        return isinstance(document, int) and (document in unpack(self.packed)) != self.excluded


NUMBER_BYTES = 4


# Shared by threads: an `lru_cache`, which locks, of bytes.
@lru_cache(maxsize=64)
def pack(numbers: frozenset[int]) -> bytes:
    """Return numbers of documents for `Numbers`; a set that was packed before costs nothing."""
    return array("I", sorted(numbers)).tobytes()


# Shared by threads: an `lru_cache`, which locks, of sets.
@lru_cache(maxsize=8)
def unpack(packed: bytes) -> frozenset[int]:
    """Return the numbers of documents of `Numbers`."""
    return frozenset(array("I", packed))


class AtMost(Struct, frozen=True, tag="at_most", array_like=True):
    """The field is a number not above this value."""

    field: Field
    value: int

    def __post_init__(self) -> None:
        if type(self.value) is not int or abs(self.value) > _EXACT:
            raise TypeError("A bound must be a whole number that float64 can hold.")


class HasId(Struct, frozen=True, tag="has_id", array_like=True):
    """The point is one of these."""

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_values(self.ids)
        if type(self.ids[0]) is not str:
            raise TypeError("A point id must be a string.")


Condition: TypeAlias = Equals | AnyOf | Numbers | AtMost | HasId
MAX_LISTED = 256
"""Maximum number of documents that Qdrant looks up one by one; more are compared with instead."""


def tenant(scope: Scope) -> Equals:
    """Return the condition that every request must have: its world and generation."""
    return Equals(Field.TENANT, scope.tenant)


def conditions(scope: Scope) -> tuple[Condition, ...]:
    """Return the conditions of a scope, world and generation first.

    No conditions can express a scope without any document; callers must not search such a scope.
    """
    # Imported here because the index process builds filters but never handles a scope.
    from truespan.types.scope import DocumentSubset, Unlimited

    result: list[Condition] = [Equals(Field.TENANT, scope.tenant)]
    documents, share = scope.documents, 0.0
    others: frozenset[int] | None = None
    if isinstance(documents, DocumentSubset):
        others, share = documents.others, documents.share
    if not isinstance(documents, Unlimited):
        if others is not None and len(others) < len(documents):
            result += [Numbers(pack(others), excluded=True, share=share)] if others else []
        elif len(documents) > MAX_LISTED:
            result.append(Numbers(pack(documents), share=share))
        else:
            result.append(AnyOf(Field.DOCUMENT, tuple(sorted(documents))))
    if scope.chapter is not None:
        result.append(Equals(Field.CHAPTER, scope.chapter))
    if scope.section is not None:
        result.append(Equals(Field.SECTION, scope.section))
    if scope.position is not None:
        # The reader has reached it, and, which is stricter, no unread sentence decided it.
        result.append(AtMost(Field.POS_START, scope.position))
        result.append(AtMost(Field.POS_REACH, scope.position))
    return tuple(result)


def build(where: Sequence[Condition], models: ModuleType | Any) -> Any:
    """Return the filter in the classes of `models`; a filter must be limited to one tenant."""
    if not any(
        isinstance(condition, Equals)
        and condition.field is Field.TENANT
        and isinstance(condition.value, str)
        and condition.value
        for condition in where
    ):
        raise IndexRefused("A request without world and generation is refused.")
    embedded = hasattr(models, "EdgeShard")
    must: list[Any] = []
    must_not: list[Any] = []
    for condition in where:
        match condition:
            case Equals(field, value):
                matched = {"match": models.MatchValue(value=value)}
            case AnyOf(field, values):
                matched = {"match": models.MatchAny(any=list(values))}
            case Numbers(packed, excluded):
                (must if excluded else must_not).append(_except_documents(packed, models))
                continue
            case AtMost(field, value):
                kind = models.RangeFloat if embedded else models.Range
                matched = {"range": kind(lte=value)}
            case HasId(ids):
                chosen = models.HasIdCondition
                must.append(chosen(set(ids)) if embedded else chosen(has_id=list(ids)))
                continue
        must.append(models.FieldCondition(key=field.value, **matched))
    return models.Filter(must=must, **({"must_not": must_not} if must_not else {}))


# Shared by threads: an `lru_cache`, which locks, of conditions that are only read.
@lru_cache(maxsize=8)
def _except_documents(packed: bytes, models: ModuleType | Any) -> Any:
    others = models.MatchExcept(**{"except": list(array("I", packed))})
    return models.FieldCondition(key=_DOCUMENT, match=others)


def _check_values(values: Sequence[str | int]) -> None:
    # A bool is an int to Python and another value to Qdrant; a mixed list matches only a part.
    kinds = {type(value) for value in values}
    if kinds != {str} and kinds != {int}:
        raise TypeError("A filter compares with strings or with whole numbers, at least one.")


_SIGN = 0x8000_0000
_ROUNDED_AWAY = 2**-52


def threshold(floor: float, distance: str) -> float:
    """Return the raw score threshold that keeps every hit at `floor`.

    Qdrant returns scores strictly above its threshold, so it gets the next smaller number. Callers
    compare each similarity with `float32(floor)` again, because a few more may pass.
    """
    least = float32(floor)
    if distance != "cosine":
        # Raw scores just below zero are rounded to exactly 0.5 in (raw + 1) / 2.
        least = float32(2 * least - 1 - _ROUNDED_AWAY)
    (bits,) = struct.unpack("<I", struct.pack("<f", least))
    if least == 0:
        bits = _SIGN | 1
    elif bits & _SIGN:
        bits += 1
    else:
        bits -= 1
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def hits_of(
    found: Sequence[tuple[str, float, str]], distance: str, floor: float | None
) -> list[Hit]:
    """Return ids, raw scores and hashes as hits, without those below the floor.

    The score of a hit is its similarity: a cosine unchanged, a dot product as a number from 0 to 1.
    """
    least, is_cosine = -math.inf if floor is None else float32(floor), distance == "cosine"
    return [
        Hit(ChunkId(id), score, TextHash(text_hash))
        for id, raw, text_hash in found
        if (score := raw if is_cosine else (raw + 1) / 2) >= least
    ]


def check_vector(vector: Vector, size: int, *, finite: bool = True) -> None:
    """Refuse a vector of another length or, if it must be `finite`, with other numbers."""
    if len(vector) != 4 * size:
        raise IndexRefused(
            f"A vector has {len(vector) / 4:g} dimensions; the collection has {size}."
        )
    if finite and not math.isfinite(norm_of(vector)):
        raise IndexRefused("A vector holds numbers that are not finite.")


def slices(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yield slices of at most `size` items."""
    return (tuple(items[start : start + size]) for start in range(0, len(items), size))
