"""The interface between the statements of the store and the two engines that run them.

Statements are SQL that both engines understand, with named parameters (`:document`); `:world` and
`:generation` are those of the scope. Where the engines differ, statements use macros, which each
engine expands with one small table:

    BYTES(c.text)          the bytes of a stored text
    PART(t.text, :a, :n)   the bytes of `n` code points of a stored text, from code point `a`
    UNINDEXED(s.world_id)  a column that SQLite must not use an index for
    IN LIST(:ids)          membership in a list that is bound as one value
    NOT IN LIST(:ids)      no membership in a list
    WORLD_TEXT(d)          the id of a world as text, from a row of `directory`
    IS_WORLD(d, :id)       whether a row of `directory` has this world id; NULL without an id
    FROM_BYTES(:text)      the value of a stored text, from its bytes
    LOCK_ROWS()            after a SELECT: lock its rows until the transaction ends
    SEEN(r)                whether the audience of the scope sees a row of `revisions`

`directory` is the table of all worlds with their names. Booleans are bound as `bool` and read with
`bool(...)`. A value whose type PostgreSQL cannot infer is written as `CAST(:language AS TEXT)`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Generic, LiteralString, ParamSpec, TypeAlias, TypeVar

from truespan.errors import StoreBusy
from truespan.protocols import Clock
from truespan.types.audience import EVERYONE
from truespan.types.maintenance import Check, FileTreatment
from truespan.types.scope import Scope, Unlimited

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
"""Tables that belong to no world; row security does not apply to them."""

_MAX_TRIES = 6

BRIEF_WAIT = 1.0
"""Seconds that a request waits for other writers if its response does not depend on the write."""


# These four are caught inside the store.


class DuplicateRow(Exception):
    """A row with the same unique key exists."""


class MissingRow(Exception):
    """A row refers to a row that does not exist."""


class InvalidRow(Exception):
    """A row breaks another constraint of its table."""


class Conflict(Exception):
    """The cause of a `StoreBusy` whose transaction was rolled back in favour of another one."""


class Statements(ABC):
    """Runs statements, in one transaction or each in its own.

    `:world` and `:generation` are bound to those of the scope.
    """

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
        """Run a statement and return the number of changed rows."""


class Session(Statements):
    """One transaction, and in it one world at a time."""

    world: Any
    """The key of the current world in the tables."""

    @abstractmethod
    def stream(self, sql: LiteralString, /, *, page: int, **values: Any) -> Iterator[Row]:
        """Run a statement and yield its rows, with at most `page` of them in memory."""

    @abstractmethod
    def execute_many(self, sql: LiteralString, rows: Iterable[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of values."""

    @abstractmethod
    def insert_many(
        self, table: str, columns: Sequence[str], rows: Rows, *, key: Sequence[str] = ()
    ) -> None:
        """Insert rows in bulk; with `key`, a row with the same key is updated instead.

        If the table has a world column, the world is added to the rows and to the key. A generator
        of rows must not run statements.
        """

    def insert(self, table: str, /, *, key: Sequence[str] = (), **values: Any) -> None:
        """Insert one row; with `key`, a row with the same key is updated instead."""
        self.insert_many(table, tuple(values), [tuple(values.values())], key=key)

    @abstractmethod
    def insert_returning(self, column: str, table: str, /, **values: Any) -> Any:
        """Insert one row and return one of its columns, such as the generated key."""

    @abstractmethod
    def text(self, text: str) -> Any:
        """Return the value of a column that is read with `BYTES`."""

    @abstractmethod
    def enter(self, world: str, *, lock: bool = False) -> None:
        """Continue the transaction in another world; with `lock`, exclude other writers of it."""

    @abstractmethod
    def create_world(
        self,
        world: str,
        name: str,
        created_at: float,
        defaults: str,
        audience: str | None,
        checksum: bytes,
    ) -> None:
        """Write the rows of a new world; raises DuplicateRow if another world has its name."""

    @abstractmethod
    def in_each(
        self, worlds: Sequence[str], sql: LiteralString, /, **values: Any
    ) -> list[list[Row]]:
        """Run a statement in each of several worlds; a missing world has no rows."""

    # Three methods do nothing on SQLite, where a write transaction has the database for itself.

    def lock_name(self, purpose: str, name: str) -> None:
        """Take a named lock until the transaction ends; wait while another one holds it."""

    def lock_directory(self) -> None:
        """Let no other transaction create a world until this one ends."""

    def disable_timeout(self, *, idle: bool = False) -> None:
        """Remove the time limit of statements; with `idle`, also the limit between statements."""

    @abstractmethod
    def count_deleted(self) -> AbstractContextManager[dict[str, int]]:
        """Count the rows that each table loses inside the block, including cascades.

        The tables are read from the database's catalogue, so that new tables are counted.
        """

    def touch_world(self) -> None:
        """Record a change that a reader of the world could see."""
        self.execute("UPDATE worlds SET changes = changes + 1 WHERE world_id = :world")


class Database(ABC):
    """Runs transactions and single statements, each for a scope or for the id of a world.

    Values are bound to every statement of a transaction. If the world does not exist, a transaction
    raises `NotFound`, and a single statement has no rows. With `shared`, statements may also
    use tables that belong to no world.
    """

    @abstractmethod
    def at(self, scope: Scope | str | None, *, shared: bool = False, **values: Any) -> Statements:
        """Return a runner of single statements with these values, each in one round trip.

        They are run for a scope, or on shared tables if the scope is None.
        """

    @property
    def shared(self) -> Statements:
        """A runner of single statements on tables that belong to no world."""
        return self.at(None)

    @abstractmethod
    def read(
        self, scope: Scope | str | None, *, shared: bool = False, **values: Any
    ) -> AbstractContextManager[Session]:
        """Begin a transaction whose statements all see one state of one world."""

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
        """Begin a write transaction for one world, which is committed whole or not at all.

        Writers of one world wait for each other unless `lock` is False. With `bulk`, tables that
        have grown a lot are analysed afterwards. `wait` is the maximum number of seconds to wait
        for other writers before `StoreBusy` is raised; 0 does not wait.
        """

    def write_shared(self) -> AbstractContextManager[Session]:
        """Begin a write transaction for tables that belong to no world."""
        return self.write(None)

    def read_every_world(self) -> AbstractContextManager[Session]:
        """Begin a transaction that sees one state of all worlds; `enter` selects one of them."""
        return self.read(None, shared=True)

    def write_every_world(self) -> AbstractContextManager[Session]:
        """Begin a write transaction for all worlds; `enter` selects one of them."""
        return self.write(None, shared=True)

    @abstractmethod
    def map_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the engine into ours, as every transaction does when it ends."""

    @abstractmethod
    def size(self) -> int:
        """Return the approximate size of the database in bytes."""

    @abstractmethod
    def rewrite(self) -> FileTreatment:
        """Remove leftovers of deleted rows from the files of the engine, as far as possible."""

    @abstractmethod
    def check(self) -> list[Check]:
        """Return the checks of the engine's files, or of its server and our role there."""

    def release_thread(self) -> None:
        """Close the connection that belongs to this thread, if each thread has its own."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""


def retry_on_conflict(method: Callable[P, T]) -> Callable[P, T]:
    """Repeat a method whose transaction was rolled back in favour of another one.

    Apart from its one transaction, the method must be idempotent.
    """

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_MAX_TRIES - 1):
            try:
                return method(*args, **kwargs)
            except StoreBusy as error:
                if not isinstance(error.__cause__, Conflict):
                    raise
        return method(*args, **kwargs)

    return run


DatabaseT = TypeVar("DatabaseT", bound=Database)


@dataclass(slots=True)
class SingleStatements(Statements, Generic[DatabaseT]):
    """Runs statements, each in its own transaction."""

    database: DatabaseT
    scope: Scope | str | None
    values: dict[str, Any]
    both: bool
    """Whether statements may also use tables that belong to no world."""

    @retry_on_conflict
    def execute(self, sql: LiteralString, /, **values: Any) -> int:
        with self.database.write(self.scope, **self.values) as session:
            return session.execute(sql, **values)


class Part:
    """Base class of the parts of the store, whose methods run statements on the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock


def scope_values(scope: Scope | str | None) -> dict[str, Any]:
    """Return the values that statements of a scope are bound to: world, generation, audience."""
    if not isinstance(scope, Scope):
        return {"world": scope, "caller": ALL_AUDIENCES}
    caller = scope_audience(scope) if scope.is_limited else ALL_AUDIENCES
    return {"world": scope.world, "generation": scope.generation.number, "caller": caller}


ALL_AUDIENCES: Final = "*"
"""Audience of a scope with all documents. No list of labels equals it: each has `everyone`."""


def scope_audience(scope: Scope) -> str:
    """Return the labels of the caller, one in each line, with that of documents for everyone."""
    labels = scope.authority.audience
    if isinstance(labels, Unlimited):
        return ALL_AUDIENCES
    return "\n".join([EVERYONE, *sorted(labels - {EVERYONE})])


_WORLD_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_world_id(text: str) -> bool:
    """Return whether a text has the format of a world id, which is that of `str(UUID)`."""
    return isinstance(text, str) and _WORLD_ID.fullmatch(text) is not None


def world_ids(session: Session) -> list[str]:
    """Return the ids of all worlds, in the order in which transactions must enter them."""
    return [row[0] for row in session.all("SELECT WORLD_TEXT(d) FROM directory d ORDER BY 1")]


_MACROS = re.compile(r"\b((?:NOT )?IN LIST|[A-Z_]+)\(([^()]*)\)")


def expand_macros(sql: str, spellings: Mapping[str, str]) -> str:
    """Expand the macros of a statement to the SQL of an engine."""

    def expand(found: re.Match[str]) -> str:
        spelling = spellings.get(found[1])
        arguments = (part.strip() for part in found[2].split(","))
        return found[0] if spelling is None else spelling.format(*arguments)

    return _MACROS.sub(expand, sql)


def update_clause(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the clause that updates a row whose key exists; empty without a key."""
    if not key:
        return ""
    others = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f" ON CONFLICT ({', '.join(key)}) DO " + (
        f"UPDATE SET {others}" if others else "NOTHING"
    )
