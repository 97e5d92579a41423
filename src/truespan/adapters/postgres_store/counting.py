"""How many rows of a world each table loses, for the receipt of whoever wanted them gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import sql

from truespan.adapters.postgres_store.connection import Session, fetch


@contextmanager
def counting(session: Session, *, wanted: bool = True) -> Iterator[dict[str, int]]:
    """Count the rows that each table loses in between, those that go with others included.

    The tables are taken from the catalogue, so one that is added later is counted as well. Only
    the transaction's world is looked at, and whoever counts has it for itself.
    """
    counts: dict[str, int] = {}
    before = row_counts(session) if wanted else {}
    yield counts
    if wanted:
        after = row_counts(session)
        counts.update({name: n - after[name] for name, n in before.items() if n > after[name]})


def row_counts(session: Session) -> dict[str, int]:
    """Return how many rows of the transaction's world each table has."""
    names = fetch(
        session,
        """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'truespan' AND c.relkind = 'r' ORDER BY 1""",
    )
    return {name: _count(session, name) for (name,) in names}


def _count(session: Session, table: str) -> int:
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("truespan", table))
    rows = session.execute(query).fetchall()
    return rows[0][0]
