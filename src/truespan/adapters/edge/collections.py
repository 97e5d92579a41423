"""The collections of one index folder: a folder with a shard for each embedding profile.

A collection's folder is either complete or absent: it is made beside its place and moved there.
Edge holds the interpreter for the whole of each call, so one lock around all of them costs nothing
and nobody can use a shard while another closes it.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path

from truespan.adapters.disk_space import require_space
from truespan.adapters.edge.shard import REBUILD, Shard, check_shape, create_files
from truespan.adapters.edge.wire import (
    Collection,
    Count,
    Counted,
    Delete,
    DeleteStale,
    Done,
    Flush,
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
_DRAFT = ".new"
_REMOVED = ".removed"


class Collections:
    """Opens shards on demand, keeps them open, and does one request after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: dict[str, Shard] = {}

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
            case _:
                self._change(request)
                return Done()

    def _change(self, request: Request) -> None:
        match request:
            case Upsert(collection):
                require_space(self._folder, request.room)
                self._shard(collection).upsert(request)
            case Flush(collection):
                self._shard(collection).flush()
            case Delete(collection, where):
                self._shard(collection).delete(where)
            case DeleteStale(collection):
                self._shard(collection).delete_stale(request)
            case Reset(collection):
                self._reset(collection)
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
        draft = path.with_suffix(_DRAFT)
        shutil.rmtree(draft, ignore_errors=True)
        create_files(draft, collection)
        draft.rename(path)
        _sync_names(self._folder)

    def _reset(self, collection: Collection) -> None:
        path = self._path(collection)
        removed = path.with_suffix(_REMOVED)
        if (shard := self._open.pop(collection.name, None)) is not None:
            shard.close()
        shutil.rmtree(removed, ignore_errors=True)
        if path.exists():
            # Moved first: a process that ends halfway leaves no half of a collection in its place.
            path.rename(removed)
        self._create(collection)
        shutil.rmtree(removed, ignore_errors=True)
        self._shard(collection)

    def _path(self, collection: Collection) -> Path:
        # The name becomes a path, so it must be a digest and nothing else.
        if not _NAME.fullmatch(collection.name):
            raise IndexRefused("A collection must be named by a profile's id.")
        return self._folder / collection.name


def _sync_names(folder: Path) -> None:
    """Make a new name in a folder survive a crash of the machine, where systems allow it."""
    if os.name == "posix":
        names = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)
