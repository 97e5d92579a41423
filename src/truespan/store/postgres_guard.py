"""What must hold of a PostgreSQL server and of our role there before the store uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from truespan.errors import StoreUnsafe, TruespanError
from truespan.store.migrations import load_migrations
from truespan.types.maintenance import Check, Verdict

OLDEST_MAJOR = 13
SAFE_FROM = {13: 22, 14: 19, 15: 14, 16: 10, 17: 6}
"""The first release of each version in which no way around row security is known: those before
showed hidden rows through reused plans (CVE-2024-10976) or statistics (CVE-2025-8713)."""

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

_OPEN = """
    SELECT 1 FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
    WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'CONNECT'
"""

_OWN_ROLE = "Give store_url a role of its own, as in docs/postgres.md."


def known_schema() -> int:
    """Return the schema that this version works with."""
    return len(load_migrations("postgres"))


def found_schema(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the last step that was applied; 0 for a database without tables."""
    if connection.execute(
        "SELECT to_regclass('truespan_shared.schema_steps') IS NULL"
    ).fetchall() == [(True,)]:
        return 0
    return connection.execute(
        "SELECT coalesce(max(number), 0) FROM truespan_shared.schema_steps"
    ).fetchall()[0][0]


def require_known_server(connection: psycopg.Connection[Any]) -> None:
    """Refuse servers in which row security is known to leak.

    Raises:
        StoreUnsafe: this is one of them.
    """
    require_known_version(connection.info.server_version)


def require_known_version(number: int) -> None:
    """Refuse a version, given as PostgreSQL numbers them: 170006 for 17.6."""
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


def require_bound_role(connection: psycopg.Connection[Any]) -> None:
    """Refuse a role that policies do not bind, or that could change them.

    Raises:
        StoreUnsafe: with what is wrong and what to do.
    """
    rows = connection.execute(_ROLE).fetchall()
    for problem in _problems(*rows[0]):
        raise StoreUnsafe(f"The role of store_url {problem}.", advice=_OWN_ROLE)


def _problems(
    superuser: bool, bypasses: bool, leads_further: bool, owner: bool, creates: bool
) -> Iterator[str]:
    if superuser:
        yield "is a superuser, which no policy binds"
    if bypasses:
        yield "has BYPASSRLS, so that no policy binds it"
    if leads_further:
        yield "is a member of a role that no policy binds"
    if owner:
        yield "owns tables of the store, or is a member of the role that does"
    if creates:
        yield "may create things in the database, or roles"


def require_closed_database(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database that every role of the server may connect to.

    Raises:
        StoreUnsafe: the application of another library on the same server could read this one.
    """
    if connection.execute(_OPEN).fetchall():
        raise StoreUnsafe(
            "Every role of the server may connect to the database of store_url.",
            advice="Run 'truespan prepare-store', which lets only the named ones in.",
        )


def require_policies(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database in which a table of worlds is not under our policy, forced, and it alone.

    Raises:
        StoreUnsafe: naming the tables.
    """
    rows = connection.execute(_UNPROTECTED, {"policy": _POLICY_CONDITION}).fetchall()
    if rows:
        names = ", ".join(row[0] for row in rows)
        raise StoreUnsafe(
            f"These tables are not kept apart by world: {names}.",
            advice="Undo what changed their policies, or run 'truespan prepare-store'.",
        )


def check_server(connection: psycopg.Connection[Any]) -> list[Check]:
    """Return the checks of the server, of our role, and of what keeps worlds apart."""
    version = connection.execute("SHOW server_version").fetchall()[0][0]
    tables = connection.execute(
        """SELECT count(*) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'truespan'"""
    ).fetchall()[0][0]
    return [
        _check("database", require_known_server, connection, f"answers, PostgreSQL {version}"),
        _check(
            "database role",
            require_bound_role,
            connection,
            "is bound by every policy, and owns nothing",
        ),
        _check(
            "database access",
            require_closed_database,
            connection,
            "are open to named roles alone",
        ),
        _check(
            "row security",
            require_policies,
            connection,
            f"forced on all {tables} tables that hold anything of a world",
        ),
    ]


def _check(
    name: str,
    require: Callable[[psycopg.Connection[Any]], None],
    connection: psycopg.Connection[Any],
    passed: str,
) -> Check:
    try:
        require(connection)
    except TruespanError as error:
        return Check(name, Verdict.PROBLEM, error.message, error.advice)
    return Check(name, Verdict.OK, passed)
