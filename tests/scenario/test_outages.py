"""The index process dies or the disk is full: typed errors, and the same command can continue."""

import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.crash_process import library
from tests.support.sample_texts import story
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, StorageFull
from truespan.index.edge import channel

MEBIBYTE = 1 << 20


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Library]:
    (tmp_path / "library").mkdir()
    with library(tmp_path / "library") as opened:
        yield opened
        opened._components.index.retire()  # type: ignore[attr-defined]


def server(opened: Library) -> int:
    return opened._components.index._link.server  # type: ignore[attr-defined]


def assert_sound(opened: Library, world: World) -> None:
    assert opened.doctor([world.id])[world.id].counts() == {}
    status = world.status()
    assert status.embedded == status.chunks > 0


@proves("ingest.durability-order", "errors.provider-or-index")
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_ingestion_survives_the_end_of_the_index_process(
    real: Library, tmp_path: Path, batch: int
) -> None:
    world = real.create_world("world")
    (tmp_path / "warm.txt").write_text("The harbour light.")
    world.ingest(str(tmp_path / "warm.txt"))
    (tmp_path / "long.txt").write_text(story(1500))
    first = server(real)
    asked = [0]

    def kill_once() -> None:
        asked[0] += 1
        if asked[0] == batch:
            os.kill(first, signal.SIGKILL)

    real._components.embedder.before = kill_once  # type: ignore[attr-defined]

    assert world.ingest(str(tmp_path / "long.txt")).ingested == ["long.txt"]
    assert server(real) != first
    documents = real._components.embedder.documents  # type: ignore[attr-defined]
    assert len(documents) == len(set(documents))
    assert_sound(real, world)


@proves("errors.provider-or-index", "errors.failure-changes-nothing")
def test_search_that_loses_its_index_fails_and_the_next_one_works(
    real: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = real.create_world("world")
    (tmp_path / "a.txt").write_text(story(60))
    world.ingest(str(tmp_path / "a.txt"))
    before = [passage.text for passage in world.search("harbour", floor=0.0).passages]
    # Else work in the background may hold the connection, and the search opens another one.
    real._repairs.close()
    receive, searching = channel.receive, threading.get_ident()

    def killed_first(*arguments: Any) -> bytes:
        # The request is in transit and no process answers it. Requests of other threads to the
        # index in between do not count.
        if threading.get_ident() == searching:
            monkeypatch.undo()
            os.kill(server(real), signal.SIGKILL)
        return receive(*arguments)

    os.kill(server(real), signal.SIGSTOP)
    monkeypatch.setattr(channel, "receive", killed_first)
    with pytest.raises(IndexUnavailable) as loss:
        world.search("harbour", floor=0.0)

    assert loss.value.retryable
    assert [passage.text for passage in world.search("harbour", floor=0.0).passages] == before
    assert_sound(real, world)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("LOUD: a full disk needs root and mount; not tried on this machine")
    size = "size=160m"
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", size, "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("LOUD: a tmpfs cannot be mounted here; a full disk was not tried")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@proves("store.disk-reserve")
def test_full_disk_stops_an_ingestion_and_loses_nothing(small_disk: Path, tmp_path: Path):
    with library(small_disk) as opened:
        world = opened.create_world("world")
        (tmp_path / "first.txt").write_text(story(60))
        world.ingest(str(tmp_path / "first.txt"))
        before = [passage.text for passage in world.search("harbour", floor=0.0).passages]
        ballast = small_disk / "ballast"
        free = shutil.disk_usage(small_disk).free
        ballast.write_bytes(b"\0" * (free - MEBIBYTE // 4))
        rng = random.Random(5)
        words = ["".join(rng.choices("abcdefghij", k=7)) for _ in range(30_000)]
        (tmp_path / "big.txt").write_text(" ".join(words))

        with pytest.raises((StorageFull, IndexUnavailable)) as refusal:
            world.ingest(str(tmp_path / "big.txt"))
        assert refusal.value.code in ("storage_full", "index_unavailable")

        ballast.unlink()
        assert [p.text for p in world.search("harbour", floor=0.0).passages] == before
        assert world.ingest(str(tmp_path / "big.txt")).ingested == ["big.txt"]
        assert_sound(opened, world)
        opened._components.index.retire()  # type: ignore[attr-defined]
