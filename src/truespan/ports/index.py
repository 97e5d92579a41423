"""The index of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from truespan.model.chunk import Holdings, IndexedPoint, Point, Vector
from truespan.model.erasure import FileFate
from truespan.model.ids import ChunkId, TextHash
from truespan.model.profile import EmbeddingProfile
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

        Scope and floor are applied inside the index, not afterwards. The search is exact unless
        `approximate` says otherwise.

        Raises:
            IndexSchemaMismatch: the collection is not of the scope's profile.
            IndexUnavailable: it did not answer; trying again may help.
            IndexRefused: it answered no.
        """
        ...

    def search_with(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        floor: float | None,
        ids: Sequence[ChunkId],
    ) -> tuple[list[Hit], list[Hit]]:
        """Return what `search` does and, beside it, the hits among `ids`, in one request.

        Scope and floor hold for both: an id outside the scope, or below the floor, is no hit.
        """
        ...

    def approximate(self, scope: Scope) -> bool:
        """Say whether a search in this scope may miss what lies close, as the operator chose.

        It never is for a reader. Nothing is asked of the index.
        """
        ...

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        """Give every point of the scope's world and generation, with its vector, in pages."""
        ...

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        """Return those of the points that the scope's world and generation have."""
        ...

    def tenants(self, scope: Scope, *, limit: int) -> Holdings:
        """Return whose points the collection of the scope's profile holds, at most `limit` of them.

        This alone looks past the scope's world: it gives names and counts, and no point.
        """
        ...

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Remove the points of a tenant that no world claims, from the scope's collection."""
        ...

    def collections(self) -> list[str]:
        """Return the ids of the profiles that there are collections of."""
        ...

    def discard(self, profile: str) -> None:
        """Remove the collection of a profile that nobody uses; an absent one is no error."""
        ...

    def count(self, scope: Scope) -> int:
        """Return how many points the scope's world and generation have."""
        ...

    def drop(self, scope: Scope) -> None:
        """Remove every point of the scope's world and generation."""
        ...

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        """Write the files of a profile's collection anew, so that nothing deleted is left in them.

        Live points stay as they are, bit for bit, and are found all the while. Where the files are
        a server's it can only be asked; what is returned must not claim more.

        Raises:
            StorageFull: there is no room for a copy; nothing was changed.
            IndexUnavailable: it did not answer; trying again may help.
        """
        ...

    def reset(self, scope: Scope) -> None:
        """Start the collection of the scope's profile anew, for every world that shares it."""
        ...

    def close(self) -> None:
        """Let go of the index."""
        ...
