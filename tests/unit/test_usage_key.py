"""Marks in place of queries: equal for equal queries, and useless without the key."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from truespan.errors import InvalidConfiguration
from truespan.files.keys import UsageKey


def test_equal_queries_of_a_world_have_equal_marks_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "usage.key"
    first = UsageKey(path).mark("world", "Who held the key?")
    assert UsageKey(path).mark("world", "Who held the key?") == first
    assert UsageKey(path).mark("world", "Who held the keys?") != first
    assert UsageKey(path).mark("other", "Who held the key?") != first
    assert UsageKey(tmp_path / "another.key").mark("world", "Who held the key?") != first
    assert hashlib.sha256(b"Who held the key?").hexdigest() not in first


def test_world_and_query_cannot_be_confused(tmp_path: Path) -> None:
    key = UsageKey(tmp_path / "usage.key")
    assert key.mark("ab", "c") != key.mark("a", "bc")


def test_key_is_created_on_demand_and_readable_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "usage.key"
    key = UsageKey(path)
    assert not path.exists()
    key.mark("world", "query")
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["usage.key"]


def test_concurrent_creation_returns_one_key(tmp_path: Path) -> None:
    path = tmp_path / "usage.key"
    with ThreadPoolExecutor(8) as pool:
        marks = set(pool.map(lambda _: UsageKey(path).mark("world", "query"), range(32)))
    assert len(marks) == 1


def test_file_without_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "usage.key").write_text("short")
    with pytest.raises(InvalidConfiguration, match=r"usage\.key contains no key"):
        UsageKey(tmp_path / "usage.key").mark("world", "query")
