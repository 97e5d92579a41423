"""The trusted store on SQLite.

Owns: the library's database file, its schema and migrations, transactions.
Does not own: the meaning of what it keeps; vectors' nearness; files of the index.
Must hold: one commit is all or nothing; several processes may read and write at once; every
statement that touches a world is bound to the world of its scope; text is read as bytes, so that
damage cannot hide behind a failed decoding.
"""

from __future__ import annotations

from pathlib import Path

from truespan.adapters.sqlite_store.cache import SqliteQueryCache
from truespan.adapters.sqlite_store.calibrations import SqliteCalibrations
from truespan.adapters.sqlite_store.chunks import SqliteChunks
from truespan.adapters.sqlite_store.connection import Connections, migrate
from truespan.adapters.sqlite_store.documents import SqliteDocuments
from truespan.adapters.sqlite_store.erasure import SqliteErasure
from truespan.adapters.sqlite_store.generations import SqliteGenerations
from truespan.adapters.sqlite_store.jobs import SqliteJobs
from truespan.adapters.sqlite_store.moving import SqliteRows
from truespan.adapters.sqlite_store.pages import SqlitePages
from truespan.adapters.sqlite_store.readers import SqliteReaders
from truespan.adapters.sqlite_store.recutting import SqliteRecutting
from truespan.adapters.sqlite_store.replays import SqliteReplays
from truespan.adapters.sqlite_store.scrub import SqliteScrub
from truespan.adapters.sqlite_store.shares import SqliteShares
from truespan.adapters.sqlite_store.shelf import SqliteShelf
from truespan.adapters.sqlite_store.soundness import SqliteSoundness
from truespan.adapters.sqlite_store.tokens import SqliteTokens
from truespan.adapters.sqlite_store.upkeep import SqliteUpkeep
from truespan.adapters.sqlite_store.usage import SqliteUsage
from truespan.adapters.sqlite_store.words import SqliteWords
from truespan.adapters.sqlite_store.worlds import SqliteWorlds
from truespan.protocols import Clock


class SqliteStore(
    SqliteWorlds,
    SqliteGenerations,
    SqliteDocuments,
    SqliteRecutting,
    SqliteWords,
    SqliteShelf,
    SqliteChunks,
    SqliteReaders,
    SqlitePages,
    SqliteQueryCache,
    SqliteJobs,
    SqliteShares,
    SqliteUpkeep,
    SqliteErasure,
    SqliteUsage,
    SqliteScrub,
    SqliteSoundness,
    SqliteCalibrations,
    SqliteTokens,
    SqliteReplays,
):
    """Everything that is believed, in one file."""

    def __init__(self, path: Path, clock: Clock, *, reserve: int) -> None:
        super().__init__()
        self._clock = clock
        self._connections = Connections(path, reserve=reserve)
        migrate(self._connections)

    def as_rows(self) -> SqliteRows:
        """Return everything in it as rows, to be moved into or from another kind of store."""
        return SqliteRows(self._connections)

    def close(self) -> None:
        """Close the file in every thread."""
        self._connections.close()
