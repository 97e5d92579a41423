"""What a library is composed of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from truespan.errors import InvalidSettings
from truespan.ingest.draft import Preparation
from truespan.jobs.thread import JobThread
from truespan.observer import NULL_OBSERVER, Observer, RequestTrace
from truespan.protocols import (
    AssetStore,
    Backups,
    ChatModels,
    Clock,
    Embedder,
    EmbeddingLimits,
    Environment,
    GoldenFiles,
    JobQueue,
    Processes,
    Randomness,
    Remains,
    SourceFinder,
    SourceParser,
    TokenCounter,
    TrustedStore,
    UploadStore,
    VectorIndex,
)
from truespan.retrieval.deps import RetrievalDeps
from truespan.types.answer import AnswerRules
from truespan.types.job import MOST_CRASHES
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.words import FUSED_WEIGHT


@dataclass(frozen=True, slots=True)
class OtherEmbedder:
    """An embedder that some generation may have been built with; made when it is needed."""

    provider: str
    embedder: Callable[[], Embedder]


@dataclass(frozen=True, slots=True)
class Components:
    """The store, the index, the provider and the rest, each behind its port."""

    store: TrustedStore
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    sources: SourceFinder
    parser: SourceParser
    assets: AssetStore
    golden: GoldenFiles
    processes: Processes
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
    preparation: Preparation = field(default_factory=Preparation)
    price: float | None = None
    """What the provider asks for a million tokens, where the operator says so."""
    others: Mapping[str, OtherEmbedder] = field(default_factory=dict)
    """Embedders beside the default one, by the names the operator gave them."""
    chat: ChatModels = field(default_factory=ChatModels)
    """Who writes answers; none unless the operator says so."""
    environment: Environment | None = None
    """What the library stands on; None where nobody can say."""
    fused_weight: float = FUSED_WEIGHT
    """What words count for where they count beside similarity."""
    answers: AnswerRules = field(default_factory=AnswerRules)
    """How answers are decided, and what is kept of them."""
    backups: Backups | None = None
    """Who writes backups; nobody unless composed so."""
    remains: Remains | None = None
    """Who looks through the library's files for what was deleted; nobody unless composed so."""
    uploads: UploadStore | None = None
    """Who keeps files that are handed over until they are ingested; nobody unless composed so."""
    queue: JobQueue = field(default_factory=JobThread)
    """Who has jobs done in the background."""
    most_crashes: int = MOST_CRASHES
    """A job under which its process went away so often is left to somebody who looks into it."""
    doctor_hours: int = 0
    """How often workers have the doctor look at each world; 0: never by themselves."""
    randomness: Randomness | None = None
    """Who makes secrets; without it there are no new tokens."""
    watch: Observer = NULL_OBSERVER
    """Who hears of requests, stages and counts; nothing that is returned depends on it."""
    metrics: Callable[[], bytes] = lambda: b""
    """Gives what was counted, in the text format of Prometheus; nothing where nobody counts."""
    mark_query: Callable[[str, str], str] = lambda _world, _query: ""
    """Gives what the usage log has in place of a query of a world; nothing without a key."""

    @property
    def keeper(self) -> str:
        """Return who has jobs that wait: the queue where it outlives us, else this process."""
        return self.queue.holder or self.processes.own()

    def retrieval_deps(
        self, start_repair: Callable[[Scope], None], trace: RequestTrace = NULL_OBSERVER
    ) -> RetrievalDeps:
        """Return what a retrieval needs of these components."""
        return RetrievalDeps(
            self.store,
            self.index,
            self.embedder_for,
            self.clock,
            start_repair,
            self.fused_weight,
            trace,
        )

    def embedder_for(self, profile: EmbeddingProfile) -> Embedder:
        """Return the embedder of a generation's profile; the default one when no other has it.

        None is asked anything unless its provider is the profile's.
        """
        for other in self.others.values():
            if other.provider == profile.provider and other.embedder().profile.id == profile.id:
                return other.embedder()
        return self.embedder

    def embedder_named(self, name: str | None) -> Embedder:
        """Return the embedder of this name, or the default one.

        Raises:
            InvalidSettings: there is none of that name.
        """
        if name is None:
            return self.embedder
        if name not in self.others:
            known = ", ".join(self.others) or "none; add one as [embedding.NAME] to truespan.toml"
            raise InvalidSettings(
                f"There is no embedding profile {name!r}.", advice=f"Known are: {known}."
            )
        return self.others[name].embedder()
