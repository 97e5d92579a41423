"""A vector index over Qdrant's calls, embedded or on a server, and the calls it needs.

`IndexCalls` is implemented by the shards in the index process and by the client of a Qdrant server.
The index process also uses it as its table of remote calls: names, argument types, result types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, TypeAlias

from msgspec import Struct

from truespan.index.filters import (
    Condition,
    Equals,
    Field,
    HasId,
    check_vector,
    conditions,
    hits_of,
    slices,
    tenant,
    threshold,
)
from truespan.types.chunk import IndexedPoint, Point, PointCounts
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.maintenance import FileTreatment, Ownership
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

RawHit: TypeAlias = tuple[str, float, str]
"""Point id, raw score and text hash."""
Where: TypeAlias = tuple[Condition, ...]
"""Conditions that a point must meet, all of them. They always include world and generation."""

BYTES_PER_PAYLOAD = 512
"""Estimated size of the payload of a point."""
REBUILD = "'truespan doctor --apply' rebuilds the index from the store."


class Collection(Struct, frozen=True, array_like=True):
    """The vectors of one embedding profile; `name` is the profile's id."""

    name: str
    size: int
    distance: str

    def __str__(self) -> str:
        return f"{self.size} dimensions, {self.distance} distance"


class Search(Struct, frozen=True, array_like=True):
    """A search for the nearest points, and for the nearest among `ids`, under the same conditions.

    `threshold` is on Qdrant's own scale. The search among `ids` is always exact.
    """

    where: Where
    vector: bytes
    limit: int
    threshold: float | None = None
    ids: tuple[str, ...] = ()
    approximate: bool = False


class IndexCalls(Protocol):
    """Calls of the index. Each names its collection, and each that touches points its tenant.

    The other side keeps no state of a caller between two calls.
    """

    # Create the collection and its indexes if missing; return whether it has no points.
    def prepare(self, collection: Collection) -> bool: ...

    # Advance the conversion of the collection for approximate searches; return whether it is done.
    # The embedded index keeps `reserve` bytes of its disk free.
    def convert(self, collection: Collection, reserve: int) -> bool: ...

    # Return whether worlds of the collection can be searched approximately.
    def can_approximate(self, collection: Collection) -> bool: ...

    # Write all points or none; the embedded index requires `room` free bytes on its disk.
    def upsert(
        self, collection: Collection, tenant: str, points: list[Point], room: int
    ) -> None: ...

    # Return once everything written so far is durable.
    def flush(self, collection: Collection) -> None: ...

    # Remove every point that meets the conditions.
    def delete(self, collection: Collection, where: Where) -> None: ...

    # Remove each point, given by id and text hash, that still has this hash.
    def delete_stale(
        self, collection: Collection, where: Where, stale: list[tuple[str, str]]
    ) -> None: ...

    # Return the nearest points, and the nearest among the ids of the search.
    def search(
        self, collection: Collection, search: Search
    ) -> tuple[list[RawHit], list[RawHit]]: ...

    # Return one page of points with their vectors, and the id that starts the next page.
    def scan(
        self, collection: Collection, where: Where, start: str | None, limit: int
    ) -> tuple[list[IndexedPoint], str | None]: ...

    # Return the number of points that meet the conditions.
    def count(self, collection: Collection, where: Where) -> int: ...

    # Return the point counts of all tenants; the only call that no tenant limits.
    def tenants(self, collection: Collection, limit: int) -> PointCounts: ...

    # Return the names of all collections, also of damaged ones.
    def collections(self) -> list[str]: ...

    # Remove a collection in any state.
    def discard(self, name: str) -> None: ...

    # Remove the collection with the points of every world, and create it empty.
    def reset(self, collection: Collection) -> None: ...

    # Advance the rewrite of a collection from its live points; return ticket and completion. The
    # first call has ticket 0, each further one the ticket that the call before returned. `reserve`
    # bytes must stay free.
    def erase(self, collection: Collection, ticket: int, reserve: int) -> tuple[int, bool]: ...


_POINTS_PER_REQUEST = 128
"""The embedded index answers no other client during a request: about 15 ms for this many points."""
_IDS_PER_REQUEST = 1000
_POINTS_PER_PAGE = 256


class QdrantIndex(ABC):
    """Implements `VectorIndex` by calls, in requests of limited size. Threads may share one."""

    _reserve = 0
    _stale_per_request = _IDS_PER_REQUEST
    _fate_of_erased = FileTreatment.GONE
    _stores_finite = False
    """Whether only finite numbers can be stored."""

    def __init__(self, approximate: frozenset[WorldId] = frozenset()) -> None:
        """`approximate` are the worlds that are searched approximately, except for readers."""
        self._approximate = approximate
        self._prepared: set[tuple[int, str, bool]] = set()

    @abstractmethod
    def _calls(self) -> AbstractContextManager[IndexCalls]:
        """Return the other side, connected on first use."""

    def _process_id(self) -> int:
        """Return a number that changes when another process answers the calls."""
        return 0

    def approximate(self, scope: Scope) -> bool:
        """Return whether the scope is searched approximately.

        The operator must have named its world, and the collection must support it. Searches of
        readers are exact.
        """
        if scope.position is not None or scope.world not in self._approximate:
            return False
        with self._calls() as calls:
            return calls.can_approximate(collection_of(scope.profile))

    def prepare(self, scope: Scope) -> bool:
        """Create the profile's collection and its indexes if missing; return whether it is empty.

        Each process is asked once. The collection of a world with approximate search is converted,
        in steps: the embedded index answers other clients between two steps.
        """
        profile, approximate = scope.profile.id, scope.world in self._approximate
        if (self._process_id(), profile, approximate) in self._prepared:
            return False
        collection = collection_of(scope.profile)
        with self._calls() as calls:
            empty = calls.prepare(collection)
            while approximate and not calls.convert(collection, self._reserve):
                pass
        self._prepared.add((self._process_id(), profile, approximate))
        return empty

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points in slices; the first slice is written only if there is room for all."""
        collection = collection_of(scope.profile)
        for point in points:
            check_vector(point.vector, collection.size, finite=self._stores_finite)
        # Each point is written twice: to the log of writes and to its place.
        bytes_per_point = 2 * (4 * collection.size + BYTES_PER_PAYLOAD)
        left = len(points)
        with self._calls() as calls:
            for part in slices(points, _POINTS_PER_REQUEST):
                room = self._reserve + left * bytes_per_point
                calls.upsert(collection, scope.tenant, list(part), room)
                left -= len(part)

    def flush(self, scope: Scope) -> None:
        with self._calls() as calls:
            calls.flush(collection_of(scope.profile))

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        with self._calls() as calls:
            for part in slices(ids, _IDS_PER_REQUEST):
                calls.delete(collection_of(scope.profile), (tenant(scope), HasId(part)))

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        with self._calls() as calls:
            for part in slices(stale, self._stale_per_request):
                calls.delete_stale(collection_of(scope.profile), (tenant(scope),), list(part))

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        return self.search_with(scope, vector, limit=limit, floor=floor, ids=())[0]

    def start_search(
        self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
    ) -> Callable[[], list[Hit]]:
        return partial(self.search, scope, vector, limit=limit, floor=floor)

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        collection = collection_of(scope.profile)
        search = self._search_request(scope, vector, limit, floor, ids)
        if search is None:
            return [], []
        with self._calls() as calls:
            found, named = calls.search(collection, search)
        distance = collection.distance
        return hits_of(found, distance, floor), hits_of(named, distance, floor)

    def _search_request(
        self,
        scope: Scope,
        vector: Vector,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId] = (),
    ) -> Search | None:
        profile = scope.profile
        check_vector(vector, profile.dimensions)
        if scope.documents == frozenset() or (limit < 1 and not ids):
            return None
        least = None if floor is None else threshold(floor, profile.distance.value)
        approximate = self.approximate(scope)
        return Search(
            where=conditions(scope),
            vector=vector,
            limit=limit,
            threshold=least,
            ids=tuple(ids),
            approximate=approximate,
        )

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Yield every point of the world and generation, page by page.

        Vectors of length one come back bit for bit; the index scales others to that length.
        """
        collection, where = collection_of(scope.profile), (tenant(scope),)
        start: str | None = None
        while True:
            with self._calls() as calls:
                page, start = calls.scan(collection, where, start, _POINTS_PER_PAGE)
            if page:
                yield page
            if start is None:
                return

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        found: list[IndexedPoint] = []
        with self._calls() as calls:
            for part in slices(ids, _POINTS_PER_PAGE):
                where = (tenant(scope), HasId(part))
                found += calls.scan(collection_of(scope.profile), where, None, len(part))[0]
        return found

    def count(self, scope: Scope) -> int:
        return self._count(scope, (tenant(scope),))

    def count_within(self, scope: Scope) -> int:
        return 0 if scope.documents == frozenset() else self._count(scope, conditions(scope))

    def _count(self, scope: Scope, where: Where) -> int:
        with self._calls() as calls:
            found = calls.count(collection_of(scope.profile), where)
        if not found:
            # It may be a new collection, to be prepared before the next write.
            self._prepared.clear()
        return found

    def drop(self, scope: Scope) -> None:
        self.drop_tenant(scope, scope.tenant)

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Remove the points of a tenant by name, even one that no scope can have."""
        with self._calls() as calls:
            calls.delete(collection_of(scope.profile), (Equals(Field.TENANT, tenant),))

    def tenants(self, scope: Scope, *, limit: int) -> PointCounts:
        with self._calls() as calls:
            return calls.tenants(collection_of(scope.profile), limit)

    def collections(self) -> list[str]:
        with self._calls() as calls:
            return calls.collections()

    def discard(self, profile: str) -> None:
        self._prepared.clear()
        with self._calls() as calls:
            calls.discard(profile)

    def ownership(self, profile: str) -> Ownership:
        """Return the owner of a collection; in the library's own folder, the library owns it."""
        del profile
        return Ownership.OWN

    def claim(self, profile: str) -> None:
        """Do nothing: in its own folder, the library is the owner."""
        del profile

    def reset(self, scope: Scope) -> None:
        """Remove the profile's collection with the points of all worlds, and create it empty.

        For files that cannot be opened any more; points are written again from the store.
        """
        self._prepared.clear()
        with self._calls() as calls:
            calls.reset(collection_of(scope.profile))

    def erase(self, profile: EmbeddingProfile) -> FileTreatment:
        """Rewrite the profile's files from their live points, and wait for it.

        The embedded index does so in steps, and answers other clients between two steps.
        """
        ticket, done = 0, False
        with self._calls() as calls:
            while not done:
                ticket, done = calls.erase(collection_of(profile), ticket, self._reserve)
        return self._fate_of_erased


def collection_of(profile: EmbeddingProfile) -> Collection:
    """Return the collection of an embedding profile."""
    return Collection(profile.id, profile.dimensions, profile.distance.value)
