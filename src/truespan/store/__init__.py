"""The trusted store: one set of SQL statements on SQLite or PostgreSQL.

Owns: the tables, their migrations, transactions, and the policies that isolate worlds.
Does not own: the meaning of the rows; vector search; files of the index; files, log and backups of
a PostgreSQL server.
Must hold: a commit is all or nothing; several processes or machines may read and write at once;
every statement that touches a world names it, and on PostgreSQL row security hides the rows of
other worlds as well; text is read as bytes, so that damage cannot hide behind a failed decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.protocols import Clock
from truespan.store.engines.session import Database
from truespan.store.integrity.erasure import Erasures
from truespan.store.integrity.scrub import Scrub
from truespan.store.tables.catalog import Catalogs
from truespan.store.tables.chunks import Chunks
from truespan.store.tables.conversations import Conversations
from truespan.store.tables.documents import Documents
from truespan.store.tables.jobs import Jobs
from truespan.store.tables.notes import Notes
from truespan.store.tables.readers import Readers
from truespan.store.tables.records import Records
from truespan.store.tables.revisions import Revisions
from truespan.store.tables.word_states import WordStateRows
from truespan.store.tables.worlds import Worlds

if TYPE_CHECKING:
    from truespan.store.transfer.copy import StoreRows


# Shared by threads: catalogues and calibrations are kept by the state of the world that the caller
# has read, and replaced under a lock; ids of worlds by name are hints, which each use compares
# with the row; a world is added to those with lost words, or removed from them, by one operation
# of a set.
class Store(
    Worlds,
    Documents,
    Revisions,
    Catalogs,
    Chunks,
    WordStateRows,
    Readers,
    Conversations,
    Notes,
    Records,
    Jobs,
    Erasures,
    Scrub,
):
    """The trusted state of a library, in one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__()
        self._db = database
        self._clock = clock
        self._ids_by_name = {}
        self._lost_words = set()

    def as_rows(self) -> StoreRows:
        """Return all rows, to copy them into or from another store."""
        from truespan.store.transfer.copy import StoreRows

        return StoreRows(self._db)

    def release_thread(self) -> None:
        """Close the connection that belongs to this thread, which will not be used again."""
        self._db.release_thread()

    def close(self) -> None:
        self._db.close()
