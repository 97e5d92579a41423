"""A PostgreSQL server: connections, error mapping, required properties, and setup of the store.

The role that owns the database creates the tables, by command. The application connects as another
role, which can change neither tables nor policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from truespan import errors
from truespan.core.disk import require_descriptor
from truespan.store.engines.session import Conflict, DuplicateRow, InvalidRow, MissingRow, Row
from truespan.store.migrations import newest_version, pending_migrations
from truespan.types.maintenance import Check, Verdict
from truespan.types.token import Secret

Connection: TypeAlias = psycopg.Connection[Row]

WORLD_ROLE: Final = "truespan_worlds"
"""Role that sees the tables of worlds, one world at a time, and nothing else."""
SHARED_ROLE: Final = "truespan_shared"
"""Role that sees the tables that belong to no world, and nothing else."""
WORLD_SCHEMA: Final = "truespan"
SHARED_SCHEMA: Final = "truespan_shared"
MAINTAINABLE_SINCE: Final = 170_000
"""First version in which a role can maintain tables that it does not own."""
LOST: Final = "The connection to the store was lost."
UNREACHABLE: Final = "The store's server cannot be reached."

MIN_MAJOR = 13
SAFE_FROM = {13: 22, 14: 19, 15: 14, 16: 10, 17: 6}
"""First minor release of each version without a known leak of row security. Releases before showed
hidden rows through reused plans (CVE-2024-10976) or statistics (CVE-2025-8713)."""

_STEP_SECONDS: Final = 1.0
"""Maximum wait of a `StoppablePool` for a connection once it is to stop."""
_LOCK = 0x7472_7565_7370
"""Advisory lock that is held while migrations are applied."""

_REFUSALS: Final = {
    "password authentication failed": "its password was refused",
    "no password supplied": "it needs a password",
    "permission denied for database": "its role may not connect to it",
    "no pg_hba.conf entry": "the server does not accept connections from this address",
    "does not exist": "there is no such database or role",
    "SSL": "no encrypted connection could be established",
    "Name or service not known": "its host name is unknown",
}
"""Reasons why a connection failed, by parts of the driver's messages."""

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
    "is a superuser, to whom no policy applies",
    "has BYPASSRLS, so that no policy applies to it",
    "is a member of a role to which no policy applies",
    "owns tables of the store, or is a member of the role that does",
    "may create objects in the database, or roles",
)
"""Problem for each column of `_ROLE` that is true."""

_UNPROTECTED = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'truespan' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT (c.relrowsecurity AND c.relforcerowsecurity
        AND 1 = (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid
          AND p.polpermissive AND p.polcmd = '*' AND p.polroles = '{0}'
          AND pg_get_expr(p.polqual, c.oid) ~ %(policy)s
          AND pg_get_expr(p.polwithcheck, c.oid) ~ %(policy)s)
        AND CASE c.relname WHEN 'revisions' THEN 1 ELSE 0 END
          = (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid
            AND NOT p.polpermissive AND p.polcmd = '*' AND p.polroles = '{0}'
            AND pg_get_expr(p.polqual, c.oid) = %(audience)s
            AND pg_get_expr(p.polwithcheck, c.oid) = %(unlimited)s)
        AND CASE c.relname WHEN 'revisions' THEN 2 ELSE 1 END
          = (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid))
    ORDER BY 1
"""
_POLICY_CONDITION = (
    r"^\(world_id = "
    r"\(?NULLIF\(current_setting\('truespan\.world'::text, true\), ''::text\)\)?::uuid\)$"
)
"""The condition of our policies, as PostgreSQL prints it."""
_UNLIMITED = "(current_setting('truespan.audience'::text, true) = '*'::text)"
"""The condition for all documents of a world, as PostgreSQL prints it."""
_AUDIENCE_CONDITION = (
    f"({_UNLIMITED} OR (string_to_array(audience, chr(10)) && "
    "string_to_array(current_setting('truespan.audience'::text, true), chr(10))))"
)
"""The condition for the revisions that an audience sees. Limited callers write none."""


class StoppablePool(AsyncConnectionPool):
    """A connection pool that does not wait for an unreachable database once `stopping` is true."""

    def __init__(self, stopping: Callable[[], bool], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._is_stopping = stopping

    async def getconn(self, timeout: float | None = None) -> psycopg.AsyncConnection[Any]:
        """Return a connection; raises PoolTimeout."""
        remaining = self.timeout if timeout is None else timeout
        while True:
            # The pool goes on connecting between two steps.
            step = min(remaining, _STEP_SECONDS)
            try:
                return await super().getconn(step)
            except PoolTimeout:
                remaining -= step
                if remaining <= 0 or self._is_stopping():
                    raise


@contextmanager
def map_errors() -> Iterator[None]:
    """Turn errors of the engine into ours. Its messages are dropped, because they quote values."""
    try:
        yield
    except (pg.SerializationFailure, pg.DeadlockDetected):
        raise errors.StoreBusy from Conflict()
    except (pg.LockNotAvailable, pg.QueryCanceled, pg.IdleInTransactionSessionTimeout) as error:
        raise errors.StoreBusy from error
    except PoolTimeout as error:
        require_descriptor()
        raise errors.StoreBusy(
            "All connections to the store are in use, or none can be opened."
        ) from error
    except pg.DiskFull as error:
        raise errors.StorageFull(place="the store's server") from error
    except (pg.DataCorrupted, pg.IndexCorrupted) as error:
        raise errors.StoreDamaged(
            "The store's database is damaged.", advice="Restore the database from a backup."
        ) from error
    except (pg.NumericValueOutOfRange, pg.ProgramLimitExceeded):
        raise errors.InvalidArgument("A number or a name is too large to be stored.") from None
    except (UnicodeEncodeError, pg.UntranslatableCharacter, pg.CharacterNotInRepertoire):
        raise errors.InvalidArgument("A name or a text is not valid Unicode.") from None
    except psycopg.DataError as error:
        if error.sqlstate is None:
            # A code point that `text` columns cannot hold, so nothing stored has it.
            raise errors.InvalidArgument(
                "A name or a text contains a character that cannot be stored."
            ) from None
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
        raise errors.StoreBusy(
            "The store's server accepts no more connections.",
            advice="Try again in a moment, or raise its max_connections.",
        ) from error
    except (pg.InsufficientResources, pg.OutOfMemory, pg.ConfigurationLimitExceeded) as error:
        raise errors.StoreBusy(
            "The store's server has no memory or other resources left.",
            advice="Try again in a moment, or give the server more.",
        ) from error
    except pg.IoError as error:
        raise errors.StoreBusy(
            "The store's server cannot read or write its files (I/O error).",
            advice="Check the disk of the server, then try again.",
        ) from error
    except pg.CannotConnectNow as error:
        raise errors.StoreBusy(UNREACHABLE) from error
    except pg.ReadOnlySqlTransaction as error:
        raise errors.StoreBusy("The store's server is read-only at the moment.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        require_descriptor()
        raise errors.StoreBusy(LOST) from error


def is_foreign_key_violation(error: BaseException | None) -> bool:
    """Return whether a row was refused because the row it refers to is missing."""
    return isinstance(error, pg.ForeignKeyViolation)


def connect(url: Secret, purpose: str, seconds: float | None = None) -> Connection:
    """Return a connection outside any pool; `seconds` is the time limit of its statements.

    Error messages contain nothing of the address.
    """
    try:
        connection = psycopg.connect(url.reveal(), autocommit=True, connect_timeout=10)
    except psycopg.ProgrammingError:
        raise errors.InvalidConfiguration(
            f"{purpose} is not the address of a PostgreSQL database."
        ) from None
    except psycopg.OperationalError as error:
        require_descriptor()
        message = str(error)
        reason = next((words for sign, words in _REFUSALS.items() if sign in message), None)
        if reason is None:
            raise errors.StoreBusy.of(
                "store_unavailable", f"The database of {purpose} does not answer."
            ) from None
        raise errors.InvalidConfiguration(
            f"Cannot connect to the database of {purpose}: {reason}.",
            advice="Check host, port, name and password, and that the server is running.",
        ) from None
    if seconds is not None:
        connection.execute(
            """SELECT set_config('statement_timeout', %(limit)s, false),
                 set_config('lock_timeout', %(limit)s, false)""",
            {"limit": f"{int(seconds * 1000)}ms"},
        )
    return connection


def as_role(url: Secret, role: str, schema: str) -> str:
    """Return an address whose connections act as a role in one schema."""
    given = conninfo_to_dict(url.reveal())
    bound = f"-c search_path={schema},pg_temp -c role={role}"
    options = f"{given.get('options') or ''} {bound}".strip()
    return make_conninfo(**{**given, "options": options, "connect_timeout": "10"})


def role_of(url: Secret) -> str:
    """Return the role in an address."""
    try:
        name = conninfo_to_dict(url.reveal()).get("user")
    except psycopg.ProgrammingError:
        raise errors.InvalidConfiguration(
            "store_url is not the address of a PostgreSQL database."
        ) from None
    if not name:
        raise errors.InvalidConfiguration(
            "store_url must name the role that the application connects as."
        )
    return str(name)


def require_usable(url: Secret, seconds: float = 30.0) -> None:
    """Refuse a database that does not isolate worlds, or that has tables of another version."""
    with connect(url, "store_url", seconds) as connection, map_errors():
        require_known_version(connection.info.server_version)
        require_bound_role(connection)
        try:
            found = found_schema(connection)
        except pg.InsufficientPrivilege:
            raise errors.InvalidConfiguration(
                "The role of store_url has no rights to the tables of the store.",
                advice="Run 'truespan prepare-store', which grants them.",
            ) from None
        if pending_migrations("postgres", found):
            raise errors.SchemaUnknown("store_outdated", found, newest_version("postgres"))
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
    """Refuse versions with known leaks of row security; version 17.6 is 170006."""
    major, minor = divmod(number, 10_000)
    if major < MIN_MAJOR:
        raise errors.InvalidConfiguration.of(
            "store_unsafe",
            f"PostgreSQL {major} is too old to isolate worlds.",
            advice=f"Use version {max(SAFE_FROM)}.{SAFE_FROM[max(SAFE_FROM)]} or later.",
        )
    if minor < SAFE_FROM.get(major, 0):
        raise errors.InvalidConfiguration.of(
            "store_unsafe",
            f"PostgreSQL {major}.{minor} is known to show rows that a policy hides.",
            advice=f"Update it to {major}.{SAFE_FROM[major]} or later.",
        )


def require_bound_role(connection: Connection) -> None:
    """Refuse a role to which policies do not apply, or that could change them."""
    [row] = connection.execute(_ROLE).fetchall()
    for found, problem in zip(row, _ROLE_PROBLEMS, strict=True):
        if found:
            raise errors.InvalidConfiguration.of(
                "store_unsafe",
                f"The role of store_url {problem}.",
                advice="Give store_url a separate role, as in docs/deployment.md.",
            )


def require_closed_database(connection: Connection) -> None:
    """Refuse a database that every role of the server may connect to."""
    if connection.execute(
        """SELECT 1 FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
           WHERE d.datname = current_database() AND a.grantee = 0
             AND a.privilege_type = 'CONNECT'"""
    ).fetchall():
        raise errors.InvalidConfiguration.of(
            "store_unsafe",
            "Every role of the server may connect to the database of store_url.",
            advice="Run 'truespan prepare-store', which admits only named roles.",
        )


_CONDITIONS = {
    "policy": _POLICY_CONDITION,
    "audience": _AUDIENCE_CONDITION,
    "unlimited": _UNLIMITED,
}


def require_policies(connection: Connection) -> None:
    """Require that exactly our policy is forced on every table of worlds."""
    rows = connection.execute(_UNPROTECTED, _CONDITIONS).fetchall()
    if rows:
        names = ", ".join(row[0] for row in rows)
        raise errors.InvalidConfiguration.of(
            "store_unsafe",
            f"These tables do not isolate worlds: {names}.",
            advice="Restore their policies, or run 'truespan prepare-store'.",
        )


def check_server(connection: Connection) -> list[Check]:
    """Return the checks of the server, of our role, and of the isolation of worlds."""
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
        ("database role", require_bound_role, "is subject to every policy, and owns nothing"),
        ("database access", require_closed_database, "is limited to named roles"),
        ("row security", require_policies, forced),
    )
    checks = []
    for name, require, passed in requirements:
        try:
            require(connection)
            checks.append(Check(name, Verdict.OK, passed))
        except errors.TruespanError as error:
            checks.append(Check(name, Verdict.PROBLEM, error.message, error.advice))
    return checks


class Prepared(NamedTuple):
    """Versions of the schema before and after `prepare_store`."""

    before: int
    now: int


def prepare_store(
    owner: Secret, application: str, also: Callable[[Connection, str], None] | None = None
) -> Prepared:
    """Create or migrate the tables, and grant the application's role only the rights it needs.

    Everything is one transaction, including `also`.
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
            raise errors.InvalidConfiguration(
                "The role of store_owner_url may not create the schemas, roles or grants.",
                advice=(
                    "Let it own the database and have CREATEROLE. If another role created those of "
                    "a library on the same server, use that role, or a superuser."
                ),
            ) from None


def _prepare(connection: Connection, application: str) -> Prepared:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    # The application must not own the tables: policies do not apply to an owner.
    found = connection.execute(
        "SELECT rolname = current_user, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s",
        (application,),
    ).fetchall()
    if not found:
        raise errors.InvalidConfiguration(
            "The role in store_url does not exist.",
            advice="Create it first, as in docs/deployment.md.",
        )
    if any(found[0]):
        raise errors.InvalidConfiguration.of(
            "store_unsafe",
            "The role of store_url owns the tables, or no policy applies to it.",
            advice="Give store_url a separate role: no owner, no superuser, no BYPASSRLS.",
        )
    for role in (WORLD_ROLE, SHARED_ROLE):
        create_role(connection, role)
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


def create_role(connection: Connection, role: str) -> None:
    """Create a role without login, unless it exists."""
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall():
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))


def _protect(connection: Connection) -> None:
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
            # After a transaction that set it, a setting is blank, not absent.
            """CREATE POLICY own_world ON {table}
               USING (world_id = nullif(current_setting('truespan.world', true), '')::uuid)
               WITH CHECK (world_id = nullif(current_setting('truespan.world', true), '')::uuid)""",
        ):
            table = sql.Identifier(WORLD_SCHEMA, name)
            connection.execute(sql.SQL(statement).format(table=table))
        if name == "revisions":
            # Text and structure of a document are read through its revision.
            connection.execute(
                f"""CREATE POLICY own_audience ON truespan.revisions AS RESTRICTIVE
                    USING {_AUDIENCE_CONDITION} WITH CHECK {_UNLIMITED}"""
            )


def _grant(connection: Connection, application: str) -> None:
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
    """Let only the application and other named roles connect to the database.

    Roles belong to the whole server: those of another library could act as ours, but they cannot
    connect.
    """
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(application))
    )


def add_member(connection: Connection, role: str, application: str) -> None:
    """Make the application's role a member of another role."""
    has_role = "SELECT pg_has_role(%s, %s, 'MEMBER')"
    if connection.execute(has_role, (application, role)).fetchall() != [(True,)]:
        connection.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(application))
        )
