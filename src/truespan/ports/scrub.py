"""What the doctor needs of the store, beyond what retrieval and ingestion do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from truespan.model.chunk import PendingChunk, Vector
from truespan.model.document import RevisionRef
from truespan.model.health import RevisionFlaw, TallyFlaw, TextFlaw
from truespan.model.ids import ChunkId, TextHash
from truespan.model.scope import Scope


class ScrubStore(Protocol):
    """Holds what is stored against what was recorded of it. Looking changes nothing."""

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return those of the chunks that the index should hold, with vectors, without text."""
        ...

    def text_flaws(
        self, scope: Scope, ids: Sequence[ChunkId] | None = None
    ) -> Iterator[list[TextFlaw]]:
        """Give the chunks of the generation whose rows cannot be believed; of `ids` if given.

        Those in quarantine are left out: they are known to be lost.
        """
        ...

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Give what of the world's revisions cannot be believed."""
        ...

    def tally_flaws(self, scope: Scope) -> list[TallyFlaw]:
        """Return the counts, in any generation of the world, that are not what is counted now.

        Counts that are missing, and counts of what is not there, are among them.
        """
        ...

    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Make a revision's count in a generation what its chunks are."""
        ...

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return how many chunks readers could see are pending, and how many are in quarantine.

        Counted from the chunks themselves.
        """
        ...

    def restore_text(self, scope: Scope, revision: RevisionRef) -> bool:
        """Write a revision's canonical text again from its chunks, if that gives its hash."""
        ...

    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Let the next ingestion of a revision's source take it for changed."""
        ...

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector]]]:
        """Give every vector kept for the scope's world and profile, in pages; of `hashes` if given.

        Those of readers' tails are among them.
        """
        ...

    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove kept vectors, and mark every chunk pending that was written from them."""
        ...

    def foreign_vectors(self, scope: Scope) -> int:
        """Return how many vectors are kept for profiles that no generation of the world has."""
        ...

    def drop_foreign_vectors(self, scope: Scope) -> None: ...

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, each with text that was checked."""
        ...
