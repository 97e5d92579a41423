"""The Qdrant Edge shards of a folder, which answer the calls of the index.

Edge raises plain exceptions whose text may quote its input, and a panic of the engine is not even
an `Exception`. Both become `IndexRefused`, without that text.
"""

from __future__ import annotations

import math
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import qdrant_edge as edge

from truespan import errors
from truespan.core.disk import require_space, sync_folder
from truespan.index.base import BYTES_PER_PAYLOAD, REBUILD, Collection, RawHit, Search, Where
from truespan.index.filters import (
    Equals,
    Field,
    HasId,
    Numbers,
    build,
    indexed_point,
    payload_of,
    text_hash_of,
)
from truespan.types.chunk import IndexedPoint, Point, PointCounts

# Shared by threads: settings of the engine, only read, and used by the index process, which has
# one thread for requests.
_DISTANCES = {"cosine": edge.Distance.Cosine, "dot": edge.Distance.Dot}
# Shared by threads: as above.
_EXACT = edge.SearchParams(exact=True, quantization=edge.QuantizationSearchParams(ignore=True))
# Shared by threads: as above.
_APPROXIMATE = edge.SearchParams(
    exact=False, quantization=edge.QuantizationSearchParams(rescore=True, oversampling=3.0)
)
_MAX_NEW_POINTS = 20_000
"""Maximum number of points without 4-bit vectors; until then, they are searched exactly."""
_MAX_SEGMENT_KB = 150_000
"""Maximum size of a merged segment. No call is answered during a merge."""
_DOCUMENT = Field.DOCUMENT.value
_HASH_ONLY = [Field.TEXT_HASH.value]
_OVERSAMPLING = 2
"""Hits of a wide search for each one that is expected to be in a listed document."""
_MAX_WIDE_HITS = 1000
"""Maximum number of hits of a wide search: reading their payloads takes time too."""
# Shared by threads: as above.
_INDEXES = {
    Field.TENANT: edge.KeywordIndexParams(is_tenant=True),
    Field.DOCUMENT: edge.IntegerIndexParams(lookup=True, range=False),
    Field.POS_START: edge.IntegerIndexParams(lookup=False, range=True),
    Field.POS_REACH: edge.IntegerIndexParams(lookup=False, range=True),
    Field.CHAPTER: edge.KeywordIndexParams(),
    Field.SECTION: edge.KeywordIndexParams(),
}


class EnginePanicked(errors.IndexRefused):
    """The engine stopped in the middle of a call, so its memory cannot be trusted any more."""

    reason: errors.TruespanError | None = None
    """Error to send to the client instead, if the reason is known."""


_OS_ERROR = re.compile(r"(?:\(os error |Os \{ code: )([0-9]{1,4})")


@contextmanager
def edge_errors(doing: str) -> Iterator[None]:
    """Turn any exception of Edge into an error of ours that quotes nothing."""
    try:
        yield
    except (errors.TruespanError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        if "WouldBlock" in str(error):
            raise errors.IndexUnavailable(
                "Another program has the index open.",
                advice="End the program that uses the index folder, then try again.",
            ) from error
        if known := _resource_error(error):
            raise known from error
        raise errors.IndexRefused(
            f"The embedded index could not {doing} ({type(error).__name__}).", advice=REBUILD
        ) from error
    except BaseException as error:
        panic = EnginePanicked(
            f"The embedded index failed while it tried to {doing}.", advice=REBUILD
        )
        panic.reason = _resource_error(error)
        raise panic from error


def _resource_error(error: BaseException) -> errors.TruespanError | None:
    if known := errors.resource_error(error):
        return known
    number = _OS_ERROR.search(str(error))
    return errors.resource_error_of(int(number[1])) if number else None


def create_files(path: Path, collection: Collection, *, quantized: bool = False) -> None:
    """Create the files of an empty collection, with every payload index."""
    with edge_errors("make a collection"):
        path.mkdir()
        shard = edge.EdgeShard.create(str(path), _config(collection, quantized=quantized))
        _add_indexes(shard)
        shard.flush()
        shard.close()


def _config(collection: Collection, *, quantized: bool = False) -> edge.EdgeConfig:
    distance = _DISTANCES[collection.distance]
    vectors = edge.EdgeVectorParams(size=collection.size, distance=distance)
    if not quantized:
        # All points are in one segment, which one thread searches. Waking one of eight threads
        # takes longer than searching a thousand points.
        return edge.EdgeConfig(vectors=vectors, max_search_threads=1)
    # No graph: building one takes minutes or hours, and the engine blocks the interpreter.
    no_graph = edge.HnswIndexConfig(
        m=0, payload_m=0, ef_construct=1, full_scan_threshold=1_000_000_000
    )
    return edge.EdgeConfig(
        vectors=vectors,
        hnsw_config=no_graph,
        quantization_config=edge.TurboQuantQuantizationConfig(
            bits=edge.TurboQuantBitSize.Bits4, memory=edge.Memory.Cached
        ),
        # Several threads search them in parallel.
        optimizers=edge.EdgeOptimizersConfig(
            default_segment_number=4, max_segment_size=_MAX_SEGMENT_KB, indexing_threshold=1
        ),
    )


def _add_indexes(shard: edge.EdgeShard) -> None:
    # Creating an existing index would build it again, so only the missing ones are created.
    present = shard.info().payload_schema
    for field, parameters in _INDEXES.items():
        if field.value not in present:
            shard.update(edge.UpdateOperation.create_field_index(field.value, parameters))


def _admitted(hits: list[edge.ScoredPoint], listed: Numbers | None) -> list[edge.ScoredPoint]:
    """Return the hits in documents of a long list; all of them without one."""
    if listed is None:
        return hits
    return [hit for hit in hits if listed.admits((hit.payload or {}).get(_DOCUMENT))]


def _raw_hits(hits: Sequence[edge.ScoredPoint]) -> list[RawHit]:
    # The id is a UUID, which is converted to text faster when the reply is encoded.
    return [(cast("str", hit.id), hit.score, text_hash_of(hit.payload) or "") for hit in hits]


class Shard:
    """An open shard, which answers the calls of the index about points."""

    def __init__(self, path: Path, collection: Collection) -> None:
        """Open the files of a collection, or refuse those of another size or distance."""
        self.collection = collection
        self._vector = struct.Struct(f"<{collection.size}f")
        self._path = path
        with edge_errors("read its own settings"):
            settings = msgspec.json.decode((path / "edge_config.json").read_bytes())
            vectors = settings["vectors"][""]
            found = Collection(collection.name, vectors["size"], str(vectors["distance"]).lower())
            self.quantized = settings.get("quantization_config") is not None
        if found != collection:
            raise errors.IndexSchemaMismatch(str(collection), str(found))
        with edge_errors("open a collection"):
            config = _config(collection, quantized=self.quantized)
            self._edge = edge.EdgeShard.load(str(path), config)
            info = self._edge.info()
            self._new_points = info.points_count - info.indexed_vectors_count

    @edge_errors("make its payload indexes")
    def prepare(self) -> bool:
        """Add the missing payload indexes; return whether there are no points."""
        _add_indexes(self._edge)
        return self.points() == 0

    @edge_errors("write points")
    def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        if not tenant:
            raise errors.IndexRefused("A point without world and generation cannot be written.")
        new = [
            edge.Point(point.chunk_id, self._numbers(point.vector), payload_of(tenant, point))
            for point in points
        ]
        self._write(new)

    def _write(self, points: list[edge.Point]) -> None:
        self._edge.update(edge.UpdateOperation.upsert_points(points))
        self._new_points += len(points)
        if self.quantized and self._new_points >= _MAX_NEW_POINTS:
            try:
                require_space(self._path, 3 * 1024 * _MAX_SEGMENT_KB)
            except errors.StorageFull:
                return  # The points are written, and can be searched without it.
            self._edge.optimize()
            self._new_points = 0

    def can_approximate(self) -> bool:
        return self.quantized

    @edge_errors("delete points")
    def delete(self, where: Where) -> None:
        self._edge.update(edge.UpdateOperation.delete_points_by_filter(build(where, edge)))

    def delete_stale(self, where: Where, stale: Sequence[tuple[str, str]]) -> None:
        # The engine compares and removes in one step.
        for point, text_hash in stale:
            self.delete((*where, HasId((point,)), Equals(Field.TEXT_HASH, text_hash)))

    @edge_errors("search")
    def search(self, search: Search) -> tuple[list[RawHit], list[RawHit]]:
        """Compare with every point that meets the conditions.

        An approximate search compares 4-bit vectors first, and then the original vectors of the
        best points, so its scores are exact.
        """
        listed = next((part for part in search.where if isinstance(part, Numbers)), None)
        others = tuple(part for part in search.where if part is not listed)
        found = self._search_widely(search, others, listed)
        if found is None:
            params = _APPROXIMATE if search.approximate else _EXACT
            found = self._find(search, search.where, search.limit, params)
        ids, among = search.ids, list[edge.ScoredPoint]()
        if ids:
            where = (*others, HasId(ids))
            among = _admitted(self._find(search, where, len(ids), _EXACT, _DOCUMENT), listed)
        return _raw_hits(found), _raw_hits(among)

    def _find(
        self,
        search: Search,
        where: Where,
        limit: int,
        params: edge.SearchParams,
        *others: str,
    ) -> list[edge.ScoredPoint]:
        """Return the nearest points that meet the conditions, with hashes and `others` fields."""
        if limit <= 0:
            return []
        query = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(self._numbers(search.vector)),
            filter=build(where, edge),
            score_threshold=search.threshold,
            with_payload=[*_HASH_ONLY, *others],
            params=params,
        )
        return self._edge.query(query)

    def _search_widely(
        self, search: Search, where: Where, listed: Numbers | None
    ) -> list[edge.ScoredPoint] | None:
        """Search more documents than a long list names, and keep hits in those of the list.

        The engine takes longer to compare points with the list than to compare vectors. The hits
        are those of a search with the list; None if too few are left to be certain.
        """
        if listed is None or search.approximate or not listed.share or search.limit <= 0:
            return None
        limit = math.ceil(search.limit * _OVERSAMPLING / listed.share) + 1
        if limit > _MAX_WIDE_HITS:
            return None
        wide = self._find(search, where, limit, _EXACT, _DOCUMENT)
        kept = _admitted(wide, listed)
        if len(wide) == limit and (
            len(kept) < search.limit or kept[search.limit - 1].score <= wide[-1].score
        ):
            return None
        return kept[: search.limit]

    @edge_errors("read points")
    def scan(
        self, where: Where, start: str | None, limit: int
    ) -> tuple[list[IndexedPoint], str | None]:
        records, following = self._page(start, limit, build(where, edge))
        return [indexed_point(record, record.vector) for record in records], following

    def _page(
        self, start: str | None, limit: int, chosen: edge.Filter | None
    ) -> tuple[list[Any], str | None]:
        scroll = edge.ScrollRequest(
            offset=start, limit=limit, filter=chosen, with_payload=True, with_vector=True
        )
        records, following = self._edge.scroll(scroll)
        return records, None if following is None else str(following)

    @edge_errors("copy points")
    def copy_page(self, target: Shard, start: str | None, limit: int) -> str | None:
        """Copy one page of live points, bit for bit, to another shard; return the next start.

        For rewrites only: it has no conditions, unlike all calls of clients.
        """
        records, following = self._page(start, limit, None)
        points = [
            edge.Point(record.id, record.vector, record.payload or {})
            for record in records
            if isinstance(record.vector, list)
        ]
        if points:
            target._write(points)
        return following

    @edge_errors("count points")
    def count(self, where: Where) -> int:
        return self._edge.count(edge.CountRequest(exact=True, filter=build(where, edge)))

    @edge_errors("count points")
    def tenants(self, limit: int) -> PointCounts:
        found = self._edge.facet(edge.FacetRequest(Field.TENANT.value, limit=limit, exact=True))
        # Edge also lists tenants whose points are all deleted, with a count of zero.
        counts = {str(hit.value): hit.count for hit in found.hits if hit.count}
        return PointCounts(counts, self._edge.info().points_count)

    @edge_errors("describe itself")
    def points(self) -> int:
        """Return the number of points of all worlds."""
        return self._edge.info().points_count

    @edge_errors("flush")
    def flush(self) -> None:
        self._edge.flush()

    @edge_errors("close")
    def close(self) -> None:
        """Flush and close the files."""
        self._edge.flush()
        self._edge.close()

    def _numbers(self, vector: bytes) -> list[float]:
        if len(vector) != self._vector.size:
            expected = self._vector.size
            raise errors.IndexRefused(f"A vector has {len(vector)} bytes instead of {expected}.")
        # Edge reads a tuple faster than a list.
        return cast("list[float]", self._vector.unpack(vector))


_DRAFT = ".new"
_REMOVED = ".removed"
_FRESH = ".fresh"
_READY = ".ready"
_POINTS_PER_STEP = 256


class Rewrite:
    """A rewrite of a collection from its live points, until the new files replace the old."""

    def __init__(self, path: Path, collection: Collection, *, quantized: bool) -> None:
        self._path = path
        self.fresh = path.with_suffix(_FRESH)
        _remove(self.fresh)
        create_files(self.fresh, collection, quantized=quantized)
        self.shard = Shard(self.fresh, collection)
        self.next: str | None = None
        """First id of the next page of points to copy."""

    def put_in_place(self, old: Shard) -> None:
        """Replace the old files with the new ones.

        If the process is killed between any two of these lines, the next one ends with either all
        old files or all new ones: the new ones are named ready only once they are complete.
        """
        self.shard.close()
        ready, removed = self._path.with_suffix(_READY), self._path.with_suffix(_REMOVED)
        try:
            _remove(ready)
            _remove(removed)
            self.fresh.rename(ready)
            sync_folder(self._path.parent)
            old.close()
            self._path.rename(removed)
            ready.rename(self._path)
            sync_folder(self._path.parent)
            _remove(removed)
        except OSError as error:
            # The state is unknown; the next process finishes or undoes the replacement.
            panic = EnginePanicked("The index could not put its new files in place.")
            panic.reason = errors.resource_error(error)
            raise panic from error


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


_NAME = re.compile(r"[0-9a-f]{16}")


class Collections:
    """The calls of the index about whole collections, and changes of points.

    `shard` returns the shard that answers other calls, opened on demand and kept open. Not safe for
    threads: the process makes one call at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Shard] = {}
        self._rewrites: dict[str, Rewrite] = {}
        self._rewrite_counts: dict[str, int] = {}
        # Finish or undo the rewrite of a killed process, before any file is opened.
        for ready in folder.glob(f"*{_READY}"):
            if not ready.with_suffix("").exists():
                ready.rename(ready.with_suffix(""))
        # Other leftovers are from before the replacement, and may be out of date.
        for suffix in (_READY, _FRESH, _DRAFT, _REMOVED):
            for left in folder.glob(f"*{suffix}"):
                _remove(left)

    def prepare(self, collection: Collection) -> bool:
        if not self._path(collection.name).is_dir():
            self._create(collection)
        return self.shard(collection).prepare()

    def convert(self, collection: Collection, reserve: int) -> bool:
        """Advance a rewrite that quantizes the collection, unless it is quantized."""
        if self.shard(collection).quantized:
            return True
        self._rewrite(collection, reserve, quantized=True)
        return self.shard(collection).quantized

    def upsert(self, collection: Collection, tenant: str, points: list[Point], room: int) -> None:
        require_space(self._folder, room)
        self._change(collection, lambda shard: shard.upsert(tenant, points))

    def delete(self, collection: Collection, where: Where) -> None:
        self._change(collection, lambda shard: shard.delete(where))

    def delete_stale(
        self, collection: Collection, where: Where, stale: list[tuple[str, str]]
    ) -> None:
        self._change(collection, lambda shard: shard.delete_stale(where, stale))

    def collections(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name))

    def discard(self, name: str) -> None:
        _remove(self._set_aside(name))

    def reset(self, collection: Collection) -> None:
        removed = self._set_aside(collection.name)
        self._create(collection)
        _remove(removed)
        self.shard(collection)

    def erase(self, collection: Collection, ticket: int, reserve: int) -> tuple[int, bool]:
        """Advance a rewrite by one step.

        A ticket is the number of the first rewrite that starts after the first call: a rewrite that
        was already running may have copied points that have been deleted since.
        """
        name = collection.name
        if not self._path(name).is_dir():
            return ticket, True
        done = self._rewrite_counts.get(name, 0)
        following = done + (2 if name in self._rewrites else 1)
        ticket = min(ticket or following, following)
        if done < ticket:
            self._rewrite(collection, reserve)
        return ticket, self._rewrite_counts.get(name, 0) >= ticket

    def close(self) -> None:
        """Flush and close all shards, also after one could not be closed; then raise its error."""
        failure: errors.IndexRefused | None = None
        for name in list(self._rewrites):
            self._abandon(name)
        while self._open:
            _, shard = self._open.popitem()
            try:
                shard.close()
            except errors.IndexRefused as error:
                failure = error
        if failure is not None:
            raise failure

    def _change(self, collection: Collection, change: Callable[[Shard], None]) -> None:
        """Make a change, also in the new files of a running rewrite."""
        change(self.shard(collection))
        if (rewrite := self._rewrites.get(collection.name)) is not None:
            try:
                change(rewrite.shard)
            except EnginePanicked:
                raise
            except errors.IndexRefused:
                self._abandon(collection.name)

    def shard(self, collection: Collection) -> Shard:
        shard = self._open.get(collection.name)
        if shard is not None and shard.collection == collection:
            return shard
        path = self._path(collection.name)
        if not path.is_dir():
            raise errors.IndexRefused(
                "The index has no collection for this profile.", advice=REBUILD
            )
        shard = self._open[collection.name] = Shard(path, collection)
        return shard

    def _create(self, collection: Collection) -> None:
        path = self._path(collection.name)
        draft = path.with_suffix(_DRAFT)
        _remove(draft)
        create_files(draft, collection)
        draft.rename(path)
        sync_folder(self._folder)

    def _set_aside(self, name: str) -> Path:
        path = self._path(name)
        removed = path.with_suffix(_REMOVED)
        self._abandon(name)
        if (shard := self._open.pop(name, None)) is not None:
            shard.close()
        _remove(removed)
        if path.exists():
            # Renamed first, so that a killed process leaves no half-removed collection.
            path.rename(removed)
        return removed

    def _rewrite(self, collection: Collection, reserve: int, *, quantized: bool = False) -> None:
        name, shard = collection.name, self.shard(collection)
        if name not in self._rewrites:
            quantized = quantized or shard.quantized
            size = shard.points() * ((5 if quantized else 4) * collection.size + BYTES_PER_PAYLOAD)
            require_space(self._folder, reserve + 2 * size)
            self._rewrites[name] = Rewrite(self._path(name), collection, quantized=quantized)
        rewrite = self._rewrites[name]
        try:
            rewrite.next = shard.copy_page(rewrite.shard, rewrite.next, _POINTS_PER_STEP)
            if rewrite.next is not None:
                return
            del self._open[name]
            rewrite.put_in_place(shard)
        except errors.IndexRefused:
            self._open.pop(name, None)
            self._abandon(name)
            raise
        del self._rewrites[name]
        self._rewrite_counts[name] = self._rewrite_counts.get(name, 0) + 1

    def _abandon(self, name: str) -> None:
        if (rewrite := self._rewrites.pop(name, None)) is not None:
            with suppress(errors.IndexRefused):
                rewrite.shard.close()
            _remove(rewrite.fresh)

    def _path(self, name: str) -> Path:
        # The name becomes a path, so it must be a digest and nothing else.
        if not _NAME.fullmatch(name):
            raise errors.IndexRefused("A collection must be named by a profile's id.")
        return self._folder / name
