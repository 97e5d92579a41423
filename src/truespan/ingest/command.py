"""One request to ingest: what it names is found, looked through, carried in, and kept in step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from truespan.ingest.indexing import Indexer, Tools
from truespan.ingest.job_log import IngestReport, Journal
from truespan.ingest.manifest import parse_manifest
from truespan.ingest.pipeline import Ingestion, Intake, Preparer
from truespan.ingest.plan import DryRun, estimate, plan_run, to_remove
from truespan.types.document import Document
from truespan.types.job import DocumentState, JobDocument, JobShare, Phase
from truespan.types.scope import Scope
from truespan.types.source import Declared, DocumentKind, Found, Source

MOST_DOCUMENTS = 16
MOST_BYTES = 4 << 20
"""A share holds no more than this, or one document: each flushes the index at least once, which is
dear, but whoever dies leaves the whole share to another."""
LEAST_SHARES = 8
"""A run of fewer documents is cut finer, so that there is something to do for several workers."""


def split(sources: Sequence[Source]) -> list[tuple[Source, ...]]:
    """Cut sources into runs, in their order; a large one is alone."""
    most = min(max(len(sources) // LEAST_SHARES, 1), MOST_DOCUMENTS)
    shares: list[list[Source]] = []
    size = 0
    for source in sources:
        if not shares or len(shares[-1]) >= most or size + source.size > MOST_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(source)
        size += source.size
    return [tuple(share) for share in shares]


def share_of(sources: Sequence[Source]) -> JobShare:
    """Return a share as it is written down."""
    request = json.dumps({"sources": [asdict(source) for source in sources]}, sort_keys=True)
    # What is empty has to be read as well: no share is for nothing.
    size = sum(max(source.size, 1) for source in sources)
    return JobShare(request, len(sources), size)


def read_share(stored: str) -> tuple[Source, ...]:
    """Return the sources of a share that `share_of` spelled."""
    found: dict[str, Any] = json.loads(stored)
    return tuple(
        Source(**{**fields, "declared": read_declared(fields["declared"])})
        for fields in found["sources"]
    )


def read_declared(said: dict[str, Any]) -> Declared:
    """Return what was declared of documents, as JSON has it."""
    kind = DocumentKind(said["kind"]) if said["kind"] else None
    tags = None if said["tags"] is None else tuple(said["tags"])
    return Declared(**{**said, "kind": kind, "tags": tags})


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What is to be carried in. With `prune`, what is no longer there is removed.

    `uploads` is the batch in which files were handed over; their names are not part of the request.
    """

    paths: tuple[str, ...] = ()
    manifest: str | None = None
    declared: Declared = field(default_factory=Declared)
    prune: bool = False
    allow_empty: bool = False
    uploads: str | None = None

    def spelled(self) -> str:
        """Return the request as text, for a job that may be resumed."""
        return json.dumps(asdict(self), sort_keys=True)


def read_request(stored: str) -> IngestRequest:
    """Return the request that `spelled` wrote."""
    fields: dict[str, Any] = json.loads(stored)
    declared = read_declared(fields["declared"])
    return IngestRequest(**{**fields, "paths": tuple(fields["paths"]), "declared": declared})


class IngestCommand:
    """Does, or only plans, what a request asks for in one world."""

    def __init__(self, intake: Intake, tools: Tools, scope: Scope) -> None:
        self._intake = intake
        self._tools = tools
        self._scope = scope

    def find(self, request: IngestRequest) -> Found:
        """Return the sources that a request names; a manifest is checked as a whole first.

        Raises:
            SourceMissing: a path names nothing.
            ManifestInvalid: lines of the manifest cannot be used.
        """
        sources = self._intake.sources
        if request.uploads is not None:
            return self._intake.find_uploads(self._scope.world, request.uploads, request.declared)
        if request.manifest is None:
            return sources.find(request.paths, request.declared)
        entries = parse_manifest(
            request.manifest,
            sources.read_manifest(request.manifest),
            profiles=self._intake.preparation.chunkings,
        )
        return sources.expand(request.manifest, entries)

    def plan(self, request: IngestRequest, *, price: float | None) -> DryRun:
        """Return what would be done; nothing is written and no provider is asked.

        `price` is the operator's word for what a million tokens cost.
        """
        found = self.find(request)
        store, tools = self._intake.store, self._tools
        limits = tools.embedder.limits.within(tools.limits)
        return plan_run(
            found,
            store.documents(self._scope),
            prepare=Preparer(self._intake, self._scope).prepare,
            have_vectors=lambda hashes: store.vectors(self._scope, hashes),
            estimate=lambda texts, tokens: estimate(
                self._scope.profile, tokens, texts, limits, price=price
            ),
            removed=self._doomed(request, found),
        )

    def run(
        self,
        request: IngestRequest,
        found: Found,
        journal: Journal,
        *,
        on_prune: Callable[[Sequence[Document]], None] | None = None,
    ) -> IngestReport:
        """Carry in what was found; then remove what is no longer there, if that was asked for."""
        doomed = self._doomed(request, found)
        if doomed and on_prune is not None:
            on_prune(doomed)
        report = self.carry(found.sources, journal)
        report.passed_over, report.unmatched = found.passed_over, found.unmatched
        self._remove(doomed, journal)
        report.removed = [document.name for document in doomed]
        return report

    def carry(self, sources: Sequence[Source], journal: Journal) -> IngestReport:
        """Carry in sources, all that a request names or a share of them."""
        carrier = Indexer(self._tools, self._scope)
        return Ingestion(self._intake, carrier, self._scope, journal).run(sources)

    def check(self, request: IngestRequest, found: Found) -> None:
        """Refuse what `run` would refuse before it begins.

        Raises:
            InvalidSettings: what would be removed looks like a disk that is not there.
        """
        self._doomed(request, found)

    def close(self, request: IngestRequest, journal: Journal) -> None:
        """Remove what is no longer there, if that was asked for, after others carried in the rest.

        What came since is found too, and so it is not taken to be gone.
        """
        if request.prune:
            self._remove(self._doomed(request, self.find(request)), journal)

    def _doomed(self, request: IngestRequest, found: Found) -> list[Document]:
        if not request.prune:
            return []
        return to_remove(
            self._intake.store.documents(self._scope),
            found,
            is_there=self._intake.sources.is_there,
            allow_empty=request.allow_empty,
        )

    def _remove(self, doomed: Sequence[Document], journal: Journal) -> None:
        if not doomed:
            return
        journal.enter(Phase.REMOVING)
        for document in doomed:
            remove_document(self._intake, self._scope, document)
            state = DocumentState.REMOVED
            journal.document(JobDocument(document.doc_id, document.name, state))
        Indexer(self._tools, self._scope).clear_retired()


def remove_document(intake: Intake, scope: Scope, document: Document) -> None:
    """Hide a document at once; its images, points and rows go with the retired."""
    intake.store.tombstone(scope, document.number)
