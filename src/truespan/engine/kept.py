"""Keeping a world: its generations, and repair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from truespan.engine.checkup import unsound
from truespan.engine.generations import Generations
from truespan.engine.intake import WorldIntake
from truespan.engine.judged import JudgedWorld
from truespan.engine.removal import remover
from truespan.errors import Interrupted, NotAllowed, ProfileMismatch
from truespan.evaluation.evaluate import Evaluation
from truespan.ingest.indexing import Indexer
from truespan.ingest.job_log import Progress
from truespan.maintenance.repair import RepairReport, watched_repairs
from truespan.observer import RequestTrace
from truespan.retrieval.snapshot import require_world
from truespan.types.bundle import Notice
from truespan.types.scope import Scope, Verb
from truespan.types.telemetry import CounterName, RepairAction, Request

OnProgress = Callable[[Progress], None]


class KeptWorld(JudgedWorld):
    """Upkeep of a world."""

    @property
    def generations(self) -> Generations:
        """Return the world's generations: built beside each other, judged, and put into use."""
        return Generations(self._parts, self._kept_scope, self._unsound, self._evaluated)

    def _kept_scope(self) -> Scope | None:
        """Return the scope of the world's default generation, for whoever may change it."""
        record = require_world(self._parts.store, self._authority, self.id)
        if not self._authority.may(Verb.ADMINISTER, record.id):
            raise NotAllowed("change generations")
        generation = record.generation
        return Scope(self._authority, record.id, generation) if generation else None

    def _unsound(self, scope: Scope) -> list[Notice]:
        """Say in what a generation's points are not what the store says."""
        return unsound(self._parts, scope)

    def _evaluated(self, golden: str, generation: int) -> Evaluation:
        return self.evaluate(golden, generation=generation)

    def repair(self, on_progress: OnProgress | None = None) -> RepairReport:
        """Apply queued repairs and embed what they left pending."""
        with self._parts.watch.request(Request.REPAIR) as course:
            return self._repaired_all(on_progress, course)

    def _repaired_all(self, on_progress: OnProgress | None, course: RequestTrace) -> RepairReport:
        """Repair every generation, and erase what deletions left."""
        report, scope = RepairReport(), self._readable()
        if scope is None:
            return report
        for kept in self._parts.store.kept_generations(scope):
            one = replace(scope, generation=kept.generation)
            report.add(self._repaired(one, on_progress, course))
        erased = remover(self._parts).catch_up()
        report.erasures, report.erasures_waiting = erased.done, erased.waiting
        return report

    def _repaired(
        self, scope: Scope, on_progress: OnProgress | None, course: RequestTrace
    ) -> RepairReport:
        """Repair one generation; what needs a model that is not configured stays pending."""
        report = watched_repairs(self._parts.store, self._parts.index, scope, course)
        intake = WorldIntake(self._parts, scope)
        tools = replace(intake.tools, course=course)
        try:
            report.reembedded = intake.finish(Indexer(tools, scope), on_progress)
            course.count(CounterName.REPAIRS, report.reembedded, RepairAction.REEMBEDDED)
        except ProfileMismatch:
            if self._record().generation == scope.generation:
                raise
        except KeyboardInterrupt:
            raise Interrupted from None
        return report
