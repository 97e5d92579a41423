"""What pytest itself needs for this suite."""

import sys
from collections.abc import Iterator

import pytest

from tests import promises, worlds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="which store the small worlds of tests have",
    )


@pytest.fixture(autouse=True)
def _stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give places the chosen kind of store, and close what a test left open on a server."""
    worlds.STORES.append(str(request.config.getoption("--store")))
    yield
    worlds.STORES.pop()
    if "tests.postgres" in sys.modules:
        sys.modules["tests.postgres"].close_stores()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many promises are proved and which are open, so that gaps stay in sight."""
    for line in promises.summary(promises.load()):
        terminalreporter.write_line(line)
