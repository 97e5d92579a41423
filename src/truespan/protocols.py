"""The trusted store, by what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from truespan.observer import NULL_OBSERVER, Observer, RequestTrace, StageListener, joined
from truespan.types.answer import Message, Usage, UsageRecord
from truespan.types.chunk import (
    ChunkRecord,
    Holdings,
    IndexedPoint,
    NewChunk,
    PendingChunk,
    Point,
    Vector,
)
from truespan.types.document import (
    AuditEntry,
    Derivable,
    Derived,
    Document,
    DocumentCatalog,
    DomainRecord,
    Draft,
    GenerationRecord,
    KeptGeneration,
    OutlineEntry,
    RevisionRef,
    StoredText,
    WorldStatus,
)
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.job import (
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobNews,
    JobOrder,
    JobShare,
    JobState,
    Outcome,
    Phase,
    QueueStanding,
)
from truespan.types.maintenance import (
    BackupReport,
    Check,
    Erasure,
    FileFate,
    LeftoverMatch,
    RemovedFiles,
    RevisionFlaw,
    TallyFlaw,
    TextFlaw,
    Trace,
)
from truespan.types.profile import Calibration, ChunkingProfile, EmbeddingProfile
from truespan.types.reading import (
    Anchor,
    InForce,
    Passage,
    Position,
    StoredFigure,
    StoredSentence,
    TailChunk,
)
from truespan.types.scope import Authority, Generation, GenerationSelector, Scope, World
from truespan.types.source import DocumentOptions, Entry, FoundSources, Source, Upload
from truespan.types.text import Image, Loaded, TokenMap
from truespan.types.token import Claim, TokenRecord
from truespan.types.trust import Hit, Repair, VerificationFailure
from truespan.types.words import CountableChunk, CountedRevision, Postings, WordCatalog


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


class Environment(Protocol):
    """What a library stands on: its files, settings and models. Looking changes nothing."""

    def checks(self) -> list[Check]:
        """Return each check with how it came out and, where it did not hold, what to do."""
        ...


class Processes(Protocol):
    """Which processes are alive."""

    def own(self) -> str:
        """Return a name of this process that no other has or will have on this machine."""
        ...

    def is_alive(self, name: str) -> bool:
        """Say whether a process is alive; also when that cannot be told, for lack of access."""
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


Embedders: TypeAlias = Callable[[EmbeddingProfile], Embedder]
"""Gives the embedder of a generation's profile, or the default one where none has it."""


class RateLimitStore(Protocol):
    """How many requests a minute a provider gets from all processes of a library together."""

    def reserve(self, provider: str, per_minute: int) -> float:
        """Return for how many seconds to wait with the next request; its moment is taken now."""
        ...


class Cooldowns(Protocol):
    """Which provider keys wait, and until when; shared by every process of a library."""

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key is not to be used; 0.0 when it may be."""
        ...

    def cool_down(self, provider: str, key: str, until: float) -> None: ...


class ChatModel(Protocol):
    """Replies to messages. It is first connected to when the first piece of a reply is asked for.

    A reply that was given out whole is whole: one that broke off, was cut short or was withheld
    ends in an error, whatever came before it.
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


@dataclass(frozen=True, slots=True)
class ChatModels:
    """The model that answers, and the one that is asked when the decision says so."""

    primary: ChatModel | None = None
    fallback: ChatModel | None = None


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


class SourceFinder(Protocol):
    """Finds and reads the files that a caller names."""

    def find(self, paths: Sequence[str], declared: DocumentOptions) -> FoundSources:
        """Return sources in a stable order, each once, unread.

        Raises:
            SourceMissing: a path names nothing.
        """
        ...

    def expand(self, manifest: str, entries: Sequence[Entry]) -> FoundSources:
        """Return the sources that lines of a manifest name; nothing outside its folder.

        Raises:
            ManifestInvalid: with every line that cannot be used.
        """
        ...

    def absolute(self, path: str) -> str:
        """Return a path that means the same from anywhere."""
        ...

    def read_manifest(self, path: str) -> bytes: ...

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source.

        Raises:
            SourceRefused: it is gone, too large, or cannot be opened.
        """
        ...

    def exists(self, path: str) -> bool:
        """Say whether a file exists at the recorded path of a document."""
        ...


class SourceParser(Protocol):
    """Reads the bytes of a source, apart from everything else: what they do there does no harm."""

    def parse(self, name: str, data: bytes, *, images: bool) -> Loaded:
        """Return what a source holds; the bytes of pictures only if `images` are wanted.

        Raises:
            SourceRefused: it cannot become a document, or reading it went beyond the limits.
        """
        ...

    def close(self) -> None: ...


class UploadStore(Protocol):
    """Uploaded files, stored until their job has ingested them.

    Files that are uploaded together are a batch, which only its job reads.
    """

    def receive(self, world: WorldId, uploads: Sequence[Upload]) -> AbstractContextManager[str]:
        """Store files durably and yield the name of their batch.

        No other process removes it until the block ends. It is removed if the block fails.

        Raises:
            SourceTooLarge: a file is larger than the limit.
            StorageFull: there is not enough space.
        """
        ...

    def find(self, world: WorldId, batch: str, declared: DocumentOptions) -> FoundSources:
        """Return the sources of a batch, unread.

        Raises:
            SourceMissing: the batch was removed.
        """
        ...

    def exists(self, world: WorldId, batch: str) -> bool:
        """Say whether a batch exists."""
        ...

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source that `find` returned; raises as `SourceFinder.read` does."""
        ...

    def discard(self, world: WorldId, batch: str) -> None:
        """Remove a batch; without effect if it does not exist."""
        ...

    def remove(self, world: WorldId, doc_id: str, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the files of a document from all batches that are not wanted."""
        ...

    def sweep(self, world: WorldId, is_wanted: Callable[[str], bool]) -> RemovedFiles:
        """Remove the batches that are not wanted, except those being received."""
        ...

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all uploads of a world."""
        ...

    def worlds(self) -> list[WorldId]:
        """Return the worlds that have uploads."""
        ...


class AssetStore(Protocol):
    """Images of documents, as files. Those of a revision are staged until it becomes active."""

    def stage_images(
        self, world: WorldId, doc_id: str, token: str, images: Sequence[Image]
    ) -> None:
        """Stage images under the token of their revision, invisible until `publish`.

        Raises:
            AssetsTaken: the folder belongs to a document of another world.
        """
        ...

    def documents_with_images(self) -> frozenset[str]:
        """Return the ids of all documents with images, staged or published."""
        ...

    def publish(self, world: WorldId, doc_id: str, token: str) -> bool:
        """Replace the earlier images by the staged ones; False if this token has no images, neither
        staged nor published.

        Safe to repeat.
        """
        ...

    def read(self, world: WorldId, doc_id: str, token: str, name: str) -> bytes | None:
        """Return the bytes of an image of the revision with this token.

        None if there is none, or if images of another revision are just being published.
        """
        ...

    def remove(self, world: WorldId, doc_id: str) -> RemovedFiles:
        """Remove all images of a document; without effect if there are none."""
        ...

    def remove_all(self, world: WorldId) -> RemovedFiles:
        """Remove all images of a world."""
        ...


class GoldenFiles(Protocol):
    """Reads files of golden queries, and replaces them atomically."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            SourceRefused: it is missing, too large, or cannot be read.
        """
        ...

    def change(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Replace a file's bytes with what `change` makes of them; a missing file has no bytes.

        The replacement is atomic, and of two concurrent changes neither is lost.

        Raises:
            SourceRefused: it cannot be read or written.
        """
        ...


class JobStore(Protocol):
    """Jobs of a world, what became of their sources, and the last lines of their logs."""

    def begin_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that runs now; the oldest ones that are over are forgotten."""
        ...

    def queue_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that is to be done in the background; else as `begin_job`."""
        ...

    def queue_job_once(
        self, scope: Scope, kind: str, request: str, process: str, *, since: float | None = None
    ) -> Job:
        """Write down a job as `queue_job` does, unless one like it waits; then return that one.

        With `since`, one of its kind that was written down then or later is as good, however it
        stands. Of several who ask at once, only one writes one down.
        """
        ...

    def requeue_job(
        self, scope: Scope, job: str, process: str, *, seen: JobState, crashes: int
    ) -> bool:
        """Queue a job again; False when it is no longer in the state it was seen in.

        `crashes` is how many it is said to have had from now on.
        """
        ...

    def start_job(self, scope: Scope, job: str, process: str) -> bool:
        """Begin with a job that is queued; False when it is not, or not any more.

        Nor is a share begun with once its job is to stop, or another share of it went wrong.
        """
        ...

    def continue_job(self, scope: Scope, job: str, process: str) -> bool:
        """Take up a job that is over but not done; False when somebody else did, or it is done.

        It runs in the foreground from then on, whatever it did before.
        """
        ...

    def interrupt_job(self, scope: Scope, job: str, process: str) -> bool:
        """Write down that a job which a process had is interrupted; False when that has it not.

        If it ran, and in the background, that counts as a crash. One that was asked to stop is
        cancelled instead: nobody else need do so.
        """
        ...

    def take_over_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, most_crashes: int
    ) -> bool:
        """Queue a job that ran in a process which is gone, as a crash; False when that has it not.

        One that was asked to stop is cancelled instead, and one that has as many crashes as it may
        is interrupted. Nobody sees anything in between.
        """
        ...

    def record_job(
        self,
        scope: Scope,
        job: str,
        *,
        state: JobState,
        phase: Phase,
        counts: JobCounts,
        news: JobNews,
        error: str | None = None,
        process: str | None = None,
    ) -> bool:
        """Write down how a job stands; say whether somebody asked for it to be cancelled.

        Raises:
            Interrupted: a process is named, and that has the job no longer.
        """
        ...

    def cancel_job(self, scope: Scope, job: str) -> None:
        """Ask a job to stop; one that nobody runs is cancelled at once."""
        ...

    def job(self, scope: Scope, job: str) -> Job | None:
        """Return one job of the world. It is asked for often, and cheap.

        The numbers of one that is spread are those of its shares, added up.
        """
        ...

    def jobs(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first; shares are none."""
        ...

    def job_documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return what became of a job's sources, its shares' among them."""
        ...

    def job_lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of a job's log."""
        ...


class ShareStore(Protocol):
    """Jobs that several workers do at once, each a share. A job that is over has no shares."""

    def spread_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, shares: Sequence[JobShare]
    ) -> list[Job]:
        """Write down the shares of a job that a process runs, queued; who waits keeps the job.

        Raises:
            Interrupted: the process has the job no longer.
        """
        ...

    def shares(self, scope: Scope, job: str) -> list[Job]:
        """Return the shares of a job, in the order in which they are to be begun with."""
        ...

    def settle_job(self, scope: Scope, job: str, *, keeper: str) -> bool:
        """End a job once nobody is at any of its shares, if they are not all to be done.

        It was to stop, or one of them went wrong. Say whether all of them are done, and it has only
        to be gathered. Whoever asks at the same moment as others is answered after them.
        """
        ...

    def gather_job(self, scope: Scope, job: str, process: str, *, keeper: str) -> bool:
        """Run a job on whose shares its keeper waited; False unless all of them are done."""
        ...

    def claim_documents(self, scope: Scope, job: str, process: str, doc_ids: Sequence[str]) -> bool:
        """Have documents for a job alone while it runs; False while another has one of them.

        Raises:
            Interrupted: the process has the job no longer.
        """
        ...


def unheard(_seconds: float) -> None:
    """Let it pass that somebody asked to be left alone for some time."""


class JobWorker(Protocol):
    """Does what the record of a job says. An order is a name only: the store knows the rest."""

    def run(
        self,
        order: JobOrder,
        stopping: Callable[[], bool],
        *,
        last: bool = True,
        later: Callable[[float], None] = unheard,
    ) -> Outcome:
        """Do a job that is queued, and write down how it ended, however that was.

        Before each step it is asked whether it is to stop; then the job is interrupted. A job that
        is no longer queued is left alone. Where the queue outlives its processes, a job that was
        stopped, or failed for a reason that may pass in a try that is not the `last`, is queued;
        `later` is told of the seconds that whoever failed asked to be left alone for.
        """
        ...

    def leave(self, order: JobOrder) -> None:
        """Write down that a job of this process is interrupted: nobody here will do it."""
        ...


class JobQueue(Protocol):
    """Has jobs done, in this process or in others, in the order in which they are submitted."""

    @property
    def queue_id(self) -> str | None:
        """Who has jobs that wait, where orders outlive the process that gave them; else None.

        Then whoever carries out an order has the job for itself, whatever its record says of
        somebody who had it before.
        """
        ...

    def work_with(self, worker: JobWorker) -> None:
        """Say who does the work where it is done in this process."""
        ...

    def require_room(self) -> None:
        """Refuse another job while too many wait; asked before one is written down.

        Raises:
            Overloaded: so many do.
        """
        ...

    def submit(self, order: JobOrder) -> None:
        """Have a job done soon; it is written down as queued already. Twice is as good as once."""
        ...

    def standing(self) -> QueueStanding | None:
        """Return how orders and workers stand; None where orders end with their process.

        Raises:
            StoreBusy: nobody could be asked.
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
        """Carry out orders in this process until told to stop; return how many were carried out.

        With `once`, return when none is left that could be begun with. `on_tick` is called
        every few minutes.

        Raises:
            InvalidConfiguration: nobody but the process that submits jobs can do them.
        """
        ...

    def close(self) -> None:
        """Stop what runs in this process before its next step, and wait a bounded time for it."""
        ...


class CalibrationStore(Protocol):
    """What was measured for a world's embedding profiles. It is for the world's holder alone.

    A number measured on all documents tells of all of them, so no reader's answer may depend on it.
    """

    def kept_calibration(self, scope: Scope) -> Calibration | None:
        """Return what was kept for the scope's profile; None when nothing was."""
        ...

    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        """Keep a calibration in the place of an earlier one."""
        ...

    def forget_calibration(self, scope: Scope) -> bool:
        """Forget what was kept; say whether there was anything."""
        ...


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

    def look_for(self, traces: Sequence[Trace]) -> LeftoverMatch:
        """Search each file for each of the traces, in every form it may have there."""
        ...


class GenerationStore(Protocol):
    """Which builds of a world there are, who is sent to which, and how one is filled."""

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return every generation of the world, by number, with what it holds."""
        ...

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return every generation of the world that is not being removed, by number."""
        ...

    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Begin another generation, which no alias names yet."""
        ...

    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Let an alias name the scope's generation, in one commit; None is the world's default.

        False when the generation is not complete, or being removed.

        Raises:
            DomainNotFound: the key names a generation of another world.
        """
        ...

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return what an alias named before its last move, if that is still there."""
        ...

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of the worlds an authority sees, by key."""
        ...

    def remove_domain(self, scope: Scope, key: str) -> None: ...

    def retire_generation(self, scope: Scope) -> None:
        """Let nothing name the scope's generation any more; its points and rows are still there.

        Raises:
            GenerationInUse: an alias names it.
        """
        ...

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return generations that were retired and whose rows remain."""
        ...

    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and the vectors that nothing else needs."""
        ...

    def uncut(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions, staged or in force, that the generation has no chunks of."""
        ...

    def recuttable(self, scope: Scope, revision: RevisionRef) -> StoredText | None:
        """Return all that chunks are made of; None when the revision is gone.

        Raises:
            StoreDamaged: its text does not match its hash.
        """
        ...

    def write_chunks(self, scope: Scope, revision: RevisionRef, chunks: Sequence[NewChunk]) -> bool:
        """Give the scope's generation its chunks of a revision, unless it has them.

        False when the revision or the generation is gone.
        """
        ...


class PageStore(Protocol):
    """What stands on the pages of a revision. Nothing of it is believed before it is checked."""

    def in_force(self, scope: Scope, reference: int | str) -> InForce | None:
        """Return the revision readers see of a document, named by its number or its doc id."""
        ...

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a stretch of a revision's text in one read; None when the revision is gone."""
        ...

    def figures(self, scope: Scope, revision: RevisionRef) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order."""
        ...


class ReplayStore(Protocol):
    """Claims by the digests of their keys. Old ones are forgotten."""

    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Note that a process is at work on a request; None if nobody has claimed the key."""
        ...

    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Go on with the claim of a process that is gone; False if somebody else has."""
        ...

    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Keep what a claimed request was answered, sealed."""
        ...

    def release_key(self, digest: bytes, process: str) -> None:
        """Forget a claim of a request that failed: the same may be tried again."""
        ...


class ScrubStore(Protocol):
    """Holds what is stored against what was recorded of it. Looking changes nothing."""

    def expected_among(self, scope: Scope, ids: Sequence[ChunkId]) -> list[PendingChunk]:
        """Return those of the chunks that the index should hold, with vectors, without text."""
        ...

    def text_flaws(
        self, scope: Scope, ids: Sequence[ChunkId] | None = None
    ) -> Iterator[list[TextFlaw]]:
        """Give the chunks of the generation whose rows cannot be believed; of `ids` if given.

        Those in quarantine are left out: they are known to be lost.
        """
        ...

    def revision_flaws(self, scope: Scope) -> Iterator[RevisionFlaw]:
        """Give what of the world's revisions cannot be believed."""
        ...

    def tally_flaws(self, scope: Scope) -> list[TallyFlaw]:
        """Return the counts, in any generation of the world, that are not what is counted now.

        Counts that are missing, and counts of what is not there, are among them.
        """
        ...

    def count_again(self, scope: Scope, revision: RevisionRef, generation: int) -> None:
        """Make a revision's count in a generation what its chunks are."""
        ...

    def unsettled(self, scope: Scope) -> tuple[int, int]:
        """Return how many chunks readers could see are pending, and how many are in quarantine.

        Counted from the chunks themselves.
        """
        ...

    def restore_text(self, scope: Scope, revision: RevisionRef) -> bool:
        """Write a revision's canonical text again from its chunks, if that gives its hash."""
        ...

    def distrust(self, scope: Scope, revision: RevisionRef) -> None:
        """Let the next ingestion of a revision's source take it for changed."""
        ...

    def kept_vectors(
        self, scope: Scope, hashes: Sequence[TextHash] | None = None
    ) -> Iterator[list[tuple[TextHash, Vector]]]:
        """Give every vector kept for the scope's world and profile, in pages; of `hashes` if given.

        Those of readers' tails are among them.
        """
        ...

    def forget_vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> None:
        """Remove kept vectors, and mark every chunk pending that was written from them."""
        ...

    def foreign_vectors(self, scope: Scope) -> int:
        """Return how many vectors are kept for profiles that no generation of the world has."""
        ...

    def drop_foreign_vectors(self, scope: Scope) -> None: ...

    def sample(self, scope: Scope, count: int) -> list[tuple[PendingChunk, str]]:
        """Return embedded chunks spread over the generation, each with text that was checked."""
        ...


class Randomness(Protocol):
    """What nobody can foresee."""

    def fresh_bytes(self, count: int) -> bytes:
        """Return bytes that are fit to be a secret."""
        ...


class TokenStore(Protocol):
    """Tokens and the digests of their secrets; a secret itself never comes here.

    Whoever does not own the whole library is refused with `NotAllowed`.
    """

    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Keep a new token.

        Raises:
            WorldNotFound: one of its worlds is gone; then nothing is kept.
        """
        ...

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        """Return every token, revoked and expired ones too, the oldest first."""
        ...

    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Make a token invalid from now on; False if there is none. The first time stays."""
        ...

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret, for whoever is about to be known by it.

        It is read anew each time: a token that another process has revoked is seen as revoked.
        """
        ...


class UsageLog(Protocol):
    """What was asked and how it was decided; no text of documents and no answers."""

    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, most: int
    ) -> str:
        """Write down one answered request and return its id.

        In the same commit, records older than `days` and those of the world beyond the `most`
        latest ones are forgotten. A world that was never built has a log, too, and so no scope is
        asked for.
        """
        ...

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, the newest first."""
        ...

    def usage_record(self, authority: Authority, world: WorldId, reference: str) -> UsageRecord:
        """Return one record of a world.

        Raises:
            RecordNotFound: it is not there, or not any more.
        """
        ...


class WordStore(Protocol):
    """Keeps how often each word stands in which chunk. It never decides what a word is."""

    def counts_words(self, scope: Scope) -> bool:
        """Say whether words were ever counted in the scope's world and generation."""
        ...

    def word_shelf(self, scope: Scope, world: World) -> WordCatalog:
        """Return every revision in force of the scope's generation, by document number.

        Neither the scope's documents nor its place count here. The same state of a world may be
        answered with the same object.
        """
        ...

    def countable(self, scope: Scope, revision: RevisionRef) -> list[CountableChunk]:
        """Return the chunks of kind text of a revision, in order, not yet believed."""
        ...

    def keep_words(self, scope: Scope, counted: Sequence[CountedRevision]) -> None:
        """Keep the words of revisions in place of what was kept of them, in one commit.

        A revision that is gone meanwhile is passed over. What readers see is unchanged by it.
        """
        ...

    def postings(self, scope: Scope, term: str) -> Postings:
        """Return where a term stands, in any revision of the scope's world and generation."""
        ...

    def placed(self, scope: Scope) -> set[tuple[int, int]]:
        """Return key and chunk index of what stands in the scope's chapter and section."""
        ...


class WorldStore(Protocol):
    """Worlds and their generations."""

    def create_world(self, authority: Authority, name: str) -> World: ...

    def worlds(self, authority: Authority) -> list[World]: ...

    def find_world(
        self, authority: Authority, reference: str, aim: GenerationSelector = None
    ) -> World | None:
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

    def shelf(self, scope: Scope, world: World) -> DocumentCatalog:
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

    def record_flaws(self, scope: Scope, flaws: Sequence[VerificationFailure]) -> None:
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


class Backups(Protocol):
    """Writes all that a library holds into one file."""

    def write(
        self, path: str, *, vectors: bool, settings: bool, keys: bool, replace: bool
    ) -> BackupReport:
        """Write a backup and read it back; the file is whole or not there.

        Raises:
            InvalidSettings: there is a file already, and it was not to be replaced.
            StorageFull: there is no room.
        """
        ...


__all__ = [
    "NULL_OBSERVER",
    "AssetStore",
    "Backups",
    "CalibrationStore",
    "ChatModel",
    "ChatModels",
    "ChunkStore",
    "Clock",
    "Cooldowns",
    "DocumentStore",
    "Embedder",
    "Embedders",
    "EmbeddingLimits",
    "Environment",
    "ErasureStore",
    "GoldenFiles",
    "JobQueue",
    "JobStore",
    "JobWorker",
    "Observer",
    "PageStore",
    "Processes",
    "QueryCache",
    "Randomness",
    "RateLimitStore",
    "ReaderStore",
    "Remains",
    "RequestTrace",
    "ShareStore",
    "SourceFinder",
    "SourceParser",
    "StageListener",
    "TokenCounter",
    "TokenStore",
    "TrustedStore",
    "UpkeepStore",
    "UploadStore",
    "VectorIndex",
    "WordStore",
    "WorldStore",
    "joined",
]
