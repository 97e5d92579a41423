"""A browser, a library that is served, and visits to it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.page.library import Served, fill, served
from tests.page.visit import Visit, Visits, begin, end

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here: they need a browser."""
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.page)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of Debian."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("THE PAGE IS NOT TESTED: there is no chromium here; run 'make test-page'")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, headless=True, args=list(ARGUMENTS)
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def harbour(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A served library; each test uses its own readers."""
    with served(fill(tmp_path_factory.mktemp("page"))) as running:
        yield running


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    """Yield a function that begins visits; each is checked when the test is over."""
    begun: list[Visit] = []

    def start(address: str, **context: object) -> Visit:
        begun.append(begin(browser, address, **context))
        return begun[-1]

    yield start
    for visit in begun:
        end(visit)


@pytest.fixture
def visit(visits: Visits, harbour: Served) -> Visit:
    """A visit to a server."""
    return visits(harbour.address, viewport={"width": 1440, "height": 900})
