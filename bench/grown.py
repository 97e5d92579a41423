"""Grows one library to given sizes and prints at each what it costs, as a line of JSON.

    python -m bench.grown one sqlite FOLDER 10000 100000
    python -m bench.grown many postgres FOLDER 10000
    python -m bench.grown one qdrant FOLDER 10000        QDRANT_URL names the server

Where the server runs on this machine, QDRANT_PID and QDRANT_STORAGE say how to measure its memory
and files.

`one` puts all chunks into one world, `many` spreads them over 1,000. For `bench.growth`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import cycle
from pathlib import Path
from statistics import median
from uuid import uuid4

from qdrant_client import QdrantClient, models

from bench.free import (
    free_library,
    index_files,
    index_process,
    parser_processes,
    unit_vectors,
)
from bench.measure import apart, cpu_of, percentile
from bench.postgres import Server, named, started
from bench.search import tenant_of
from bench.synthetic import Corpus, SyntheticEmbedder
from truespan.engine.library import Library
from truespan.retrieval.stages import SLACK, verify
from truespan.types.request import RETRIEVAL_TOP_K
from truespan.types.vectors import Vector, numbers_of
from truespan.wiring.storage import STORE_FILE

QDRANT = "qdrant"
"""A store in a file, and the index on a Qdrant server."""
_URL, _PREFIX = "TRUESPAN_INDEX_URL", "TRUESPAN_QDRANT_PREFIX"
DOCUMENT = 10
"""Chunks of a document, about."""
BATCH = 1000
"""Maximum number of documents in one call."""
WORLDS = {"one": 1, "many": 1000}
ALONE = 7
TWENTY = 20
"""Chunks that are read from the store, and that a reader is given."""
QUERIES, MAX_CALLS, MAX_SECONDS = 40, 200, 15.0
"""A call is repeated until it was made so often, or for so long."""
ASKED = 10
"""Worlds that are asked."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What something took: on the clock, and of processors by whom."""

    wall: float
    ours: float
    index: float
    store: float

    @property
    def cpu(self) -> float:
        """Return the seconds of all processes together."""
        return self.ours + self.index + self.store

    def since(self, before: Spent) -> Spent:
        """Return what was spent between two readings."""
        names = [field.name for field in fields(self)]
        return Spent(**{name: getattr(self, name) - getattr(before, name) for name in names})


@dataclass(frozen=True, slots=True)
class Call:
    """How long a call takes, in milliseconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Grown:
    """A library at one size."""

    shape: str
    store: str
    chunks: int
    documents: int
    seconds: float
    """All ingest so far, on the clock."""
    ingest_cpu: float
    ingest_wall: float
    """Microseconds a chunk of what was last taken in."""
    alone_cpu: float
    alone_wall: float
    """Milliseconds of one further document."""
    store_bytes: float
    index_bytes: float
    log_bytes: float
    """On disk for each chunk."""
    memory: float
    index_memory: float
    store_memory: float
    """Megabytes that each process holds after all these calls."""
    opened: float
    """Seconds to the first answer of a library whose index process has to start."""
    retrieval: Call
    raw: Call
    reading: Call
    verified: Call
    load: float


class Growth:
    """A library that grows, and what is needed to measure it."""

    def __init__(self, shape: str, folder: Path, server: Server | None, kind: str) -> None:
        self._shape, self._folder, self._server = shape, folder, server
        self._kind = kind
        self._corpus = Corpus(DOCUMENT)
        self._embedder = SyntheticEmbedder()
        self._documents = self._chunks = 0
        self._seconds = 0.0
        self._empty = server.size() if server else 0
        self._last = (Spent(0, 0, 0, 0), 1)

    def to(self, chunks: int) -> Grown:
        """Grow to about `chunks` chunks, and measure."""
        with self._library() as library:
            self._warm(library)
            self._fill(library, chunks)
            alone = [self._one_more(library, number) for number in range(ALONE)]
        taken, count = self._last
        raw = self._raw()
        with self._library() as library:
            asked = Asked(library, self._shape)
            opened = asked.first()
            retrieval, reading = timed(asked.retrieve), timed(asked.read)
            verified = timed(asked.verify)
            index = index_process(library)
            memory = resident(os.getpid()), resident(index) if index else 0.0
        return Grown(
            shape=self._shape,
            store=self._kind,
            chunks=self._chunks,
            documents=self._documents,
            seconds=self._seconds,
            ingest_cpu=taken.cpu / count * 1e6,
            ingest_wall=taken.wall / count * 1e6,
            alone_cpu=sum(one.cpu for one in alone) / len(alone) * 1e3,
            alone_wall=median(one.wall for one in alone) * 1e3,
            **self._sizes(),
            memory=memory[0],
            index_memory=memory[1],
            store_memory=self._server.memory() / 1e6 if self._server else 0.0,
            opened=opened,
            retrieval=retrieval,
            raw=raw,
            reading=reading,
            verified=verified,
            load=os.getloadavg()[0],
        )

    @contextmanager
    def _library(self) -> Iterator[Library]:
        with free_library(self._folder / "library", self._embedder) as library:
            yield library

    def _warm(self, library: Library) -> None:
        """Start the processes that are measured from their first moment on."""
        if not self._documents:
            for number in range(WORLDS[self._shape]):
                library.create_world(name_of(number), defaults="contract")
        self._take(library, 0, 1)

    def _fill(self, library: Library, chunks: int) -> None:
        worlds, documents = WORLDS[self._shape], chunks // DOCUMENT
        each = round((documents - self._documents) / worlds)
        if worlds == 1:
            while self._documents < documents:
                self._last = self._take(library, 0, min(BATCH, documents - self._documents))
                tell(f"{self._chunks} chunks, {self._last[0].cpu / self._last[1] * 1e6:.0f} us")
            return
        before, had = self._spent(library), self._chunks
        for number in range(worlds):
            self._take(library, number, max(each, 1))
        self._last = self._spent(library).since(before), self._chunks - had

    def _one_more(self, library: Library, number: int) -> Spent:
        return self._take(library, number % WORLDS[self._shape], 1)[0]

    def _take(self, library: Library, number: int, documents: int) -> tuple[Spent, int]:
        """Have further documents taken in; their files are made before, and removed after."""
        files = self._folder / "files"
        self._corpus.write(files, documents)
        world, before = library.world(name_of(number)), self._spent(library)
        report = world.ingest(files, language="en", jobs=1)
        spent = self._spent(library).since(before)
        shutil.rmtree(files)
        if report.failures or len(report.ingested) != documents:
            raise SystemExit(f"{len(report.ingested)} of {documents} documents were taken in")
        self._documents += documents
        self._chunks += report.chunks
        self._seconds += spent.wall
        return spent, report.chunks

    def _spent(self, library: Library) -> Spent:
        index = index_process(library)
        return Spent(
            time.perf_counter(),
            time.process_time() + sum(map(cpu_of, parser_processes(library))),
            cpu_of(index) if index else 0.0,
            self._server.cpu() if self._server else 0.0,
        )

    def _sizes(self) -> dict[str, float]:
        library = self._folder / "library"
        log = of_index = 0
        if self._kind != QDRANT:
            log = occupied(index_files(library) / "wal")
            of_index = occupied(library / "index") - log
        elif storage := os.environ.get("QDRANT_STORAGE"):
            files = [path for path in Path(storage).rglob("*") if path.is_file()]
            log = sum(occupied(path) for path in files if "wal" in path.parts)
            of_index = sum(map(occupied, files)) - log
        of_store = sum(map(occupied, library.glob(f"{STORE_FILE}*")))
        if self._server:
            of_store = self._server.size() - self._empty
        found = {"store_bytes": of_store, "index_bytes": of_index, "log_bytes": log}
        return {name: size / self._chunks for name, size in found.items()}

    def _raw(self) -> Call:
        """Ask the engine itself for the same, on the same files, while it alone has them open."""
        with self._library() as library:
            worlds = [library.world(name_of(number)) for number in asked_worlds(self._shape)]
            tenants = ",".join(map(tenant_of, worlds))
        if self._kind == QDRANT:
            return ask_server(tenants.split(","))
        files, limit = str(index_files(self._folder / "library")), str(RETRIEVAL_TOP_K + SLACK)
        found = apart("bench.raw_edge", "timed", files, tenants, limit)
        return Call(found["p50"], found["p95"])


class Asked:
    """Calls that are asked of a library, each time of the next of some worlds."""

    def __init__(self, library: Library, shape: str) -> None:
        self._library = library
        self._worlds = [library.world(name_of(number)) for number in asked_worlds(shape)]
        self._readers = [world.reader("reader") for world in self._worlds]
        self._calls = 0

    def first(self) -> float:
        """Return the seconds of the first answer, and place the readers."""
        began = time.perf_counter()
        self.retrieve()
        seconds = time.perf_counter() - began
        for world, reader in zip(self._worlds, self._readers, strict=True):
            document = world.documents.get(1)
            reader.set_position(document.doc_id, sentence=document.sentences // 2)
        return seconds

    def retrieve(self) -> None:
        """Ask for context as anybody would, with the default filters."""
        found = self._next(self._worlds).retrieve(self._query())
        if not found.retrieved_chunks:
            raise SystemExit("the measured retrieval found nothing")

    def read(self) -> None:
        """Ask as somebody who has read half of a document."""
        found = self._next(self._readers).retrieve(self._query())
        if not found.retrieved_chunks:
            raise SystemExit("the measured reader found nothing")

    @property
    def verify(self) -> Callable[[], None]:
        """Return a call that reads twenty chunks from the store and checks them."""
        world, parts = self._worlds[0], self._library._components
        scope = world.access.scope()
        if scope is None:
            raise SystemExit("there is nothing to read")
        vector = Vector(parts.embedder.embed_query("any"))
        hits = parts.index.search(scope, vector, limit=TWENTY, floor=None)

        def call() -> None:
            records = parts.store.chunks.read(scope, [hit.chunk_id for hit in hits])
            if verify(hits, records).failures:
                raise SystemExit("a chunk was not what it should be")

        return call

    def _query(self) -> str:
        self._calls += 1
        return f"What happened to number {self._calls % QUERIES}?"

    def _next(self, things: list):
        return things[self._calls % len(things)]


def asked_worlds(shape: str) -> range:
    """Return the numbers of the worlds that are asked, spread over all of them."""
    return range(0, WORLDS[shape], max(WORLDS[shape] // ASKED, 1))


def name_of(number: int) -> str:
    """Return the name of a world."""
    return f"world {number}"


def timed(call: Callable[[], None]) -> Call:
    """Make a call often, and return how long it took when everything was asked for before."""
    taken: list[float] = []
    for _ in range(QUERIES):
        call()
    until = time.perf_counter() + MAX_SECONDS
    while len(taken) < MAX_CALLS and (len(taken) < QUERIES or time.perf_counter() < until):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return Call(percentile(taken, 0.5), percentile(taken, 0.95))


def occupied(path: Path) -> int:
    """Return the bytes that a file or a folder takes on the disk; files with holes take less."""
    if path.is_file():
        return path.stat().st_blocks * 512
    return sum(one.stat().st_blocks * 512 for one in path.rglob("*") if one.is_file())


def resident(pid: int) -> float:
    """Return the megabytes that a process holds, mapped files included."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("VmRSS:")]
    return int(found.split()[1]) * 1024 / 1e6


def tell(line: str) -> None:
    """Say how far it came; what is printed on the other channel is for programs."""
    print(f"    {line}", file=sys.stderr, flush=True)


def ask_server(tenants: list[str]) -> Call:
    """Ask the Qdrant server itself for the same, exactly and without text."""
    client = QdrantClient(os.environ[_URL], check_compatibility=False, timeout=60)
    prefix = os.environ[_PREFIX]
    [name] = [
        found.name
        for found in client.get_collections().collections
        if found.name.startswith(prefix)
    ]
    vectors, asked = cycle(unit_vectors(QUERIES, seed=2)), cycle(tenants)

    def ask() -> None:
        of_world = models.FieldCondition(key="tenant", match=models.MatchValue(value=next(asked)))
        client.query_points(
            name,
            query=numbers_of(Vector(next(vectors))).tolist(),
            query_filter=models.Filter(must=[of_world]),
            search_params=models.SearchParams(exact=True),
            limit=RETRIEVAL_TOP_K + SLACK,
            with_payload=False,
        )

    try:
        return timed(ask)
    finally:
        client.close()


@contextmanager
def store_of(kind: str) -> Iterator[Server | None]:
    """Give the server that libraries are to keep their store on; None for a file."""
    if kind == QDRANT:
        with index_server():
            yield None
        return
    if kind == "sqlite":
        yield None
        return
    with started() as server, named(server):
        yield server


@contextmanager
def index_server() -> Iterator[None]:
    """Let libraries use the Qdrant server of QDRANT_URL; what they made is removed at the end."""
    os.environ[_URL] = os.environ["QDRANT_URL"]
    os.environ[_PREFIX] = f"bench_{uuid4().hex[:8]}_"
    client = QdrantClient(os.environ[_URL], check_compatibility=False, timeout=60)
    try:
        yield
    finally:
        for found in client.get_collections().collections:
            if found.name.startswith(os.environ[_PREFIX]):
                client.delete_collection(found.name)
        client.close()


def main() -> None:
    """Grow as the command line says."""
    shape, kind, folder, *sizes = sys.argv[1:]
    with store_of(kind) as server:
        growth = Growth(shape, Path(folder), server, kind)
        for size in map(int, sizes):
            print(json.dumps(asdict(growth.to(size))), flush=True)


if __name__ == "__main__":
    main()
