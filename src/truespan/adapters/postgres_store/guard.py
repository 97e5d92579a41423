"""What must hold of a server and of our role there before anything is asked of them."""

from __future__ import annotations

from collections.abc import Iterator

from truespan.adapters.postgres_store.connection import Session, fetch
from truespan.errors import StoreUnsafe

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

_POLICY = (
    r"^\(world_id = "
    r"\(?NULLIF\(current_setting\('truespan\.world'::text, true\), ''::text\)\)?::uuid\)$"
)
"""How PostgreSQL spells the one condition that we make policies of."""

_OPEN = """
    SELECT 1 FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
    WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'CONNECT'
"""

_OWN_ROLE = "Give store_url a role of its own, as in docs/postgres.md."


def require_known_server(session: Session) -> None:
    """Refuse servers in which row security is known to leak.

    Raises:
        StoreUnsafe: this is one of them.
    """
    require_known_version(session.info.server_version)


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


def require_bound_role(session: Session) -> None:
    """Refuse a role that policies do not bind, or that could change them.

    Raises:
        StoreUnsafe: with what is wrong and what to do.
    """
    rows = fetch(session, _ROLE)
    for problem in _problems(*rows[0]):
        raise StoreUnsafe(f"The role of store_url {problem}.", advice=_OWN_ROLE)


def _problems(
    superuser: bool, bypasses: bool, leads_further: bool, owner: bool, creates: bool
) -> Iterator[str]:
    if superuser:
        yield "is a superuser, whom no policy binds"
    if bypasses:
        yield "has BYPASSRLS, so that no policy binds it"
    if leads_further:
        yield "is a member of a role that no policy binds"
    if owner:
        yield "owns tables of the store, or is a member of the role that does"
    if creates:
        yield "may create things in the database, or roles"


def require_closed_database(session: Session) -> None:
    """Refuse a database that every role of the server may connect to.

    Raises:
        StoreUnsafe: the application of another library on the same server could read this one.
    """
    if fetch(session, _OPEN):
        raise StoreUnsafe(
            "Every role of the server may connect to the database of store_url.",
            advice="Run 'truespan prepare-store', which lets only the named ones in.",
        )


def require_policies(session: Session) -> None:
    """Refuse a database in which a table of worlds is not under our policy, forced, and it alone.

    Raises:
        StoreUnsafe: naming the tables.
    """
    rows = fetch(session, _UNPROTECTED, {"policy": _POLICY})
    if rows:
        names = ", ".join(row[0] for row in rows)
        raise StoreUnsafe(
            f"These tables are not kept apart by world: {names}.",
            advice="Undo what changed their policies, or run 'truespan prepare-store'.",
        )
