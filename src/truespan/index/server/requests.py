"""Requests to a Qdrant server: typed values in and out, the twin of the embedded shard.

The client library takes seconds to import, so only `index` imports this module, when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from qdrant_client import QdrantClient, models

from truespan.errors import IndexRefused, IndexSchemaMismatch, IndexUnavailable
from truespan.index.filters import Condition, Equals, Field, HasId, build, names_tenant
from truespan.index.server.client import ServerOptions, check_channel, open_client
from truespan.index.server.errors import CollectionMissing, server_errors
from truespan.protocols import Clock
from truespan.types.chunk import Holdings, IndexedPoint, Point, PointPlace, Vector
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import EmbeddingProfile, float32
from truespan.types.vectors import NO_VECTOR, bytes_of, numbers_of

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


def create(
    client: QdrantClient, name: str, profile: EmbeddingProfile, options: ServerOptions
) -> None:
    """Make an empty collection, strict from its beginning."""
    graph = bool(options.approximate)
    client.create_collection(
        name,
        vectors_config=models.VectorParams(
            size=profile.dimensions, distance=_DISTANCES[profile.distance.value]
        ),
        shard_number=options.shards,
        replication_factor=options.replicas,
        write_consistency_factor=options.write_factor,
        hnsw_config=GRAPH_PER_WORLD if graph else NO_GRAPH,
        quantization_config=SMALL_NUMBERS if graph else None,
        strict_mode_config=STRICT,
    )


def complete(client: QdrantClient, name: str, options: ServerOptions) -> None:
    """Add what an existing collection lacks: payload indexes, strictness, the operator's graph.

    A graph that is there already stays, whatever this process was told: others may need it.
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
    """Return what the server says about a collection.

    Raises:
        CollectionMissing: there is none.
    """
    if not client.collection_exists(name):
        raise CollectionMissing
    return client.get_collection(name)


def check_shape(found: models.CollectionInfo, profile: EmbeddingProfile) -> None:
    """Refuse a collection that was made for vectors of another size or distance.

    Raises:
        IndexSchemaMismatch: it was.
    """
    expected = f"{profile.dimensions} dimensions, {profile.distance.value} distance"
    vectors = found.config.params.vectors
    if not isinstance(vectors, models.VectorParams):
        raise IndexSchemaMismatch(expected, "several names")
    shape = f"{vectors.size} dimensions, {vectors.distance.value.lower()} distance"
    if shape != expected:
        raise IndexSchemaMismatch(expected, shape)


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
            self._shapes[name] = describe(self._client, name)
            check_shape(self._shapes[name], profile)
            complete(self._client, name, self._options)
            return self._client.count(name, exact=True).count == 0

    def _create(self, name: str, profile: EmbeddingProfile) -> None:
        try:
            with server_errors("make a collection"):
                create(self._client, name, profile, self._options)
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
            found = describe(self._client, name)
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
                self._shapes[name] = describe(self._client, name)
        check_shape(self._shapes[name], profile)
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
