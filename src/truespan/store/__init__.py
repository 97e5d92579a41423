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
from importlib import import_module
from typing import TYPE_CHECKING, Any

from truespan.protocols import Clock
from truespan.store.engines.session import Database
from truespan.tables import import_member
from truespan.tables import tables as extension_tables

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
    from truespan.types.ids import WorldId


def _part(path: str, *shared: str) -> cached_property[Any]:
    """Return a part of the store, importing its module on first use.

    It is made from the database, the clock, and the members of the store that it shares.
    """

    def make(store: Store) -> Any:
        module, name = path.split(":")
        arguments = (getattr(store, member) for member in ("_db", "_clock", *shared))
        return getattr(import_module(f"truespan.store.{module}"), name)(*arguments)

    return cached_property(make)


# Shared by threads: of two that first use a part at once, each may make its own. That is harmless,
# because the parts have no state of their own but caches.
class Store:
    """The trusted state of a library, in one database: a part for each subject, loaded on use."""

    worlds: cached_property[Worlds] = _part("tables.worlds:Worlds")
    documents: cached_property[Documents] = _part("tables.documents:Documents", "_lost_words")
    revisions: cached_property[Revisions] = _part("tables.revisions:Revisions")
    chunks: cached_property[Chunks] = _part("tables.chunks:Chunks")
    catalogs: cached_property[Catalogs] = _part("tables.catalog:Catalogs", "_lost_words")
    word_states: cached_property[WordStateRows] = _part("tables.word_states:WordStateRows")
    readers: cached_property[Readers] = _part("tables.readers:Readers")
    conversations: cached_property[Conversations] = _part("tables.conversations:Conversations")
    notes: cached_property[Notes] = _part("tables.notes:Notes")
    records: cached_property[Records] = _part("tables.records:Records")
    tokens: cached_property[Tokens] = _part("tables.tokens:Tokens")
    limits: cached_property[Limits] = _part("tables.limits:Limits")
    jobs: cached_property[Jobs] = _part("tables.jobs:Jobs")
    erasures: cached_property[Erasures] = _part("integrity.erasure:Erasures")
    scrub: cached_property[Scrub] = _part("integrity.scrub:Scrub")

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock
        self._lost_words: set[WorldId] = set()
        """Worlds in which documents have lost their words with a purged document of their segment.
        """

    def __getattr__(self, name: str) -> Any:
        """Return a part that an extension brings, importing its module on first use."""
        path = extension_tables().store_parts.get(name)
        if path is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        part = self.__dict__[name] = import_member(path)(self._db, self._clock)
        return part

    @property
    def database(self) -> Database:
        """The database, for copies of all rows."""
        return self._db

    def release_thread(self) -> None:
        """Close the connection that belongs to this thread, which will not be used again."""
        self._db.release_thread()

    def close(self) -> None:
        self._db.close()
