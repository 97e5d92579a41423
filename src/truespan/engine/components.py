"""The components of a library: store, index, embedder and the rest, by role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, field

from truespan.errors import InvalidArgument, ProfileMismatch
from truespan.jobs.thread import JobThread
from truespan.observer import NULL_OBSERVER, Observer
from truespan.protocols import (
    AssetStore,
    Backups,
    ChatModels,
    ChatServers,
    Clock,
    Embedder,
    FolderWatcher,
    Identities,
    JobQueue,
    PageFetcher,
    PictureStore,
    Processes,
    SourceFinder,
    SourceParser,
    TokenCounter,
    UploadStore,
    VectorIndex,
)
from truespan.retrieval.background import CohortVectors
from truespan.retrieval.checks import CompletenessCheck, ModelCheck, RecentQueries
from truespan.retrieval.deps import RetrievalDeps
from truespan.retrieval.query import EmbedderChoice, OtherEmbedder
from truespan.types.answer import AnswerRules
from truespan.types.arguments import MAX_REQUESTED_TOKENS
from truespan.types.conversation import ConversationRules
from truespan.types.ids import TextHash, WorldId, hash_text
from truespan.types.job import MAX_CRASHES
from truespan.types.maintenance import Check
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.request import FUSED_WEIGHT, Defaults, RankPart
from truespan.types.scope import Scope
from truespan.types.vectors import Vector, weighted_mean

if TYPE_CHECKING:
    from truespan.extensions.proof.keys import SigningKeyFile
    from truespan.ingest.draft import Preparation
    from truespan.ingest.workers.client import DraftWorkers
    from truespan.maintenance.delete import Remover
    from truespan.retrieval.rerank import RerankOptions
    from truespan.store import Store


INSTRUCTION_ROOM = 32
"""Tokens left free for a model's query instruction when a long text is split."""


def _standard_preparation() -> Preparation:
    from truespan.ingest.draft import Preparation

    return Preparation()


# Shared by threads: its table is changed under a lock; two threads may measure a world at once,
# and keep the same numbers.
class CalibrationSchedule:
    """Number of new chunks that a world needs before its model can be due for a calibration.
    Threads may share one.

    It keeps an ingestion from counting the chunks of the whole world, and from measuring again a
    world in which nothing was found before.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._missing: dict[tuple[WorldId, str, bool], int] = {}

    def is_due(self, scope: Scope, added: int | None, *, calibrated: bool) -> bool:
        """Return whether a world may be due after `added` chunks; None for an unknown number."""
        key = scope.world, scope.profile.id, calibrated
        with self._lock:
            missing = 0 if added is None else self._missing.get(key, 0) - added
            self._missing[key] = missing
        return missing <= 0

    def postpone(self, scope: Scope, chunks: int, *, calibrated: bool) -> None:
        """Let the world be due once it has `chunks` more chunks."""
        with self._lock:
            self._missing[scope.world, scope.profile.id, calibrated] = chunks


class Components(Struct, frozen=True):
    """The components of a library, by role."""

    store: Store
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    sources: SourceFinder
    parser: SourceParser
    assets: AssetStore
    processes: Processes
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
    preparation: Preparation = field(default_factory=_standard_preparation)
    others: Mapping[str, OtherEmbedder] = field(default_factory=dict)
    """Further configured embedders, by name."""
    default_model: str = ""
    """Name of the default embedder."""
    chat: ChatModels = field(default_factory=ChatModels)
    """The chat models that write answers; none unless configured."""
    chat_servers: ChatServers | None = None
    """Servers of chat models that a user may connect; None if the models were passed."""
    rerank: RerankOptions | None = None
    """The reranker of results; none unless configured."""
    check_environment: Callable[[], list[Check]] = list
    """Checks of files, settings and models for the doctor, without changing anything."""
    model_check: ModelCheck = field(default_factory=ModelCheck)
    """Check that providers still have the models that worlds were embedded with."""
    recent_queries: RecentQueries = field(default_factory=RecentQueries)
    """Vectors of queries that the store does not have yet."""
    completeness: CompletenessCheck = field(default_factory=CompletenessCheck)
    """Finder of points that the index has lost."""
    cohort: CohortVectors = field(default_factory=CohortVectors)
    """Vectors of texts of many kinds, which answers are compared with."""
    calibration_schedule: CalibrationSchedule = field(default_factory=CalibrationSchedule)
    """Schedule for measuring models without a calibration again."""
    fused_weight: float = FUSED_WEIGHT
    """The weight of words in a fused ranking."""
    without: frozenset[RankPart] = frozenset()
    """Parts of the ranking that a setting or an evaluation leaves out."""
    max_tokens: int = MAX_REQUESTED_TOKENS
    """Maximum token budget of a request."""
    world_defaults: Defaults = Defaults.RECOMMENDED
    """The defaults of a new world."""
    count_words: bool = True
    """Whether words are counted while ingesting; otherwise the first search by words does it."""
    word_states: bool = True
    """Whether states of words are stored in worlds whose defaults include them."""
    answers: AnswerRules = field(default_factory=AnswerRules)
    """Settings of answers and of the usage log."""
    conversations: ConversationRules = field(default_factory=ConversationRules)
    """Settings of conversations: whether they are kept, and for how long."""
    signing_keys: SigningKeyFile | None = None
    """Keys that sign receipts."""
    signs_questions: bool = True
    """Whether receipts contain the question; otherwise its keyed hash."""
    backups: Backups | None = None
    pictures: PictureStore | None = None
    """Drawn pages of sources; None if sources are not drawn."""
    pages: PageFetcher | None = None
    """Fetcher of web pages; None if no host is allowed."""
    watch_folders: Callable[[Sequence[str]], FolderWatcher] | None = None
    """Function that creates a watcher of folders; None where the system has none."""
    workers: DraftWorkers | None = None
    """Processes that make drafts while ingesting; None to use this process only."""
    uploads: UploadStore | None = None
    """Store of uploaded files until they are ingested."""
    queue: JobQueue = field(default_factory=JobThread)
    """Queue of background jobs."""
    max_crashes: int = MAX_CRASHES
    """Maximum number of crashes after which a job is still resumed automatically."""
    identities: Identities | None = None
    """Users of an identity provider; None if only the library's own tokens are accepted."""
    random_bytes: Callable[[int], bytes] | None = None
    """Function that returns random bytes for a secret; None if no token can be created."""
    observer: Observer = NULL_OBSERVER
    """Observer of requests, stages and counts; results do not depend on it."""
    metrics: Callable[[], bytes] = lambda: b""
    """Function that returns the metrics in the text format of Prometheus; empty if they are off."""
    mark_query: Callable[[str, str], str] = lambda _world, _query: ""
    """Function that returns the usage log's replacement for a query of a world."""

    def __repr__(self) -> str:
        """Return a short text; the settings and connections would fill a screen."""
        return "Components()"

    @property
    def job_owner(self) -> str:
        """Return the owner of queued jobs: a persistent queue, or this process."""
        return self.queue.queue_id or self.processes.own()

    def remover(self) -> Remover:
        from truespan.maintenance.delete import Remover

        return Remover(
            store=self.store,
            index=self.index,
            assets=self.assets,
            clock=self.clock,
            uploads=self.uploads,
            pictures=self.pictures,
        )

    def retrieval_deps(self, start_repair: Callable[[Scope], None]) -> RetrievalDeps:
        embedders = EmbedderChoice(self.embedder, self.others.values())
        return RetrievalDeps(
            store=self.store,
            index=self.index,
            embedder_for=embedders.choose,
            clock=self.clock,
            start_repair=start_repair,
            split=self._split_query,
            embed=self.embed,
            # `self.counter.count` alone would load a deferred counter with every request.
            count_tokens=lambda text: self.counter.count(text),
            fused_weight=self.fused_weight,
            without=self.without,
            max_tokens=self.max_tokens,
            rerank=self.rerank,
            model_check=self.model_check,
            embedders_of=embedders.candidates,
            recent_queries=self.recent_queries,
            completeness=self.completeness,
            cohort=self.cohort,
            word_states=self.word_states,
        )

    def _split_query(self, text: str, limit: int) -> list[str]:
        from truespan.ingest.chunking import split_text

        return split_text(text, self.counter, limit - INSTRUCTION_ROOM)

    def wants_word_states(self, scope: Scope) -> bool:
        """Return whether states of words are stored in the world of a scope."""
        if not self.word_states:
            return False
        world = self.store.worlds.find(scope.authority, scope.world)
        return world is not None and not world.defaults.values.plain

    def embed(self, scope: Scope, texts: Mapping[TextHash, str]) -> dict[TextHash, Vector]:
        """Return the vectors of texts with a scope's profile.

        A text beyond the input limit of the model gets the mean of the vectors of its parts. Some
        providers embed only its beginning instead of refusing it.
        """
        from truespan.ingest.chunking import split_text
        from truespan.ingest.embed import embed_texts

        limit = scope.profile.input_limit
        parts = {
            known: split_text(text, self.counter, limit)
            for known, text in texts.items()
            if self.counter.count(text) > limit
        }
        sent = {known: text for known, text in texts.items() if known not in parts}
        sent |= {hash_text(part): part for listed in parts.values() for part in listed}
        batches = embed_texts(
            self.embedder_for(scope.profile),
            sent,
            self.limits,
            self.clock,
            counter=self.counter,
            on_token_limit=self.preparation.on_token_limit,
        )
        found = {known: vector for batch in batches for known, vector in batch.vectors.items()}
        for known, listed in parts.items():
            vectors = [found.get(hash_text(part)) for part in listed]
            if all(vectors):
                counts = [self.counter.count(part) for part in listed]
                found[known] = weighted_mean([each for each in vectors if each], counts)
        return found

    def embedder_for(self, profile: EmbeddingProfile) -> Embedder:
        """Return the embedder of a generation's profile; the default one if no other has it."""
        return EmbedderChoice(self.embedder, self.others.values()).choose(profile)

    def learn(self, profile: EmbeddingProfile) -> tuple[Embedder, EmbeddingProfile]:
        """Return the same embedder with its own profile.

        The first requests to a provider describe its model. They are retried as those that embed
        documents are; a question does not wait for that.
        """
        from truespan.ingest.embed import call_with_retries

        def describe() -> tuple[Embedder, EmbeddingProfile]:
            embedder = self.embedder_for(profile)
            return embedder, embedder.profile

        return call_with_retries(describe, self.clock, spread=0)

    def learn_profile(self, embedder: Embedder | None = None) -> EmbeddingProfile:
        """Return the profile of an embedder, the default one for None; requests are retried."""
        from truespan.ingest.embed import learn_profile

        return learn_profile(embedder or self.embedder, self.clock)

    def profile_named(self, name: str | None) -> EmbeddingProfile:
        """Return the profile of the model of this name, of the default one for None."""
        return self.learn_profile(self.embedder_named(name))

    def require_model(self, profile: EmbeddingProfile) -> None:
        """Raise ProfileMismatch if no configured embedder has this profile."""
        _, configured = self.learn(profile)
        if configured.id != profile.id:
            raise ProfileMismatch(str(profile), str(configured))

    def embedder_named(self, name: str | None) -> Embedder:
        """Return the embedder of this name, the default one for None; raises InvalidArgument."""
        if name is not None and name in self.others:
            return self.others[name].embedder()
        if name in (None, self.default_model):
            return self.embedder
        known = ", ".join(filter(None, (self.default_model, *self.others))) or "none"
        raise InvalidArgument(
            f"There is no model {name!r}.",
            advice=f"Known models: {known}. A table [embedding.NAME] of truespan.toml adds one.",
        )
