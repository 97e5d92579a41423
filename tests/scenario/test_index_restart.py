"""Restarts of the index process lose nothing that was written."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.index_contract import EAST, point, vector
from tests.promises import proves
from tests.support.index_process import (
    SCOPE,
    end_process,
    eventually,
    freeze,
    kill,
    opened,
    process_of,
    wait_for_end,
)
from truespan.errors import IndexRefused, IndexUnavailable
from truespan.index.edge import channel
from truespan.index.edge.client import EdgeIndex
from truespan.types.ids import ChunkId


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An index folder; its process is ended after the test."""
    folder = tmp_path / "index"
    yield folder
    end_process(folder)


@proves("store.second-process")
def test_process_killed_between_requests_is_replaced(folder: Path):
    index = opened(folder, points=20)
    killed = process_of(folder)

    kill(killed)

    assert index.count(SCOPE) == 20
    assert process_of(folder) != killed


@proves("errors.provider-or-index")
def test_process_killed_in_a_search_fails_once_and_recovers(folder: Path):
    index = opened(folder, points=20)
    killed = process_of(folder)
    freeze(killed)

    with ThreadPoolExecutor(1) as thread:
        search = thread.submit(index.search, SCOPE, vector(*EAST), limit=3, floor=None)
        eventually(somebody_waits_for_a_reply)
        os.kill(killed, signal.SIGKILL)
        error = search.exception()

    assert isinstance(error, IndexUnavailable)
    assert error.retryable
    assert len(index.search(SCOPE, vector(*EAST), limit=3, floor=None)) == 3
    assert index.count(SCOPE) == 20


def somebody_waits_for_a_reply() -> bool:
    """Return whether a thread has sent its request and is reading."""
    frames = [frame for frame in sys._current_frames().values() if frame]
    return any(frame.f_code is channel.receive.__code__ for frame in frames)


@proves("errors.provider-or-index")
def test_a_process_that_does_not_answer_is_an_error_in_time(folder: Path):
    index = opened(folder, points=3)
    hasty = EdgeIndex(folder, reserve=0, request_timeout=0.1)
    hasty.search(SCOPE, vector(*EAST), limit=1, floor=None)
    server = process_of(folder)
    freeze(server)

    with pytest.raises(IndexUnavailable, match="in time"):
        hasty.count(SCOPE)
    os.kill(server, signal.SIGCONT)

    assert index.count(SCOPE) == 3
    assert process_of(folder) == server


@proves("errors.provider-or-index")
def test_a_process_that_stops_reading_is_an_error_in_time(folder: Path):
    opened(folder, points=3)
    hasty = EdgeIndex(folder, reserve=0, request_timeout=0.1)
    hasty.search(SCOPE, vector(*EAST), limit=1, floor=None)
    freeze(process_of(folder))
    points = [point(SCOPE, n, vector(*EAST), chapters=("c" * 20_000,)) for n in range(128)]

    with pytest.raises(IndexUnavailable, match="in time"):
        hasty.upsert(SCOPE, points)


@proves("store.second-process")
def test_idle_process_ends_with_clients_and_restarts(folder: Path):
    index = opened(folder, points=20, idle_seconds=0.05)
    first = (folder / channel.LOG).read_text().split()[1]

    wait_for_end(folder)
    count = index.count(SCOPE)

    assert count == 20
    assert f" {first} stop: idle" in (folder / channel.LOG).read_text()


@proves("store.second-process")
def test_requests_that_meet_an_ending_process_are_not_lost(folder: Path):
    index = opened(folder, points=20)
    enough = threading.Event()

    def keep_counting() -> set[int]:
        counts = set()
        while not enough.is_set():
            counts.add(index.count(SCOPE))
        return counts

    with ThreadPoolExecutor(4) as threads:
        counting = [threads.submit(keep_counting) for _ in range(4)]
        try:
            for _ in range(10):
                ended = process_of(folder)
                os.kill(ended, signal.SIGTERM)
                eventually(lambda ended=ended: serves_anew(folder, ended))
        finally:
            enough.set()

    assert [count.result() for count in counting] == [{20}] * 4


def serves_anew(folder: Path, ended: int) -> bool:
    """Return whether another process serves the folder now."""
    address = channel.published(folder)
    return address is not None and address.pid != ended


@proves("store.second-process")
def test_retired_process_has_flushed_and_closed_everything(folder: Path):
    index = opened(folder, points=20)
    index.upsert(SCOPE, [point(SCOPE, 20, vector(*EAST))])

    os.kill(process_of(folder), signal.SIGTERM)
    wait_for_end(folder)

    assert (folder / channel.LOG).read_text().endswith("stop: signal\n")
    assert channel.published(folder) is None
    assert index.count(SCOPE) == 21


@proves("store.second-process")
def test_what_a_killed_process_left_behind_is_no_obstacle(folder: Path):
    opened(folder, points=3)
    address = channel.published(folder)
    assert address is not None
    kill(address.pid)
    assert Path(address.name).exists()
    assert channel.published(folder) == address

    assert opened(folder).count(SCOPE) == 3


@proves("errors.provider-or-index")
def test_process_that_cannot_start_names_its_log(folder: Path, monkeypatch: pytest.MonkeyPatch):
    folder.mkdir()
    (folder / channel.LOCK).mkdir()  # cannot be opened as a file

    with pytest.raises(IndexUnavailable, match=channel.LOG):
        opened(folder)
    (folder / channel.LOCK).rmdir()


@proves("errors.no-secrets")
def test_log_names_no_point_or_world_and_is_limited(folder: Path):
    folder.mkdir()
    (folder / channel.LOG).write_bytes(b"old\n" * 300_000)
    index = opened(folder, points=20)
    index.search(SCOPE, vector(*EAST), limit=3, floor=0.1)
    with pytest.raises(IndexRefused):
        index.delete(SCOPE, [ChunkId("no uuid")])
    index.retire()
    wait_for_end(folder)

    log = (folder / channel.LOG).read_text()
    first = point(SCOPE, 0, vector(*EAST))
    assert "old" not in log
    assert not any(secret in log for secret in (SCOPE.world, first.chunk_id, first.text_hash))
    assert (folder / "key").read_bytes().hex() not in log
    assert len(log.splitlines()) == 3
