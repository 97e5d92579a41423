"""The generations of a world: built beside each other, judged, put into use, taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from truespan.engine.intake import WorldIntake
from truespan.engine.jobs import Jobs
from truespan.engine.parts import Components
from truespan.errors import (
    DomainNotFound,
    GenerationIncomplete,
    GenerationNotFound,
    InvalidSettings,
    JobNotResumable,
    ProfileMismatch,
    PromotionRefused,
    StoreBusy,
)
from truespan.evaluation.compare import ALLOWED_DROP, Verdict, gate_generation
from truespan.evaluation.evaluate import Evaluation
from truespan.ingest.indexing import Reindex, ReindexReport, Tools, prepare
from truespan.ingest.job_log import JobJournal, Progress, journaled
from truespan.observer import RequestTrace
from truespan.types.bundle import Notice
from truespan.types.document import GenerationRecord
from truespan.types.job import Job, JobOrder, JobState, Urgency
from truespan.types.profile import ChunkingProfile, EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.telemetry import Request

KIND = "reindex"
PROMOTIONS = 5
"""How often a generation that documents entered meanwhile is completed and judged again."""

OnProgress = Callable[[Progress], None]
Judge = Callable[[str, int], Evaluation]
"""Runs the golden queries of a file on a generation."""


class Examiner(Protocol):
    """Finds out whether a generation's points are what the store says, and leak nothing."""

    def __call__(self, scope: Scope) -> list[Notice]: ...


@dataclass(frozen=True, slots=True)
class Promotion:
    """What an alias names now, and what it named before. `domain` is None for the default."""

    generation: int
    previous: int | None
    domain: str | None = None
    verdict: Verdict | None = None
    """What golden queries said; None when none were asked."""


class Generations:
    """What can be done with the generations of one world."""

    def __init__(
        self,
        parts: Components,
        scope: Callable[[], Scope | None],
        examine: Examiner,
        judge: Judge,
    ) -> None:
        self._parts = parts
        self._whole = scope
        self._examine = examine
        self._judge = judge

    def list(self) -> list[GenerationRecord]:
        """Return every generation of the world, by number; none while it holds nothing."""
        scope = self._whole()
        return self._parts.store.generations(scope) if scope else []

    def get(self, number: int) -> GenerationRecord:
        """Return one generation.

        Raises:
            GenerationNotFound: the world has none of this number.
        """
        for record in self.list():
            if record.generation.number == number:
                return record
        raise GenerationNotFound(number)

    def reindex(
        self,
        *,
        embedding: str | None = None,
        chunking: str | None = None,
        generation: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ReindexReport:
        """Build a generation beside the others; nobody is answered from it until it is promoted.

        `embedding` names one of the configured embedding profiles, `chunking` a chunking profile
        for all documents. With the number of a `generation`, that one is completed instead.

        Raises:
            InvalidSettings, GenerationNotFound: there is nothing of that name or number.
            ProfileMismatch: the model of the generation to be completed is not configured.
            Interrupted: stopped; the same call goes on.
        """
        if generation is not None and (embedding is not None or chunking is not None):
            raise InvalidSettings("A generation that is there keeps its model and its chunking.")
        self._clear_retired()
        if generation is not None:
            return self._begin(self._scope_of(generation), on_progress)
        return self._begin(self._named_alike(embedding, chunking), on_progress)

    def submit_reindex(self, *, embedding: str | None = None, chunking: str | None = None) -> Job:
        """Have a generation built in the background, as `reindex` does; return its job, queued.

        Raises:
            InvalidSettings, ProfileMismatch: as `reindex`, before anything is begun.
        """
        self._parts.queue.require_room()
        scope = self._named_alike(embedding, chunking)
        request = json.dumps({"generation": scope.generation.number})
        job = self._parts.store.queue_job(scope, KIND, request, self._parts.keeper)
        self._parts.queue.submit(JobOrder(scope.world, job.id, Urgency.REINDEX))
        return job

    def _named_alike(self, embedding: str | None, chunking: str | None) -> Scope:
        """Return the scope of a generation with a model and a chunking by their names."""
        profile = self._parts.embedder_named(embedding).profile
        cut_as = None if chunking is None else self._parts.preparation.chunking_named(chunking)
        return self._begun(profile, cut_as)

    def _begin(self, scope: Scope, on_progress: OnProgress | None) -> ReindexReport:
        """Fill a generation, as a job."""
        request = json.dumps({"generation": scope.generation.number})
        own = self._parts.processes.own()
        job = self._parts.store.begin_job(scope, KIND, request, own)
        return self._run(job.id, scope, on_progress)

    def resume(self, job: str, on_progress: OnProgress | None = None) -> ReindexReport:
        """Go on with a job that did not end well."""
        earlier = Jobs(self._parts, self._current()).resumable(job)
        scope = self._scope_of(json.loads(earlier.request)["generation"])
        if not self._parts.store.continue_job(scope, job, self._parts.processes.own()):
            raise JobNotResumable(job, JobState.RUNNING)
        return self._run(job, scope, on_progress)

    def promote(
        self,
        generation: int,
        *,
        domain: str | None = None,
        golden: str | None = None,
        allowed_drop: float = ALLOWED_DROP,
        least_hit_rate: float = 0.0,
    ) -> Promotion:
        """Put a generation into use, in one commit, if it is as good as it must be.

        It has to be complete, its points have to be what the store says, nothing may leak, and
        golden queries, if a file of them is given, must not find less than in the one it replaces.

        Raises:
            GenerationIncomplete: documents or vectors are missing.
            PromotionRefused: with every reason; then nothing has changed.
            DomainNotFound: the domain is one of another world.
            ProfileMismatch: the model of the generation is not configured.
        """
        scope = self._scope_of(generation)
        check_key(domain)
        self._require_model(scope)
        for _ in range(PROMOTIONS):
            self._require_complete(scope)
            self._require_sound(scope)
            verdict = self._judged(scope, domain, golden, allowed_drop, least_hit_rate)
            previous = self._named(domain)
            if self._parts.store.move_alias(scope, domain):
                return Promotion(generation, previous, domain, verdict)
            # Documents came in while it was looked at, and not all of them have entered it yet.
            Reindex(self._tools(scope), scope).run()
        raise StoreBusy

    def rotate(
        self,
        *,
        domain: str | None = None,
        golden: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Promotion:
        """Build a generation like the one an alias names, and move the alias to it.

        It has the same model and the same chunking; for others there is `reindex`. Where it is
        refused, it is kept to be looked at.
        """
        current = self._current()
        named = self._named(domain) or current.generation.number
        like = self._scope_of(named).generation
        self._clear_retired()
        built = self._begin(self._begun(like.profile, like.chunking), on_progress)
        return self.promote(built.generation, domain=domain, golden=golden)

    def rollback(self, *, domain: str | None = None) -> Promotion:
        """Go back to the generation that an alias named before its last move.

        Raises:
            PromotionRefused: there is none any more.
            DomainNotFound: no generation of this world has that name.
            GenerationIncomplete: documents came in that it has not.
        """
        current = self._current()
        before = self._parts.store.previous_generation(current, domain)
        if domain is not None and self._named(domain) is None:
            raise DomainNotFound(domain)
        if before is None:
            raise PromotionRefused("There is no earlier generation to go back to.")
        scope, named = self._scope_of(before), self._named(domain)
        self._require_model(scope)
        if not self._parts.store.move_alias(scope, domain):
            self._require_complete(scope)
            raise StoreBusy
        return Promotion(before, named, domain)

    def forget(self, domain: str) -> None:
        """Forget a domain's name; the generation it named stays."""
        self._parts.store.remove_domain(self._current(), domain)

    def remove(self, generation: int) -> None:
        """Remove a generation that nothing names: its points, its chunks, and its vectors.

        Raises:
            GenerationInUse: the world or a domain names it.
        """
        self._parts.store.retire_generation(self._scope_of(generation))
        self._clear_retired()

    def _current(self) -> Scope:
        scope = self._whole()
        if scope is None:
            raise InvalidSettings("The world holds nothing yet.", advice="Ingest something first.")
        return scope

    def _clear_retired(self) -> None:
        """Remove points, then rows; wherever it stops, the rows tell what is left to do."""
        store, index, current = self._parts.store, self._parts.index, self._current()
        for generation in store.retired_generations(current):
            scope = replace(current, generation=generation)
            prepare(store, index, scope)
            index.drop(scope)
            index.flush(scope)
            store.remove_generation(scope)

    def _begun(self, profile: EmbeddingProfile, chunking: ChunkingProfile | None) -> Scope:
        """Return the scope of a generation that nothing names: one begun alike and left, or new.

        So the same command goes on where it was stopped.
        """
        current = self._current()
        for record in self.list():
            found, named = record.generation, record.is_default or record.domains
            alike = (found.profile.id, found.chunking) == (profile.id, chunking)
            if alike and not named and not record.complete:
                return replace(current, generation=found)
        made = self._parts.store.add_generation(current, profile, chunking)
        return replace(current, generation=made)

    def _run(self, job: str, scope: Scope, on_progress: OnProgress | None) -> ReindexReport:
        parts = self._parts
        with parts.watch.request(Request.REINDEX) as course:
            tools = replace(self._tools(scope), course=course)
            journal = JobJournal(parts.store, scope, job, parts.clock, on_progress, course=course)
            report = journaled(journal, Reindex(tools, scope, journal).run)
        return replace(report, job=job)

    def _work(self, job: Job, journal: JobJournal, course: RequestTrace) -> None:
        """Fill the generation of a job that somebody begins with now."""
        self._clear_retired()
        scope = self._scope_of(json.loads(job.request)["generation"])
        Reindex(replace(self._tools(scope), course=course), scope, journal).run()

    def _require_model(self, scope: Scope) -> None:
        """Refuse a generation whose model is not at hand: every query of it would fail."""
        built, found = scope.profile, self._parts.embedder_for(scope.profile).profile
        if built.id != found.id:
            raise ProfileMismatch(str(built), str(found))

    def _tools(self, scope: Scope) -> Tools:
        self._require_model(scope)
        return WorldIntake(self._parts, scope).tools

    def _scope_of(self, number: int) -> Scope:
        current = self._current()
        for kept in self._parts.store.kept_generations(current):
            if kept.generation.number == number:
                return replace(current, generation=kept.generation)
        raise GenerationNotFound(number)

    def _named(self, domain: str | None) -> int | None:
        """Return the generation that an alias names now."""
        for record in self.list():
            if record.is_default if domain is None else domain in record.domains:
                return record.generation.number
        return None

    def _require_complete(self, scope: Scope) -> None:
        record = self.get(scope.generation.number)
        if not record.complete:
            raise GenerationIncomplete(record.generation.number, record.missing, record.pending)

    def _require_sound(self, scope: Scope) -> None:
        problems = self._examine(scope)
        if problems:
            raise PromotionRefused(
                "It is not what the store says: " + " ".join(one.message for one in problems),
                advice="'truespan doctor' shows what is wrong, and 'doctor --apply' mends it.",
            )

    def _judged(
        self,
        scope: Scope,
        domain: str | None,
        golden: str | None,
        allowed_drop: float,
        least_hit_rate: float,
    ) -> Verdict | None:
        if golden is None:
            return None
        number = scope.generation.number
        # A domain that is new is held to what the world itself finds.
        named = self._named(domain) or self._current().generation.number
        old = None if named == number else self._judge(golden, named)
        new = self._judge(golden, number)
        verdict = gate_generation(old, new, allowed_drop, least_hit_rate=least_hit_rate)
        if not verdict.passed:
            raise PromotionRefused(
                " ".join(reason.message for reason in verdict.reasons),
                advice="'truespan evaluate' shows the queries.",
            )
        return verdict


def check_key(domain: str | None) -> None:
    """Refuse a key that could not be printed in one line, or not be told from another by eye."""
    if domain is None:
        return
    plain = bool(domain) and domain == domain.strip() and domain.isprintable()
    if not plain or len(domain) > 200:
        raise InvalidSettings(
            "A domain's key has 1 to 200 characters that can be printed, and no white space around."
        )
