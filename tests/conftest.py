"""What pytest itself needs for this suite."""

import sys
from collections.abc import Iterator

import pytest

from tests import promises
from tests.support import worlds
from tests.support.store_matrix import ONE, columns_of
from truespan.providers import local as embedder

NO_SERVER = "NO POSTGRESQL"
"""What a test says that was skipped because no server could be started."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="which store the small worlds of tests have",
    )


def pytest_configure(config: pytest.Config) -> None:
    worlds.STORES.append(str(config.getoption("--store")))
    # Hundreds of tests open a library with the local model one after the other. Its file is read
    # and checked each time, but what was loaded from it stays.
    embedder._IN_USE = {}
    # Some tests import onnxruntime themselves.
    embedder.disable_telemetry()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite where another store was chosen for the whole run.

    What the tests claim is gathered first, before anybody else leaves some of them out.
    """
    config.stash[promises.CLAIMED] = promises.claims_of(items)
    if config.getoption("--store") != "sqlite":
        for item in items:
            if getattr(item, "originalname", item.name) in ONE:
                item.add_marker(pytest.mark.skip(reason="is about the store on SQLite"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some modules once in each column, unless one was chosen for the run."""
    columns = columns_of(getattr(metafunc.module, "__name__", ""), metafunc.function.__name__)
    if columns and metafunc.config.getoption("--store") == "sqlite":
        metafunc.parametrize("_stores", columns, indirect=True)


@pytest.fixture(autouse=True)
def _stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give places the store of the test's column, and close what it left open on a server.

    What a test shares with others is theirs to close.
    """
    worlds.STORES.append(getattr(request, "param", worlds.STORES[-1]))
    opened = (
        sys.modules["tests.support.postgres"].opened()
        if "tests.support.postgres" in sys.modules
        else 0
    )
    yield
    worlds.STORES.pop()
    if "tests.support.postgres" in sys.modules:
        sys.modules["tests.support.postgres"].close_stores(opened)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print loudly which tests were skipped because PostgreSQL could not be started."""
    skipped = [str(one.longrepr) for one in terminalreporter.getreports("skipped")]
    without = [reason for reason in skipped if NO_SERVER in reason]
    if without:
        terminalreporter.write_line(
            f"{NO_SERVER}: {len(without)} tests of that store did not run: {without[0]}",
            red=True,
            bold=True,
        )
