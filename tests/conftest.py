"""Configuration of pytest for this suite."""

import gc
import logging
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

import pytest

from tests import promises
from tests.support import fast, worlds
from tests.support.loaded_models import keep_loaded_models
from tests.support.store_matrix import ONE, columns_of, is_repeated, opens_libraries
from truespan.engine.world import World

# Registers how much laws are tried before a profile is chosen. The environment of the frameworks
# has no Hypothesis.
with suppress(ModuleNotFoundError):
    import tests.laws.examples  # noqa: F401

NO_SERVER = "NO POSTGRESQL"
"""What a test says that was skipped because no server could be started."""
LONGEST = (
    "scenario/test_changed_cells.py", "interfaces/test_other_endings.py",
    "interfaces/test_audience_twins.py", "scenario/test_crashes.py",
    "laws/test_non_interference.py", "contract/test_worker_crashes.py",
    "contract/test_worker_outages.py", "interfaces/test_openapi_bearers.py",
    "scenario/test_backup_columns.py", "architecture/test_docs.py",
    "scenario/test_hostile_files.py", "architecture/test_package.py",
    "laws/test_audience_non_interference.py", "unit/test_regex_growth.py",
    "unit/test_world_evaluation.py", "scenario/test_ingest_workers.py",
    "contract/test_multilingual_embedder.py",
    "scenario/test_pages.py", "scenario/test_doctor_damage.py", "scenario/test_erasure.py",
    "scenario/test_postgres_crashes.py", "interfaces/test_openapi.py",
    "contract/test_postgres_store.py", "scenario/test_background.py",
    "scenario/test_provider_faults.py", "contract/test_child_parser.py",
    "scenario/test_reanchoring.py", "interfaces/test_hostile_names.py",
    "interfaces/test_mcp_process.py", "scenario/test_backup_server.py",
    "scenario/test_generations.py", "interfaces/test_written_files.py", "scenario/test_spoilers.py",
    "scenario/test_outages.py", "interfaces/test_followed_jobs.py", "unit/test_upkeep_jobs.py",
    "scenario/test_audience_carried.py", "laws/test_reading_words.py",
    "interfaces/test_http_spoilers.py", "unit/test_shared_threads.py",
)  # fmt: skip
"""Files that take longest. They start first: whoever begins one at the end has others wait."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="which store the small worlds of tests have",
    )
    parser.addoption(
        "--defaults",
        choices=["recommended", "contract"],
        default="recommended",
        help="which defaults worlds of tests have without the mark `contract` or `recommended`",
    )
    parser.addoption(
        "--fast",
        action="store_true",
        help="leave out tests that start a process; one that does so nevertheless fails",
    )
    parser.addoption(
        "--engine-only",
        action="store_true",
        help="leave out all but fast tests that need no extension, which may be absent",
    )
    parser.addoption("--shard", metavar="K/N", help="run the K-th of N parts of the tests only")


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than there are cores: many tests wait for processes."""
    return (os.cpu_count() or 1) + 1


def use_memory_for_files(folder: str = "/dev/shm", space: int = 8 << 30) -> None:
    """Keep the files of tests in memory where it is large enough: they are flushed often.

    Killing a process loses nothing that it wrote to either; no test cuts the power.
    """
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK):
        return
    if shutil.disk_usage(folder).free >= space:
        os.environ["TMPDIR"] = tempfile.tempdir = folder


def use_defaults(defaults: str) -> None:
    """Choose the defaults of the worlds that tests create, in their own process and in others."""
    worlds.DEFAULTS[:] = [defaults]
    os.environ["TRUESPAN_WORLD_DEFAULTS"] = defaults


def pytest_configure(config: pytest.Config) -> None:
    # Else xdist starts with the files that have the most tests, which are short ones.
    config.option.loadscopereorder = False
    use_memory_for_files()
    worlds.STORES.append(str(config.getoption("--store")))
    use_defaults(str(config.getoption("--defaults")))
    keep_loaded_models()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that cannot be imported, if only the engine is there."""
    if not config.getoption("--engine-only") or collection_path.suffix != ".py":
        return None
    return not (fast.is_fast(collection_path) and fast.is_of_engine(collection_path)) or None


@pytest.fixture
def lib(tmp_path: Path) -> worlds.LibraryFixture:
    return worlds.make_library(tmp_path)


@pytest.fixture
def world(lib: worlds.LibraryFixture) -> World:
    return lib.library.create_world("world")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose the defaults of the test's worlds, before any fixture creates one.

    Also removes the log handler of an earlier test, whose stream is closed.
    """
    marked = (name for name in ("contract", "recommended") if item.get_closest_marker(name))
    use_defaults(next(marked, str(item.config.getoption("--defaults"))))
    root = logging.getLogger()
    for handler in [*root.handlers]:
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "closed", False):
            root.removeHandler(handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of SQLite if another store was chosen for the whole run.

    The claims of tests are collected first, before any other plugin deselects tests.
    """
    config.stash[promises.CLAIMED] = promises.claims_of(items)
    if config.getoption("--fast"):
        fast.deselect_slow(config, items)
    if config.getoption("--engine-only"):
        leave_out(
            config, items, {item for item in items if item.get_closest_marker("needs_extension")}
        )
    leave_out_repeated_rows(config, items)
    if shard := config.getoption("--shard"):
        leave_out_other_shards(config, items, str(shard))
    ranks = {str(Path(__file__).parent / name): rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(str(item.path), len(ranks)))
    if config.getoption("--store") != "sqlite":
        same = {
            item
            for item in items
            if isinstance(item, pytest.Function) and not opens_libraries(item.module)
        }
        leave_out(config, items, same)
        for item in items:
            if getattr(item, "originalname", item.name) in ONE:
                item.add_marker(pytest.mark.skip(reason="is about the store on SQLite"))


def leave_out_repeated_rows(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows on PostgreSQL that prove nothing more than others do."""
    seen: set[str] = set()
    repeated = {
        item
        for item in items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and is_repeated(item.originalname, item.callspec.params, seen)
    }
    leave_out(config, items, repeated)


def leave_out_other_shards(config: pytest.Config, items: list[pytest.Item], shard: str) -> None:
    """Deselect the tests of other shards. All rows of a test are in one of them."""
    number, count = map(int, shard.split("/"))
    if not 1 <= number <= count:
        raise pytest.UsageError(f"There is no shard {shard}.")
    others = {
        item
        for item in items
        if zlib.crc32(item.nodeid.partition("[")[0].encode()) % count != number - 1
    }
    leave_out(config, items, others)


def leave_out(config: pytest.Config, items: list[pytest.Item], others: Set[pytest.Item]) -> None:
    """Deselect some of the tests."""
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude the objects of all collected tests from garbage collection.

    Between tests it runs seldom: by default it takes a sixth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some modules once in each column, unless one was chosen for the run."""
    columns = columns_of(getattr(metafunc.module, "__name__", ""), metafunc.function.__name__)
    if metafunc.config.getoption("--fast"):
        columns = [column for column in columns if column == "sqlite"]
    if columns and metafunc.config.getoption("--store") == "sqlite":
        metafunc.parametrize("_stores", columns, indirect=True)
    own = metafunc.definition.get_closest_marker("contract") is not None
    if getattr(metafunc.module, "BOTH_DEFAULTS", False) and not own:
        metafunc.parametrize("_defaults", ["contract", "recommended"], indirect=True)


@pytest.fixture(autouse=True)
def _defaults(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give worlds the defaults of the test's column: modules with `BOTH_DEFAULTS` run on either."""
    worlds.DEFAULTS.append(getattr(request, "param", worlds.DEFAULTS[-1]))
    yield
    worlds.DEFAULTS.pop()


@pytest.fixture(autouse=True)
def _stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give places the store of the test's column, and close the stores it left open on a server.

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
