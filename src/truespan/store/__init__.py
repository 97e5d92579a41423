"""The trusted store: one set of SQL statements on SQLite or PostgreSQL.

Owns: the tables, their migrations, transactions, and the policies that isolate worlds.
Does not own: the meaning of the rows; vector search; files of the index; files, log and backups of
a PostgreSQL server.
Must hold: a commit is all or nothing; several processes or machines may read and write at once;
every statement that touches a world names it, and on PostgreSQL row security hides the rows of
other worlds as well; text is read as bytes, so that damage cannot hide behind a failed decoding.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from truespan.protocols import Clock
from truespan.store.engines.session import Database

if TYPE_CHECKING:
    from truespan.store.integrity.erasure import Erasures
    from truespan.store.integrity.scrub import Scrub
    from truespan.store.tables.catalog import Catalogs
    from truespan.store.tables.chunks import Chunks
    from truespan.store.tables.conversations import Conversations
    from truespan.store.tables.documents import Documents
    from truespan.store.tables.jobs import Jobs
    from truespan.store.tables.limits import Limits
    from truespan.store.tables.notes import Notes
    from truespan.store.tables.readers import Readers
    from truespan.store.tables.records import Records
    from truespan.store.tables.revisions import Revisions
    from truespan.store.tables.tokens import Tokens
    from truespan.store.tables.word_states import WordStateRows
    from truespan.store.tables.worlds import Worlds
    from truespan.store.transfer.copy import StoreRows
    from truespan.types.ids import WorldId


# Shared by threads: of two that first use a part at once, each may make its own. That is harmless,
# because the parts have no state of their own but caches.
class Store:
    """The trusted state of a library, in one database: a part for each subject, loaded on use."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock
        self._lost_words: set[WorldId] = set()
        """Worlds in which documents have lost their words with a purged document of their segment.
        """

    @cached_property
    def worlds(self) -> Worlds:
        from truespan.store.tables.worlds import Worlds

        return Worlds(self._db, self._clock)

    @cached_property
    def documents(self) -> Documents:
        from truespan.store.tables.documents import Documents

        return Documents(self._db, self._clock, self._lost_words)

    @cached_property
    def revisions(self) -> Revisions:
        from truespan.store.tables.revisions import Revisions

        return Revisions(self._db, self._clock)

    @cached_property
    def chunks(self) -> Chunks:
        from truespan.store.tables.chunks import Chunks

        return Chunks(self._db, self._clock)

    @cached_property
    def catalogs(self) -> Catalogs:
        from truespan.store.tables.catalog import Catalogs

        return Catalogs(self._db, self._clock, self._lost_words)

    @cached_property
    def word_states(self) -> WordStateRows:
        from truespan.store.tables.word_states import WordStateRows

        return WordStateRows(self._db, self._clock)

    @cached_property
    def readers(self) -> Readers:
        from truespan.store.tables.readers import Readers

        return Readers(self._db, self._clock)

    @cached_property
    def conversations(self) -> Conversations:
        from truespan.store.tables.conversations import Conversations

        return Conversations(self._db, self._clock)

    @cached_property
    def notes(self) -> Notes:
        from truespan.store.tables.notes import Notes

        return Notes(self._db, self._clock)

    @cached_property
    def records(self) -> Records:
        from truespan.store.tables.records import Records

        return Records(self._db, self._clock)

    @cached_property
    def tokens(self) -> Tokens:
        from truespan.store.tables.tokens import Tokens

        return Tokens(self._db, self._clock)

    @cached_property
    def limits(self) -> Limits:
        from truespan.store.tables.limits import Limits

        return Limits(self._db, self._clock)

    @cached_property
    def jobs(self) -> Jobs:
        from truespan.store.tables.jobs import Jobs

        return Jobs(self._db, self._clock)

    @cached_property
    def erasures(self) -> Erasures:
        from truespan.store.integrity.erasure import Erasures

        return Erasures(self._db, self._clock)

    @cached_property
    def scrub(self) -> Scrub:
        from truespan.store.integrity.scrub import Scrub

        return Scrub(self._db, self._clock)

    def as_rows(self) -> StoreRows:
        """Return all rows, to copy them into or from another store."""
        from truespan.store.transfer.copy import StoreRows

        return StoreRows(self._db)

    def release_thread(self) -> None:
        """Close the connection that belongs to this thread, which will not be used again."""
        self._db.release_thread()

    def close(self) -> None:
        self._db.close()
