"""The index on a Qdrant server behind the port `VectorIndex`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from truespan.errors import IndexRefused, IndexUnavailable, InvalidConfiguration
from truespan.index.filters import (
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
from truespan.index.server.client import ServerOptions
from truespan.protocols import Clock
from truespan.types.chunk import Holdings, IndexedPoint, Point, Vector
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import FileFate
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.trust import Hit

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from truespan.index.server.requests import Server

INSTALL = "pip install 'truespan[server]'"

_POINTS_PER_REQUEST = 128
_IDS_PER_REQUEST = 1000
_CHANGES_PER_REQUEST = 100
_POINTS_PER_PAGE = 256
_REWRITING_SECONDS = 60.0


class QdrantServerIndex:
    """Speaks to a Qdrant server or cluster, which many machines share.

    Nothing is imported or sent before the first call. Threads may share one object. A `client` may
    be given in place of one for the address in the options.
    """

    def __init__(
        self, options: ServerOptions, clock: Clock, *, client: QdrantClient | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        self._client = client
        self._opening = Lock()
        self._opened: Server | None = None
        self._prepared: set[str] = set()

    def prepare(self, scope: Scope) -> bool:
        """Make sure the profile's collection and its payload indexes exist; say if it is empty.

        Asked once, unless the server failed since: then it may be another one, or an empty one.
        """
        if scope.profile.id in self._prepared:
            return False
        with self._server() as server:
            empty = server.prepare(scope.profile)
        self._prepared.add(scope.profile.id)
        return empty

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points in slices, each carried out before the next is sent."""
        for point in points:
            check_vector(point.vector, scope.profile.dimensions)
        with self._server() as server:
            for part in slices(points, _POINTS_PER_REQUEST):
                server.upsert(scope.profile, scope.tenant, part)

    def flush(self, scope: Scope) -> None:
        """Return once the server says that nothing it took has failed.

        Every write waited until it was carried out. How soon the server has it on its disk is its
        own affair: no request asks for that.
        """
        with self._server() as server:
            server.flush(scope.profile)

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Remove points by id, if they belong to the scope's world and generation."""
        with self._server() as server:
            for part in slices(ids, _IDS_PER_REQUEST):
                server.delete(scope.profile, (tenant(scope), HasId(part)))

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        """Remove each point unless it was embedded anew, with another hash, in the meantime."""
        with self._server() as server:
            for part in slices(stale, _CHANGES_PER_REQUEST):
                server.delete_stale(scope.profile, tenant(scope), part)

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
        profile, distance = scope.profile, scope.profile.distance.value
        check_vector(vector, profile.dimensions)
        if scope.documents == frozenset() or limit < 1:
            return [], []
        with self._server() as server:
            found, named = server.search(
                profile,
                conditions(scope),
                vector,
                limit=limit,
                threshold=None if floor is None else threshold(floor, distance),
                ids=tuple(ids),
                approximate=self.approximate(scope),
            )
        return hits_of(found, distance, floor), hits_of(named, distance, floor)

    def approximate(self, scope: Scope) -> bool:
        """Say whether the operator named the scope's world; for readers it makes no difference."""
        return scope.position is None and scope.world in self._options.approximate

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Give every point of the world and generation, page by page.

        Vectors come back bit for bit if their length is one; the index scales others to that.
        """
        start: str | None = None
        while True:
            with self._server() as server:
                page, start = server.scan(scope.profile, (tenant(scope),), start, _POINTS_PER_PAGE)
            if page:
                yield page
            if start is None:
                return

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        """Return points by id, if they belong to the scope's world and generation."""
        found: list[IndexedPoint] = []
        with self._server() as server:
            for part in slices(ids, _POINTS_PER_PAGE):
                where = (tenant(scope), HasId(part))
                found += server.scan(scope.profile, where, None, len(part))[0]
        return found

    def tenants(self, scope: Scope, *, limit: int) -> Holdings:
        """Return whose points the profile's collection holds, and how many."""
        with self._server() as server:
            return server.tenants(scope.profile, limit)

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Remove the points of a tenant by its name, which need not be one a scope can have."""
        with self._server() as server:
            server.delete(scope.profile, (Equals(Field.TENANT, tenant),))

    def collections(self) -> list[str]:
        """Return the profiles that this library has collections of, not those of others."""
        with self._server() as server:
            return server.profiles()

    def discard(self, profile: str) -> None:
        """Remove a profile's collection."""
        self._prepared.discard(profile)
        with self._server() as server:
            server.discard(profile)

    def count(self, scope: Scope) -> int:
        """Return how many points the world and generation have."""
        with self._server() as server:
            return server.count(scope.profile, (tenant(scope),))

    def drop(self, scope: Scope) -> None:
        """Remove every point of the world and generation."""
        with self._server() as server:
            server.delete(scope.profile, (tenant(scope),))

    def reset(self, scope: Scope) -> None:
        """Remove the profile's collection, points of all worlds included, and make it anew."""
        self.discard(scope.profile.id)
        self.prepare(scope)

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        """Have the server write anew the segments that hold deleted points, and wait for it.

        Its log of writes and small segments are its own affair; the documentation says so.
        """
        with self._server() as server:
            server.vacuum(profile, _REWRITING_SECONDS)
        return FileFate.REQUESTED

    def close(self) -> None:
        """Let go of the server; a later call reaches it anew."""
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @contextmanager
    def _server(self) -> Iterator[Server]:
        """Give the server; after a failure, nothing that was known of it counts any more."""
        server = self._reached()
        try:
            yield server
        except (IndexUnavailable, IndexRefused):
            server.forget()
            self._prepared.clear()
            raise

    def _reached(self) -> Server:
        with self._opening:
            if self._opened is None:
                try:
                    from truespan.index.server.requests import Server
                except ImportError:
                    raise InvalidConfiguration(
                        "The setting index_url needs the package qdrant-client.", advice=INSTALL
                    ) from None
                self._opened = Server(self._options, self._clock, self._client)
            return self._opened
