"""Roles that a library is built from: embedder, chat model, index, parser, clock and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from truespan.types.answer import Message
from truespan.types.chunk import IndexedPoint, Point, PointCounts
from truespan.types.ids import ChunkId, TextHash
from truespan.types.job import JobOrder, Outcome, QueueStatus
from truespan.types.maintenance import FileTreatment, Ownership
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.source import (
    PARSE_DEFAULTS,
    DocumentOptions,
    Members,
    ParseOptions,
)
from truespan.types.text import CanonicalText, Loaded, Sentence, TokenMap
from truespan.types.trust import Hit
from truespan.types.vectors import QueryStates, Vector, WordStates

if TYPE_CHECKING:
    from truespan.types.picture import PictureRequest, Rendering


class Clock(Protocol):
    """A clock that can also wait. `now` may jump; `monotonic` only grows."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float, /) -> None: ...


class Processes(Protocol):
    """The processes of this machine. A name is never reused for another process.

    A process that may not be inspected counts as alive.
    """

    def own(self) -> str: ...
    def is_alive(self, name: str) -> bool: ...


class TokenCounter(Protocol):
    """A token counter. Counts are stored at ingestion and never computed at query time."""

    @property
    def name(self) -> str:
        """A name that changes whenever counts would change."""
        ...

    def measure(self, text: str) -> TokenMap: ...

    def count(self, text: str) -> int: ...


class Embedder(Protocol):
    """An embedding model. Documents and queries are embedded by separate methods."""

    @property
    def profile(self) -> EmbeddingProfile:
        """The profile of the vectors: provider, model, dimensions and modes."""
        ...

    @property
    def endpoint(self) -> str:
        """The address of the provider; part of the query-cache key, never shown to callers."""
        ...

    @property
    def limits(self) -> EmbeddingLimits:
        """The limits of one request."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderUnavailable: The provider did not answer; trying again may help.
            ProviderRefused: The provider refused the request.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        ...

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens of a query for the model."""
        ...


@runtime_checkable
class RemoteEmbedder(Protocol):
    """An embedder that asks its provider for its profile."""

    def may_have(self, profile: EmbeddingProfile) -> bool:
        """Return whether the profile may belong to the model, as far as the model is known."""
        ...


@runtime_checkable
class WordStateEmbedder(Protocol):
    """An embedder whose network gives a state for every token, for `types.vectors`.

    Vectors are bit-equal to those of `Embedder`, and both raise the same errors. The states of a
    document depend on its text and the profile alone.
    """

    def gives_word_states(self) -> bool:
        """Return whether the model gives states; an output with whole texts only has none."""
        ...

    def embed_documents_with_states(
        self, texts: Sequence[str]
    ) -> list[tuple[Vector, WordStates]]: ...

    def embed_query_with_states(self, text: str) -> tuple[Vector, QueryStates]: ...


def find_state_embedder(embedder: Embedder) -> WordStateEmbedder | None:
    """Return an embedder that gives states of words; None if this one does not."""
    if isinstance(embedder, WordStateEmbedder) and embedder.gives_word_states():
        return embedder
    return None


Embedders: TypeAlias = Callable[[EmbeddingProfile], Embedder]
"""Function that returns the embedder of a profile, or the default embedder if none has it."""


class Cooldowns(Protocol):
    """End times of cool-downs of provider keys, shared by all processes; 0.0 for none."""

    def cooling_until(self, provider: str, key: str) -> float: ...
    def cool_down(self, provider: str, key: str, until: float) -> None: ...


class ChatModel(Protocol):
    """A chat model. The connection is opened when the first piece of a reply is requested.

    A reply that is interrupted, truncated or withheld ends in an error, even if text came before.
    """

    @property
    def name(self) -> str:
        """Provider and model, as in `ollama/llama3`; explanations show it."""
        ...

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield the reply piece by piece; closing the iterator ends the request.

        Raises:
            ProviderUnavailable: The provider did not answer; trying again may help.
            ProviderRefused: The provider refused the request, or withheld the reply.
            ProviderBadReply: The reply is not complete; pieces may have been yielded before.
            InvalidConfiguration, ModelUnavailable: The configuration is incomplete or wrong.
        """
        ...


# Shared by threads: a connected model replaces `primary` at once; an answer uses its own copy.
class ChatModels(Struct):
    """The chat model that answers, and the one for questions that the documents do not answer."""

    primary: ChatModel | None = None
    fallback: ChatModel | None = None

    def connect(self, model: ChatModel | None) -> None:
        """Replace the model that answers, from the next question on."""
        self.primary = model


class Reranker(Protocol):
    """A model that scores texts against a query, reading both together. Only the order counts.

    A call that takes too long ends in an error. Threads may share a reranker.
    """

    @property
    def name(self) -> str:
        """Kind and model, as in `jina/jina-reranker-v2`; explanations show it."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in the order of the texts; higher is better.

        Raises:
            ProviderUnavailable: The provider did not answer, or not in time.
            ProviderRefused: The provider refused the request.
            ProviderBadReply: The scores cannot be right.
            InvalidConfiguration, ModelUnavailable: The configuration is incomplete or wrong.
        """
        ...


class VectorIndex(Protocol):
    """A vector index, which finds candidates. It is trusted about similarity, never about text.

    Methods with a scope touch only the points of its world and generation, in the collection of
    its profile. `scan` yields every point with its vector, in pages; `delete` and `read` ignore
    ids without a point.

    Raises:
        IndexSchemaMismatch: The collection does not match the profile of the scope.
        IndexUnavailable: The index did not answer; trying again may help.
        IndexRefused: The index refused the request.
        StorageFull: There is no room to write; nothing was changed.
    """

    def prepare(self, scope: Scope) -> bool:
        """Create the collection of the scope's profile, with its payload indexes, if absent.

        Returns whether the collection is empty: then the store must not assume any point in it.
        Later calls of the same caller may return False without a check.
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
        """Delete each point only if it still has this text hash, in one step."""
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
        """Start a search and return a function that waits for its hits; call it at most once.

        The errors of `search` are raised at once or by that function.
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
        """Return the hits of `search` and the hits among `ids`, in one request.

        Scope and floor apply to both: an id outside the scope, or below the floor, is no hit. With
        a limit of zero only the ids are looked up.
        """
        ...

    def approximate(self, scope: Scope) -> bool:
        """Return whether a search in this scope is approximate, as the operator chose.

        Searches of a reader are always exact.
        """
        ...

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]: ...

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]: ...

    def tenants(self, scope: Scope, *, limit: int) -> PointCounts:
        """Return the owners of points in the collection of the scope's profile, at most `limit`.

        Only this method sees beyond the world of the scope: names and counts, and no point.
        """
        ...

    def drop_tenant(self, scope: Scope, tenant: str) -> None:
        """Delete the points of a tenant that belongs to no world, from the scope's collection."""
        ...

    def collections(self) -> list[str]:
        """Return the ids of the profiles that have a collection."""
        ...

    def discard(self, profile: str) -> None:
        """Delete the collection of an unused profile; an absent collection is no error."""
        ...

    def ownership(self, profile: str) -> Ownership:
        """Return the owner of a profile's collection; this library if it is absent."""
        ...

    def claim(self, profile: str) -> None:
        """Record this library as the owner of the collection of a profile."""
        ...

    def count(self, scope: Scope) -> int:
        """Return the number of points of the world and generation."""
        ...

    def count_within(self, scope: Scope) -> int:
        """Return the number of points in the documents of a scope, up to its position."""
        ...

    def drop(self, scope: Scope) -> None: ...

    def erase(self, profile: EmbeddingProfile) -> FileTreatment:
        """Rewrite the files of a profile's collection, so that no deleted data is left in them.

        Live points stay identical and are found meanwhile. A server can only be asked to do so;
        the result must not claim more.
        """
        ...

    def reset(self, scope: Scope) -> None:
        """Empty the collection of the scope's profile, for every world that shares it."""
        ...

    def close(self) -> None: ...


class SourceParser(Protocol):
    """Parser of sources and splitter of their text, in a restricted process.

    `SourceRefused` is raised for a source that cannot be read or exceeds the limits.
    """

    def parse(self, name: str, data: bytes, options: ParseOptions = PARSE_DEFAULTS) -> Loaded:
        """Return the content of a source; see `parsing.load`."""
        ...

    def members(
        self, name: str, data: bytes, options: DocumentOptions, first: str | None = None
    ) -> Members:
        """Return the members of a file: a list of all, or the bytes of some from `first` on; see
        `parsing.members`.
        """
        ...

    def draw(self, data: bytes, request: PictureRequest) -> Rendering | None:
        """Return a page of a source as it looks; see `parsing.draw`."""
        ...

    def split(self, name: str, canonical: CanonicalText, language: str) -> Sequence[Sentence]:
        """Return the sentences of a source's text; see `parsing.sentences`."""
        ...

    def close(self) -> None: ...


def ignore_delay(_seconds: float) -> None:
    """Ignore a requested delay."""


class JobWorker(Protocol):
    """Runner of jobs. A queued task only names a job; the store has its record."""

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = ignore_delay,
    ) -> Outcome:
        """Run a queued job and record its outcome.

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
    """Queue of jobs, which run in this process or in others, in the order of submission."""

    @property
    def queue_id(self) -> str | None:
        """The owner of waiting jobs in a persistent queue; None if tasks end with the process.

        With a persistent queue, the worker that runs a task owns its job, even if the
        record names an earlier owner.
        """
        ...

    def work_with(self, worker: Callable[[], JobWorker]) -> None:
        """Set the function that creates the worker of this process, called with the first job."""
        ...

    def require_room(self) -> None:
        """Refuse another job while too many are waiting; called before a job is recorded."""
        ...

    def submit(self, order: JobOrder) -> None:
        """Queue a job that is already recorded as queued; a second call has no effect."""
        ...

    def status(self) -> QueueStatus | None:
        """Return the state of the queue and its workers; None if tasks end with their process."""
        ...

    def serve(
        self,
        *,
        concurrency: int,
        once: bool,
        stopping: Callable[[], bool],
        on_tick: Callable[[], None],
    ) -> int:
        """Run tasks in this process until `stopping` returns True; return the number of runs.

        With `once`, return when no task can be started. `on_tick` is called every few minutes.
        """
        ...

    def close(self) -> None:
        """Stop the running job of this process before its next step; wait a limited time for it."""
        ...
