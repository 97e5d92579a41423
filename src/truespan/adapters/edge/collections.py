"""The collections of one index folder: a folder with a shard for each embedding profile.

A collection's folder is either complete or absent: it is made beside its place and moved there.
Edge holds the interpreter for the whole of each call, so one lock around all of them costs nothing
and nobody can use a shard while another closes it.
"""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

from truespan.adapters.disk_space import require_space
from truespan.adapters.durable import sync_folder
from truespan.adapters.edge.rewrite import DRAFT, REMOVED, Rewrite, recover
from truespan.adapters.edge.shard import REBUILD, Shard, check_shape, create_files
from truespan.adapters.edge.wire import (
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
    ListCollections,
    Listed,
    ListTenants,
    Prepare,
    Prepared,
    Reply,
    Request,
    Reset,
    Scan,
    Search,
    Upsert,
)
from truespan.errors import IndexRefused

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
