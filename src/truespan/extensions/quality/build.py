"""Building a generation: every document is chunked and embedded next to the generation in use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from msgspec import Struct, field

from truespan.errors import NotFound, StoreDamaged
from truespan.ingest.indexing import Indexer
from truespan.ingest.report import REMARKS, Failure, IngestDeps, Progress, RunLog
from truespan.types.document import RevisionRef
from truespan.types.job import Phase
from truespan.types.scope import Scope

REINDEX_GROUP = 64
"""Number of documents between two flushes when a generation is built."""


class ReindexReport(Struct):
    """Result of building a generation. `failures` name documents by their number."""

    generation: int
    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    job: str = ""


def build_generation(deps: IngestDeps, scope: Scope, log: RunLog | None = None) -> ReindexReport:
    """Index every document in one generation; raises NotFound if it is removed."""
    return _GenerationBuild(deps, scope, log or RunLog()).run()


class _GenerationBuild:
    """One run that builds a generation, with its counts so far."""

    def __init__(self, deps: IngestDeps, scope: Scope, log: RunLog) -> None:
        self._deps = deps
        self._scope = scope
        self._log = log
        self._indexer = Indexer(deps, scope)
        self._chunks = self._total = 0
        self._done: set[RevisionRef] = set()
        """Revisions that failed or are gone."""
        self.report = ReindexReport(scope.generation.number)

    def run(self) -> ReindexReport:
        store, scope, report = self._deps.store, self._scope, self.report
        self._log.enter(Phase.EMBEDDING)
        while True:
            missing = set(store.revisions.missing_chunks(scope))
            left = missing.union(store.chunks.unfinished(scope)) - self._done
            if not left:
                break
            self._total = report.documents + len(left)
            ordered = iter(sorted(left, key=lambda ref: (ref.document, ref.revision)))
            while refs := list(islice(ordered, REINDEX_GROUP)):
                self._index(refs, missing)
        self._require_generation()
        counts = self._indexer.counts
        report.chunks, report.embedded = counts.written, counts.embedded
        report.reused = counts.reused
        return report

    def _index(self, refs: Sequence[RevisionRef], missing: Collection[RevisionRef]) -> None:
        """Chunk the revisions that have no chunks, and embed all of them."""
        chunked = [ref for ref in refs if ref not in missing or self._rechunk(ref)]
        if len(chunked) < len(refs):
            self._require_generation()
        outcome = self._indexer.fill(chunked, self._show)
        for ref, remark in sorted(outcome.remarks.items(), key=lambda item: item[0].document):
            self.report.warnings.append(f"document {ref.document}: {REMARKS[remark][1]}")
        for ref, remark in outcome.rejected.items():
            self._fail(ref, *REMARKS[remark])
        self.report.documents += len(refs)
        # Chunks that are still pending count as a failure.
        for ref in set(chunked).intersection(self._deps.store.chunks.unfinished(self._scope)):
            self._fail(ref, "provider_bad_reply", "A part of it could not be embedded.")
        self._show(0, refs[-1])

    def _rechunk(self, ref: RevisionRef) -> bool:
        try:
            if self._indexer.rechunk(ref):
                return True
            self._done.add(ref)
        except StoreDamaged as error:
            self._fail(ref, error.code, str(error))
        return False

    def _require_generation(self) -> None:
        number = self.report.generation
        records = self._deps.store.worlds.kept_generations(self._scope)
        if all(record.generation.number != number for record in records):
            self._deps.index.drop(self._scope)
            self._deps.index.flush(self._scope)
            raise NotFound("generation", number)

    def _fail(self, ref: RevisionRef, code: str, message: str) -> None:
        if ref not in self._done:
            self._done.add(ref)
            self.report.failures.append(Failure(f"document {ref.document}", code, message))
            self._log.line("warning", f"document {ref.document}: {code}")

    def _show(self, count: int, ref: RevisionRef) -> None:
        self._chunks += count
        counts, documents = self._indexer.counts, self.report.documents
        self._log.progress(
            Progress(
                fraction=documents / self._total if self._total else 1.0,
                documents=documents,
                documents_total=self._total,
                chunks=self._chunks,
                embedded=counts.embedded,
                current=f"document {ref.document}",
                reused=counts.reused,
            )
        )
