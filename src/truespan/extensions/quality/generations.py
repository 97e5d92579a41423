"""The generations of a world: build one next to the others, check it, put it into use, go back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.engine.access import WorldAccess, WorldPart
from truespan.engine.components import Components
from truespan.engine.ingestion import Ingestion, OnProgress
from truespan.engine.jobs import REINDEX, require_resumable
from truespan.engine.world import World
from truespan.extensions.quality.build import ReindexReport, build_generation
from truespan.extensions.quality.compare import ALLOWED_DROP
from truespan.extensions.quality.evaluate import Evaluation
from truespan.extensions.quality.world import Candidate, Golden, WorldEvaluation
from truespan.ingest.indexing import prepare_index
from truespan.ingest.report import IngestDeps, IngestReport, JobLog
from truespan.maintenance.doctor.examine import Examiner
from truespan.maintenance.doctor.leaks import leaks
from truespan.maintenance.doctor.plan import Finding
from truespan.observer import RequestTrace
from truespan.tables import import_member, tables
from truespan.types.bundle import Notice
from truespan.types.document import GenerationRecord, Verdict
from truespan.types.job import Job, JobState, ReindexJob, read_request
from truespan.types.profile import ChunkingProfile, EmbeddingProfile
from truespan.types.request import check_whole, require_domain_key
from truespan.types.scope import MAX_GENERATION, Scope
from truespan.types.telemetry import Request

MAX_PROMOTION_ATTEMPTS = 5
"""Maximum number of times a generation is completed and checked while documents arrive."""

_HARMLESS = (Finding.RETIRED, Finding.QUEUED_REPAIR, Finding.QUARANTINED)
"""Findings that do not prevent the promotion of a generation."""


class Promotion(Struct, frozen=True):
    """The generations that an alias names now and before; `domain` is None for the default."""

    generation: int
    previous: int | None
    domain: str | None = None
    verdict: Verdict | None = None
    """The result of the gates; None when there was nothing to check."""


class Generations(WorldPart, frozen=True):
    """The generations of one world. Changing them needs the right to administer the world."""

    def list(self) -> list[GenerationRecord]:
        """Return every generation of the world, by number; none while it is empty."""
        scope = self._access.generations_scope()
        return self._access.components.store.worlds.generations(scope) if scope else []

    def get(self, number: int) -> GenerationRecord:
        """Return one generation.

        Args:
            number: Number of the generation.
        """
        check_whole("generation", number, 0, MAX_GENERATION)
        for record in self.list():
            if record.generation.number == number:
                return record
        raise errors.NotFound("generation", number)

    def reindex(
        self,
        *,
        model: str | None = None,
        chunking: str | None = None,
        generation: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ReindexReport:
        """Build a generation next to the others; no request uses it until it is promoted.

        Args:
            model: 'local', 'local-gpu', 'multilingual' or the name of a configured model; None for
                the default.
            chunking: Name of a chunking profile for all documents.
            generation: Number of a generation to complete instead of building a new one.
            on_progress: Called with the progress after each step.

        Raises:
            ProfileMismatch: The model of the generation to be completed is not configured.
        """
        if generation is not None and (model is not None or chunking is not None):
            raise errors.InvalidArgument("An existing generation keeps its model and its chunking.")
        self._delete_retired()
        if generation is not None:
            return self._start(self._scope_of(generation), on_progress)
        return self._start(self._scope_for(model, chunking), on_progress)

    def resume(self, job: str, on_progress: OnProgress | None = None) -> ReindexReport:
        """Continue a reindex job that failed, was cancelled or was interrupted.

        Args:
            job: Id of the job.
            on_progress: Called with the progress after each step.

        Raises:
            Conflict: The job is done, queued or running.
        """
        components = self._access.components
        earlier = require_resumable(components, self._current(), job)
        scope = self._scope_of(read_request(earlier, _generation_of))
        if not components.store.jobs.resume(scope, job, components.processes.own()):
            raise errors.Conflict(code="job_not_resumable", job=job, state=JobState.RUNNING)
        return self._run(job, scope, on_progress)

    def promote(
        self,
        generation: int,
        *,
        domain: str | None = None,
        golden: str | None = None,
        allowed_drop: float = ALLOWED_DROP,
        min_hit_rate: float = 0.0,
    ) -> Promotion:
        """Put a generation into use, in one commit, if it passes every check.

        The generation must be complete, and its points must match the store.

        Args:
            generation: Number of the generation.
            domain: Domain whose alias to move; None for the default of the world.
            golden: File of golden queries, which must score no worse than in the replaced
                generation.
            allowed_drop: How far a mean may fall below that of the replaced generation.
            min_hit_rate: Minimum share of golden queries that find an expected document.

        Raises:
            Conflict: Documents or vectors are missing.
            PromotionRefused: A check failed; the error has every reason. Nothing has changed.
            ProfileMismatch: The model of the generation is not configured.
        """
        candidate = Candidate(
            generation=generation,
            replaced=self._replaced(domain),
            golden=golden,
            allowed_drop=allowed_drop,
            min_hit_rate=min_hit_rate,
        )
        return self._promote(candidate, domain)

    def _replaced(self, domain: str | None) -> int:
        """Return the number of the generation that a promotion replaces.

        A domain that does not exist yet replaces the default of the world.
        """
        return self._number_of(domain) or self._current().generation.number

    def _promote(self, candidate: Candidate, domain: str | None) -> Promotion:
        components, scope = self._access.components, self._scope_of(candidate.generation)
        require_domain_key(domain)
        components.require_model(scope.profile)
        for _ in range(MAX_PROMOTION_ATTEMPTS):
            self._require_complete(scope)
            if problems := check_generation(components, scope):
                raise errors.PromotionRefused(
                    "The index does not match the store: "
                    + " ".join(problem.message for problem in problems),
                    advice="'truespan doctor' shows what is wrong; 'doctor --apply' repairs it.",
                )
            verdict = self._ask_gates(candidate)
            previous = self._number_of(domain)
            if components.store.generations.move_alias(scope, domain):
                return Promotion(candidate.generation, previous, domain, verdict)
            # Documents arrived during the checks, and some are not in this generation yet.
            build_generation(self._deps(scope), scope)
        raise errors.StoreBusy

    def rotate_after(
        self,
        ingest: Callable[[], IngestReport],
        *,
        domain: str | None = None,
        golden: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> IngestReport:
        """Ingest, build a generation of all documents, and move an alias to it.

        The new generation has the model and the chunking of the one that the alias names; use
        `reindex` for others. Nothing is built if a document failed, or if nothing has changed.

        Args:
            ingest: Ingests documents and returns the report.
            domain: Domain of the alias; None for that of this world, or the world's default.
            golden: File of golden queries, which must score no worse than before the ingestion.
            on_progress: Called with the progress after each step.

        Raises:
            PromotionRefused: The documents are ingested, and the new generation was removed.
        """
        own = self._access.target
        domain = domain or (own if isinstance(own, str) else None)
        queries = before = None
        if golden is not None:
            # Refuses an invalid file before anything is ingested or built.
            evaluation = WorldEvaluation(self._access)
            queries = evaluation.queries(golden)
            if self._access.generations_scope() is not None:
                before = evaluation.run(queries, generation=self._replaced(domain))
        report = ingest()
        if report.failures:
            report.warnings.append("The alias was not moved, because documents failed.")
            return report
        current = self._number_of(domain)
        if (
            queries is not None
            or report.changed
            or current is None
            or not self.get(current).complete
        ):
            try:
                promotion = self._rotate(domain, queries, before, on_progress)
            except errors.PromotionRefused as refusal:
                raise _explain_refusal(refusal, domain, report) from None
            report.generation = promotion.generation
        else:
            report.warnings.append(f"Nothing changed, so generation {current} stays in use.")
        report.warnings += self._name_unused()
        return report

    def _rotate(
        self,
        domain: str | None,
        golden: Golden | None,
        before: Evaluation | None,
        on_progress: OnProgress | None,
    ) -> Promotion:
        """Build a generation like the one an alias names, and move the alias to it.

        If the promotion is refused, the new generation is removed.
        """
        number = self._replaced(domain)
        like = self._scope_of(number).generation
        self._delete_retired()
        known = {record.generation.number for record in self.list()}
        built = self._start(self._unfinished_or_new(like.profile, like.chunking), on_progress)
        try:
            return self._promote(Candidate(built.generation, number, golden, before), domain)
        except errors.PromotionRefused:
            if built.generation not in known:
                self.remove(built.generation)
            raise

    def _name_unused(self) -> Iterator[str]:
        """Yield a sentence about generations that no alias names, or would after a rollback."""
        records, store = self.list(), self._access.components.store
        aliases = [None, *(domain for record in records for domain in record.domains)]
        kept = {
            store.generations.previous_generation(self._current(), domain) for domain in aliases
        }
        unused = [
            record.generation.number
            for record in records
            if not (record.is_default or record.domains or record.generation.number in kept)
        ]
        if unused:
            yield (
                f"Not in use, and embedded for each new document: generation "
                f"{', '.join(map(str, unused))}. 'truespan generations --remove {unused[0]} -w "
                f"{quote(self._access.record().name)}' removes one."
            )

    def rollback(self, *, domain: str | None = None) -> Promotion:
        """Go back to the generation that an alias named before its last move.

        Args:
            domain: Domain of the alias; None for the default of the world.

        Raises:
            PromotionRefused: There is no earlier generation.
            Conflict: Documents arrived that the earlier generation does not have.
        """
        components = self._access.components
        earlier = components.store.generations.previous_generation(self._current(), domain)
        current = self._number_of(domain)
        if domain is not None and current is None:
            raise errors.NotFound("domain", domain)
        if earlier is None:
            raise errors.PromotionRefused("There is no earlier generation to go back to.")
        scope = self._scope_of(earlier)
        components.require_model(scope.profile)
        if not components.store.generations.move_alias(scope, domain):
            self._require_complete(scope)
            raise errors.StoreBusy
        return Promotion(earlier, current, domain)

    def forget(self, domain: str) -> None:
        """Remove the name of a domain; the generation it named stays.

        Args:
            domain: Key of the domain.
        """
        self._access.components.store.generations.remove_domain(self._current(), domain)

    def remove(self, generation: int) -> None:
        """Delete a generation that no alias names: its points, chunks and vectors.

        Args:
            generation: Number of the generation.

        Raises:
            Conflict: The world or a domain names the generation.
        """
        self._access.components.store.generations.retire_generation(self._scope_of(generation))
        self._delete_retired()

    def _current(self) -> Scope:
        scope = self._access.generations_scope()
        if scope is None:
            raise errors.InvalidArgument("The world is empty.", advice="Ingest a document first.")
        return scope

    def _start(self, scope: Scope, on_progress: OnProgress | None) -> ReindexReport:
        components = self._access.components
        request = json.dumps({"generation": scope.generation.number})
        own = components.processes.own()
        job = components.store.jobs.add(scope, REINDEX, request, own)
        return self._run(job.id, scope, on_progress)

    def _run(self, job: str, scope: Scope, on_progress: OnProgress | None) -> ReindexReport:
        components = self._access.components
        with components.observer.request(Request.REINDEX) as trace:
            deps = replace(self._deps(scope), trace=trace)
            log = JobLog(components.store, scope, job, components.clock, on_progress, trace=trace)
            with log.record_end():
                report = build_generation(deps, scope, log)
        Ingestion(components, scope).count_and_calibrate(scope)
        return replace(report, job=job)

    def _delete_retired(self) -> None:
        """Delete points before rows: if this is interrupted, the rows show what is left."""
        store, index = self._access.components.store, self._access.components.index
        current = self._current()
        for generation in store.worlds.retired_generations(current):
            scope = replace(current, generation=generation)
            prepare_index(store, index, scope)
            index.drop(scope)
            index.flush(scope)
            store.generations.remove_generation(scope)

    def _scope_for(self, model: str | None, chunking: str | None) -> Scope:
        """Return the scope of a generation with a model and a chunking by their names."""
        components = self._access.components
        profile = components.profile_named(model)
        preparation = components.preparation.for_world(self._access.record().defaults)
        named = None if chunking is None else preparation.chunking_named(chunking)
        return self._unfinished_or_new(profile, named)

    def _unfinished_or_new(
        self, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Scope:
        """Return the scope of an unfinished generation with these profiles, or of a new one.

        So the same command continues where it was stopped.
        """
        current = self._current()
        for record in self.list():
            generation, is_named = record.generation, record.is_default or record.domains
            same = (generation.profile.id, generation.chunking) == (profile.id, chunking)
            if same and not is_named and not record.complete:
                return replace(current, generation=generation)
        made = self._access.components.store.generations.add_generation(current, profile, chunking)
        return replace(current, generation=made)

    def _deps(self, scope: Scope) -> IngestDeps:
        self._access.components.require_model(scope.profile)
        return Ingestion(self._access.components, scope).deps

    def _scope_of(self, number: int) -> Scope:
        check_whole("generation", number, 0, MAX_GENERATION)
        current = self._current()
        for kept in self._access.components.store.worlds.kept_generations(current):
            if kept.generation.number == number:
                return replace(current, generation=kept.generation)
        raise errors.NotFound("generation", number)

    def _number_of(self, domain: str | None) -> int | None:
        for record in self.list():
            if record.is_default if domain is None else domain in record.domains:
                return record.generation.number
        return None

    def _require_complete(self, scope: Scope) -> None:
        record = self.get(scope.generation.number)
        if not record.complete:
            counts = {"document": record.missing, "vector": record.pending}
            lacking = " and ".join(
                f"{count} {noun}{'' if count == 1 else 's'}"
                for noun, count in counts.items()
                if count
            )
            number = record.generation.number
            raise errors.Conflict(code="generation_incomplete", number=number, lacking=lacking)

    def _ask_gates(self, candidate: Candidate) -> Verdict | None:
        """Return the verdict of the gates, None if none had anything to check."""
        gates = tables().gates.values()
        found = [import_member(gate)(self._access, candidate) for gate in gates]
        verdicts = [verdict for verdict in found if verdict is not None]
        reasons = tuple(reason for verdict in verdicts for reason in verdict.reasons)
        if not all(verdict.passed for verdict in verdicts):
            raise errors.PromotionRefused(
                " ".join(reason.message for reason in reasons),
                advice="'truespan evaluate' shows the queries.",
            )
        return Verdict(True, reasons) if verdicts else None


def _generation_of(request: str) -> int:
    return int(json.loads(request)["generation"])


def generations_of(world: World) -> Generations:
    """Return the generations of a world."""
    return Generations(world.access)


def queue_reindex_job(access: WorldAccess, request: ReindexJob) -> Job:
    """Store a job that fills a new generation."""
    components = access.components
    # Refuse before a generation is added.
    components.queue.require_room()
    scope = Generations(access)._scope_for(request.model, request.chunking)
    stored = json.dumps({"generation": scope.generation.number})
    return components.store.jobs.add(scope, REINDEX, stored, components.job_owner, queued=True)


def run_reindex_job(access: WorldAccess, job: Job, log: JobLog, trace: RequestTrace) -> None:
    """Fill the generation of a job, in the worker that has the job."""
    generations = Generations(access)
    generations._delete_retired()
    scope = generations._scope_of(read_request(job, _generation_of))
    build_generation(replace(generations._deps(scope), trace=trace), scope, log)
    Ingestion(access.components, scope).count_and_calibrate(scope)


def check_generation(components: Components, scope: Scope) -> list[Notice]:
    """Return where a generation's points differ from the store, and where its index leaks. Raises
    `StorageFull` or `IndexUnavailable`: the check could not be made."""
    counts = Examiner(components.store, components.index).generation(scope).counts()
    number = scope.generation.number
    wrong = sum(flaw.generation == number for flaw in components.store.scrub.tally_flaws(scope))
    if wrong:
        counts[Finding.WRONG_TALLY] = wrong
    # The boundaries of an index that cannot be read cannot be tried.
    readable = Finding.UNREADABLE_INDEX not in counts
    found = leaks(components.index, scope) if readable else []
    return [Notice("leak", f"{check.name}: {check.says}.") for check in found] + [
        Notice(finding.value, f"{count} x {finding.value}.")
        for finding, count in counts.items()
        if finding not in _HARMLESS
    ]


def _explain_refusal(
    refusal: errors.PromotionRefused, domain: str | None, report: IngestReport
) -> errors.PromotionRefused:
    alias = f"The domain {domain!r}" if domain else "The world's default"
    return errors.PromotionRefused(
        f"{refusal.message} {alias} was not moved, and the new generation was removed. The "
        "documents of this run are ingested: the generations in use have them, and searches find "
        "them.",
        advice=f"{refusal.advice} 'truespan delete' takes documents out again.".strip(),
        report=report,
    )
