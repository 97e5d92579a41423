"""Connections to the library's SQLite file: one a thread, errors mapped, migrations applied."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from truespan.errors import (
    InvalidConfiguration,
    InvalidSettings,
    LibraryTooNew,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    TruespanError,
)
from truespan.files.disk import require_space

BUSY_MILLISECONDS = 30_000


class Connections:
    """Opens one connection a thread and closes them all together."""

    def __init__(self, path: Path, *, reserve: int) -> None:
        self._path = path
        self._reserve = reserve
        self._local = threading.local()
        self._open: list[apsw.Connection] = []
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Return where the file lies."""
        return self._path

    def current(self) -> apsw.Connection:
        """Return this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            with self._lock:
                self._open.append(connection)
        return connection

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Give a connection whose statements all see one state of the library."""
        connection = self.current()
        with self.mapped_errors():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Give a connection inside one write transaction: all of it is kept, or nothing."""
        require_space(self._path.parent, self._reserve)
        connection = self.current()
        with self.mapped_errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def query(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one reading statement, which is consistent in itself."""
        try:
            with self.mapped_errors():
                return self.current().execute(sql, bindings).fetchall()
        except UnicodeEncodeError:
            # Nothing that is kept is spelled like this, so it is a caller's.
            raise InvalidSettings("A name or a text is not valid Unicode.") from None

    @contextmanager
    def mapped_errors(self) -> Iterator[None]:
        """Turn the engine's errors into ours."""
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy from error
        except (apsw.FullError, apsw.IOError) as error:
            raise self._explained(error) from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreDamaged("The library's database file is damaged.") from error
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
            raise InvalidConfiguration(
                "The library's folder cannot be written.",
                advice="It needs write access, for readers too; or use a copy of it.",
            ) from error
        except OverflowError:
            # SQLite counts to 2**63; whatever is larger was asked for by a caller.
            raise InvalidSettings("A number is larger than any that is kept.") from None

    def rewrite(self, wait_milliseconds: int) -> None:
        """Write the whole file anew from what it holds, and empty its log of writes.

        Raises:
            StoreBusy: somebody else reads or writes, and went on doing so.
        """
        size = self._path.stat().st_size
        require_space(self._path.parent, self._reserve + 2 * size)
        with self.mapped_errors():
            connection = apsw.Connection(str(self._path))
            try:
                connection.set_busy_timeout(wait_milliseconds)
                connection.execute("VACUUM")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            connections, self._open = self._open, []
            self._local = threading.local()
        for connection in connections:
            # One in the middle of a statement, on a thread that did not end in time, goes with it.
            with suppress(apsw.ThreadingViolationError):
                connection.close(True)

    def _explained(self, error: apsw.Error) -> TruespanError:
        """Say whether a failed write is a full disk or a broken one."""
        if isinstance(error, apsw.FullError):
            return StorageFull(0, self._reserve)
        require_space(self._path.parent, self._reserve)
        return StoreDamaged("The library's database file cannot be read or written.")

    def _connect(self) -> apsw.Connection:
        with self.mapped_errors():
            connection = apsw.Connection(str(self._path))
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            # FULL: a commit that returned survives a power cut; the order of durability needs it.
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            connection.pragma("foreign_keys", True)
            connection.pragma("cache_size", -32_000)
            # What is deleted is overwritten where it stood; other copies go with `rewrite`.
            connection.pragma("secure_delete", True)
            return connection


def fetch(
    connection: apsw.Connection, sql: str, bindings: apsw.Bindings | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows; STRICT tables vouch for their types."""
    return connection.execute(sql, bindings).fetchall()


def migrate(connections: Connections) -> None:
    """Bring the library's schema up to date, one numbered step at a time.

    Raises:
        LibraryTooNew: it was written by a newer version.
    """
    steps = _steps()
    found = connections.query("PRAGMA user_version")[0][0]
    if found == len(steps):
        return
    with connections.writing() as connection:
        # Read again inside the transaction: another process may just have done it.
        found = fetch(connection, "PRAGMA user_version")[0][0]
        if found > len(steps):
            raise LibraryTooNew(found, len(steps))
        for number in range(found, len(steps)):
            connection.execute(steps[number])
            connection.execute(f"PRAGMA user_version = {number + 1}")


def known_schema() -> int:
    """Return the newest schema that this version knows."""
    return len(_steps())


def _steps() -> list[str]:
    folder = files("truespan.adapters.sqlite_store").joinpath("migrations")
    scripts = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return [script.read_text(encoding="utf-8") for script in scripts]
