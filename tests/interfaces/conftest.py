"""Fixtures shared by the tests of several interfaces."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library
from tests.interfaces.mcp_clients import prepare
from tests.support.worlds import LibraryFixture
from truespan.wiring import open_library


@pytest.fixture(autouse=True)
def _unset_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUESPAN_WORLD", raising=False)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library on the real store, index and model; tests must undo their changes."""
    folder = prepare(tmp_path_factory.mktemp("interfaces"))
    yield folder
    open_library(folder)._components.index.retire()  # type: ignore[attr-defined]


@pytest.fixture
def client(lib: LibraryFixture) -> Iterator[Client]:
    with serve_library(lib.library) as asking:
        yield asking
