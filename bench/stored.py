"""What a verified read of 20 chunks costs beyond a bare query of the same rows.

Ours is `read_chunks` of the store and the check of every hash. The bare query is the very statement
that the store asks, by the same driver, role and kind of connection, which already belongs to the
world: what is left is the pool, the transaction that is begun for one world, values in place of
rows, and the hashes. PostgreSQL has its usual settings and is reached by a socket; SQLite stands
beside it. The sides take turns. Run it with `python -m bench.stored`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import psycopg

from bench.free import free_library
from bench.measure import Work, cpu_seconds, medians, wall_seconds
from bench.postgres import Server, named, started
from bench.report import Figure, Options, at_most, run, say
from bench.synthetic import Corpus, SyntheticEmbedder
from truespan.engine.library import Library
from truespan.extensions.cluster import postgres
from truespan.retrieval.stages import verify
from truespan.store.engines import sqlite
from truespan.store.engines.session import scope_values
from truespan.store.tables.chunks import _select_chunks
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.wiring.storage import STORE_FILE

DOCUMENTS, CHUNKS_EACH = 300, 10
TWENTY = 20
SETS = 50
ROUNDS = 400
TARGET_MS = 1.5

Hits = Sequence[Sequence[Hit]]


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return both stores' reads beside their bare queries."""
    with TemporaryDirectory(prefix="truespan-bench-") as name, started() as server:
        folder = Path(name)
        Corpus(CHUNKS_EACH).write(folder / "files", DOCUMENTS)
        with (
            named(server),
            filled(folder / "with-server", folder / "files") as (library, scope, hits),
            bare_postgres(server, scope) as query,
        ):
            on_server = compared("PostgreSQL", library, scope, hits, query)
        with (
            filled(folder / "with-file", folder / "files") as (library, scope, hits),
            bare_sqlite(folder / "with-file", scope) as query,
        ):
            in_file = compared("SQLite", library, scope, hits, query)
    ours, theirs = on_server
    beyond = Figure(
        "verified read of 20 chunks, PostgreSQL, beyond the bare query, p50",
        ours - theirs,
        "ms",
        target=at_most(TARGET_MS),
    )
    return [figure("PostgreSQL", *on_server), beyond, figure("SQLite", *in_file)]


def figure(store: str, ours: float, theirs: float) -> Figure:
    """Return one store's read beside its bare query."""
    what = f"verified read of 20 chunks, {store}, p50"
    return Figure(what, ours, "ms", "bare query, same rows", theirs, ours / theirs)


@contextmanager
def filled(folder: Path, files: Path) -> Iterator[tuple[Library, Scope, Hits]]:
    """Give a library with documents, and hits to be read from it."""
    embedder = SyntheticEmbedder()
    with free_library(folder, embedder) as library:
        world = library.create_world("bench")
        chunks = world.ingest(files).chunks
        scope = world.access.scope()
        if scope is None:
            raise SystemExit("nothing was taken in")
        queries = [embedder.embed_query(f"query {number}") for number in range(SETS)]
        search = library._components.index.search
        hits = [search(scope, query, limit=TWENTY, floor=None) for query in queries]
        say(f"{chunks} chunks, {SETS} different sets of {TWENTY}, {ROUNDS} rounds in turn")
        yield library, scope, hits


def compared(
    store: str,
    library: Library,
    scope: Scope,
    hits: Hits,
    query: Callable[[list[str]], list[Any]],
) -> tuple[float, float]:
    """Return the milliseconds of a verified read and of the bare query, medians of each."""
    sides = {"ours": verified(library, scope, hits), "bare": bare(query, hits)}
    wall = medians(sides, ROUNDS, wall_seconds)
    cpu = medians(sides, ROUNDS, cpu_seconds)
    for name in sides:
        say(f"{store}, {name}: {wall[name] * 1e3:.2f} ms, {cpu[name] * 1e3:.2f} ms CPU of ours")
    return wall["ours"] * 1e3, wall["bare"] * 1e3


def verified(library: Library, scope: Scope, hits: Hits) -> Work:
    """Return a call that reads and checks the next set."""
    turns, store = cycle(hits), library._components.store

    def call() -> None:
        asked = next(turns)
        records = store.chunks.read(scope, [hit.chunk_id for hit in asked])
        if len(verify(asked, records).verified) != TWENTY:
            raise SystemExit("a chunk was not what it should be")

    return call


def bare(query: Callable[[list[str]], list[Any]], hits: Hits) -> Work:
    """Return a call that only fetches the rows of the next set."""
    turns = cycle(hits)

    def call() -> None:
        if len(query([hit.chunk_id for hit in next(turns)])) != TWENTY:
            raise SystemExit("not every row was found")

    return call


@contextmanager
def bare_postgres(server: Server, scope: Scope) -> Iterator[Callable[[list[str]], list[Any]]]:
    """Give the store's statement on a connection that belongs to the world for good."""
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute("SET search_path = truespan, truespan_shared, pg_temp")
        values = scope_values(scope)
        session.execute(
            "SELECT set_config('truespan.world', %s, false), "
            "set_config('truespan.audience', %s, false)",
            (values["world"], values["caller"]),
        )
        session.execute(f"SET ROLE {postgres.WORLD_ROLE}")
        statement = postgres._translate(_select_chunks(vectors=False, word_states=False))
        yield lambda ids: session.execute(statement, {**values, "ids": ids}).fetchall()


@contextmanager
def bare_sqlite(folder: Path, scope: Scope) -> Iterator[Callable[[list[str]], list[Any]]]:
    """Give the store's statement on a connection of our own."""
    session = apsw.Connection(str(folder / STORE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    statement = sqlite._translate(_select_chunks(vectors=False, word_states=False), single=True)
    session.create_scalar_function("seen_by", sqlite._seen_by, 2, deterministic=True)
    known = scope_values(scope)
    try:
        yield lambda ids: session.execute(
            statement, sqlite._bindable({**known, "ids": ids})
        ).fetchall()
    finally:
        session.close()


if __name__ == "__main__":
    run("bench.stored", __doc__, measure)
