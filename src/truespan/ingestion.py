"""Ingestion into one world as jobs: plan, run, queue and resume them, spread them over workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from truespan.components import Components
from truespan.errors import (
    Cancelled,
    InvalidSettings,
    JobNotResumable,
    ProfileMismatch,
    StorageFull,
    StoreBusy,
)
from truespan.ingest.command import (
    IngestCommand,
    IngestRequest,
    read_request,
    read_share,
    share_of,
    split,
)
from truespan.ingest.indexing import Indexer, OtherGeneration, ProviderCheck, Tools
from truespan.ingest.job_log import IngestReport, JobJournal, Progress, journaled
from truespan.ingest.pipeline import Intake
from truespan.ingest.plan import DryRun
from truespan.jobs.uploads import discard_cancelled, discard_uploads
from truespan.jobs.world_jobs import INGEST, Jobs
from truespan.observer import RequestTrace
from truespan.retrieval.bm25 import keep_counting
from truespan.types.document import Document, RevisionRef
from truespan.types.job import Job, JobState
from truespan.types.scope import Scope
from truespan.types.source import Declared, DocumentKind, Found, Source
from truespan.types.telemetry import Request


class WorkOutcome(StrEnum):
    """How a worker's turn at a job ended."""

    DONE = "done"
    SPREAD = "spread"
    """It was split into shares, which any worker may run."""
    TAKEN = "taken"
    """Another job has one of its documents; it is queued again."""


OnProgress = Callable[[Progress], None]
OnPrune = Callable[[Sequence[Document]], None]


class IngestJobs:
    """Plans, runs, queues and resumes ingestion into the world of a scope."""

    def __init__(self, components: Components, scope: Scope) -> None:
        self._components = components
        self.scope = scope
        self.intake = Intake(
            store=components.store,
            sources=components.sources,
            parser=components.parser,
            counter=components.counter,
            assets=components.assets,
            preparation=components.preparation,
            uploads=components.uploads,
        )
        self.tools = Tools(
            store=components.store,
            index=components.index,
            embedder=components.embedder_for(scope.profile),
            counter=components.counter,
            clock=components.clock,
            limits=components.limits,
            assets=components.assets,
            on_token_limit=components.preparation.on_token_limit,
            beside=self._other_generations,
        )
        self._command = IngestCommand(self.intake, self.tools, scope)

    def request(
        self,
        paths: str | PurePath | Sequence[str | PurePath],
        manifest: str | PurePath | None,
        declared: Declared,
        *,
        prune: bool,
        allow_empty: bool,
    ) -> IngestRequest:
        """Return a request with absolute paths, so that any process can run it."""
        given = [paths] if isinstance(paths, str | PurePath) else list(paths)
        if bool(given) == (manifest is not None):
            raise InvalidSettings("Give either paths or a manifest.")
        if manifest is not None and declared != Declared():
            raise InvalidSettings(
                "With a manifest, each line declares its document.",
                advice="Put kind, tags and the rest into its lines.",
            )
        # Refuses an unknown chunking before a job is created.
        self._components.preparation.chunking_for(declared)
        absolute = self._components.sources.absolute
        return IngestRequest(
            tuple(absolute(str(path)) for path in given),
            absolute(str(manifest)) if manifest is not None else None,
            declared,
            prune=prune,
            allow_empty=allow_empty,
        )

    def plan(self, request: IngestRequest) -> DryRun:
        """Return what a run would do."""
        others = self._other_generations(self.scope)
        plan = self._command.plan(request, price=self._components.price)
        return replace(plan, beside=tuple(str(other.scope.profile) for other in others))

    def run(
        self,
        request: IngestRequest,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport:
        """Run a request as a job. If a source is missing, no job is created."""
        self._other_generations(self.scope)
        found = self._command.find(request)
        store, own = self._components.store, self._components.processes.own()
        job = store.begin_job(self.scope, INGEST, request.spelled(), own)
        return self._run(job.id, request, found, on_progress, on_prune)

    def resume(
        self,
        job: str,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport:
        """Continue a job that failed, was cancelled or was interrupted."""
        components = self._components
        request = read_request(Jobs(components, self.scope).require_resumable(job).request)
        found = self._command.find(request)
        if not components.store.continue_job(self.scope, job, components.processes.own()):
            raise JobNotResumable(job, JobState.RUNNING)
        return self._run(job, request, found, on_progress, on_prune)

    def queue(self, request: IngestRequest) -> Job:
        """Record a request as a queued job. If a source is missing, no job is created."""
        components = self._components
        self._other_generations(self.scope)
        self._command.find(request)
        components.queue.require_room()
        owner = components.job_owner
        return components.store.queue_job(self.scope, INGEST, request.spelled(), owner)

    def work(
        self,
        job: Job,
        journal: JobJournal,
        trace: RequestTrace,
        checks: dict[int, ProviderCheck] | None = None,
    ) -> WorkOutcome:
        """Run a job that this process has started.

        Where there are workers, a job with many sources is split into shares. Each share comes
        here, and once all are done the job itself, for what is done once for all of them.
        """
        self._other_generations(self.scope)
        command = self._traced(trace, checks)
        if job.parent is not None:
            sources = read_share(job.request)
            if not self._claim(job, sources, journal):
                return WorkOutcome.TAKEN
            command.carry(sources, journal)
            return WorkOutcome.DONE
        request = read_request(job.request)
        if job.shares:
            command.close(request, journal)
            self._count_words()
            return WorkOutcome.DONE
        found = self._command.find(request)
        shares = split(found.sources) if self._components.queue.queue_id is not None else []
        if len(shares) > 1:
            command.check(request, found)
            self._components.store.spread_job(
                self.scope,
                job.id,
                self._components.processes.own(),
                keeper=self._components.job_owner,
                shares=[share_of(sources) for sources in shares],
            )
            journal.hand_on()
            return WorkOutcome.SPREAD
        if shares and not self._claim(job, found.sources, journal):
            return WorkOutcome.TAKEN
        command.run(request, found, journal)
        self._count_words()
        return WorkOutcome.DONE

    def embed_pending(self, indexer: Indexer, on_progress: OnProgress | None) -> int:
        """Embed the pending chunks of active documents; return the number of points written."""
        refs = self._components.store.unfinished(self.scope)
        done = 0

        def on_chunks(count: int, ref: RevisionRef) -> None:
            nonlocal done
            done += count
            if on_progress is not None:
                name = f"document {ref.document}"
                on_progress(Progress(0.0, 0, len(refs), done, indexer.done.embedded, name))

        if refs:
            indexer.carry(refs, on_chunks)
        indexer.clear_retired()
        return indexer.done.written

    def _other_generations(self, scope: Scope) -> list[OtherGeneration]:
        """Return the other generations that documents must enter.

        One that no alias names is left out while its model is not configured; `reindex`
        completes it.

        Raises:
            ProfileMismatch: an alias names one whose model is not configured.
        """
        others: list[OtherGeneration] = []
        for kept in self._components.store.kept_generations(scope):
            profile = kept.generation.profile
            if kept.generation.number == scope.generation.number:
                continue
            embedder = self._components.embedder_for(profile)
            if embedder.profile.id == profile.id:
                other = replace(scope, generation=kept.generation)
                others.append(OtherGeneration(other, embedder, kept.named))
            elif kept.named:
                raise ProfileMismatch(str(profile), str(embedder.profile))
        return others

    def _claim(self, job: Job, sources: Sequence[Source], journal: JobJournal) -> bool:
        """Claim documents for a job alone; if another job has one, queue the job again."""
        own, ids = self._components.processes.own(), [source.doc_id for source in sources]
        if self._components.store.claim_documents(self.scope, job.id, own, ids):
            return True
        journal.end(JobState.QUEUED)
        journal.hand_on()
        return False

    def _run(
        self,
        job: str,
        request: IngestRequest,
        found: Found,
        on_progress: OnProgress | None,
        on_prune: OnPrune | None,
    ) -> IngestReport:
        components = self._components

        def clean_up(discard: Callable[[Components, Scope, Job], None]) -> None:
            ended = components.store.job(self.scope, job)
            if ended is not None:
                discard(components, self.scope, ended)

        with components.watch.request(Request.INGEST) as trace:
            journal = JobJournal(
                components.store, self.scope, job, components.clock, on_progress, course=trace
            )
            command = self._traced(trace)
            try:
                report = journaled(
                    journal, lambda: command.run(request, found, journal, on_prune=on_prune)
                )
            except Cancelled:
                clean_up(discard_cancelled)
                raise
            clean_up(discard_uploads)
        self._count_words()
        return replace(report, job=job)

    def _traced(
        self, trace: RequestTrace, checks: dict[int, ProviderCheck] | None = None
    ) -> IngestCommand:
        return IngestCommand(
            replace(self.intake, course=trace),
            replace(self.tools, course=trace, proofs=checks),
            self.scope,
        )

    def _count_words(self) -> None:
        # If words cannot be counted now, the next fused search counts them.
        with suppress(StorageFull, StoreBusy):
            others = self._other_generations(self.scope)
            for scope in (self.scope, *(other.scope for other in others)):
                keep_counting(self._components.store, scope)


def declared_as(
    kind: str | None,
    title: str | None,
    language: str | None,
    version: str | None,
    chunking: str | None,
    tags: Sequence[str] | None,
) -> Declared:
    """Return what a caller declares about documents, checked."""
    try:
        chosen = DocumentKind(kind) if kind is not None else None
    except ValueError:
        raise InvalidSettings(
            f"The kind of a document is 'document' or 'book', not {kind!r}."
        ) from None
    texts: dict[str, Any] = {
        "title": title,
        "language": language,
        "version": version,
        "chunking": chunking,
    }
    for label, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidSettings(f"The {label} must be a string that is not blank.")
    if tags is None:
        return Declared(kind=chosen, **texts)
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag.strip() for tag in tags):
        raise InvalidSettings("Tags must be a list of words.")
    return Declared(kind=chosen, tags=tuple(sorted(set(tags))), **texts)
