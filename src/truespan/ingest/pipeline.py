"""The way in, end to end: read, parse, draft, stage, carry into sight, derive metadata.

What is done to a document after it was staged is in `carry`. Wherever a run stops, running it again
goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from truespan.errors import AssetsTaken, SourceMissing, SourceRefused, TruespanError
from truespan.ingest.draft import DEFAULT_VERSION, Preparation, draft
from truespan.ingest.indexing import Indexer, Outcome
from truespan.ingest.job_log import REMARKS, Failure, IngestReport, Journal, Meter, Progress
from truespan.ingest.metadata import derive
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.parsing import may_have_pictures, usual_kind
from truespan.protocols import (
    AssetStore,
    SourceFinder,
    SourceParser,
    TokenCounter,
    TrustedStore,
    UploadStore,
)
from truespan.types.document import Derivable, Derived, Document, Draft, RevisionRef, assets_token
from truespan.types.ids import WorldId
from truespan.types.job import DocumentState, JobDocument, Phase
from truespan.types.scope import Scope
from truespan.types.source import Declared, Found, Source
from truespan.types.telemetry import CounterName, Stage

GROUP_CHUNKS = 4096
"""Documents are carried through together up to this many chunks: a flush is dear."""

DERIVED_TOGETHER = 64
"""Documents whose metadata are kept in one commit."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What reading sources needs from outside."""

    store: TrustedStore
    sources: SourceFinder
    parser: SourceParser
    counter: TokenCounter
    assets: AssetStore
    preparation: Preparation
    derive: Callable[[Derivable], str] = derive
    uploads: UploadStore | None = None
    course: RequestTrace = NULL_OBSERVER

    def find_uploads(self, world: WorldId, batch: str, declared: Declared) -> Found:
        """Return the sources of a batch of uploads.

        Raises:
            SourceMissing: nothing of it is left, or nobody keeps uploads here.
        """
        if self.uploads is None:
            raise SourceMissing("upload")
        return self.uploads.find(world, batch, declared)

    def read(self, source: Source) -> bytes:
        """Return the bytes of a source, wherever it is kept; raises SourceRefused."""
        if source.upload and self.uploads is not None:
            return self.uploads.read(source)
        return self.sources.read(source)


class Preparer:
    """Makes drafts of sources; also for those who only want to know what would be."""

    def __init__(self, intake: Intake, scope: Scope) -> None:
        self._intake = intake
        self._scope = scope
        self._recipes: dict[tuple[Declared, bool], str] = {}

    def prepare(self, source: Source, known: Document | None) -> tuple[Source, Draft | None]:
        """Return a source with all that is declared of it, and the revision that it becomes.

        There is no revision when neither its bytes nor what is done to them has changed.

        Raises:
            SourceRefused: it cannot become a document.
        """
        intake, preparation = self._intake, self._intake.preparation
        with intake.course.stage(Stage.SOURCE):
            content = intake.read(source)
        source = self._declared(source, known, content)
        source_hash = sha256(content).hexdigest()
        recipe = self._recipe(source.declared, may_have_pictures(source.name, content))
        same = known is not None and (known.source_hash, known.recipe) == (source_hash, recipe)
        if known is not None and same and not known.quarantined:
            return source, None
        images = preparation.figures.extract_images
        with intake.course.stage(Stage.BLOCKS):
            loaded = intake.parser.parse(source.name, content, images=images)
        made = draft(
            source,
            loaded,
            preparation=preparation,
            source_hash=source_hash,
            recipe=recipe,
            counter=intake.counter,
            input_limit=self._scope.profile.input_limit,
            cut_as=self._scope.generation.chunking,
            course=intake.course,
        )
        return source, made

    def _declared(self, source: Source, known: Document | None, content: bytes) -> Source:
        declared = source.declared
        if known is not None and not source.origin:
            # A manifest says all there is to say; a command only what is to be changed.
            declared = declared.or_else(known.declared)
        if declared.kind is None:
            declared = replace(declared, kind=usual_kind(source.name, content))
        return replace(source, declared=declared)

    def _recipe(self, declared: Declared, pictures: bool) -> str:
        known = self._recipes.get((declared, pictures))
        if known is None:
            known = self._intake.preparation.recipe(
                declared,
                self._intake.counter,
                pictures=pictures,
            )
            self._recipes[declared, pictures] = known
        return known


@dataclass(slots=True)
class _Group:
    """Documents that are carried through together."""

    drafts: list[Draft] = field(default_factory=list)
    refs: list[RevisionRef] = field(default_factory=list)
    members: dict[RevisionRef, JobDocument] = field(default_factory=dict)
    chunks: int = 0
    size: int = 0


class Ingestion:
    """Carries sources into one world."""

    def __init__(
        self, intake: Intake, carrier: Indexer, scope: Scope, journal: Journal | None = None
    ) -> None:
        self._intake = intake
        self._carrier = carrier
        self._scope = scope
        self._journal = journal or Journal()
        self._preparer = Preparer(intake, scope)
        self._meter = Meter()
        self._pictured: frozenset[str] = frozenset()
        self.report = IngestReport()

    def run(self, sources: Sequence[Source]) -> IngestReport:
        """Ingest sources; one that cannot be read is reported and the rest goes on."""
        store = self._intake.store
        named = {source.doc_id for source in sources}
        known = {found.doc_id: found for found in store.documents(self._scope, named=named)}
        self._pictured = self._intake.assets.pictured()
        self._meter = Meter(total=len(sources), size=sum(source.size for source in sources))
        group = _Group()
        for source in sources:
            self._journal.enter(Phase.READING)
            try:
                self._take(group, source, known.get(source.doc_id))
            except SourceRefused as error:
                self._fail(source.doc_id, source.name, error.code, str(error))
                self._passed(source)
            if group.chunks >= GROUP_CHUNKS:
                self._carry(group)
                group = _Group()
        self._carry(group)
        self._carrier.clear_retired()
        self._derive()
        return self.report

    def _take(self, group: _Group, source: Source, known: Document | None) -> None:
        """Add one source to the group, unless nothing about it has changed."""
        source, made = self._preparer.prepare(source, known)
        if made is None and known is not None:
            self._take_known(group, source, known)
        elif made is not None:
            self._put_aside(made)
            group.drafts.append(replace(made, images=()))
            group.chunks += len(made.chunks)
            group.size += source.size
            self.report.chunks += len(made.chunks)
            self._intake.course.count(CounterName.CHUNKS, len(made.chunks))
            self._note(made)
            self._show(source.name)

    def _note(self, made: Draft) -> None:
        for note in made.notes:
            self._journal.line("info", f"{made.doc_id} {note}")
        found = ", ".join(f"{one.label} {one.count}" for one in made.audit)
        if found:
            self._journal.line("info", f"{made.doc_id} SANITIZE_AUDIT {found}")

    def _take_known(self, group: _Group, source: Source, known: Document) -> None:
        self._relabel(source, known)
        revision = known.staged or known.active
        complete = known.embedded + known.skipped == known.chunks
        member = JobDocument(known.doc_id, known.name, DocumentState.UNCHANGED, chunks=known.chunks)
        if revision is None or (known.staged is None and complete):
            self._settle_images(known)
            self.report.unchanged += 1
            self._journal.document(member)
            self._passed(source)
            return
        ref = RevisionRef(known.number, revision)
        group.refs.append(ref)
        group.members[ref] = replace(member, state=DocumentState.READ)
        group.chunks += known.chunks
        group.size += source.size
        self.report.resumed += 1

    def _relabel(self, source: Source, known: Document) -> None:
        """Keep labels that changed although the text did not."""
        declared = source.declared
        version, tags = declared.version or DEFAULT_VERSION, declared.tags or ()
        labels = (version, tags, declared.source_url, declared.metadata, source.origin)
        before = (known.version, known.tags, known.source_url, known.metadata, known.origin)
        if labels == before and declared.language == known.declared.language:
            return
        self._intake.store.relabel(
            self._scope,
            known.number,
            language=declared.language,
            version=version,
            tags=tags,
            source_url=declared.source_url,
            metadata=declared.metadata,
            origin=source.origin,
        )

    def _carry(self, group: _Group) -> None:
        """Take a group from drafts to flipped documents."""
        self._stage(group)
        if not group.refs:
            return
        self._journal.enter(Phase.EMBEDDING)

        def on_chunks(count: int, ref: RevisionRef) -> None:
            self._advance(count, group, ref)

        before = replace(self._carrier.done)
        outcome = self._carrier.carry(group.refs, on_chunks)
        done = self._carrier.done
        self.report.embedded += done.embedded - before.embedded
        self.report.reused += done.reused - before.reused
        self._account(group, outcome)
        self._meter.documents += len(group.members)
        self._meter.done += group.size
        self._meter.part = 0.0
        self._show("")

    def _stage(self, group: _Group) -> None:
        if not group.drafts:
            return
        with self._intake.course.stage(Stage.STAGED):
            staged = self._intake.store.stage(self._scope, group.drafts)
        for ref, made in zip(staged, group.drafts, strict=True):
            chunks = len(made.chunks)
            group.members[ref] = JobDocument(
                made.doc_id, made.name, DocumentState.READ, chunks=chunks
            )
            group.refs.append(ref)
        group.drafts = []

    def _put_aside(self, made: Draft) -> None:
        """Write a revision's images before anything of it is staged, so that none can be lost."""
        if not made.images:
            return
        token = assets_token(made.source_hash, made.recipe)
        try:
            self._intake.assets.put_aside(self._scope.world, made.doc_id, token, made.images)
        except AssetsTaken as error:
            raise AssetsTaken(made.name, advice=error.advice) from None

    def _settle_images(self, known: Document) -> None:
        """Publish what waits for a document that is in force: a run may have ended just before.

        It may have ended before it removed the images of an earlier revision, too.
        """
        if known.doc_id not in self._pictured:
            return
        token = assets_token(known.source_hash, known.recipe)
        if not self._intake.assets.publish(self._scope.world, known.doc_id, token):
            self._intake.assets.remove(self._scope.world, known.doc_id)

    def _passed(self, source: Source) -> None:
        """Count a source that needs nothing more."""
        self._meter.documents += 1
        self._meter.done += source.size
        self._show(source.name)

    def _account(self, group: _Group, outcome: Outcome) -> None:
        """Say what became of every document of a group."""
        for ref in outcome.flipped:
            if ref in group.members:
                member = replace(group.members[ref], state=DocumentState.EMBEDDED)
                self.report.ingested.append(member.name)
                self._journal.document(member)
        for ref, remark in sorted(outcome.remarks.items(), key=lambda one: _order(one[0])):
            code, message = REMARKS[remark]
            self._warn(f"{self._name(group, ref)}: {message}", code)
        for ref, remark in sorted(outcome.rejected.items(), key=lambda one: _order(one[0])):
            code, message = REMARKS[remark]
            member = group.members.get(ref)
            self._fail(member.doc_id if member else "", self._name(group, ref), code, message)

    def _name(self, group: _Group, ref: RevisionRef) -> str:
        member = group.members.get(ref)
        return member.name if member else f"document {ref.document}"

    def _warn(self, message: str, code: str) -> None:
        self.report.warnings.append(message)
        self._journal.line("warning", f"{code}: {message}")

    def _fail(self, doc_id: str, name: str, code: str, message: str) -> None:
        self.report.failures.append(Failure(name, code, message))
        self._journal.document(JobDocument(doc_id, name, DocumentState.FAILED, code, message))

    def _derive(self) -> None:
        """Derive the metadata of what has none yet. Whatever fails here harms nothing else."""
        store = self._intake.store
        left = store.underived(self._scope)
        if left:
            self._journal.enter(Phase.METADATA)
        for start in range(0, len(left), DERIVED_TOGETHER):
            batch = left[start : start + DERIVED_TOGETHER]
            with self._intake.course.stage(Stage.METADATA):
                store.keep_derived(self._scope, [self._derived(ref) for ref in batch])

    def _derived(self, ref: RevisionRef) -> Derived:
        try:
            source = self._intake.store.derivable(self._scope, ref)
            return Derived(ref, self._intake.derive(source) if source is not None else None)
        # Nothing that goes wrong in a description may take away what is described.
        except Exception as error:
            code = error.code if isinstance(error, TruespanError) else type(error).__name__
            self._warn(f"The metadata of document {ref.document} were not derived.", code)
            return Derived(ref, None, code)

    def _advance(self, chunks: int, group: _Group, current: RevisionRef) -> None:
        self._meter.chunks += chunks
        if group.chunks:
            self._meter.part += chunks / group.chunks * group.size
        if chunks:
            self._show(self._name(group, current))

    def _show(self, current: str) -> None:
        meter = self._meter
        self._journal.progress(
            Progress(
                fraction=meter.fraction(),
                documents=meter.documents,
                documents_total=meter.total,
                chunks=meter.chunks,
                embedded=self._carrier.done.embedded,
                current=current,
                reused=self._carrier.done.reused,
            )
        )


def _order(ref: RevisionRef) -> tuple[int, int]:
    return ref.document, ref.revision
