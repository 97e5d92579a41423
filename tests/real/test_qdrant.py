"""A real Qdrant server: it answers like brute force, and faults and owners are handled."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace
from tools.compare_indexes import agree

from tests.contract.index_contract import leaning, new_scope, point
from tests.real.conftest import address
from tests.support.worlds import WordCounter, WordEmbedder
from truespan.core.clock import SystemClock
from truespan.engine.library import Library
from truespan.errors import IndexKeyRefused, IndexNotOwned, IndexUnavailable
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.types.maintenance import FileTreatment, Ownership
from truespan.types.token import Secret
from truespan.wiring import open_library

QUERIES = 600
GAPS = (4.8, 4.9, 5.0, 5.1, 5.2)
"""Around the five seconds after which Qdrant closes an idle connection."""


@pytest.fixture
def options() -> Iterator[ServerOptions]:
    """Options with a prefix of their own; its collections are removed at the end."""
    made = ServerOptions(
        url=address("QDRANT_URL"),
        key=Secret(os.environ.get("QDRANT_API_KEY", "")),
        prefix=f"test_{uuid4().hex[:8]}_",
        timeout_seconds=30,
    )
    yield made
    index = QdrantServerIndex(made, SystemClock())
    for profile in index.collections():
        index.discard(profile)
    index.close()


def test_server_answers_like_brute_force(options: ServerOptions, tmp_path: Path) -> None:
    assert agree(tmp_path, queries=QUERIES, servers={"REST": options}) == []


def test_requests_after_idle_connections_succeed(options: ServerOptions) -> None:
    index, scope = QdrantServerIndex(options, SystemClock()), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 1, leaning(0.5))])
    found = []
    for gap in GAPS:
        time.sleep(gap)
        found.append(len(index.search(scope, leaning(0.5), limit=1, floor=None)))
    index.close()
    assert found == [1] * len(GAPS)


def test_deleted_points_are_rewritten_away(options: ServerOptions) -> None:
    index, scope = QdrantServerIndex(options, SystemClock()), new_scope()
    index.prepare(scope)
    points = [point(scope, number, leaning(number / 1000)) for number in range(1, 400)]
    index.upsert(scope, points)
    index.delete(scope, [made.chunk_id for made in points[::2]])
    fate = index.erase(scope.profile)
    left = index.count(scope)
    index.close()
    assert (fate, left) == (FileTreatment.REQUESTED, len(points[1::2]))


def test_a_collection_belongs_to_the_library_that_created_it(options: ServerOptions) -> None:
    scope = new_scope()
    own, other = (
        QdrantServerIndex(options, SystemClock(), library_id=lambda name=name: name)
        for name in ("one", "two")
    )
    own.prepare(scope)
    own.upsert(scope, [point(scope, 1, leaning(0.5))])
    with pytest.raises(IndexNotOwned):
        other.prepare(scope)
    with pytest.raises(IndexNotOwned):
        other.search(scope, leaning(0.5), limit=1, floor=None)
    with pytest.raises(IndexNotOwned):
        other.discard(scope.profile.id)
    seen = own.ownership(scope.profile.id), other.ownership(scope.profile.id)
    other.claim(scope.profile.id)
    claimed = other.count(scope)
    own.close()
    other.close()

    assert seen == (Ownership.OWN, Ownership.OTHER)
    assert claimed == 1


def test_missing_server_and_wrong_key_are_named(options: ServerOptions) -> None:
    scope = new_scope()
    gone = QdrantServerIndex(replace(options, url="http://127.0.0.1:9"), SystemClock())
    with pytest.raises(IndexUnavailable, match="cannot be reached"):
        gone.count(scope)
    if not options.key.reveal():
        return
    refused = QdrantServerIndex(replace(options, key=Secret("not-the-key")), SystemClock())
    with pytest.raises(IndexKeyRefused):
        refused.prepare(scope)


def opened(folder: Path) -> Library:
    return open_library(folder, create=True, embedder=WordEmbedder(), counter=WordCounter())


def test_a_library_is_filled_searched_repaired_and_deleted(
    options: ServerOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUESPAN_INDEX_URL", options.url)
    monkeypatch.setenv("TRUESPAN_QDRANT_PREFIX", options.prefix)
    (tmp_path / "files").mkdir()
    for number, word in enumerate(("otter", "lantern", "ferry")):
        text = f"The harbour is dark. A {word} is at the pier. Nobody sees it."
        (tmp_path / "files" / f"{number}.txt").write_text(text, encoding="utf-8")
    with opened(tmp_path / "library") as library:
        world = library.create_world("harbour")
        world.ingest(str(tmp_path / "files"))
        found = world.search("lantern", top_k=1, floor=0.0).passages
        world.documents.delete("2.txt")
        healthy = library.doctor(self_test=True)
        # The server loses everything; the store restores it without the model.
        index = QdrantServerIndex(options, SystemClock())
        for profile in index.collections():
            index.discard(profile)
        index.close()
    with opened(tmp_path / "library") as library:
        library.maintenance.apply_plan(library.doctor())
        again = library.world("harbour").search("lantern", top_k=1, floor=0.0).passages
        left = library.doctor()
        receipt = library.delete_world("harbour")

    assert [one.source for one in found] == ["1.txt"]
    assert healthy.healthy
    assert [one.chunk_id for one in again] == [one.chunk_id for one in found]
    assert left.healthy
    assert receipt is not None
