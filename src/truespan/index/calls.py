"""The calls that a Qdrant index answers, embedded or on a server, and the values they exchange.

`IndexCalls` is implemented by the shards in the index process and by the client of a Qdrant server.
The index process also uses it as its table of remote calls: names, argument types, result types.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct

from truespan.index.filters import Condition
from truespan.types.chunk import IndexedPoint, Point, PointCounts

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
