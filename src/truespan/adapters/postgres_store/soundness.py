"""Whether the store's server is one to be relied on: what PostgreSQL says of itself."""

from __future__ import annotations

from collections.abc import Callable

from truespan.adapters.postgres_store.connection import BOTH, Connections, Session, fetch
from truespan.adapters.postgres_store.guard import (
    require_bound_role,
    require_closed_database,
    require_known_server,
    require_policies,
)
from truespan.errors import TruespanError
from truespan.types.maintenance import Check, Verdict


class PostgresSoundness:
    """The part of the store that asks PostgreSQL about itself and about our role there."""

    _connections: Connections

    def soundness(self) -> list[Check]:
        """Return the checks of the server, of our role, and of what keeps worlds apart."""
        try:
            with self._connections.sharing(BOTH) as session:
                return [
                    _check("database", session, require_known_server, _version),
                    _check("database role", session, require_bound_role, _role),
                    _check("database doors", session, require_closed_database, _doors),
                    _check("row security", session, require_policies, _policies),
                ]
        except TruespanError as error:
            return [Check("database", Verdict.PROBLEM, error.message, error.advice)]


def _check(
    name: str, session: Session, require: Callable[[Session], None], says: Callable[[Session], str]
) -> Check:
    try:
        require(session)
    except TruespanError as error:
        return Check(name, Verdict.PROBLEM, error.message, error.advice)
    return Check(name, Verdict.OK, says(session))


def _version(session: Session) -> str:
    return f"answers, PostgreSQL {fetch(session, 'SHOW server_version')[0][0]}"


def _role(_session: Session) -> str:
    return "is bound by every policy, and owns nothing"


def _doors(_session: Session) -> str:
    return "are open to named roles alone"


def _policies(session: Session) -> str:
    rows = fetch(
        session,
        """SELECT count(*) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'truespan'""",
    )
    return f"forced on all {rows[0][0]} tables that hold anything of a world"
