"""Connections to PostgreSQL: pooled, each transaction for one world, errors mapped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, LiteralString, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from truespan.errors import (
    InvalidConfiguration,
    InvalidSettings,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    WorldNotFound,
)
from truespan.types.token import Secret

WORLD_ROLE: Final = "truespan_worlds"
"""Sees the tables of worlds, one world at a time, and nothing else."""
SHARED_ROLE: Final = "truespan_shared"
"""Sees what belongs to no world, and nothing else."""
BOTH: Final = "none"
"""Neither of the two roles: whoever is connected, who has the rights of both."""

Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = tuple[Any, ...]
Bindings: TypeAlias = Sequence[Any] | dict[str, Any]

_ENTER = "SELECT set_config('truespan.world', %s, true), set_config('role', %s, true)"
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
_TRIES = 6
_MAINTAINED_SINCE = 170000
_LOST = "The connection to the store was lost."
_UNREACHABLE = "The store's server cannot be reached."

# Who wants its lines asks for them; without a handler Python would print them, addresses included.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is, and how long it may take to answer."""

    url: Secret
    pool_size: int = 8
    timeout_seconds: float = 30.0


def again_on_conflict(method: Callable[P, T]) -> Callable[P, T]:
    """Run a method with one transaction again if that was rolled back for another's sake.

    It may do nothing else that could not be done twice.
    """

    @wraps(method)
    def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            try:
                return method(*args, **kwargs)
            except StoreBusy as error:
                if not isinstance(error.__cause__, _CONFLICTS):
                    raise
        return method(*args, **kwargs)

    return tried


class Connections:
    """Gives connections for one transaction at a time, each of which belongs to one world.

    The world is set inside the transaction and ends with it, whatever becomes of it, so that
    nothing of one request can be left on a connection for the next.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._opened: ConnectionPool[Session] | None = None
        self._lock = threading.Lock()

    @property
    def _pool(self) -> ConnectionPool[Session]:
        """The pool, which is opened when it is first needed, and again after it was closed."""
        with self._lock:
            if self._opened is None:
                self._opened = _pool_of(self._address)
            return self._opened

    @contextmanager
    def reading(self, world: str, role: str = WORLD_ROLE) -> Iterator[Session]:
        """Give a connection whose statements all see one state of one world."""
        with mapped_errors(), self._begun(role, world, reading=True) as session:
            yield session

    @contextmanager
    def writing(self, world: str, role: str = WORLD_ROLE) -> Iterator[Session]:
        """Give a connection inside one write transaction for one world: all of it, or nothing."""
        with mapped_errors(), self._begun(role, world) as session:
            yield session

    @contextmanager
    def sharing(self, role: str = SHARED_ROLE) -> Iterator[Session]:
        """Give a connection for what belongs to no world; rows of worlds are not to be seen."""
        with mapped_errors(), self._begun(role, "") as session:
            yield session

    @contextmanager
    def surveying(self) -> Iterator[Session]:
        """Give a connection that sees one state of all that there is, one world after the other."""
        with mapped_errors(), self._begun(BOTH, "", reading=True) as session:
            yield session

    def query(self, world: str, sql: LiteralString, bindings: Bindings = ()) -> list[Row]:
        """Run one reading statement for one world; it is consistent in itself."""
        return self._ask(WORLD_ROLE, _known(world), sql, bindings)

    def query_shared(self, sql: LiteralString, bindings: Bindings = ()) -> list[Row]:
        """Run one reading statement on what belongs to no world."""
        return self._ask(SHARED_ROLE, "", sql, bindings)

    def vacuum(self) -> bool:
        """Have deleted rows removed from the tables of worlds; say whether our role may ask so."""
        return self._maintain("VACUUM")

    def analyze(self) -> bool:
        """Have the server look at how much its tables hold; say whether our role may ask so."""
        return self._maintain("ANALYZE")

    def _maintain(self, statement: LiteralString) -> bool:
        try:
            with mapped_errors(), connected(self._address.url, "store_url") as session:
                # Before that version nobody but their owner may maintain tables.
                if session.info.server_version < _MAINTAINED_SINCE or not _maintains(session):
                    return False
                # Tables that are not ours to maintain are passed over by the server itself.
                session.execute(statement)
                return True
        except InvalidConfiguration as error:
            # The address was good when the store was opened.
            raise StoreBusy(_UNREACHABLE) from error

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            pool, self._opened = self._opened, None
        if pool is not None:
            pool.close()

    def _ask(self, role: str, world: str, sql: LiteralString, bindings: Bindings) -> list[Row]:
        try:
            return self._asked(role, world, sql, bindings)
        except StoreBusy as error:
            if error.message != _LOST:
                raise
            # A server that was started again has closed every connection: look through them all.
            self._pool.check()
            return self._asked(role, world, sql, bindings)

    def _asked(self, role: str, world: str, sql: LiteralString, bindings: Bindings) -> list[Row]:
        with mapped_errors(), self._pool.connection() as session:
            _prepare(session, reading=True)
            # Sent together, and waited for once.
            with session.pipeline(), session.transaction():
                session.execute(_ENTER, (world, role))
                cursor = session.execute(sql, bindings)
            return cursor.fetchall()

    @contextmanager
    def _begun(self, role: str, world: str, *, reading: bool = False) -> Iterator[Session]:
        known = _known(world) if world else world
        with self._pool.connection() as session:
            _prepare(session, reading=reading)
            with session.transaction():
                session.execute(_ENTER, (known, role))
                yield session


def enter(session: Session, world: str) -> None:
    """Go on in the same transaction with another world; for what is done in each world in turn."""
    session.execute(_ENTER, (_known(world), BOTH))


def be_patient(session: Session) -> None:
    """Let the statements of this transaction take as long as they do: a large world is large."""
    session.execute("SELECT set_config('statement_timeout', '0', true)")


def fetch(session: Session, sql: LiteralString, bindings: Bindings = ()) -> list[Row]:
    """Run a statement and return its rows."""
    return session.execute(sql, bindings).fetchall()


def change(session: Session, sql: LiteralString, bindings: Bindings = ()) -> int:
    """Run a statement and return how many rows it touched."""
    return session.execute(sql, bindings).rowcount


def change_each(session: Session, sql: LiteralString, bindings: Sequence[Bindings]) -> None:
    """Run a statement once for each of many bindings."""
    if bindings:
        session.cursor().executemany(sql, bindings)


def names_nobody(error: BaseException | None) -> bool:
    """Say whether a row was refused because what it refers to is gone."""
    return isinstance(error, pg.ForeignKeyViolation)


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn the engine's errors into ours. None of its own messages is kept: they quote values."""
    try:
        yield
    except _CONFLICTS as error:
        raise StoreBusy from error
    except (pg.LockNotAvailable, pg.QueryCanceled, pg.IdleInTransactionSessionTimeout) as error:
        raise StoreBusy from error
    except PoolTimeout as error:
        raise StoreBusy("Every connection to the store is in use, or none can be had.") from error
    except pg.DiskFull as error:
        raise StorageFull(0, 0) from error
    except (pg.DataCorrupted, pg.IndexCorrupted) as error:
        raise StoreDamaged("The store's database is damaged.") from error
    except (pg.NumericValueOutOfRange, pg.ProgramLimitExceeded):
        raise InvalidSettings("A number or a name is larger than any that is kept.") from None
    except (UnicodeEncodeError, pg.UntranslatableCharacter, pg.CharacterNotInRepertoire):
        raise InvalidSettings("A name or a text is not valid Unicode.") from None
    except psycopg.DataError as error:
        if error.sqlstate is None:
            # A code point that this engine's texts cannot hold; nothing that is kept has it.
            raise InvalidSettings("A name or a text holds a character that is no text.") from None
        raise
    except (pg.TooManyConnections, pg.CannotConnectNow) as error:
        raise StoreBusy(_UNREACHABLE) from error
    except pg.ReadOnlySqlTransaction as error:
        raise StoreBusy("The store's server takes no writes at this time.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreBusy(_LOST) from error


def connected(url: Secret, purpose: str, seconds: float | None = None) -> Session:
    """Return a connection of one's own, outside any pool; statements may take so many seconds.

    Raises:
        InvalidConfiguration: nobody answers there, or not to this name and password; neither they
            nor anything else of the address is in the message.
    """
    try:
        session = psycopg.connect(url.reveal(), autocommit=True, connect_timeout=10)
    except psycopg.ProgrammingError:
        raise InvalidConfiguration(f"{purpose} is no address of a PostgreSQL database.") from None
    except psycopg.OperationalError as error:
        raise InvalidConfiguration(
            f"The database of {purpose} cannot be connected to: {_why(error)}.",
            advice="Check host, port, name and password, and that the server runs.",
        ) from None
    if seconds is not None:
        limit = f"{int(seconds * 1000)}ms"
        session.execute(
            """SELECT set_config('statement_timeout', %(limit)s, false),
                 set_config('lock_timeout', %(limit)s, false)""",
            {"limit": limit},
        )
    return session


def as_role(url: Secret, role: str, schema: str) -> str:
    """Return an address whose connections act as a role from their beginning, in one schema."""
    given = conninfo_to_dict(url.reveal())
    bound = f"-c search_path={schema},pg_temp -c role={role}"
    options = f"{given.get('options') or ''} {bound}".strip()
    return make_conninfo(**{**given, "options": options, "connect_timeout": "10"})


def _why(error: psycopg.OperationalError) -> str:
    """Say in words of our own why a connection failed."""
    told = str(error)
    for sign, words in {
        "password authentication failed": "its password was refused",
        "no password supplied": "it needs a password",
        "permission denied for database": "its role is not one that may connect to it",
        "no pg_hba.conf entry": "the server does not let it in from here",
        "does not exist": "there is no such database or role",
        "SSL": "no encrypted connection was agreed on",
        "timeout": "the server did not answer in time",
    }.items():
        if sign in told:
            return words
    return "nobody answers there"


def _pool_of(address: Address) -> ConnectionPool[Session]:
    pool: ConnectionPool[Session] = ConnectionPool(
        address.url.reveal(),
        connection_class=psycopg.Connection,
        kwargs={"autocommit": True, "connect_timeout": 10, "application_name": "truespan"},
        configure=_configured(address.timeout_seconds),
        min_size=0,
        max_size=address.pool_size,
        timeout=address.timeout_seconds,
        max_idle=300.0,
        open=False,
        name="truespan",
    )
    pool.open()
    return pool


def _configured(timeout_seconds: float) -> Callable[[Session], None]:
    limit = f"{int(timeout_seconds * 1000)}ms"

    def configure(session: Session) -> None:
        # The last schema is named so that nobody's temporary table can stand for one of ours.
        session.execute(
            """SELECT set_config('search_path', 'truespan, truespan_shared, pg_temp', false),
                 set_config('statement_timeout', %(limit)s, false),
                 set_config('lock_timeout', %(limit)s, false),
                 set_config('idle_in_transaction_session_timeout', %(limit)s, false),
                 set_config('client_encoding', 'UTF8', false)""",
            {"limit": limit},
        )

    return configure


def _maintains(session: Session) -> bool:
    """Say whether our role may have each table of worlds vacuumed."""
    rows = fetch(
        session,
        """SELECT bool_and(has_table_privilege(c.oid, 'MAINTAIN')) FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'truespan' AND c.relkind = 'r'""",
    )
    return bool(rows[0][0])


def _prepare(session: Session, *, reading: bool) -> None:
    """Say how the next transaction begins; nothing is sent."""
    session.read_only = reading
    session.isolation_level = (
        psycopg.IsolationLevel.REPEATABLE_READ if reading else psycopg.IsolationLevel.READ_COMMITTED
    )


def _known(world: str) -> str:
    """Return a world's id as it is; whatever is spelled otherwise is no world of anybody's."""
    try:
        spelled = str(UUID(world))
    except (ValueError, AttributeError):
        raise WorldNotFound(world) from None
    if spelled != world:
        raise WorldNotFound(world)
    return spelled
