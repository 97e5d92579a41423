"""What a collection is made like, and how an existing one is held against that.

Without a graph every search is a scan of what its filter leaves, as exactness needs; so none is
built until the operator names a world to be searched by one. It then has links within a world only:
`tenant` is the one payload field that builds any.
"""

from __future__ import annotations

from typing import Any

from qdrant_client import QdrantClient, models

from truespan.adapters.qdrant_filter import Field
from truespan.adapters.qdrant_server.faults import CollectionMissing
from truespan.adapters.qdrant_server.options import ServerOptions
from truespan.errors import IndexSchemaMismatch
from truespan.model.profile import EmbeddingProfile

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
