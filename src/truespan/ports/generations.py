"""Generations of a world, the names that lead to them, and their chunks of what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from truespan.model.chunk import CutChunk
from truespan.model.document import (
    DomainRecord,
    GenerationRecord,
    KeptGeneration,
    Recuttable,
    RevisionRef,
)
from truespan.model.profile import ChunkingProfile, EmbeddingProfile
from truespan.model.scope import Authority, Generation, Scope


class GenerationStore(Protocol):
    """Which builds of a world there are, who is sent to which, and how one is filled."""

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return every generation of the world, by number, with what it holds."""
        ...

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return every generation of the world that is not being removed, by number."""
        ...

    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Begin another generation, which no alias names yet."""
        ...

    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Let an alias name the scope's generation, in one commit; None is the world's default.

        False when the generation is not complete, or being removed.

        Raises:
            DomainNotFound: the key names a generation of another world.
        """
        ...

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return what an alias named before its last move, if that is still there."""
        ...

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of the worlds an authority sees, by key."""
        ...

    def remove_domain(self, scope: Scope, key: str) -> None: ...

    def retire_generation(self, scope: Scope) -> None:
        """Let nothing name the scope's generation any more; its points and rows are still there.

        Raises:
            GenerationInUse: an alias names it.
        """
        ...

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return generations that were retired and whose rows remain."""
        ...

    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and the vectors that nothing else needs."""
        ...

    def uncut(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions, staged or in force, that the generation has no chunks of."""
        ...

    def recuttable(self, scope: Scope, revision: RevisionRef) -> Recuttable | None:
        """Return all that chunks are made of; None when the revision is gone.

        Raises:
            StoreDamaged: its text does not match its hash.
        """
        ...

    def write_chunks(self, scope: Scope, revision: RevisionRef, chunks: Sequence[CutChunk]) -> bool:
        """Give the scope's generation its chunks of a revision, unless it has them.

        False when the revision or the generation is gone.
        """
        ...
