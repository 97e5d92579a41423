"""The index of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from truespan.model.chunk import IndexedPoint, Point, Vector
from truespan.model.ids import ChunkId, TextHash
from truespan.model.scope import Scope
from truespan.model.trail import Hit


class VectorIndex(Protocol):
    """Finds likely chunks. Believed about closeness, never about text."""

    def prepare(self, scope: Scope) -> bool:
        """Make sure the collection of the scope's profile exists, with its payload indexes.

        Says whether it was found or made empty: then the store must not believe that it holds
        anything. Asked again by the same caller, it may answer False without looking.

        Raises:
            IndexSchemaMismatch: it exists with another size or distance.
            IndexUnavailable: it did not answer; trying again may help.
        """
        ...

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points under the scope's world and generation; safe to repeat.

        Not durable before `flush`.

        Raises:
            StorageFull: free space is below the reserve; nothing of the batch was written.
            IndexUnavailable: it did not answer; trying again may help.
        """
        ...

    def flush(self, scope: Scope) -> None:
        """Return once everything written so far survives a crash of the machine."""
        ...

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Remove points of the scope's world and generation; absent ones are no error."""
        ...

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        """Remove each point only if its text hash is still the one given, in one step."""
        ...

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        """Return at most `limit` hits inside `scope` scoring `floor` or more, best first.

        Scope and floor are applied inside the index, not afterwards. The search is exact.

        Raises:
            IndexSchemaMismatch: the collection is not of the scope's profile.
            IndexUnavailable: it did not answer; trying again may help.
            IndexRefused: it answered no.
        """
        ...

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Give every point of the scope's world and generation, with its vector, in pages."""
        ...

    def count(self, scope: Scope) -> int:
        """Return how many points the scope's world and generation have."""
        ...

    def drop(self, scope: Scope) -> None:
        """Remove every point of the scope's world and generation."""
        ...

    def reset(self, scope: Scope) -> None:
        """Start the collection of the scope's profile anew, for every world that shares it."""
        ...

    def close(self) -> None:
        """Let go of the index."""
        ...
