"""The calls of the index on a Qdrant server, through its client library.

The library takes seconds to import, so `index` imports this module at the first call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from qdrant_client import QdrantClient, models

from truespan import errors
from truespan.extensions.cluster.qdrant import ServerOptions, server_target
from truespan.extensions.cluster.qdrant.failures import (
    CREATE,
    DELETE,
    REMOVE,
    REWRITE,
    WRITE,
    CollectionMissing,
    ReplicasNotReady,
    server_errors,
)
from truespan.extensions.cluster.qdrant.transport import open_client
from truespan.index.base import Collection, RawHit, Search, Where
from truespan.index.filters import (
    Equals,
    Field,
    HasId,
    build,
    indexed_point,
    payload_of,
    text_hash_of,
)
from truespan.protocols import Clock
from truespan.types.chunk import IndexedPoint, Point, PointCounts
from truespan.types.maintenance import Ownership
from truespan.types.profile import float32
from truespan.types.vectors import Vector, numbers_of

_PROFILE = re.compile(r"[0-9a-f]{16}")
_DISTANCES = {"cosine": models.Distance.COSINE, "dot": models.Distance.DOT}
# Shared by threads: models of requests, which are only read.
_HASH_ONLY = models.PayloadSelectorInclude(include=[Field.TEXT_HASH.value])
# Shared by threads: as above.
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
# Shared by threads: as above.
_APPROXIMATE = models.SearchParams(
    exact=False,
    hnsw_ef=256,
    quantization=models.QuantizationSearchParams(ignore=False, rescore=True, oversampling=3.0),
)
# Shared by threads: as above.
_EAGER = models.OptimizersConfigDiff(deleted_threshold=0.0, vacuum_min_vector_number=100)
# Shared by threads: as above.
_USUAL = models.OptimizersConfigDiff(deleted_threshold=0.2, vacuum_min_vector_number=1000)
"""Default settings of Qdrant, for a collection whose previous settings are unknown."""
_FINISHED = models.CollectionStatus.GREEN
_BEFORE_ERASING = "truespan_before_erasing"
"""Metadata key of the operator's settings while a rewrite uses other settings."""
_SINCE = "since"
"""Key of the start time of a rewrite in these settings."""
_OWNER = "truespan_library"
"""Metadata key of the id of the library that created a collection."""
_LOOK_AGAIN_SECONDS = 0.5
_REWRITE_SECONDS = 60.0
_RESTART_SECONDS = 5.0
"""Maximum time that a server may take to begin a rewrite before the request is repeated."""
_READY_SECONDS = 10.0
"""Maximum time until a new collection in a cluster can be read."""

_ORDERING = models.WriteOrdering.MEDIUM
"""Order of writes: one replica at a time decides it."""

# Shared by threads: as above.
_WORD = models.KeywordIndexParams(
    type=models.KeywordIndexType.KEYWORD, is_tenant=False, enable_hnsw=False
)
# Shared by threads: as above.
_RANGE = models.IntegerIndexParams(
    type=models.IntegerIndexType.INTEGER, lookup=False, range=True, enable_hnsw=False
)
# Shared by threads: as above.
_INDEXES: dict[Field, models.KeywordIndexParams | models.IntegerIndexParams] = {
    Field.TENANT: _WORD.model_copy(update={"is_tenant": True, "enable_hnsw": True}),
    Field.DOCUMENT: _RANGE.model_copy(update={"lookup": True, "range": False}),
    Field.POS_START: _RANGE,
    Field.POS_END: _RANGE,
    Field.POS_REACH: _RANGE,
    Field.CHAPTER: _WORD,
    Field.SECTION: _WORD,
    Field.KIND: _WORD,
    # Only deletions of single points use the hash, so it does not need memory.
    Field.TEXT_HASH: _WORD.model_copy(update={"on_disk": True}),
}
"""Payload indexes; strict collections refuse filters on other fields."""

# Shared by threads: as above.
_STRICT = models.StrictModeConfig(
    enabled=True,
    unindexed_filtering_retrieve=False,
    unindexed_filtering_update=False,
    search_allow_exact=True,
)
# Shared by threads: as above.
_NO_GRAPH = models.HnswConfigDiff(m=0, payload_m=0)
# Shared by threads: as above.
_GRAPH_PER_WORLD = models.HnswConfigDiff(m=0, payload_m=16)
# Shared by threads: as above.
_SMALL_NUMBERS = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
)

# Shared by threads: as above.
_GRAPH: Mapping[str, Any] = {"hnsw_config": _GRAPH_PER_WORLD, "quantization_config": _SMALL_NUMBERS}


# Shared by threads: the HTTP client may be used by threads; nothing else changes.
class Server:
    """Implements `IndexCalls` for the collections of one library on a server."""

    def __init__(
        self,
        options: ServerOptions,
        clock: Clock,
        client: QdrantClient | None = None,
        owner: str = "",
    ) -> None:
        self._options = options
        self._owner = owner
        self._clock = clock
        self._client = client or open_client(options, clock)
        self._address = server_target(options.url) if client is None else None
        self._shapes: dict[str, models.CollectionInfo] = {}

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return server_errors(doing, self._address)

    def version(self) -> str:
        with self._errors("tell its version"):
            return self._client.info().version

    def prepare(self, collection: Collection) -> bool:
        name = self._name(collection.name)
        with self._errors(CREATE):
            if not self._client.collection_exists(name):
                self._create(name, collection)
            found, points = self._read_when_ready(name)
            self._check_owner(found)
            self._shapes[name] = found
            _check_shape(found, collection)
            if points == 0 and self._ownership(found) is Ownership.UNKNOWN:
                self._set_owner(name)
            self._complete(name, found)
            return points == 0

    def _read_when_ready(self, name: str) -> tuple[models.CollectionInfo, int]:
        """Return the configuration of a collection and its number of points.

        In a cluster, wait until its replicas are created.
        """
        deadline = self._clock.monotonic() + _READY_SECONDS
        while True:
            try:
                with self._errors("describe itself"):
                    return self._describe(name), self._count(name)
            except ReplicasNotReady:
                if self._clock.monotonic() >= deadline:
                    raise
            self._clock.sleep(_LOOK_AGAIN_SECONDS)

    def _count(self, name: str, where: models.Filter | None = None) -> int:
        return self._client.count(name, count_filter=where, exact=True).count

    def _create(self, name: str, collection: Collection) -> None:
        graph = bool(self._options.approximate)
        size, distance = collection.size, _DISTANCES[collection.distance]
        try:
            with self._errors(CREATE):
                self._client.create_collection(
                    name,
                    vectors_config=models.VectorParams(size=size, distance=distance),
                    hnsw_config=_GRAPH_PER_WORLD if graph else _NO_GRAPH,
                    quantization_config=_SMALL_NUMBERS if graph else None,
                    strict_mode_config=_STRICT,
                    metadata={_OWNER: self._owner} if self._owner else None,
                )
        except errors.IndexRefused:
            # Another process may have just created it.
            if not self._client.collection_exists(name):
                raise

    def _complete(self, name: str, found: models.CollectionInfo) -> None:
        """Add missing payload indexes, strict mode, and the graph if the operator wants one.

        An existing graph stays even without approximate worlds, because other programs may need it.
        """
        for field, parameters in _INDEXES.items():
            if field.value not in found.payload_schema:
                self._client.create_payload_index(name, field.value, parameters, wait=True)
        changes: dict[str, Any] = {}
        strict, wanted = found.config.strict_mode_config, _STRICT.model_dump(exclude_none=True)
        if not strict or any(getattr(strict, key) != value for key, value in wanted.items()):
            changes["strict_mode_config"] = _STRICT
        if self._options.approximate and not _has_graph(found):
            changes |= _GRAPH
        if changes:
            self._client.update_collection(name, **changes)
            self._shapes[name] = self._describe(name)

    def convert(self, collection: Collection, reserve: int) -> bool:
        """Return True: a server builds a requested graph without further calls."""
        del collection, reserve
        return True

    def can_approximate(self, collection: Collection) -> bool:
        return _has_graph(self._shape(self._name(collection.name), collection))

    def _describe(self, name: str) -> models.CollectionInfo:
        if not self._client.collection_exists(name):
            raise CollectionMissing
        return self._client.get_collection(name)

    def upsert(self, collection: Collection, tenant: str, points: list[Point], room: int) -> None:
        """Write all points of one request; the space on the server's disk is not checked."""
        del room
        if not tenant:
            raise errors.IndexRefused("A point without world and generation cannot be written.")
        sent = [
            models.PointStruct(
                id=point.chunk_id,
                vector=numbers_of(point.vector).tolist(),
                payload=payload_of(tenant, point),
            )
            for point in points
        ]
        with self._request(collection, WRITE) as name:
            _require_done(self._client.upsert(name, points=sent, wait=True, ordering=_ORDERING))

    def delete(self, collection: Collection, where: Where) -> None:
        chosen = models.FilterSelector(filter=build(where, models))
        with self._request(collection, DELETE) as name:
            _require_done(self._client.delete(name, chosen, wait=True, ordering=_ORDERING))

    def delete_stale(
        self, collection: Collection, where: Where, stale: list[tuple[str, str]]
    ) -> None:
        # The server compares and removes in one step.
        filters = [
            build((*where, HasId((id,)), Equals(Field.TEXT_HASH, text_hash)), models)
            for id, text_hash in stale
        ]
        changes = [
            models.DeleteOperation(delete=models.FilterSelector(filter=chosen))
            for chosen in filters
        ]
        with self._request(collection, DELETE) as name:
            for done in self._client.batch_update_points(
                name, update_operations=changes, wait=True, ordering=_ORDERING
            ):
                _require_done(done)

    def search(self, collection: Collection, search: Search) -> tuple[list[RawHit], list[RawHit]]:
        """Return the nearest points, and the nearest among the ids, in one request."""

        def nearest(where: Where, limit: int, approximate: bool) -> models.QueryRequest:
            return models.QueryRequest(
                query=models.NearestQuery(nearest=numbers_of(Vector(search.vector)).tolist()),
                filter=build(where, models),
                params=_APPROXIMATE if approximate else _EXACT,
                limit=limit,
                score_threshold=search.threshold,
                with_payload=_HASH_ONLY,
                with_vector=False,
            )

        requests: list[models.QueryRequest] = []
        if search.limit > 0:
            requests.append(nearest(search.where, search.limit, search.approximate))
        if ids := search.ids:
            requests.append(nearest((*search.where, HasId(ids)), len(ids), approximate=False))
        with self._request(collection, "search") as name:
            answers = self._client.query_batch_points(name, requests=requests)
            if len(answers) != len(requests):
                raise ValueError("the number of answers differs from the number of requests")
            # JSON has the shortest digits of a float32, which are another number as a double.
            lists = [
                [
                    (str(hit.id), float32(hit.score), text_hash_of(hit.payload) or "")
                    for hit in answer.points
                ]
                for answer in answers
            ]
        found = lists.pop(0) if search.limit > 0 else []
        return found, lists[0] if lists else []

    def scan(
        self, collection: Collection, where: Where, start: str | None, limit: int
    ) -> tuple[list[IndexedPoint], str | None]:
        with self._request(collection, "read points") as name:
            records, following = self._client.scroll(
                name,
                scroll_filter=build(where, models),
                limit=limit,
                offset=start,
                with_payload=True,
                with_vectors=True,
            )
            points = [indexed_point(record, _vector(record.vector)) for record in records]
        return points, None if following is None else str(following)

    def tenants(self, collection: Collection, limit: int) -> PointCounts:
        with self._request(collection, "count points") as name:
            found = self._client.facet(name, key=Field.TENANT.value, limit=limit, exact=True)
            counts = {str(hit.value): hit.count for hit in found.hits if hit.count}
            return PointCounts(counts, self._count(name))

    def count(self, collection: Collection, where: Where) -> int:
        with self._request(collection, "count points") as name:
            return self._count(name, build(where, models))

    def flush(self, collection: Collection) -> None:
        """Check that no write has failed; each write has waited for its completion.

        No request can ensure that the server has written to its disk.
        """
        name = self._name(collection.name)
        with self._errors("describe itself"):
            found = self._describe(name)
        _require_healthy(found)

    def collections(self) -> list[str]:
        prefix = self._options.prefix
        with self._errors("list its collections"):
            names = [found.name for found in self._client.get_collections().collections]
        own = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return sorted(profile for profile in own if _PROFILE.fullmatch(profile))

    def failed_collections(self) -> list[str]:
        """Return the names on the server of the library's collections that failed at a write."""
        names = [self._name(profile) for profile in self.collections()]
        with self._errors("describe itself"):
            found = [(name, self._client.get_collection(name).status) for name in names]
        return [name for name, status in found if status is models.CollectionStatus.RED]

    def ownership(self, profile: str) -> Ownership:
        """Return the owner of a collection; a missing one will belong to this library."""
        name = self._name(profile)
        with self._errors("describe itself"):
            if not self._client.collection_exists(name):
                return Ownership.OWN
            return self._ownership(self._client.get_collection(name))

    def _ownership(self, found: models.CollectionInfo) -> Ownership:
        noted = (found.config.metadata or {}).get(_OWNER)
        if not self._owner:
            return Ownership.OWN
        if noted is None:
            return Ownership.UNKNOWN
        return Ownership.OWN if noted == self._owner else Ownership.OTHER

    def _check_owner(self, found: models.CollectionInfo) -> None:
        if self._ownership(found) is Ownership.OTHER:
            raise errors.IndexNotOwned

    def claim(self, profile: str) -> None:
        """Record this library as the owner of a collection in place of any other."""
        name = self._name(profile)
        with self._errors(CREATE):
            if self._owner and self._client.collection_exists(name):
                self._set_owner(name)

    def _set_owner(self, name: str) -> None:
        self._shapes.pop(name, None)
        self._client.update_collection(name, metadata={_OWNER: self._owner})

    def reset(self, collection: Collection) -> None:
        self.discard(collection.name)
        self.prepare(collection)

    def discard(self, name: str) -> None:
        """Remove a collection; one of another library is an error, an absent one is not."""
        name = self._name(name)
        self._shapes.pop(name, None)
        with self._errors(REMOVE):
            if self._client.collection_exists(name):
                self._check_owner(self._client.get_collection(name))
                self._client.delete_collection(name)

    def erase(self, collection: Collection, ticket: int, reserve: int) -> tuple[int, bool]:
        """Have the server rewrite the segments with deleted points, and wait for it.

        Only the first call waits for a rewrite; later calls of any process just check it.
        """
        del reserve
        name = self._name(collection.name)
        with self._errors(REWRITE):
            if not self._client.collection_exists(name):
                return ticket, True
            found = self._client.get_collection(name)
            begun, asked = -math.inf, False
            if found.config.optimizer_config.deleted_threshold != _EAGER.deleted_threshold:
                self._begin_rewrite(name, found)
                begun = self._clock.monotonic()
            deadline = self._clock.monotonic() + self._waiting_left(found)
            while (found := self._client.get_collection(name)).status is not _FINISHED:
                now = self._clock.monotonic()
                _require_healthy(found)
                is_grey = found.status is models.CollectionStatus.GREY
                may_begin = now - begun >= _RESTART_SECONDS and (now < deadline or not asked)
                if is_grey and may_begin:
                    # A restarted server waits for a write. During a rewrite, the same request
                    # would restart it.
                    self._client.update_collection(name, optimizers_config=_EAGER)
                    begun, asked = now, True
                    deadline = max(deadline, now + _RESTART_SECONDS)
                elif now >= deadline:
                    raise errors.IndexUnavailable(
                        "The index server is still rewriting its segments.",
                        advice="Run 'truespan repair' later.",
                    )
                self._clock.sleep(_LOOK_AGAIN_SECONDS)
            self._end_rewrite(name, found)
        return ticket, True

    def _begin_rewrite(self, name: str, found: models.CollectionInfo) -> None:
        before = found.config.optimizer_config
        usual = {key: getattr(before, key) for key in _EAGER.model_dump(exclude_none=True)}
        usual[_SINCE] = self._clock.now()
        self._client.update_collection(
            name, optimizers_config=_EAGER, metadata={_BEFORE_ERASING: usual}
        )

    def _waiting_left(self, found: models.CollectionInfo) -> float:
        """Return the remaining seconds to wait for a rewrite.

        A killed server may resume its rewrite late or never, and each deletion would wait for it.
        """
        noted = (found.config.metadata or {}).get(_BEFORE_ERASING)
        since = noted.get(_SINCE) if isinstance(noted, dict) else None
        if found.config.optimizer_config.deleted_threshold != _EAGER.deleted_threshold:
            since = None
        waited = self._clock.now() - since if isinstance(since, int | float) else 0.0
        return min(max(_REWRITE_SECONDS - waited, 0.0), _REWRITE_SECONDS)

    def _end_rewrite(self, name: str, found: models.CollectionInfo) -> None:
        noted = (found.config.metadata or {}).get(_BEFORE_ERASING)
        usual = _USUAL
        if isinstance(noted, dict):
            noted = {key: value for key, value in noted.items() if key != _SINCE}
            usual = models.OptimizersConfigDiff(**noted)
        self._client.update_collection(
            name, optimizers_config=usual, metadata={_BEFORE_ERASING: None}
        )

    def forget(self) -> None:
        """Check every collection again before its next use: it may be another server now."""
        self._shapes.clear()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    @contextmanager
    def _request(self, collection: Collection, doing: str) -> Iterator[str]:
        """Yield the collection's name on the server, after a check of its shape."""
        name = self._name(collection.name)
        self._shape(name, collection)
        with self._errors(doing):
            yield name

    def _shape(self, name: str, collection: Collection) -> models.CollectionInfo:
        """Return the verified configuration of a collection, which is read once.

        A graph that the operator wants is added if it is missing.
        """
        if name not in self._shapes:
            with self._errors("describe itself"):
                found = self._describe(name)
            self._check_owner(found)
            _check_shape(found, collection)
            if self._options.approximate and not _has_graph(found):
                # A read-only key may search too; then the search stays exact.
                with suppress(errors.IndexKeyRefused), self._errors(CREATE):
                    self._client.update_collection(name, **_GRAPH)
                    found = self._describe(name)
            self._shapes[name] = found
        _check_shape(self._shapes[name], collection)
        return self._shapes[name]

    def _name(self, profile: str) -> str:
        # The name becomes a part of URLs and paths, so it must be a digest.
        if not _PROFILE.fullmatch(profile):
            raise errors.IndexRefused("A collection must be named by a profile's id.")
        return self._options.prefix + profile


def _has_graph(info: models.CollectionInfo) -> bool:
    return bool(info.config.hnsw_config.payload_m and info.config.quantization_config is not None)


def _check_shape(info: models.CollectionInfo, collection: Collection) -> None:
    vectors = info.config.params.vectors
    if not isinstance(vectors, models.VectorParams):
        raise errors.IndexSchemaMismatch(str(collection), "several names")
    found = Collection(collection.name, vectors.size, vectors.distance.value.lower())
    if found != collection:
        raise errors.IndexSchemaMismatch(str(collection), str(found))


def _require_healthy(found: models.CollectionInfo) -> None:
    if found.status is models.CollectionStatus.RED:
        raise errors.IndexUnavailable(
            "A write failed on the index server, and it has not recovered.",
            advice="Check its log, then run the same command again.",
        )


def _require_done(result: models.UpdateResult) -> None:
    if result.status is not models.UpdateStatus.COMPLETED:
        raise errors.IndexUnavailable(
            "The index server has accepted a write but not completed it yet.",
            advice="Run the same command again.",
        )


def _vector(found: Any) -> list[float] | None:
    # The client library does not check vectors.
    valid = isinstance(found, list) and all(type(number) in (int, float) for number in found)
    return found if valid else None
