"""The components of a library: store, index, embedder and the rest, by role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import field

from truespan.core.records import copy_fields
from truespan.errors import InvalidArgument, ProfileMismatch
from truespan.jobs.thread import JobThread
from truespan.observer import NULL_OBSERVER, Observer
from truespan.protocols import (
    ChatModels,
    Embedder,
    JobQueue,
    Processes,
    SourceParser,
)
from truespan.retrieval.deps import RetrievalDeps
from truespan.retrieval.query import embedder_for
from truespan.types.answer import AnswerRules
from truespan.types.conversation import ConversationRules
from truespan.types.ids import WorldId
from truespan.types.job import MAX_CRASHES
from truespan.types.maintenance import Check
from truespan.types.profile import EmbeddingProfile
from truespan.types.request import Defaults
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.extensions.crawl.watching import FolderWatcher
    from truespan.extensions.crawl.web import WebPages
    from truespan.extensions.proof.keys import SigningKeyFile
    from truespan.extensions.server.chat_servers import LocalChatServers
    from truespan.extensions.server.identities import Identities
    from truespan.files.assets import AssetFolder, PictureFolder
    from truespan.files.backup import BackupWriter
    from truespan.files.sources import FileSources
    from truespan.files.uploads import UploadFolder
    from truespan.ingest.workers.client import DraftWorkers
    from truespan.maintenance.delete import Remover


# Shared by threads: its table is changed under a lock; two threads may measure a world at once,
# and keep the same numbers.
class CalibrationSchedule:
    """Number of new chunks that a world needs before its model can be due for a calibration.
    Threads may share one.

    It prevents ingestions from counting all chunks of a world, and from measuring a world again
    without a result.
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


class Components(RetrievalDeps, frozen=True, kw_only=True):
    """The components of a library, by role."""

    sources: FileSources
    parser: SourceParser
    assets: AssetFolder
    processes: Processes
    default_model: str = ""
    """Name of the default embedder."""
    chat: ChatModels = field(default_factory=ChatModels)
    """The chat models that write answers; none unless configured."""
    chat_servers: LocalChatServers | None = None
    """Servers of chat models that a user may connect; None if the models were passed."""
    check_environment: Callable[[], list[Check]] = list
    """Checks of files, settings and models for the doctor, without changing anything."""
    calibration_schedule: CalibrationSchedule = field(default_factory=CalibrationSchedule)
    """Schedule for measuring models without a calibration again."""
    world_defaults: Defaults = Defaults.RECOMMENDED
    """The defaults of a new world."""
    count_words: bool = True
    """Whether words are counted while ingesting; otherwise the first search by words does it."""
    answers: AnswerRules = field(default_factory=AnswerRules)
    """Settings of answers and of the usage log."""
    conversations: ConversationRules = field(default_factory=ConversationRules)
    """Settings of conversations: whether they are kept, and for how long."""
    signing_keys: SigningKeyFile | None = None
    """Keys that sign receipts."""
    signs_questions: bool = True
    """Whether receipts contain the question; otherwise its keyed hash."""
    backups: BackupWriter | None = None
    pictures: PictureFolder | None = None
    """Drawn pages of sources; None if sources are not drawn."""
    pages: WebPages | None = None
    """Fetcher of web pages; None if no host is allowed."""
    watch_folders: Callable[[Sequence[str]], FolderWatcher] | None = None
    """Function that creates a watcher of folders; None where the system has none."""
    workers: DraftWorkers | None = None
    """Processes that make drafts while ingesting; None to use this process only."""
    uploads: UploadFolder | None = None
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
    metrics: Callable[[], bytes] | None = None
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

        return copy_fields(Remover, self)

    def wants_word_states(self, scope: Scope) -> bool:
        """Return whether states of words are stored in the world of a scope."""
        if not self.word_states:
            return False
        world = self.store.worlds.find(scope.authority, scope.world)
        return world is not None and not world.defaults.values.plain

    def learn(self, profile: EmbeddingProfile) -> tuple[Embedder, EmbeddingProfile]:
        """Return the same embedder with its own profile.

        The first requests to a provider describe its model. They are retried as those that embed
        documents are; a question does not wait for that.
        """
        from truespan.ingest.embed import call_with_retries

        def describe() -> tuple[Embedder, EmbeddingProfile]:
            embedder = embedder_for(self, profile)
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
