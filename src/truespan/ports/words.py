"""Words of stored text, counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from truespan.model.document import RevisionRef
from truespan.model.scope import Scope, World
from truespan.model.words import CountableChunk, CountedRevision, Postings, WordShelf


class WordStore(Protocol):
    """Keeps how often each word stands in which chunk. It never decides what a word is."""

    def counts_words(self, scope: Scope) -> bool:
        """Say whether words were ever counted in the scope's world and generation."""
        ...

    def word_shelf(self, scope: Scope, world: World) -> WordShelf:
        """Return every revision in force of the scope's generation, by document number.

        Neither the scope's documents nor its place count here. The same state of a world may be
        answered with the same object.
        """
        ...

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of kind text of a revision, in order, not yet believed."""
        ...

    def keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        """Keep the words of revisions in place of what was kept of them, in one commit.

        A revision that is gone meanwhile is passed over. What readers see is unchanged by it.
        """
        ...

    def postings(self, scope: Scope, term: str) -> Postings:
        """Return where a term stands, in any revision of the scope's world and generation."""
        ...

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return key and chunk index of what stands in the scope's chapter and section."""
        ...
