"""Atomic creation of files."""

from contextlib import suppress
from pathlib import Path

from truespan.core.disk import create_file, create_once


def test_file_with_incomplete_content_is_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    other.write_text("before")
    with suppress(KeyError), create_file(path) as file:
        file.write(b"half")
        raise KeyError
    create_once(other, b"after")
    create_once(path, b"whole")
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {
        "a": "whole",
        "b": "before",
    }
