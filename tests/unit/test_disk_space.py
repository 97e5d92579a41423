"""Writes are refused while there is still room for everything else."""

import shutil
from pathlib import Path

import pytest

from tests.promises import proves
from truespan.core.disk import require_space
from truespan.errors import StorageFull

EXABYTE = 1 << 60


@proves("store.disk-reserve")
def test_a_reserve_that_is_not_free_is_refused_with_both_numbers(tmp_path: Path):
    with pytest.raises(StorageFull) as refusal:
        require_space(tmp_path, EXABYTE)

    assert refusal.value.reserve == EXABYTE
    assert 0 < refusal.value.free <= shutil.disk_usage(tmp_path).total


@proves("store.disk-reserve")
def test_a_reserve_that_is_free_is_no_error(tmp_path: Path):
    require_space(tmp_path, 0)
    require_space(tmp_path, 1)


def test_a_place_that_does_not_exist_yet_counts_as_where_it_will_be(tmp_path: Path):
    require_space(tmp_path / "not" / "yet", 1)

    with pytest.raises(StorageFull):
        require_space(tmp_path / "not" / "yet", EXABYTE)
