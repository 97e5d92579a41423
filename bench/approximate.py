"""What approximate search takes and finds, next to exact search, in a library of `bench.grown`.

    python -m bench.approximate FOLDER        as JSON; FOLDER is what `bench.grown` was given

The first run converts the index of the library's first world, which is then searched both ways in
turn. Recall is the part of the twenty best chunks of an exact search that an approximate one finds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median

from bench.free import free_library, index_of, index_process
from bench.grown import QUERIES, TWENTY, Asked, name_of, occupied, resident, timed
from bench.measure import cpu_of, percentile
from bench.synthetic import SyntheticEmbedder
from truespan.index.edge.client import EdgeIndex
from truespan.protocols import VectorIndex
from truespan.retrieval.stages import SLACK
from truespan.types.scope import Scope
from truespan.types.vectors import Vector

LIMIT = TWENTY + SLACK
WORLDS = "TRUESPAN_INDEX_APPROXIMATE_WORLDS"


class Way:
    """One of the ways to search, and what its searches took."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def best(self, scope: Scope, query: Vector, pid: int) -> set[str]:
        """Return the best chunks for a query, once it was searched for before."""
        self._index.search(scope, query, limit=LIMIT, floor=None)
        began, cpu = time.perf_counter(), cpu_of(pid)
        hits = self._index.search(scope, query, limit=LIMIT, floor=None)
        self.wall.append((time.perf_counter() - began) * 1e3)
        self.cpu.append((cpu_of(pid) - cpu) * 1e3)
        return {hit.chunk_id for hit in hits[:TWENTY]}


def measure(folder: Path) -> dict[str, object]:
    """Convert the index if need be, and search both ways."""
    library_folder, embedder = folder / "library", SyntheticEmbedder()
    with free_library(library_folder, embedder) as library:
        os.environ[WORLDS] = library.world(name_of(0)).id
    with free_library(library_folder, embedder) as library:
        world = library.world(name_of(0))
        began = time.perf_counter()
        world.repair()
        converted = time.perf_counter() - began
        scope, index = world.access.scope(), index_of(library)
        if scope is None or not index.approximate(scope):
            raise SystemExit("the world is not searched approximately")
        exact = EdgeIndex(library_folder / "index", reserve=0)
        ways, pid, recall = (Way(exact), Way(index)), index_process(library), list[float]()
        for number in range(2 * QUERIES):
            query = embedder.embed_query(f"What became of number {number}?")
            expected, found = (way.best(scope, query, pid) for way in ways)
            recall.append(len(expected & found) / TWENTY)
        exact.close()
        retrieval = timed(Asked(library, "one").retrieve)
        return {
            "chunks": index.count(scope),
            "recall": mean(recall),
            "least_recall": min(recall),
            "retrieval": asdict(retrieval),
            **{
                name: {"p50": median(way.wall), "p95": percentile(way.wall, 0.95)}
                | {"cpu": median(way.cpu)}
                for name, way in zip(("exact", "approximate"), ways, strict=True)
            },
            "converted_seconds": converted,
            "index_bytes": occupied(library_folder / "index") / index.count(scope),
            "index_memory": resident(pid),
            "load": os.getloadavg()[0],
        }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
