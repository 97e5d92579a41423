"""One request to ingest: finding its sources, planning it, running it, and splitting it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from truespan.ingest.deps import IngestDeps
from truespan.ingest.job_log import IngestReport, RunLog
from truespan.ingest.manifest import parse_manifest
from truespan.ingest.pipeline import DraftMaker, ingest_sources, remove_documents
from truespan.ingest.plan import DryRun, documents_to_remove, estimate, plan_run
from truespan.types.document import Document
from truespan.types.job import JobShare
from truespan.types.scope import Scope
from truespan.types.source import DocumentKind, DocumentOptions, FoundSources, IngestOptions, Source

MOST_DOCUMENTS = 16
MOST_BYTES = 4 << 20
"""Limits of a share, unless it is a single document. Each share flushes the index at least once,
which is expensive; but if its worker dies, another repeats the whole share."""
LEAST_SHARES = 8
"""A request of few documents is split finer, so that several workers have something to do."""


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to ingest: paths, or a manifest, or a batch of `uploads` by its name."""

    paths: tuple[str, ...] = ()
    manifest: str | None = None
    uploads: str | None = None
    options: IngestOptions = field(default_factory=IngestOptions)

    def to_json(self) -> str:
        """Return the request as it is stored with its job."""
        fields = asdict(self)
        options = fields.pop("options")
        return json.dumps({**fields, **options}, sort_keys=True)

    @classmethod
    def from_json(cls, stored: str) -> IngestRequest:
        """Return the request that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(stored)
        declared = _declared_from_json(fields["declared"])
        return cls(
            tuple(fields["paths"]),
            fields["manifest"],
            fields["uploads"],
            IngestOptions(declared, fields["prune"], fields["allow_empty"]),
        )


def find_sources(deps: IngestDeps, scope: Scope, request: IngestRequest) -> FoundSources:
    """Return the sources that a request names; a manifest is checked as a whole first.

    Raises:
        SourceMissing: a path names nothing.
        ManifestInvalid: lines of the manifest cannot be used.
    """
    if request.uploads is not None:
        return deps.find_uploads(scope.world, request.uploads, request.options.declared)
    if request.manifest is None:
        return deps.sources.find(request.paths, request.options.declared)
    content = deps.sources.read_manifest(request.manifest)
    entries = parse_manifest(request.manifest, content, profiles=deps.preparation.chunkings)
    return deps.sources.expand(request.manifest, entries)


def find_removed(
    deps: IngestDeps, scope: Scope, request: IngestRequest, found: FoundSources
) -> list[Document]:
    """Return the documents that a request with `prune` removes; none without it.

    Raises:
        InvalidSettings: nothing was found below a folder that has documents.
    """
    if not request.options.prune:
        return []
    return documents_to_remove(
        deps.store.documents(scope),
        found,
        exists=deps.sources.exists,
        allow_empty=request.options.allow_empty,
    )


def plan_request(
    deps: IngestDeps, scope: Scope, request: IngestRequest, *, price: float | None
) -> DryRun:
    """Return what a request would do; nothing is written and no provider is called.

    `price` is the configured price of a million tokens.
    """
    found = find_sources(deps, scope, request)
    limits = deps.embedder.limits.within(deps.limits)
    return plan_run(
        found,
        deps.store.documents(scope),
        make_draft=DraftMaker(deps, scope).make,
        have_vectors=lambda hashes: deps.store.vectors(scope, hashes),
        estimate=lambda texts, tokens: estimate(scope.profile, tokens, texts, limits, price=price),
        removed=find_removed(deps, scope, request, found),
    )


def run_request(
    deps: IngestDeps,
    scope: Scope,
    request: IngestRequest,
    found: FoundSources,
    log: RunLog,
    on_prune: Callable[[Sequence[Document]], None] | None = None,
) -> IngestReport:
    """Ingest the sources of a request, then remove what its `prune` removes."""
    removed = find_removed(deps, scope, request, found)
    if removed and on_prune is not None:
        on_prune(removed)
    report = ingest_sources(deps, scope, found.sources, log)
    report.passed_over, report.unmatched = found.passed_over, found.unmatched
    remove_documents(deps, scope, removed, log)
    report.removed = [document.name for document in removed]
    return report


def finish_request(deps: IngestDeps, scope: Scope, request: IngestRequest, log: RunLog) -> None:
    """Remove what a request's `prune` removes, after its shares were ingested.

    The sources are searched again, so that files that appeared meanwhile are not removed.
    """
    if request.options.prune:
        found = find_sources(deps, scope, request)
        remove_documents(deps, scope, find_removed(deps, scope, request, found), log)


def split_sources(sources: Sequence[Source]) -> list[tuple[Source, ...]]:
    """Split sources into shares, in their order; a large source is a share of its own."""
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


def share_to_json(sources: Sequence[Source]) -> JobShare:
    """Return a share as it is stored with its job."""
    request = json.dumps({"sources": [asdict(source) for source in sources]}, sort_keys=True)
    # An empty file counts too: no share has the size 0.
    size = sum(max(source.size, 1) for source in sources)
    return JobShare(request, len(sources), size)


def share_from_json(stored: str) -> tuple[Source, ...]:
    """Return the sources of a share that `share_to_json` wrote."""
    return tuple(
        Source(**{**fields, "declared": _declared_from_json(fields["declared"])})
        for fields in json.loads(stored)["sources"]
    )


def _declared_from_json(fields: dict[str, Any]) -> DocumentOptions:
    kind = DocumentKind(fields["kind"]) if fields["kind"] else None
    tags = None if fields["tags"] is None else tuple(fields["tags"])
    return DocumentOptions(**{**fields, "kind": kind, "tags": tags})
