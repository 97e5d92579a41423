"""The trusted store, by what it keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from truespan.model.chunk import ChunkRecord, PendingChunk, Vector
from truespan.model.document import (
    AuditEntry,
    Derivable,
    Derived,
    Document,
    Draft,
    OutlineEntry,
    RevisionRef,
    WorldStatus,
)
from truespan.model.ids import ChunkId, TextHash, WorldId
from truespan.model.profile import EmbeddingProfile
from truespan.model.reading import Anchor, Position, StoredSentence, TailChunk
from truespan.model.scope import Aim, Authority, Scope, World
from truespan.model.shelf import Shelf
from truespan.model.trail import Flaw, Repair
from truespan.ports.calibration import CalibrationStore
from truespan.ports.embedding import Cooldowns
from truespan.ports.erasure import ErasureStore
from truespan.ports.generations import GenerationStore
from truespan.ports.jobs import JobStore, ShareStore
from truespan.ports.pages import PageStore
from truespan.ports.replay import ReplayStore
from truespan.ports.scrub import ScrubStore
from truespan.ports.tokens import TokenStore
from truespan.ports.usage import UsageLog
from truespan.ports.words import WordStore


class WorldStore(Protocol):
    """Worlds and their generations."""

    def create_world(self, authority: Authority, name: str) -> World: ...

    def worlds(self, authority: Authority) -> list[World]: ...

    def find_world(self, authority: Authority, reference: str, aim: Aim = None) -> World | None:
        """Return the world with this id or name, with the generation that is aimed at.

        None when the world is absent or foreign, or has no such generation or domain.
        """
        ...

    def find_domain(self, authority: Authority, key: str) -> World | None:
        """Return the world of a domain, with the generation its alias names; None as above."""
        ...

    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        ...

    def status(self, scope: Scope) -> WorldStatus: ...


class DocumentStore(Protocol):
    """Documents, their revisions, and how one revision replaces another."""

    def documents(self, scope: Scope, *, named: Collection[str] | None = None) -> list[Document]:
        """Return every document that is not deleted, by number; of some ids alone, if given.

        What it costs follows from how many are asked for, not from how many there are.
        """
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

    def withdraw(self, scope: Scope, revisions: Sequence[RevisionRef]) -> None:
        """Give up revisions that are still staged; a document that has no other is hidden as well.

        What is in force meanwhile is left alone.
        """
        ...

    def relabel(
        self,
        scope: Scope,
        document: int,
        *,
        language: str | None,
        version: str,
        tags: Sequence[str],
        source_url: str | None,
        metadata: str | None,
        origin: str,
    ) -> None:
        """Change the labels of a document that decide neither its text nor its chunks."""
        ...

    def tombstone(self, scope: Scope, document: int, *, erase: bool = False) -> Mapping[str, int]:
        """Hide a document from every reader at once.

        With `erase` its names leave the records of jobs, and what its rows leave in files is to be
        removed soon; returns how many rows were changed for that, by what they are.
        """
        ...

    def retired(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions that no reader sees any more but whose points and rows remain."""
        ...

    def deleted(self, scope: Scope) -> list[str]:
        """Return the ids of deleted documents that have rows left, and that no new one has."""
        ...

    def chunk_ids(self, scope: Scope, revision: RevisionRef) -> list[ChunkId]:
        """Return the ids of all chunks of a revision."""
        ...

    def purge(self, scope: Scope, revision: RevisionRef) -> Mapping[str, int]:
        """Remove a retired revision's rows and the vectors that nothing else needs.

        What they leave in files is queued for erasure. Returns how many rows each table lost, if
        the document is to be erased.
        """
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

    def shelf(self, scope: Scope, world: World) -> Shelf:
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

    def skip_chunks(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        """Set chunks aside that the model cannot read, so that the rest of a document may go on."""
        ...

    def mark_pending(self, scope: Scope, ids: Sequence[ChunkId]) -> None: ...


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

    def page_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int | None:
        """Return the page that an offset of a revision lies on; None where it has no pages."""
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


class UpkeepStore(Protocol):
    """What is kept beside documents: derived metadata, audits, and vectors of known texts."""

    def underived(self, scope: Scope) -> list[RevisionRef]:
        """Return the revisions readers see whose metadata were not derived yet."""
        ...

    def derivable(self, scope: Scope, revision: RevisionRef) -> Derivable | None:
        """Return what metadata are derived from; None when the revision is gone."""
        ...

    def keep_derived(self, scope: Scope, derived: Sequence[Derived]) -> None:
        """Keep derived metadata, or the codes of what kept them from being derived."""
        ...

    def derived(self, scope: Scope, document: int) -> str | None:
        """Return the metadata derived from the revision readers see; None until they are."""
        ...

    def audit(self, scope: Scope, document: int) -> list[AuditEntry]:
        """Return what the sanitiser counted in the revision readers see."""
        ...

    def probes(self, scope: Scope) -> dict[str, Vector]:
        """Return the vectors of known texts that were kept for the generation."""
        ...

    def keep_probes(self, scope: Scope, probes: Mapping[str, Vector]) -> None: ...


class TrustedStore(
    WorldStore,
    GenerationStore,
    DocumentStore,
    ChunkStore,
    ReaderStore,
    PageStore,
    QueryCache,
    JobStore,
    ShareStore,
    UpkeepStore,
    UsageLog,
    Cooldowns,
    ErasureStore,
    CalibrationStore,
    ScrubStore,
    WordStore,
    TokenStore,
    ReplayStore,
    Protocol,
):
    """Holds all that is believed. Several processes may use it at once."""

    def close(self) -> None: ...
