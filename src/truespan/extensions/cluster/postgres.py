"""The PostgreSQL driver: a connection pool, and transactions for one world each."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import Any, Final, LiteralString, cast

import psycopg
from msgspec import Struct
from psycopg import sql as compose
from psycopg_pool import ConnectionPool

from truespan.core.cancel import check_cancelled
from truespan.errors import InvalidConfiguration, NotFound, StoreBusy, TruespanError
from truespan.extensions.cluster.postgres_server import (
    LOST,
    MAINTAINABLE_SINCE,
    SHARED_ROLE,
    UNREACHABLE,
    WORLD_ROLE,
    Connection,
    check_server,
    connect,
    map_errors,
    require_usable,
)
from truespan.store.engines.session import (
    ALL_AUDIENCES,
    SHARED_TABLES,
    Database,
    Row,
    Rows,
    Session,
    SingleStatements,
    Statements,
    expand_macros,
    is_world_id,
    scope_values,
    update_clause,
)
from truespan.types.maintenance import Check, FileTreatment, Verdict
from truespan.types.scope import Scope
from truespan.types.token import Secret

BOTH_ROLES: Final = "none"
"""The role of the connection, which is a member of both roles."""

SPELLINGS: Final = {
    "BYTES": "{0}",
    "PART": "text_part({0}, CAST({1} AS integer), CAST({2} AS integer))",
    "UNINDEXED": "{0}",
    "IN LIST": "= ANY({0})",
    "NOT IN LIST": "<> ALL({0})",
    "WORLD_TEXT": "CAST({0}.world_id AS text)",
    "IS_WORLD": "{0}.world_id = CAST({1} AS uuid)",
    "LOCK_ROWS": "FOR NO KEY UPDATE",
    "FROM_BYTES": "{0}",
    # Row security has the condition for every statement.
    "SEEN": "true",
}
"""Macros in SQL of PostgreSQL, where texts are bytes and world ids are UUIDs."""

_ENTER: Final = """SELECT set_config('truespan.world', %s, true),
    set_config('truespan.audience', %s, true), set_config('role', %s, true)"""
_REQUIRE: Final = "SELECT 1 FROM worlds WHERE world_id = %s"
_LOCK: Final = "SELECT 1 FROM worlds WHERE world_id = %s FOR NO KEY UPDATE"

_MAX_GROWTH: Final = 10
"""Factor by which a table may grow before it is analysed again."""
_HAS_GROWN: Final = """
    SELECT bool_or(pg_relation_size(oid) / current_setting('block_size')::int
      > %s * greatest(relpages, 1))
    FROM pg_class WHERE oid IN ('truespan.states'::regclass, 'truespan.vectors'::regclass)
"""

# Without a handler, Python would print the driver's messages, which contain addresses.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Address(Struct, frozen=True):
    """Address and limits of a store on a server."""

    url: Secret
    pool_size: int = 8
    timeout_seconds: float = 30.0


class PostgresSession(Session):
    """A transaction on a connection of the pool."""

    def __init__(self, connection: Connection, values: dict[str, Any]) -> None:
        self.connection = connection
        self.world = values["world"]
        self._values = values

    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        check_cancelled()
        return self.connection.execute(_translate(sql), self._bind(values)).fetchall()

    def stream(self, sql: LiteralString, /, *, page: int, **values: Any) -> Iterator[Row]:
        with self.connection.cursor(name="stream") as cursor:
            cursor.itersize = page
            yield from cursor.execute(_translate(sql), self._bind(values))

    def execute(self, sql: LiteralString, /, **values: Any) -> int:
        return self.connection.execute(_translate(sql), self._bind(values)).rowcount

    def execute_many(self, sql: LiteralString, rows: Iterable[Mapping[str, Any]], /) -> None:
        bound = [self._bind(row) for row in rows]
        if bound:
            self.connection.cursor().executemany(_translate(sql), bound)

    def insert_many(
        self, table: str, columns: Sequence[str], rows: Rows, *, key: Sequence[str] = ()
    ) -> None:
        """Insert all rows with one statement that has one array for each column."""
        given: list[Any] = [_array(column) for column in zip(*rows, strict=True)]
        if not given:
            return
        types = _column_types(self.connection, table)
        arrays = ", ".join(f"%s::{types[name]}[]" for name in columns)
        named, world = list(columns), ""
        if table not in SHARED_TABLES:
            named, key, world = ["world_id", *named], ("world_id", *key) if key else (), "%s, "
            given = [self.world, *given]
        statement = (
            f"INSERT INTO {table} ({', '.join(named)}) SELECT {world}n.* FROM unnest({arrays}) AS n"
        )
        self.connection.execute(_as_query(statement + update_clause(named, key)), given)

    def insert_returning(self, column: str, table: str, /, **values: Any) -> Any:
        if table not in SHARED_TABLES:
            values["world_id"] = self.world
        marks = ", ".join(f"%({name})s" for name in values)
        statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks}) RETURNING {column}"
        return self.connection.execute(_as_query(statement), values).fetchall()[0][0]

    def text(self, text: str) -> bytes:
        return text.encode()

    def enter(self, world: str, *, lock: bool = False) -> None:
        self.world = _scope_values(world)["world"]
        _enter(self.connection, BOTH_ROLES, _scope_values(world), _LOCK if lock else _REQUIRE)

    def create_world(
        self,
        world: str,
        name: str,
        created_at: float,
        defaults: str,
        audience: str | None,
        checksum: bytes,
    ) -> None:
        self.connection.execute(_ENTER, (world, ALL_AUDIENCES, BOTH_ROLES))
        self.connection.execute(
            """INSERT INTO directory (world_id, name, created_at, defaults, audience, checksum)
               VALUES (%s, %s, %s, %s, %s, %s)""",
            (world, name, created_at, defaults, audience, checksum),
        )
        self.connection.execute("INSERT INTO worlds (world_id) VALUES (%s)", (world,))

    def in_each(
        self, worlds: Sequence[str], sql: LiteralString, /, **values: Any
    ) -> list[list[Row]]:
        query = _translate(sql)
        cursors = []
        with self.connection.pipeline():
            for world in worlds:
                own = _scope_values(world)
                self.connection.execute(_ENTER, (own["world"], own["caller"], BOTH_ROLES))
                cursors.append(self.connection.execute(query, {**values, "world": world}))
        return [cursor.fetchall() for cursor in cursors]

    def lock_name(self, purpose: str, name: str) -> None:
        self.connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", (purpose, name)
        )

    def lock_directory(self) -> None:
        self.connection.execute("LOCK TABLE directory IN SHARE ROW EXCLUSIVE MODE")

    def disable_timeout(self, *, idle: bool = False) -> None:
        self.connection.execute("SELECT set_config('statement_timeout', '0', true)")
        if idle:
            self.connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"
            )

    @contextmanager
    def count_deleted(self) -> Iterator[dict[str, int]]:
        counts: dict[str, int] = {}
        before = self._count_rows()
        yield counts
        after = self._count_rows()
        counts.update({name: n - after[name] for name, n in before.items() if n > after[name]})

    def _count_rows(self) -> dict[str, int]:
        """Return the number of rows of the world in each table. The transaction has locked the
        world, so no other one changes them."""
        names = self.connection.execute(
            """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'truespan' AND c.relkind = 'r' ORDER BY 1"""
        ).fetchall()
        count = compose.SQL("SELECT count(*) FROM {} WHERE world_id = %s")
        with self.connection.pipeline():
            cursors = {
                name: self.connection.execute(
                    count.format(compose.Identifier("truespan", name)), (self.world,)
                )
                for (name,) in names
            }
        return {name: cursor.fetchall()[0][0] for name, cursor in cursors.items()}

    def _bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._values, **values, "world": self.world}


# Shared by threads: a pool gives a connection to one thread at a time.
class PostgresDatabase(Database):
    """A database of the store that several machines may use at once.

    The world is a setting of the transaction and ends with it, so that a pooled connection keeps
    nothing of a request. Row security hides the rows of other worlds, also from a statement that
    does not name its world.
    """

    def __init__(self, address: Address) -> None:
        """Check server, role and policies. Raises as `require_usable` does."""
        require_usable(address.url, address.timeout_seconds)
        self._address = address
        self._opened: ConnectionPool[Connection] | None = None
        self._lock = threading.Lock()

    def at(self, scope: Scope | str | None, *, shared: bool = False, **values: Any) -> Statements:
        return _PostgresStatements(self, scope, values, shared)

    def read_once(self, role: str, sql: LiteralString, values: dict[str, Any]) -> list[Row]:
        """Run one reading statement; a second time if a restarted server closed the connection."""
        try:
            return self._run_once(role, sql, values)
        except StoreBusy as error:
            if error.message != LOST:
                raise
            self._pool.check()
            return self._run_once(role, sql, values)

    def _run_once(self, role: str, sql: LiteralString, values: dict[str, Any]) -> list[Row]:
        with map_errors(), self._pool.connection() as connection:
            _set_isolation(connection, read_only=True)
            # One round trip for all statements.
            with connection.pipeline(), connection.transaction():
                connection.execute(_ENTER, (values["world"] or "", values["caller"], role))
                cursor = connection.execute(_translate(sql), values)
            return cursor.fetchall()

    def read(
        self, scope: Scope | str | None, *, shared: bool = False, **values: Any
    ) -> AbstractContextManager[PostgresSession]:
        return self._begin(scope, _REQUIRE, values, shared=shared, read_only=True)

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
    ) -> Iterator[PostgresSession]:
        check, outgrown = _LOCK if lock else _REQUIRE, False
        with self._begin(scope, check, values, shared=shared, wait=wait) as session:
            yield session
            if bulk:
                rows = session.connection.execute(_HAS_GROWN, (_MAX_GROWTH,)).fetchall()
                outgrown = bool(rows[0][0])
        if outgrown:
            # Query plans for a table that the server takes for empty scan the whole world for each
            # row. The transaction is committed, whether or not this succeeds.
            with suppress(StoreBusy):
                self._maintain("ANALYZE")

    def map_errors(self) -> AbstractContextManager[None]:
        return map_errors()

    def size(self) -> int:
        return self.shared.value(
            """SELECT CAST(coalesce(sum(pg_table_size(c.oid)), 0) AS bigint) FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'truespan' AND c.relkind = 'r'"""
        )

    def rewrite(self) -> FileTreatment:
        """Request a VACUUM, if the role may. Files, log, replicas and backups of the server belong
        to its operator; deleted content may be in any of them."""
        return FileTreatment.REQUESTED if self._maintain("VACUUM") else FileTreatment.LEFT

    def check(self) -> list[Check]:
        try:
            with self.write(None, shared=True) as session:
                return check_server(session.connection)
        except TruespanError as error:
            return [Check("database", Verdict.PROBLEM, error.message, error.advice)]

    def close(self) -> None:
        with self._lock:
            pool, self._opened = self._opened, None
        if pool is not None:
            pool.close()

    @property
    def _pool(self) -> ConnectionPool[Connection]:
        """The pool, which is opened on first use, and again after `close`."""
        with self._lock:
            if self._opened is None:
                self._opened = ConnectionPool(
                    self._address.url.reveal(),
                    connection_class=psycopg.Connection,
                    kwargs={
                        "autocommit": True,
                        "connect_timeout": 10,
                        "application_name": "truespan",
                    },
                    configure=self._configure,
                    min_size=0,
                    max_size=self._address.pool_size,
                    timeout=self._address.timeout_seconds,
                    max_idle=300.0,
                    open=True,
                    name="truespan",
                )
            return self._opened

    def _configure(self, connection: Connection) -> None:
        # `pg_temp` comes last, so that no temporary table hides one of ours.
        connection.execute(
            """SELECT set_config('search_path', 'truespan, truespan_shared, pg_temp', false),
                 set_config('statement_timeout', %(limit)s, false),
                 set_config('lock_timeout', %(limit)s, false),
                 set_config('idle_in_transaction_session_timeout', %(limit)s, false),
                 set_config('client_encoding', 'UTF8', false)""",
            {"limit": f"{int(self._address.timeout_seconds * 1000)}ms"},
        )

    @contextmanager
    def _begin(
        self,
        scope: Scope | str | None,
        check: LiteralString,
        values: dict[str, Any],
        *,
        shared: bool,
        read_only: bool = False,
        wait: float | None = None,
    ) -> Iterator[PostgresSession]:
        role = BOTH_ROLES if shared else SHARED_ROLE if scope is None else WORLD_ROLE
        values = {**_scope_values(scope), **values}
        with map_errors(), self._pool.connection() as connection:
            _set_isolation(connection, read_only=read_only)
            with connection.transaction():
                if wait is not None:
                    # 0 would mean no limit.
                    limit = f"{max(int(wait * 1000), 1)}ms"
                    connection.execute("SELECT set_config('lock_timeout', %s, true)", (limit,))
                _enter(connection, role, values, check)
                yield PostgresSession(connection, values)

    def _maintain(self, statement: LiteralString) -> bool:
        try:
            with map_errors(), connect(self._address.url, "store_url") as connection:
                if connection.info.server_version < MAINTAINABLE_SINCE:
                    return False
                rows = connection.execute(
                    """SELECT bool_and(has_table_privilege(c.oid, 'MAINTAIN')) FROM pg_class c
                       JOIN pg_namespace n ON n.oid = c.relnamespace
                       WHERE n.nspname = 'truespan' AND c.relkind = 'r'"""
                ).fetchall()
                if not rows[0][0]:
                    return False
                # The server skips tables that the role may not maintain.
                connection.execute(statement)
                return True
        except InvalidConfiguration as error:
            error.raise_unless("invalid_configuration")
            # The address was valid when the store was opened.
            raise StoreBusy(UNREACHABLE) from error


class _PostgresStatements(SingleStatements[PostgresDatabase]):
    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        check_cancelled()
        role = SHARED_ROLE if self.scope is None else BOTH_ROLES if self.both else WORLD_ROLE
        bound = {**_scope_values(self.scope), **self.values, **values}
        return self.database.read_once(role, sql, bound)


def _scope_values(scope: Scope | str | None) -> dict[str, Any]:
    values = scope_values(scope)
    if scope is not None and not is_world_id(values["world"]):
        raise NotFound("world", values["world"])
    return values


def _enter(
    connection: Connection, role: str, values: Mapping[str, Any], check: LiteralString
) -> None:
    """Set role, world and audience of a transaction.

    Raises `NotFound` if `check` finds no row.
    """
    world, audience = values["world"], values["caller"]
    if world is None:
        connection.execute(_ENTER, ("", audience, role))
        return
    with connection.pipeline():
        connection.execute(_ENTER, (world, audience, role))
        found = connection.execute(check, (world,))
    if not found.fetchall():
        raise NotFound("world", world)


def _set_isolation(connection: Connection, *, read_only: bool) -> None:
    """Set the options of the next transaction; nothing is sent yet."""
    level = psycopg.IsolationLevel
    connection.read_only = read_only
    connection.isolation_level = level.REPEATABLE_READ if read_only else level.READ_COMMITTED


# Shared by threads: filled with what the catalogue says, which is the same for every thread.
_types: dict[str, dict[str, str]] = {}


def _column_types(connection: Connection, table: str) -> dict[str, str]:
    """Return the types of a table's columns, which are the same in every store."""
    if table not in _types:
        schema = "truespan_shared" if table in SHARED_TABLES else "truespan"
        rows = connection.execute(
            """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
               WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped""",
            (f"{schema}.{table}",),
        )
        _types[table] = dict(rows.fetchall())
    return _types[table]


def _array(values: Sequence[Any]) -> Any:
    """Return a column as the text of an array, or as a list if the driver must find its types.

    Encoding the array in the driver takes several times as long as the statement itself.
    """
    encode = _ENCODE_ITEM.get(next((type(value) for value in values if value is not None), None))
    if encode is None:
        return list(values)
    return f"{{{','.join(['NULL' if value is None else encode(value) for value in values])}}}"


def _encode_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_ENCODE_ITEM: Final[Mapping[type | None, Callable[[Any], str]]] = {
    bool: str,
    int: str,
    float: repr,
    str: _encode_text,
    bytes: lambda content: f'"\\\\x{content.hex()}"',
}
"""Encoders of array items by type; all items of an array have the same type."""


# Shared by threads: caches of texts and frozen profiles.
@cache
def _translate(sql: LiteralString) -> LiteralString:
    spelled = expand_macros(sql, SPELLINGS).replace("%", "%%")
    return _as_query(re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", spelled))


def _as_query(statement: str) -> LiteralString:
    """Mark a statement as literal: it is made of names of tables and columns of this package."""
    return cast("LiteralString", statement)
