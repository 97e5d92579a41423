"""The vector index on a Qdrant server.

The client library is slow to import, so it is imported at the first call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from truespan.errors import IndexRefused, IndexUnavailable, InvalidConfiguration
from truespan.extensions.cluster.qdrant import NEWEST, OLDEST, ServerOptions
from truespan.index.base import QdrantIndex
from truespan.protocols import Clock
from truespan.types.maintenance import FileTreatment, Ownership

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from truespan.extensions.cluster.qdrant.requests import Server

INSTALL = "Install Truespan with the extra 'server'."


# Shared by threads: the HTTP client may be used by threads; nothing else changes.
class QdrantServerIndex(QdrantIndex):
    """The index on a Qdrant server or cluster, which many machines share.

    Nothing is imported or sent before the first call. A `client` may be given in place of one for
    the URL in the options. Without a `library_id` collections have no owner.
    """

    _stale_per_request = 100
    # The server's log of writes and small segments are not under our control.
    _fate_of_erased = FileTreatment.REQUESTED
    # JSON has no numbers that are not finite; the embedded index stores them.
    _stores_finite = True

    def __init__(
        self,
        options: ServerOptions,
        clock: Clock,
        *,
        client: QdrantClient | None = None,
        library_id: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(options.approximate)
        self._library_id = library_id
        self._options = options
        self._clock = clock
        self._client = client
        self._opening = Lock()
        self._opened: Server | None = None

    def version(self) -> str:
        """Return the version of the server."""
        with self._calls() as server:
            return server.version()

    def is_supported(self) -> bool:
        """Return whether Truespan is tested with the version of the server."""
        numbers = [int(part) for part in re.findall(r"[0-9]+", self.version())[:2]]
        return OLDEST <= tuple(numbers) <= NEWEST

    def failed_collections(self) -> list[str]:
        """Return the names of the library's collections on which a write failed."""
        with self._calls() as server:
            return server.failed_collections()

    def ownership(self, profile: str) -> Ownership:
        with self._calls() as server:
            return server.ownership(profile)

    def claim(self, profile: str) -> None:
        with self._calls() as server:
            server.claim(profile)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @contextmanager
    def _calls(self) -> Iterator[Server]:
        """Yield the server; after a failure, which may mean another server, check it again."""
        with self._opening:
            if self._opened is None:
                try:
                    from truespan.extensions.cluster.qdrant.requests import Server
                except ImportError:
                    raise InvalidConfiguration(
                        "The setting index_url needs the package qdrant-client.", advice=INSTALL
                    ) from None
                owner = self._library_id() if self._library_id else ""
                self._opened = Server(self._options, self._clock, self._client, owner)
            server = self._opened
        try:
            yield server
        except (IndexUnavailable, IndexRefused):
            server.forget()
            self._prepared.clear()
            raise
