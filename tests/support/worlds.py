"""Worlds to break: small libraries whose index can lie and whose clock is moved by hand."""

from __future__ import annotations

import math
import re
import secrets
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from tests.support.checksums import reseal_world
from truespan.core.clock import SystemProcesses
from truespan.engine.components import Components, OtherEmbedder
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.files.assets import AssetFolder
from truespan.files.golden import GoldenFolder
from truespan.files.sources import FileSources
from truespan.files.uploads import UploadFolder
from truespan.ingest.draft import Preparation
from truespan.parsing import load, may_hold_members, supported
from truespan.parsing.members import list_members, read_members
from truespan.protocols import (
    EmbeddingLimits,
    FolderWatcher,
    PageFetcher,
    SourceParser,
    VectorIndex,
)
from truespan.store import Store
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.text.sentences import split_sentences
from truespan.types.chunk import Holdings, IndexedPoint, Point, PointPlace
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import FileFate, Ownership
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.request import Defaults
from truespan.types.scope import OWNER, Authority, Scope, admits
from truespan.types.source import PARSE_DEFAULTS, DocumentOptions, Members, ParseOptions
from truespan.types.text import CanonicalText, Loaded, Sentence, TokenMap, fold_names
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

WORDS = EmbeddingProfile(
    provider="test",
    model="words",
    revision="1",
    dimensions=64,
    distance=Distance.COSINE,
    document_mode="document",
    query_mode="query",
    input_limit=400,
)


def vector_of(text: str, dimensions: int = 64) -> Vector:
    """Return a unit vector in which each word has a direction: texts that share words are close."""
    numbers = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or ["(none)"]:
        first, second = _directions(word)
        numbers[first % dimensions] += 1.0
        numbers[second % dimensions] += 0.5
    norm = math.sqrt(sum(number * number for number in numbers))
    return Vector(array("f", [number / norm for number in numbers]).tobytes())


@lru_cache(1 << 16)
def _directions(word: str) -> tuple[int, int]:
    digest = sha256(word.encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


@dataclass
class WordEmbedder:
    """A provider that answers from the words alone, and remembers what it was asked."""

    profile: EmbeddingProfile = WORDS
    endpoint: str = "test"
    limits: EmbeddingLimits = field(
        default_factory=lambda: EmbeddingLimits(items=16, in_flight=1, joint=False)
    )
    documents: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    before: Callable[[], None] | None = None
    """Called ahead of every request; may raise."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.before:
            self.before()
        self.documents.extend(texts)
        return [vector_of(text, self.profile.dimensions) for text in texts]

    def embed_query(self, text: str) -> Vector:
        if self.before:
            self.before()
        self.queries.append(text)
        return vector_of(text, self.profile.dimensions)

    def count_query(self, text: str) -> int:
        return len(text.split())

    @property
    def calls(self) -> int:
        return len(self.documents) + len(self.queries)


class WordCounter:
    """Counts white-space separated words."""

    name = "words-1"

    def measure(self, text: str) -> TokenMap:
        starts = [found.start() for found in re.finditer(r"\S+", text)]
        return TokenMap(text, starts, range(len(starts) + 1), self.count)

    def count(self, text: str) -> int:
        return len(text.split())


@dataclass
class HandClock:
    """A clock that is moved by hand and never waits."""

    time: float = 1_000_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class DirectParser:
    """Parses in this very process, with the code that the child process runs."""

    def parse(self, name: str, data: bytes, options: ParseOptions = PARSE_DEFAULTS) -> Loaded:
        return load(name, data, options)

    def members(
        self, name: str, data: bytes, options: DocumentOptions, first: str | None = None
    ) -> Members:
        if first is None:
            return list_members(name, data, options)
        return read_members(name, data, options, first)

    def split(self, name: str, canonical: CanonicalText, language: str) -> list[Sentence]:
        return split_sentences(canonical, language)

    def close(self) -> None:
        return


class MemoryIndex:
    """An exact index in memory. It answers as the real one does: the contract suite says so.

    Threads share it, so whatever is gone through is copied first.
    """

    def __init__(self) -> None:
        self.points: dict[tuple[str, str], dict[ChunkId, Point]] = {}
        self.calls: list[str] = []

    def _of(self, scope: Scope) -> dict[ChunkId, Point]:
        return self.points.setdefault((scope.profile.id, scope.tenant), {})

    def prepare(self, scope: Scope) -> bool:
        self.calls.append("prepare")
        return not any(
            points
            for (profile, _), points in list(self.points.items())
            if profile == scope.profile.id
        )

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        self.calls.append("upsert")
        self._of(scope).update({point.chunk_id: point for point in points})

    def flush(self, scope: Scope) -> None:
        self.calls.append("flush")

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        self.calls.append("delete")
        for chunk_id in ids:
            self._of(scope).pop(chunk_id, None)

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        self.calls.append("delete_stale")
        for chunk_id, text_hash in stale:
            point = self._of(scope).get(chunk_id)
            if point is not None and point.text_hash == text_hash:
                del self._of(scope)[chunk_id]

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        self.calls.append("search")
        hits = [
            Hit(point.chunk_id, similarity(vector, point.vector), point.text_hash)
            for point in list(self._of(scope).values())
            if _within(point, scope)
        ]
        kept = [hit for hit in hits if floor is None or hit.score >= floor - 1e-7]
        return sorted(kept, key=lambda hit: -hit.score)[:limit]

    def start_search(
        self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
    ) -> Callable[[], list[Hit]]:
        return lambda: self.search(scope, vector, limit=limit, floor=floor)

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        everything = self.search(scope, vector, limit=1 << 30, floor=floor)
        hits = self.search(scope, vector, limit=limit, floor=floor)
        return hits, [hit for hit in everything if hit.chunk_id in set(ids)]

    def approximate(self, scope: Scope) -> bool:
        return False

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        points = list(self._of(scope).values())
        for start in range(0, len(points), 100):
            yield [_indexed(point) for point in points[start : start + 100]]

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        points = self._of(scope)
        return [_indexed(points[chunk_id]) for chunk_id in ids if chunk_id in points]

    def tenants(self, scope: Scope, *, limit: int) -> Holdings:
        counts = {
            tenant: len(points)
            for (profile, tenant), points in list(self.points.items())
            if profile == scope.profile.id and points
        }
        return Holdings(dict(sorted(counts.items())[:limit]), sum(counts.values()))

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        self.points.pop((scope.profile.id, tenant), None)

    def collections(self) -> list[str]:
        return sorted({profile for (profile, _), points in list(self.points.items()) if points})

    def discard(self, profile: str) -> None:
        for key in [key for key in self.points if key[0] == profile]:
            del self.points[key]

    def ownership(self, profile: str) -> Ownership:
        del profile
        return Ownership.OWN

    def claim(self, profile: str) -> None:
        self.calls.append(f"claim {profile}")

    def count(self, scope: Scope) -> int:
        return len(self._of(scope))

    def count_within(self, scope: Scope) -> int:
        self.calls.append("count_within")
        return sum(_within(point, scope) for point in list(self._of(scope).values()))

    def drop(self, scope: Scope) -> None:
        self._of(scope).clear()

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        self.calls.append("erase")
        return FileFate.GONE

    def reset(self, scope: Scope) -> None:
        for key in [key for key in self.points if key[0] == scope.profile.id]:
            del self.points[key]

    def close(self) -> None:
        self.calls.append("close")


def _indexed(point: Point) -> IndexedPoint:
    place = PointPlace(
        point.document,
        point.pos_start,
        point.pos_end,
        point.pos_reach,
        fold_names(point.chapters),
        fold_names(point.sections),
        point.kind,
    )
    return IndexedPoint(point.chunk_id, point.text_hash, point.vector, place)


def _within(point: Point, scope: Scope) -> bool:
    position = scope.position
    return (
        admits(scope.documents, point.document)
        and scope.chapter in (None, *fold_names(point.chapters))
        and scope.section in (None, *fold_names(point.sections))
        and (position is None or (point.pos_start <= position and point.pos_reach <= position))
    )


def similarity(one: Vector, other: Vector) -> float:
    """Return the cosine of two unit vectors as an index would give it, in float32."""
    return array("f", [sum(map(float.__mul__, array("f", one), array("f", other)))])[0]


class Lying(MemoryIndex):
    """An index that adds to, drops from or distorts what it found."""

    def __init__(self, lie: Callable[[list[Hit], Scope], list[Hit]]) -> None:
        super().__init__()
        self.lie = lie

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        return self.lie(super().search(scope, vector, limit=limit, floor=floor), scope)


QUIET = frozenset({"approximate"})
"""Members that tell how a part was set up and ask nothing of anybody."""


class Watched:
    """Anything, with the names of the calls made to it written down in order."""

    def __init__(self, inner: Any, journal: list[str], label: str) -> None:
        self._inner = inner
        self._journal = journal
        self._label = label

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if not callable(member) or name in QUIET:
            return member

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._journal.append(f"{self._label}.{name}")
            return member(*args, **kwargs)

        return watched


@dataclass
class Place:
    """A library on a folder, with every part at hand."""

    folder: Path
    index: Any
    embedder: WordEmbedder
    clock: HandClock
    store: Store
    library: Library
    journal: list[str]

    def write(self, name: str, text: str) -> str:
        """Put a file beside the library and return its path."""
        path = self.folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def world(self, name: str = "world", **files: str) -> World:
        """Make a world holding these files (`__` in a name stands for a dot)."""
        world = self.library.create_world(name)
        paths = [
            self.write(f"{name}/{file.replace('__', '.')}", text) for file, text in files.items()
        ]
        if paths:
            world.ingest(paths)
        return world

    def scope(self, world: World) -> Scope:
        scope = world.access.scope()
        assert scope is not None
        return scope

    def sql(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        """Read or change the store directly, past its own statements."""
        if not isinstance(self.store._db, SqliteDatabase):
            from tests.support.postgres import look

            return look(self.folder, statement, bindings)
        return query(self.store, statement, bindings)

    def reseal(self, world: World) -> None:
        """Update the checksums of a world's rows, as if the store had written them."""
        scope = self.scope(world)
        with self.store._db.write(scope, shared=True) as session:
            reseal_world(session, scope.world)

    def points(self, world: World) -> dict[ChunkId, IndexedPoint]:
        scope = self.scope(world)
        return {point.chunk_id: point for page in self.index.scan(scope) for point in page}


STORES = ["sqlite"]
"""Which store a place has unless it is said; `pytest --store postgres` puts another here."""


DEFAULTS = ["recommended"]
"""Defaults of a new world unless a test names them; the mark `contract` puts others here."""


def query(store: Any, statement: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run a statement of SQLite on a store's file, past all of the store's own statements."""
    with store._db.map_errors():
        return store._db.connection.execute(statement, bindings).fetchall()


def sqlite_store(file: Path, clock: Any, *, reserve: int = 0) -> Store:
    """Return the store in a file."""
    return Store(SqliteDatabase(file, reserve=reserve), clock)


def store_in(folder: Path, clock: HandClock, kind: str | None = None) -> Store:
    """Return a store of a kind."""
    if (kind or STORES[-1]) == "postgres":
        from tests.support.postgres import store_of

        return store_of(folder, clock)
    file = folder / "store.db"
    if not file.exists():
        file.write_bytes(_empty_store())
    return sqlite_store(file, clock)


@cache
def _empty_store() -> bytes:
    """Return a file with the tables and no rows: making them costs ten times what copying does."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        sqlite_store(file, HandClock()).close()
        return file.read_bytes()


def place(
    folder: Path,
    *,
    store: str | None = None,
    index: VectorIndex | None = None,
    embedder: WordEmbedder | None = None,
    clock: HandClock | None = None,
    authority: Authority = OWNER,
    watched: bool = False,
    preparation: Preparation | None = None,
    others: Mapping[str, WordEmbedder] | None = None,
    parser: SourceParser | None = None,
    defaults: str | None = None,
    watcher: FolderWatcher | None = None,
    pages: PageFetcher | None = None,
) -> Place:
    """Make (or open again) a library in a folder, in memory where the index is concerned.

    `defaults` are those of the worlds created in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    journal: list[str] = []
    own_index = index or MemoryIndex()
    own_embedder = embedder or WordEmbedder()
    own_clock = clock or HandClock()
    own_store = store_in(folder, own_clock, store)

    def watch(inner: Any, label: str) -> Any:
        return Watched(inner, journal, label) if watched else inner

    seen_store: Store = watch(own_store, "store")
    parts = Components(
        store=seen_store,
        index=watch(own_index, "index"),
        embedder=watch(own_embedder, "embedder"),
        counter=WordCounter(),
        sources=FileSources(supported, may_hold_members),
        parser=parser or DirectParser(),
        assets=AssetFolder(folder / "assets", reserve=0),
        uploads=UploadFolder(folder / "uploads", reserve=0),
        golden=GoldenFolder(),
        processes=SystemProcesses(),
        random_bytes=secrets.token_bytes,
        clock=own_clock,
        preparation=preparation or Preparation(),
        world_defaults=Defaults(defaults or DEFAULTS[-1]),
        pages=pages,
        watch_folders=(lambda _folders: watcher) if watcher else None,
        others={
            name: OtherEmbedder(one.profile.provider, lambda one=one: one)
            for name, one in (others or {}).items()
        },
    )
    library = Library(parts, authority)
    return Place(folder, own_index, own_embedder, own_clock, own_store, library, journal)


class PreparedPlace:
    """A place that is filled once and then given as it was to each test that asks for it.

    All of them have the same folder, so only the last one that was given may be used. On another
    store than SQLite each is filled anew.
    """

    def __init__(self, folder: Path, fill: Callable[[Place], object]) -> None:
        self._folder, self._fill = folder, fill
        self._count = 0
        self._points: dict[tuple[str, str], dict[ChunkId, Point]] = {}

    @property
    def has_same_ids(self) -> bool:
        """Say whether all that are given have the same ids."""
        return STORES[-1] == "sqlite"

    def restore(self) -> Place:
        """Return the place as it was when it had been filled."""
        if not self.has_same_ids:
            self._count += 1
            here = place(self._folder / str(self._count))
            self._fill(here)
            return here
        folder, kept = self._folder / "place", self._folder / "kept"
        if not kept.exists():
            here = place(folder)
            self._fill(here)
            here.library.close()
            here.store.close()
            self._points = here.index.points
            folder.rename(kept)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        index = MemoryIndex()
        index.points = {tenant: dict(points) for tenant, points in self._points.items()}
        return place(folder, index=index)


def other_profile(**changes: Any) -> EmbeddingProfile:
    """Return the test profile with something changed."""
    return replace(WORDS, **changes)
