"""Whether PostgreSQL still knows how much its tables hold.

It looks by itself about once a minute. Plans that it makes, and keeps, while it takes a table for
empty walk through all that a world holds for each single row, so that the first minute of a large
ingest would take longer with every document.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from truespan.adapters.postgres_store.connection import Connections, Session, fetch
from truespan.errors import StoreBusy

_TIMES: Final = 10
"""By how much a table may grow before the server is told to look."""

_GROWN: Final = """
    SELECT bool_or(pg_relation_size(oid) / current_setting('block_size')::int
      > %s * greatest(relpages, 1))
    FROM pg_class WHERE oid IN ('truespan.states'::regclass, 'truespan.vectors'::regclass)
"""


@contextmanager
def growing(connections: Connections, world: str) -> Iterator[Session]:
    """Give a connection that writes for a world, and have the server look if that was a lot."""
    with connections.writing(world) as session:
        yield session
        outgrown = bool(fetch(session, _GROWN, (_TIMES,))[0][0])
    if outgrown:
        # Whatever keeps the server from it, what was written is kept.
        with suppress(StoreBusy):
            connections.analyze()
