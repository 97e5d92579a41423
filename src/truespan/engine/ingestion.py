"""Ingestion into one world, as jobs, and the calibration of a model from ingested text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import PurePath

from msgspec.structs import replace

from truespan import errors
from truespan.core.garbage import collecting_less
from truespan.core.records import copy_fields
from truespan.engine.calibration import keep_calibrated
from truespan.engine.components import Components
from truespan.engine.jobs import INGEST, discard_cancelled, discard_uploads, require_resumable
from truespan.ingest import requests
from truespan.ingest.plan import DryRun
from truespan.ingest.report import IngestDeps, IngestReport, JobLog, OtherGeneration, Progress
from truespan.ingest.requests import Choice, IngestRequest
from truespan.observer import RequestTrace
from truespan.retrieval.query import embedder_for
from truespan.retrieval.word_counts import complete_counts, count_chunks, keep_counting
from truespan.types.document import Document
from truespan.types.job import IngestJob, Job, JobState, read_request
from truespan.types.scope import Scope
from truespan.types.source import DocumentOptions, FoundSources, is_page
from truespan.types.telemetry import Request

MAX_JOBS = 256
"""Maximum number of worker processes of a run."""


class WorkOutcome(StrEnum):
    """Outcome of one attempt of a worker at a job."""

    DONE = "done"
    TAKEN = "taken"
    """Another job works on one of the documents; the job is queued again."""


OnProgress = Callable[[Progress], None]
OnPrune = Callable[[Sequence[Document]], None]


class Ingestion:
    """Ingestion into the world of a scope, as jobs: run, plan and resume."""

    def __init__(self, components: Components, scope: Scope) -> None:
        self._components = components
        self.scope = scope
        self.deps = copy_fields(
            IngestDeps,
            components,
            embedder=embedder_for(components, scope.profile),
            count_words=count_chunks if components.count_words else None,
            word_states=components.wants_word_states(scope),
            other_generations=self._other_generations,
        )

    def _other_generations(self, scope: Scope) -> list[OtherGeneration]:
        """Return the other generations that documents enter; raises ProfileMismatch."""
        others: list[OtherGeneration] = []
        for record in self._components.store.worlds.kept_generations(scope):
            profile = record.generation.profile
            if record.generation.number == scope.generation.number:
                continue
            embedder, configured = self._components.learn(profile)
            if configured.id == profile.id:
                own = replace(scope, generation=record.generation)
                others.append(OtherGeneration(own, embedder, record.named))
            # A generation without an alias is skipped; `reindex` completes it later.
            elif record.named:
                raise errors.ProfileMismatch(str(profile), str(configured))
        return others

    @contextmanager
    def prepare(self, job: IngestJob) -> Iterator[IngestRequest]:
        """Store uploads and yield the request to ingest them; the files go if the block fails.

        Other sources are only checked, as by `request`.
        """
        if not job.uploads:
            yield self.request(job)
            return
        self._components.preparation.check(job.options.declared)
        if self._components.uploads is None:
            raise errors.NotAllowed("upload")
        with self._components.uploads.receive(self.scope.world, job.uploads) as batch:
            yield IngestRequest(uploads=batch, options=job.options)

    def request(self, job: IngestJob) -> IngestRequest:
        """Return a checked request with absolute paths, which any process can run."""
        listed, manifest, sitemap, options = job.paths, job.manifest, job.sitemap, job.options
        if job.uploads or not all(isinstance(path, str | PurePath) for path in listed):
            raise errors.InvalidArgument("paths must be a path or a list of paths.")
        if "" in listed:
            # Joined to the current folder, it would name all files there.
            raise errors.InvalidArgument(
                "A path is empty.", advice="Pass '.' for the current folder."
            )
        if [bool(listed), manifest is not None, sitemap is not None].count(True) != 1:
            raise errors.InvalidArgument("Pass either paths, a manifest or a sitemap.")
        if manifest is not None and options.declared != DocumentOptions():
            raise errors.InvalidArgument(
                "The options of documents cannot be combined with a manifest.",
                advice="Put kind, tags and the other fields into its lines.",
            )
        if manifest is not None and options.within is not None:
            raise errors.InvalidArgument("A manifest is confined to its own folder.")
        self._components.preparation.check(options.declared)
        absolute = self._components.sources.absolute
        if options.within is not None:
            options = replace(options, within=tuple(map(absolute, options.within)))
        return IngestRequest(
            tuple(path if is_page(path := str(each)) else absolute(path) for each in listed),
            absolute(str(manifest)) if manifest is not None else None,
            options=options,
            sitemap=sitemap,
        )

    def plan(self, request: IngestRequest) -> DryRun:
        """Return the plan of a run."""
        others = tuple(str(other.scope.profile) for other in self._other_generations(self.scope))
        plan = requests.plan_request(self.deps, self.scope, request)
        return replace(plan, other_models=others)

    @collecting_less()
    def run(
        self,
        request: IngestRequest,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
        choice: Choice | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        """Run a request as a job, if its sources are found.

        With a `choice`, only that part of it is done. The job is interrupted before its next step
        once `stopping` returns True.
        """
        self._other_generations(self.scope)
        found = requests.find_sources(self.deps, self.scope, request, choice=choice)
        store, own = self._components.store, self._components.processes.own()
        job = store.jobs.add(self.scope, INGEST, request.to_json(), own)
        return self._run(job, request, found, on_progress, on_prune, choice, stopping)

    @contextmanager
    def with_jobs(self, jobs: int | None) -> Iterator[Ingestion]:
        """Yield the same ingestion with a number of worker processes; None for the setting."""
        if jobs is not None and not 1 <= jobs <= MAX_JOBS:
            raise errors.InvalidArgument(f"jobs must be between 1 and {MAX_JOBS}.")
        if jobs is None or self._components.workers is None:
            yield self
            return
        with closing(self._components.workers.with_jobs(jobs)) as workers:
            yield Ingestion(replace(self._components, workers=workers), self.scope)

    def resume(
        self, job: str, *, on_progress: OnProgress | None = None, on_prune: OnPrune | None = None
    ) -> IngestReport:
        """Resume a job that did not complete."""
        stored = require_resumable(self._components, self.scope, job)
        request = read_request(stored, IngestRequest.from_json)
        found = requests.find_sources(self.deps, self.scope, request)
        own = self._components.processes.own()
        if not self._components.store.jobs.resume(self.scope, job, own):
            raise errors.Conflict(code="job_not_resumable", job=job, state=JobState.RUNNING)
        return self._run(stored, request, found, on_progress, on_prune)

    def queue(self, request: IngestRequest) -> Job:
        """Store a request as a background job, if its sources are found."""
        self._other_generations(self.scope)
        requests.find_sources(self.deps, self.scope, request, open_files=False)
        self._components.queue.require_room()
        return self._components.store.jobs.add(
            self.scope, INGEST, request.to_json(), self._components.job_owner, queued=True
        )

    def work(self, job: Job, log: JobLog, trace: RequestTrace) -> WorkOutcome:
        """Do a background job, unless another job has one of its documents."""
        self._other_generations(self.scope)
        scope, deps = self.scope, replace(self.deps, trace=trace)
        request = read_request(job, IngestRequest.from_json)
        found = requests.find_sources(deps, scope, request)
        if self._components.queue.queue_id is not None:
            own, ids = self._components.processes.own(), [source.doc_id for source in found]
            if not self._components.store.jobs.claim_documents(scope, job.id, own, ids):
                log.end(JobState.QUEUED)
                log.leave_open()
                return WorkOutcome.TAKEN
        report = requests.run_request(deps, scope, request, found, log)
        self._count_and_calibrate_each((source.doc_id for source in found), report)
        return WorkOutcome.DONE

    def _run(
        self,
        job: Job,
        request: IngestRequest,
        found: FoundSources,
        on_progress: OnProgress | None,
        on_prune: OnPrune | None,
        choice: Choice | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        components, scope, store = self._components, self.scope, self._components.store
        with components.observer.request(Request.INGEST) as trace:
            deps = replace(self.deps, trace=trace)
            log = JobLog(
                store=store,
                scope=scope,
                job=job.id,
                clock=components.clock,
                on_progress=on_progress,
                stopping=stopping,
                trace=trace,
                try_claim=claimer(components, scope, job),
            )
            try:
                with log.record_end():
                    report = requests.run_request(
                        deps, scope, request, found, log, on_prune, choice
                    )
            except errors.Cancelled:
                discard_cancelled(components, scope, job)
                raise
            discard_uploads(components, scope, job)
        doc_ids = [source.doc_id for source in found]
        changes = report.relabelled, report.resumed, report.chunks, report.removed, report.moved
        if not any(changes):
            # One document shows whether words are counted by other rules now.
            doc_ids = doc_ids[:1]
        self._count_and_calibrate_each(doc_ids, report)
        return replace(report, job=job.id)

    def _count_and_calibrate_each(
        self, doc_ids: Iterable[str], report: IngestReport | None = None
    ) -> None:
        """Count words and calibrate in each generation after these documents were ingested."""
        lost = self._components.store.catalogs.take_lost_words(self.scope.world)
        named = None if lost else frozenset(doc_ids)
        for scope in (self.scope, *(each.scope for each in self._other_generations(self.scope))):
            self.count_and_calibrate(scope, named=named, report=report)

    def count_and_calibrate(
        self,
        scope: Scope,
        *,
        named: Collection[str] | None = None,
        report: IngestReport | None = None,
    ) -> None:
        """Count words that were not counted with their chunks, as after a new language label.

        If ids of documents are given, only these and the oldest ones are looked at, so that it
        takes as long in a large world as in a small one.

        If that is impossible now, the next search by words does it. A model without a
        calibration is calibrated, too, unless the report says that no chunks are new.
        """
        components = self._components
        count = complete_counts if components.count_words else keep_counting
        # Chunks that an earlier run had written are not in the report.
        added = None if report is None or report.resumed else report.chunks
        with suppress(errors.StorageFull, errors.StoreBusy):
            count(components.store, scope, named)
            if report is None or report.ingested or report.removed:
                keep_calibrated(components.store, scope, components.calibration_schedule, added)


def claimer(components: Components, scope: Scope, job: Job) -> Callable[[Sequence[str]], bool]:
    """Return the function that reserves documents for a job of this process."""
    processes = components.processes
    return partial(
        components.store.jobs.claim_documents,
        scope,
        job.id,
        processes.own(),
        is_alive=processes.is_alive,
    )
