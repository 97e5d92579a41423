"""Keyed requests whose end cannot be recorded: no key stays busy, and nothing runs twice."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidArgument, StorageFull, StoreBusy
from truespan.extensions.server import library as once
from truespan.extensions.server.library import ReplayKey

PRINT = bytes(32)


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path, store="sqlite")
    yield made
    made.library.close()


@contextmanager
def full(lib: LibraryFixture) -> Iterator[None]:
    """Leave no free space on the disk beside the reserve."""
    database: Any = lib.store._db
    database._reserve = 1 << 60
    yield
    database._reserve = 0


@contextmanager
def busy(lib: LibraryFixture) -> Iterator[None]:
    """Hold the write lock for longer than any timeout."""
    database: Any = lib.store._db
    database.connection.set_busy_timeout(1)
    other = apsw.Connection(str(lib.folder / "store.db"))
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


Trouble = Callable[[LibraryFixture], AbstractContextManager[None]]
troubled = pytest.mark.parametrize(
    ("trouble", "error"), [(full, StorageFull), (busy, StoreBusy)], ids=["full", "busy"]
)


def ask(lib: LibraryFixture, work: Callable[[], bytes], key: str = "k") -> bytes:
    store = vars(lib).setdefault("once", lib.library.server.idempotency())
    return store.run(ReplayKey("", key), PRINT, work)


@troubled
def test_unstorable_reply_is_returned_and_stored_later(
    lib: LibraryFixture, trouble: Trouble, error: type[Exception]
) -> None:
    done: list[str] = []
    with ExitStack() as later:

        def work() -> bytes:
            done.append("done")
            later.enter_context(trouble(lib))
            return b"the reply"

        assert ask(lib, work) == b"the reply"
        # Nothing can be claimed meanwhile, so nothing is done for a second time either.
        with pytest.raises(error):
            ask(lib, work)

    assert ask(lib, work) == b"the reply"
    assert done == ["done"]


@troubled
def test_failed_work_without_storage_can_be_retried(
    lib: LibraryFixture, trouble: Trouble, error: type[Exception]
) -> None:
    del error
    with ExitStack() as later:

        def work() -> bytes:
            later.enter_context(trouble(lib))
            raise InvalidArgument(code="blank_query")

        with raises_code("blank_query"):
            ask(lib, work)
    assert ask(lib, lambda: b"at last") == b"at last"


def test_key_in_use_is_busy_despite_the_failure(lib: LibraryFixture) -> None:
    def work() -> bytes:
        with raises_code("idempotency_key_busy"):
            ask(lib, lambda: b"never")
        return b"once"

    assert ask(lib, work) == b"once"


def test_remembered_replies_are_limited(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "MAX_UNWRITTEN", 1)
    with ExitStack() as later:

        def inner() -> bytes:
            later.enter_context(full(lib))
            return b"inner"

        def outer() -> bytes:
            ask(lib, inner, "inner")
            return b"outer"

        ask(lib, outer, "outer")

    assert ask(lib, lambda: b"again", "outer") == b"outer"
    with raises_code("idempotency_key_busy"):
        ask(lib, lambda: b"again", "inner")
