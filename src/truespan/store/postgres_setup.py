"""The setup of a PostgreSQL store: tables, roles, policies and grants.

The tables are made by command by the role that owns the database. The application connects as
another role, which can change neither tables nor policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InsufficientPrivilege

from truespan.errors import InvalidConfiguration, LibraryTooNew, StoreUnsafe
from truespan.store.migrations import load_migrations
from truespan.store.postgres import SHARED_ROLE, WORLD_ROLE, Connection, connect, map_errors
from truespan.store.postgres_guard import found_schema, require_known_server
from truespan.types.token import Secret

WORLD_SCHEMA: Final = "truespan"
SHARED_SCHEMA: Final = "truespan_shared"
_LOCK = 0x7472_7565_7370
"""The advisory lock under which steps are applied, by one process at a time."""
_POLICY = "own_world"
_MAINTAINABLE = 170_000
"""The version since which a role can vacuum tables that it does not own."""


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
        LibraryTooNew: the tables are those of a newer version.
        StoreUnsafe: worlds would not be kept apart: by this server, or for this role.
    """
    with connect(owner, "store_owner_url") as connection:
        require_known_server(connection)
        try:
            with map_errors(), connection.transaction():
                prepared = _prepare(connection, application)
                if also is not None:
                    also(connection, application)
                return prepared
        except InsufficientPrivilege:
            raise InvalidConfiguration(
                "The role of store_owner_url may not make the schemas, roles or grants.",
                advice=(
                    "Let it own the database and have CREATEROLE. Where another role made those of "
                    "a library on the same server, use that one, or a superuser."
                ),
            ) from None


def _prepare(connection: Connection, application: str) -> Prepared:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    _require_other(connection, application)
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
    steps = load_migrations("postgres")
    if before > len(steps):
        raise LibraryTooNew(before, len(steps))
    connection.execute("SET LOCAL search_path = truespan, pg_temp")
    for number, (name, script) in enumerate(steps[before:], before + 1):
        connection.execute(script)
        connection.execute(
            "INSERT INTO truespan_shared.schema_steps (number, name) VALUES (%s, %s)",
            (number, name),
        )
    _protect(connection)
    _grant(connection, application)
    admit_only(connection, application)
    return Prepared(before, len(steps))


def _require_other(connection: Connection, application: str) -> None:
    """Refuse to let one role make the tables and use them: an owner is not bound by policies."""
    rows = connection.execute(
        "SELECT rolname = current_user, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s",
        (application,),
    ).fetchall()
    if not rows:
        raise InvalidConfiguration(
            "There is no role of the name in store_url.",
            advice="Make it first, as in docs/postgres.md.",
        )
    if any(rows[0]):
        raise StoreUnsafe(
            "The role of store_url owns the tables, or is bound by no policy.",
            advice="Give store_url a role of its own: no owner, no superuser, no BYPASSRLS.",
        )


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
        table = sql.Identifier(WORLD_SCHEMA, name)
        for statement in (
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            # A setting of an earlier transaction is blank, and not absent.
            """CREATE POLICY {policy} ON {table}
               USING (world_id = nullif(current_setting('truespan.world', true), '')::uuid)
               WITH CHECK (world_id = nullif(current_setting('truespan.world', true), '')::uuid)""",
        ):
            connection.execute(
                sql.SQL(statement).format(table=table, policy=sql.Identifier(_POLICY))
            )


def _grant(connection: Connection, application: str) -> None:
    """Give rows to both roles, and both roles to the application; no right to any definition."""
    for schema, role in ((WORLD_SCHEMA, WORLD_ROLE), (SHARED_SCHEMA, SHARED_ROLE)):
        for statement in (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        ):
            connection.execute(
                sql.SQL(statement).format(schema=sql.Identifier(schema), role=sql.Identifier(role))
            )
        add_member(connection, role, application)
    if connection.info.server_version >= _MAINTAINABLE:
        connection.execute("GRANT MAINTAIN ON ALL TABLES IN SCHEMA truespan TO truespan_worlds")
    connection.execute(
        sql.SQL("REVOKE INSERT, UPDATE, DELETE ON truespan_shared.schema_steps FROM {}").format(
            sql.Identifier(SHARED_ROLE)
        )
    )


def admit_only(connection: Connection, application: str) -> None:
    """Let the application connect to the database, and others only if they are named.

    Roles belong to the whole server. Those of another library on it may act as ours; they are kept
    from our rows because they cannot connect.
    """
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(application))
    )


def add_member(connection: Connection, role: str, application: str) -> None:
    """Let the application's role act as another."""
    rows = connection.execute(
        "SELECT pg_has_role(%s, %s, 'MEMBER')", (application, role)
    ).fetchall()
    if not rows[0][0]:
        connection.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(application))
        )


def role_of(url: Secret) -> str:
    """Return the role that an address names; it is no secret."""
    try:
        given = conninfo_to_dict(url.reveal())
    except psycopg.ProgrammingError:
        raise InvalidConfiguration("store_url is no address of a PostgreSQL database.") from None
    name = given.get("user")
    if not name:
        raise InvalidConfiguration("store_url must name the role that the application connects as.")
    return str(name)
