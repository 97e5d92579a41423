"""The trusted store on PostgreSQL.

Owns: the tables of the store in a database of its own, their steps, transactions, and the policies
that keep worlds apart.
Does not own: the meaning of what it keeps; vectors' nearness; the server's files, log and backups.
Must hold: one commit is all or nothing; many machines may read and write at once; each transaction
belongs to one world, which is set inside it and ends with it, and the database itself shows it no
row of another; the role it works with can change neither tables nor policies, or it does not begin.
"""

from __future__ import annotations

from psycopg.errors import InsufficientPrivilege

from truespan.adapters.postgres_store.cache import PostgresQueryCache
from truespan.adapters.postgres_store.calibrations import PostgresCalibrations
from truespan.adapters.postgres_store.chunks import PostgresChunks
from truespan.adapters.postgres_store.connection import (
    Address,
    Connections,
    connected,
    mapped_errors,
)
from truespan.adapters.postgres_store.documents import PostgresDocuments
from truespan.adapters.postgres_store.erasure import PostgresErasure
from truespan.adapters.postgres_store.generations import PostgresGenerations
from truespan.adapters.postgres_store.guard import (
    require_bound_role,
    require_closed_database,
    require_known_server,
    require_policies,
)
from truespan.adapters.postgres_store.jobs import PostgresJobs
from truespan.adapters.postgres_store.moving import PostgresRows
from truespan.adapters.postgres_store.pages import PostgresPages
from truespan.adapters.postgres_store.readers import PostgresReaders
from truespan.adapters.postgres_store.recutting import PostgresRecutting
from truespan.adapters.postgres_store.replays import PostgresReplays
from truespan.adapters.postgres_store.schema import found_schema, known_schema
from truespan.adapters.postgres_store.scrub import PostgresScrub
from truespan.adapters.postgres_store.shares import PostgresShares
from truespan.adapters.postgres_store.shelf import PostgresShelf
from truespan.adapters.postgres_store.soundness import PostgresSoundness
from truespan.adapters.postgres_store.tokens import PostgresTokens
from truespan.adapters.postgres_store.upkeep import PostgresUpkeep
from truespan.adapters.postgres_store.usage import PostgresUsage
from truespan.adapters.postgres_store.words import PostgresWords
from truespan.adapters.postgres_store.worlds import PostgresWorlds
from truespan.errors import InvalidConfiguration, LibraryTooNew, StoreOutdated
from truespan.protocols import Clock
from truespan.types.token import Secret


class PostgresStore(
    PostgresWorlds,
    PostgresGenerations,
    PostgresDocuments,
    PostgresRecutting,
    PostgresWords,
    PostgresShelf,
    PostgresChunks,
    PostgresReaders,
    PostgresPages,
    PostgresQueryCache,
    PostgresJobs,
    PostgresShares,
    PostgresUpkeep,
    PostgresErasure,
    PostgresUsage,
    PostgresScrub,
    PostgresSoundness,
    PostgresCalibrations,
    PostgresTokens,
    PostgresReplays,
):
    """Everything that is believed, in one database."""

    def __init__(self, address: Address, clock: Clock) -> None:
        super().__init__()
        require_usable(address.url, address.timeout_seconds)
        self._clock = clock
        self._connections = Connections(address)

    def as_rows(self) -> PostgresRows:
        """Return everything in it as rows, to be moved into or from another kind of store."""
        return PostgresRows(self._connections)

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()


def require_usable(url: Secret, seconds: float = 30.0) -> None:
    """Refuse a database in which worlds would not be kept apart, or whose tables are not ours.

    Raises:
        StoreBusy: it did not answer in time; somebody may hold its tables.
        InvalidConfiguration: it cannot be connected to.
        StoreUnsafe: its version, our role or its policies are wrong; the message says what to do.
        StoreOutdated, LibraryTooNew: its tables are those of another version.
    """
    with connected(url, "store_url", seconds) as session, mapped_errors():
        require_known_server(session)
        require_bound_role(session)
        try:
            found, needed = found_schema(session), known_schema()
        except InsufficientPrivilege:
            raise InvalidConfiguration(
                "The role of store_url has no rights to the tables of the store.",
                advice="Run 'truespan prepare-store', which gives them.",
            ) from None
        if found < needed:
            raise StoreOutdated(found, needed)
        if found > needed:
            raise LibraryTooNew(found, needed)
        require_closed_database(session)
        require_policies(session)
