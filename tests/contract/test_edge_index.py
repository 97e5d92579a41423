"""The embedded index keeps the contract, and asks its process for exactly what the scope allows."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Listener
from pathlib import Path

import pytest
import qdrant_edge

from tests.contract.index_contract import (
    COSINE,
    EAST,
    IndexContract,
    float32_below,
    new_scope,
    point,
    vector,
)
from tests.promises import proves
from truespan.adapters import edge_channel
from truespan.adapters.edge_index import EdgeIndex
from truespan.adapters.edge_link import EdgeLink
from truespan.adapters.edge_wire import (
    VERSION,
    Collection,
    Count,
    Delete,
    DeleteStale,
    Done,
    Found,
    Hello,
    Refused,
    Request,
    Scan,
    Search,
    Upsert,
    Welcome,
    decode_reply,
    decode_request,
    encode,
)
from truespan.adapters.file_lock import FileLock
from truespan.adapters.qdrant_filter import AnyOf, AtMost, Equals, Field, HasId
from truespan.errors import IndexRefused
from truespan.model.ids import ChunkId

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
    """The suite that every adapter runs."""


# The files


@proves("index.payload-indexes")
def test_a_point_holds_its_place_and_its_hash_and_never_text(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path, reserve=0), new_scope()
    index.prepare(scope)
    index.upsert(scope, [point(scope, 7, vector(*EAST), chapter="STRASSE", section="Straße")])
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
        "kind": "text",
    }
    assert set(indexed) == {"tenant", "document", "pos_start", "pos_reach", "chapter", "section"}
    assert isinstance(indexed["tenant"], qdrant_edge.KeywordIndexParams)
    assert indexed["tenant"].is_tenant


def test_a_point_whose_hash_was_lost_comes_back_without_one(tmp_path: Path):
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


def test_a_collection_that_cannot_be_opened_is_refused_and_can_be_made_anew(tmp_path: Path):
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


def test_an_engine_that_panics_is_refused_and_can_be_made_anew(tmp_path: Path):
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

    # After each panic another process took over, since nobody knows what the old one still holds.
    assert (folder_log := (tmp_path / edge_channel.LOG).read_text()).count(" start\n") == 4
    assert "panicked" in folder_log
    assert count == 0


def test_what_a_crash_left_of_an_unfinished_collection_is_no_obstacle(tmp_path: Path):
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


def test_retiring_a_process_that_does_not_run_starts_none(tmp_path: Path):
    EdgeIndex(tmp_path / "index", reserve=0).retire()

    assert not (tmp_path / "index").exists()


def test_resetting_a_healthy_collection_empties_it(index: EdgeIndex):
    scope = new_scope(replace(COSINE, model="to be reset"))
    index.prepare(scope)
    index.upsert(scope, [point(scope, 0, vector(*EAST))])

    index.reset(scope)

    assert index.count(scope) == 0


def wait_for_lock(folder: Path) -> None:
    """Return once the index process has let go of the folder."""
    with FileLock(folder / edge_channel.LOCK):
        pass


def test_the_key_is_for_its_owner_alone_and_made_once(tmp_path: Path):
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(edge_channel.key_of, [tmp_path] * 40))

    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


# The requests


class Recorder:
    """Stands where the index process would, answers every request and keeps what it was sent."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[Request] = []
        self._key = edge_channel.key_of(folder)
        self._lock = FileLock(folder / edge_channel.LOCK)
        assert self._lock.acquire()
        self._listener, address = edge_channel.listen(folder)
        edge_channel.publish(folder, address)
        self._thread = threading.Thread(target=self._serve, args=[self._listener])
        self._thread.start()

    def _serve(self, listener: Listener) -> None:
        with listener.accept() as connection:
            edge_channel.admit(connection, self._key, 5)
            while True:
                try:
                    request = decode_request(edge_channel.receive(connection))
                except EOFError:
                    return
                self.requests.append(request)
                connection.send_bytes(encode(_reply(request)))

    def stop(self) -> None:
        """End after the client has closed its connection."""
        self._thread.join()
        self._listener.close()
        self._lock.release()


def _reply(request: Request) -> Welcome | Found | Done:
    match request:
        case Hello():
            return Welcome(1)
        case Search():
            return Found([(f"at {raw}", raw, "hash") for raw in (0.9, 0.3, 0.25)])
        case _:
            return Done()


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[EdgeIndex, Recorder]]:
    recorder, index = Recorder(tmp_path), EdgeIndex(tmp_path, reserve=1000)
    yield index, recorder
    index.close()
    recorder.stop()


@proves("search.world-in-request", "search.floor-in-request")
def test_world_documents_and_floor_are_part_of_the_search_request(recorded):
    index, recorder = recorded
    scope = new_scope(generation=3).narrow(documents=[4, 2])

    index.search(scope, vector(*EAST), limit=9, floor=0.3)

    assert recorder.requests == [
        Hello(VERSION, recorder.requests[0].folder),
        Search(
            COLLECTION,
            (Equals(Field.TENANT, f"{scope.world}.3"), AnyOf(Field.DOCUMENT, (2, 4))),
            vector(*EAST),
            9,
            float32_below(0.3),
        ),
    ]


@proves("search.floor-inclusive")
def test_a_hit_below_the_floor_is_dropped_although_the_index_gave_it(recorded):
    index, _ = recorded

    hits = index.search(new_scope(), vector(*EAST), limit=9, floor=0.3)

    assert [hit.chunk_id for hit in hits] == ["at 0.9"]


@proves("search.world-in-request")
def test_every_write_and_deletion_names_its_world_and_generation(recorded):
    index, recorder = recorded
    scope = new_scope()
    made = point(scope, 0, vector(*EAST))

    index.upsert(scope, [made])
    index.delete(scope, [made.chunk_id])
    index.delete_stale(scope, [(made.chunk_id, made.text_hash)])
    index.drop(scope)

    upsert, *deletions = recorder.requests[1:]
    tenant = Equals(Field.TENANT, f"{scope.world}.1")
    assert upsert.tenant == tenant.value
    assert deletions == [
        Delete(COLLECTION, (tenant, HasId((made.chunk_id,)))),
        DeleteStale(COLLECTION, (tenant,), [(made.chunk_id, made.text_hash)]),
        Delete(COLLECTION, (tenant,)),
    ]


@proves("store.disk-reserve")
def test_the_first_slice_of_a_large_batch_demands_room_for_all_of_it(recorded):
    index, recorder = recorded
    scope = new_scope()

    index.upsert(scope, [point(scope, n, vector(*EAST)) for n in range(300)])

    upserts = [request for request in recorder.requests if isinstance(request, Upsert)]
    assert sum(len(upsert.points) for upsert in upserts) == 300
    assert len(upserts) > 1
    assert upserts[0].room >= 1000 + 300 * (16 + 64)
    assert upserts[0].room > upserts[-1].room > 1000


@proves("authority.empty-means-nothing", "search.zero-k-is-empty")
def test_an_empty_scope_and_a_zero_limit_ask_nobody(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path / "index", reserve=0), new_scope()

    assert index.search(scope.narrow(documents=[]), vector(*EAST), limit=5, floor=None) == []
    assert index.search(scope, vector(*EAST), limit=0, floor=None) == []
    assert not (tmp_path / "index").exists()


# What the process refuses, whoever asks

TENANT = Equals(Field.TENANT, "a world.1")
UNBOUND = (AnyOf(Field.DOCUMENT, (1,)), AtMost(Field.POS_START, 3))


@pytest.fixture(scope="module")
def link(folder: Path, index: EdgeIndex) -> Iterator[EdgeLink]:
    index.prepare(new_scope())
    link = EdgeLink(folder, idle_seconds=60, start_timeout=30, request_timeout=30)
    yield link
    link.close()


@proves("search.world-required")
@pytest.mark.parametrize(
    "request_",
    [
        Search(COLLECTION, UNBOUND, vector(*EAST), 5, None),
        Search(COLLECTION, (), vector(*EAST), 5, None),
        Search(COLLECTION, (Equals(Field.TENANT, ""),), vector(*EAST), 5, None),
        Search(COLLECTION, (Equals(Field.TENANT, 1),), vector(*EAST), 5, None),
        Count(COLLECTION, UNBOUND),
        Scan(COLLECTION, UNBOUND, None, 5),
        Delete(COLLECTION, UNBOUND),
        DeleteStale(COLLECTION, UNBOUND, [("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1", "hash")]),
        Upsert(COLLECTION, "", [], 0),
    ],
    ids=lambda request: type(request).__name__,
)
def test_the_process_refuses_a_request_that_names_no_world(link: EdgeLink, request_: Request):
    assert isinstance(link.ask(request_), Refused)


@pytest.mark.parametrize("name", ["../outside", "", "0123456789abcde/", "0123456789ABCDEF"])
def test_the_process_refuses_a_collection_whose_name_is_not_a_digest(link: EdgeLink, name: str):
    reply = link.ask(Count(Collection(name, 4, "cosine"), (TENANT,)))

    assert isinstance(reply, Refused)
    assert "named" in reply.message


def test_the_process_refuses_a_vector_of_another_length(link: EdgeLink):
    assert isinstance(link.ask(Search(COLLECTION, (TENANT,), b"1234", 5, None)), Refused)


def test_the_process_refuses_a_message_it_cannot_read_and_goes_on(folder: Path, link: EdgeLink):
    address = edge_channel.published(folder)
    assert address is not None
    with edge_channel.connect(address, edge_channel.key_of(folder), 5) as connection:
        connection.send_bytes(b"\xc1 not a message")
        refused = edge_channel.receive(connection)

    assert b"greeted" in refused
    assert not isinstance(link.ask(Count(COLLECTION, (TENANT,))), Refused)


def test_the_process_refuses_a_client_of_another_version(folder: Path, link: EdgeLink):
    address = edge_channel.published(folder)
    assert address is not None
    with edge_channel.connect(address, edge_channel.key_of(folder), 5) as connection:
        connection.send_bytes(encode(Hello(VERSION + 1, edge_channel.identity(folder))))
        reply = decode_reply(edge_channel.receive(connection))

    assert isinstance(reply, Refused)
    assert "version" in reply.message


@proves("errors.no-secrets")
def test_an_error_of_the_engine_quotes_nothing_of_what_it_was_given(index: EdgeIndex, folder: Path):
    scope = new_scope()
    index.prepare(scope)
    canary = "canary-2f9c"

    with pytest.raises(IndexRefused) as refusal:
        index.delete(scope, [ChunkId(canary)])

    assert canary not in str(refusal.value)
    assert canary not in (folder / edge_channel.LOG).read_text()
