"""The reserve of free disk space."""

import shutil
from pathlib import Path

import pytest

from tests.promises import proves
from truespan.core.disk import require_space
from truespan.errors import StorageFull

EXABYTE = 1 << 60


@proves("store.disk-reserve")
def test_missing_disk_space_is_refused_with_both_sizes(tmp_path: Path):
    with pytest.raises(StorageFull) as refusal:
        require_space(tmp_path, EXABYTE)
    assert refusal.value.reserve == EXABYTE
    assert 0 < refusal.value.free <= shutil.disk_usage(tmp_path).total


@proves("store.disk-reserve")
def test_disk_space_of_folder_or_parent_is_accepted_or_refused(tmp_path: Path):
    require_space(tmp_path, 0)
    require_space(tmp_path, 1)
    require_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(StorageFull):
        require_space(tmp_path / "not" / "yet", EXABYTE)
