"""The pages of a book as far as they were read."""

from __future__ import annotations

from truespan.model.document import RevisionRef
from truespan.model.page import PageHead
from truespan.model.reading import Position
from truespan.model.scope import Scope
from truespan.query.page import PagedStore, Pages


def read_pages(store: PagedStore, scope: Scope, position: Position) -> Pages:
    """Return the revision that a position was read in, up to that position and no farther."""
    return Pages(
        store,
        scope.for_reader(position.document, position.revision, position.sid),
        RevisionRef(position.document, position.revision),
        PageHead(position.document, position.doc_id, position.title, position.name),
        until=position.sid,
    )
