"""The tables of the queue: procrastinate's own, in a schema and with a role of their own."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, LiteralString, cast

from procrastinate.schema import SchemaManager

from truespan.adapters.postgres_store.connection import Session, fetch
from truespan.adapters.postgres_store.schema import add_member, make_role
from truespan.errors import InvalidConfiguration, StoreOutdated

QUEUE_SCHEMA: Final = "truespan_queue"
QUEUE_ROLE: Final = "truespan_queue"
QUEUE_TABLES: Final = frozenset(
    {
        "queue_steps",
        "procrastinate_jobs",
        "procrastinate_events",
        "procrastinate_workers",
        "procrastinate_periodic_defers",
    }
)
"""Every table of the queue. They name worlds and jobs by their ids, and hold nothing of either."""


def prepare_queue(session: Session, application: str) -> None:
    """Make or update the tables of the queue, inside the transaction of whoever owns the store."""
    make_role(session, QUEUE_ROLE)
    session.execute("CREATE SCHEMA IF NOT EXISTS truespan_queue")
    session.execute("SET LOCAL search_path = truespan_queue, pg_temp")
    session.execute(
        """CREATE TABLE IF NOT EXISTS truespan_queue.queue_steps (
             name text COLLATE "C" PRIMARY KEY,
             applied_at timestamptz NOT NULL DEFAULT now()
           )"""
    )
    applied, known = _applied(session), _steps()
    if not applied:
        # The whole schema has what all the steps to it would make.
        session.execute(SchemaManager.get_schema())
    for name, script in known.items():
        if name in applied:
            continue
        if applied:
            session.execute(script)
        session.execute("INSERT INTO truespan_queue.queue_steps (name) VALUES (%s)", (name,))
    _grant(session, application)


def require_steps(session: Session) -> None:
    """Refuse tables that lack a step which the installed procrastinate needs.

    Raises:
        StoreOutdated: some were not applied.
        InvalidConfiguration: our role may not act as the queue's.
    """
    rows = fetch(
        session,
        """SELECT to_regclass('truespan_queue.queue_steps') IS NOT NULL,
             EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'truespan_queue'
               AND pg_has_role(session_user, oid, 'MEMBER'))""",
    )
    there, member = rows[0]
    if there and not member:
        raise InvalidConfiguration(
            "The role of store_url has no rights to the queue of jobs.",
            advice="Run 'truespan prepare-store', which gives them.",
        )
    applied, known = _applied(session) if there else set[str](), _steps()
    if not applied >= known.keys():
        raise StoreOutdated(len(applied), len(known))


def _applied(session: Session) -> set[str]:
    return {row[0] for row in fetch(session, "SELECT name FROM truespan_queue.queue_steps")}


def _steps() -> dict[str, LiteralString]:
    """Return procrastinate's steps in their order, by name."""
    folder = files("procrastinate.sql").joinpath("migrations")
    scripts = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    # They are part of an installed package, as literal as its code.
    return {one.name: cast("LiteralString", one.read_text(encoding="utf-8")) for one in scripts}


def _grant(session: Session, application: str) -> None:
    for statement in (
        "GRANT USAGE ON SCHEMA truespan_queue TO truespan_queue",
        """GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA truespan_queue
           TO truespan_queue""",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA truespan_queue TO truespan_queue",
        "REVOKE INSERT, UPDATE, DELETE ON truespan_queue.queue_steps FROM truespan_queue",
    ):
        session.execute(statement)
    add_member(session, QUEUE_ROLE, application)
