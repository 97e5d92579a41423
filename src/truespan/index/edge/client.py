"""The embedded index behind the port `VectorIndex`: Qdrant Edge, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec.structs import astuple

from truespan.errors import IndexRefused, IndexUnavailable
from truespan.index.edge import channel
from truespan.index.edge.messages import (
    VERSION,
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
    Hello,
    ListCollections,
    Listed,
    ListTenants,
    Page,
    Prepare,
    Prepared,
    Refused,
    Reply,
    Request,
    Reset,
    Retire,
    Retiring,
    Scan,
    Search,
    Tenants,
    Upsert,
    Welcome,
    WirePlace,
    WirePoint,
    as_error,
    decode_reply,
    encode,
)
from truespan.index.filters import (
    Equals,
    Field,
    HasId,
    check_length,
    check_vector,
    conditions,
    hits_of,
    slices,
    tenant,
    threshold,
)
from truespan.types.chunk import Holdings, IndexedPoint, Point, PointPlace, Vector
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import FileFate
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.trust import Hit

_ATTEMPTS = 3
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05
_LARGEST_LOG = 1 << 20

if sys.platform == "win32":
    _DETACHED = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _DETACHED = 0


class EdgeLink:
    """Asks the index process of one folder; safe to use from several threads."""

    def __init__(
        self, folder: Path, *, idle_seconds: float, start_timeout: float, request_timeout: float
    ) -> None:
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._start_timeout = start_timeout
        self._request_timeout = request_timeout
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._free: list[Connection] = []
        self._owner = os.getpid()
        self.server = 0
        """The process that the latest connection leads to; another number is another process."""

    def ask(self, request: Request) -> Reply:
        """Return the reply to a request, from a process that is started if need be.

        Raises:
            IndexUnavailable: there is no reply; whether the request was carried out is unknown.
        """
        message = encode(request)
        for _ in range(_ATTEMPTS):
            connection = self._borrow()
            reply = self._exchange(connection, message)
            if reply is not None and not isinstance(reply, Retiring):
                self._give_back(connection)
                return reply
            connection.close()
            self.close()
        raise IndexUnavailable("The index process ended each time it was asked.")

    def has_process(self) -> bool:
        """Say whether a process has published its address, and not taken it back."""
        return channel.published(self._folder) is not None

    def close(self) -> None:
        """Close the connections that nobody uses; the process goes on for others."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _exchange(self, connection: Connection, message: bytes) -> Reply | None:
        """Return the reply; None when the process had gone before it could read the message."""
        try:
            if not _sent(connection, message):
                return None
            return decode_reply(channel.receive(connection, self._request_timeout))
        except BaseException as error:
            # A reply that nobody waited for would be taken for that of the next request.
            connection.close()
            if isinstance(error, BlockingIOError | TimeoutError):
                raise IndexUnavailable("The index process did not answer in time.") from error
            if isinstance(error, OSError | EOFError | msgspec.DecodeError):
                raise IndexUnavailable("The index process went away during a request.") from error
            raise

    def _borrow(self) -> Connection:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork the connections are the parent's: two users would mix up replies.
                self._free, self._owner = [], os.getpid()
            if self._free:
                return self._free.pop()
        return self._open()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._free.append(connection)

    def _open(self) -> Connection:
        """Return a new connection, to a process that is started if none answers."""
        deadline = time.monotonic() + self._start_timeout
        process: subprocess.Popen[bytes] | None = None
        pause = _FIRST_PAUSE
        with self._starting:
            while True:
                connection, strange = self._connect()
                if connection is not None:
                    return connection
                if process is None or process.poll() is not None:
                    _judge_end(process, strange)
                    process = self._start()
                if time.monotonic() > deadline:
                    raise IndexUnavailable("The index process did not start in time.")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _connect(self) -> tuple[Connection | None, bool]:
        """Return a connection if a process answers, and whether one does that has another key."""
        address = channel.published(self._folder)
        if address is None:
            return None, False
        try:
            key = channel.key_of(self._folder)
            connection = channel.connect(address, key, self._start_timeout)
        except channel.Refusal:
            return None, True
        except (OSError, EOFError):
            return None, False
        return self._greeted(connection), False

    def _greeted(self, connection: Connection) -> Connection | None:
        """Return the connection if the process at its end serves our folder and will go on."""
        try:
            connection.send_bytes(encode(Hello(VERSION, channel.identity(self._folder))))
            reply = decode_reply(channel.receive(connection, self._start_timeout))
            if isinstance(reply, Welcome):
                channel.limit_waiting(connection, self._request_timeout)
                self.server = reply.pid
                return connection
        except (OSError, EOFError, msgspec.DecodeError):
            reply = None
        connection.close()
        if isinstance(reply, Refused):
            raise as_error(reply)
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened_log(self._folder) as log:
                process = _spawn(self._folder.resolve(), self._idle_seconds, log)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise IndexUnavailable(f"The index process cannot be started: {reason}.") from error
        # Somebody has to take note of its end, or it would stay in the process table.
        threading.Thread(target=process.wait, daemon=True).start()
        return process


def _sent(connection: Connection, message: bytes) -> bool:
    """Send a message whole; False when the process has closed the connection."""
    try:
        connection.send_bytes(message)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _judge_end(process: subprocess.Popen[bytes] | None, strange: bool) -> None:
    """Raise if the end of a process that we started shows that starting it again is no use."""
    if process is None:
        return
    if process.returncode != 0:
        raise IndexUnavailable(
            f"The index process ended with status {process.returncode} when it was started.",
            advice=f"The reason is in '{channel.LOG}' in the index folder.",
        )
    if strange:
        raise IndexRefused(
            "The index process of this folder was started with another key.",
            advice="It ends by itself when it is idle.",
        )


def _spawn(folder: Path, idle_seconds: float, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start the process on its own: it outlives us, and a Ctrl-C here does not reach it."""
    module = "truespan.index.edge.process"
    return subprocess.Popen(
        # -P keeps the current directory off the import path, where anybody may have put modules.
        [sys.executable, "-P", "-m", module, str(folder), str(idle_seconds)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        env=os.environ | {"RUST_BACKTRACE": "0"},
        start_new_session=not channel.WINDOWS,
        creationflags=_DETACHED,
    )


def _opened_log(folder: Path) -> BinaryIO:
    path = folder / channel.LOG
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        os.truncate(path, 0)
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


R = TypeVar("R", bound=Reply)

_POINTS_PER_REQUEST = 128
"""Searches of other clients wait while a request is carried out: about 15 ms for this many."""

_IDS_PER_REQUEST = 1000
_POINTS_PER_PAGE = 256
_BYTES_PER_PAYLOAD = 512


class EdgeIndex:
    """Speaks to the index process of a folder, which all programs on the machine share.

    Nothing is opened or started before the first call. Threads may share one object.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reserve: int,
        idle_seconds: float = 300,
        start_timeout: float = 30,
        request_timeout: float = 60,
    ) -> None:
        self._reserve = reserve
        self._link = EdgeLink(
            folder,
            idle_seconds=idle_seconds,
            start_timeout=start_timeout,
            request_timeout=request_timeout,
        )
        self._prepared: set[tuple[int, str]] = set()

    def prepare(self, scope: Scope) -> bool:
        """Make sure the profile's collection and its payload indexes exist; say if it is empty.

        Asks each index process once: what it has prepared stays prepared.
        """
        profile = scope.profile.id
        if (self._link.server, profile) in self._prepared:
            return False
        reply = self._ask(Prepare(_collection(scope)), Prepared)
        self._prepared.add((self._link.server, profile))
        return reply.empty

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points in slices; the first is written only if there is room for all."""
        collection = _collection(scope)
        wire = [_wire_point(point, collection.size) for point in points]
        for start in range(0, len(wire), _POINTS_PER_REQUEST):
            room = self._reserve + _bytes_needed(len(wire) - start, collection.size)
            part = wire[start : start + _POINTS_PER_REQUEST]
            self._ask(Upsert(collection, scope.tenant, part, room), Done)

    def flush(self, scope: Scope) -> None:
        """Return once everything written so far is on the disk."""
        self._ask(Flush(_collection(scope)), Done)

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Remove points by id, if they belong to the scope's world and generation."""
        for part in slices(ids, _IDS_PER_REQUEST):
            self._ask(Delete(_collection(scope), (tenant(scope), HasId(part))), Done)

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        """Remove each point unless it was embedded anew, with another hash, in the meantime."""
        for part in slices(stale, _IDS_PER_REQUEST):
            where = (tenant(scope),)
            self._ask(DeleteStale(_collection(scope), where, list(part)), Done)

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        """Return the best hits; conditions and floor are part of the request."""
        return self.search_with(scope, vector, limit=limit, floor=floor, ids=())[0]

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        """Return the best hits, and the hits among `ids`, in one request."""
        collection = _collection(scope)
        check_vector(vector, collection.size)
        if scope.documents == frozenset() or limit < 1:
            return [], []
        sent = None if floor is None else threshold(floor, collection.distance)
        request = Search(collection, conditions(scope), vector, limit, sent, tuple(ids))
        found = self._ask(request, Found)
        distance = collection.distance
        return hits_of(found.hits, distance, floor), hits_of(found.named, distance, floor)

    def approximate(self, scope: Scope) -> bool:
        """Say that none is: each search compares with every point that its scope allows."""
        del scope
        return False

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Give every point of the world and generation, page by page.

        Vectors come back bit for bit if their length is one; the index scales others to that.
        """
        start: str | None = None
        while True:
            request = Scan(_collection(scope), (tenant(scope),), start, _POINTS_PER_PAGE)
            page = self._ask(request, Page)
            if page.points:
                yield [_indexed(*point) for point in page.points]
            if page.next is None:
                return
            start = page.next

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        """Return points by id, if they belong to the scope's world and generation."""
        found: list[IndexedPoint] = []
        for part in slices(ids, _POINTS_PER_PAGE):
            where = (tenant(scope), HasId(part))
            page = self._ask(Scan(_collection(scope), where, None, len(part)), Page)
            found.extend(_indexed(*point) for point in page.points)
        return found

    def tenants(self, scope: Scope, *, limit: int) -> Holdings:
        """Return whose points the profile's collection holds, and how many."""
        reply = self._ask(ListTenants(_collection(scope), limit), Tenants)
        return Holdings(reply.counts, reply.points)

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Remove the points of a tenant by its name, which need not be one a scope can have."""
        where = (Equals(Field.TENANT, tenant),)
        self._ask(Delete(_collection(scope), where), Done)

    def collections(self) -> list[str]:
        """Return the profiles that have files, whatever state these are in."""
        return self._ask(ListCollections(), Listed).names

    def discard(self, profile: str) -> None:
        """Remove the files of a profile's collection."""
        self._ask(Discard(profile), Done)

    def count(self, scope: Scope) -> int:
        """Return how many points the world and generation have."""
        return self._ask(Count(_collection(scope), (tenant(scope),)), Counted).points

    def drop(self, scope: Scope) -> None:
        """Remove every point of the world and generation."""
        self._ask(Delete(_collection(scope), (tenant(scope),)), Done)

    def reset(self, scope: Scope) -> None:
        """Remove the profile's collection, points of all worlds included, and make it anew.

        For files that cannot be opened any more; the points come back from the store.
        """
        self._ask(Reset(_collection(scope)), Done)

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        """Have the profile's files written anew from their live points, step by step.

        Searches of other clients are answered between two steps.
        """
        collection, ticket, done = _collection_of(profile), 0, False
        while not done:
            reply = self._ask(Erase(collection, ticket, self._reserve), Erased)
            ticket, done = reply.ticket, reply.done
        return FileFate.GONE

    def retire(self) -> None:
        """Ask the shared process, if it runs, to end cleanly; whoever asks next starts another."""
        if self._link.has_process():
            self._ask(Retire(), Done)
        self.close()

    def close(self) -> None:
        """Let go of the process, which ends when nobody has used it for a while."""
        self._link.close()

    def _ask(self, request: Request, expected: type[R]) -> R:
        reply = self._link.ask(request)
        if isinstance(reply, expected):
            return reply
        raise as_error(reply)


def _collection(scope: Scope) -> Collection:
    return _collection_of(scope.profile)


def _collection_of(profile: EmbeddingProfile) -> Collection:
    return Collection(profile.id, profile.dimensions, profile.distance.value)


def _wire_point(point: Point, size: int) -> WirePoint:
    check_length(point.vector, size)
    return WirePoint(
        point.chunk_id,
        point.vector,
        point.text_hash,
        point.document,
        point.pos_start,
        point.pos_end,
        point.pos_reach,
        point.chapter.casefold(),
        point.section.casefold(),
        point.kind.value,
    )


def _bytes_needed(points: int, size: int) -> int:
    """Return what points take on the disk: once in the log of writes and once in their place."""
    return 2 * points * (4 * size + _BYTES_PER_PAYLOAD)


def _indexed(
    id: str, text_hash: str | None, vector: bytes, place: WirePlace | None
) -> IndexedPoint:
    found = None if text_hash is None else TextHash(text_hash)
    where = None if place is None else PointPlace(*astuple(place))
    return IndexedPoint(ChunkId(id), found, Vector(vector), where)
