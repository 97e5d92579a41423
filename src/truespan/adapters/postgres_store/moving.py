"""The PostgreSQL store as rows: all of it given, or all of it taken, in words every store has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import LiteralString, cast

from psycopg import DataError, IntegrityError
from psycopg.errors import UniqueViolation

from truespan.adapters.moved_tables import NAMED_BY, TABLES
from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Session,
    change_each,
    enter,
    fetch,
    mapped_errors,
)
from truespan.errors import MigrationRefused, StoreDamaged
from truespan.protocols import Cell, MovedTable, NeutralRow

_PAGE = 500
_LARGE = {"texts": 8}
"""Tables with rows as large as a book: so many of them are in memory at a time."""


class PostgresRows:
    """Reads and writes the tables of a database, row by row, each world in its own right."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._held: Session | None = None
        self._taking = False

    @property
    def tables(self) -> Sequence[MovedTable]:
        """Return every table, those first that others refer to."""
        return TABLES

    def identity(self) -> str:
        """Return what tells this store from every other one."""
        rows = self._connections.query_shared(
            """SELECT oid::text || ' of ' || pg_postmaster_start_time()::text || ' at '
                 || current_setting('port') FROM pg_database WHERE datname = current_database()"""
        )
        return rows[0][0]

    @contextmanager
    def still(self) -> Iterator[None]:
        """Hold one state of everything still, for whoever reads inside."""
        if self._taking:
            yield
            return
        with self._connections.surveying() as session, self._holding(session):
            yield

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Make all that is written inside one commit; until then nobody else makes a world."""
        with self._connections.sharing(BOTH) as session, self._holding(session):
            session.execute("LOCK TABLE truespan_shared.directory IN SHARE ROW EXCLUSIVE MODE")
            self._taking = True
            try:
                yield
            finally:
                self._taking = False

    @contextmanager
    def _holding(self, session: Session) -> Iterator[None]:
        _be_patient(session)
        self._held = session
        try:
            yield
        finally:
            self._held = None

    def size(self) -> int:
        """Return about how many bytes the rows of worlds take."""
        rows = self._connections.query_shared(
            """SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'truespan' AND c.relkind = 'r'"""
        )
        return rows[0][0]

    def world_ids(self) -> list[str]:
        """Return the ids of all worlds, in the order in which they were made."""
        with self._reading() as session:
            rows = fetch(session, "SELECT world_id FROM directory ORDER BY created_at, world_id")
        return [str(row[0]) for row in rows]

    def rows(self, table: MovedTable, world: str | None) -> Iterator[NeutralRow]:
        """Give the rows of a table, those of one world if it is a table of worlds."""
        with mapped_errors(), self._reading() as session:
            if world is not None:
                enter(session, world)
            bindings = {"world": world} if table.name in _NAMED_WORLD else {}
            with session.cursor(name="moved") as cursor:
                cursor.itersize = _page(table)
                yield from cursor.execute(_as_sql(_select(table)), bindings)

    def write(self, table: MovedTable, world: str | None, rows: Iterable[NeutralRow]) -> None:
        """Write all the rows or, if anything fails, none."""
        try:
            with self._writing(world) as session:
                _write(session, table, world, rows)
        except UniqueViolation:
            raise MigrationRefused(
                f"The table {table.name} of the target was written to by somebody else meanwhile.",
                advice="Let one run end before another begins.",
            ) from None
        except (IntegrityError, DataError):
            raise MigrationRefused(
                f"The table {table.name} of the source has rows that this store does not take.",
                advice="Run 'truespan doctor' on the source.",
            ) from None

    @contextmanager
    def _writing(self, world: str | None) -> Iterator[Session]:
        """Give a transaction of its own, or the one that everything is written in."""
        held, connections = self._held, self._connections
        if held is not None and self._taking:
            if world is not None:
                enter(held, world)
            with mapped_errors():
                yield held
            return
        with (
            connections.sharing(BOTH) if world is None else connections.writing(world, BOTH)
        ) as session:
            _be_patient(session)
            yield session

    def _reading(self) -> AbstractContextManager[Session]:
        held = self._held
        return self._connections.surveying() if held is None else _lent(held)


@contextmanager
def _lent(session: Session) -> Iterator[Session]:
    yield session


def _be_patient(session: Session) -> None:
    """Let this one transaction take its time: it waits while the other store is read or written."""
    fetch(
        session,
        """SELECT set_config('statement_timeout', '0', true),
             set_config('idle_in_transaction_session_timeout', '0', true)""",
    )


def _write(
    session: Session, table: MovedTable, world: str | None, rows: Iterable[NeutralRow]
) -> None:
    resolve = _Resolver(session)
    statements = _insert(table)
    pending = iter(rows)
    while page := list(islice(pending, _page(table))):
        cells = [resolve(table, world, row) for row in page]
        for statement in statements:
            change_each(session, _as_sql(statement), cells)


class _Resolver:
    """Puts this store's keys in the place of the names of what a row refers to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys: dict[str, dict[NeutralRow, int]] = {}

    def __call__(self, table: MovedTable, world: str | None, row: NeutralRow) -> dict[str, Cell]:
        cells = iter(row)
        found: dict[str, Cell] = {"world_id": world}
        for reference in table.references:
            width = 2 if reference.to == "revision" else 1
            names = tuple(next(cells) for _ in range(width))
            found[reference.column] = self._key(reference.to, names)
        for column in table.columns:
            value = next(cells)
            found[column] = bool(value) if column in table.flags else value
        return found

    def _key(self, kind: str, names: NeutralRow) -> Cell:
        if names == (None,) or kind == "world":
            return names[0]
        known = self._keys.get(kind)
        if known is None:
            known = self._keys[kind] = {
                tuple(named): key for key, *named in fetch(self._session, _as_sql(_named(kind)))
            }
        try:
            return known[names]
        except KeyError:
            raise StoreDamaged(f"A row names a {kind} that is not there.") from None


_NAMED_WORLD = ("worlds", "aliases")
"""Tables whose rows lie, all or in part, where no policy picks those of the world."""


def _named(kind: str) -> str:
    if kind == "revision":
        return """SELECT r.key, d.number, r.number FROM revisions r
                  JOIN documents d ON d.world_id = r.world_id AND d.key = r.document"""
    table, (column, *_) = NAMED_BY[kind]
    return f"SELECT key, {column} FROM {table}"  # noqa: S608 -- names of our own


def _select(table: MovedTable) -> str:
    if table.name == "worlds":
        return """SELECT d.name, t.generation, t.next_document, t.changes, d.created_at,
                    t.next_generation
                  FROM worlds t JOIN directory d USING (world_id) WHERE world_id = %(world)s"""
    names, joins = _references(table)
    restated = dict(table.restated)
    for column in table.columns:
        plain = f"t.{column}::int" if column in table.flags else f"t.{column}"
        names.append(restated.get(column, plain))
    parts = [f"SELECT {', '.join(names)} FROM {table.name} t", *joins]  # noqa: S608
    if table.name in _NAMED_WORLD:
        parts.append("WHERE t.world_id = %(world)s")
    if table.ordered_by:
        parts.append(f"ORDER BY t.{table.ordered_by}")
    return " ".join(parts)


def _references(table: MovedTable) -> tuple[list[str], list[str]]:
    """Return what names the rows that a table refers to, and how to come to them."""
    names: list[str] = []
    joins: list[str] = []
    for reference in table.references:
        column, to = reference.column, reference.to
        if to == "world":
            names.append("t.world_id::text")
            continue
        other, (known, *_) = NAMED_BY[to]
        same = f"x_{column}.key = t.{column}"
        if to != "token":
            same += f" AND x_{column}.world_id = t.world_id"
        joins.append(f"LEFT JOIN {other} x_{column} ON {same}")
        if to == "revision":
            names += [f"d_{column}.number", f"x_{column}.number"]
            joins.append(
                f"LEFT JOIN documents d_{column} ON d_{column}.world_id = t.world_id"
                f" AND d_{column}.key = x_{column}.document"
            )
        else:
            names.append(f"x_{column}.{known}")
    return names, joins


def _insert(table: MovedTable) -> list[str]:
    if table.name == "worlds":
        rest = ("generation", "next_document", "changes", "next_generation")
        return [
            _into(
                "directory", {"world_id": "world_id", "name": "name", "created_at": "created_at"}
            ),
            _into("worlds", {one: one for one in rest}),
        ]
    columns = [*(reference.column for reference in table.references), *table.columns]
    named = {"world_id" if one == "world" else one: one for one in columns}
    if table.name in _NAMED_WORLD:
        named = {"world_id": "world_id", **named}
    return [_into(table.name, named)]


def _into(table: str, columns: dict[str, str]) -> str:
    values = ", ".join(f"%({cell})s" for cell in columns.values())
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


def _page(table: MovedTable) -> int:
    return _LARGE.get(table.name, _PAGE)


def _as_sql(statement: str) -> LiteralString:
    """Return a statement that is put together from the names in `moved_tables` alone."""
    return cast("LiteralString", statement)
