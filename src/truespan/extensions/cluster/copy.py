"""Copies of a whole store into another one, verified by reading everything back.

Rows are copied in a form that does not depend on the engine: keys of other rows are replaced by
names that are the same in every store, and texts are bytes, so that damage is copied unchanged.
The source is only read.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, LiteralString, TypeAlias, cast

from msgspec import Struct

from truespan.errors import CopyDiffers, NotFound, StoreDamaged
from truespan.store import Store
from truespan.store.engines.session import (
    SHARED_TABLES,
    Database,
    DuplicateRow,
    InvalidRow,
    MissingRow,
    Session,
)
from truespan.store.engines.sqlite import SqliteDatabase

NOT_COPIED: Final = frozenset({"erasures", "paces", "cooldowns", "schema_steps"})
"""Tables that concern only one library, or only the last minutes."""

_CREATED_LATER: Final = frozenset({"identity"})
"""Tables that the target may have filled itself, if they are empty in the source."""
_PAGE: Final = 500
_LARGE_ROWS: Final = {"texts": 8}
"""Maximum number of rows in memory, for tables with rows as large as a book."""
_MODULUS: Final = 1 << 256

_NAMES: Final = {
    "documents": ("number",),
    "revisions": ("document", "number"),
    "jobs": ("id",),
    "readers": ("name",),
    "tokens": ("id",),
    "conversations": ("id",),
}
"""Tables that others refer to by key, and the columns that identify a row in every store."""
_TEXTS: Final = frozenset({"text", "overlap_text", "description", "content"})
"""Columns with texts of documents and answers, which are copied as bytes."""
_FLAGS: Final = frozenset(
    {
        "erase", "language_declared", "language_stated", "redacted", "cancel", "background",
        "every_world", "every_reader", "every_label", "impersonate",
    }
)  # fmt: skip
_CHANGED: Final = {
    # The index of the copy is empty.
    ("states", "state"): "CASE WHEN t.state = 'embedded' THEN 'pending' ELSE t.state END",
    ("tallies", "embedded"): "0",
    # No process runs the jobs of the copy, and their uploaded files are not copied.
    ("jobs", "state"): """CASE WHEN t.state IN ('queued', 'running') THEN 'interrupted'
        ELSE t.state END""",
    ("jobs", "finished_at"): """CASE WHEN t.state IN ('queued', 'running') THEN t.seen_at
        ELSE t.finished_at END""",
    ("jobs", "background"): "0",
    ("jobs", "claims"): "'[]'",
}
"""Columns with another value in the copy."""
_NOT_COMPARED: Final = {"worlds": {"changes"}}
"""Columns that may differ; `changes` is also increased when the index is filled."""

Cell: TypeAlias = int | float | str | bytes | None
NeutralRow: TypeAlias = tuple[Cell, ...]
"""A row in the form of every store: names of other rows first, then its own columns."""


class Table(Struct, frozen=True):
    """A table to copy."""

    name: str
    columns: tuple[str, ...]
    references: tuple[tuple[str, str], ...]
    """Columns with keys of other tables, and these tables."""
    in_world: bool
    """Whether each row belongs to one world."""
    has_world: bool
    """Whether it has a world column; otherwise its first reference determines the world."""
    own_key: str
    """The generated key; rows are copied in its order, and get new keys."""

    @property
    def page(self) -> int:
        return _LARGE_ROWS.get(self.name, _PAGE)

    def compared(self, row: NeutralRow) -> NeutralRow:
        """Return the cells of a row that must be the same in the copy."""
        ignored = _NOT_COMPARED.get(self.name)
        if ignored is None:
            return row
        own = row[len(row) - len(self.columns) :]
        cells = zip(self.columns, own, strict=True)
        return tuple(cell for name, cell in cells if name not in ignored)


# Shared by threads: caches of texts and of tables that are only read.
@cache
def load_tables() -> tuple[Table, ...]:
    """Return the tables to copy, in the order of their references.

    They are read from the schema of a new SQLite store, so that no column is forgotten. PostgreSQL
    has the same tables and columns.
    """
    with closing(SqliteDatabase(Path(":memory:"), reserve=0)) as database:
        schema = database.shared.all(
            """SELECT t.name, c.name, c.pk > 0, c.type FROM sqlite_schema t
               JOIN pragma_table_info(t.name) c
               WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'
               ORDER BY t.rowid, c.cid"""
        )
        keys = database.shared.all(
            """SELECT t.name, f."from", f."table" FROM sqlite_schema t
               JOIN pragma_foreign_key_list(t.name) f
               WHERE t.type = 'table' AND f."to" IN ('key', 'world_id')
               ORDER BY t.rowid, f.id DESC"""
        )
    # The schema has no foreign key here, because a state may outlive its revision.
    keys.append(("states", "revision", "revisions"))
    tables: dict[str, Table] = {}
    for name in {row[0]: None for row in schema if row[0] not in NOT_COPIED}:
        columns = [column for owner, column, *_ in schema if owner == name]
        primary = [(column, kind) for owner, column, key, kind in schema if owner == name and key]
        references = {column: target for owner, column, target in keys if owner == name}
        has_world = references.pop("world_id", None) is not None
        own_key = ""
        if len(primary) == 1 and primary[0][1] == "INTEGER" and primary[0][0] not in references:
            own_key = primary[0][0]
        left_out = {"world_id", own_key, *references, *(["id"] if name == "worlds" else [])}
        tables[name] = Table(
            name,
            tuple(column for column in columns if column not in left_out),
            tuple(references.items()),
            in_world=name not in SHARED_TABLES or name == "aliases",
            has_world=has_world,
            own_key="" if name == "worlds" else own_key,
        )
    needs = {
        name: [target for owner, _, target in keys if owner == name]
        + ["worlds"] * (name != "worlds")
        for name in tables
    }
    order = [tables[name] for name in TopologicalSorter(needs).static_order()]
    return tuple(sorted(order, key=lambda table: not table.in_world))


class StoreRows:
    """All rows of a store, read or written table by table."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._session: Session | None = None
        self._writable = False

    def size(self) -> int:
        return self._db.size()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the store inside the block."""
        if self._writable:
            yield
            return
        with self._db.read_every_world() as session, self._use(session):
            yield

    @contextmanager
    def single_commit(self) -> Iterator[None]:
        """Write everything inside the block as one commit; no other process can add a world."""
        with self._db.write_every_world() as session, self._use(session, writable=True):
            session.lock_directory()
            yield

    @contextmanager
    def _use(self, session: Session, *, writable: bool = False) -> Iterator[None]:
        session.disable_timeout(idle=True)
        self._session, self._writable = session, writable
        try:
            yield
        finally:
            self._session, self._writable = None, False

    def _read(self) -> AbstractContextManager[Session]:
        return nullcontext(self._session) if self._session else self._db.read_every_world()

    def world_ids(self) -> list[str]:
        """Return the ids of all worlds, in the order of their creation."""
        with self._read() as session:
            rows = session.all(
                "SELECT WORLD_TEXT(d) FROM directory d ORDER BY d.created_at, d.world_id"
            )
        return [world for (world,) in rows]

    def rows(self, table: Table, world: str | None) -> Iterator[NeutralRow]:
        """Yield the rows of a table; of one world if it is a table of worlds."""
        with self._db.map_errors(), self._read() as session:
            if world is not None:
                try:
                    session.enter(world)
                except NotFound as missing:
                    missing.raise_unless("world_not_found")
                    return
            yield from session.stream(_select(table), page=table.page)

    def write(self, table: Table, world: str | None, rows: Iterable[NeutralRow]) -> None:
        """Write all the rows or, if anything fails, none of them."""
        try:
            if self._session is not None and self._writable:
                with self._db.map_errors():
                    write_rows(self._session, table, world, rows)
            else:
                with self._db.write_every_world() as session:
                    session.disable_timeout(idle=True)
                    write_rows(session, table, world, rows)
        except DuplicateRow:
            raise CopyDiffers(
                f"The table {table.name} was written to by another process."
            ) from None
        except (MissingRow, InvalidRow):
            raise CopyDiffers(
                f"The table {table.name} has rows that this store does not accept."
            ) from None


def rows_of(store: Store) -> StoreRows:
    """Return all rows of a store, to copy them into or from another one."""
    return StoreRows(store.database)


def write_rows(
    session: Session, table: Table, world: str | None, rows: Iterable[NeutralRow]
) -> None:
    """Write rows in the caller's transaction, a page at a time."""
    remaining = iter(rows)
    if table.name == "worlds":
        for row in remaining:
            record: dict[str, Any] = dict(zip(table.columns, row, strict=True))
            named = ("name", "created_at", "defaults", "audience", "checksum")
            session.create_world(world or "", *(record.pop(name) for name in named))
            session.enter(world or "")
            session.execute(
                """UPDATE worlds SET generation = :generation, next_document = :next_document,
                     next_generation = :next_generation, changes = :changes
                   WHERE world_id = :world""",
                **record,
            )
        return
    if world is not None:
        session.enter(world)
    keys = {target: _load_keys(session, target) for _, target in table.references}
    if table.name == "token_worlds":
        statement: LiteralString = """INSERT INTO token_worlds (token, world_id)
            SELECT :token, d.world_id FROM directory d WHERE IS_WORLD(d, :id)"""
    else:
        names = [*(column for column, _ in table.references), *table.columns]
        values = [f"FROM_BYTES(:{name})" if name in _TEXTS else f":{name}" for name in names]
        if table.has_world:
            names, values = ["world_id", *names], [":world", *values]
        statement = _as_sql(
            f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"
        )
    while page := list(islice(remaining, table.page)):
        session.execute_many(statement, [_bind(table, row, keys) for row in page])


def _bind(table: Table, row: NeutralRow, keys: dict[str, dict[NeutralRow, int]]) -> dict[str, Cell]:
    """Return the values of a row by column, with the keys of this store for its references."""
    cells = iter(row)
    values: dict[str, Cell] = {}
    for column, target in table.references:
        names = tuple(next(cells) for _ in _NAMES[target])
        key = keys[target].get(names)
        if key is None and any(name is not None for name in names):
            raise StoreDamaged(f"A row refers to a row of {target} that does not exist.")
        values[column] = key
    if table.name == "token_worlds":
        return {**values, "id": next(cells)}
    for column in table.columns:
        value = next(cells)
        values[column] = bool(value) if column in _FLAGS else value
    return values


def _load_keys(session: Session, table: str) -> dict[NeutralRow, int]:
    """Return the keys of the rows of a table, by their names in every store."""
    if table == "revisions":
        rows = session.all(
            """SELECT r.key, d.number, r.number FROM revisions r
               JOIN documents d ON d.key = r.document WHERE d.world_id = :world"""
        )
    else:
        where = "" if table == "tokens" else " WHERE world_id = :world"
        rows = session.all(_as_sql(f"SELECT key, {_NAMES[table][0]} FROM {table}{where}"))
    return {tuple(names): key for key, *names in rows}


# Shared by threads: as above.
@cache
def _select(table: Table) -> LiteralString:
    """Return the statement that selects the rows of a table in neutral form.

    If a row refers to its world in two ways, both must lead to the same world, because numbers of
    documents are only unique within a world.
    """
    if table.name == "worlds":
        return """SELECT d.name, d.created_at, d.defaults, d.audience, d.checksum, t.generation,
                    t.next_document, t.next_generation, t.changes
                  FROM worlds t JOIN directory d ON d.world_id = t.world_id
                  WHERE t.world_id = :world"""
    if table.name == "token_worlds":
        return """SELECT t.id, WORLD_TEXT(d) FROM token_worlds w JOIN tokens t ON t.key = w.token
                  JOIN directory d ON d.world_id = w.world_id"""
    names: list[str] = []
    joins: list[str] = []
    world = "t.world_id" if table.has_world else ""
    for column, target in table.references:
        joins.append(f"LEFT JOIN {target} x_{column} ON x_{column}.key = t.{column}")
        owner = f"x_{column}"
        if target == "revisions":
            owner = f"d_{column}"
            joins.append(f"LEFT JOIN documents {owner} ON {owner}.key = x_{column}.document")
            names.append(f"{owner}.number")
        if world:
            joins.append(f"AND {owner}.world_id = {world}")
        world = world or f"{owner}.world_id"
        names.append(f"x_{column}.{_NAMES[target][-1]}")
    for column in table.columns:
        value = f"t.{column}"
        if column in _TEXTS:
            value = f"BYTES(t.{column})"
        elif column in _FLAGS:
            value = f"CAST(t.{column} AS INTEGER)"
        names.append(_CHANGED.get((table.name, column), value))
    parts = [f"SELECT {', '.join(names)} FROM {table.name} t", *joins]
    if table.in_world:
        parts.append(f"WHERE {world} = :world")
    if table.own_key:
        parts.append(f"ORDER BY t.{table.own_key}")
    return _as_sql(" ".join(parts))


def _as_sql(statement: str) -> LiteralString:
    """Mark a statement as literal: it is made of names of tables and columns of the schema."""
    return cast("LiteralString", statement)


@dataclass(slots=True)
class RowDigest:
    """Number of rows, and a digest that does not depend on their order."""

    rows: int = 0
    total: int = field(default=0, repr=False)

    def add(self, row: NeutralRow) -> None:
        # `repr` distinguishes numbers, texts and bytes.
        digest = sha256(repr(row).encode("utf-8", "surrogatepass")).digest()
        self.total = (self.total + int.from_bytes(digest, "big")) % _MODULUS
        self.rows += 1


def copy_rows(
    source: StoreRows,
    target: StoreRows,
    *,
    skip: Collection[str] = (),
) -> None:
    """Copy all rows into a store without worlds, then read everything back and compare.

    Tables in `skip` are neither read nor written.
    """
    sent: dict[tuple[str, str | None], RowDigest] = {}
    with source.snapshot():
        worlds = source.world_ids()
        tables = [table for table in load_tables() if table.name not in skip]
        units = [(table, world) for world in worlds for table in tables if table.in_world]
        units += [(table, None) for table in tables if not table.in_world]
        for table, world in units:
            digest = digest_table(target, table, world)
            if digest.rows:
                copied = digest_table(source, table, world)
                created_there = table.name in _CREATED_LATER and not copied.rows
                if digest.total != copied.total and not created_there:
                    raise CopyDiffers(f"The table {table.name} differs from its source.")
            else:
                rows = _count_rows(source, table, world, digest)
                try:
                    target.write(table, world, rows)
                finally:
                    # The generator must not read on after its transaction has ended.
                    rows.close()
            sent[table.name, world] = digest
    with target.snapshot():
        for table, world in units:
            if digest_table(target, table, world) != sent[table.name, world]:
                raise CopyDiffers(f"The table {table.name} differs from its source.")


def digest_table(rows: StoreRows, table: Table, world: str | None) -> RowDigest:
    """Return the number of rows of a table, and their digest."""
    digest = RowDigest()
    for row in rows.rows(table, world):
        digest.add(table.compared(row))
    return digest


def _count_rows(
    source: StoreRows, table: Table, world: str | None, digest: RowDigest
) -> Generator[NeutralRow, None, None]:
    for row in source.rows(table, world):
        digest.add(table.compared(row))
        yield row
