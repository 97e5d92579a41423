"""Pages of documents in PostgreSQL: labels in force, stretches of text, figures."""

from __future__ import annotations

from typing import Final

from truespan.adapters.postgres_store.connection import Connections, fetch
from truespan.adapters.postgres_store.staging import revision_key
from truespan.adapters.postgres_store.texts import text_part
from truespan.adapters.postgres_store.worlds import require_world
from truespan.adapters.stored_rows import figure_mark
from truespan.types.document import RevisionRef, assets_token
from truespan.types.reading import InForce, Passage, StoredFigure
from truespan.types.scope import Scope
from truespan.types.text import PageStart, Place

_IN_FORCE: Final = """
    SELECT d.number, r.number, d.doc_id, r.name, r.title, r.source_hash, r.recipe
    FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
    WHERE d.deleted_at IS NULL
"""

# A figure's chunk is as far among the chunks of figures as the figure is among the figures.
_FIGURES: Final = """
    SELECT f.start, f.figure_id, f.image_ref, f.description, f.mark, s.reach, s.text_hash
    FROM figures f
    LEFT JOIN states s ON s.revision = f.revision AND s.generation = %(generation)s
      AND s.kind = 'figure' AND s.position = f.number - 1 + (SELECT min(position) FROM states
        WHERE revision = %(revision)s AND generation = %(generation)s AND kind = 'figure')
    WHERE f.revision = %(revision)s ORDER BY f.number
"""


class PostgresPages:
    """The part of the store that documents are read from page by page."""

    _connections: Connections

    def in_force(self, scope: Scope, reference: int | str) -> InForce | None:
        """Return the revision readers see of a document, named by its number or its doc id."""
        if isinstance(reference, int):
            sql = f"{_IN_FORCE} AND d.number = %s"
        else:
            sql = f"{_IN_FORCE} AND d.doc_id = %s"
        rows = self._connections.query(scope.world, sql, (reference,))
        if not rows:
            return None
        number, revision, doc_id, name, title, source, recipe = rows[0]
        token = assets_token(source, recipe)
        return InForce(RevisionRef(number, revision), doc_id, name, title, token)

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a stretch of a revision's text in one read; None when the revision is gone."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            key = revision_key(session, revision)
            text = text_part(session, key, start, end)
            places = fetch(
                session,
                """SELECT start, chapter, section FROM places
                   WHERE revision = %s AND start < %s ORDER BY start""",
                (key, end),
            )
            pages = fetch(
                session,
                "SELECT start, page FROM pages WHERE revision = %s AND start < %s ORDER BY start",
                (key, end),
            )
        if text is None:
            return None
        return Passage(
            text,
            tuple(row[0] for row in places),
            tuple(Place(*row[1:]) for row in places),
            tuple(PageStart(*row) for row in pages),
        )

    def figures(self, scope: Scope, revision: RevisionRef) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            asked = {
                "revision": revision_key(session, revision),
                "generation": scope.generation.number,
            }
            rows = fetch(session, _FIGURES, asked)
        return [
            StoredFigure(start, figure_id, image_ref, described, _reach(mark, reach), text_hash)
            for start, figure_id, image_ref, described, mark, reach, text_hash in rows
        ]


def _reach(mark: str, reach: int | None) -> int | None:
    """Return what decided a figure by itself, and where it does not say so, its chunk."""
    own = figure_mark(mark).reach
    return reach if own is None else own
