"""A small world with a reader, for every framework."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.library import Shelf, shelf_in

# Haystack decides as it is imported whether it will report home.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here, including those of a framework."""
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.frameworks)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with shelf_in(tmp_path) as made:
        yield made
