"""Points, filters and searches in the classes of the client library, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from qdrant_client import models

from truespan.adapters.qdrant_filter import Condition, Field, build, names_tenant
from truespan.adapters.qdrant_score import float32
from truespan.adapters.vector_bytes import NO_VECTOR, bytes_of, numbers_of
from truespan.errors import IndexRefused
from truespan.model.chunk import IndexedPoint, Point, PointPlace, Vector
from truespan.model.ids import ChunkId, TextHash

_HASH_ONLY = models.PayloadSelectorInclude(include=[Field.TEXT_HASH.value])
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
_APPROXIMATE = models.SearchParams(
    exact=False,
    hnsw_ef=256,
    quantization=models.QuantizationSearchParams(ignore=False, rescore=True, oversampling=3.0),
)
RawHit: TypeAlias = tuple[str, float, str]
"""Id, raw score and text hash."""


def nearest(
    where: Sequence[Condition],
    vector: Vector,
    limit: int,
    threshold: float | None,
    *,
    approximate: bool,
) -> models.QueryRequest:
    """Return a search that brings ids, scores and hashes, and nothing else."""
    return models.QueryRequest(
        query=models.NearestQuery(nearest=numbers_of(vector).tolist()),
        filter=filter_of(where),
        params=_APPROXIMATE if approximate else _EXACT,
        limit=limit,
        score_threshold=threshold,
        with_payload=_HASH_ONLY,
        with_vector=False,
    )


def filter_of(where: Sequence[Condition]) -> models.Filter:
    """Return the filter; one that would reach every world is not made."""
    if not names_tenant(where):
        raise IndexRefused("A request without world and generation is refused.")
    return build(where, models)


def payload_of(tenant: str, point: Point) -> dict[str, str | int]:
    """Return what filters go by, and the hash; no text."""
    return {
        Field.TENANT.value: tenant,
        Field.DOCUMENT.value: point.document,
        Field.TEXT_HASH.value: point.text_hash,
        Field.POS_START.value: point.pos_start,
        Field.POS_END.value: point.pos_end,
        Field.POS_REACH.value: point.pos_reach,
        Field.CHAPTER.value: point.chapter.casefold(),
        Field.SECTION.value: point.section.casefold(),
        Field.KIND.value: point.kind.value,
    }


def raw_hit(found: models.ScoredPoint) -> RawHit:
    """Return what a search says of a point; no hash is an empty one."""
    # JSON has the shortest digits that name a float32, which read as a double are another number.
    return str(found.id), float32(found.score), _hash(found.payload) or ""


def indexed(record: models.Record) -> IndexedPoint:
    """Return a point as it was read back, with what of it makes sense."""
    text_hash = _hash(record.payload)
    return IndexedPoint(
        ChunkId(str(record.id)),
        None if text_hash is None else TextHash(text_hash),
        _vector(record.vector),
        _place(record.payload),
    )


def _hash(payload: dict[str, Any] | None) -> str | None:
    found = (payload or {}).get(Field.TEXT_HASH.value)
    return found if isinstance(found, str) else None


def _vector(found: object) -> Vector:
    # The client library passes vectors on unseen.
    if not isinstance(found, list) or not all(type(one) in (int, float) for one in found):
        return NO_VECTOR
    return Vector(bytes_of(found))


def _place(payload: dict[str, Any] | None) -> PointPlace | None:
    try:
        return msgspec.convert(payload or {}, PointPlace, strict=True)
    except msgspec.ValidationError:
        return None
