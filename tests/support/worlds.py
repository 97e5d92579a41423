"""Worlds for tests: small libraries with a faulty index and a clock that is set by hand."""

import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tests.support.checksums import reseal_world
from truespan.core.clock import SystemProcesses
from truespan.engine.components import Components
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.files.assets import AssetFolder, PictureFolder
from truespan.files.sources import FileSources
from truespan.files.uploads import UploadFolder
from truespan.ingest.draft import Preparation
from truespan.parsing import draw, load, may_hold_members, supported
from truespan.parsing.members import list_members, read_members
from truespan.protocols import SourceParser, VectorIndex
from truespan.retrieval.deps import OtherEmbedder
from truespan.store import Store
from truespan.store.engines.session import Part
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.testing import (  # noqa: F401 -- tests import the doubles from here
    WORDS,
    ManualClock,
    MemoryIndex,
    WordCounter,
    WordEmbedder,
    similarity,
    vector_of,
)
from truespan.text.sentences import split_sentences
from truespan.types.chunk import IndexedPoint, Point
from truespan.types.ids import ChunkId
from truespan.types.picture import PictureRequest, Rendering
from truespan.types.profile import EmbeddingProfile
from truespan.types.request import Defaults
from truespan.types.scope import OWNER, Authority, Scope
from truespan.types.source import PARSE_DEFAULTS, DocumentOptions, Members, ParseOptions
from truespan.types.text import CanonicalText, Loaded, Sentence
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.extensions.crawl.watching import FolderWatcher
    from truespan.extensions.crawl.web import WebPages


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

    def draw(self, data: bytes, request: PictureRequest) -> Rendering | None:
        return draw(data, request)

    def split(self, name: str, canonical: CanonicalText, language: str) -> list[Sentence]:
        return split_sentences(canonical, language)

    def close(self) -> None:
        return


class Watching(MemoryIndex):
    """An index that keeps the scopes of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[Scope] = []

    def search(self, scope: Scope, *args: Any, **settings: Any) -> Any:
        self.scopes.append(scope)
        return super().search(scope, *args, **settings)


class Lying(MemoryIndex):
    """An index that adds, drops or distorts results."""

    def __init__(self, lie: Callable[[list[Hit], Scope], list[Hit]]) -> None:
        super().__init__()
        self.lie = lie

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        return self.lie(super().search(scope, vector, limit=limit, floor=floor), scope)


def scored(*scores: float) -> MemoryIndex:
    """Return an index that gives the chunks, by document, exactly these scores."""

    def lie(hits: list[Hit], scope: Scope) -> list[Hit]:
        by_id = sorted(index._of(scope).values(), key=lambda point: point.document)
        given = zip(by_id, scores, strict=False)
        return [Hit(point.chunk_id, score, point.text_hash) for point, score in given]

    index = Lying(lie)
    return index


QUIET = frozenset({"approximate"})
"""Members that tell how a part was set up and ask nothing of anybody."""


class Watched:
    """A proxy that records the names of the calls to an object and its parts, in order."""

    def __init__(self, inner: Any, journal: list[str], label: str) -> None:
        self._inner = inner
        self._journal = journal
        self._label = label

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if isinstance(member, Part):
            return Watched(member, self._journal, f"{self._label}.{name}")
        if not callable(member) or name in QUIET:
            return member

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._journal.append(f"{self._label}.{name}")
            return member(*args, **kwargs)

        return watched


class Hooked:
    """A proxy that calls a function with each name, such as `worlds.find`, before it is used."""

    def __init__(self, inner: Any, hook: Callable[[str], object], part: str = "") -> None:
        self._inner = inner
        self._hook = hook
        self._part = part

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if isinstance(member, Part):
            return Hooked(member, self._hook, f"{name}.")
        self._hook(f"{self._part}{name}")
        return member


@dataclass
class LibraryFixture:
    """A library in a folder, with access to every part."""

    folder: Path
    index: Any
    embedder: WordEmbedder
    clock: ManualClock
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
        """Read or change the store directly, bypassing its own statements."""
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
"""Store of a new library unless a test names it; `pytest --store postgres` puts another into it."""


DEFAULTS = ["recommended"]
"""Defaults of a new world unless a test names them; the mark `contract` puts others here."""


def query(store: Any, statement: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run an SQLite statement on a store's file, bypassing the store."""
    with store._db.map_errors():
        return store._db.connection.execute(statement, bindings).fetchall()


def sqlite_store(file: Path, clock: Any, *, reserve: int = 0) -> Store:
    return Store(SqliteDatabase(file, reserve=reserve), clock)


def store_in(folder: Path, clock: ManualClock, kind: str | None = None) -> Store:
    if (kind or STORES[-1]) == "postgres":
        from tests.support.postgres import store_of

        return store_of(folder, clock)
    file = folder / "store.db"
    if not file.exists():
        file.write_bytes(_empty_store())
    return sqlite_store(file, clock)


@cache
def _empty_store() -> bytes:
    """Return a file with empty tables; copying it takes a tenth of the time of creating them."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        sqlite_store(file, ManualClock()).close()
        return file.read_bytes()


def make_library(
    folder: Path,
    *,
    store: str | None = None,
    index: VectorIndex | None = None,
    embedder: WordEmbedder | None = None,
    clock: ManualClock | None = None,
    authority: Authority = OWNER,
    watched: bool = False,
    preparation: Preparation | None = None,
    others: Mapping[str, WordEmbedder] | None = None,
    parser: SourceParser | None = None,
    defaults: str | None = None,
    watcher: "FolderWatcher | None" = None,
    pages: "WebPages | None" = None,
) -> LibraryFixture:
    """Create or open a library in a folder, with its index in memory.

    `defaults` are those of the worlds created in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    journal: list[str] = []
    own_index = index or MemoryIndex()
    own_embedder = embedder or WordEmbedder()
    own_clock = clock or ManualClock()
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
        pictures=PictureFolder(folder / "pictures", max_bytes=64 << 20, reserve=0),
        uploads=UploadFolder(folder / "uploads", reserve=0),
        signing_keys=_signing_keys(folder),
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
    return LibraryFixture(folder, own_index, own_embedder, own_clock, own_store, library, journal)


def _signing_keys(folder: Path) -> Any:
    """Return the keys of a library; None if their extension was left out."""
    if find_spec("truespan.extensions.proof") is None:
        return None
    from truespan.extensions.proof.keys import SigningKeyFile

    return SigningKeyFile(folder / "signing.key")


class PreparedLibrary:
    """A library that is filled once and then copied for each test that requests it.

    All of them have the same folder, so only the last one that was given may be used. On another
    store than SQLite each is filled anew.
    """

    def __init__(self, folder: Path, fill: Callable[[LibraryFixture], object]) -> None:
        self._folder, self._fill = folder, fill
        self._count = 0
        self._points: dict[tuple[str, str], dict[ChunkId, Point]] = {}

    @property
    def has_same_ids(self) -> bool:
        return STORES[-1] == "sqlite"

    def restore(self) -> LibraryFixture:
        if not self.has_same_ids:
            self._count += 1
            lib = make_library(self._folder / str(self._count))
            self._fill(lib)
            return lib
        folder, kept = self._folder / "place", self._folder / "kept"
        if not kept.exists():
            lib = make_library(folder)
            self._fill(lib)
            lib.library.close()
            lib.store.close()
            self._points = lib.index.points
            folder.rename(kept)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        index = MemoryIndex()
        index.points = {tenant: dict(points) for tenant, points in self._points.items()}
        return make_library(folder, index=index)


def other_profile(**changes: Any) -> EmbeddingProfile:
    return replace(WORDS, **changes)
