"""Ingestion from end to end: request, source, blocks, text, chunks, vectors, index, metadata.

Each source becomes a draft of a revision: its bytes are read and parsed here, and `draft` makes
the canonical text, the sentences and the chunks. Drafts are staged in groups, `Indexer` embeds and
activates them, and metadata are derived last. Wherever a run stops, the next run continues from
what is stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from shlex import quote
from typing import TypeAlias

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from truespan.errors import (
    AssetsTaken,
    InvalidArgument,
    SourceCopied,
    SourceMissing,
    SourceRefused,
    TruespanError,
)
from truespan.ingest.copies import CopyFinder, name_copies
from truespan.ingest.draft import DEFAULT_VERSION, make_draft
from truespan.ingest.embed import Remark
from truespan.ingest.indexing import Indexer, clear_retired, publish_images
from truespan.ingest.manifest import parse_manifest
from truespan.ingest.members import MemberReader, declared_with_sidecar, expand_members
from truespan.ingest.metadata import derive_metadata
from truespan.ingest.pages import (
    find_pages_of_sitemap,
    name_to_parse,
    require_pages,
    split_paths,
    with_encoding,
    with_pages,
)
from truespan.ingest.plan import DryRun, documents_to_remove, estimate, plan_run
from truespan.ingest.report import (
    REMARKS,
    Failure,
    IngestDeps,
    IngestReport,
    Moved,
    Progress,
    RunLog,
)
from truespan.parsing import Traits, traits_of
from truespan.text.novel import Likeness, judge
from truespan.types.chunk import PendingChunk
from truespan.types.document import Derived, Document, Draft, RevisionRef, assets_token
from truespan.types.job import DocumentState, JobDocument, JobShare, Phase
from truespan.types.request import DEFAULT_LANGUAGE, Defaults, matches_language
from truespan.types.scope import Scope
from truespan.types.source import (
    UNDECLARED,
    Copies,
    DocumentKind,
    DocumentOptions,
    Entry,
    FoundSources,
    IngestOptions,
    ParseOptions,
    Source,
    is_page,
    short_path,
    tell_apart,
    to_utf8,
)
from truespan.types.telemetry import CounterName, Stage
from truespan.types.text import PageStart, Validators

GROUP_CHUNKS = 4096
"""Documents are indexed together up to this many chunks, because a flush is expensive."""
MAX_STAGED = 2 * GROUP_CHUNKS
"""Up to so many chunks of a group stay in memory until they are embedded."""
MAX_LABELS = 5
"""So many languages and versions are listed that the defaults of a world leave out."""
LIKENESS_REMARKS = {
    Likeness.NOVEL: "Ingested as a book, because its numbered chapters tell a story. "
    "If it is not a book, ingest it with the kind 'document'.",
    Likeness.CHAPTERS: "It has numbered chapters. If it is read from front to back, ingest it with "
    "the kind 'book'.",
}
MAX_REMARKS = 20
"""Maximum number of remarks about documents in a report."""
METADATA_BATCH = 64
"""Documents whose metadata are committed together."""


def ingest_sources(
    deps: IngestDeps, scope: Scope, sources: Sequence[Source], log: RunLog
) -> IngestReport:
    """Ingest sources into a world; a source that is refused is reported, and the rest goes on."""
    return _Run(deps, scope, sources, log).run()


def remove_documents(
    deps: IngestDeps, scope: Scope, documents: Sequence[Document], log: RunLog
) -> None:
    """Remove documents: hide each at once, then remove images, points and rows of all."""
    if not documents:
        return
    log.enter(Phase.REMOVING)
    for document in documents:
        deps.store.tombstone(scope, document.number)
        log.document(JobDocument(document.doc_id, document.name, DocumentState.REMOVED))
    clear_retired(deps, scope)


class _DraftMaker:
    """Makes drafts of sources; writes nothing, so that a dry run can use it too."""

    def __init__(self, deps: IngestDeps, scope: Scope) -> None:
        self._deps = deps
        self._scope = scope
        world = deps.store.find_world(scope.authority, scope.world)
        defaults = world.defaults if world else Defaults.CONTRACT
        self._preparation = deps.preparation.for_world(defaults)
        self._reader = MemberReader(deps)
        self._read_sidecar = deps.sources.read_sidecar
        self._copies = CopyFinder(deps.store, scope)
        self.originals: dict[str, str] = {}
        """The paths of the documents whose content new sources have, by the ids of the sources."""
        self._recipes: dict[tuple[DocumentOptions, Traits, int], tuple[ParseOptions, str]] = {}
        self._recorded_recipes: dict[tuple[object, ...], str] = {}

    def make(self, source: Source, known: Document | None) -> tuple[Source | None, Draft | None]:
        """Return the source with all that is declared, and a draft unless nothing has changed.

        Without a draft, the source is None if all that is declared is as it was recorded, too.
        """
        deps, scope = self._deps, self._scope
        page, line = None, 0
        from_web = source.is_page
        if from_web and known is not None and not source.origin and is_page(known.origin):
            # Named by itself now, it still belongs to its sitemap.
            source = replace(source, origin=known.origin)
        with deps.trace.stage(Stage.SOURCE):
            if from_web:
                page = require_pages(deps.pages).fetch(source.path, self._validators(source, known))
                if page.content is None:
                    return self._unchanged_page(source, known), None
                name = name_to_parse(source.name, page.content_type)
                content = with_encoding(page.content, page.content_type)
            else:
                name, content, line = self._reader.read(source)
        declared = source.declared if page else declared_with_sidecar(self._read_sidecar, source)
        source_hash = sha256(content).hexdigest()
        traits = traits_of(name, content)
        if (
            known is not None
            and known.source_hash == source_hash
            and page is None
            and declared == UNDECLARED
            and self._is_recorded(source, known, traits, line)
        ):
            return None, None
        if page is not None and declared.source_url is None:
            declared = replace(declared, source_url=page.url)
        if known is not None and (not source.origin or is_page(source.origin)):
            # A manifest line is complete; a command states only what changes.
            declared = declared.or_else(known.declared)
        is_open = declared.kind is None and known is None and traits.plain
        if declared.kind is None:
            # A text stays what it was: its readers must not notice how it goes on.
            kind = known.kind if known is not None and traits.plain else traits.kind
            declared = replace(declared, kind=kind)
        source = replace(source, declared=declared, shown_path=_shown_path(source, known))
        if known is None and self._is_linked(source, source_hash):
            return source, None
        options, recipe = self._prepare(declared, traits, line)
        unchanged = known is not None and (known.source_hash, known.recipe) == (source_hash, recipe)
        if known is not None and unchanged and not known.quarantined and not known.damaged:
            return source, None
        with deps.trace.stage(Stage.BLOCKS):
            loaded = deps.parser.parse(name, content, options)
            if line:
                first, *others = loaded.blocks
                first = replace(first, pages=(PageStart(0, line, "line"),))
                loaded = replace(loaded, blocks=(first, *others))
        likeness = Likeness.OTHER
        if is_open and self._preparation.recognises_novels:
            likeness = judge(loaded.blocks)
        if likeness is Likeness.NOVEL:
            declared = replace(declared, kind=DocumentKind.BOOK)
            source, recipe = (
                replace(source, declared=declared),
                self._prepare(declared, traits, line)[1],
            )
        draft = make_draft(
            source,
            loaded,
            preparation=self._preparation,
            source_hash=source_hash,
            recipe=recipe,
            parser=deps.parser,
            counter=deps.counter,
            input_limit=scope.profile.input_limit,
            chunking=scope.generation.chunking,
            trace=deps.trace,
        )
        self._copies.add(source_hash, source.shown_path)
        if page is not None:
            draft = replace(draft, validators=Validators(page.etag, page.last_modified))
        if said := LIKENESS_REMARKS.get(likeness):
            draft = replace(draft, notes=(*draft.notes, said), remarks=(*draft.remarks, said))
        return source, draft

    def _is_linked(self, source: Source, source_hash: str) -> bool:
        """Return whether a new source needs no document, since another one has its content.

        Raises SourceCopied if copies are refused.
        """
        original = self._copies.find(source_hash)
        if original is None:
            return False
        copies = source.declared.copies or self._preparation.copies
        if copies is Copies.REFUSE:
            raise SourceCopied(source.name, original)
        self.originals[source.doc_id] = original
        return copies is Copies.LINK

    def _prepare(
        self, declared: DocumentOptions, traits: Traits, line: int
    ) -> tuple[ParseOptions, str]:
        """Return what of a source is parsed, and the recipe."""
        prepared = self._recipes.get((declared, traits, line))
        if prepared is None:
            options = self._preparation.parse_options(declared, traits)
            recipe = self._preparation.recipe(
                declared,
                self._deps.counter,
                pictures=traits.pictures,
                parse_options=options,
                line=line,
            )
            prepared = self._recipes[declared, traits, line] = options, recipe
        return prepared

    def _is_recorded(self, source: Source, known: Document, traits: Traits, line: int) -> bool:
        """Return whether a file of which nothing is declared now has the recipe and the labels that
        are recorded.

        What was declared of it before still counts, so its labels can differ only in where it was
        found. `make` would come to the same result step by step, with more work for each file.
        """
        if source.origin or known.origin or known.quarantined or known.damaged:
            return False
        if not known.version or _shown_path(source, known) != known.shown_path:
            return False
        # All that `Document.declared` is made of: it need not be made for each of many documents.
        key = (
            *(known.kind, known.declared_title, known.declared_language, known.version),
            *(known.chunking, known.tags, known.source_url, known.metadata, traits, line),
        )
        recipe = self._recorded_recipes.get(key)
        if recipe is None:
            recipe = self._recorded_recipes[key] = self._prepare(known.declared, traits, line)[1]
        return recipe == known.recipe

    def _validators(self, source: Source, known: Document | None) -> Validators | None:
        """Return by what the stored version of a page is recognised; None if it must be read again
        even if it is the same."""
        if known is None or known.staged is not None or known.quarantined or known.damaged:
            return None
        declared = self._unchanged_page(source, known).declared
        recipe, counter = self._preparation.recipe, self._deps.counter
        recipes = {recipe(declared, counter, pictures=pictures) for pictures in (True, False)}
        return (
            self._deps.store.validators(self._scope, known.number)
            if known.recipe in recipes
            else None
        )

    def _unchanged_page(self, source: Source, known: Document | None) -> Source:
        """Return a page with all that is declared of it, if its content is as it was."""
        declared = source.declared
        if known is not None:
            if not source.origin or is_page(source.origin):
                declared = declared.or_else(known.declared)
            declared = replace(
                declared,
                kind=declared.kind or known.kind,
                source_url=declared.source_url or known.source_url,
            )
        return replace(source, declared=declared, shown_path=_shown_path(source, known))


def _shown_path(source: Source, known: Document | None) -> str:
    """Return the path to show: as it was, unless the file was moved or more of it is known now."""
    path = source.recorded_path
    found = source.shown_path or short_path(path)
    if known is None or known.damaged or known.path != path:
        return found
    before = known.shown_path
    return found if found.endswith(f"/{before}") else before


class _Group(Struct):
    """Documents that are staged and indexed together."""

    drafts: list[Draft] = field(default_factory=list)
    members: dict[RevisionRef, JobDocument] = field(default_factory=dict)
    embedded: dict[RevisionRef, int] = field(default_factory=dict)
    """How many chunks of an active revision had a vector before."""
    chunks: int = 0
    size: int = 0

    def name(self, ref: RevisionRef) -> str:
        member = self.members.get(ref)
        return member.name if member else f"document {ref.document}"


class _Run:
    """One run over a list of sources, and its counts so far."""

    def __init__(
        self, deps: IngestDeps, scope: Scope, sources: Sequence[Source], log: RunLog
    ) -> None:
        self._deps = deps
        self._scope = scope
        self._sources = sources
        self._log = log
        self._indexer = Indexer(deps, scope)
        self._drafts = _DraftMaker(deps, scope)
        self._with_images = deps.assets.documents_with_images()
        self._size = sum(source.size for source in sources)
        self._documents = self._chunks = 0
        self._size_done = self._group_done = 0.0
        self._hidden: Counter[str] = Counter()
        self._copies: list[tuple[str, str]] = []
        self._remarks: list[str] = []
        self.report = IngestReport()

    def run(self) -> IngestReport:
        doc_ids = {source.doc_id for source in self._sources}
        documents = self._deps.store.documents(self._scope, named=doc_ids)
        known = {document.doc_id: document for document in documents}
        group = _Group()
        self._log.enter(Phase.READING)
        for source in self._sources:
            try:
                self._add(group, source, known.get(source.doc_id))
            except SourceRefused as error:
                self._fail(source.doc_id, source.name, error.code, str(error))
                self._finish_source(source)
            if group.chunks >= GROUP_CHUNKS:
                self._index(group)
                group = _Group()
                self._log.enter(Phase.READING)
        self._index(group)
        clear_retired(self._deps, self._scope)
        self._derive_metadata()
        self._tell_hidden()
        self._tell_remarks()
        for line in name_copies(self._copies):
            self._warn(line, SourceCopied.code)
        counts = self._indexer.counts
        self.report.embedded, self.report.reused = counts.embedded, counts.reused
        return self.report

    def _add(self, group: _Group, source: Source, known: Document | None) -> None:
        """Add a source to the group, unless it is unchanged and complete."""
        declared, draft = self._drafts.make(source, known)
        original = self._drafts.originals.pop(source.doc_id, None)
        if original is not None:
            self._copies.append((source.shown_path or source.name, original))
        if draft is None and known is None:
            self._add_linked(source, original)
        elif draft is None and known is not None:
            if declared is not None:
                self._relabel(declared, known)
            self._add_unchanged(group, source, known)
        elif draft is not None:
            if draft.images:
                # Before its rows are staged, so that no image can be lost.
                token, world = assets_token(draft.source_hash, draft.recipe), self._scope.world
                try:
                    self._deps.assets.stage_images(world, draft.doc_id, token, draft.images)
                except AssetsTaken as error:
                    raise AssetsTaken(draft.name, advice=error.advice) from None
            count_words = self._deps.count_words
            words = count_words(draft.chunks, draft.language) if count_words else None
            group.drafts.append(replace(draft, images=(), words=words))
            group.chunks += len(draft.chunks)
            group.size += source.size
            self.report.chunks += len(draft.chunks)
            self._note_labels(draft.language, draft.version)
            self._deps.trace.count(CounterName.CHUNKS, len(draft.chunks))
            for note in draft.notes:
                self._log.line("info", f"{draft.doc_id} {note}")
            # Not logged: a remark may quote the text.
            self._remarks += [f"{draft.name}: {remark}" for remark in draft.remarks]
            if draft.audit:
                found = ", ".join(f"{entry.label} {entry.count}" for entry in draft.audit)
                self._log.line("info", f"{draft.doc_id} SANITIZE_AUDIT {found}")
            self._show(source.name)

    def _add_linked(self, source: Source, original: str | None) -> None:
        """Count a source that another document has the content of."""
        state, reason = DocumentState.UNCHANGED, f"Same content as {original}."
        self._log.document(
            JobDocument(source.doc_id, source.name, state, SourceCopied.code, reason)
        )
        self.report.unchanged += 1
        self._finish_source(source)

    def _relabel(self, source: Source, known: Document) -> None:
        """Update the labels of a document whose text is unchanged."""
        declared = source.declared
        version, tags = declared.version or DEFAULT_VERSION, declared.tags or ()
        if (
            version != known.version
            or tags != known.tags
            or declared.source_url != known.source_url
            or declared.metadata != known.metadata
            or source.origin != known.origin
            or source.shown_path != known.shown_path
            or declared.language != known.declared_language
        ):
            self._deps.store.relabel(
                self._scope,
                known.number,
                language=declared.language,
                version=version,
                tags=tags,
                source_url=declared.source_url,
                metadata=declared.metadata,
                origin=source.origin,
                shown_path=source.shown_path,
            )
            self._note_labels(declared.language or known.language, declared.version)
            self.report.relabelled.append(known.name)
            self._log.line("info", f"{known.doc_id} has new labels")

    def _add_unchanged(self, group: _Group, source: Source, known: Document) -> None:
        """Count a document whose text is unchanged; resume it if incomplete."""
        revision = known.staged or known.active
        complete = known.embedded + known.skipped == known.chunks
        member = JobDocument(known.doc_id, known.name, DocumentState.UNCHANGED, chunks=known.chunks)
        if revision is None or (known.staged is None and complete):
            if known.doc_id in self._with_images:
                # An earlier run may have ended just before it published or removed images.
                publish_images(self._deps, self._scope, known)
            self.report.unchanged += 1
            self._log.document(member)
            self._finish_source(source)
            return
        ref = RevisionRef(known.number, revision)
        group.members[ref] = replace(member, state=DocumentState.READ)
        if known.staged is None:
            group.embedded[ref] = known.embedded
        group.chunks += known.chunks
        group.size += source.size
        self.report.resumed += 1

    def _index(self, group: _Group) -> None:
        """Stage the drafts of a group, then embed and activate all its revisions."""
        staged: dict[RevisionRef, list[PendingChunk]] = {}
        if group.drafts:
            with self._deps.trace.stage(Stage.STAGED):
                staged = self._deps.store.stage(self._scope, group.drafts)
            for ref, draft in zip(staged, group.drafts, strict=True):
                state, count = DocumentState.READ, len(draft.chunks)
                group.members[ref] = JobDocument(draft.doc_id, draft.name, state, chunks=count)
            # Free the memory: until they are embedded, only the texts of chunks are needed, and of
            # a very long document they are read from the store as they are needed.
            group.drafts = []
            if group.chunks > MAX_STAGED:
                staged = {}
        if not group.members:
            return
        self._log.enter(Phase.EMBEDDING)

        def on_chunks(count: int, ref: RevisionRef) -> None:
            self._chunks += count
            if group.chunks:
                self._group_done += count / group.chunks * group.size
            if count:
                self._show(group.name(ref))

        outcome = self._indexer.index_revisions(list(group.members), on_chunks, staged)
        for ref in outcome.activated:
            if ref in group.members:
                member = replace(group.members[ref], state=DocumentState.EMBEDDED)
                self.report.ingested.append(member.name)
                self._log.document(member)
        for ref, remark in _in_order(outcome.remarks):
            code, message = REMARKS[remark]
            self._warn(f"{group.name(ref)}: {message}", code)
        for ref, remark in _in_order(outcome.rejected):
            doc_id = group.members[ref].doc_id if ref in group.members else ""
            self._fail(doc_id, group.name(ref), *REMARKS[remark])
        self._report_others(group, {*outcome.activated, *outcome.rejected})
        self._documents += len(group.members)
        self._size_done += group.size
        self._group_done = 0.0
        self._show("")

    def _report_others(self, group: _Group, reported: Collection[RevisionRef]) -> None:
        """Report members that did not become visible: they were before, or are gone."""
        members = {ref: entry for ref, entry in group.members.items() if ref not in reported}
        if not members:
            return
        scope = self._scope.narrow(documents={ref.document: ref.revision for ref in members})
        documents = {entry.number: entry for entry in self._deps.store.documents(scope)}
        for ref, member in members.items():
            known = documents.get(ref.document)
            if known is not None and known.staged == ref.revision:
                self._warn(f"{member.name}: it is not visible until all of it is embedded.", "read")
                self._log.document(member)
            elif known is None or known.active != ref.revision:
                message = "another run replaced or deleted it meanwhile."
                self._warn(f"{member.name}: {message}", "replaced")
            elif known.embedded > group.embedded.get(ref, 0):
                self.report.ingested.append(member.name)
                self._log.document(replace(member, state=DocumentState.EMBEDDED))
            else:
                self.report.unchanged += 1
                self._log.document(replace(member, state=DocumentState.UNCHANGED))

    def _derive_metadata(self) -> None:
        """Derive metadata of documents that have none; a failure affects nothing else."""
        store = self._deps.store
        refs = store.missing_metadata(self._scope)
        if refs:
            self._log.enter(Phase.METADATA)
        for start in range(0, len(refs), METADATA_BATCH):
            with self._deps.trace.stage(Stage.METADATA):
                batch: list[Derived] = []
                for ref in refs[start : start + METADATA_BATCH]:
                    try:
                        source = store.derivable(self._scope, ref)
                        batch.append(Derived(ref, derive_metadata(source) if source else None))
                    # Whatever fails while a document is described, the document itself stays.
                    except Exception as error:
                        known = isinstance(error, TruespanError)
                        code = error.code if known else type(error).__name__
                        message = f"The metadata of document {ref.document} could not be derived."
                        self._warn(message, code)
                        batch.append(Derived(ref, None, code))
                store.keep_derived(self._scope, batch)

    def _note_labels(self, language: str, version: str | None) -> None:
        """Count a document that the contract's defaults would leave out, by its label."""
        if not matches_language(language, DEFAULT_LANGUAGE):
            self._hidden[f"language {language}"] += 1
        if version not in (None, DEFAULT_VERSION):
            self._hidden[f"version {version}"] += 1

    def _tell_hidden(self) -> None:
        """Warn of documents that `retrieve` leaves out by default in this world."""
        if not self._hidden:
            return
        scope = self._scope
        world = self._deps.store.find_world(scope.authority, scope.world)
        if world is None or world.defaults is not Defaults.CONTRACT:
            return
        counts = sorted(self._hidden.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{label} ({count})" for label, count in counts[:MAX_LABELS])
        more = f" and {len(counts) - MAX_LABELS} more" if len(counts) > MAX_LABELS else ""
        self._warn(
            f"'retrieve' leaves documents of this run out by default: {listed}{more}. Run "
            f"'truespan defaults recommended -w {quote(world.name)}', or pass --language any and "
            "--version any.",
            "hidden_by_defaults",
        )

    def _tell_remarks(self) -> None:
        """Add to the report what was decided about documents while they were read."""
        self.report.warnings += self._remarks[:MAX_REMARKS]
        if (more := len(self._remarks) - MAX_REMARKS) > 0:
            self.report.warnings.append(
                f"{more} more documents have such notes; the log of the job lists them."
            )

    def _finish_source(self, source: Source) -> None:
        """Count a source that needs no further work."""
        self._documents += 1
        self._size_done += source.size
        self._show(source.name)

    def _warn(self, message: str, code: str) -> None:
        self.report.warnings.append(message)
        self._log.line("warning", f"{code}: {message}")

    def _fail(self, doc_id: str, name: str, code: str, message: str) -> None:
        self.report.failures.append(Failure(name, code, message, doc_id))
        self._log.document(JobDocument(doc_id, name, DocumentState.FAILED, code, message))

    def _show(self, current: str) -> None:
        done, counts = self._size_done + self._group_done, self._indexer.counts
        self._log.progress(
            Progress(
                min(done / self._size, 1.0) if self._size else 0.0,
                self._documents,
                len(self._sources),
                self._chunks,
                counts.embedded,
                current,
                counts.reused,
            )
        )


def _in_order(remarks: Mapping[RevisionRef, Remark]) -> list[tuple[RevisionRef, Remark]]:
    return sorted(remarks.items(), key=lambda item: (item[0].document, item[0].revision))


MAX_DOCUMENTS = 16
MAX_BYTES = 4 << 20
"""Limits of a share, unless it is a single document. Each share flushes the index at least once,
which is expensive; but if its worker dies, another repeats the whole share."""
MAX_SHARES_OF_FILE = 16
"""About so many shares work on the members of one file."""
MIN_SHARES = 8
"""A request of few documents is split finer, so that several workers have something to do."""


class IngestRequest(Struct, frozen=True):
    """What to ingest: paths, or a manifest, or a batch of `uploads` by its name."""

    paths: tuple[str, ...] = ()
    manifest: str | None = None
    uploads: str | None = None
    options: IngestOptions = field(default_factory=IngestOptions)
    sitemap: str | None = None
    """The address of a list of pages."""

    def to_json(self) -> str:
        """Return the request as it is stored with its job."""
        fields = to_builtins(self)
        options = fields.pop("options")
        return json.dumps({**fields, **options}, sort_keys=True)

    @classmethod
    def from_json(cls, stored: str) -> IngestRequest:
        """Return the request that `to_json` wrote."""
        fields = json.loads(stored)
        options = msgspec.convert(fields, IngestOptions)
        named = fields["manifest"], fields["uploads"]
        return cls(tuple(fields["paths"]), *named, options, fields.get("sitemap"))


class Choice(Struct):
    """The files of a request that are ingested, and the missing documents, by id, that are removed.

    Documents that are no longer in one of these files are removed as well. A run adds the files
    that failed, or a part of which did.
    """

    files: frozenset[str]
    missing: frozenset[str]
    failed: set[str] = field(default_factory=set)

    def removes(self, document: Document) -> bool:
        files = {to_utf8(file) for file in self.files}
        held = any(str(parent) in files for parent in PurePath(document.path).parents)
        return held or document.doc_id in self.missing


def find_sources(
    deps: IngestDeps,
    scope: Scope,
    request: IngestRequest,
    *,
    open_files: bool = True,
    choice: Choice | None = None,
) -> FoundSources:
    """Return the sources that a request names, or those of a `choice`; a manifest is checked as a
    whole first.

    Files that hold several documents are opened, and their members are sources, unless it is only
    to be known whether anything is found.
    """

    def expand(found: FoundSources) -> FoundSources:
        if choice is not None:
            chosen = tuple(source for source in found if source.path in choice.files)
            found = replace(found, sources=chosen)
        return expand_members(deps, found) if open_files else found

    if request.uploads is not None:
        if deps.uploads is None:
            raise SourceMissing("upload")
        found = expand(deps.uploads.find(scope.world, request.uploads, request.options.declared))
        _require_single(request.options.declared, len(found))
        return found
    declared = request.options.declared
    if request.sitemap is not None:
        found = find_pages_of_sitemap(deps.pages, request.sitemap, declared, fetch=open_files)
        _require_single(declared, len(found))
    elif request.manifest is None:
        files, pages = split_paths(request.paths)
        found = deps.sources.find(files, declared, within=request.options.within)
        found = with_pages(
            expand(found), deps.pages, [Entry(0, page, None, declared) for page in pages]
        )
        _require_single(declared, len(found))
    else:
        content = deps.sources.read_manifest(request.manifest)
        entries = parse_manifest(request.manifest, content, profiles=deps.preparation.chunkings)
        files = [entry for entry in entries if not is_page(entry.path)]
        found = expand(deps.sources.expand(request.manifest, files))
        pages = [entry for entry in entries if is_page(entry.path)]
        found = with_pages(found, deps.pages, pages, manifest=request.manifest)
    owners = partial(deps.store.path_owners, scope)
    return replace(found, sources=tell_apart(found.sources, owners))


def _require_single(declared: DocumentOptions, count: int) -> None:
    if declared.source_url is not None and count > 1:
        raise InvalidArgument(
            f"source_url is the origin of one document, and {count} were found.",
            advice="Give each its own in a manifest or a sidecar.",
        )


def find_removed(
    deps: IngestDeps, scope: Scope, request: IngestRequest, found: FoundSources
) -> list[Document]:
    """Return the documents that a request with `prune` removes; none without it."""
    if not request.options.prune:
        return []
    return documents_to_remove(
        deps.store.documents(scope),
        found,
        exists=deps.sources.exists,
        allow_empty=request.options.allow_empty,
    )


Move: TypeAlias = tuple[Document, Source]
"""A document whose file is gone, and the new file that has the same content."""


def find_moves(
    deps: IngestDeps, scope: Scope, sources: Iterable[Source], removed: Sequence[Document]
) -> list[Move]:
    """Return the documents to be removed whose content is in a new source, with that source.

    Of several sources with the same content, one of the same name is preferred.
    """
    lost: dict[str, list[Document]] = {}
    for document in removed:
        if not document.damaged:
            lost.setdefault(document.source_hash, []).append(document)
    if not lost:
        return []
    sources = list(sources)
    named = {source.doc_id for source in sources}
    known = {document.doc_id for document in deps.store.documents(scope, named=named)}
    reader = MemberReader(deps)
    moves: list[Move] = []
    others: list[tuple[str, Source]] = []
    for source in sources:
        # What cannot be read is refused later, as a source.
        with suppress(SourceRefused):
            if source.doc_id not in known and not source.is_page:
                digest = sha256(reader.read(source).content).hexdigest()
                same = lost.get(digest, [])
                place = next((i for i, doc in enumerate(same) if doc.name == source.name), None)
                if place is not None:
                    moves.append((same.pop(place), source))
                elif same:
                    others.append((digest, source))
    moves += [(lost[digest].pop(0), source) for digest, source in others if lost[digest]]
    return moves


def move_documents(
    deps: IngestDeps,
    scope: Scope,
    sources: Iterable[Source],
    removed: Sequence[Document],
    log: RunLog,
) -> tuple[list[Move], list[Document]]:
    """Give documents the ids and paths of the files that they are in now: number, text, vectors,
    labels and reading positions stay. Return what was moved, and what remains to be removed."""
    moved: list[Move] = []
    for document, source in find_moves(deps, scope, sources, removed):
        done = deps.store.move_document(
            scope,
            document.number,
            doc_id=source.doc_id,
            path=source.recorded_path,
            name=source.name,
            shown_path=source.shown_path or short_path(source.recorded_path),
            # The ending may decide the format.
            reread=PurePath(document.name).suffix != PurePath(source.name).suffix,
        )
        if done:
            moved.append((document, source))
            # They are extracted again under the new id.
            deps.assets.remove(scope.world, document.doc_id)
            log.line("info", f"document {document.number} was moved to {source.shown_path}")
    numbers = {document.number for document, _ in moved}
    return moved, [document for document in removed if document.number not in numbers]


def _to_moved(moves: Iterable[Move]) -> list[Moved]:
    return [Moved(document.shown_path, source.shown_path) for document, source in moves]


def plan_request(
    deps: IngestDeps, scope: Scope, request: IngestRequest, *, price: float | None
) -> DryRun:
    """Return what a request would do, at the configured `price` of a million tokens."""
    found = find_sources(deps, scope, request)
    limits = deps.embedder.limits.within(deps.limits)
    removed = find_removed(deps, scope, request, found)
    moves = find_moves(deps, scope, found, removed)
    new_ids = {document.number: source.doc_id for document, source in moves}
    documents = [
        replace(document, doc_id=new_ids.get(document.number, document.doc_id))
        for document in deps.store.documents(scope)
    ]
    plan = plan_run(
        found,
        documents,
        make_draft=_DraftMaker(deps, scope).make,
        have_vectors=lambda hashes: deps.store.vectors(scope, hashes),
        estimate=lambda texts, tokens: estimate(scope.profile, tokens, texts, limits, price=price),
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
    """Ingest the sources that were found of a request, or of a `choice` of it, then remove what its
    `prune` removes."""
    removed = find_removed(deps, scope, request, found)
    if choice is not None:
        removed = list(filter(choice.removes, removed))
    moved, removed = move_documents(deps, scope, found, removed, log)
    if removed and on_prune is not None:
        on_prune(removed)
    report = ingest_sources(deps, scope, found.sources, log)
    if choice is not None:
        failed = {failure.doc_id for failure in report.failures}
        choice.failed.update(source.path for source in found if source.doc_id in failed)
    if request.options.prune:
        gone = _gone_pages(deps, scope, found, report)
        if gone and on_prune is not None:
            on_prune(gone)
        removed += gone
    report.passed_over, report.unmatched = found.passed_over, found.unmatched
    remove_documents(deps, scope, removed, log)
    report.removed = [document.shown_path for document in removed]
    report.moved = _to_moved(moved)
    return report


def _gone_pages(
    deps: IngestDeps, scope: Scope, sources: Iterable[Source], report: IngestReport
) -> list[Document]:
    """Return the documents of pages that no longer exist, which are then no failures."""
    pages = {source.doc_id for source in sources if source.is_page}
    failed = {each.doc_id for each in report.failures if each.code == SourceMissing.code}
    gone = deps.store.documents(scope, named=pages & failed) if pages & failed else []
    removed = {document.doc_id for document in gone}
    report.failures = [each for each in report.failures if each.doc_id not in removed]
    return gone


def finish_request(deps: IngestDeps, scope: Scope, request: IngestRequest, log: RunLog) -> None:
    """Remove what a request's `prune` removes, after its shares were ingested."""
    if request.options.prune:
        # Searched again, so that files that appeared meanwhile are not removed.
        found = find_sources(deps, scope, request)
        remove_documents(deps, scope, find_removed(deps, scope, request, found), log)


def split_sources(sources: Sequence[Source]) -> list[tuple[Source, ...]]:
    """Split sources into shares, in their order; a large source is a share of its own."""
    most = min(max(len(sources) // MIN_SHARES, 1), MAX_DOCUMENTS)
    # Each share opens the file of its members anew, so a file is split into a limited number.
    members = Counter(source.path for source in sources if source.member)
    sizes = Counter[str]()
    for source in sources:
        sizes[source.path] += source.size
    shares: list[list[Source]] = []
    size = 0
    for source in sources:
        count = max(most, members[source.path] // MAX_SHARES_OF_FILE)
        room = max(MAX_BYTES, sizes[source.path] // MAX_SHARES_OF_FILE if source.member else 0)
        if not shares or len(shares[-1]) >= count or size + source.size > room:
            shares.append([])
            size = 0
        shares[-1].append(source)
        size += source.size
    return [tuple(share) for share in shares]


def share_to_json(sources: Sequence[Source], *, prune: bool) -> JobShare:
    """Return a share as it is stored with its job; `prune` is that of the request."""
    share = {"sources": [to_builtins(source) for source in sources], "prune": prune}
    request = json.dumps(share, sort_keys=True)
    # An empty file counts too: no share has the size 0.
    size = sum(max(source.size, 1) for source in sources)
    return JobShare(request, len(sources), size)


def share_from_json(stored: str) -> tuple[tuple[Source, ...], bool]:
    """Return the sources of a share that `share_to_json` wrote, and its `prune`."""
    share = json.loads(stored)
    return msgspec.convert(share["sources"], tuple[Source, ...]), share.get("prune", False)


def ingest_share(
    deps: IngestDeps, scope: Scope, sources: Sequence[Source], log: RunLog, *, prune: bool
) -> IngestReport:
    """Ingest the sources of a share, and with `prune` remove the pages among them that are gone."""
    report = ingest_sources(deps, scope, sources, log)
    if prune:
        remove_documents(deps, scope, _gone_pages(deps, scope, sources, report), log)
    return report
