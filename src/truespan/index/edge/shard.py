"""One Qdrant Edge shard: the calls the index needs, as typed values in and out.

Edge raises bare exceptions whose text may quote what it was given, and a panic of the engine is not
even an `Exception`. Both leave here as `IndexRefused`, without that text.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import qdrant_edge as edge

from truespan.errors import IndexRefused, IndexUnavailable, TruespanError
from truespan.files.disk import require_space, sync_folder
from truespan.index.edge.messages import (
    Collection,
    Count,
    Counted,
    Delete,
    DeleteStale,
    Discard,
    Done,
    Erase,
    Erased,
    Flush,
    Found,
    ListCollections,
    Listed,
    ListTenants,
    Page,
    Prepare,
    Prepared,
    Reply,
    Request,
    Reset,
    Scan,
    Search,
    ShapeDiffers,
    Tenants,
    Upsert,
    WirePlace,
    WirePoint,
)
from truespan.index.filters import Condition, Equals, Field, HasId, build, names_tenant
from truespan.types.vectors import bytes_of, numbers_of

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


DRAFT = ".new"
REMOVED = ".removed"
_FRESH = ".fresh"
_READY = ".ready"
_POINTS_PER_STEP = 256


class Rewrite:
    """One rewriting of a collection, from its beginning to the change of files."""

    def __init__(self, path: Path, collection: Collection) -> None:
        self._path = path
        self._fresh = path.with_suffix(_FRESH)
        _remove(self._fresh)
        create_files(self._fresh, collection)
        self._shard = Shard(self._fresh, collection)
        self._next: str | None = None
        self.copied = False

    def step(self, source: Shard) -> None:
        """Copy the next page of points; `copied` says whether that was the last one."""
        self._next = source.copy_page(self._shard, self._next, _POINTS_PER_STEP)
        self.copied = self._next is None

    def repeat(self, request: Request) -> bool:
        """Do in the fresh files what was done in the old ones; False when that failed."""
        try:
            match request:
                case Upsert():
                    self._shard.upsert(request)
                case Delete():
                    self._shard.delete(request.where)
                case DeleteStale():
                    self._shard.delete_stale(request)
                case _:
                    pass
        except EnginePanicked:
            raise
        except IndexRefused:
            return False
        return True

    def put_in_place(self, old: Shard) -> None:
        """Let the fresh files take the place of the old ones, which are removed.

        Killed between any two of these lines, `recover` ends with either all old files or all fresh
        ones: the fresh are called ready only once they are whole and on the disk.
        """
        self._shard.close()
        ready, removed = self._path.with_suffix(_READY), self._path.with_suffix(REMOVED)
        try:
            _remove(ready)
            _remove(removed)
            self._fresh.rename(ready)
            sync_folder(self._path.parent)
            old.close()
            self._path.rename(removed)
            ready.rename(self._path)
            sync_folder(self._path.parent)
            _remove(removed)
        except OSError as error:
            # Whoever starts next finds out how far it came; this process cannot be sure.
            raise EnginePanicked("The index could not put its fresh files in place.") from error

    def abandon(self) -> None:
        """Give up, and remove the fresh files."""
        with suppress(IndexRefused):
            self._shard.close()
        _remove(self._fresh)


def recover(folder: Path) -> None:
    """Finish or undo what a process that was killed left half done; before any file is opened."""
    for ready in folder.glob(f"*{_READY}"):
        if not ready.with_suffix("").exists():
            ready.rename(ready.with_suffix(""))
    # What still stands beside its collection is from before the change, and may be out of date.
    for suffix in (_READY, _FRESH, DRAFT, REMOVED):
        for left in folder.glob(f"*{suffix}"):
            _remove(left)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


_NAME = re.compile(r"[0-9a-f]{16}")
_BYTES_PER_PAYLOAD = 512


class Collections:
    """Opens shards on demand, keeps them open, and does one request after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: dict[str, Shard] = {}
        self._rewrites: dict[str, Rewrite] = {}
        self._rewritten: dict[str, int] = {}
        recover(folder)

    def answer(self, request: Request) -> Reply:
        """Do what a request asks.

        Raises:
            TruespanError: it was not done.
        """
        with self._lock:
            return self._do(request)

    def close(self) -> None:
        """Flush and close all of them, once no request is under way.

        Raises:
            IndexRefused: one could not be closed; the others were.
        """
        failure: IndexRefused | None = None
        with self._lock:
            for name in list(self._rewrites):
                self._abandon(name)
            while self._open:
                _, shard = self._open.popitem()
                try:
                    shard.close()
                except IndexRefused as error:
                    failure = error
        if failure is not None:
            raise failure

    def _do(self, request: Request) -> Reply:
        match request:
            case Search(collection):
                return self._shard(collection).search(request)
            case Scan(collection):
                return self._shard(collection).scan(request)
            case Prepare(collection):
                return Prepared(self._prepare(collection))
            case Count(collection, where):
                return Counted(self._shard(collection).count(where))
            case ListTenants(collection, limit):
                return self._shard(collection).tenants(limit)
            case ListCollections():
                return Listed(self._names())
            case Erase():
                return self._erase(request)
            case _:
                self._change(request)
                return Done()

    def _change(self, request: Request) -> None:
        match request:
            case Upsert(collection):
                require_space(self._folder, request.room)
                self._shard(collection).upsert(request)
                self._repeat(collection, request)
            case Flush(collection):
                self._shard(collection).flush()
            case Delete(collection, where):
                self._shard(collection).delete(where)
                self._repeat(collection, request)
            case DeleteStale(collection):
                self._shard(collection).delete_stale(request)
                self._repeat(collection, request)
            case Reset(collection):
                self._reset(collection)
            case Discard(name):
                self._discard(name)
            case _:
                raise IndexRefused("The index process does not know this request.")

    def _shard(self, collection: Collection) -> Shard:
        shard = self._open.get(collection.name)
        if shard is not None and shard.collection == collection:
            return shard
        path = self._path(collection)
        if not path.is_dir():
            raise IndexRefused("The index has no collection for this profile.", advice=REBUILD)
        check_shape(path, collection)
        shard = self._open[collection.name] = Shard(path, collection)
        return shard

    def _prepare(self, collection: Collection) -> bool:
        """Make the collection ready; say whether it is empty."""
        if not self._path(collection).is_dir():
            self._create(collection)
        shard = self._shard(collection)
        shard.prepare()
        return shard.is_empty()

    def _create(self, collection: Collection) -> None:
        path = self._path(collection)
        draft = path.with_suffix(DRAFT)
        shutil.rmtree(draft, ignore_errors=True)
        create_files(draft, collection)
        draft.rename(path)
        sync_folder(self._folder)

    def _reset(self, collection: Collection) -> None:
        removed = self._set_aside(collection.name)
        self._create(collection)
        shutil.rmtree(removed, ignore_errors=True)
        self._shard(collection)

    def _discard(self, name: str) -> None:
        shutil.rmtree(self._set_aside(name), ignore_errors=True)

    def _set_aside(self, name: str) -> Path:
        """Close a collection and move its files away; return where they are now."""
        path = self._named(name)
        removed = path.with_suffix(REMOVED)
        self._abandon(name)
        if (shard := self._open.pop(name, None)) is not None:
            shard.close()
        shutil.rmtree(removed, ignore_errors=True)
        if path.exists():
            # Moved first: a process that ends halfway leaves no half of a collection in its place.
            path.rename(removed)
        return removed

    def _erase(self, request: Erase) -> Erased:
        """Bring a rewriting one step on.

        A ticket is the number of the first rewriting that begins after its first request: one that
        was under way already may have copied what has been deleted since.
        """
        name = request.collection.name
        if not self._path(request.collection).is_dir():
            return Erased(request.ticket, True)
        done = self._rewritten.get(name, 0)
        following = done + (2 if name in self._rewrites else 1)
        ticket = min(request.ticket or following, following)
        if done < ticket:
            self._rewrite(request)
        return Erased(ticket, self._rewritten.get(name, 0) >= ticket)

    def _rewrite(self, request: Erase) -> None:
        collection = request.collection
        name, shard = collection.name, self._shard(collection)
        if name not in self._rewrites:
            points = shard.points() * (4 * collection.size + _BYTES_PER_PAYLOAD)
            require_space(self._folder, request.reserve + 2 * points)
            self._rewrites[name] = Rewrite(self._path(collection), collection)
        rewrite = self._rewrites[name]
        try:
            rewrite.step(shard)
            if not rewrite.copied:
                return
            del self._open[name]
            rewrite.put_in_place(shard)
        except IndexRefused:
            self._open.pop(name, None)
            self._abandon(name)
            raise
        del self._rewrites[name]
        self._rewritten[name] = self._rewritten.get(name, 0) + 1

    def _repeat(self, collection: Collection, request: Request) -> None:
        rewrite = self._rewrites.get(collection.name)
        if rewrite is not None and not rewrite.repeat(request):
            self._abandon(collection.name)

    def _abandon(self, name: str) -> None:
        if (rewrite := self._rewrites.pop(name, None)) is not None:
            rewrite.abandon()

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name))

    def _path(self, collection: Collection) -> Path:
        return self._named(collection.name)

    def _named(self, name: str) -> Path:
        # The name becomes a path, so it must be a digest and nothing else.
        if not _NAME.fullmatch(name):
            raise IndexRefused("A collection must be named by a profile's id.")
        return self._folder / name
