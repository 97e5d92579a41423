"""Qdrant Edge without us, in a separate process: what the engine alone would cost.

It reads the points out of the files that our index process left, so both sides have the same
vectors and the same payload, as they are and not as we believe them to be.

    python -m bench.raw_edge ingest FILES ours             one ingest, its CPU time as JSON
    python -m bench.raw_edge ingest FILES TEXTS            the same, with the texts as payload
    python -m bench.raw_edge search FILES TENANT LIMIT     a block of searches for each line read
    python -m bench.raw_edge timed FILES TENANTS LIMIT     searches in the files themselves, as JSON
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import qdrant_edge as edge

from bench.free import DIMENSIONS, unit_vectors
from bench.measure import percentile
from truespan.index.base import Collection
from truespan.index.edge.shard import create_files
from truespan.types.vectors import numbers_of

BATCH = 256
PAGE = 1000
QUERIES, QUERY_SEED = 50, 2
TIMED_CALLS, TIMED_SECONDS = 200, 15.0
CONFIG = edge.EdgeConfig(
    vectors=edge.EdgeVectorParams(size=DIMENSIONS, distance=edge.Distance.Cosine)
)

RawPoint = tuple[str, Any, Any]
"""Its id, vector and payload, in the engine's own types."""


@contextmanager
def opened(files: Path) -> Iterator[edge.EdgeShard]:
    """Open a copy of a shard's files; theirs stay as they are.

    The process that has them open may be replacing one of them, by way of a temporary file.
    """
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        copy = Path(folder) / "shard"
        shutil.copytree(files, copy, ignore=shutil.ignore_patterns(".atomicwrite*"))
        shard = edge.EdgeShard.load(str(copy), CONFIG)
        yield shard
        shard.close()


def points_of(files: Path) -> list[RawPoint]:
    """Return every point of a shard."""
    found: list[RawPoint] = []
    following = None
    with opened(files) as shard:
        while True:
            page = edge.ScrollRequest(
                offset=following, limit=PAGE, with_payload=True, with_vector=True
            )
            records, following = shard.scroll(page)
            found.extend((str(record.id), record.vector, record.payload) for record in records)
            if following is None:
                return found


def ingest(points: Sequence[RawPoint], *, indexed: bool) -> dict[str, float]:
    """Write points to a new shard and flush it; making the shard is not counted."""
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        shard = make_shard(Path(folder) / "shard", indexed=indexed)
        # The points are there for the whole time, which the collector would look through again.
        gc.freeze()
        cpu = time.process_time()
        write(shard, points)
        shard.flush()
        taken = time.process_time() - cpu
        shard.close()
    return {"cpu": taken, "chunks": len(points)}


def write(shard: edge.EdgeShard, points: Sequence[RawPoint]) -> None:
    """Upsert points batch by batch."""
    for start in range(0, len(points), BATCH):
        batch = [edge.Point(*point) for point in points[start : start + BATCH]]
        shard.update(edge.UpdateOperation.upsert_points(batch))


def make_shard(path: Path, *, indexed: bool) -> edge.EdgeShard:
    """Make an empty shard, with our payload indexes or with none."""
    if indexed:
        create_files(path, Collection("bench", DIMENSIONS, "cosine"))
        return edge.EdgeShard.load(str(path), CONFIG)
    path.mkdir()
    return edge.EdgeShard.create(str(path), CONFIG)


def as_peers(points: Sequence[RawPoint], texts: Sequence[str]) -> list[RawPoint]:
    """Give each point the payload that peers store: the text, and where it is from."""
    by_hash = {sha256(text.encode()).hexdigest(): text for text in texts}
    return [
        (
            id,
            vector,
            {"text": by_hash[payload["text_hash"]], "document": f"{payload['document']}.txt"},
        )
        for id, vector, payload in points
    ]


def answer_searches(files: Path, tenant: str, limit: int) -> None:
    """Search for every query whenever a line comes in, and print how long each search took."""
    vectors = [numbers_of(vector) for vector in unit_vectors(QUERIES, QUERY_SEED)]
    with opened(files) as shard:
        for _ in sys.stdin:
            cpu = time.process_time()
            taken = [search(shard, vector, tenant, limit) for vector in vectors]
            block = {"wall": taken, "cpu": (time.process_time() - cpu) * 1000}
            print(json.dumps(block), flush=True)


def time_searches(files: Path, tenants: Sequence[str], limit: int) -> dict[str, float]:
    """Search in files that no other process has open, as often as seconds allow.

    They are too large to be copied first, and searching does not change them.
    """
    vectors = [numbers_of(vector) for vector in unit_vectors(QUERIES, QUERY_SEED)]
    shard = edge.EdgeShard.load(str(files), CONFIG)
    asked = list(zip(cycle(tenants), vectors, strict=False))
    taken = []
    until = time.monotonic() + TIMED_SECONDS
    for number, (tenant, vector) in enumerate(cycle(asked)):
        milliseconds = search(shard, vector, tenant, limit, threshold=-2.0, least=1)
        # The first of each only warm up.
        taken += [milliseconds] if number >= len(asked) else []
        if len(taken) >= TIMED_CALLS or (len(taken) >= QUERIES and time.monotonic() > until):
            break
    shard.close()
    return {"p50": percentile(taken, 0.5), "p95": percentile(taken, 0.95)}


def search(
    shard: edge.EdgeShard,
    vector: Any,
    tenant: str,
    limit: int,
    threshold: float = -1e-45,
    least: int | None = None,
) -> float:
    """Do the search that our index process does, read its hits, and return its milliseconds."""
    began = time.perf_counter()
    condition = edge.FieldCondition(key="tenant", match=edge.MatchValue(value=tenant))
    request = edge.QueryRequest(
        limit=limit,
        query=edge.Query.Nearest(vector),
        filter=edge.Filter(must=[condition]),
        score_threshold=threshold,
        with_payload=["text_hash"],
        params=edge.SearchParams(exact=True),
    )
    hits = [(str(hit.id), hit.score, hit.payload) for hit in shard.query(request)]
    taken = (time.perf_counter() - began) * 1000
    if len(hits) < (limit if least is None else least):
        raise SystemExit(f"{len(hits)} hits instead of {limit}")
    return taken


def main() -> None:
    """Do what the command line says."""
    match sys.argv[1:]:
        case ["ingest", files, "ours"]:
            print(json.dumps(ingest(points_of(Path(files)), indexed=True)))
        case ["ingest", files, texts]:
            points = as_peers(points_of(Path(files)), json.loads(Path(texts).read_text()))
            print(json.dumps(ingest(points, indexed=False)))
        case ["search", files, tenant, limit]:
            answer_searches(Path(files), tenant, int(limit))
        case ["timed", files, tenants, limit]:
            print(json.dumps(time_searches(Path(files), tenants.split(","), int(limit))))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
