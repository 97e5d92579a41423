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


def pytest_configure(config: pytest.Config) -> None:
    worlds.STORES.append(str(config.getoption("--store")))


@pytest.fixture(autouse=True)
def _stores() -> Iterator[None]:
    """Close what a test left open on a server; what it shares with others is theirs to close."""
    opened = sys.modules["tests.postgres"].opened() if "tests.postgres" in sys.modules else 0
    yield
    if "tests.postgres" in sys.modules:
        sys.modules["tests.postgres"].close_stores(opened)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many promises are proved and which are open, so that gaps stay in sight."""
    for line in promises.summary(promises.load()):
        terminalreporter.write_line(line)
