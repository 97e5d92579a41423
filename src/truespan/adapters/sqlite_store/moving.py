"""The SQLite store as rows: all of it given, or all of it taken, in words that every store has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import apsw

from truespan.adapters.moved_tables import NAMED_BY, TABLES
from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.errors import MigrationRefused, StoreDamaged
from truespan.protocols import Cell, MovedTable, NeutralRow

_WORLD = "(SELECT key FROM worlds WHERE id = ?)"
_PARENTS = {
    "document": "x_document",
    "revision": "d_revision",
    "job": "x_job",
    "reader": "x_reader",
}
"""Where the world of a row stands that has no column for it: with what it refers to first."""
_BOTH = ("states", "words", "readers")
"""Tables that refer to something and yet have a column for the world."""
_OWN = {
    ("readers", "current"): " AND x_current.world = t.world",
    ("positions", "document"): " AND x_document.world = x_reader.world",
}
"""Where a row has two ways to a world, both have to lead to the same one: a number of a document
means another document in another world."""


class SqliteRows:
    """Reads and writes the tables of one library's file, row by row."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @property
    def tables(self) -> Sequence[MovedTable]:
        """Return every table, those first that others refer to."""
        return TABLES

    def identity(self) -> str:
        """Return what tells this store from every other one."""
        return self._connections.query("SELECT file FROM pragma_database_list WHERE seq = 0")[0][0]

    @contextmanager
    def still(self) -> Iterator[None]:
        """Hold one state of everything still, for whoever reads inside."""
        with self._connections.reading():
            yield

    def world_ids(self) -> list[str]:
        """Return the ids of all worlds, in the order in which they were made."""
        return [row[0] for row in self._connections.query("SELECT id FROM worlds ORDER BY key")]

    def rows(self, table: MovedTable, world: str | None) -> Iterator[NeutralRow]:
        """Give the rows of a table, those of one world if it is a table of worlds."""
        bindings = (world,) if table.of_world else ()
        with self._connections.mapped_errors():
            yield from self._connections.current().execute(_select(table), bindings)

    def write(self, table: MovedTable, world: str | None, rows: Iterable[NeutralRow]) -> None:
        """Write all the rows or, if anything fails, none."""
        try:
            with self._connections.writing() as connection:
                resolve = _Resolver(connection, world)
                connection.executemany(_insert(table), (resolve(table, row) for row in rows))
        except apsw.ConstraintError:
            raise MigrationRefused(
                f"The table {table.name} of the target was written to by somebody else meanwhile.",
                advice="Let one run end before another begins.",
            ) from None


class _Resolver:
    """Puts this store's keys in the place of the names of what a row refers to."""

    def __init__(self, connection: apsw.Connection, world: str | None) -> None:
        self._connection = connection
        self._world = world
        self._keys: dict[str, dict[NeutralRow, int]] = {}
        found = fetch(connection, "SELECT key FROM worlds WHERE id = ?", (world,))
        self._world_key = found[0][0] if found else None

    def __call__(self, table: MovedTable, row: NeutralRow) -> list[Cell]:
        cells = iter(row)
        found: list[Cell] = []
        for reference in table.references:
            width = 2 if reference.to == "revision" else 1
            found.append(self._key(reference.to, tuple(next(cells) for _ in range(width))))
        if table.name == "worlds":
            return [self._world, *cells]
        return [*([self._world_key] if _has_world(table) else []), *found, *cells]

    def _key(self, kind: str, names: NeutralRow) -> int | None:
        if names == (None,):
            return None
        known = self._keys.get(kind)
        if known is None:
            known = self._keys[kind] = dict(self._named(kind))
        try:
            return known[names]
        except KeyError:
            raise StoreDamaged(f"A row names a {kind} that is not there.") from None

    def _named(self, kind: str) -> Iterator[tuple[NeutralRow, int]]:
        if kind == "world":
            sql, bindings = "SELECT key, id FROM worlds", ()
        elif kind == "revision":
            sql = f"""SELECT r.key, d.number, r.number FROM revisions r
                     JOIN documents d ON d.key = r.document WHERE d.world = {_WORLD}"""  # noqa: S608
            bindings = (self._world,)
        else:
            name, (column, *_) = NAMED_BY[kind]
            shared = kind == "token"
            where = "" if shared else f" WHERE world = {_WORLD}"
            sql = f"SELECT key, {column} FROM {name}{where}"  # noqa: S608 -- names of our own
            bindings = () if shared else (self._world,)
        for key, *names in self._connection.execute(sql, bindings):
            yield tuple(names), key


def _has_world(table: MovedTable) -> bool:
    """Say whether the table itself has a column for the world of its rows."""
    return table.of_world and (not table.references or table.name in _BOTH)


def _select(table: MovedTable) -> str:
    restated = dict(table.restated)
    names: list[str] = []
    joins: list[str] = []
    for reference in table.references:
        column, to = reference.column, reference.to
        if to == "revision":
            names += [f"d_{column}.number", f"x_{column}.number"]
            joins.append(f"LEFT JOIN revisions x_{column} ON x_{column}.key = t.{column}")
            own = f" AND d_{column}.world = t.world" if _has_world(table) else ""
            joins.append(
                f"LEFT JOIN documents d_{column} ON d_{column}.key = x_{column}.document{own}"
            )
        elif to == "world":
            names.append(f"x_{column}.id")
            joins.append(f"LEFT JOIN worlds x_{column} ON x_{column}.key = t.{column}")
        else:
            other, (known, *_) = NAMED_BY[to]
            names.append(f"x_{column}.{known}")
            own = _OWN.get((table.name, column), "")
            joins.append(f"LEFT JOIN {other} x_{column} ON x_{column}.key = t.{column}{own}")
    for column in table.columns:
        plain = f"CAST(t.{column} AS BLOB)" if column in table.texts else f"t.{column}"
        names.append(restated.get(column, plain))
    parts = [f"SELECT {', '.join(names)} FROM {table.name} t", *joins]  # noqa: S608
    if table.of_world:
        parts.append(f"WHERE {_world_of(table)} = {_WORLD}")
    if table.ordered_by:
        parts.append(f"ORDER BY t.{table.ordered_by}")
    return " ".join(parts)


def _world_of(table: MovedTable) -> str:
    if table.name == "worlds":
        return "t.key"
    return "t.world" if _has_world(table) else f"{_PARENTS[table.references[0].to]}.world"


def _insert(table: MovedTable) -> str:
    referring = [reference.column for reference in table.references]
    whose = ["id"] if table.name == "worlds" else ["world"] if _has_world(table) else []
    columns = [*whose, *referring, *table.columns]
    marks = ["CAST(? AS TEXT)" if one in table.texts else "?" for one in columns]
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join(marks)})"  # noqa: S608
