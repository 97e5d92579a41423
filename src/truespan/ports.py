"""What the engine needs from outside, by role.

Owns: the protocols, and what every implementation owes its callers.
Does not own: any technology; that is in `adapters`.
Must hold: every call that touches a world takes its scope.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from truespan.model.chunk import (
    ChunkRecord,
    IndexedPoint,
    PendingChunk,
    Point,
    Vector,
)
from truespan.model.document import (
    Document,
    Draft,
    OutlineEntry,
    RevisionRef,
    ShelfEntry,
    WorldStatus,
)
from truespan.model.ids import ChunkId, TextHash, WorldId
from truespan.model.profile import EmbeddingProfile
from truespan.model.reading import Anchor, Position, StoredSentence, TailChunk
from truespan.model.scope import Authority, Scope, World
from truespan.model.source import Declared, Source
from truespan.model.text import TokenMap
from truespan.model.trail import Flaw, Hit, Repair


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return seconds since the epoch. It may jump: callers must bear that."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow; for measuring how long something took."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class TokenCounter(Protocol):
    """Counts tokens. Its counts are stored at ingest and never made again at query time."""

    @property
    def name(self) -> str:
        """Return a name that changes whenever counts would."""
        ...

    def measure(self, text: str) -> TokenMap:
        """Return the token map of a whole text."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of one short text."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingLimits:
    """What one request to a provider may hold, and how many may be under way."""

    items: int = 2048
    tokens: int = 100_000
    in_flight: int = 2
    joint: bool = True
    """Whether texts of one request come back together, so that their order must be proved."""

    def within(self, other: EmbeddingLimits) -> EmbeddingLimits:
        """Return the tighter of two limits in every respect."""
        return EmbeddingLimits(
            items=min(self.items, other.items),
            tokens=min(self.tokens, other.tokens),
            in_flight=min(self.in_flight, other.in_flight),
            joint=self.joint,
        )


class Embedder(Protocol):
    """Turns texts into vectors. Documents and queries are two verbs."""

    @property
    def profile(self) -> EmbeddingProfile:
        """Return what decides the meaning of its vectors."""
        ...

    @property
    def endpoint(self) -> str:
        """Return where it is reached; part of the query-cache key, never shown to callers."""
        ...

    @property
    def limits(self) -> EmbeddingLimits:
        """Return what one request may hold."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderUnavailable: it did not answer; trying again may help.
            ProviderRefused: it answered no.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        ...

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens the model would read of a query."""
        ...


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


class WorldStore(Protocol):
    """Worlds and their generations."""

    def create_world(self, authority: Authority, name: str) -> World: ...

    def worlds(self, authority: Authority) -> list[World]: ...

    def find_world(self, authority: Authority, reference: str) -> World | None:
        """Return the world with this id or name; None when it is absent or foreign."""
        ...

    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        ...

    def status(self, scope: Scope) -> WorldStatus: ...


class DocumentStore(Protocol):
    """Documents, their revisions, and how one revision replaces another."""

    def documents(self, scope: Scope) -> list[Document]:
        """Return every document that is not deleted, by number."""
        ...

    def stage(self, scope: Scope, drafts: Sequence[Draft]) -> list[RevisionRef]:
        """Write revisions with all their rows, invisible to readers, in one commit.

        An earlier staged revision of the same document is replaced.
        """
        ...

    def pending(
        self, scope: Scope, revision: RevisionRef, *, after: int, limit: int
    ) -> list[PendingChunk]:
        """Return chunks of a revision that are not embedded, with vectors already kept, in order of
        their index past `after`. Rows that cannot be trusted are rebuilt or quarantined first."""
        ...

    def keep_vectors(self, scope: Scope, vectors: Mapping[TextHash, Vector]) -> None:
        """Commit vectors, so that what was paid for survives whatever comes next."""
        ...

    def mark_embedded(self, scope: Scope, chunks: Sequence[PendingChunk]) -> None:
        """Record that the flushed index holds these chunks, unless they have changed since."""
        ...

    def flip(self, scope: Scope, revisions: Sequence[RevisionRef]) -> list[RevisionRef]:
        """Make fully embedded staged revisions the ones readers see; return those that were."""
        ...

    def relabel(
        self,
        scope: Scope,
        document: int,
        *,
        language: str | None,
        version: str,
        tags: Sequence[str],
    ) -> None:
        """Change the labels of a document that decide neither its text nor its chunks."""
        ...

    def tombstone(self, scope: Scope, document: int) -> None:
        """Hide a document from every reader at once."""
        ...

    def retired(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions that no reader sees any more but whose points and rows remain."""
        ...

    def chunk_ids(self, scope: Scope, revision: RevisionRef) -> list[ChunkId]:
        """Return the ids of all chunks of a revision."""
        ...

    def purge(self, scope: Scope, revision: RevisionRef) -> None:
        """Remove a retired revision's rows and the vectors that nothing else needs."""
        ...

    def outline(self, scope: Scope, document: int) -> list[OutlineEntry]:
        """Return where the chapters and sections of the revision readers see begin."""
        ...

    def sentences_across(
        self, scope: Scope, document: int, start: int, end: int
    ) -> tuple[int, int]:
        """Return the first and last sentence that a span of the revision in force touches."""
        ...

    def canonical_text(self, scope: Scope, document: int) -> str:
        """Return the text of the revision readers see.

        Raises:
            StoreDamaged: its bytes do not match their hash.
        """
        ...


class ChunkStore(Protocol):
    """Chunks as retrieval and repair see them."""

    def shelf(self, scope: Scope, world: World) -> tuple[ShelfEntry, ...]:
        """Return the labels of every document in force, by number."""
        ...

    def embedded_count(self, scope: Scope, world: World) -> int:
        """Return how many chunks of the revisions readers see are embedded, within the scope."""
        ...

    def read_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> dict[ChunkId, ChunkRecord]:
        """Return what is known of each id in the scope's world and generation, in one read.

        The documents of the scope do not count here: a hit that is merely out of scope must not be
        taken for an orphan, whose point may be deleted.
        """
        ...

    def record_flaws(self, scope: Scope, flaws: Sequence[Flaw]) -> None:
        """Mark what retrieval found broken, and queue its repair, in one commit; safe to repeat."""
        ...

    def repairs(self, scope: Scope) -> list[Repair]: ...

    def finish_repairs(self, scope: Scope, numbers: Sequence[int]) -> None: ...

    def rebuild_chunk(self, scope: Scope, chunk_id: ChunkId) -> bool:
        """Restore a chunk row from canonical text if that gives the recorded hash, else quarantine
        it; say whether it was restored."""
        ...

    def unfinished(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see that have pending chunks."""
        ...

    def expected(self, scope: Scope) -> Iterator[list[PendingChunk]]:
        """Give every embedded chunk of every revision the index should hold, with its vector, in
        pages; text is left out."""
        ...

    def forget_index(self, scope: Scope) -> None:
        """Mark every chunk pending that the index of the scope's profile held, in every world that
        shares it: the index was lost, and they are only on record."""
        ...

    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None: ...

    def damaged_chunks(self, scope: Scope) -> list[ChunkId]:
        """Return chunks of the revisions readers see whose row is missing or whose bytes do not
        match their hash."""
        ...


class ReaderStore(Protocol):
    """Readers and positions, and what reading needs of a revision's sentences."""

    def set_position(
        self, scope: Scope, reader: str, revision: RevisionRef, sid: int, *, current: bool
    ) -> None:
        """Record the last sentence read of a revision that readers see."""
        ...

    def positions(self, scope: Scope, reader: str) -> list[Position]:
        """Return every position of a reader in documents that are in force, by number."""
        ...

    def sentences(
        self, scope: Scope, revision: RevisionRef, first: int, last: int
    ) -> list[StoredSentence]: ...

    def sentence_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int:
        """Return the last sentence that begins at or before `offset`; -1 before the first."""
        ...

    def text_between(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> str:
        """Return a part of a revision's text. The caller checks it sentence by sentence."""
        ...

    def places_until(self, scope: Scope, revision: RevisionRef, offset: int) -> list[OutlineEntry]:
        """Return the chapters and sections of a revision that begin before `offset`."""
        ...

    def anchor(
        self, scope: Scope, revision: RevisionRef, position: int, *, at_sentence: bool
    ) -> Anchor | None:
        """Return the last stored chunk that nothing past `position` decided."""
        ...

    def whole_chunks(self, scope: Scope, revision: RevisionRef, position: int) -> int:
        """Return how many embedded chunks nothing past `position` decided."""
        ...

    def whole_marks(
        self, scope: Scope, revision: RevisionRef, position: int
    ) -> list[tuple[int, int, int, TextHash]]:
        """Return first and last sentence, start and hash of each chunk `whole_chunks` counts."""
        ...

    def tail(self, scope: Scope, revision: RevisionRef, sid: int) -> list[TailChunk] | None:
        """Return the chunks kept for a position; None when it was not asked from yet."""
        ...

    def keep_tail(
        self, scope: Scope, revision: RevisionRef, sid: int, chunks: Sequence[TailChunk]
    ) -> None: ...

    def vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        """Return the vectors that are kept for texts of the world."""
        ...


class QueryCache(Protocol):
    """Query vectors, kept across restarts."""

    def cached_query(self, scope: Scope, key: str, *, now: float, ttl: float) -> Vector | None: ...

    def cache_query(self, scope: Scope, key: str, vector: Vector, *, now: float) -> None: ...


class TrustedStore(WorldStore, DocumentStore, ChunkStore, ReaderStore, QueryCache, Protocol):
    """Holds all that is believed. Several processes may use it at once."""

    def close(self) -> None: ...


class SourceFinder(Protocol):
    """Finds the files behind the paths a caller gave."""

    def find(self, paths: Sequence[str], declared: Declared) -> list[Source]:
        """Return sources in a stable order, unread.

        Raises:
            SourceMissing: a path names nothing.
        """
        ...

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source.

        Raises:
            SourceRefused: it is gone or cannot be opened.
        """
        ...
