"""A PostgreSQL server: connecting to it, its errors, what must hold of it, and the store's setup.

The tables are made by command by the role that owns the database. The application connects as
another role, which can change neither tables nor policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolTimeout

from truespan.core.disk import require_descriptor
from truespan.errors import (
    InvalidArgument,
    InvalidConfiguration,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    StoreOutdated,
    StoreUnavailable,
    StoreUnsafe,
    TruespanError,
)
from truespan.store.engines.session import Conflict, DuplicateRow, InvalidRow, MissingRow, Row
from truespan.store.migrations import newest_version, pending_migrations
from truespan.types.maintenance import Check, Verdict
from truespan.types.token import Secret

Connection: TypeAlias = psycopg.Connection[Row]

WORLD_ROLE: Final = "truespan_worlds"
"""Sees the tables of worlds, one world at a time, and nothing else."""
SHARED_ROLE: Final = "truespan_shared"
"""Sees the tables that belong to no world, and nothing else."""
WORLD_SCHEMA: Final = "truespan"
SHARED_SCHEMA: Final = "truespan_shared"
MAINTAINABLE_SINCE: Final = 170_000
"""The version since which a role can maintain tables that it does not own."""
LOST: Final = "The connection to the store was lost."
UNREACHABLE: Final = "The store's server cannot be reached."

OLDEST_MAJOR = 13
SAFE_FROM = {13: 22, 14: 19, 15: 14, 16: 10, 17: 6}
"""The first release of each version in which no way around row security is known: those before
showed hidden rows through reused plans (CVE-2024-10976) or statistics (CVE-2025-8713)."""

_LOCK = 0x7472_7565_7370
"""The advisory lock under which steps are applied, by one process at a time."""

_REFUSALS: Final = {
    "password authentication failed": "its password was refused",
    "no password supplied": "it needs a password",
    "permission denied for database": "its role is not one that may connect to it",
    "no pg_hba.conf entry": "the server does not let it in from here",
    "does not exist": "there is no such database or role",
    "SSL": "no encrypted connection was agreed on",
    "Name or service not known": "its host name is unknown",
}
"""Parts of the driver's messages, and why a connection failed in words of our own."""

_ROLE = """
    SELECT r.rolsuper, r.rolbypassrls,
      EXISTS (SELECT 1 FROM pg_roles o WHERE (o.rolsuper OR o.rolbypassrls)
        AND pg_has_role(r.oid, o.oid, 'MEMBER')),
      EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('truespan', 'truespan_shared', 'truespan_queue')
          AND pg_has_role(r.oid, c.relowner, 'MEMBER')),
      r.rolcreaterole OR has_database_privilege(r.oid, current_database(), 'CREATE')
        OR EXISTS (SELECT 1 FROM pg_namespace n
          WHERE n.nspname IN ('truespan', 'truespan_shared', 'truespan_queue')
            AND has_schema_privilege(r.oid, n.oid, 'CREATE'))
    FROM pg_roles r WHERE r.rolname = session_user
"""
_ROLE_PROBLEMS = (
    "is a superuser, which no policy binds",
    "has BYPASSRLS, so that no policy binds it",
    "is a member of a role that no policy binds",
    "owns tables of the store, or is a member of the role that does",
    "may create things in the database, or roles",
)
"""What each column of `_ROLE` means where it is true."""

_UNPROTECTED = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'truespan' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT (c.relrowsecurity AND c.relforcerowsecurity
        AND 1 = (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid
          AND p.polpermissive AND p.polcmd = '*' AND p.polroles = '{0}'
          AND pg_get_expr(p.polqual, c.oid) ~ %(policy)s
          AND pg_get_expr(p.polwithcheck, c.oid) ~ %(policy)s)
        AND 1 = (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid))
    ORDER BY 1
"""
_POLICY_CONDITION = (
    r"^\(world_id = "
    r"\(?NULLIF\(current_setting\('truespan\.world'::text, true\), ''::text\)\)?::uuid\)$"
)
"""How PostgreSQL spells the one condition that we make policies of."""


@contextmanager
def map_errors() -> Iterator[None]:
    """Turn the engine's errors into ours. Its messages are dropped: they quote values."""
    try:
        yield
    except (pg.SerializationFailure, pg.DeadlockDetected):
        raise StoreBusy from Conflict()
    except (pg.LockNotAvailable, pg.QueryCanceled, pg.IdleInTransactionSessionTimeout) as error:
        raise StoreBusy from error
    except PoolTimeout as error:
        require_descriptor()
        raise StoreBusy("Every connection to the store is in use, or none can be had.") from error
    except pg.DiskFull as error:
        raise StorageFull(place="the store's server") from error
    except (pg.DataCorrupted, pg.IndexCorrupted) as error:
        raise StoreDamaged(
            "The store's database is damaged.", advice="Restore the database from a backup."
        ) from error
    except (pg.NumericValueOutOfRange, pg.ProgramLimitExceeded):
        raise InvalidArgument("A number or a name is larger than any that is kept.") from None
    except (UnicodeEncodeError, pg.UntranslatableCharacter, pg.CharacterNotInRepertoire):
        raise InvalidArgument("A name or a text is not valid Unicode.") from None
    except psycopg.DataError as error:
        if error.sqlstate is None:
            # A code point that the texts of this engine cannot hold: nothing in the store has it.
            raise InvalidArgument("A name or a text holds a character that is no text.") from None
        if isinstance(error, pg.InvalidTextRepresentation):
            raise InvalidRow from error
        raise
    except pg.UniqueViolation as error:
        raise DuplicateRow from error
    except pg.ForeignKeyViolation as error:
        raise MissingRow from error
    except pg.IntegrityError as error:
        raise InvalidRow from error
    except pg.TooManyConnections as error:
        raise StoreBusy(
            "The store's server accepts no more connections.",
            advice="Try again in a moment, or raise max_connections there.",
        ) from error
    except (pg.InsufficientResources, pg.OutOfMemory, pg.ConfigurationLimitExceeded) as error:
        raise StoreBusy(
            "The store's server has no memory or other resources left for this.",
            advice="Try again in a moment, or give the server more.",
        ) from error
    except pg.IoError as error:
        raise StoreBusy(
            "The store's server cannot read or write its files (I/O error).",
            advice="Check the disk of the server, then try again.",
        ) from error
    except pg.CannotConnectNow as error:
        raise StoreBusy(UNREACHABLE) from error
    except pg.ReadOnlySqlTransaction as error:
        raise StoreBusy("The store's server takes no writes at this time.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        require_descriptor()
        raise StoreBusy(LOST) from error


def is_foreign_key_violation(error: BaseException | None) -> bool:
    """Say whether a row was refused because the row that it refers to is gone."""
    return isinstance(error, pg.ForeignKeyViolation)


def connect(url: Secret, purpose: str, seconds: float | None = None) -> Connection:
    """Return a connection outside any pool, whose statements may take so many seconds. Raises
    `StoreUnavailable`: the server does not answer. `InvalidConfiguration`: it refuses this name and
    password. The message holds nothing of the address."""
    try:
        connection = psycopg.connect(url.reveal(), autocommit=True, connect_timeout=10)
    except psycopg.ProgrammingError:
        raise InvalidConfiguration(f"{purpose} is no address of a PostgreSQL database.") from None
    except psycopg.OperationalError as error:
        require_descriptor()
        message = str(error)
        reason = next((words for sign, words in _REFUSALS.items() if sign in message), None)
        if reason is None:
            raise StoreUnavailable(f"The database of {purpose} does not answer.") from None
        raise InvalidConfiguration(
            f"The database of {purpose} cannot be connected to: {reason}.",
            advice="Check host, port, name and password, and that the server runs.",
        ) from None
    if seconds is not None:
        connection.execute(
            """SELECT set_config('statement_timeout', %(limit)s, false),
                 set_config('lock_timeout', %(limit)s, false)""",
            {"limit": f"{int(seconds * 1000)}ms"},
        )
    return connection


def as_role(url: Secret, role: str, schema: str) -> str:
    """Return an address whose connections act as a role from their beginning, in one schema."""
    given = conninfo_to_dict(url.reveal())
    bound = f"-c search_path={schema},pg_temp -c role={role}"
    options = f"{given.get('options') or ''} {bound}".strip()
    return make_conninfo(**{**given, "options": options, "connect_timeout": "10"})


def role_of(url: Secret) -> str:
    """Return the role that an address names; it is no secret."""
    try:
        name = conninfo_to_dict(url.reveal()).get("user")
    except psycopg.ProgrammingError:
        raise InvalidConfiguration("store_url is no address of a PostgreSQL database.") from None
    if not name:
        raise InvalidConfiguration("store_url must name the role that the application connects as.")
    return str(name)


def require_usable(url: Secret, seconds: float = 30.0) -> None:
    """Refuse a database that does not separate worlds, or that has tables of another version.

    Raises:
        StoreBusy: it did not answer in time; its tables may be locked.
        InvalidConfiguration: it cannot be connected to.
        StoreUnsafe: its version, our role or its policies are wrong; the message says what to do.
        StoreOutdated, LibraryTooNew, LibraryTooOld: its tables are those of another version.
    """
    with connect(url, "store_url", seconds) as connection, map_errors():
        require_known_version(connection.info.server_version)
        require_bound_role(connection)
        try:
            found = found_schema(connection)
        except pg.InsufficientPrivilege:
            raise InvalidConfiguration(
                "The role of store_url has no rights to the tables of the store.",
                advice="Run 'truespan prepare-store', which gives them.",
            ) from None
        if pending_migrations("postgres", found):
            raise StoreOutdated(found, newest_version("postgres"))
        require_closed_database(connection)
        require_policies(connection)


def found_schema(connection: Connection) -> int:
    """Return the version of the last applied migration; 0 for a database without tables."""
    missing = connection.execute("SELECT to_regclass('truespan_shared.schema_steps') IS NULL")
    if missing.fetchall() == [(True,)]:
        return 0
    return connection.execute(
        "SELECT coalesce(max(number), 0) FROM truespan_shared.schema_steps"
    ).fetchall()[0][0]


def require_known_version(number: int) -> None:
    """Refuse versions in which row security is known to leak; 17.6 is given as 170006."""
    major, minor = divmod(number, 10_000)
    if major < OLDEST_MAJOR:
        raise StoreUnsafe(
            f"PostgreSQL {major} is too old to keep worlds apart.",
            advice=f"Use version {max(SAFE_FROM)}.{SAFE_FROM[max(SAFE_FROM)]} or later.",
        )
    if minor < SAFE_FROM.get(major, 0):
        raise StoreUnsafe(
            f"PostgreSQL {major}.{minor} is known to show rows that a policy hides.",
            advice=f"Update it to {major}.{SAFE_FROM[major]} or later.",
        )


def require_bound_role(connection: Connection) -> None:
    """Refuse a role that policies do not bind, or that could change them, with `StoreUnsafe`."""
    [row] = connection.execute(_ROLE).fetchall()
    for found, problem in zip(row, _ROLE_PROBLEMS, strict=True):
        if found:
            raise StoreUnsafe(
                f"The role of store_url {problem}.",
                advice="Give store_url a role of its own, as in docs/several-machines.md.",
            )


def require_closed_database(connection: Connection) -> None:
    """Refuse a database that every role of the server may connect to. Raises `StoreUnsafe`: the
    application of another library on the same server could read this one."""
    if connection.execute(
        """SELECT 1 FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
           WHERE d.datname = current_database() AND a.grantee = 0
             AND a.privilege_type = 'CONNECT'"""
    ).fetchall():
        raise StoreUnsafe(
            "Every role of the server may connect to the database of store_url.",
            advice="Run 'truespan prepare-store', which lets only the named ones in.",
        )


def require_policies(connection: Connection) -> None:
    """Refuse a database in which a table of worlds is not under our policy, forced, and it alone.
    Raises `StoreUnsafe`: naming the tables."""
    rows = connection.execute(_UNPROTECTED, {"policy": _POLICY_CONDITION}).fetchall()
    if rows:
        names = ", ".join(row[0] for row in rows)
        raise StoreUnsafe(
            f"These tables are not kept apart by world: {names}.",
            advice="Undo what changed their policies, or run 'truespan prepare-store'.",
        )


def check_server(connection: Connection) -> list[Check]:
    """Return the checks of the server, of our role, and of what keeps worlds apart."""
    version = connection.execute("SHOW server_version").fetchall()[0][0]
    tables = connection.execute(
        """SELECT count(*) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'truespan'"""
    ).fetchall()[0][0]
    forced = f"forced on all {tables} tables that hold anything of a world"
    requirements: tuple[tuple[str, Callable[[Connection], None], str], ...] = (
        (
            "database",
            lambda found: require_known_version(found.info.server_version),
            f"answers, PostgreSQL {version}",
        ),
        ("database role", require_bound_role, "is bound by every policy, and owns nothing"),
        ("database access", require_closed_database, "are open to named roles alone"),
        ("row security", require_policies, forced),
    )
    checks = []
    for name, require, passed in requirements:
        try:
            require(connection)
            checks.append(Check(name, Verdict.OK, passed))
        except TruespanError as error:
            checks.append(Check(name, Verdict.PROBLEM, error.message, error.advice))
    return checks


class Prepared(NamedTuple):
    """What became of a store's tables."""

    before: int
    now: int


def prepare_store(
    owner: Secret, application: str, also: Callable[[Connection, str], None] | None = None
) -> Prepared:
    """Make or update the tables, and give the application's role the rights it needs, no more.

    Everything is one transaction, including what `also` does.

    Raises:
        InvalidConfiguration: the owner cannot be connected as, or may not do it.
        LibraryTooNew, LibraryTooOld: the tables are those of another version.
        StoreUnsafe: worlds would not be kept apart: by this server, or for this role.
    """
    with connect(owner, "store_owner_url") as connection:
        require_known_version(connection.info.server_version)
        try:
            with map_errors(), connection.transaction():
                prepared = _prepare(connection, application)
                if also is not None:
                    also(connection, application)
                return prepared
        except pg.InsufficientPrivilege:
            raise InvalidConfiguration(
                "The role of store_owner_url may not make the schemas, roles or grants.",
                advice=(
                    "Let it own the database and have CREATEROLE. Where another role made those of "
                    "a library on the same server, use that one, or a superuser."
                ),
            ) from None


def _prepare(connection: Connection, application: str) -> Prepared:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    # One role must not make the tables and use them: an owner is not bound by policies.
    found = connection.execute(
        "SELECT rolname = current_user, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s",
        (application,),
    ).fetchall()
    if not found:
        raise InvalidConfiguration(
            "There is no role of the name in store_url.",
            advice="Make it first, as in docs/several-machines.md.",
        )
    if any(found[0]):
        raise StoreUnsafe(
            "The role of store_url owns the tables, or is bound by no policy.",
            advice="Give store_url a role of its own: no owner, no superuser, no BYPASSRLS.",
        )
    for role in (WORLD_ROLE, SHARED_ROLE):
        make_role(connection, role)
    for schema in (WORLD_SCHEMA, SHARED_SCHEMA):
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    connection.execute(
        """CREATE TABLE IF NOT EXISTS truespan_shared.schema_steps (
             number integer PRIMARY KEY,
             name text NOT NULL,
             applied_at timestamptz NOT NULL DEFAULT now()
           )"""
    )
    before = found_schema(connection)
    connection.execute("SET LOCAL search_path = truespan, pg_temp")
    for version, name, script in pending_migrations("postgres", before):
        connection.execute(script)
        connection.execute(
            "INSERT INTO truespan_shared.schema_steps (number, name) VALUES (%s, %s)",
            (version, name),
        )
    _protect(connection)
    _grant(connection, application)
    admit_only(connection, application)
    return Prepared(before, newest_version("postgres"))


def make_role(connection: Connection, role: str) -> None:
    """Make a role without login, unless it exists."""
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall():
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))


def _protect(connection: Connection) -> None:
    """Put every table of worlds under the policy, as the catalogue lists them."""
    rows = connection.execute(
        """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'truespan' AND c.relkind IN ('r', 'p')
             AND NOT EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid)
           ORDER BY 1"""
    ).fetchall()
    for (name,) in rows:
        for statement in (
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            # A setting of an earlier transaction is blank, and not absent.
            """CREATE POLICY own_world ON {table}
               USING (world_id = nullif(current_setting('truespan.world', true), '')::uuid)
               WITH CHECK (world_id = nullif(current_setting('truespan.world', true), '')::uuid)""",
        ):
            table = sql.Identifier(WORLD_SCHEMA, name)
            connection.execute(sql.SQL(statement).format(table=table))


def _grant(connection: Connection, application: str) -> None:
    """Give rows to both roles, and both roles to the application; no right to any definition."""
    for schema, role in ((WORLD_SCHEMA, WORLD_ROLE), (SHARED_SCHEMA, SHARED_ROLE)):
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        for statement in (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        ):
            connection.execute(sql.SQL(statement).format(**names))
        add_member(connection, role, application)
    if connection.info.server_version >= MAINTAINABLE_SINCE:
        connection.execute("GRANT MAINTAIN ON ALL TABLES IN SCHEMA truespan TO truespan_worlds")
    connection.execute(
        "REVOKE INSERT, UPDATE, DELETE ON truespan_shared.schema_steps FROM truespan_shared"
    )


def admit_only(connection: Connection, application: str) -> None:
    """Let the application connect to the database, and others only if they are named. Roles belong
    to the whole server. Those of another library on it may act as ours; they are kept from our rows
    because they cannot connect."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(application))
    )


def add_member(connection: Connection, role: str, application: str) -> None:
    """Let the application's role act as another."""
    has_role = "SELECT pg_has_role(%s, %s, 'MEMBER')"
    if connection.execute(has_role, (application, role)).fetchall() != [(True,)]:
        connection.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(application))
        )
