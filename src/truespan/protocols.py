"""The roles that a library is built from, so that its parts need not know who fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from truespan.types.answer import Message
from truespan.types.chunk import Holdings, IndexedPoint, Point
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.job import JobOrder, Outcome, QueueStatus
from truespan.types.maintenance import BackupReport, FileFate, Ownership, RemovedFiles
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.source import (
    PARSE_DEFAULTS,
    DocumentOptions,
    Entry,
    FoundSources,
    Members,
    Page,
    ParseOptions,
    Source,
    Upload,
)
from truespan.types.text import CanonicalText, Image, Loaded, Sentence, TokenMap, Validators
from truespan.types.trust import Hit
from truespan.types.vectors import Vector


class Clock(Protocol):
    """Tells the time and waits. `now` may jump; `monotonic` only grows."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class Processes(Protocol):
    """Which processes are alive. A name is never given to a second process on a machine.

    A process that may not be examined counts as alive.
    """

    def own(self) -> str: ...
    def is_alive(self, name: str) -> bool: ...


class TokenCounter(Protocol):
    """Counts the tokens of short texts, and measures whole ones.

    Its counts are stored at ingest and never made again at query time.
    """

    @property
    def name(self) -> str:
        """Return a name that changes whenever counts would."""
        ...

    def measure(self, text: str) -> TokenMap: ...

    def count(self, text: str) -> int: ...


class EmbeddingLimits(Struct, frozen=True):
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


@runtime_checkable
class RemoteEmbedder(Protocol):
    """An embedder whose profile costs a request to its provider."""

    def may_have(self, profile: EmbeddingProfile) -> bool:
        """Return whether its model may be this profile's, as far as that is known already."""
        ...


Embedders: TypeAlias = Callable[[EmbeddingProfile], Embedder]
"""Gives the embedder of a generation's profile, or the default one where none has it."""


class RateLimitStore(Protocol):
    """How many requests a minute a provider gets from all processes of a library together."""

    def reserve(self, provider: str, per_minute: int) -> float:
        """Return for how many seconds to wait with the next request; its moment is taken now."""
        ...


class Cooldowns(Protocol):
    """Until when provider keys wait (0.0: not at all); shared by every process of a library."""

    def cooling_until(self, provider: str, key: str) -> float: ...
    def cool_down(self, provider: str, key: str, until: float) -> None: ...


class ChatModel(Protocol):
    """Replies to messages. It is first connected to when the first piece of a reply is asked for.

    A reply that was given out whole is whole: one that broke off, was cut short or was withheld
    ends in an error, even if text came before it.
    """

    @property
    def name(self) -> str:
        """Return provider and model, as in `ollama/llama3`; explanations show it."""
        ...

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Give the reply piece by piece as it comes; closing the iterator ends the request.

        Raises:
            ProviderUnavailable: it did not answer; trying again may help.
            ProviderRefused: it answered no, or would not say what it had to say.
            ProviderBadReply: what it said cannot be believed to be the whole reply; pieces may
                have been given out before.
            CredentialsMissing, ModelUnavailable: it cannot be asked as it is configured.
        """
        ...


class ChatModels(Struct, frozen=True):
    """The model that answers, and the one that is asked when the decision says so."""

    primary: ChatModel | None = None
    fallback: ChatModel | None = None


class Reranker(Protocol):
    """Scores texts against a query, reading both together. Only the order of scores counts.

    It limits its own time: a call that takes too long ends in an error. Threads may share it.
    """

    @property
    def name(self) -> str:
        """Return kind and model, as in `jina/jina-reranker-v2`; explanations show it."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in the order of the texts; higher is better.

        Raises:
            ProviderUnavailable: it did not answer, or not in time.
            ProviderRefused: it answered no.
            ProviderBadReply: its scores cannot be right.
            CredentialsMissing, ModelUnavailable: it cannot be asked as it is configured.
        """
        ...


class VectorIndex(Protocol):
    """Finds likely chunks. Believed about closeness, never about text.

    Methods with a scope touch the points of its world and generation, in the collection of its
    profile. `scan` gives every point with its vector, in pages; `delete` and `read` ignore ids
    without a point.

    Raises:
        IndexSchemaMismatch: the collection is not of the scope's profile.
        IndexUnavailable: it did not answer; trying again may help.
        IndexRefused: it answered no.
        StorageFull: there is no room to write; nothing was changed.
    """

    def prepare(self, scope: Scope) -> bool:
        """Make sure the collection of the scope's profile exists, with its payload indexes.

        Says whether it was found or made empty: then the store must not believe that it holds
        anything. Asked again by the same caller, it may answer False without looking.
        """
        ...

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Write points; safe to repeat, and not durable before `flush`."""
        ...

    def flush(self, scope: Scope) -> None:
        """Return once everything written so far survives a crash of the machine."""
        ...

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None: ...

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        """Remove each point only if its text hash is still the one given, in one step."""
        ...

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        """Return at most `limit` hits inside `scope` scoring `floor` or more, best first.

        Scope and floor are applied inside the index, not afterwards. The search is exact unless
        `approximate` says otherwise.
        """
        ...

    def start_search(
        self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
    ) -> Callable[[], list[Hit]]:
        """Start what `search` does, and return what waits for the hits: called once, or never.

        Other work can be done meanwhile. Raises what `search` does, at once or in the wait.
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

        Scope and floor hold for both: an id outside the scope, or below the floor, is no hit. With
        a limit of zero only the ids are looked up.
        """
        ...

    def approximate(self, scope: Scope) -> bool:
        """Say whether a search in this scope may miss what lies close, as the operator chose.

        It never is for a reader. The index is asked only about worlds that the operator named.
        """
        ...

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]: ...

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]: ...

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
        """Remove the collection of an unused profile; an absent one is not an error."""
        ...

    def ownership(self, profile: str) -> Ownership:
        """Return whose the collection of a profile is; an absent one is this library's."""
        ...

    def claim(self, profile: str) -> None:
        """Record this library as the owner of the collection of a profile."""
        ...

    def count(self, scope: Scope) -> int:
        """Return how many points the world and generation have."""
        ...

    def count_within(self, scope: Scope) -> int:
        """Return how many points are in the documents of a scope and up to its position."""
        ...

    def drop(self, scope: Scope) -> None: ...

    def erase(self, profile: EmbeddingProfile) -> FileFate:
        """Write the files of a profile's collection anew, so that nothing deleted is left in them.

        Live points stay as they are, bit for bit, and are found all the while. Where the files are
        a server's it can only be asked; what is returned must not claim more.
        """
        ...

    def reset(self, scope: Scope) -> None:
        """Start the collection of the scope's profile anew, for every world that shares it."""
        ...

    def close(self) -> None: ...


class SourceFinder(Protocol):
    """Finds and reads the files that a caller names; see `FileSources`."""

    def find(
        self,
        paths: Sequence[str],
        declared: DocumentOptions,
        *,
        within: Sequence[str] | None = None,
    ) -> FoundSources: ...
    def expand(self, manifest: str, entries: Sequence[Entry]) -> FoundSources: ...
    def absolute(self, path: str) -> str: ...
    def folder_of(self, path: str) -> str: ...
    def read_manifest(self, path: str) -> bytes: ...
    def read(self, source: Source) -> bytes: ...
    def read_sidecar(self, source: Source) -> tuple[str, bytes] | None: ...
    def stamp(self, source: Source) -> object:
        """Return what is different once a source or its sidecar has changed, unread."""
        ...

    def exists(self, path: str) -> bool: ...


class PageFetcher(Protocol):
    """Fetches web pages from allowed hosts; see `providers.web`."""

    def check(self, url: str) -> str: ...
    def fetch(self, url: str, known: Validators | None = None) -> Page: ...


class FolderWatcher(Protocol):
    """Says that something changed below folders; see `files.watch`."""

    def wait(self, seconds: float, stop: Event) -> bool: ...
    def pause(self, seconds: float, stop: Event) -> None: ...
    def close(self) -> None: ...


class SourceParser(Protocol):
    """Parses sources and splits their text, apart from everything else, where neither harms."""

    def parse(self, name: str, data: bytes, options: ParseOptions = PARSE_DEFAULTS) -> Loaded:
        """Return what a source holds; see `parsing.load`.

        Raises:
            SourceRefused: it cannot become a document, or reading it went beyond the limits.
        """
        ...

    def members(
        self, name: str, data: bytes, options: DocumentOptions, first: str | None = None
    ) -> Members:
        """Return the members of a file: a list of all, or the bytes of some from `first` on; see
        `parsing.members`.

        Raises:
            SourceRefused: the file cannot be opened, or reading it went beyond the limits.
        """
        ...

    def split(self, name: str, canonical: CanonicalText, language: str) -> Sequence[Sentence]:
        """Return the sentences of a source's text; see `parsing.sentences`.

        Raises:
            SourceRefused: splitting it went beyond the limits.
        """
        ...

    def close(self) -> None: ...


class UploadStore(Protocol):
    """Uploaded files, stored until their job has ingested them; see `UploadFolder`.

    Files that are uploaded together are a batch, which only its job reads.
    """

    def receive(self, world: WorldId, uploads: Sequence[Upload]) -> AbstractContextManager[str]: ...
    def find(self, world: WorldId, batch: str, declared: DocumentOptions) -> FoundSources: ...
    def exists(self, world: WorldId, batch: str) -> bool: ...
    def read(self, source: Source) -> bytes: ...
    def discard(self, world: WorldId, batch: str) -> None: ...
    def remove(
        self, world: WorldId, path: str, is_wanted: Callable[[str], bool]
    ) -> RemovedFiles: ...
    def sweep(self, world: WorldId, is_wanted: Callable[[str], bool]) -> RemovedFiles: ...
    def remove_all(self, world: WorldId) -> RemovedFiles: ...
    def worlds(self) -> list[WorldId]: ...


class AssetStore(Protocol):
    """Images of documents, as files; see `AssetFolder`.

    Those of a revision are staged under its token until it becomes active.
    """

    def stage_images(
        self, world: WorldId, doc_id: str, token: str, images: Sequence[Image]
    ) -> None: ...
    def documents_with_images(self) -> frozenset[str]: ...
    def publish(self, world: WorldId, doc_id: str, token: str) -> bool: ...
    def read(self, world: WorldId, doc_id: str, token: str, name: str) -> bytes | None: ...
    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles: ...
    def remove_all(self, world: WorldId) -> RemovedFiles: ...


class GoldenFiles(Protocol):
    """Reads files of golden queries, and replaces them atomically; see `GoldenFolder`."""

    def read(self, path: str) -> bytes: ...
    def change(self, path: str, change: Callable[[bytes], bytes]) -> None: ...


def ignore_delay(_seconds: float) -> None:
    """Ignore a requested delay."""


class JobWorker(Protocol):
    """Runs jobs. A queued task only names a job; the store holds its record."""

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = ignore_delay,
    ) -> Outcome:
        """Run a queued job and record how it ended.

        `stopping` is called before each step; if it returns True, the job is interrupted. A job
        that is no longer queued is skipped. With a persistent queue, a job that was stopped, or
        that failed for a temporary reason in an attempt that is not the `last`, is queued again;
        `later` receives the delay in seconds that the failed service asked for.
        """
        ...

    def leave(self, order: JobOrder) -> None:
        """Record that a job of this process is interrupted, because it will not run here."""
        ...


class JobQueue(Protocol):
    """Runs jobs in this process or in others, in the order of submission."""

    @property
    def queue_id(self) -> str | None:
        """The owner of waiting jobs in a persistent queue; None if tasks end with the process.

        With a persistent queue, the worker that runs a task owns its job, even if the
        record names an earlier owner.
        """
        ...

    def work_with(self, worker: Callable[[], JobWorker]) -> None:
        """Set what gives the worker that runs jobs in this process; called with the first job."""
        ...

    def require_room(self) -> None:
        """Refuse another job while too many are waiting; called before a job is recorded.

        Raises:
            Overloaded: the queue is full.
        """
        ...

    def submit(self, order: JobOrder) -> None:
        """Queue a job that is already recorded as queued; a second call has no effect."""
        ...

    def status(self) -> QueueStatus | None:
        """Return the state of the queue and its workers; None if tasks end with their process.

        Raises:
            StoreBusy: the queue cannot be reached.
        """
        ...

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        on_tick: Callable[[], None],
    ) -> int:
        """Run tasks in this process until `stopping` returns True; return how many were run.

        With `once`, return when no task can be started. `on_tick` is called every few minutes.

        Raises:
            InvalidConfiguration: only the process that submits jobs can run them.
        """
        ...

    def close(self) -> None:
        """Stop what runs in this process before its next step, and wait a bounded time for it."""
        ...


class Backups(Protocol):
    """Writes all that a library holds into one file; see `Library.backup`."""

    def write(
        self, path: str, *, vectors: bool, settings: bool, keys: bool, replace: bool
    ) -> BackupReport: ...
