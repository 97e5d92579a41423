"""What a verified search costs beyond the engine's own: 20,000 chunks in one world, top 20.

Query vectors come out of the query cache, so embedding is not in it. The engine's own time is that
of the same request to raw Qdrant Edge on a copy of the same files, in a separate process. Both
take turns in short blocks. Run it with `python -m bench.search`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.free import FreeEmbedder, free_library, index_files, index_process
from bench.material import Prose
from bench.measure import cpu_of, percentile
from bench.raw_edge import QUERIES
from bench.report import Figure, Options, at_most, run, say
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.retrieval.stages import SLACK

CHUNKS = 20_000
FILES, PARAGRAPHS = 100, 246
TOP_K = 20
BLOCKS = 8
RATIO_TARGET = 1.4
OVERHEAD_TARGET = 1.0


@dataclass(slots=True)
class Side:
    """What one side took: milliseconds of each search, and CPU milliseconds of all."""

    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def p50(self) -> float:
        """Return the median of a search."""
        return percentile(self.wall, 0.5)

    def __str__(self) -> str:
        return (
            f"{self.p50:.2f} ms p50, {percentile(self.wall, 0.95):.2f} ms p95, "
            f"{self.cpu / len(self.wall):.2f} ms CPU"
        )


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return the whole search against the raw call, and the difference."""
    embedder = FreeEmbedder(CHUNKS + 2000, QUERIES)
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        library = folder / "library"
        with free_library(library, embedder) as opened:
            Prose(seed=6).write_files(folder / "files", FILES, PARAGRAPHS)
            world = opened.create_world("bench", defaults="contract")
            chunks = world.ingest(str(folder / "files")).chunks
            tenant = tenant_of(world)
        with free_library(library, embedder) as opened:
            ours, index, raw = take_turns(opened, index_files(library), tenant)
    say(f"{chunks} chunks, {len(ours.wall)} searches a side in {BLOCKS} turns")
    say(f"whole search {ours}")
    say(f"raw Edge     {raw}")
    say(f"CPU of the index process for a search {index / len(ours.wall):.2f} ms")
    return figures(ours.p50, raw.p50)


def figures(ours: float, raw: float) -> list[Figure]:
    """Return the two figures that have targets."""
    target = at_most(RATIO_TARGET)
    return [
        Figure("search, whole, p50", ours, "ms", "raw Edge, same request", raw, ours / raw, target),
        Figure(
            "search, all but the engine, p50", ours - raw, "ms", target=at_most(OVERHEAD_TARGET)
        ),
    ]


def tenant_of(world: World) -> str:
    """Return what the filter of every request of this world compares with."""
    scope = world.access.scope()
    assert scope is not None
    return scope.tenant


def take_turns(library: Library, files: Path, tenant: str) -> tuple[Side, float, Side]:
    """Return what our searches, the index process meanwhile and the raw searches took."""
    world = library.world("bench")
    queries = [f"What happened to number {number}?" for number in range(QUERIES)]
    ours, index, raw = Side(), 0.0, Side()
    with raw_searches(files, tenant) as search_raw:
        for query in queries:
            world.search(query, top_k=TOP_K, floor=0.0)
        next(search_raw)
        for _ in range(BLOCKS):
            began, index_began = time.process_time(), cpu_of(index_process(library))
            ours.wall.extend(timed(world, query) for query in queries)
            ours.cpu += (time.process_time() - began) * 1000
            index += (cpu_of(index_process(library)) - index_began) * 1000
            block = next(search_raw)
            raw.wall.extend(block["wall"])
            raw.cpu += block["cpu"]
    return ours, index, raw


def timed(world: World, query: str) -> float:
    """Return the milliseconds of one search, and see that it found what it should."""
    began = time.perf_counter()
    found = world.search(query, top_k=TOP_K, floor=0.0)
    taken = (time.perf_counter() - began) * 1000
    assert len(found.passages) == TOP_K
    return taken


@contextmanager
def raw_searches(files: Path, tenant: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Give blocks of searches by a process that has nothing but the engine."""
    limit = str(TOP_K + SLACK)
    command = [sys.executable, "-m", "bench.raw_edge", "search", str(files), tenant, limit]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        try:
            yield _blocks(process)
        finally:
            # If it failed, it has said why, and what it did not read cannot be sent any more.
            with suppress(BrokenPipeError):
                process.stdin.close()


def _blocks(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdin
    assert process.stdout
    while True:
        with suppress(BrokenPipeError):
            process.stdin.write("go\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"bench.raw_edge ended with status {process.wait()}")
        yield json.loads(line)


if __name__ == "__main__":
    run("bench.search", __doc__, measure)
