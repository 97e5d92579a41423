"""Test doubles for programs that use Truespan: an embedder, a token counter, an index and a clock.

    import truespan
    from truespan.testing import WordCounter, WordEmbedder

    doubles = {"embedder": WordEmbedder(), "counter": WordCounter()}
    with truespan.open(folder, create=True, **doubles) as library:
        library.world().add_text("The key hangs on hook seven.")

They need no model and no network, and give the same result in every run.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from truespan.types.chunk import IndexedPoint, Point, PointCounts, PointPlace
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import FileTreatment, Ownership
from truespan.types.profile import Distance, EmbeddingLimits, EmbeddingProfile
from truespan.types.scope import Scope, admits
from truespan.types.text import TokenMap, fold_names
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

__all__ = ["ManualClock", "MemoryIndex", "WordCounter", "WordEmbedder", "similarity", "vector_of"]

WORDS = EmbeddingProfile(
    provider="test",
    model="words",
    revision="1",
    dimensions=64,
    distance=Distance.COSINE,
    document_mode="document",
    query_mode="query",
    input_limit=400,
)
"""Embedding profile of `WordEmbedder`."""


def vector_of(text: str, dimensions: int = 64) -> Vector:
    """Return a unit vector in which each word has a direction: texts that share words are close."""
    numbers = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or ["(none)"]:
        first, second = _directions(word)
        numbers[first % dimensions] += 1.0
        numbers[second % dimensions] += 0.5
    norm = math.sqrt(sum(number * number for number in numbers))
    return Vector(array("f", [number / norm for number in numbers]).tobytes())


# Shared by threads: a cache of a pure function.
@lru_cache(1 << 16)
def _directions(word: str) -> tuple[int, int]:
    digest = sha256(word.encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


# Shared by threads: in tests; texts are only appended to its lists.
@dataclass
class WordEmbedder:
    """An embedder whose vectors depend on the words alone; it records the texts it embedded."""

    profile: EmbeddingProfile = WORDS
    endpoint: str = "test"
    limits: EmbeddingLimits = field(
        default_factory=lambda: EmbeddingLimits(items=16, in_flight=1, joint=False)
    )
    documents: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    before: Callable[[], None] | None = None
    """Called before every request; may raise."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.before:
            self.before()
        self.documents.extend(texts)
        return [vector_of(text, self.profile.dimensions) for text in texts]

    def embed_query(self, text: str) -> Vector:
        if self.before:
            self.before()
        self.queries.append(text)
        return vector_of(text, self.profile.dimensions)

    def count_query(self, text: str) -> int:
        return len(text.split())

    @property
    def calls(self) -> int:
        return len(self.documents) + len(self.queries)


class WordCounter:
    """A token counter that counts words between white space."""

    name = "words-1"

    def measure(self, text: str) -> TokenMap:
        starts = [found.start() for found in re.finditer(r"\S+", text)]
        return TokenMap(text, starts, range(len(starts) + 1), self.count)

    def count(self, text: str) -> int:
        return len(text.split())


# Shared by threads: in tests; pauses are only appended to its list.
@dataclass
class ManualClock:
    """A clock whose `time` you set; it never waits and records the requested pauses."""

    time: float = 1_000_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


# Shared by threads: in tests; points are copied before they are iterated over.
class MemoryIndex:
    """An exact index in memory, which passes the same contract tests as the real indexes.

    Threads may share it: points are copied before they are iterated over.
    """

    def __init__(self) -> None:
        self.points: dict[tuple[str, str], dict[ChunkId, Point]] = {}
        self.calls: list[str] = []

    def _of(self, scope: Scope) -> dict[ChunkId, Point]:
        return self.points.setdefault((scope.profile.id, scope.tenant), {})

    def prepare(self, scope: Scope) -> bool:
        self.calls.append("prepare")
        return not any(
            points
            for (profile, _), points in list(self.points.items())
            if profile == scope.profile.id
        )

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        self.calls.append("upsert")
        self._of(scope).update({point.chunk_id: point for point in points})

    def flush(self, scope: Scope) -> None:
        del scope
        self.calls.append("flush")

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        self.calls.append("delete")
        for chunk_id in ids:
            self._of(scope).pop(chunk_id, None)

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        self.calls.append("delete_stale")
        for chunk_id, text_hash in stale:
            point = self._of(scope).get(chunk_id)
            if point is not None and point.text_hash == text_hash:
                del self._of(scope)[chunk_id]

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        self.calls.append("search")
        hits = [
            Hit(point.chunk_id, similarity(vector, point.vector), point.text_hash)
            for point in list(self._of(scope).values())
            if _within(point, scope)
        ]
        kept = [hit for hit in hits if floor is None or hit.score >= floor - 1e-7]
        return sorted(kept, key=lambda hit: -hit.score)[:limit]

    def start_search(
        self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
    ) -> Callable[[], list[Hit]]:
        return lambda: self.search(scope, vector, limit=limit, floor=floor)

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        everything = self.search(scope, vector, limit=1 << 30, floor=floor)
        hits = self.search(scope, vector, limit=limit, floor=floor)
        return hits, [hit for hit in everything if hit.chunk_id in set(ids)]

    def approximate(self, scope: Scope) -> bool:
        del scope
        return False

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        points = list(self._of(scope).values())
        for start in range(0, len(points), 100):
            yield [_indexed(point) for point in points[start : start + 100]]

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        points = self._of(scope)
        return [_indexed(points[chunk_id]) for chunk_id in ids if chunk_id in points]

    def tenants(self, scope: Scope, *, limit: int) -> PointCounts:
        counts = {
            tenant: len(points)
            for (profile, tenant), points in list(self.points.items())
            if profile == scope.profile.id and points
        }
        return PointCounts(dict(sorted(counts.items())[:limit]), sum(counts.values()))

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        self.points.pop((scope.profile.id, tenant), None)

    def collections(self) -> list[str]:
        return sorted({profile for (profile, _), points in list(self.points.items()) if points})

    def discard(self, profile: str) -> None:
        for key in [key for key in self.points if key[0] == profile]:
            del self.points[key]

    def ownership(self, profile: str) -> Ownership:
        del profile
        return Ownership.OWN

    def claim(self, profile: str) -> None:
        self.calls.append(f"claim {profile}")

    def count(self, scope: Scope) -> int:
        return len(self._of(scope))

    def count_within(self, scope: Scope) -> int:
        self.calls.append("count_within")
        return sum(_within(point, scope) for point in list(self._of(scope).values()))

    def drop(self, scope: Scope) -> None:
        self._of(scope).clear()

    def erase(self, profile: EmbeddingProfile) -> FileTreatment:
        del profile
        self.calls.append("erase")
        return FileTreatment.GONE

    def reset(self, scope: Scope) -> None:
        for key in [key for key in self.points if key[0] == scope.profile.id]:
            del self.points[key]

    def close(self) -> None:
        self.calls.append("close")


def _indexed(point: Point) -> IndexedPoint:
    place = PointPlace(
        document=point.document,
        pos_start=point.pos_start,
        pos_end=point.pos_end,
        pos_reach=point.pos_reach,
        chapter=fold_names(point.chapters),
        section=fold_names(point.sections),
        kind=point.kind,
    )
    return IndexedPoint(point.chunk_id, point.text_hash, point.vector, place)


def _within(point: Point, scope: Scope) -> bool:
    position = scope.position
    return (
        admits(scope.documents, point.document)
        and scope.chapter in (None, *fold_names(point.chapters))
        and scope.section in (None, *fold_names(point.sections))
        and (position is None or (point.pos_start <= position and point.pos_reach <= position))
    )


def similarity(one: Vector, other: Vector) -> float:
    """Return the cosine similarity of two unit vectors in float32, as an index does."""
    return array("f", [sum(map(float.__mul__, array("f", one), array("f", other)))])[0]
