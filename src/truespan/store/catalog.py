"""The labels of the documents that readers see, and how much there is to find."""

from __future__ import annotations

import threading
from typing import Any

from truespan.store.rows import tags_of
from truespan.store.session import Part
from truespan.types.document import CatalogEntry, DocumentCatalog
from truespan.types.scope import Scope, World, admits

_MOST_CACHED = 64


class Catalog(Part):
    """The part of the store that knows documents by their labels."""

    def __init__(self) -> None:
        super().__init__()
        self._shelves: dict[tuple[Any, ...], DocumentCatalog] = {}
        self._shelves_lock = threading.Lock()

    def document_catalog(self, scope: Scope, world: World) -> DocumentCatalog:
        """Return the labels of every document that readers see, by number.

        They are cached until the world changes, which the caller has just read.
        """
        wanted = (world.id, world.changes, scope.generation.number)
        known = self._shelves.get(wanted)
        if known is None:
            known = self._read_shelf(scope)
            with self._shelves_lock:
                if len(self._shelves) > _MOST_CACHED:
                    self._shelves.clear()
                self._shelves[wanted] = known
        return known

    def _read_shelf(self, scope: Scope) -> DocumentCatalog:
        rows = self._db.at(scope).all(
            """SELECT d.number, d.doc_id, r.name, r.language, r.language_declared, r.version,
                 r.tags, t.embedded, t.chunks - t.embedded - t.quarantined
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN tallies t ON t.revision = r.key AND t.generation = :generation
               WHERE d.world_id = :world AND d.deleted_at IS NULL
               ORDER BY d.number""",
        )
        return DocumentCatalog(
            CatalogEntry(
                number, doc_id, name, language, bool(declared), version, tags_of(tags), *counts
            )
            for number, doc_id, name, language, declared, version, tags, *counts in rows
        )

    def embedded_count(self, scope: Scope, world: World) -> int:
        """Return how many chunks of the revisions readers see are embedded, within the scope."""
        if scope.chapter is None and scope.section is None:
            return self.document_catalog(scope, world).embedded(scope.documents)
        rows = self._db.at(scope).all(
            """SELECT d.number, coalesce(c.chapter, r.title),
                 coalesce(c.section, c.chapter, r.title), count(*)
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN states s ON s.revision = r.key AND s.generation = :generation
                 AND s.state = 'embedded'
               JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
                 AND c.position = s.position
               WHERE d.world_id = :world AND d.deleted_at IS NULL
               GROUP BY 1, 2, 3""",
        )
        return sum(
            count
            for number, chapter, section, count in rows
            if admits(scope.documents, number)
            and scope.chapter in (None, chapter.casefold())
            and scope.section in (None, section.casefold())
        )
