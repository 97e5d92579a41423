"""Ingestion into one world, as jobs: from what a caller names to a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from truespan.engine.given_up import give_up
from truespan.engine.jobs import Jobs
from truespan.engine.parts import Components
from truespan.engine.uploads import let_go
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
from truespan.observer import RequestTrace
from truespan.retrieval.bm25 import keep_counting
from truespan.types.document import Document, RevisionRef
from truespan.types.job import Job, JobState
from truespan.types.scope import Scope
from truespan.types.source import Declared, DocumentKind, Found, Source
from truespan.types.telemetry import Request

KIND = "ingest"


class WorkOutcome(StrEnum):
    """What a worker's turn at a job came to."""

    DONE = "done"
    SPREAD = "spread"
    """It was cut into shares, which anybody may do now."""
    TAKEN = "taken"
    """Another job is at one of its documents; it is queued again."""


OnProgress = Callable[[Progress], None]
OnPrune = Callable[[Sequence[Document]], None]


class WorldIntake:
    """Runs, plans and resumes ingestion into the world of a scope."""

    def __init__(self, parts: Components, scope: Scope) -> None:
        self._parts = parts
        self._scope = self.scope = scope
        self.intake = Intake(
            store=parts.store,
            sources=parts.sources,
            parser=parts.parser,
            counter=parts.counter,
            assets=parts.assets,
            preparation=parts.preparation,
            uploads=parts.uploads,
        )
        self.tools = Tools(
            store=parts.store,
            index=parts.index,
            embedder=parts.embedder_for(scope.profile),
            counter=parts.counter,
            clock=parts.clock,
            limits=parts.limits,
            assets=parts.assets,
            on_token_limit=parts.preparation.on_token_limit,
            beside=self._beside,
        )
        self._command = IngestCommand(self.intake, self.tools, scope)

    def _beside(self, scope: Scope) -> list[OtherGeneration]:
        """Return the other generations that documents enter.

        One that no alias names is left out while its model is not at hand; `reindex` completes it.

        Raises:
            ProfileMismatch: a domain is served by one whose model is not configured.
        """
        others: list[OtherGeneration] = []
        for kept in self._parts.store.kept_generations(scope):
            profile = kept.generation.profile
            if kept.generation.number == scope.generation.number:
                continue
            embedder = self._parts.embedder_for(profile)
            if embedder.profile.id == profile.id:
                others.append(
                    OtherGeneration(
                        replace(scope, generation=kept.generation), embedder, kept.named
                    )
                )
            elif kept.named:
                raise ProfileMismatch(str(profile), str(embedder.profile))
        return others

    def request(
        self,
        paths: str | PurePath | Sequence[str | PurePath],
        manifest: str | PurePath | None,
        declared: Declared,
        *,
        prune: bool,
        allow_empty: bool,
    ) -> IngestRequest:
        """Return a request that means the same wherever it is taken up again."""
        given = [paths] if isinstance(paths, str | PurePath) else list(paths)
        if bool(given) == (manifest is not None):
            raise InvalidSettings("Give paths or a manifest, one of the two.")
        if manifest is not None and declared != Declared():
            raise InvalidSettings(
                "A manifest says of each document what it is.",
                advice="Put kind, tags and the rest into its lines.",
            )
        # A name that is wrong is told before a job begins.
        self._parts.preparation.chunking_for(declared)
        absolute = self._parts.sources.absolute
        return IngestRequest(
            tuple(absolute(str(path)) for path in given),
            absolute(str(manifest)) if manifest is not None else None,
            declared,
            prune=prune,
            allow_empty=allow_empty,
        )

    def plan(self, request: IngestRequest) -> DryRun:
        """Return what a run would do."""
        beside = tuple(str(one.scope.profile) for one in self._beside(self._scope))
        return replace(self._command.plan(request, price=self._parts.price), beside=beside)

    def run(
        self,
        request: IngestRequest,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport:
        """Do what a request says, as a job. What it names is looked for first."""
        self._beside(self._scope)
        found = self._command.find(request)
        store, own = self._parts.store, self._parts.processes.own()
        job = store.begin_job(self._scope, KIND, request.spelled(), own)
        return self._run(job.id, request, found, on_progress, on_prune)

    def resume(
        self,
        job: str,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport:
        """Go on with a job that did not end well."""
        request = read_request(Jobs(self._parts, self._scope).resumable(job).request)
        found = self._command.find(request)
        if not self._parts.store.continue_job(self._scope, job, self._parts.processes.own()):
            raise JobNotResumable(job, JobState.RUNNING)
        return self._run(job, request, found, on_progress, on_prune)

    def queue(self, request: IngestRequest) -> Job:
        """Write down a request as a job for the background. What it names is looked for first."""
        self._beside(self._scope)
        self._command.find(request)
        self._parts.queue.require_room()
        return self._parts.store.queue_job(self._scope, KIND, request.spelled(), self._parts.keeper)

    def work(
        self,
        job: Job,
        journal: JobJournal,
        course: RequestTrace,
        proofs: dict[int, ProviderCheck] | None = None,
    ) -> WorkOutcome:
        """Do what a job says that somebody begins with now, perhaps in another process.

        Where there are workers, one of many sources is spread over them; each share, and in the
        end what is left to do for all of them together, comes here again.
        """
        self._beside(self._scope)
        command = self._watched(course, proofs)
        if job.parent is not None:
            return self._carry(job, read_share(job.request), command, journal)
        request = read_request(job.request)
        if job.shares:
            command.close(request, journal)
            self._count_words()
            return WorkOutcome.DONE
        found = self._command.find(request)
        shares = split(found.sources) if self._parts.queue.holder is not None else []
        if len(shares) > 1:
            command.check(request, found)
            return self._spread(job, shares, journal)
        if shares and not self._claim(job, found.sources, journal):
            return WorkOutcome.TAKEN
        command.run(request, found, journal)
        self._count_words()
        return WorkOutcome.DONE

    def _spread(
        self, job: Job, shares: Sequence[Sequence[Source]], journal: JobJournal
    ) -> WorkOutcome:
        parts, own = self._parts, self._parts.processes.own()
        written = [share_of(sources) for sources in shares]
        parts.store.spread_job(self._scope, job.id, own, keeper=parts.keeper, shares=written)
        journal.hand_on()
        return WorkOutcome.SPREAD

    def _carry(
        self, job: Job, sources: Sequence[Source], command: IngestCommand, journal: JobJournal
    ) -> WorkOutcome:
        """Do a share: what is done once for all of them is left to whoever closes the job."""
        if not self._claim(job, sources, journal):
            return WorkOutcome.TAKEN
        command.carry(sources, journal)
        return WorkOutcome.DONE

    def _claim(self, job: Job, sources: Sequence[Source], journal: JobJournal) -> bool:
        """Have documents for a job alone; if another has one, the job is queued again."""
        own, ids = self._parts.processes.own(), [source.doc_id for source in sources]
        if self._parts.store.claim_documents(self._scope, job.id, own, ids):
            return True
        journal.end(JobState.QUEUED)
        journal.hand_on()
        return False

    def finish(self, carrier: Indexer, on_progress: OnProgress | None) -> int:
        """Embed what is pending of documents that are in force; return the points written."""
        refs = self._parts.store.unfinished(self._scope)
        done = 0

        def on_chunks(count: int, ref: RevisionRef) -> None:
            nonlocal done
            done += count
            if on_progress is not None:
                name = f"document {ref.document}"
                on_progress(Progress(0.0, 0, len(refs), done, carrier.done.embedded, name))

        if refs:
            carrier.carry(refs, on_chunks)
        carrier.clear_retired()
        return carrier.done.written

    def _run(
        self,
        job: str,
        request: IngestRequest,
        found: Found,
        on_progress: OnProgress | None,
        on_prune: OnPrune | None,
    ) -> IngestReport:
        parts = self._parts
        with parts.watch.request(Request.INGEST) as course:
            journal = JobJournal(
                parts.store, self._scope, job, parts.clock, on_progress, course=course
            )
            command = self._watched(course)
            report = self._letting_go(
                job,
                lambda: journaled(
                    journal, lambda: command.run(request, found, journal, on_prune=on_prune)
                ),
            )
        self._count_words()
        return replace(report, job=job)

    def _watched(
        self, course: RequestTrace, proofs: dict[int, ProviderCheck] | None = None
    ) -> IngestCommand:
        return IngestCommand(
            replace(self.intake, course=course),
            replace(self.tools, course=course, proofs=proofs),
            self._scope,
        )

    def _letting_go(self, job: str, work: Callable[[], IngestReport]) -> IngestReport:
        """Do the work of a job, and remove what was uploaded for it unless it may go on."""
        try:
            report = work()
        except Cancelled:
            self._leave(job, give_up)
            raise
        self._leave(job, let_go)
        return report

    def _leave(self, job: str, leave: Callable[[Components, Scope, Job], None]) -> None:
        ended = self._parts.store.job(self._scope, job)
        if ended is not None:
            leave(self._parts, self._scope, ended)

    def _count_words(self) -> None:
        # Whoever cannot keep words just now does so when somebody asks for them.
        with suppress(StorageFull, StoreBusy):
            for scope in (self._scope, *(beside.scope for beside in self._beside(self._scope))):
                keep_counting(self._parts.store, scope)


def declared_as(
    kind: str | None,
    title: str | None,
    language: str | None,
    version: str | None,
    chunking: str | None,
    tags: Sequence[str] | None,
) -> Declared:
    """Return what a caller says of documents, checked."""
    try:
        chosen = DocumentKind(kind) if kind is not None else None
    except ValueError:
        raise InvalidSettings(
            f"A document is of kind 'document' or 'book', not {kind!r}."
        ) from None
    texts: dict[str, Any] = {
        "title": title,
        "language": language,
        "version": version,
        "chunking": chunking,
    }
    for label, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidSettings(f"The {label} must be text, and not blank.")
    if tags is None:
        return Declared(kind=chosen, **texts)
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag.strip() for tag in tags):
        raise InvalidSettings("Tags must be a list of words.")
    return Declared(kind=chosen, tags=tuple(sorted(set(tags))), **texts)
