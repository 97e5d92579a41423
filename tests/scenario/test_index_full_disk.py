"""Low disk space refuses writes in time, and a full disk loses nothing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.index_contract import COSINE, EAST, point, vector
from tests.promises import proves
from tests.support.index_process import SCOPE, end_process, opened
from truespan.errors import StorageFull
from truespan.index.base import Collection
from truespan.index.edge.client import EdgeIndex, EdgeLink

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
    folder = small_disk / "index"
    index = EdgeIndex(folder, reserve=32 * MIB, idle_seconds=60)
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
