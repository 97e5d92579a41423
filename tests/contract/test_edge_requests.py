"""Requests of the client stay within their scope, and the process refuses others."""

import threading
from collections.abc import Iterator
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from tests.contract.index_contract import COSINE, EAST, float32_below, new_scope, point, vector
from tests.promises import proves
from truespan.core.disk import FileLock
from truespan.errors import IndexRefused
from truespan.index.base import Collection, Search
from truespan.index.edge import channel
from truespan.index.edge.channel import (
    CALLS,
    RETIRE,
    VERSION,
    Hello,
    Refused,
    Reply,
    Result,
    Welcome,
    decode_arguments,
    decode_call,
    decode_hello,
    decode_reply,
    encode,
    receive,
)
from truespan.index.edge.client import EdgeIndex, EdgeLink
from truespan.index.filters import AnyOf, AtMost, Equals, Field, HasId
from truespan.types.ids import ChunkId

COLLECTION = Collection(COSINE.id, 4, "cosine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("library") / "index"


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[EdgeIndex]:
    index = EdgeIndex(folder, reserve=0, idle_seconds=60)
    yield index
    index.retire()


# The requests


class Recorder:
    """A fake index process that answers every call and records its arguments."""

    def __init__(self, folder: Path) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._key = channel.key_of(folder)
        self._lock = FileLock(folder / channel.LOCK)
        assert self._lock.acquire()
        self._listener, address = channel.listen(folder)
        channel.publish(folder, address)
        self._thread = threading.Thread(target=self._serve, args=[self._listener])
        self._thread.start()

    def _serve(self, listener: Listener) -> None:
        with listener.accept() as connection:
            channel.admit(connection, self._key, 5)
            assert decode_hello(receive(connection)).version == VERSION
            connection.send_bytes(encode(Welcome(1)))
            while True:
                try:
                    call = decode_call(receive(connection))
                except EOFError:
                    return
                self.calls.append((call.name, *decode_arguments(call)))
                connection.send_bytes(encode(_reply(call.name)))

    def stop(self) -> None:
        """End after the client has closed its connection."""
        self._thread.join()
        self._listener.close()
        self._lock.release()


def _reply(name: str) -> Reply:
    hits = [(f"at {raw}", raw, "hash") for raw in (0.9, 0.3, 0.25)]
    return Result(Raw(encode((hits, []) if name == "search" else None)))


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[EdgeIndex, Recorder]]:
    recorder, index = Recorder(tmp_path), EdgeIndex(tmp_path, reserve=1000)
    yield index, recorder
    index.close()
    recorder.stop()


@proves("search.world-in-request", "search.floor-in-request")
def test_search_request_has_world_documents_and_floor(recorded):
    index, recorder = recorded
    scope = new_scope(generation=3).narrow(documents=[4, 2])

    index.search(scope, vector(*EAST), limit=9, floor=0.3)

    assert recorder.calls == [
        (
            "search",
            COLLECTION,
            Search(
                (Equals(Field.TENANT, f"{scope.world}.3"), AnyOf(Field.DOCUMENT, (2, 4))),
                vector(*EAST),
                9,
                float32_below(0.3),
            ),
        )
    ]


@proves("search.floor-inclusive")
def test_hit_below_the_floor_is_dropped(recorded):
    index, _ = recorded

    hits = index.search(new_scope(), vector(*EAST), limit=9, floor=0.3)

    assert [hit.chunk_id for hit in hits] == ["at 0.9"]


@proves("search.world-in-request")
def test_each_write_and_deletion_names_its_generation(recorded):
    index, recorder = recorded
    scope = new_scope()
    made = point(scope, 0, vector(*EAST))

    index.upsert(scope, [made])
    index.delete(scope, [made.chunk_id])
    index.delete_stale(scope, [(made.chunk_id, made.text_hash)])
    index.drop(scope)

    upsert, *deletions = recorder.calls
    tenant = Equals(Field.TENANT, f"{scope.world}.1")
    assert upsert[:3] == ("upsert", COLLECTION, tenant.value)
    assert deletions == [
        ("delete", COLLECTION, (tenant, HasId((made.chunk_id,)))),
        ("delete_stale", COLLECTION, (tenant,), [(made.chunk_id, made.text_hash)]),
        ("delete", COLLECTION, (tenant,)),
    ]


@proves("store.disk-reserve")
def test_first_slice_of_a_batch_requires_space_for_all(recorded):
    index, recorder = recorded
    scope = new_scope()

    index.upsert(scope, [point(scope, n, vector(*EAST)) for n in range(300)])

    points = [arguments[2] for _, *arguments in recorder.calls]
    room = [arguments[3] for _, *arguments in recorder.calls]
    assert sum(map(len, points)) == 300
    assert len(room) > 1
    assert room[0] >= 1000 + 300 * (16 + 64)
    assert room[0] > room[-1] > 1000


@proves("authority.empty-means-nothing", "search.zero-k-is-empty")
def test_empty_scope_and_zero_limit_send_no_request(tmp_path: Path):
    index, scope = EdgeIndex(tmp_path / "index", reserve=0), new_scope()

    assert index.search(scope.narrow(documents=[]), vector(*EAST), limit=5, floor=None) == []
    assert index.search(scope, vector(*EAST), limit=0, floor=None) == []
    assert not (tmp_path / "index").exists()


# Refusals of the process

TENANT = Equals(Field.TENANT, "a world.1")
UNBOUND = (AnyOf(Field.DOCUMENT, (1,)), AtMost(Field.POS_START, 3))


@pytest.fixture(scope="module")
def link(folder: Path, index: EdgeIndex) -> Iterator[EdgeLink]:
    index.prepare(new_scope())
    link = EdgeLink(folder, idle_seconds=60, start_timeout=30, request_timeout=30)
    yield link
    link.close()


UNBOUND_CALLS: list[tuple[Any, ...]] = [
    ("search", COLLECTION, Search(UNBOUND, vector(*EAST), 5)),
    ("search", COLLECTION, Search((), vector(*EAST), 5)),
    ("search", COLLECTION, Search((Equals(Field.TENANT, ""),), vector(*EAST), 5)),
    ("search", COLLECTION, Search((Equals(Field.TENANT, 1),), vector(*EAST), 5)),
    ("count", COLLECTION, UNBOUND),
    ("scan", COLLECTION, UNBOUND, None, 5),
    ("delete", COLLECTION, UNBOUND),
    ("delete_stale", COLLECTION, UNBOUND, [("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1", "hash")]),
    ("upsert", COLLECTION, "", [], 0),
]


@proves("search.world-required")
@pytest.mark.parametrize("call", UNBOUND_CALLS, ids=lambda call: call[0])
def test_process_refuses_a_call_without_a_world(link: EdgeLink, call: tuple[Any, ...]):
    with pytest.raises(IndexRefused, match="world"):
        link.call(*call)


@pytest.mark.parametrize("name", ["../outside", "", "0123456789abcde/", "0123456789ABCDEF"])
def test_process_refuses_a_collection_name_that_is_not_a_digest(link: EdgeLink, name: str):
    with pytest.raises(IndexRefused, match="named"):
        link.count(Collection(name, 4, "cosine"), (TENANT,))


def test_the_process_refuses_a_vector_of_another_length(link: EdgeLink):
    with pytest.raises(IndexRefused, match="bytes"):
        link.search(COLLECTION, Search((TENANT,), b"1234", 5))


@pytest.mark.parametrize("name", ["close", "shard", "_change", "__class__", "no_such_call", ""])
def test_process_refuses_an_unknown_call(link: EdgeLink, name: str):
    assert name not in CALLS
    with pytest.raises(IndexRefused, match="no such call"):
        link.call(name)


@pytest.mark.parametrize(
    "call",
    [
        ("count",),
        ("count", COLLECTION),
        ("count", COLLECTION, (TENANT,), "one too many"),
        ("count", COLLECTION, "not conditions"),
        ("count", COLLECTION, (TENANT, ["unknown", "tenant", "x"])),
        ("scan", COLLECTION, (TENANT,), None, "5"),
        ("discard", 7),
    ],
    ids=str,
)
def test_the_process_refuses_arguments_of_other_types(link: EdgeLink, call: tuple[Any, ...]):
    with pytest.raises(IndexRefused, match="arguments"):
        link.call(*call)


def test_refused_call_raises_when_its_result_is_read(link: EdgeLink):
    link.count(COLLECTION, (TENANT,))

    wait = link.start("search", COLLECTION, Search(UNBOUND, vector(*EAST), 5))

    with pytest.raises(IndexRefused, match="world"):
        wait()
    assert link.count(COLLECTION, (TENANT,)) == 0


def test_process_starts_only_when_a_result_is_read(tmp_path: Path):
    folder = tmp_path / "index"
    link = EdgeLink(folder, idle_seconds=60, start_timeout=30, request_timeout=30)

    wait = link.start("collections")
    started = folder.exists()
    found = wait()
    link.call(RETIRE)
    link.close()

    assert not started
    assert found == []


def test_process_refuses_an_unreadable_message_and_continues(folder: Path, link: EdgeLink):
    address = channel.published(folder)
    assert address is not None
    with channel.connect(address, channel.key_of(folder), 5) as connection:
        connection.send_bytes(b"\xc1 not a message")
        refused = receive(connection)

    assert b"greeting" in refused
    assert link.count(COLLECTION, (TENANT,)) == 0


def test_process_refuses_an_unreadable_call_and_continues(folder: Path, link: EdgeLink):
    address = channel.published(folder)
    assert address is not None
    with channel.connect(address, channel.key_of(folder), 5) as connection:
        connection.send_bytes(encode(Hello(VERSION, channel.identity(folder))))
        assert isinstance(decode_reply(receive(connection)), Welcome)
        connection.send_bytes(b"\xc1 not a message")
        refused = decode_reply(receive(connection))
        connection.send_bytes(encode(("count", [COLLECTION, (TENANT,)])))
        counted = decode_reply(receive(connection))

    assert isinstance(refused, Refused)
    assert isinstance(counted, Result)


def test_the_process_refuses_a_client_of_another_version(folder: Path, link: EdgeLink):
    address = channel.published(folder)
    assert address is not None
    with channel.connect(address, channel.key_of(folder), 5) as connection:
        connection.send_bytes(encode(Hello(VERSION + 1, channel.identity(folder))))
        reply = decode_reply(receive(connection))

    assert isinstance(reply, Refused)
    assert "version" in reply.message


@proves("errors.no-secrets")
def test_engine_error_does_not_quote_its_input(index: EdgeIndex, folder: Path):
    scope = new_scope()
    index.prepare(scope)
    canary = "canary-2f9c"

    with pytest.raises(IndexRefused) as refusal:
        index.delete(scope, [ChunkId(canary)])

    assert canary not in str(refusal.value)
    assert canary not in (folder / channel.LOG).read_text()
