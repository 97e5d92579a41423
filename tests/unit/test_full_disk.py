"""A full disk: requests that fail to write a record still return their result."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.answer_worlds import QUESTION, study
from truespan.engine.library import Library
from truespan.errors import StorageFull
from truespan.files.keys import UsageKey


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A full disk of a few pages, which only the superuser can create."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk can only be mounted by the super-user")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system does not let the super-user mount a small disk")
    try:
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        assert shutil.disk_usage(disk).free == 0
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_key_without_disk_space_leaves_nothing_behind(full_disk: Path) -> None:
    key = UsageKey(full_disk / "usage.key")
    with pytest.raises(StorageFull):
        key.mark("world", "query")
    assert [path.name for path in full_disk.iterdir()] == ["ballast"]
    (full_disk / "ballast").unlink()
    assert key.mark("world", "query") == UsageKey(full_disk / "usage.key").mark("world", "query")


def test_unrecorded_answer_is_returned_with_a_warning(full_disk: Path, tmp_path: Path) -> None:
    made = study(tmp_path / "library")
    made.scores(0.9)
    mark = UsageKey(full_disk / "usage.key").mark
    world = Library(replace(made.library._components, mark_query=mark)).world("world")

    answer = world.answer(QUESTION)

    assert "usage_not_recorded" in {notice.code for notice in answer.warnings}
    assert world.usage() == []
    (full_disk / "ballast").unlink()
    assert "usage_not_recorded" not in {notice.code for notice in world.answer(QUESTION).warnings}
    assert len(world.usage()) == 1
    made.library.close()
