"""What filters need to know of the documents in force, and how much there is, in PostgreSQL."""

from __future__ import annotations

import threading
from typing import Any

from truespan.adapters.postgres_store.connection import Connections
from truespan.adapters.stored_rows import tags_of
from truespan.types.document import CatalogEntry, DocumentCatalog
from truespan.types.scope import Scope, World, admits


class PostgresShelf:
    """The part of the store that knows documents by their labels."""

    _connections: Connections

    def __init__(self) -> None:
        self._shelves: dict[tuple[Any, ...], DocumentCatalog] = {}
        self._shelves_lock = threading.Lock()

    def shelf(self, scope: Scope, world: World) -> DocumentCatalog:
        """Return the labels of every document in force, by number.

        They are remembered until the world changes, which the caller has just read.
        """
        asked = (world.id, world.changes, scope.generation.number)
        known = self._shelves.get(asked)
        if known is None:
            known = self._shelf(scope)
            with self._shelves_lock:
                if len(self._shelves) > 64:
                    self._shelves.clear()
                self._shelves[asked] = known
        return known

    def _shelf(self, scope: Scope) -> DocumentCatalog:
        rows = self._connections.query(
            scope.world,
            """SELECT d.number, d.doc_id, r.name, r.language, r.language_declared, r.version,
                 r.tags, t.embedded, t.chunks - t.embedded - t.quarantined
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = %s
               WHERE d.deleted_at IS NULL
               ORDER BY d.number""",
            (scope.generation.number,),
        )
        return DocumentCatalog(
            CatalogEntry(number, doc_id, name, language, declared, version, tags_of(tags), *counts)
            for number, doc_id, name, language, declared, version, tags, *counts in rows
        )

    def embedded_count(self, scope: Scope, world: World) -> int:
        """Return how many chunks of the revisions readers see are embedded, within the scope."""
        if scope.chapter is not None or scope.section is not None:
            return self._placed_count(scope)
        return self.shelf(scope, world).embedded(scope.documents)

    def _placed_count(self, scope: Scope) -> int:
        rows = self._connections.query(
            scope.world,
            """SELECT d.number, coalesce(c.chapter, r.title),
                 coalesce(c.section, c.chapter, r.title), count(*)
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = %s AND s.state = 'embedded'
               JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
                 AND c.position = s.position
               WHERE d.deleted_at IS NULL
               GROUP BY 1, 2, 3""",
            (scope.generation.number,),
        )
        return sum(
            count
            for number, chapter, section, count in rows
            if admits(scope.documents, number)
            and scope.chapter in (None, chapter.casefold())
            and scope.section in (None, section.casefold())
        )
