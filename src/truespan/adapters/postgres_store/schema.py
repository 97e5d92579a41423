"""The tables of the store: numbered steps, applied by command by whoever owns the database."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Final, LiteralString, NamedTuple, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InsufficientPrivilege

from truespan.adapters.postgres_store.connection import (
    SHARED_ROLE,
    WORLD_ROLE,
    Session,
    connected,
    fetch,
    mapped_errors,
)
from truespan.adapters.postgres_store.guard import require_known_server
from truespan.errors import InvalidConfiguration, LibraryTooNew, StoreUnsafe
from truespan.types.token import Secret

WORLD_SCHEMA: Final = "truespan"
SHARED_SCHEMA: Final = "truespan_shared"
SHARED_TABLES: Final = frozenset(
    {
        "schema_steps",
        "directory",
        "aliases",
        "tokens",
        "token_worlds",
        "cooldowns",
        "paces",
        "replays",
        "erasures",
    }
)
"""Every table that belongs to no world. All others have a `world_id`, and a policy on it."""

_LOCK = 0x7472_7565_7370
"""Names the advisory lock under which steps are applied: one process at a time."""
_POLICY = "own_world"
_MAINTAINABLE = 170_000
"""The version since which somebody who owns no table may have its deleted rows cleared away."""


class Prepared(NamedTuple):
    """What became of a store's tables."""

    before: int
    now: int


def known_schema() -> int:
    """Return the schema that this version works with."""
    return len(_steps())


def prepare_store(
    owner: Secret, application: str, also: Callable[[Session, str], None] | None = None
) -> Prepared:
    """Make or update the tables, and give the application's role the rights it needs, no more.

    Everything is one transaction, with what is `also` to be made: it is done, or nothing is.

    Raises:
        InvalidConfiguration: the owner cannot be connected as, or may not do it.
        LibraryTooNew: the tables are those of a newer version.
        StoreUnsafe: worlds would not be kept apart: by this server, or for this role.
    """
    with connected(owner, "store_owner_url") as session:
        require_known_server(session)
        try:
            with mapped_errors(), session.transaction():
                prepared = _prepare(session, application)
                if also is not None:
                    also(session, application)
                return prepared
        except InsufficientPrivilege:
            raise InvalidConfiguration(
                "The role of store_owner_url may not make the schemas, roles or grants.",
                advice=(
                    "Let it own the database and have CREATEROLE. Where another role made those of "
                    "a library on the same server, use that one, or a superuser."
                ),
            ) from None


def _prepare(session: Session, application: str) -> Prepared:
    session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    _require_other(session, application)
    _make_roles(session)
    for schema in (WORLD_SCHEMA, SHARED_SCHEMA):
        session.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    session.execute(
        """CREATE TABLE IF NOT EXISTS truespan_shared.schema_steps (
             number integer PRIMARY KEY,
             name text NOT NULL,
             applied_at timestamptz NOT NULL DEFAULT now()
           )"""
    )
    before = found_schema(session)
    steps = _steps()
    if before > len(steps):
        raise LibraryTooNew(before, len(steps))
    session.execute("SET LOCAL search_path = truespan, pg_temp")
    for number, (name, script) in enumerate(steps[before:], before + 1):
        session.execute(script)
        session.execute(
            "INSERT INTO truespan_shared.schema_steps (number, name) VALUES (%s, %s)",
            (number, name),
        )
    _protect(session)
    _grant(session, application)
    admit_only(session, application)
    return Prepared(before, len(steps))


def found_schema(session: Session) -> int:
    """Return the number of the last step that was applied; 0 for a database without tables."""
    if fetch(session, "SELECT to_regclass('truespan_shared.schema_steps') IS NULL") == [(True,)]:
        return 0
    return fetch(session, "SELECT coalesce(max(number), 0) FROM truespan_shared.schema_steps")[0][0]


def _require_other(session: Session, application: str) -> None:
    """Refuse to let one role make the tables and use them: an owner is not bound by policies."""
    rows = fetch(
        session,
        "SELECT rolname = current_user, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s",
        (application,),
    )
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


def _make_roles(session: Session) -> None:
    for role in (WORLD_ROLE, SHARED_ROLE):
        make_role(session, role)


def make_role(session: Session, role: str) -> None:
    """Make a role that nobody can log in as, unless it is there."""
    if not fetch(session, "SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)):
        session.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))


def _protect(session: Session) -> None:
    """Put every table of worlds under the policy. None can be forgotten: the catalogue is asked."""
    rows = fetch(
        session,
        """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'truespan' AND c.relkind IN ('r', 'p')
             AND NOT EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid)
           ORDER BY 1""",
    )
    for (name,) in rows:
        table = sql.Identifier(WORLD_SCHEMA, name)
        for statement in (
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            # A setting that was made once and ended is blank, and not absent.
            """CREATE POLICY {policy} ON {table}
               USING (world_id = nullif(current_setting('truespan.world', true), '')::uuid)
               WITH CHECK (world_id = nullif(current_setting('truespan.world', true), '')::uuid)""",
        ):
            session.execute(sql.SQL(statement).format(table=table, policy=sql.Identifier(_POLICY)))


def _grant(session: Session, application: str) -> None:
    """Give rows to both roles, and both roles to the application; no right to any definition."""
    for schema, role in ((WORLD_SCHEMA, WORLD_ROLE), (SHARED_SCHEMA, SHARED_ROLE)):
        for statement in (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        ):
            session.execute(
                sql.SQL(statement).format(schema=sql.Identifier(schema), role=sql.Identifier(role))
            )
        add_member(session, role, application)
    if session.info.server_version >= _MAINTAINABLE:
        session.execute("GRANT MAINTAIN ON ALL TABLES IN SCHEMA truespan TO truespan_worlds")
    session.execute(
        sql.SQL("REVOKE INSERT, UPDATE, DELETE ON truespan_shared.schema_steps FROM {}").format(
            sql.Identifier(SHARED_ROLE)
        )
    )


def admit_only(session: Session, application: str) -> None:
    """Let the application connect to the database, and others only if they are named.

    Roles belong to the whole server. Those of another library on it may act as ours, and what
    keeps them from our rows is that they cannot come in.
    """
    database = sql.Identifier(session.info.dbname)
    session.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    session.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(application))
    )


def add_member(session: Session, role: str, application: str) -> None:
    """Let the application's role act as another."""
    rows = fetch(session, "SELECT pg_has_role(%s, %s, 'MEMBER')", (application, role))
    if not rows[0][0]:
        session.execute(
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


def _steps() -> list[tuple[str, LiteralString]]:
    folder = files("truespan.adapters.postgres_store").joinpath("migrations")
    scripts = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    # The scripts are part of the package, as literal as if they stood in this file.
    return [(one.name, cast("LiteralString", one.read_text(encoding="utf-8"))) for one in scripts]
