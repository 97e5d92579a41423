"""One Qdrant Edge shard: the calls the index needs, as typed values in and out.

Edge raises bare exceptions whose text may quote what it was given, and a panic of the engine is not
even an `Exception`. Both leave here as `IndexRefused`, without that text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import qdrant_edge as edge

from truespan.adapters.edge.wire import (
    Collection,
    DeleteStale,
    Found,
    Page,
    Scan,
    Search,
    ShapeDiffers,
    Tenants,
    Upsert,
    WirePlace,
    WirePoint,
)
from truespan.adapters.qdrant_filter import Condition, Equals, Field, HasId, build, names_tenant
from truespan.adapters.vector_bytes import bytes_of, numbers_of
from truespan.errors import IndexRefused, IndexUnavailable, TruespanError

REBUILD = "'truespan doctor --apply' rebuilds the index from the store."

_DISTANCES = {"cosine": edge.Distance.Cosine, "dot": edge.Distance.Dot}
_EXACT = edge.SearchParams(exact=True)
_HASH_ONLY = [Field.TEXT_HASH.value]
_INDEXES = {
    Field.TENANT: edge.KeywordIndexParams(is_tenant=True),
    Field.DOCUMENT: edge.IntegerIndexParams(lookup=True, range=False),
    Field.POS_START: edge.IntegerIndexParams(lookup=False, range=True),
    Field.POS_REACH: edge.IntegerIndexParams(lookup=False, range=True),
    Field.CHAPTER: edge.KeywordIndexParams(),
    Field.SECTION: edge.KeywordIndexParams(),
}


class EnginePanicked(IndexRefused):
    """The engine stopped halfway through a call; what it holds in memory is not to be trusted."""


@contextmanager
def edge_errors(doing: str) -> Iterator[None]:
    """Turn whatever Edge raises into an error of ours that quotes nothing."""
    try:
        yield
    except (TruespanError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        if "WouldBlock" in str(error):
            raise IndexUnavailable("Another program has the index open.") from error
        raise IndexRefused(
            f"The embedded index could not {doing} ({type(error).__name__}).", advice=REBUILD
        ) from error
    except BaseException as error:
        raise EnginePanicked(
            f"The embedded index broke down while it tried to {doing}.", advice=REBUILD
        ) from error


def create_files(path: Path, collection: Collection) -> None:
    """Make the files of an empty collection, with every payload index."""
    path.mkdir()
    with edge_errors("make a collection"):
        shard = edge.EdgeShard.create(str(path), _config(collection))
        _add_indexes(shard)
        shard.flush()
        shard.close()


def check_shape(path: Path, collection: Collection) -> None:
    """Refuse files that were made for vectors of another size or distance.

    Raises:
        IndexSchemaMismatch: they were.
        IndexRefused: they do not say.
    """
    with edge_errors("read its own settings"):
        settings = msgspec.json.decode((path / "edge_config.json").read_bytes())
        vectors = settings["vectors"][""]
        found = Collection(collection.name, vectors["size"], str(vectors["distance"]).lower())
    if found != collection:
        raise ShapeDiffers(str(collection), str(found))


class Shard:
    """An open shard, and the collection it holds."""

    def __init__(self, path: Path, collection: Collection) -> None:
        self.collection = collection
        with edge_errors("open a collection"):
            self._edge = edge.EdgeShard.load(str(path), _config(collection))

    def prepare(self) -> None:
        """Add the payload indexes that are missing."""
        with edge_errors("make its payload indexes"):
            _add_indexes(self._edge)

    def is_empty(self) -> bool:
        """Say whether there is no point of any world."""
        with edge_errors("describe itself"):
            return self._edge.info().points_count == 0

    def upsert(self, request: Upsert) -> None:
        """Write all points of the request, or none."""
        size, tenant = self.collection.size, request.tenant
        if not tenant:
            raise IndexRefused("A point without world and generation cannot be written.")
        with edge_errors("write points"):
            points = [
                edge.Point(point.id, _numbers(point.vector, size), _payload(tenant, point))
                for point in request.points
            ]
            self._edge.update(edge.UpdateOperation.upsert_points(points))

    def delete(self, where: Sequence[Condition]) -> None:
        """Remove every point that meets the conditions."""
        with edge_errors("delete points"):
            self._edge.update(edge.UpdateOperation.delete_points_by_filter(_filter(where)))

    def delete_stale(self, request: DeleteStale) -> None:
        """Remove each point whose hash is still the given one; the engine compares and removes."""
        for point, text_hash in request.stale:
            same = (HasId((point,)), Equals(Field.TEXT_HASH, text_hash))
            self.delete((*request.where, *same))

    def search(self, request: Search) -> Found:
        """Compare with every point that meets the conditions; nothing approximate."""
        found = self._nearest(request, request.where, request.limit)
        if not request.ids:
            return Found(found)
        named = (*request.where, HasId(request.ids))
        return Found(found, self._nearest(request, named, len(request.ids)))

    def _nearest(
        self, request: Search, where: Sequence[Condition], limit: int
    ) -> list[tuple[str, float, str]]:
        with edge_errors("search"):
            query = edge.QueryRequest(
                limit=limit,
                query=edge.Query.Nearest(_numbers(request.vector, self.collection.size)),
                filter=_filter(where),
                score_threshold=request.threshold,
                with_payload=_HASH_ONLY,
                params=_EXACT,
            )
            hits = self._edge.query(query)
            return [(str(hit.id), hit.score, _hash(hit) or "") for hit in hits]

    def scan(self, request: Scan) -> Page:
        """Return one page of points with their vectors, bit for bit."""
        with edge_errors("read points"):
            scroll = edge.ScrollRequest(
                offset=request.start,
                limit=request.limit,
                filter=_filter(request.where),
                with_payload=True,
                with_vector=True,
            )
            records, following = self._edge.scroll(scroll)
            points = [
                (str(record.id), _hash(record), _bytes(record.vector), _place(record))
                for record in records
            ]
        return Page(points, None if following is None else str(following))

    def tenants(self, limit: int) -> Tenants:
        """Return whose points there are, and how many; the one request that no tenant bounds."""
        with edge_errors("count points"):
            facet = edge.FacetRequest(Field.TENANT.value, limit=limit, exact=True)
            # Tenants whose points are all deleted are listed too, with none.
            hits = [hit for hit in self._edge.facet(facet).hits if hit.count]
            counts = {str(hit.value): hit.count for hit in hits}
            return Tenants(counts, self._edge.info().points_count)

    def points(self) -> int:
        """Return how many points there are, of all worlds."""
        with edge_errors("describe itself"):
            return self._edge.info().points_count

    def copy_page(self, target: Shard, start: str | None, limit: int) -> str | None:
        """Write one page of live points, bit for bit, into another shard; return where to go on.

        For the index process alone: no request of a client reaches past its conditions.
        """
        with edge_errors("copy points"):
            scroll = edge.ScrollRequest(
                offset=start, limit=limit, with_payload=True, with_vector=True
            )
            records, following = self._edge.scroll(scroll)
            points = [
                edge.Point(record.id, record.vector, record.payload or {})
                for record in records
                if isinstance(record.vector, list)
            ]
            if points:
                target._edge.update(edge.UpdateOperation.upsert_points(points))
        return None if following is None else str(following)

    def count(self, where: Sequence[Condition]) -> int:
        """Return how many points meet the conditions."""
        with edge_errors("count points"):
            return self._edge.count(edge.CountRequest(exact=True, filter=_filter(where)))

    def flush(self) -> None:
        """Return once all that was written is on the disk."""
        with edge_errors("flush"):
            self._edge.flush()

    def close(self) -> None:
        """Flush and let go of the files."""
        with edge_errors("close"):
            self._edge.flush()
            self._edge.close()


def _config(collection: Collection) -> edge.EdgeConfig:
    distance = _DISTANCES[collection.distance]
    return edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=collection.size, distance=distance))


def _add_indexes(shard: edge.EdgeShard) -> None:
    # An index that is made again is built again, so only the missing ones are made.
    present = shard.info().payload_schema
    for field, parameters in _INDEXES.items():
        if field.value not in present:
            shard.update(edge.UpdateOperation.create_field_index(field.value, parameters))


def _filter(where: Sequence[Condition]) -> edge.Filter:
    if not names_tenant(where):
        raise IndexRefused("A request without world and generation is refused.")
    return build(where, edge)


def _payload(tenant: str, point: WirePoint) -> dict[str, str | int]:
    return {
        "tenant": tenant,
        "document": point.document,
        "text_hash": point.text_hash,
        "pos_start": point.pos_start,
        "pos_end": point.pos_end,
        "pos_reach": point.pos_reach,
        "chapter": point.chapter,
        "section": point.section,
        "kind": point.kind,
    }


def _hash(point: edge.ScoredPoint | edge.Record) -> str | None:
    found = (point.payload or {}).get("text_hash")
    return found if isinstance(found, str) else None


def _place(record: edge.Record) -> WirePlace | None:
    try:
        return msgspec.convert(record.payload or {}, _Place, strict=True).sent()
    except msgspec.ValidationError:
        return None


class _Place(msgspec.Struct):
    """The payload by its names; whatever is missing or of another kind is refused."""

    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: str
    section: str
    kind: str

    def sent(self) -> WirePlace:
        return WirePlace(*msgspec.structs.astuple(self))


def _numbers(vector: bytes, size: int) -> list[float]:
    if len(vector) != 4 * size:
        raise IndexRefused(f"A vector has {len(vector)} bytes instead of {4 * size}.")
    return numbers_of(vector).tolist()


def _bytes(vector: object) -> bytes:
    return bytes_of(vector if isinstance(vector, list) else [])
