"""Requests to a Qdrant server: typed values in and out, the twin of the embedded shard.

The client library takes seconds to import, so only `index` imports this module, when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from qdrant_client import QdrantClient, models

from truespan.adapters.qdrant_filter import Condition, Equals, Field, HasId
from truespan.adapters.qdrant_server import layout
from truespan.adapters.qdrant_server.client import check_channel, open_client
from truespan.adapters.qdrant_server.faults import server_errors
from truespan.adapters.qdrant_server.options import ServerOptions
from truespan.adapters.qdrant_server.points import (
    RawHit,
    filter_of,
    indexed,
    nearest,
    payload_of,
    raw_hit,
)
from truespan.adapters.vector_bytes import numbers_of
from truespan.errors import IndexRefused, IndexUnavailable
from truespan.model.chunk import Holdings, IndexedPoint, Point, Vector
from truespan.model.profile import EmbeddingProfile
from truespan.ports import Clock

_PROFILE = re.compile(r"[0-9a-f]{16}")
_EAGER = models.OptimizersConfigDiff(deleted_threshold=0.0, vacuum_min_vector_number=100)
_USUAL = models.OptimizersConfigDiff(deleted_threshold=0.2, vacuum_min_vector_number=1000)
_LOOK_AGAIN_SECONDS = 0.5


class Server:
    """One server and the collections of one library on it."""

    def __init__(
        self, options: ServerOptions, clock: Clock, client: QdrantClient | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        if client is None:
            with server_errors("be reached"):
                check_channel(options)
        self._client = client or open_client(options, clock)
        self._shapes: dict[str, models.CollectionInfo] = {}
        self._ordering = models.WriteOrdering(options.write_ordering)
        self._consistency = (
            models.ReadConsistencyType(options.read_consistency)
            if options.read_consistency
            else None
        )

    def prepare(self, profile: EmbeddingProfile) -> bool:
        """Make the collection ready; say whether it is empty."""
        name = self._name(profile.id)
        with server_errors("make a collection"):
            if not self._client.collection_exists(name):
                self._create(name, profile)
            self._shapes[name] = layout.describe(self._client, name)
            layout.check_shape(self._shapes[name], profile)
            layout.complete(self._client, name, self._options)
            return self._client.count(name, exact=True).count == 0

    def _create(self, name: str, profile: EmbeddingProfile) -> None:
        try:
            with server_errors("make a collection"):
                layout.create(self._client, name, profile, self._options)
        except IndexRefused:
            # Another process may have made it a moment ago; whatever else it was is told there.
            if not self._client.collection_exists(name):
                raise

    def upsert(self, profile: EmbeddingProfile, tenant: str, points: Sequence[Point]) -> None:
        """Write all points of one request."""
        if not tenant:
            raise IndexRefused("A point without world and generation cannot be written.")
        sent = [
            models.PointStruct(
                id=point.chunk_id,
                vector=numbers_of(point.vector).tolist(),
                payload=payload_of(tenant, point),
            )
            for point in points
        ]
        name = self._checked(profile)
        with server_errors("write points"):
            _require_done(
                self._client.upsert(name, points=sent, wait=True, ordering=self._ordering)
            )

    def delete(self, profile: EmbeddingProfile, where: Sequence[Condition]) -> None:
        """Remove every point that meets the conditions."""
        name, chosen = self._checked(profile), models.FilterSelector(filter=filter_of(where))
        with server_errors("delete points"):
            _require_done(self._client.delete(name, chosen, wait=True, ordering=self._ordering))

    def delete_stale(
        self, profile: EmbeddingProfile, tenant: Equals, stale: Sequence[tuple[str, str]]
    ) -> None:
        """Remove each point whose hash is still the given one; the server compares and removes."""
        name = self._checked(profile)
        changes = [
            models.DeleteOperation(
                delete=models.FilterSelector(
                    filter=filter_of((tenant, HasId((id,)), Equals(Field.TEXT_HASH, text_hash)))
                )
            )
            for id, text_hash in stale
        ]
        with server_errors("delete points"):
            for done in self._client.batch_update_points(
                name, update_operations=changes, wait=True, ordering=self._ordering
            ):
                _require_done(done)

    def search(
        self,
        profile: EmbeddingProfile,
        where: tuple[Condition, ...],
        vector: Vector,
        *,
        limit: int,
        threshold: float | None,
        ids: tuple[str, ...],
        approximate: bool,
    ) -> tuple[list[RawHit], list[RawHit]]:
        """Return the nearest points and, of the same request, those of them that were named.

        `threshold` is on Qdrant's own scale.
        """
        name = self._checked(profile)
        searches = [nearest(where, vector, limit, threshold, approximate=approximate)]
        if ids:
            named = (*where, HasId(ids))
            searches.append(nearest(named, vector, len(ids), threshold, approximate=False))
        with server_errors("search"):
            found = self._client.query_batch_points(
                name, requests=searches, consistency=self._consistency
            )
            if len(found) != len(searches):
                raise ValueError("as many answers as questions are expected")
            hits = [[raw_hit(one) for one in answer.points] for answer in found]
        return hits[0], hits[1] if ids else []

    def scan(
        self, profile: EmbeddingProfile, where: Sequence[Condition], start: str | None, limit: int
    ) -> tuple[list[IndexedPoint], str | None]:
        """Return one page of points with their vectors, and where the next one starts."""
        name = self._checked(profile)
        with server_errors("read points"):
            records, following = self._client.scroll(
                name,
                scroll_filter=filter_of(where),
                limit=limit,
                offset=start,
                with_payload=True,
                with_vectors=True,
                consistency=self._consistency,
            )
            points = [indexed(record) for record in records]
        return points, None if following is None else str(following)

    def tenants(self, profile: EmbeddingProfile, limit: int) -> Holdings:
        """Return whose points there are, and how many; the one request that no tenant bounds."""
        name = self._checked(profile)
        with server_errors("count points"):
            found = self._client.facet(
                name,
                key=Field.TENANT.value,
                limit=limit,
                exact=True,
                consistency=self._consistency,
            )
            counts = {str(hit.value): hit.count for hit in found.hits if hit.count}
            return Holdings(counts, self._client.count(name, exact=True).count)

    def count(self, profile: EmbeddingProfile, where: Sequence[Condition]) -> int:
        """Return how many points meet the conditions."""
        name = self._checked(profile)
        with server_errors("count points"):
            return self._client.count(name, count_filter=filter_of(where), exact=True).count

    def flush(self, profile: EmbeddingProfile) -> None:
        """Make sure that the server has carried out what it took, and failed at nothing."""
        name = self._name(profile.id)
        with server_errors("describe itself"):
            found = layout.describe(self._client, name)
        if found.status is models.CollectionStatus.RED:
            raise IndexUnavailable(
                "The index server failed at a write and has not recovered.",
                advice="Look at its log; then run the same command again.",
            )

    def profiles(self) -> list[str]:
        """Return the profiles that this library has collections of."""
        prefix = self._options.prefix
        with server_errors("list its collections"):
            names = [one.name for one in self._client.get_collections().collections]
        own = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return sorted(profile for profile in own if _PROFILE.fullmatch(profile))

    def discard(self, profile: str) -> None:
        """Remove a collection; an absent one is no error."""
        name = self._name(profile)
        self._shapes.pop(name, None)
        with server_errors("remove a collection"):
            if self._client.collection_exists(name):
                self._client.delete_collection(name)

    def vacuum(self, profile: EmbeddingProfile, seconds: float) -> None:
        """Have the segments that hold deleted points written anew, and wait until that is done.

        Raises:
            IndexUnavailable: it takes longer; the server goes on, and asking again waits on.
        """
        name = self._name(profile.id)
        with server_errors("rewrite its segments"):
            if not self._client.collection_exists(name):
                return
            chosen = self._client.get_collection(name).config.optimizer_config
            # A change of these numbers would begin anew what is under way already.
            if chosen.deleted_threshold != _EAGER.deleted_threshold:
                self._client.update_collection(name, optimizers_config=_EAGER)
            self._wait_until_green(name, seconds)
            self._client.update_collection(name, optimizers_config=_USUAL)

    def _wait_until_green(self, name: str, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while self._client.get_collection(name).status is not models.CollectionStatus.GREEN:
            if self._clock.monotonic() >= deadline:
                raise IndexUnavailable(
                    "The index server is still rewriting its segments.",
                    advice="Run the same command again later.",
                )
            self._clock.sleep(_LOOK_AGAIN_SECONDS)

    def forget(self) -> None:
        """Look at every collection again before it is used: the server may be another one now."""
        self._shapes.clear()

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()

    def _checked(self, profile: EmbeddingProfile) -> str:
        """Return the name of the profile's collection, which has the profile's shape."""
        name = self._name(profile.id)
        if name not in self._shapes:
            with server_errors("describe itself"):
                self._shapes[name] = layout.describe(self._client, name)
        layout.check_shape(self._shapes[name], profile)
        return name

    def _name(self, profile: str) -> str:
        # The name becomes a part of addresses and of paths, so it must be a digest.
        if not _PROFILE.fullmatch(profile):
            raise IndexRefused("A collection must be named by a profile's id.")
        return self._options.prefix + profile


def _require_done(result: models.UpdateResult) -> None:
    if result.status is not models.UpdateStatus.COMPLETED:
        raise IndexUnavailable(
            "The index server took a write and has not carried it out yet.",
            advice="Run the same command again.",
        )
