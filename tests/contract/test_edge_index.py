"""The embedded index: the contract, its files and its process."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import qdrant_edge
from msgspec.structs import replace

from tests.contract.index_contract import COSINE, EAST, IndexContract, new_scope, point, vector
from tests.promises import proves
from truespan.core.disk import FileLock
from truespan.errors import IndexRefused
from truespan.index.base import Collection, Search
from truespan.index.edge import channel
from truespan.index.edge import shard as shard_files
from truespan.index.edge.client import EdgeIndex
from truespan.index.filters import conditions, tenant

COLLECTION = Collection(COSINE.id, 4, "cosine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("library") / "index"


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[EdgeIndex]:
    index = EdgeIndex(folder, reserve=1 << 20, idle_seconds=60)
    yield index
    index.retire()


class TestEdgeIndex(IndexContract):
    """The contract, on the embedded index."""


# The files


@proves("index.payload-indexes")
def test_point_holds_its_place_and_hash_and_never_text(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(
        scope,
        [point(scope, 7, vector(*EAST), chapters=("STRASSE", "Straße"), sections=("Straße",))],
    )
    index.retire()
    wait_for_lock(tmp_path)

    shard = qdrant_edge.EdgeShard.load(str(tmp_path / COSINE.id))
    [record] = shard.retrieve([point(scope, 7, vector(*EAST)).chunk_id], True, False)
    indexed = {name: info.params for name, info in shard.info().payload_schema.items()}
    shard.close()

    assert record.payload == {
        "tenant": f"{scope.world}.1",
        "document": 1,
        "text_hash": point(scope, 7, vector(*EAST)).text_hash,
        "pos_start": 7,
        "pos_end": 7,
        "pos_reach": 7,
        "chapter": "strasse",
        "section": "strasse",
    }
    assert set(indexed) == {"tenant", "document", "pos_start", "pos_reach", "chapter", "section"}
    assert isinstance(indexed["tenant"], qdrant_edge.KeywordIndexParams)
    assert indexed["tenant"].is_tenant


@proves("request.inside-the-chapter")
def test_points_of_one_chapter_and_of_several_are_found(tmp_path: Path):
    scope, path = new_scope(), tmp_path / COSINE.id
    shard_files.create_files(path, COLLECTION)
    shard = shard_files.Shard(path, COLLECTION)
    single = point(scope, 1, vector(*EAST), chapters=("cafe\u0301",))
    several = point(scope, 2, vector(*EAST), chapters=("One", "Caf\xe9"))
    shard.upsert(scope.tenant, [single, several])

    def found(chapter: str, section: str | None = None) -> set[str]:
        where = conditions(scope.narrow(chapter=chapter, section=section))
        return {str(hit[0]) for hit in shard.search(Search(where, vector(*EAST), 10))[0]}

    both = {single.chunk_id, several.chunk_id}
    assert found(chapter="CAF\xc9") == found(chapter="cafe\u0301", section="Section") == both
    assert found(chapter="one") == {several.chunk_id}
    places = {held.chunk_id: held.place for held in shard.scan((tenant(scope),), None, 10)[0]}
    assert [place and place.chapter for place in (places[single.chunk_id],)] == [("caf\xe9",)]
    assert [place and place.chapter for place in (places[several.chunk_id],)] == [
        ("one", "caf\xe9")
    ]
    shard.close()


def test_files_are_readable_by_their_owner_alone(index: EdgeIndex, folder: Path):
    index.prepare(new_scope())

    open_to_others = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]

    assert (folder / COSINE.id / "edge_config.json").exists()
    assert open_to_others == []
    assert folder.stat().st_mode & 0o077 == 0


def test_point_without_a_hash_is_returned_without_one(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST)), point(scope, 1, vector(*EAST))])
    index.retire()
    wait_for_lock(tmp_path)
    ids = [point(scope, n, vector(*EAST)).chunk_id for n in range(2)]
    shard = qdrant_edge.EdgeShard.load(str(tmp_path / COSINE.id))
    shard.update(qdrant_edge.UpdateOperation.delete_payload([ids[0]], ["text_hash"]))
    shard.update(qdrant_edge.UpdateOperation.set_payload([ids[1]], {"text_hash": 5}))
    shard.close()

    hits = index.search(scope, vector(*EAST), limit=5, floor=None)
    scanned = [p.text_hash for page in index.scan(scope) for p in page]
    index.retire()

    assert [hit.text_hash for hit in hits] == ["", ""]
    assert scanned == [None, None]


def test_unreadable_collection_is_refused_and_can_be_recreated(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])
    index.retire()
    wait_for_lock(tmp_path)
    [settings] = (tmp_path / COSINE.id).glob("segments/*/segment.json")
    settings.write_bytes(b"{")

    with pytest.raises(IndexRefused, match="doctor"):
        index.search(scope, vector(*EAST), limit=1, floor=None)
    index.reset(scope)
    after_reset = index.count(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])
    after_upsert = index.count(scope)
    index.retire()

    assert (after_reset, after_upsert) == (0, 1)


def test_engine_panic_is_refused_and_can_be_recreated(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])
    index.retire()
    wait_for_lock(tmp_path)
    [status] = (tmp_path / COSINE.id).glob("segments/*/vector_storage/vectors/status.dat")
    status.write_bytes(b"\xff\xff")

    for _ in range(2):
        with pytest.raises(IndexRefused, match="doctor"):
            index.count(scope)
    index.reset(scope)
    count = index.count(scope)
    index.retire()

    # After each panic another process took over, because the memory of the old one is unknown.
    assert (folder_log := (tmp_path / channel.LOG).read_text()).count(" start\n") == 4
    assert "panicked" in folder_log
    assert count == 0


def test_unfinished_collection_of_a_crash_is_replaced(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    for rest in (".new", ".removed"):
        (tmp_path / f"{COSINE.id}{rest}" / "segments" / "half").mkdir(parents=True)

    with pytest.raises(IndexRefused, match="no collection"):
        index.count(scope)
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])
    index.reset(scope)
    count = index.count(scope)
    index.retire()

    assert count == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [COSINE.id]


def test_search_that_an_ended_process_dropped_is_repeated(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])
    expected = index.search(scope, vector(*EAST), limit=1, floor=None)
    EdgeIndex(tmp_path, reserve=0).retire()
    wait_for_lock(tmp_path)

    assert index.start_search(scope, vector(*EAST), limit=1, floor=None)() == expected
    index.retire()


def test_retiring_a_stopped_process_starts_none(tmp_path: Path):
    EdgeIndex(tmp_path / "index", reserve=0).retire()

    assert not (tmp_path / "index").exists()


def test_resetting_a_healthy_collection_empties_it(index: EdgeIndex):
    scope = new_scope(replace(COSINE, model="to be reset"))
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])

    index.reset(scope)

    assert index.count(scope) == 0


def wait_for_lock(folder: Path) -> None:
    """Return once the index process has released the folder."""
    with FileLock(folder / channel.LOCK):
        pass


def test_key_is_readable_by_its_owner_and_created_once(tmp_path: Path):
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(channel.key_of, [tmp_path] * 40))

    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
