"""Restarts of the index process and a full disk lose nothing that was written."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.index_contract import COSINE, EAST, point, vector
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
from truespan.errors import IndexRefused, IndexUnavailable, StorageFull
from truespan.index.base import Collection
from truespan.index.edge import channel
from truespan.index.edge.client import EdgeIndex, EdgeLink
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
def test_silent_process_is_an_error_at_the_timeout(folder: Path):
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
def test_process_that_stops_reading_is_an_error_at_the_timeout(folder: Path):
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

    assert index.count(SCOPE) == 20
    assert f" {first} stop: idle" in (folder / channel.LOG).read_text()


@proves("store.second-process")
def test_requests_to_an_ending_process_are_not_lost(folder: Path):
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
def test_leftovers_of_a_killed_process_do_not_prevent_a_start(folder: Path):
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


MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 96 MiB, which only the superuser can create."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk can only be mounted by the super-user")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system does not let the super-user mount a small disk")
    try:
        yield disk
        end_process(disk / "index")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while (free := shutil.disk_usage(disk).free) > leave:
            file.write(bytes(min(MIB, free - leave)))
            file.flush()
    return ballast


@proves("store.disk-reserve")
def test_low_disk_space_stops_writes_but_not_searches(small_disk: Path):
    index = EdgeIndex((small_disk / "index"), reserve=32 * MIB, idle_seconds=60)
    index.prepare(SCOPE)
    index.upsert(SCOPE, [point(SCOPE, 0, vector(*EAST))])
    ballast = fill(small_disk, leave=31 * MIB)

    with pytest.raises(StorageFull) as refusal:
        index.upsert(SCOPE, [point(SCOPE, n, vector(*EAST)) for n in range(1, 300)])
    while_full = index.count(SCOPE), len(index.search(SCOPE, vector(*EAST), limit=9, floor=0.5))
    ballast.unlink()
    index.upsert(SCOPE, [point(SCOPE, 1, vector(*EAST))])

    assert refusal.value.reserve > 32 * MIB > refusal.value.free
    assert while_full == (1, 1)
    assert index.count(SCOPE) == 2


@proves("errors.provider-or-index")
def test_full_disk_loses_nothing_that_was_flushed(small_disk: Path):
    folder = small_disk / "index"
    index = opened(folder, points=500)
    ballast = fill(small_disk, leave=MIB)

    with pytest.raises(StorageFull):
        write_without_looking(folder, batches=200)
    ballast.unlink()
    end_process(folder)

    kept = {p.chunk_id for page in index.scan(SCOPE) for p in page}
    assert kept >= {point(SCOPE, n, vector(*EAST)).chunk_id for n in range(500)}


def write_without_looking(folder: Path, *, batches: int) -> None:
    """Write without requiring free space until the index fails."""
    link = EdgeLink(folder, idle_seconds=60, start_timeout=30, request_timeout=30)
    collection = Collection(COSINE.id, 4, "cosine")
    for batch in range(batches):
        points = [
            point(SCOPE, 1000 + 64 * batch + n, vector(*EAST), chapters=("c" * 500,))
            for n in range(64)
        ]
        link.upsert(collection, SCOPE.tenant, points, 0)
