"""The SQLite driver: one connection per thread, transactions, error mapping, schema migrations."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, LiteralString

import apsw
import msgspec
from msgspec.structs import replace

from truespan import errors
from truespan.core.cancel import check_cancelled
from truespan.core.disk import require_descriptor, require_reserve, require_space
from truespan.store.engines.session import (
    Database,
    DuplicateRow,
    InvalidRow,
    MissingRow,
    Row,
    Rows,
    Session,
    SingleStatements,
    Statements,
    expand_macros,
    scope_values,
    update_clause,
)
from truespan.store.migrations import OLDEST_VERSION, newest_version, pending_migrations
from truespan.types.maintenance import Check, FileTreatment, Verdict
from truespan.types.scope import Scope

BUSY_MILLISECONDS = 30_000
REWRITE_WAIT_MILLISECONDS = 5_000
"""Maximum time to wait for other connections before a rewrite of the file stays queued."""
LARGE_LOG = 256 << 20
_RESTORE = "Restore a backup, or ingest the sources into a new library."
_FILE_DAMAGED = "The library's database file is damaged."

SPELLINGS: Final = {
    "BYTES": "CAST({0} AS BLOB)",
    "PART": "CAST(substr({0}, {1} + 1, {2}) AS BLOB)",
    "UNINDEXED": "+{0}",
    "IN LIST": "IN (SELECT value FROM json_each({0}))",
    "NOT IN LIST": "NOT IN (SELECT value FROM json_each({0}))",
    "WORLD_TEXT": "{0}.id",
    "IS_WORLD": "{0}.id = {1}",
    "LOCK_ROWS": "",
    "FROM_BYTES": "CAST({0} AS TEXT)",
    "SEEN": "(:caller = '*' OR seen_by({0}.audience, :caller))",
}
"""Macros in SQL of SQLite, where `worlds` is also the directory."""

WORLD_TABLES: Final = frozenset(
    {
        *("generations", "documents", "states", "vectors", "repairs", "query_cache", "readers"),
        *("word_states", "probes", "jobs", "aliases", "alias_moves", "usage", "words", "cohorts"),
        *("calibrations", "conversations", "turns", "notes"),
    }
)
"""Tables with a `world_id`. Rows of other tables refer to a row of these tables."""

_DAMAGED: Final = {
    apsw.SQLITE_IOERR_SHORT_READ,
    apsw.SQLITE_IOERR_CORRUPTFS,
    apsw.SQLITE_IOERR_DATA,
}
_CACHED_STATEMENTS: Final = 128
"""Compiled statements that each connection caches."""
_BATCH_SIZES: Final = (64, 8, 1)
"""Numbers of rows that one statement inserts, largest first."""
_encode: Final = msgspec.json.Encoder().encode
_UNIQUE: Final = {apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY}


class SqliteSession(Session):
    """A transaction on this thread's connection."""

    def __init__(
        self, connection: apsw.Connection, scope: Scope | str | None, values: dict[str, Any]
    ) -> None:
        self.connection = connection
        self.world = None
        self._values = {**scope_values(scope), **values}
        if scope is not None:
            self.enter(self._values["world"])

    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        check_cancelled()
        return self.connection.execute(_translate(sql), self._bind(values)).fetchall()

    def stream(self, sql: LiteralString, /, *, page: int, **values: Any) -> Iterator[Row]:
        yield from self.connection.execute(_translate(sql), self._bind(values))

    def execute(self, sql: LiteralString, /, **values: Any) -> int:
        self.connection.execute(_translate(sql), self._bind(values))
        return self.connection.changes()

    def execute_many(self, sql: LiteralString, rows: Iterable[Mapping[str, Any]], /) -> None:
        # `executemany` caches its statement once for each row, so that hundreds of rows would evict
        # all other statements.
        for row in [*rows]:
            self.connection.execute(_translate(sql), self._bind(row))

    def insert_many(
        self, table: str, columns: Sequence[str], rows: Rows, *, key: Sequence[str] = ()
    ) -> None:
        width, marks, shared = len(columns), ["?"] * len(columns), list[Any]()
        if table in WORLD_TABLES:
            columns, key = ("world_id", *columns), ("world_id", *key) if key else ()
            # The rows of one statement share the first value.
            marks, shared = ["?1", *marks], [self.world]
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        row, end = f"({', '.join(marks)})", update_clause(columns, key)
        statements = {count: f"{begin}{', '.join([row] * count)}{end}" for count in _BATCH_SIZES}
        left = iter(rows)
        while part := [*islice(left, _BATCH_SIZES[0])]:
            # SQLite only checks the total number of cells.
            if {*map(len, part)} != {width}:
                raise ValueError(f"a row of {table} does not have {width} cells")
            done = 0
            for count, statement in statements.items():
                while len(part) - done >= count:
                    values = chain.from_iterable(part[done : done + count])
                    self.connection.execute(statement, [*shared, *values])
                    done += count

    def insert_returning(self, column: str, table: str, /, **values: Any) -> Any:
        if table in WORLD_TABLES:
            values["world_id"] = self.world
        marks = ", ".join(f":{name}" for name in values)
        statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks}) RETURNING {column}"
        return self.connection.execute(statement, values).fetchall()[0][0]

    def text(self, text: str) -> str:
        return text

    def enter(self, world: str, *, lock: bool = False) -> None:
        rows = self.connection.execute("SELECT world_id FROM worlds WHERE id = ?", (world,))
        found = rows.fetchall()
        if not found:
            raise errors.NotFound("world", world)
        self.world = found[0][0]

    def create_world(
        self,
        world: str,
        name: str,
        created_at: float,
        defaults: str,
        audience: str | None,
        checksum: bytes,
    ) -> None:
        self.connection.execute(
            """INSERT INTO worlds (id, name, created_at, defaults, audience, checksum)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (world, name, created_at, defaults, audience, checksum),
        )

    def in_each(
        self, worlds: Sequence[str], sql: LiteralString, /, **values: Any
    ) -> list[list[Row]]:
        statement = _translate(sql, single=True)
        return [
            self.connection.execute(statement, _bindable({**values, "world": world})).fetchall()
            for world in worlds
        ]

    @contextmanager
    def count_deleted(self) -> Iterator[dict[str, int]]:
        counts: dict[str, int] = {}
        names = self.connection.execute(
            """SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
               AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"""
        ).fetchall()
        self.connection.execute("CREATE TEMP TABLE lost (name TEXT PRIMARY KEY, count INTEGER)")
        for (name,) in names:
            self.connection.execute("INSERT INTO temp.lost (name, count) VALUES (?, 0)", (name,))
            self.connection.execute(
                f"""CREATE TEMP TRIGGER "lost_{name}" AFTER DELETE ON main."{name}" BEGIN
                      UPDATE lost SET count = count + 1 WHERE name = '{name}'; END"""
            )
        try:
            yield counts
            rows: list[Any] = self.connection.execute(
                "SELECT name, count FROM temp.lost WHERE count > 0"
            ).fetchall()
            counts.update(rows)
        finally:
            for (name,) in names:
                self.connection.execute(f'DROP TRIGGER IF EXISTS temp."lost_{name}"')
            self.connection.execute("DROP TABLE IF EXISTS temp.lost")

    def _bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return _bindable({**self._values, **values, "world": self.world})


# Shared by threads: each thread has its own connection; the list of all of them is changed under a
# lock.
class SqliteDatabase(Database):
    """The library's database file. Several processes may use it at once.

    Opening the file migrates its schema. Raises as `migrate` does.
    """

    def __init__(self, path: Path, *, reserve: int) -> None:
        self.path = path
        self._reserve = reserve
        self._local = threading.local()
        self._open: list[apsw.Connection] = []
        self._lock = threading.Lock()
        # Between threads of this process: SQLite would wait for each other by sleeping.
        self._writing = threading.Lock()
        if self.shared.value("PRAGMA user_version") != newest_version("sqlite"):
            with self.write_every_world():
                # Read again inside the transaction: another process may have migrated meanwhile.
                migrate(self.connection)

    def at(self, scope: Scope | str | None, *, shared: bool = False, **values: Any) -> Statements:
        return _SqliteStatements(self, scope, values, shared)

    @contextmanager
    def read(
        self, scope: Scope | str | None, *, shared: bool = False, **values: Any
    ) -> Iterator[SqliteSession]:
        with self.map_errors():
            connection = self.connection
            connection.execute("BEGIN")
            try:
                yield SqliteSession(connection, scope, values)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(
        self,
        scope: Scope | str | None,
        *,
        shared: bool = False,
        lock: bool = True,
        bulk: bool = False,
        wait: float | None = None,
        **values: Any,
    ) -> Iterator[SqliteSession]:
        require_reserve(self.path.parent, self._reserve)
        with self._take_turn(wait), self.map_errors():
            connection = self.connection
            _begin_writing(connection, wait)
            try:
                yield SqliteSession(connection, scope, values)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _take_turn(self, wait: float | None) -> Iterator[None]:
        """Let one thread write at a time; raises StoreBusy if another one takes too long."""
        seconds = BUSY_MILLISECONDS / 1000 if wait is None else wait
        if not self._writing.acquire(timeout=seconds):
            raise errors.StoreBusy
        try:
            yield
        finally:
            self._writing.release()

    def size(self) -> int:
        return self.path.stat().st_size

    def rewrite(self) -> FileTreatment:
        """Rewrite the file without deleted content, and empty its write-ahead log."""
        size = self.path.stat().st_size
        require_space(self.path.parent, self._reserve + 2 * size)
        with self.map_errors():
            connection = apsw.Connection(str(self.path))
            try:
                connection.set_busy_timeout(REWRITE_WAIT_MILLISECONDS)
                connection.execute("VACUUM")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()
        return FileTreatment.GONE

    def check(self) -> list[Check]:
        """Return the checks of the database file, which is read in full."""
        try:
            whole = self.shared.all("PRAGMA quick_check(3)") == [("ok",)]
            orphans = self.shared.value("SELECT count(*) FROM pragma_foreign_key_check")
        except errors.TruespanError as error:
            remedy = _RESTORE if isinstance(error, errors.StoreDamaged) else error.advice
            return [Check("database", Verdict.PROBLEM, error.message, remedy)]
        database = Check("database", Verdict.OK, f"whole, SQLite {apsw.sqlite_lib_version()}")
        if not whole:
            says = "its pages do not fit together"
            database = Check("database", Verdict.PROBLEM, says, _RESTORE)
        references = Check("references", Verdict.OK, "every referenced row exists")
        if orphans:
            says = f"{orphans} rows refer to missing rows"
            references = Check("references", Verdict.PROBLEM, says, _RESTORE)
        path = Path(f"{self.path}-wal")
        size = path.stat().st_size if path.exists() else 0
        log = Check("write-ahead log", Verdict.OK, f"{size / (1 << 20):.1f} MiB")
        if size >= LARGE_LOG:
            remedy = "End programs that have had the library open for long."
            log = replace(log, verdict=Verdict.WARNING, remedy=remedy)
        return [database, references, log]

    def close(self) -> None:
        with self._lock:
            connections, self._open = self._open, []
            self._local = threading.local()
        for connection in connections:
            # A connection in use on a thread that did not end in time is closed with that thread.
            with suppress(apsw.ThreadingViolationError):
                connection.close(True)

    def release_thread(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            with self._lock:
                self._open = [other for other in self._open if other is not connection]
            connection.close()

    @property
    def connection(self) -> apsw.Connection:
        """The connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            with self._lock:
                self._open.append(connection)
        return connection

    @contextmanager
    def map_errors(self) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise errors.StoreBusy from error
        except apsw.FullError as error:
            require_space(self.path.parent, self._reserve)
            raise errors.StorageFull from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise errors.StoreDamaged(_FILE_DAMAGED, advice=_RESTORE) from error
        except apsw.IOError as error:
            self._require_resources(error)
            if getattr(error, "extendedresult", None) in _DAMAGED:
                raise errors.StoreDamaged(_FILE_DAMAGED, advice=_RESTORE) from error
            raise errors.StoreBusy(
                "The library's database file cannot be read or written (I/O error).",
                advice="Check the disk and how it is mounted, then try again.",
            ) from error
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
            self._require_resources(error)
            raise errors.InvalidConfiguration(
                "The library's folder cannot be written.",
                advice="It needs write access, for readers too; or use a copy of it.",
            ) from error
        except apsw.ConstraintError as error:
            code = getattr(error, "extendedresult", None)
            if code in _UNIQUE:
                raise DuplicateRow from error
            if code == apsw.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise MissingRow from error
            raise InvalidRow from error
        except OverflowError:
            # SQLite counts to 2**63; a larger number is an argument of the caller.
            raise errors.InvalidArgument("A number is larger than 9223372036854775807.") from None
        except UnicodeEncodeError:
            # Nothing in the store contains such text, so it is an argument of the caller.
            raise errors.InvalidArgument("A name or a text is not valid Unicode.") from None

    def _require_resources(self, error: apsw.Error) -> None:
        """Raise the cause of an I/O error if the disk is full or no descriptor is free."""
        local = self._local
        connection = getattr(local, "opening", None) or getattr(local, "connection", None)
        if connection is not None and (known := errors.resource_error_of(connection.system_errno)):
            raise known from error
        require_descriptor()
        require_space(self.path.parent, self._reserve)

    def _connect(self) -> apsw.Connection:
        local = self._local
        with self.map_errors():
            connection = local.opening = apsw.Connection(
                str(self.path), statementcachesize=_CACHED_STATEMENTS
            )
            try:
                connection.set_busy_timeout(BUSY_MILLISECONDS)
                # FULL: a commit that returned survives a power cut.
                connection.pragma("journal_mode", "wal")
                connection.pragma("synchronous", "full")
                connection.pragma("foreign_keys", True)
                connection.pragma("cache_size", -32_000)
                # A checkpoint waits for the disk, so it runs once for 16 MB of the log: ingestion
                # writes the same pages many times.
                connection.wal_autocheckpoint(4_000)
                # Deleted content is overwritten in place; `rewrite` removes other copies of it.
                connection.pragma("secure_delete", True)
                # Stable query plans: otherwise bound values can cause a statement to be compiled
                # again, which takes longer than running it.
                connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
                connection.create_scalar_function("seen_by", _seen_by, 2, deterministic=True)
            except (apsw.IOError, apsw.CantOpenError) as error:
                self._require_resources(error)
                raise
            finally:
                local.opening = None
            return connection


def _seen_by(*lists: object) -> bool:
    """Return whether two lists, with one label in each line, have a common label."""
    audience, labels = (set(str(text).split("\n")) for text in lists)
    return not audience.isdisjoint(labels)


def _begin_writing(connection: apsw.Connection, wait: float | None) -> None:
    """Take the write lock; with `wait`, within this number of seconds."""
    if wait is None:
        connection.execute("BEGIN IMMEDIATE")
        return
    connection.set_busy_timeout(int(wait * 1000))
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.set_busy_timeout(BUSY_MILLISECONDS)


def migrate(connection: apsw.Connection) -> None:
    """Apply the migrations that a database file lacks, in the transaction of the caller."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if tables and "worlds" not in tables:
        raise errors.InvalidConfiguration(
            "The store.db in this folder belongs to another program.",
            advice="Choose another folder for the library.",
        )
    found: Any = connection.pragma("user_version")
    for migration in pending_migrations("sqlite", found):
        connection.execute(migration.script)
        connection.execute(f"PRAGMA user_version = {migration.version}")


def known_schemas() -> range:
    """Return the versions of SQLite libraries that can be opened."""
    return range(OLDEST_VERSION, newest_version("sqlite") + 1)


class _SqliteStatements(SingleStatements[SqliteDatabase]):
    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        check_cancelled()
        database, statement = self.database, _translate(sql, single=True)
        bound = _bindable({**scope_values(self.scope), **self.values, **values})
        try:
            return database.connection.execute(statement, bound).fetchall()
        except Exception:
            # Entered only now: a context manager would slow down every read of a search.
            with database.map_errors():
                raise


# Shared by threads: caches of texts and frozen profiles.
@cache
def _translate(sql: LiteralString, *, single: bool = False) -> str:
    """Return a statement in SQL of SQLite. A `single` statement looks up the world itself."""
    spelled = re.sub(r"\bdirectory\b", "worlds", expand_macros(sql, SPELLINGS))
    if single:
        spelled = re.sub(r":world\b", "(SELECT world_id FROM worlds WHERE id = :world)", spelled)
    return spelled


def _bindable(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with each list as JSON, for `IN LIST`."""
    bound = dict(values)
    for name, value in values.items():
        if isinstance(value, list):
            try:
                bound[name] = _encode(value).decode()
            except (UnicodeEncodeError, OverflowError):
                # A caller may send a lone surrogate or a huge number, which equals nothing stored.
                bound[name] = json.dumps(value)
    return bound
