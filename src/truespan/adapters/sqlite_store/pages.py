"""Pages of documents in SQLite: labels in force, stretches of text, figures."""

from __future__ import annotations

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.staging import revision_key
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.adapters.stored_rows import figure_mark
from truespan.types.document import RevisionRef, assets_token
from truespan.types.reading import InForce, Passage, StoredFigure
from truespan.types.scope import Scope
from truespan.types.text import PageStart, Place

_IN_FORCE = """
    SELECT d.number, r.number, d.doc_id, r.name, r.title, r.source_hash, r.recipe
    FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
    WHERE d.world = (SELECT key FROM worlds WHERE id = ?) AND d.deleted_at IS NULL
"""

# A figure's chunk is as far among the chunks of figures as the figure is among the figures.
_FIGURES = """
    SELECT f.start, f.figure_id, f.image_ref, CAST(f.description AS BLOB), f.mark, s.reach,
      s.text_hash
    FROM figures f
    LEFT JOIN states s ON s.revision = f.revision AND s.generation = ?2 AND s.kind = 'figure'
      AND s.position = f.number - 1 + (SELECT min(position) FROM states
        WHERE revision = ?1 AND generation = ?2 AND kind = 'figure')
    WHERE f.revision = ?1 ORDER BY f.number
"""


class SqlitePages:
    """The part of the store that documents are read from page by page."""

    _connections: Connections

    def in_force(self, scope: Scope, reference: int | str) -> InForce | None:
        """Return the revision readers see of a document, named by its number or its doc id."""
        column = "d.number" if isinstance(reference, int) else "d.doc_id"
        rows = self._connections.query(f"{_IN_FORCE} AND {column} = ?", (scope.world, reference))
        if not rows:
            return None
        number, revision, doc_id, name, title, source, recipe = rows[0]
        token = assets_token(source, recipe)
        return InForce(RevisionRef(number, revision), doc_id, name, title, token)

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a stretch of a revision's text in one read; None when the revision is gone."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            text = fetch(
                connection,
                "SELECT CAST(substr(text, ?, ?) AS BLOB) FROM texts WHERE revision = ?",
                (start + 1, end - start, key),
            )
            places = fetch(
                connection,
                """SELECT start, chapter, section FROM places
                   WHERE revision = ? AND start < ? ORDER BY start""",
                (key, end),
            )
            pages = fetch(
                connection,
                "SELECT start, page FROM pages WHERE revision = ? AND start < ? ORDER BY start",
                (key, end),
            )
        if not text:
            return None
        return Passage(
            text[0][0],
            tuple(row[0] for row in places),
            tuple(Place(*row[1:]) for row in places),
            tuple(PageStart(*row) for row in pages),
        )

    def figures(self, scope: Scope, revision: RevisionRef) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(connection, _FIGURES, (key, scope.generation.number))
        return [
            StoredFigure(start, figure_id, image_ref, described, _reach(mark, reach), text_hash)
            for start, figure_id, image_ref, described, mark, reach, text_hash in rows
        ]


def _reach(mark: str, reach: int | None) -> int | None:
    """Return what decided a figure by itself; rows of an earlier version have its chunk's alone."""
    own = figure_mark(mark).reach
    return reach if own is None else own
