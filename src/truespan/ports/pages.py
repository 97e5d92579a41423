"""Documents to be read page by page."""

from __future__ import annotations

from typing import Protocol

from truespan.model.document import RevisionRef
from truespan.model.page import InForce, Passage, StoredFigure
from truespan.model.scope import Scope


class PageStore(Protocol):
    """What stands on the pages of a revision. Nothing of it is believed before it is checked."""

    def in_force(self, scope: Scope, reference: int | str) -> InForce | None:
        """Return the revision readers see of a document, named by its number or its doc id."""
        ...

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a stretch of a revision's text in one read; None when the revision is gone."""
        ...

    def figures(self, scope: Scope, revision: RevisionRef) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order."""
        ...
