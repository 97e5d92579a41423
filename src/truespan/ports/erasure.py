"""Removing things for good: what the store does for it, and who looks whether it was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from truespan.model.erasure import Erasure, FileFate, Remnant, Trace
from truespan.model.ids import ChunkId, WorldId
from truespan.model.scope import Authority, Scope


class ErasureStore(Protocol):
    """What is left to do after something was deleted; nothing of it is forgotten by a crash."""

    def traces(self, scope: Scope, document: int | None) -> list[Trace]:
        """Return stretches of text that only a document has, or only the scope's world; a few."""
        ...

    def own_chunks(self, scope: Scope, document: int | None, *, limit: int) -> list[ChunkId]:
        """Return embedded chunks of a document, or of the world, whose text nothing else has."""
        ...

    def delete_world(
        self, authority: Authority, world: WorldId, *, erase: bool
    ) -> Mapping[str, int]:
        """Remove a world with all its rows and queue the removal of its points and images, in one
        commit; return how many rows each table lost.

        Raises:
            WorldNotFound: it is absent, or not for this authority to remove.
        """
        ...

    def erasures(self, *, urgent: bool = False) -> list[Erasure]:
        """Return what waits, in the order it is to be done; with `urgent`, only that."""
        ...

    def queue_erasure(self, scope: Scope, *, urgent: bool = False) -> None:
        """Have the files of the store and of the scope's profile written anew, in their time."""
        ...

    def finish_erasure(self, erasure: Erasure) -> None:
        """Forget what was done, unless it was wished for again since it was read."""
        ...

    def rewrite_file(self) -> FileFate:
        """Write the store's own file anew, and empty its log; where that is a server's, ask for it.

        What is returned must not claim more than was seen to be so.

        Raises:
            StoreBusy: somebody reads or writes; trying again may help.
            StorageFull: there is no room for a copy.
        """
        ...


class Remains(Protocol):
    """Looks through every file that a library keeps."""

    def look_for(self, traces: Sequence[Trace]) -> Remnant:
        """Search each file for each of the traces, in every form it may have there."""
        ...
