"""Every index answers alike: Edge, the server's adapter on local mode, and brute force with numpy.

Vectors are made of halves, quarters and ones, so that their length is exactly one and every sum of
products is a float32 in any order of addition: scores must be equal to the last bit, ties are
everywhere, and a floor can be met exactly. Run as `python -m tools.compare_indexes --queries N`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient
from tests.support.worlds import ManualClock

from truespan.core.clock import SystemClock
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.index.edge.client import EdgeIndex
from truespan.protocols import VectorIndex
from truespan.types.chunk import ChunkKind, Point
from truespan.types.ids import ChunkId, WorldId, chunk_id, hash_text
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.scope import OWNER, Generation, Scope, admits
from truespan.types.text import fold_names
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

DIMENSIONS = 16
POINTS = 120
QUERIES_PER_CORPUS = 100
CHAPTERS, SECTIONS = ("one", "two", "STRASSE"), ("", "a", "b")
_QUIETLY = r".*[Ll]ocal"


@dataclass(frozen=True)
class Asked:
    """One question to every index."""

    scope: Scope
    vector: Vector
    limit: int
    floor: float | None
    ids: tuple[ChunkId, ...]


class Corpus:
    """Points of three tenants under one profile, and questions about them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        distance = self.random.choice([Distance.COSINE, Distance.DOT])
        self.profile = EmbeddingProfile(
            "test", "agreement", str(seed), DIMENSIONS, distance, "document", "query", 510
        )
        worlds = [WorldId(str(UUID(int=self.random.getrandbits(128), version=4))) for _ in "ab"]
        self.scopes = [
            Scope(OWNER, world, Generation(number, self.profile))
            for world, number in ((worlds[0], 1), (worlds[0], 2), (worlds[1], 1))
        ]
        self.points = {scope.tenant: self._points(scope) for scope in self.scopes}

    def _points(self, scope: Scope) -> list[Point]:
        return [self._point(scope, number) for number in range(self.random.randint(0, POINTS))]

    def _point(self, scope: Scope, number: int) -> Point:
        start = self.random.randint(0, 40)
        end = start + self.random.randint(0, 5)
        return Point(
            chunk_id=chunk_id(scope.world, scope.generation.number, 1, 1, number),
            vector=self._vector(),
            text_hash=hash_text(f"{scope.tenant} {number}"),
            document=self.random.randint(1, 5),
            pos_start=start,
            pos_end=end,
            pos_reach=end + self.random.randint(0, 5),
            kind=self.random.choice(list(ChunkKind)),
            chapters=tuple(self.random.sample(CHAPTERS, self.random.choice((1, 1, 2)))),
            sections=tuple(self.random.sample(SECTIONS, self.random.choice((1, 1, 2)))),
        )

    def _vector(self) -> Vector:
        parts = self.random.choice([1, 4, 16])
        numbers = np.zeros(DIMENSIONS, dtype="<f4")
        for place in self.random.sample(range(DIMENSIONS), parts):
            numbers[place] = self.random.choice([-1, 1]) / parts**0.5
        return Vector(numbers.tobytes())

    def question(self) -> Asked:
        """Make a question; every second floor is the score of some point, or a neighbour of it."""
        own = self.random.choice(self.scopes)
        vector = self._vector()
        everyone = [point.chunk_id for points in self.points.values() for point in points]
        wanted = self.random.sample(everyone, min(len(everyone), self.random.choice([0, 0, 7])))
        limit = self.random.choice([1, 3, 10, 50, 1000])
        return Asked(self._scope(own), vector, limit, self._floor(own, vector), tuple(wanted))

    def _scope(self, own: Scope) -> Scope:
        choose = self.random.random
        if choose() < 0.3:
            return own.for_reader(self.random.randint(1, 5), 1, self.random.randint(-1, 50))
        return own.narrow(
            documents=self.random.sample(range(1, 6), self.random.randint(0, 5))
            if choose() < 0.5
            else None,
            chapter=self.random.choice(CHAPTERS) if choose() < 0.3 else None,
            section=self.random.choice(SECTIONS) if choose() < 0.2 else None,
        )

    def _floor(self, own: Scope, vector: Vector) -> float | None:
        if self.random.random() < 0.25:
            return None
        points = self.points[own.tenant]
        if not points or self.random.random() < 0.25:
            return self.random.random()
        met = np.float32(similarity(vector, self.random.choice(points).vector, self.profile))
        towards = self.random.choice([met, np.float32(2), np.float32(-2)])
        # A floor is within 0 and 1, also if the score of the point is not.
        return float(min(max(np.nextafter(met, towards), np.float32(0)), np.float32(1)))


def similarity(one: Vector, other: Vector, profile: EmbeddingProfile) -> float:
    """Return the similarity of two vectors by brute force."""
    raw = np.dot(np.frombuffer(one, "<f4"), np.frombuffer(other, "<f4"))
    return float(raw) if profile.distance is Distance.COSINE else (float(raw) + 1) / 2


def truth(points: Sequence[Point], asked: Asked) -> dict[ChunkId, float]:
    """Return the similarity of every point that the scope and the floor allow."""
    least = -2.0 if asked.floor is None else float(np.float32(asked.floor))
    scored = {
        point.chunk_id: similarity(asked.vector, point.vector, asked.scope.profile)
        for point in points
        if _within(point, asked.scope)
    }
    return {id: score for id, score in scored.items() if score >= least}


def _within(point: Point, scope: Scope) -> bool:
    return (
        admits(scope.documents, point.document)
        and scope.chapter in (None, *fold_names(point.chapters))
        and scope.section in (None, *fold_names(point.sections))
        and (
            scope.position is None
            or (point.pos_start <= scope.position and point.pos_reach <= scope.position)
        )
    )


def difference(hits: Sequence[Hit], true: Mapping[ChunkId, float], limit: int) -> str:
    """Say how an answer differs from the truth; nothing when it does not.

    Among equal scores any order will do, and at the limit any of them.
    """
    scores = sorted(true.values(), reverse=True)[:limit]
    if [hit.score for hit in hits] != scores:
        return f"scores {[hit.score for hit in hits]} instead of {scores}"
    ids = {hit.chunk_id: hit.score for hit in hits}
    if len(ids) < len(hits) or any(true.get(id) != score for id, score in ids.items()):
        return "points that are not those of these scores"
    above = {id for id, score in true.items() if scores and score > scores[-1]}
    return "" if above <= ids.keys() else "points left out above the last score"


class Agreement:
    """The indexes that must agree."""

    def __init__(
        self, folder: Path, servers: Mapping[str, ServerOptions] = MappingProxyType({})
    ) -> None:
        warnings.filterwarnings("ignore", _QUIETLY, UserWarning)
        self.edge = EdgeIndex(folder / "index", reserve=0, idle_seconds=60)
        self.local = QdrantServerIndex(
            ServerOptions(url="http://127.0.0.1:6333"),
            ManualClock(),
            client=QdrantClient(":memory:"),
        )
        self.real = {
            name: QdrantServerIndex(options, SystemClock()) for name, options in servers.items()
        }
        self.indexes: dict[str, VectorIndex] = {
            "Edge": self.edge,
            "local mode": self.local,
            **self.real,
        }

    def close(self) -> None:
        """Let go of all of them."""
        self.edge.retire()
        for index in (self.local, *self.real.values()):
            index.close()

    def findings(self, seed: int, queries: int) -> list[str]:
        """Ask one corpus a number of queries; return what did not agree."""
        corpus = Corpus(seed)
        for index in self.indexes.values():
            for scope in corpus.scopes:
                index.prepare(scope)
                index.upsert(scope, corpus.points[scope.tenant])
        found = [
            f"corpus {seed}, query {number}, {where}"
            for number in range(queries)
            for where in self._compared(corpus, corpus.question())
        ]
        for index in self.indexes.values():
            index.discard(corpus.profile.id)
        return found

    def _compared(self, corpus: Corpus, asked: Asked) -> list[str]:
        points = corpus.points[asked.scope.tenant]
        true = truth(points, asked)
        told = {point.chunk_id: point.text_hash for point in points}
        named = {id: score for id, score in true.items() if id in asked.ids}
        found = []
        for name, index in self.indexes.items():
            hits, beside = index.search_with(
                asked.scope, asked.vector, limit=asked.limit, floor=asked.floor, ids=asked.ids
            )
            wrong = difference(hits, true, asked.limit) or difference(beside, named, len(named))
            if any(hit.text_hash != told[hit.chunk_id] for hit in (*hits, *beside)) and not wrong:
                wrong = "hashes of other points"
            found += [f"{name}: {wrong}"] if wrong else []
        return found


def agree(
    folder: Path,
    *,
    queries: int,
    seed: int = 1,
    servers: Mapping[str, ServerOptions] = MappingProxyType({}),
) -> list[str]:
    """Compare the answers of all indexes and real servers; return what did not agree."""
    indexes = Agreement(folder, servers)
    found: list[str] = []
    try:
        for number in count(seed):
            left = queries - (number - seed) * QUERIES_PER_CORPUS
            if left <= 0 or found:
                return found
            found += indexes.findings(number, min(left, QUERIES_PER_CORPUS))
    finally:
        indexes.close()
    raise AssertionError("seeds never end")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.compare_indexes", description=main.__doc__
    )
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="truespan-agree-") as folder:
        found = agree(Path(folder), queries=chosen.queries, seed=chosen.seed)
    said = f"{chosen.queries:,} queries to Edge, local mode and numpy: {len(found)} findings"
    print("\n".join([said, *found[:20]]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
