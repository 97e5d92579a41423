"""Tables of the job queue: those of procrastinate, with their own schema and role."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, LiteralString, cast

from procrastinate.schema import SchemaManager

from truespan.errors import InvalidConfiguration, StoreOutdated
from truespan.store.engines.postgres_server import Connection, add_member, create_role

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
"""Tables of the queue. They contain ids of worlds and jobs, and no text."""


def prepare_queue(connection: Connection, application: str) -> None:
    """Create or update the tables of the queue, in the transaction that prepares the store."""
    create_role(connection, QUEUE_ROLE)
    connection.execute("CREATE SCHEMA IF NOT EXISTS truespan_queue")
    connection.execute("SET LOCAL search_path = truespan_queue, pg_temp")
    connection.execute(
        """CREATE TABLE IF NOT EXISTS truespan_queue.queue_steps (
             name text COLLATE "C" PRIMARY KEY,
             applied_at timestamptz NOT NULL DEFAULT now()
           )"""
    )
    applied, known = _applied(connection), _migrations()
    if not applied:
        # The full schema includes every migration.
        connection.execute(SchemaManager.get_schema())
    for name, script in known.items():
        if name in applied:
            continue
        if applied:
            connection.execute(script)
        connection.execute("INSERT INTO truespan_queue.queue_steps (name) VALUES (%s)", (name,))
    for statement in (
        "GRANT USAGE ON SCHEMA truespan_queue TO truespan_queue",
        """GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA truespan_queue
           TO truespan_queue""",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA truespan_queue TO truespan_queue",
        "REVOKE INSERT, UPDATE, DELETE ON truespan_queue.queue_steps FROM truespan_queue",
    ):
        connection.execute(statement)
    add_member(connection, QUEUE_ROLE, application)


def require_migrations(connection: Connection) -> None:
    """Require that the tables are up to date, and that our role may use them.

    Raises:
        StoreOutdated: migrations are missing.
        InvalidConfiguration: our role may not use the tables.
    """
    rows = connection.execute(
        """SELECT to_regclass('truespan_queue.queue_steps') IS NOT NULL,
             EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'truespan_queue'
               AND pg_has_role(session_user, oid, 'MEMBER'))"""
    ).fetchall()
    exists, is_member = rows[0]
    if exists and not is_member:
        raise InvalidConfiguration(
            "The role of store_url has no permission to use the job queue.",
            advice="Run 'truespan prepare-store', which grants it.",
        )
    applied, known = _applied(connection) if exists else set[str](), _migrations()
    if not applied >= known.keys():
        raise StoreOutdated(len(applied), len(known))


def _applied(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM truespan_queue.queue_steps")}


def _migrations() -> dict[str, LiteralString]:
    """Return procrastinate's migrations by name, in order."""
    entries = files("procrastinate.sql").joinpath("migrations").iterdir()
    # The scripts belong to an installed package, so they are as safe as literals.
    return {
        entry.name: cast("LiteralString", entry.read_text(encoding="utf-8"))
        for entry in sorted(entries, key=lambda entry: entry.name)
        if entry.name.endswith(".sql")
    }
