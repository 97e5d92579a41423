"""The embedded index behind the port `VectorIndex`: Qdrant Edge, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import astuple

from truespan.adapters.edge.link import EdgeLink
from truespan.adapters.edge.wire import (
    Collection,
    Count,
    Counted,
    Delete,
    DeleteStale,
    Discard,
    Done,
    Erase,
    Erased,
    Flush,
    Found,
    ListCollections,
    Listed,
    ListTenants,
    Page,
    Prepare,
    Prepared,
    Reply,
    Request,
    Reset,
    Retire,
    Scan,
    Search,
    Tenants,
    Upsert,
    WirePlace,
    WirePoint,
    as_error,
)
from truespan.adapters.qdrant_filter import Equals, Field, HasId, conditions, tenant
from truespan.adapters.qdrant_hits import check_length, check_vector, hits_of, slices
from truespan.adapters.qdrant_score import threshold
from truespan.model.chunk import Holdings, IndexedPoint, Point, PointPlace, Vector
from truespan.model.erasure import FileFate
from truespan.model.ids import ChunkId, TextHash
from truespan.model.profile import EmbeddingProfile
from truespan.model.scope import Scope
from truespan.model.trail import Hit

R = TypeVar("R", bound=Reply)

_POINTS_PER_REQUEST = 128
"""Searches of other clients wait while a request is carried out: about 15 ms for this many."""

_IDS_PER_REQUEST = 1000
_POINTS_PER_PAGE = 256
_BYTES_PER_PAYLOAD = 512


class EdgeIndex:
    """Speaks to the index process of a folder, which all programs on the machine share.

    Nothing is opened or started before the first call. Threads may share one object.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reserve: int,
        idle_seconds: float = 300,
        start_timeout: float = 30,
        request_timeout: float = 60,
    ) -> None:
        self._reserve = reserve
        self._link = EdgeLink(
            folder,
            idle_seconds=idle_seconds,
            start_timeout=start_timeout,
            request_timeout=request_timeout,
        )
        self._prepared: set[tuple[int, str]] = set()

    def prepare(self, scope: Scope) -> bool:
        """Make sure the profile's collection and its payload indexes exist; say if it is empty.

        Asks each index process once: what it has prepared stays prepared.
        """
        profile = scope.profile.id
        if (self._link.server, profile) in self._prepared:
            return False
        reply = self._ask(Prepare(_collection(scope)), Prepared)
        self._prepared.add((self._link.server, profile))
        return reply.empty

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points in slices; the first is written only if there is room for all."""
        collection = _collection(scope)
        wire = [_wire_point(point, collection.size) for point in points]
        for start in range(0, len(wire), _POINTS_PER_REQUEST):
            room = self._reserve + _bytes_needed(len(wire) - start, collection.size)
            part = wire[start : start + _POINTS_PER_REQUEST]
            self._ask(Upsert(collection, scope.tenant, part, room), Done)

    def flush(self, scope: Scope) -> None:
        """Return once everything written so far is on the disk."""
        self._ask(Flush(_collection(scope)), Done)

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Remove points by id, if they belong to the scope's world and generation."""
        for part in slices(ids, _IDS_PER_REQUEST):
            self._ask(Delete(_collection(scope), (tenant(scope), HasId(part))), Done)

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        """Remove each point unless it was embedded anew, with another hash, in the meantime."""
        for part in slices(stale, _IDS_PER_REQUEST):
            where = (tenant(scope),)
            self._ask(DeleteStale(_collection(scope), where, list(part)), Done)

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        """Return the best hits; conditions and floor are part of the request."""
        return self.search_with(scope, vector, limit=limit, floor=floor, ids=())[0]

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        """Return the best hits, and the hits among `ids`, in one request."""
        collection = _collection(scope)
        check_vector(vector, collection.size)
        if scope.documents == frozenset() or limit < 1:
            return [], []
        sent = None if floor is None else threshold(floor, collection.distance)
        request = Search(collection, conditions(scope), vector, limit, sent, tuple(ids))
        found = self._ask(request, Found)
        distance = collection.distance
        return hits_of(found.hits, distance, floor), hits_of(found.named, distance, floor)

    def approximate(self, scope: Scope) -> bool:
        """Say that none is: each search compares with every point that its scope allows."""
        del scope
        return False

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Give every point of the world and generation, page by page.

        Vectors come back bit for bit if their length is one; the index scales others to that.
        """
        start: str | None = None
        while True:
            request = Scan(_collection(scope), (tenant(scope),), start, _POINTS_PER_PAGE)
            page = self._ask(request, Page)
            if page.points:
                yield [_indexed(*point) for point in page.points]
            if page.next is None:
                return
            start = page.next

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        """Return points by id, if they belong to the scope's world and generation."""
        found: list[IndexedPoint] = []
        for part in slices(ids, _POINTS_PER_PAGE):
            where = (tenant(scope), HasId(part))
            page = self._ask(Scan(_collection(scope), where, None, len(part)), Page)
            found.extend(_indexed(*point) for point in page.points)
        return found

    def tenants(self, scope: Scope, *, limit: int) -> Holdings:
        """Return whose points the profile's collection holds, and how many."""
        reply = self._ask(ListTenants(_collection(scope), limit), Tenants)
        return Holdings(reply.counts, reply.points)

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Remove the points of a tenant by its name, which need not be one a scope can have."""
        where = (Equals(Field.TENANT, tenant),)
        self._ask(Delete(_collection(scope), where), Done)

    def collections(self) -> list[str]:
        """Return the profiles that have files, whatever state these are in."""
        return self._ask(ListCollections(), Listed).names

    def discard(self, profile: str) -> None:
        """Remove the files of a profile's collection."""
        self._ask(Discard(profile), Done)

    def count(self, scope: Scope) -> int:
        """Return how many points the world and generation have."""
        return self._ask(Count(_collection(scope), (tenant(scope),)), Counted).points

    def drop(self, scope: Scope) -> None:
        """Remove every point of the world and generation."""
        self._ask(Delete(_collection(scope), (tenant(scope),)), Done)

    def reset(self, scope: Scope) -> None:
        """Remove the profile's collection, points of all worlds included, and make it anew.

        For files that cannot be opened any more; the points come back from the store.
        """
        self._ask(Reset(_collection(scope)), Done)

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        """Have the profile's files written anew from their live points, step by step.

        Searches of other clients are answered between two steps.
        """
        collection, ticket, done = _collection_of(profile), 0, False
        while not done:
            reply = self._ask(Erase(collection, ticket, self._reserve), Erased)
            ticket, done = reply.ticket, reply.done
        return FileFate.GONE

    def retire(self) -> None:
        """Ask the shared process, if it runs, to end cleanly; whoever asks next starts another."""
        if self._link.has_process():
            self._ask(Retire(), Done)
        self.close()

    def close(self) -> None:
        """Let go of the process, which ends when nobody has used it for a while."""
        self._link.close()

    def _ask(self, request: Request, expected: type[R]) -> R:
        reply = self._link.ask(request)
        if isinstance(reply, expected):
            return reply
        raise as_error(reply)


def _collection(scope: Scope) -> Collection:
    return _collection_of(scope.profile)


def _collection_of(profile: EmbeddingProfile) -> Collection:
    return Collection(profile.id, profile.dimensions, profile.distance.value)


def _wire_point(point: Point, size: int) -> WirePoint:
    check_length(point.vector, size)
    return WirePoint(
        point.chunk_id,
        point.vector,
        point.text_hash,
        point.document,
        point.pos_start,
        point.pos_end,
        point.pos_reach,
        point.chapter.casefold(),
        point.section.casefold(),
        point.kind.value,
    )


def _bytes_needed(points: int, size: int) -> int:
    """Return what points take on the disk: once in the log of writes and once in their place."""
    return 2 * points * (4 * size + _BYTES_PER_PAYLOAD)


def _indexed(
    id: str, text_hash: str | None, vector: bytes, place: WirePlace | None
) -> IndexedPoint:
    found = None if text_hash is None else TextHash(text_hash)
    where = None if place is None else PointPlace(*astuple(place))
    return IndexedPoint(ChunkId(id), found, Vector(vector), where)
