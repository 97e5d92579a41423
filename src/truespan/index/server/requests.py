"""The calls of the index on a Qdrant server, through its client library.

The library takes seconds to import, so `index` imports this module at the first call.
"""

from __future__ import annotations

import re
from typing import Any

from qdrant_client import QdrantClient, models

from truespan.errors import IndexRefused, IndexSchemaMismatch, IndexUnavailable
from truespan.index.calls import Collection, RawHit, Where
from truespan.index.filters import Equals, Field, HasId, build, payload_of, place_of, text_hash_of
from truespan.index.server.client import check_channel, open_client
from truespan.index.server.errors import CollectionMissing, server_errors
from truespan.index.server.options import ServerOptions
from truespan.protocols import Clock
from truespan.types.chunk import Holdings, IndexedPoint, Point, Vector
from truespan.types.ids import ChunkId
from truespan.types.profile import float32
from truespan.types.vectors import NO_VECTOR, bytes_of, numbers_of

_HASH_ONLY = models.PayloadSelectorInclude(include=[Field.TEXT_HASH.value])
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
_APPROXIMATE = models.SearchParams(
    exact=False,
    hnsw_ef=256,
    quantization=models.QuantizationSearchParams(ignore=False, rescore=True, oversampling=3.0),
)


def nearest(
    where: Where,
    vector: bytes,
    limit: int,
    threshold: float | None,
    *,
    approximate: bool,
) -> models.QueryRequest:
    """Return a search for ids, scores and hashes, and nothing else."""
    return models.QueryRequest(
        query=models.NearestQuery(nearest=numbers_of(Vector(vector)).tolist()),
        filter=build(where, models),
        params=_APPROXIMATE if approximate else _EXACT,
        limit=limit,
        score_threshold=threshold,
        with_payload=_HASH_ONLY,
        with_vector=False,
    )


def raw_hit(found: models.ScoredPoint) -> RawHit:
    """Return a point of a search result; a missing hash is an empty one."""
    # JSON has the shortest digits of a float32; read as a double they are another number.
    return str(found.id), float32(found.score), text_hash_of(found.payload) or ""


def indexed(record: models.Record) -> IndexedPoint:
    """Return a point as it was read, without the parts that are invalid."""
    return IndexedPoint(
        ChunkId(str(record.id)),
        text_hash_of(record.payload),
        _vector(record.vector),
        place_of(record.payload),
    )


def _vector(found: object) -> Vector:
    # The client library does not check vectors.
    if not isinstance(found, list) or not all(type(number) in (int, float) for number in found):
        return NO_VECTOR
    return Vector(bytes_of(found))


_DISTANCES = {"cosine": models.Distance.COSINE, "dot": models.Distance.DOT}
_LINKS = 16


def _keyword(*, is_tenant: bool = False, on_disk: bool | None = None) -> models.KeywordIndexParams:
    return models.KeywordIndexParams(
        type=models.KeywordIndexType.KEYWORD,
        is_tenant=is_tenant,
        on_disk=on_disk,
        enable_hnsw=is_tenant,
    )


def _whole(*, exactly: bool) -> models.IntegerIndexParams:
    return models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=exactly, range=not exactly, enable_hnsw=False
    )


INDEXES: dict[Field, models.KeywordIndexParams | models.IntegerIndexParams] = {
    Field.TENANT: _keyword(is_tenant=True),
    Field.DOCUMENT: _whole(exactly=True),
    Field.POS_START: _whole(exactly=False),
    Field.POS_END: _whole(exactly=False),
    Field.POS_REACH: _whole(exactly=False),
    Field.CHAPTER: _keyword(),
    Field.SECTION: _keyword(),
    Field.KIND: _keyword(),
    # Only deletions of single points go by the hash, so it need not take up memory.
    Field.TEXT_HASH: _keyword(on_disk=True),
}
"""Every field that a filter may name: strict collections refuse filters on any other."""

STRICT = models.StrictModeConfig(
    enabled=True,
    unindexed_filtering_retrieve=False,
    unindexed_filtering_update=False,
    search_allow_exact=True,
)

NO_GRAPH = models.HnswConfigDiff(m=0, payload_m=0)
GRAPH_PER_WORLD = models.HnswConfigDiff(m=0, payload_m=_LINKS)
SMALL_NUMBERS = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
)


def create(client: QdrantClient, name: str, collection: Collection, options: ServerOptions) -> None:
    """Create an empty collection in strict mode."""
    graph = bool(options.approximate)
    client.create_collection(
        name,
        vectors_config=models.VectorParams(
            size=collection.size, distance=_DISTANCES[collection.distance]
        ),
        shard_number=options.shards,
        replication_factor=options.replicas,
        write_consistency_factor=options.write_factor,
        hnsw_config=GRAPH_PER_WORLD if graph else NO_GRAPH,
        quantization_config=SMALL_NUMBERS if graph else None,
        strict_mode_config=STRICT,
    )


def complete(client: QdrantClient, name: str, options: ServerOptions) -> None:
    """Add what an existing collection lacks: payload indexes, strict mode, the operator's graph.

    An existing graph stays even if our settings name no world for it: other programs may need it.
    """
    found = describe(client, name)
    for field, parameters in INDEXES.items():
        if field.value not in found.payload_schema:
            client.create_payload_index(name, field.value, parameters, wait=True)
    changes: dict[str, Any] = {}
    if not _is_strict(found):
        changes["strict_mode_config"] = STRICT
    if options.approximate and not _has_graph(found):
        changes |= {"hnsw_config": GRAPH_PER_WORLD, "quantization_config": SMALL_NUMBERS}
    if changes:
        client.update_collection(name, **changes)


def describe(client: QdrantClient, name: str) -> models.CollectionInfo:
    """Return the server's description of a collection.

    Raises:
        CollectionMissing: there is none.
    """
    if not client.collection_exists(name):
        raise CollectionMissing
    return client.get_collection(name)


def check_shape(info: models.CollectionInfo, collection: Collection) -> None:
    """Refuse a collection that was created for vectors of another size or distance.

    Raises:
        IndexSchemaMismatch: it was.
    """
    vectors = info.config.params.vectors
    if not isinstance(vectors, models.VectorParams):
        raise IndexSchemaMismatch(str(collection), "several names")
    found = Collection(collection.name, vectors.size, vectors.distance.value.lower())
    if found != collection:
        raise IndexSchemaMismatch(str(collection), str(found))


def _is_strict(found: models.CollectionInfo) -> bool:
    chosen = found.config.strict_mode_config
    return chosen is not None and all(
        getattr(chosen, name) == value
        for name, value in STRICT.model_dump(exclude_none=True).items()
    )


def _has_graph(found: models.CollectionInfo) -> bool:
    return bool(found.config.hnsw_config.payload_m) and found.config.quantization_config is not None


_PROFILE = re.compile(r"[0-9a-f]{16}")
_EAGER = models.OptimizersConfigDiff(deleted_threshold=0.0, vacuum_min_vector_number=100)
_USUAL = models.OptimizersConfigDiff(deleted_threshold=0.2, vacuum_min_vector_number=1000)
_LOOK_AGAIN_SECONDS = 0.5
_REWRITE_SECONDS = 60.0


class Server:
    """Implements `IndexCalls` for the collections of one library on a server."""

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

    def prepare(self, collection: Collection) -> bool:
        """Create what is missing of the collection; return whether it is empty."""
        name = self._name(collection.name)
        with server_errors("make a collection"):
            if not self._client.collection_exists(name):
                self._create(name, collection)
            self._shapes[name] = describe(self._client, name)
            check_shape(self._shapes[name], collection)
            complete(self._client, name, self._options)
            return self._client.count(name, exact=True).count == 0

    def _create(self, name: str, collection: Collection) -> None:
        try:
            with server_errors("make a collection"):
                create(self._client, name, collection, self._options)
        except IndexRefused:
            # Another process may have created it a moment ago.
            if not self._client.collection_exists(name):
                raise

    def upsert(self, collection: Collection, tenant: str, points: list[Point], room: int) -> None:
        """Write all points of one request; the space on the server's disk is not checked."""
        del room
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
        name = self._checked(collection)
        with server_errors("write points"):
            _require_done(
                self._client.upsert(name, points=sent, wait=True, ordering=self._ordering)
            )

    def delete(self, collection: Collection, where: Where) -> None:
        """Remove every point that meets the conditions."""
        name, chosen = self._checked(collection), models.FilterSelector(filter=build(where, models))
        with server_errors("delete points"):
            _require_done(self._client.delete(name, chosen, wait=True, ordering=self._ordering))

    def delete_stale(
        self, collection: Collection, where: Where, stale: list[tuple[str, str]]
    ) -> None:
        """Remove each point that still has the given hash; the server compares and removes."""
        name = self._checked(collection)
        changes = [
            models.DeleteOperation(
                delete=models.FilterSelector(
                    filter=build((*where, HasId((id,)), Equals(Field.TEXT_HASH, text_hash)), models)
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
        collection: Collection,
        where: Where,
        vector: bytes,
        limit: int,
        threshold: float | None,
        ids: tuple[str, ...],
        approximate: bool,
    ) -> tuple[list[RawHit], list[RawHit]]:
        """Return the nearest points, and the nearest among `ids`, in one request."""
        name = self._checked(collection)
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
        self, collection: Collection, where: Where, start: str | None, limit: int
    ) -> tuple[list[IndexedPoint], str | None]:
        """Return one page of points with their vectors, and the start of the next page."""
        name = self._checked(collection)
        with server_errors("read points"):
            records, following = self._client.scroll(
                name,
                scroll_filter=build(where, models),
                limit=limit,
                offset=start,
                with_payload=True,
                with_vectors=True,
                consistency=self._consistency,
            )
            points = [indexed(record) for record in records]
        return points, None if following is None else str(following)

    def tenants(self, collection: Collection, limit: int) -> Holdings:
        """Return the point counts of all tenants."""
        name = self._checked(collection)
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

    def count(self, collection: Collection, where: Where) -> int:
        """Return how many points meet the conditions."""
        name = self._checked(collection)
        with server_errors("count points"):
            return self._client.count(name, count_filter=build(where, models), exact=True).count

    def flush(self, collection: Collection) -> None:
        """Check that no write has failed; each write waited until the server had carried it out.

        When the server has it on its disk is not known: no request asks for that.
        """
        name = self._name(collection.name)
        with server_errors("describe itself"):
            found = describe(self._client, name)
        if found.status is models.CollectionStatus.RED:
            raise IndexUnavailable(
                "The index server failed to carry out a write and has not recovered.",
                advice="Check its log, then run the same command again.",
            )

    def collections(self) -> list[str]:
        """Return the profiles that this library has collections of."""
        prefix = self._options.prefix
        with server_errors("list its collections"):
            names = [found.name for found in self._client.get_collections().collections]
        own = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return sorted(profile for profile in own if _PROFILE.fullmatch(profile))

    def reset(self, collection: Collection) -> None:
        """Remove the collection with the points of all worlds, and create it empty."""
        self.discard(collection.name)
        self.prepare(collection)

    def discard(self, name: str) -> None:
        """Remove a collection; an absent one is no error."""
        name = self._name(name)
        self._shapes.pop(name, None)
        with server_errors("remove a collection"):
            if self._client.collection_exists(name):
                self._client.delete_collection(name)

    def erase(self, collection: Collection, ticket: int, reserve: int) -> tuple[int, bool]:
        """Have the server rewrite the segments that hold deleted points, and wait for it.

        Raises:
            IndexUnavailable: it takes too long; the server continues, and the next call waits on.
        """
        del reserve
        name = self._name(collection.name)
        deadline = self._clock.monotonic() + _REWRITE_SECONDS
        with server_errors("rewrite its segments"):
            if not self._client.collection_exists(name):
                return ticket, True
            found = self._client.get_collection(name).config.optimizer_config
            # Changing these numbers again would restart a rewrite that is already running.
            if found.deleted_threshold != _EAGER.deleted_threshold:
                self._client.update_collection(name, optimizers_config=_EAGER)
            while self._client.get_collection(name).status is not models.CollectionStatus.GREEN:
                if self._clock.monotonic() >= deadline:
                    raise IndexUnavailable(
                        "The index server is still rewriting its segments.",
                        advice="Run the same command again later.",
                    )
                self._clock.sleep(_LOOK_AGAIN_SECONDS)
            self._client.update_collection(name, optimizers_config=_USUAL)
        return ticket, True

    def forget(self) -> None:
        """Check every collection again before its next use: the server may be another one now."""
        self._shapes.clear()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _checked(self, collection: Collection) -> str:
        """Return the collection's name on the server, after a check of its shape."""
        name = self._name(collection.name)
        if name not in self._shapes:
            with server_errors("describe itself"):
                self._shapes[name] = describe(self._client, name)
        check_shape(self._shapes[name], collection)
        return name

    def _name(self, profile: str) -> str:
        # The name becomes a part of URLs and paths, so it must be a digest.
        if not _PROFILE.fullmatch(profile):
            raise IndexRefused("A collection must be named by a profile's id.")
        return self._options.prefix + profile


def _require_done(result: models.UpdateResult) -> None:
    if result.status is not models.UpdateStatus.COMPLETED:
        raise IndexUnavailable(
            "The index server accepted a write and has not carried it out yet.",
            advice="Run the same command again.",
        )
