"""The seam between the store's statements and the two engines that run them.

Statements are SQL that both engines understand, with named parameters (`:document`) and with
`:world` and `:generation` for those of the scope. What the engines spell differently is a macro,
which each engine translates with one small table:

    BYTES(c.text)          the bytes of a stored text
    PART(t.text, :a, :n)   the bytes of `n` code points of a stored text, from code point `a`
    UNINDEXED(s.world_id)  a column that SQLite must not use an index for
    IN LIST(:ids)          membership in a list that is bound as one value
    NOT IN LIST(:ids)      the opposite
    WORLD_TEXT(d)          the id of a world as text, from a row of `directory`
    IS_WORLD(d, :id)       whether a row of `directory` is the world of an id; NULL without one
    BYTES_CONTAIN(c.text, :b)  whether a stored text contains these bytes
    TEXT_CONTAINS(r.name, :b)  whether another column of text contains these bytes
    FROM_BYTES(:text)      the value of a stored text, from its bytes
    LOCK_ROWS()            after a SELECT: hold its rows until the transaction ends

`directory` is the table of all worlds with their names. Booleans are bound as `bool` and read with
`bool(...)`. A value whose type PostgreSQL cannot guess is written as `CAST(:language AS TEXT)`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Final, LiteralString, ParamSpec, TypeAlias, TypeVar

from truespan.core.cancel import check_cancelled
from truespan.errors import StoreBusy
from truespan.protocols import Clock
from truespan.types.maintenance import Check, FileFate
from truespan.types.scope import Scope

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Iterable[Sequence[Any]]

P = ParamSpec("P")
T = TypeVar("T")

SHARED_TABLES = frozenset(
    {
        *("schema_steps", "directory", "aliases", "tokens", "token_worlds"),
        *("cooldowns", "paces", "replays", "erasures", "identity"),
    }
)
"""Every table that belongs to no world, so that row security does not apply to it."""

_TRIES = 6

BRIEF_WAIT = 1.0
"""Seconds that a request waits for other writers, to write what its answer does not depend on."""


class DuplicateRow(Exception):
    """A row with the same unique key exists. It is caught inside the store."""


class MissingRow(Exception):
    """A row refers to one that does not exist. It is caught inside the store."""


class InvalidRow(Exception):
    """A row breaks another constraint of its table. It is caught inside the store."""


class Conflict(Exception):
    """The cause of a `StoreBusy` whose transaction was rolled back in favour of another one."""


class Statements(ABC):
    """Runs statements, in one transaction or each in its own. `:world` is bound to the world and
    `:generation` to the generation of the scope."""

    @abstractmethod
    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        """Run a statement and return its rows."""

    def one(self, sql: LiteralString, /, **values: Any) -> Row | None:
        """Run a statement and return its first row; None without rows."""
        rows = self.all(sql, **values)
        return rows[0] if rows else None

    def value(self, sql: LiteralString, /, **values: Any) -> Any:
        """Run a statement and return the first column of its first row; None without rows."""
        rows = self.all(sql, **values)
        return rows[0][0] if rows else None

    @abstractmethod
    def execute(self, sql: LiteralString, /, **values: Any) -> int:
        """Run a statement and return how many rows it changed."""


class Session(Statements):
    """One transaction, and in it one world at a time."""

    world: Any
    """The current world as rows refer to it."""

    @abstractmethod
    def stream(self, sql: LiteralString, /, *, page: int, **values: Any) -> Iterator[Row]:
        """Run a statement and give its rows, of which at most a page is in memory at a time."""

    @abstractmethod
    def execute_many(self, sql: LiteralString, rows: Iterable[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of values."""

    @abstractmethod
    def insert_many(
        self, table: str, columns: Sequence[str], rows: Rows, *, key: Sequence[str] = ()
    ) -> None:
        """Insert rows in bulk; with `key`, a row of the same key is updated instead. The world is
        added as a column of its own, and to the key, where the table has one. A generator of rows
        must run no statement."""

    def insert(self, table: str, /, *, key: Sequence[str] = (), **values: Any) -> None:
        """Insert one row; with `key`, a row of the same key is updated instead."""
        self.insert_many(table, tuple(values), [tuple(values.values())], key=key)

    @abstractmethod
    def insert_returning(self, column: str, table: str, /, **values: Any) -> Any:
        """Insert one row and return one of its columns, such as the key it was given."""

    @abstractmethod
    def text(self, text: str) -> Any:
        """Return a text as a column holds it that is read with `BYTES`."""

    @abstractmethod
    def enter(self, world: str, *, lock: bool = False) -> None:
        """Continue the same transaction in another world; with `lock`, exclude its other writers.
        Raises `WorldNotFound`: the world does not exist."""

    @abstractmethod
    def create_world(
        self, world: str, name: str, created_at: float, defaults: str, checksum: bytes
    ) -> None:
        """Write the rows of a new world. Raises `DuplicateRow`: another world has this name."""

    @abstractmethod
    def in_each(
        self, worlds: Sequence[str], sql: LiteralString, /, **values: Any
    ) -> list[list[Row]]:
        """Run a statement in each of several worlds; a world that does not exist has no rows."""

    # Where a write transaction has the database for itself, there is nothing to lock or to time.

    def lock_name(self, purpose: str, name: str) -> None:
        """Wait until no other transaction holds this lock; hold it until this one ends."""

    def lock_directory(self) -> None:
        """Wait until no other transaction creates a world; let none do so until this one ends."""

    def disable_timeout(self, *, idle: bool = False) -> None:
        """Let the statements of this transaction take as long as they need. With `idle`, it may
        also wait between statements: for another store, say."""

    @abstractmethod
    def count_deleted(self) -> AbstractContextManager[dict[str, int]]:
        """Count the rows that each table loses inside the block, cascades included. The tables are
        read from the catalogue, so that a new table is counted as well."""

    def touch_world(self) -> None:
        """Record that something changed that a reader of the world could see."""
        self.execute("UPDATE worlds SET changes = changes + 1 WHERE world_id = :world")


class Database(ABC):
    """Gives transactions and runs single statements, each for a scope or for the id of a world.
    Further values are bound to every statement of the transaction. A transaction for a world raises
    `WorldNotFound` when the world does not exist; a single statement then has no rows. With
    `shared`, the tables that belong to no world can be used too."""

    def at(self, scope: Scope | str, **values: Any) -> Statements:
        """Return what runs single statements with these values, each in one round trip."""
        return _SingleStatements(self, scope, values)

    def at_both(self, scope: Scope | str, **values: Any) -> Statements:
        """Return the same for statements that also read tables that belong to no world."""
        return _SingleStatements(self, scope, values, shared=True)

    @property
    def shared(self) -> Statements:
        """Return what runs single statements on tables that belong to no world."""
        return _SingleStatements(self, None, {})

    @abstractmethod
    def read_once(
        self,
        scope: Scope | str | None,
        sql: LiteralString,
        values: dict[str, Any],
        *,
        shared: bool = False,
    ) -> list[Row]:
        """Run one reading statement for a scope, on tables that belong to no world, or on both."""

    @abstractmethod
    def read(
        self, scope: Scope | str | None, *, shared: bool = False, **values: Any
    ) -> AbstractContextManager[Session]:
        """Give a transaction whose statements all see one state of one world."""

    @abstractmethod
    def write(
        self,
        scope: Scope | str | None,
        *,
        shared: bool = False,
        lock: bool = True,
        bulk: bool = False,
        wait: float | None = None,
        **values: Any,
    ) -> AbstractContextManager[Session]:
        """Give a write transaction for one world: all of it is committed, or nothing.
        Writers of one world follow each other unless `lock` is False. With `bulk`, tables that have
        grown a lot are analysed afterwards. With `wait`, `StoreBusy` is raised if other writers
        hold a lock for longer than this number of seconds; 0 does not wait at all."""

    def write_shared(self) -> AbstractContextManager[Session]:
        """Give a write transaction for tables that belong to no world."""
        return self.write(None)

    def read_every_world(self) -> AbstractContextManager[Session]:
        """Give a transaction that sees one state of everything, one world at a time (`enter`)."""
        return self.read(None, shared=True)

    def write_every_world(self) -> AbstractContextManager[Session]:
        """Give a write transaction for all worlds, one at a time (`enter`)."""
        return self.write(None, shared=True)

    @abstractmethod
    def map_errors(self) -> AbstractContextManager[None]:
        """Turn the engine's errors into ours; every transaction does so when it ends."""

    @abstractmethod
    def identity(self) -> str:
        """Return a text that no other database has, however it is reached."""

    @abstractmethod
    def size(self) -> int:
        """Return about how many bytes the database takes."""

    @abstractmethod
    def rewrite(self) -> FileFate:
        """Remove what deleted rows left in the files of the engine, as far as it can be done."""

    @abstractmethod
    def check(self) -> list[Check]:
        """Return what the engine says of its own files, or of its server and our role there."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""


def retry_on_conflict(method: Callable[P, T]) -> Callable[P, T]:
    """Run a method again whose one transaction was rolled back in favour of another. The method
    must do nothing else that cannot be done twice."""

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            try:
                return method(*args, **kwargs)
            except StoreBusy as error:
                if not isinstance(error.__cause__, Conflict):
                    raise
        return method(*args, **kwargs)

    return run


class _SingleStatements(Statements):
    def __init__(
        self,
        database: Database,
        scope: Scope | str | None,
        values: dict[str, Any],
        *,
        shared: bool = False,
    ) -> None:
        self._database = database
        self._shared = shared
        self._scope = scope
        self._values = values

    def all(self, sql: LiteralString, /, **values: Any) -> list[Row]:
        check_cancelled()
        bound = {**self._values, **values}
        return self._database.read_once(self._scope, sql, bound, shared=self._shared)

    @retry_on_conflict
    def execute(self, sql: LiteralString, /, **values: Any) -> int:
        with self._database.write(self._scope, **self._values) as session:
            return session.execute(sql, **values)


class Part:
    """A part of the store: methods that run statements on the database."""

    _db: Database
    _clock: Clock


def scope_values(scope: Scope | str | None) -> dict[str, Any]:
    """Return what statements of a scope are bound to: the world's id, and the generation."""
    if isinstance(scope, Scope):
        return {"world": scope.world, "generation": scope.generation.number}
    return {"world": scope}


_WORLD_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_world_id(text: str) -> bool:
    """Say whether a text is spelled like the id of a world."""
    # As `str(UUID(text))` spells it.
    return isinstance(text, str) and _WORLD_ID.fullmatch(text) is not None


def world_ids(session: Session) -> list[str]:
    """Return the ids of all worlds, in the order in which a transaction must enter them."""
    return [row[0] for row in session.all("SELECT WORLD_TEXT(d) FROM directory d ORDER BY 1")]


_MACROS = re.compile(r"\b((?:NOT )?IN LIST|[A-Z_]+)\(([^()]*)\)")


def expand_macros(sql: str, spellings: Mapping[str, str]) -> str:
    """Replace the macros of a statement by what an engine understands."""

    def expand(found: re.Match[str]) -> str:
        spelling = spellings.get(found[1])
        arguments = (part.strip() for part in found[2].split(","))
        return found[0] if spelling is None else spelling.format(*arguments)

    return _MACROS.sub(expand, sql)


def update_clause(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return what turns an insert into an update where the key exists; nothing without a key."""
    if not key:
        return ""
    others = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f" ON CONFLICT ({', '.join(key)}) DO " + (
        f"UPDATE SET {others}" if others else "NOTHING"
    )
