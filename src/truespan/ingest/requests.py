"""Requests to ingest: find the sources, plan or run the request.

With `prune`, documents whose files are gone are removed, unless a new file has the same content:
then the document is moved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import PurePath
from typing import TypeAlias

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from truespan.core.decoding import prepare
from truespan.errors import InvalidArgument, SourceRefused
from truespan.ingest.manifest import parse_manifest
from truespan.ingest.members import MemberReader, expand_members
from truespan.ingest.pipeline import ingest_sources, remove_documents, with_unique_paths
from truespan.ingest.plan import DryRun, count_requests, documents_to_remove, plan_run
from truespan.ingest.report import IngestDeps, IngestReport, Moved, RunLog
from truespan.ingest.source_drafts import DraftMaker
from truespan.types.document import Document
from truespan.types.scope import Scope
from truespan.types.source import (
    DocumentOptions,
    Entry,
    FoundSources,
    IngestOptions,
    Source,
    is_page,
    short_path,
    to_utf8,
)

Move: TypeAlias = tuple[Document, Source]
"""A document whose file is gone, and the new file with the same content."""


class IngestRequest(Struct, frozen=True):
    """Sources to ingest: paths, a manifest, a sitemap, or the name of a batch of `uploads`."""

    paths: tuple[str, ...] = ()
    manifest: str | None = None
    uploads: str | None = None
    options: IngestOptions = field(default_factory=IngestOptions)
    sitemap: str | None = None

    def to_json(self) -> str:
        fields = to_builtins(self)
        options = fields.pop("options")
        return json.dumps({**fields, **options}, sort_keys=True)

    @classmethod
    def from_json(cls, stored: str) -> IngestRequest:
        fields = json.loads(stored)
        return cls(
            paths=tuple(fields["paths"]),
            manifest=fields["manifest"],
            uploads=fields["uploads"],
            options=msgspec.convert(fields, prepare(IngestOptions)),
            sitemap=fields["sitemap"],
        )


class Choice(Struct):
    """Files to ingest, whose missing members are removed, and ids of documents to remove."""

    files: frozenset[str]
    missing: frozenset[str]
    failed: set[str] = field(default_factory=set)
    """Files that could not be ingested completely; a run adds them."""

    def removes(self, document: Document) -> bool:
        files = {to_utf8(file) for file in self.files}
        is_member = any(str(parent) in files for parent in PurePath(document.path).parents)
        return is_member or document.doc_id in self.missing


def find_sources(
    deps: IngestDeps,
    scope: Scope,
    request: IngestRequest,
    *,
    open_files: bool = True,
    choice: Choice | None = None,
) -> FoundSources:
    """Return the sources that a request names, limited to a `choice` of files.

    A manifest is checked as a whole first. Files that hold several documents are opened, and their
    members become sources. Pass `open_files=False` to learn only whether there are any sources.
    The shown paths of sources may be equal; see `with_unique_paths`.
    """

    def expand(found: FoundSources) -> FoundSources:
        if choice is not None:
            chosen = tuple(source for source in found if source.path in choice.files)
            found = replace(found, sources=chosen)
        return expand_members(deps, found) if open_files else found

    declared = request.options.declared
    deps.preparation.require_sanitizer()
    if request.uploads is not None:
        if deps.uploads is None:
            raise SourceRefused("source_missing", "upload")
        found = expand(deps.uploads.find(scope.world, request.uploads, declared))
        return _require_single(declared, found)
    if request.manifest is not None:
        manifest = request.manifest
        content = deps.sources.read_manifest(manifest)
        entries = parse_manifest(manifest, content, profiles=deps.preparation.chunkings)
        files = [entry for entry in entries if not is_page(entry.path)]
        found = expand(deps.sources.expand(manifest, files))
        if named := [entry for entry in entries if is_page(entry.path)]:
            found = deps.require_pages().add_pages(found, named, manifest=manifest)
    elif request.sitemap is not None:
        pages = deps.require_pages()
        found = pages.read_sitemap(request.sitemap, declared, fetch=open_files)
        _require_single(declared, found)
    else:
        files = [path for path in request.paths if not is_page(path)]
        found = expand(deps.sources.find(files, declared, within=request.options.within))
        if entries := [Entry(0, path, None, declared) for path in request.paths if is_page(path)]:
            found = deps.require_pages().add_pages(found, entries)
        _require_single(declared, found)
    return found


def _require_single(declared: DocumentOptions, found: FoundSources) -> FoundSources:
    if declared.source_url is not None and len(found) > 1:
        raise InvalidArgument(
            f"source_url is the origin of one document, but {len(found)} were found.",
            advice="Declare it for each document in a manifest or a sidecar.",
        )
    return found


def plan_request(deps: IngestDeps, scope: Scope, request: IngestRequest) -> DryRun:
    found = find_sources(deps, scope, request)
    found = replace(found, sources=with_unique_paths(deps, scope, found.sources))
    limits = deps.embedder.limits.within(deps.limits)
    removed = find_removed(deps, scope, request, found)
    moves = _find_moves(deps, scope, found.sources, removed)
    new_ids = {document.number: source.doc_id for document, source in moves}
    documents = [
        replace(document, doc_id=new_ids.get(document.number, document.doc_id))
        for document in deps.store.documents.all(scope)
    ]
    drafts = DraftMaker(replace(deps, count_words=None), scope)
    plan = plan_run(
        found,
        documents,
        make_draft=lambda source, known: drafts.make(source, known).draft,
        have_vectors=lambda hashes: deps.store.chunks.vectors(scope, hashes),
        count_requests=lambda tokens, texts: count_requests(tokens, texts, limits),
        removed=[document for document in removed if document.number not in new_ids],
    )
    return replace(plan, moved=tuple(_to_moved(moves)))


def run_request(
    deps: IngestDeps,
    scope: Scope,
    request: IngestRequest,
    found: FoundSources,
    log: RunLog,
    on_prune: Callable[[Sequence[Document]], None] | None = None,
    choice: Choice | None = None,
) -> IngestReport:
    """Ingest the sources found for a request; with `prune`, remove the documents that are gone."""
    removed = find_removed(deps, scope, request, found)
    if choice is not None:
        removed = list(filter(choice.removes, removed))
    moved, removed = move_documents(deps, scope, found.sources, removed, log)
    if removed and on_prune is not None:
        on_prune(removed)
    report = ingest_sources(deps, scope, found.sources, log)
    if choice is not None:
        failed = {failure.doc_id for failure in report.failures}
        choice.failed.update(source.path for source in found if source.doc_id in failed)
    if request.options.prune:
        gone = _take_gone_pages(deps, scope, found, report)
        if gone and on_prune is not None:
            on_prune(gone)
        removed += gone
    report.unsupported, report.unmatched = found.unsupported, found.unmatched
    remove_documents(deps, scope, removed, log)
    report.removed = [document.shown_path for document in removed]
    report.moved = _to_moved(moved)
    return report


def find_removed(
    deps: IngestDeps, scope: Scope, request: IngestRequest, found: FoundSources
) -> list[Document]:
    """Return the documents that a request with `prune` removes; none without it."""
    if not request.options.prune:
        return []
    return documents_to_remove(
        deps.store.documents.all(scope),
        found,
        exists=deps.sources.exists,
        allow_empty=request.options.allow_empty,
    )


def _take_gone_pages(
    deps: IngestDeps, scope: Scope, sources: Iterable[Source], report: IngestReport
) -> list[Document]:
    """Return the documents of pages that no longer exist, and drop their failures."""
    pages = {source.doc_id for source in sources if source.is_page}
    failed = {each.doc_id for each in report.failures if each.code == "source_missing"}
    gone = deps.store.documents.all(scope, named=pages & failed) if pages & failed else []
    removed = {document.doc_id for document in gone}
    report.failures = [each for each in report.failures if each.doc_id not in removed]
    return gone


def move_documents(
    deps: IngestDeps,
    scope: Scope,
    sources: Sequence[Source],
    removed: Sequence[Document],
    log: RunLog,
) -> tuple[list[Move], list[Document]]:
    """Give documents the ids and paths of the files that they are in now.

    Number, text, vectors, labels and reading positions stay. Return the moved documents, and those
    that remain to be removed.
    """
    moved: list[Move] = []
    if removed:
        sources = with_unique_paths(deps, scope, sources)
    for document, source in _find_moves(deps, scope, sources, removed):
        is_moved = deps.store.documents.move(
            scope,
            document.number,
            doc_id=source.doc_id,
            path=source.recorded_path,
            name=source.name,
            shown_path=source.shown_path or short_path(source.recorded_path),
            # The ending may decide the format.
            reread=PurePath(document.name).suffix != PurePath(source.name).suffix,
        )
        if is_moved:
            moved.append((document, source))
            # The images are extracted again under the new id.
            deps.assets.remove(scope.world, document.doc_id)
            if deps.pictures is not None:
                deps.pictures.remove(scope.world, document.doc_id)
            log.line("info", f"document {document.number} was moved to {source.shown_path}")
    numbers = {document.number for document, _ in moved}
    return moved, [document for document in removed if document.number not in numbers]


def _find_moves(
    deps: IngestDeps, scope: Scope, sources: Sequence[Source], removed: Sequence[Document]
) -> list[Move]:
    """Return the removed documents whose content is in a new source, with that source."""
    # Of several sources with the same content, one with the same name is preferred.
    lost: dict[str, list[Document]] = {}
    for document in removed:
        if not document.damaged:
            lost.setdefault(document.source_hash, []).append(document)
    if not lost:
        return []
    named = {source.doc_id for source in sources}
    known = {document.doc_id for document in deps.store.documents.all(scope, named=named)}
    reader = MemberReader(deps)
    moves: list[Move] = []
    others: list[tuple[str, Source]] = []
    for source in sources:
        if source.doc_id in known or source.is_page:
            continue
        # A source that cannot be read is refused later.
        with suppress(SourceRefused):
            digest = sha256(reader.read(source).content).hexdigest()
            same = lost.get(digest, [])
            place = next((i for i, doc in enumerate(same) if doc.name == source.name), None)
            if place is not None:
                moves.append((same.pop(place), source))
            elif same:
                others.append((digest, source))
    moves += [(lost[digest].pop(0), source) for digest, source in others if lost[digest]]
    return moves


def _to_moved(moves: Iterable[Move]) -> list[Moved]:
    return [Moved(document.shown_path, source.shown_path) for document, source in moves]
