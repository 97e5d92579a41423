"""Building a generation from what the world already holds, beside the one readers see.

Nothing is read from sources: text, sentences and places are in the store. What is there already is
left alone, so running it again goes on from where it stopped, and documents that came in meanwhile
are taken along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from truespan.errors import GenerationNotFound, StoreDamaged
from truespan.ingest.carry import Carrier, Outcome, Tools
from truespan.ingest.journal import Journal
from truespan.ingest.remarks import REMARKS
from truespan.ingest.report import Failure, Progress
from truespan.model.document import RevisionRef
from truespan.model.job import Phase
from truespan.model.scope import Scope

GROUP = 64
"""Documents whose points are written between two flushes."""


@dataclass(slots=True)
class ReindexReport:
    """What building a generation did. `failures` name documents by their number."""

    generation: int
    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    job: str = ""


class Reindex:
    """Fills one generation of a world."""

    def __init__(self, tools: Tools, scope: Scope, journal: Journal | None = None) -> None:
        self._store = tools.store
        self._index = tools.index
        self._scope = scope
        self._carrier = Carrier(tools, scope)
        self._journal = journal or Journal()
        self._uncut: set[RevisionRef] = set()
        self._failed: set[RevisionRef] = set()
        self._chunks = self._total = 0
        self.report = ReindexReport(scope.generation.number)

    def run(self) -> ReindexReport:
        """Carry on until the generation has every document of the world, or all that can be had."""
        self._journal.enter(Phase.EMBEDDING)
        while refs := self._left():
            self._total = self.report.documents + len(refs)
            for start in range(0, len(refs), GROUP):
                self._fill(refs[start : start + GROUP])
        self._require_generation()
        self.report.embedded = self._carrier.done.embedded
        self.report.reused = self._carrier.done.reused
        self.report.chunks = self._carrier.done.written
        return self.report

    def _left(self) -> list[RevisionRef]:
        self._uncut = set(self._store.uncut(self._scope))
        found = self._uncut.union(self._store.unfinished(self._scope))
        return sorted(found - self._failed, key=lambda ref: (ref.document, ref.revision))

    def _fill(self, refs: Sequence[RevisionRef]) -> None:
        cut = [ref for ref in refs if self._cut(ref)]
        if len(cut) < len(refs):
            self._require_generation()
        self._account(self._carrier.fill(cut, self._show))
        self.report.documents += len(refs)
        # Whatever is still pending of them now will not be better at once: that is a failure.
        for ref in set(cut).intersection(self._store.unfinished(self._scope)):
            self._fail(ref, "provider_bad_reply", "A part of it could not be embedded.")
        self._show(0, refs[-1])

    def _cut(self, ref: RevisionRef) -> bool:
        if ref not in self._uncut:
            return True
        try:
            is_cut = self._carrier.cut(ref)
        except StoreDamaged as error:
            self._fail(ref, error.code, str(error))
            return False
        if not is_cut:
            # It was replaced or deleted meanwhile, and is not to be tried for ever.
            self._failed.add(ref)
        return is_cut

    def _require_generation(self) -> None:
        """Stop when the generation itself was removed meanwhile, and leave no points behind."""
        number = self._scope.generation.number
        kept = self._store.kept_generations(self._scope)
        if all(one.generation.number != number for one in kept):
            self._index.drop(self._scope)
            self._index.flush(self._scope)
            raise GenerationNotFound(number)

    def _account(self, outcome: Outcome) -> None:
        for ref, remark in sorted(outcome.remarks.items(), key=lambda one: one[0].document):
            self.report.warnings.append(f"document {ref.document}: {REMARKS[remark][1]}")
        for ref, remark in outcome.rejected.items():
            self._fail(ref, *REMARKS[remark])

    def _fail(self, ref: RevisionRef, code: str, message: str) -> None:
        if ref not in self._failed:
            self._failed.add(ref)
            self.report.failures.append(Failure(f"document {ref.document}", code, message))
            self._journal.line("warning", f"document {ref.document}: {code}")

    def _show(self, chunks: int, ref: RevisionRef) -> None:
        self._chunks += chunks
        done = self._carrier.done
        self._journal.progress(
            Progress(
                fraction=self.report.documents / self._total if self._total else 1.0,
                documents=self.report.documents,
                documents_total=self._total,
                chunks=self._chunks,
                embedded=done.embedded,
                current=f"document {ref.document}",
                reused=done.reused,
            )
        )
