"""The run of a list of sources: drafts, staged revisions, vectors, index, metadata.

`DraftMaker` turns each source into the draft of a revision. Drafts are staged in groups, `Indexer`
embeds and activates them, and metadata are derived last. Wherever a run stops, the next run
continues from what is stored.

With workers, drafts are made by several processes, and groups are embedded and written to the index
while the next one is read and staged. Drafts and groups keep the order of the sources, so the
result is the same, and within a group so is the order in which its parts become durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property, partial
from shlex import quote
from threading import Lock

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.garbage import collecting_less
from truespan.errors import Interrupted, SourceRefused, TruespanError
from truespan.ingest.draft import DEFAULT_VERSION
from truespan.ingest.embed import Remark
from truespan.ingest.indexing import Indexer, IndexOutcome, clear_retired, publish_images
from truespan.ingest.metadata import derive_metadata
from truespan.ingest.queues import (
    DraftQueue,
    IndexQueue,
    SourceResult,
    are_worth_workers,
    make_drafts,
)
from truespan.ingest.report import REMARKS, Failure, IngestDeps, IngestReport, Progress, RunLog
from truespan.ingest.source_drafts import DraftMaker, SourceDraft
from truespan.text.language import normal_language
from truespan.types.chunk import PendingChunk
from truespan.types.document import Derived, Document, Draft, RevisionRef, assets_token
from truespan.types.job import DocumentState, JobDocument, Phase
from truespan.types.picture import SOURCE
from truespan.types.profile import MULTILINGUAL_LANGUAGES, is_trained_for
from truespan.types.request import DEFAULT_LANGUAGE, matches_language
from truespan.types.scope import Scope
from truespan.types.source import Source, make_paths_unique
from truespan.types.telemetry import CounterName, Stage

GROUP_CHUNKS = 4096
"""Number of chunks at which a group of documents is indexed, because a flush is expensive."""
MAX_STAGED = 2 * GROUP_CHUNKS
"""Maximum number of chunks of a group that stay in memory until they are embedded."""
MAX_LABELS = 5
"""Maximum number of languages and versions in a warning."""
MAX_FOREIGN_SHARE = 0.1
"""Share of a run's chunks in unknown languages above which it is reported."""
MAX_REMARKS = 20
MAX_NAMED_COPIES = 10
METADATA_BATCH = 64
"""Number of documents whose metadata are committed together."""
BYTES_BETWEEN_PROGRESS = 1 << 20
"""Number of bytes of unchanged files after which the progress is reported."""


def ingest_sources(
    deps: IngestDeps, scope: Scope, sources: Sequence[Source], log: RunLog
) -> IngestReport:
    """Ingest sources into a world; a refused source is reported, and the others are ingested."""
    with collecting_less():
        return _Run(deps, scope, sources, log).run()


def with_unique_paths(
    deps: IngestDeps, scope: Scope, sources: Sequence[Source]
) -> tuple[Source, ...]:
    """Return sources whose shown paths differ from each other and from those of other documents."""
    return make_paths_unique(sources, partial(deps.store.documents.path_owners, scope))


def remove_documents(
    deps: IngestDeps, scope: Scope, documents: Sequence[Document], log: RunLog
) -> None:
    """Hide each document at once, then remove the images, points and rows of all."""
    if not documents:
        return
    log.enter(Phase.REMOVING)
    for document in documents:
        deps.store.documents.tombstone(scope, document.number)
        log.document(JobDocument(document.doc_id, document.name, DocumentState.REMOVED))
    clear_retired(deps, scope)


class _Group(Struct):
    """Documents that are staged and indexed together."""

    drafts: list[Draft] = field(default_factory=list)
    members: dict[RevisionRef, JobDocument] = field(default_factory=dict)
    embedded: dict[RevisionRef, int] = field(default_factory=dict)
    """Number of chunks of an active revision that had a vector before."""
    staged: dict[RevisionRef, list[PendingChunk]] = field(default_factory=dict)
    chunks: int = 0
    tokens: int = 0
    size: int = 0
    done: float = 0.0
    """Part of `size` whose chunks have a vector."""

    def name(self, ref: RevisionRef) -> str:
        member = self.members.get(ref)
        return member.name if member else f"document {ref.document}"


class _Run:
    """One run over a list of sources, with its counts so far."""

    def __init__(
        self, deps: IngestDeps, scope: Scope, sources: Sequence[Source], log: RunLog
    ) -> None:
        self._deps = deps
        self._scope = scope
        self._sources = sources
        self._log = log
        self._indexer = Indexer(deps, scope)
        self._drafts = DraftMaker(deps, scope)
        self._with_images = deps.assets.documents_with_images()
        self._total = len(sources)
        self._size = sum(source.size for source in sources)
        self._documents = self._chunks = self._read = 0
        self._size_done = self._tokens = 0.0
        self._counting = Lock()
        """Lock for the counts that an indexing thread changes."""
        self._stopped = False
        self._hidden: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._copies: list[str] = []
        self._remarks: list[str] = []
        self.report = IngestReport()

    def run(self) -> IngestReport:
        known = self._read_known()
        self._log.enter(Phase.READING)
        self._skip_unchanged(known)
        known |= self._claim_sources(known)
        # Unchanged files keep their shown paths.
        self._sources = with_unique_paths(self._deps, self._scope, self._sources)
        workers, is_parallel = self._deps.workers, self._is_parallel()
        drafts = make_drafts(self._drafts, self._sources, known)
        if workers is not None and is_parallel and workers.can_start():
            drafts = DraftQueue(self._drafts, workers).make_drafts(self._sources, known)
        with closing(drafts), ExitStack() as stack:
            queue = None
            if is_parallel:
                queue = stack.enter_context(
                    IndexQueue(self._embed_on_thread, self._report_group, self._stop)
                )
            self._run_groups(drafts, known, queue)
        clear_retired(self._deps, self._scope)
        self._derive_metadata()
        self._report_hidden()
        self._report_foreign()
        self._report_remarks()
        counts = self._indexer.counts
        self.report.embedded, self.report.reused = counts.embedded, counts.reused
        return self.report

    def _read_known(self) -> dict[str, Document]:
        doc_ids = {source.doc_id for source in self._sources}
        documents = self._deps.store.documents.all(self._scope, named=doc_ids)
        return {document.doc_id: document for document in documents}

    def _claim_sources(self, known: Mapping[str, Document]) -> dict[str, Document]:
        """Reserve the sources that are left, and return the documents that changed before that."""
        # Another run of the same sources may have stored them meanwhile.
        if not self._sources:
            return {}
        self._log.claim([source.doc_id for source in self._sources])
        changed = {
            doc_id: document
            for doc_id, document in self._read_known().items()
            if document != known.get(doc_id)
        }
        self._skip_unchanged(changed)
        return changed

    def _skip_unchanged(self, known: Mapping[str, Document]) -> None:
        """Count the unchanged files that are stored completely; keep the other sources.

        Neither workers nor a parser are started for them, and nothing is written.
        """
        if not known:
            return
        changed: list[Source] = []
        unchanged: list[Document] = []
        size = 0
        for source in self._sources:
            document = known.get(source.doc_id)
            if (
                document is None
                or not _is_complete(document)
                or not self._drafts.is_recorded(source, document)
            ):
                changed.append(source)
                continue
            unchanged.append(document)
            size += source.size
            self._read += 1
            if size >= BYTES_BETWEEN_PROGRESS:
                self._count_unchanged(unchanged, size)
                unchanged, size = [], 0
        self._count_unchanged(unchanged, size)
        self._sources = changed

    def _is_parallel(self) -> bool:
        workers = self._deps.workers
        return workers is not None and are_worth_workers(self._sources) and workers.jobs > 1

    def _run_groups(
        self,
        drafts: Iterator[SourceResult],
        known: Mapping[str, Document],
        queue: IndexQueue[_Group, IndexOutcome] | None,
    ) -> None:
        """Add each source to a group, and index the group once it is large enough."""
        group = _Group()
        for source, made in drafts:
            self._read += 1
            try:
                if isinstance(made, SourceRefused):
                    raise made
                self._add(group, source, known.get(source.doc_id), made)
            except SourceRefused as error:
                self._fail(source.doc_id, source.name, error.code, str(error))
                self._finish_source(source)
            if group.chunks >= GROUP_CHUNKS:
                self._index(group, queue)
                group = _Group()
                if queue is None:
                    self._log.enter(Phase.READING)
        self._index(group, queue)

    def _keep_upload(self, draft: Draft, data: bytes | None) -> None:
        """Keep an upload to show it later, unless its text was redacted."""
        pictures, world = self._deps.pictures, self._scope.world
        if pictures is None:
            return
        if any(entry.redacted for entry in draft.audit):
            pictures.remove(world, draft.doc_id)
        elif data is not None:
            pictures.write(world, draft.doc_id, draft.source_hash, SOURCE, data)

    def _add(
        self, group: _Group, source: Source, known: Document | None, made: SourceDraft
    ) -> None:
        """Add a source to the group, unless it is unchanged and complete."""
        declared, draft, original, kept = made
        if original is not None:
            self._copies.append(f"{source.shown_path or source.name}: same content as {original}.")
        if draft is not None:
            self._add_draft(group, source, draft)
            self._keep_upload(draft, kept)
        elif known is None:
            # Another document has its content, so it needs none.
            state, reason = DocumentState.UNCHANGED, f"Same content as {original}."
            entry = JobDocument(source.doc_id, source.name, state, "source_copied", reason)
            self._log.document(entry)
            self.report.unchanged += 1
            self._finish_source(source)
        else:
            if declared is not None:
                self._relabel(declared, known)
            self._add_unchanged(group, source, known)

    def _add_draft(self, group: _Group, source: Source, draft: Draft) -> None:
        if draft.images:
            # Before its rows are staged, so that no image can be lost.
            token = assets_token(draft.source_hash, draft.recipe)
            try:
                self._deps.assets.stage_images(self._scope.world, draft.doc_id, token, draft.images)
            except SourceRefused as error:
                error.raise_unless("assets_taken")
                raise SourceRefused(error.code, draft.name, advice=error.advice) from None
        group.drafts.append(replace(draft, images=()))
        group.chunks += len(draft.chunks)
        group.tokens += sum(chunk.tokens for chunk in draft.chunks)
        group.size += source.size
        self.report.chunks += len(draft.chunks)
        self._languages[draft.language] += len(draft.chunks)
        self._count_labels(draft.language, draft.version)
        self._deps.trace.count(CounterName.CHUNKS, len(draft.chunks))
        for note in draft.notes:
            self._log.line("info", f"{draft.doc_id} {note}")
        # Not logged: a remark may quote the text.
        self._remarks += [f"{draft.name}: {remark}" for remark in draft.remarks]
        if draft.audit:
            found = ", ".join(f"{entry.label} {entry.count}" for entry in draft.audit)
            self._log.line("info", f"{draft.doc_id} SANITIZE_AUDIT {found}")
        self._show(source.name)

    def _relabel(self, source: Source, known: Document) -> None:
        declared = source.declared
        tags, audience = declared.tags or (), declared.audience or ()
        labels = {
            "version": declared.version or DEFAULT_VERSION,
            "source_url": declared.source_url,
            "metadata": declared.metadata,
            "origin": source.origin,
            "shown_path": source.shown_path,
        }
        is_same = all(getattr(known, name) == value for name, value in labels.items())
        is_same = is_same and (tags, audience) == (known.tags, known.audience)
        if is_same and declared.language == known.declared_language:
            return
        self._deps.store.documents.relabel(
            self._scope,
            known.number,
            tags=tags,
            audience=audience,
            language=declared.language,
            **labels,
        )
        self._count_labels(declared.language or known.language, declared.version)
        self.report.relabelled.append(known.name)
        self._log.line("info", f"{known.doc_id} has new labels")

    def _add_unchanged(self, group: _Group, source: Source, known: Document) -> None:
        """Count a document whose text is unchanged; resume it if incomplete."""
        revision = known.staged or known.active
        if revision is None or _is_complete(known):
            self._count_unchanged([known], source.size)
            return
        ref = RevisionRef(known.number, revision)
        state = DocumentState.READ
        group.members[ref] = JobDocument(known.doc_id, known.name, state, chunks=known.chunks)
        if known.staged is None:
            group.embedded[ref] = known.embedded
        group.chunks += known.chunks
        group.size += source.size
        self.report.resumed += 1

    def _count_unchanged(self, documents: Sequence[Document], size: int) -> None:
        """Count documents whose text is unchanged and complete; `size` is that of their sources."""
        if not documents:
            return
        for document in documents:
            if document.doc_id in self._with_images:
                # An earlier run may have ended just before it published or removed images.
                publish_images(self._deps, self._scope, document)
        state = DocumentState.UNCHANGED
        self._log.unchanged(
            [JobDocument(each.doc_id, each.name, state, chunks=each.chunks) for each in documents]
        )
        self.report.unchanged += len(documents)
        self._documents += len(documents)
        self._size_done += size
        self._show(documents[-1].name)

    def _index(self, group: _Group, queue: IndexQueue[_Group, IndexOutcome] | None) -> None:
        """Stage the drafts of a group, then embed and activate all its revisions."""
        self._stage(group)
        if not group.members:
            return
        self._log.enter(Phase.EMBEDDING)
        if queue is not None:
            queue.add(group)
        else:
            self._report_group(group, self._embed(group))

    def _embed(self, group: _Group) -> IndexOutcome:
        def on_chunks(count: int, ref: RevisionRef) -> None:
            if self._stopped:
                raise Interrupted
            with self._counting:
                self._chunks += count
                if group.chunks:
                    share = count / group.chunks
                    group.done += share * group.size
                    self._size_done += share * group.size
                    self._tokens += share * group.tokens
            if count:
                self._show(group.name(ref))

        return self._indexer.index_revisions(list(group.members), on_chunks, group.staged)

    def _embed_on_thread(self, group: _Group) -> IndexOutcome:
        try:
            outcome = self._embed(group)
            self._derive_early(outcome.activated)
            return outcome
        finally:
            self._deps.store.release_thread()

    def _derive_early(self, refs: Sequence[RevisionRef]) -> None:
        """Derive the metadata of active revisions while others are read."""
        # Those that fail are tried again and reported at the end of the run.
        for start in range(0, len(refs), METADATA_BATCH):
            batch: list[Derived] = []
            with self._deps.trace.stage(Stage.METADATA):
                for ref in refs[start : start + METADATA_BATCH]:
                    with suppress(Exception):
                        source = self._deps.store.revisions.derivable(self._scope, ref)
                        batch += [Derived(ref, derive_metadata(source))] if source else []
                self._deps.store.revisions.keep_derived(self._scope, batch)

    def _stop(self) -> None:
        """Let the threads that index stop before their next step."""
        self._stopped = True

    def _report_group(self, group: _Group, outcome: IndexOutcome) -> None:
        group.staged = {}
        for ref in outcome.activated:
            if ref in group.members:
                self._report_ingested(group.members[ref])
        for ref, remark in _in_order(outcome.remarks):
            code, message = REMARKS[remark]
            self._warn(f"{group.name(ref)}: {message}", code)
        for ref, remark in _in_order(outcome.rejected):
            doc_id = group.members[ref].doc_id if ref in group.members else ""
            self._fail(doc_id, group.name(ref), *REMARKS[remark])
        self._report_others(group, {*outcome.activated, *outcome.rejected})
        self._documents += len(group.members)
        with self._counting:
            self._size_done += group.size - group.done
        self._show("")

    def _stage(self, group: _Group) -> None:
        if not group.drafts:
            return
        with self._deps.trace.stage(Stage.STAGED):
            staged = self._deps.store.documents.stage(self._scope, group.drafts)
        for ref, draft in zip(staged, group.drafts, strict=True):
            state, count = DocumentState.READ, len(draft.chunks)
            group.members[ref] = JobDocument(draft.doc_id, draft.name, state, chunks=count)
        # Free the memory: until they are embedded, only the texts of chunks are needed. The chunks
        # of a very long document are read from the store when they are needed.
        group.drafts = []
        group.staged = staged if group.chunks <= MAX_STAGED else {}

    def _report_ingested(self, member: JobDocument) -> None:
        self.report.ingested.append(member.name)
        self._log.document(replace(member, state=DocumentState.EMBEDDED))

    def _report_others(self, group: _Group, reported: Collection[RevisionRef]) -> None:
        """Report members that did not become visible: they were visible before, or were removed."""
        members = {ref: entry for ref, entry in group.members.items() if ref not in reported}
        if not members:
            return
        scope = self._scope.narrow(documents={ref.document: ref.revision for ref in members})
        documents = {entry.number: entry for entry in self._deps.store.documents.all(scope)}
        for ref, member in members.items():
            known = documents.get(ref.document)
            if known is not None and known.staged == ref.revision:
                self._warn(f"{member.name}: it is not visible until all of it is embedded.", "read")
                self._log.document(member)
            elif known is None or known.active != ref.revision:
                message = "another run replaced or deleted it meanwhile."
                self._warn(f"{member.name}: {message}", "replaced")
            elif known.embedded > group.embedded.get(ref, 0):
                self._report_ingested(member)
            else:
                self.report.unchanged += 1
                self._log.document(replace(member, state=DocumentState.UNCHANGED))

    def _derive_metadata(self) -> None:
        refs = self._deps.store.revisions.missing_metadata(self._scope)
        if refs:
            self._log.enter(Phase.METADATA)
        for start in range(0, len(refs), METADATA_BATCH):
            with self._deps.trace.stage(Stage.METADATA):
                batch = [self._derive(ref) for ref in refs[start : start + METADATA_BATCH]]
                self._deps.store.revisions.keep_derived(self._scope, batch)

    def _derive(self, ref: RevisionRef) -> Derived:
        """Return the metadata of a revision; a failure is a warning and leaves the document."""
        try:
            source = self._deps.store.revisions.derivable(self._scope, ref)
            return Derived(ref, derive_metadata(source) if source else None)
        except Exception as error:
            code = error.code if isinstance(error, TruespanError) else type(error).__name__
            self._warn(f"The metadata of document {ref.document} could not be derived.", code)
            return Derived(ref, None, code)

    def _count_labels(self, language: str, version: str | None) -> None:
        """Count a document that the defaults of a `contract` world leave out, by its label."""
        if not matches_language(language, DEFAULT_LANGUAGE):
            self._hidden[f"language {language}"] += 1
        if version not in (None, DEFAULT_VERSION):
            self._hidden[f"version {version}"] += 1

    def _report_hidden(self) -> None:
        """Warn of documents that `retrieve` leaves out by default in this world."""
        if not self._hidden:
            return
        scope = self._scope
        world = self._deps.store.worlds.find(scope.authority, scope.world)
        if world is None or world.defaults.values.language is None:
            return
        counts = sorted(self._hidden.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{label} ({count})" for label, count in counts[:MAX_LABELS])
        more = f" and {len(counts) - MAX_LABELS} more" if len(counts) > MAX_LABELS else ""
        self._warn(
            f"'retrieve' leaves documents of this run out by default: {listed}{more}. Run "
            f"'truespan config --defaults recommended -w {quote(world.name)}', or pass "
            "--language any and --version any.",
            "hidden_by_defaults",
        )

    def _report_foreign(self) -> None:
        """Warn if much text of this run is in languages that the model was not trained for."""
        foreign: Counter[str] = Counter()
        for language, count in self._languages.items():
            if not is_trained_for(self._scope.profile, language):
                foreign[normal_language(language)] += count
        share = foreign.total() / max(self._languages.total(), 1)
        if share <= MAX_FOREIGN_SHARE:
            return
        world = self._deps.store.worlds.find(self._scope.authority, self._scope.world)
        advice = "Configure a model for them, and run 'truespan reindex'."
        if foreign.keys() & MULTILINGUAL_LANGUAGES:
            name = quote(world.name) if world else "NAME"
            advice = (
                f"Run 'truespan reindex --model multilingual -w {name}', and promote the new "
                "generation."
            )
        more = f" and {len(foreign) - MAX_LABELS} more" if len(foreign) > MAX_LABELS else ""
        self._warn(
            f"{share:.0%} of the text of this run is in languages that the world's model was not "
            f"trained for ({', '.join(dict(foreign.most_common(MAX_LABELS)))}{more}), and is found "
            f"badly by meaning. {advice}",
            "foreign_text",
        )

    def _report_remarks(self) -> None:
        self.report.warnings += self._remarks[:MAX_REMARKS]
        if (more := len(self._remarks) - MAX_REMARKS) > 0:
            self.report.warnings.append(
                f"{more} more documents have such notes; the log of the job lists them."
            )
        copies = self._copies[:MAX_NAMED_COPIES]
        if (more := len(self._copies) - MAX_NAMED_COPIES) > 0:
            copies.append(f"{more} more have the same content as others.")
        for line in copies:
            self._warn(line, "source_copied")

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
        done, counts = self._size_done, self._indexer.counts
        self._log.progress(
            Progress(
                fraction=min(done / self._size, 1.0) if self._size else 0.0,
                documents=self._documents,
                documents_total=self._total,
                chunks=self._chunks,
                embedded=counts.embedded,
                current=current,
                reused=counts.reused,
                read=self._read,
                tokens=round(self._tokens),
                device=self._device if self._chunks else "",
            )
        )

    @cached_property
    def _device(self) -> str:
        # Without precision and driver, which the doctor names.
        return getattr(self._deps.embedder, "device", "").partition(",")[0]


def _is_complete(document: Document) -> bool:
    """Return whether all chunks of the active revision are embedded, and no other is staged."""
    pending = document.chunks - document.embedded - document.skipped
    return document.active is not None and document.staged is None and not pending


def _in_order(remarks: Mapping[RevisionRef, Remark]) -> list[tuple[RevisionRef, Remark]]:
    return sorted(remarks.items(), key=lambda item: (item[0].document, item[0].revision))
