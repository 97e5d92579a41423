"""The way in, end to end: read, draft, stage, embed, upsert, flush, mark, flip, clear away.

The order is what makes a crash harmless. Rows and vectors are committed before points are written,
points are flushed before their state says so, and only a revision whose every chunk is embedded is
flipped into sight. Wherever it stops, running it again goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice

from truespan.errors import IndexUnavailable, SourceRefused
from truespan.ingest.draft import DEFAULT_VERSION, draft, recipe_of
from truespan.ingest.embed import embed_texts
from truespan.model.chunk import PendingChunk, Point, Vector
from truespan.model.document import Document, Draft, RevisionRef
from truespan.model.ids import ChunkId, TextHash
from truespan.model.scope import Scope
from truespan.model.source import Declared, Source
from truespan.ports import (
    Clock,
    Embedder,
    EmbeddingLimits,
    SourceFinder,
    TokenCounter,
    TrustedStore,
    VectorIndex,
)

GROUP_CHUNKS = 4096
"""Documents are carried through together up to this many chunks: a flush is dear."""
SLICE_CHUNKS = 512
"""Chunks embedded and upserted together; vectors are kept after each provider batch."""
INDEX_ATTEMPTS = 3
INDEX_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that did not become a document, and why."""

    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come. `fraction` is of the bytes to read, the rest are counts so far."""

    fraction: float
    documents: int
    documents_total: int
    chunks: int
    embedded: int
    current: str


@dataclass(slots=True)
class IngestReport:
    """What a run did."""

    ingested: list[str] = field(default_factory=list)
    unchanged: int = 0
    resumed: int = 0
    failures: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0


@dataclass(slots=True)
class _Group:
    """Documents that are carried through together."""

    drafts: list[Draft] = field(default_factory=list)
    refs: list[RevisionRef] = field(default_factory=list)
    names: dict[RevisionRef, str] = field(default_factory=dict)
    chunks: int = 0
    size: int = 0


class Ingestion:
    """Carries sources into one world."""

    def __init__(
        self,
        *,
        store: TrustedStore,
        index: VectorIndex,
        embedder: Embedder,
        counter: TokenCounter,
        sources: SourceFinder,
        clock: Clock,
        limits: EmbeddingLimits,
        scope: Scope,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._counter = counter
        self._sources = sources
        self._clock = clock
        self._limits = limits
        self._scope = scope
        self._on_progress = on_progress
        self._recipes: dict[Declared, str] = {}
        self.report = IngestReport()
        self.written = 0
        """How many points were written, flushed and marked."""
        self._meter = _Meter()

    def run(self, sources: Sequence[Source]) -> IngestReport:
        """Ingest sources; one that cannot be read is reported and the rest goes on."""
        known = {document.doc_id: document for document in self._store.documents(self._scope)}
        self._meter = _Meter(total=len(sources), size=sum(source.size for source in sources))
        group = _Group()
        for source in sources:
            try:
                self._take(group, source, known.get(source.doc_id))
            except SourceRefused as error:
                self.report.failures.append(Failure(source.name, error.code, str(error)))
                self._meter.documents += 1
            if group.chunks >= GROUP_CHUNKS:
                self._carry(group)
                group = _Group()
        self._carry(group)
        self.clear_retired()
        return self.report

    def finish(self, refs: Sequence[RevisionRef]) -> None:
        """Embed what is pending of revisions that are already there."""
        group = _Group(refs=list(refs))
        self._carry(group)

    def clear_retired(self) -> None:
        """Remove points, then rows, of every revision that no reader sees any more."""
        retired = self._store.retired(self._scope)
        if not retired:
            return
        self._prepare()
        for ref in retired:
            self._index.delete(self._scope, self._store.chunk_ids(self._scope, ref))
        self._index.flush(self._scope)
        for ref in retired:
            self._store.purge(self._scope, ref)

    def _take(self, group: _Group, source: Source, known: Document | None) -> None:
        """Add one source to the group, unless nothing about it has changed."""
        declared = source.declared if known is None else source.declared.or_else(known.declared)
        data = self._sources.read(source)
        source_hash = sha256(data).hexdigest()
        recipe = self._recipe(declared)
        same = known is not None and (known.source_hash, known.recipe) == (source_hash, recipe)
        if known is not None and same and not known.quarantined:
            self._take_known(group, source, declared, known)
            return
        made = draft(
            replace(source, declared=declared),
            data,
            source_hash=source_hash,
            counter=self._counter,
            input_limit=self._scope.profile.input_limit,
        )
        group.drafts.append(made)
        group.chunks += len(made.chunks)
        group.size += source.size
        self.report.chunks += len(made.chunks)
        self._show(source.name)

    def _take_known(
        self, group: _Group, source: Source, declared: Declared, known: Document
    ) -> None:
        version, tags = declared.version or DEFAULT_VERSION, declared.tags or ()
        before = (known.declared.language, known.version, known.tags)
        if before != (declared.language, version, tags):
            self._store.relabel(
                self._scope, known.number, language=declared.language, version=version, tags=tags
            )
        revision = known.staged or known.active
        if revision is None or (known.staged is None and known.embedded == known.chunks):
            self.report.unchanged += 1
            self._meter.documents += 1
            self._meter.done += source.size
            return
        ref = RevisionRef(known.number, revision)
        group.refs.append(ref)
        group.names[ref] = known.name
        group.chunks += known.chunks
        group.size += source.size
        self.report.resumed += 1

    def _recipe(self, declared: Declared) -> str:
        known = self._recipes.get(declared)
        if known is None:
            limit = self._scope.profile.input_limit
            known = self._recipes[declared] = recipe_of(declared, self._counter, limit)
        return known

    def _carry(self, group: _Group) -> None:
        """Take a group from drafts to flipped documents.

        When the index process dies on the way, what it had not flushed may be lost. Nothing was
        marked yet, so the whole group is simply written again; its vectors are kept.
        """
        if group.drafts:
            staged = self._store.stage(self._scope, group.drafts)
            names = zip(staged, (made.name for made in group.drafts), strict=True)
            group.names.update(names)
            group.refs.extend(staged)
            group.drafts = []
        if not group.refs:
            return
        for attempt in range(1, INDEX_ATTEMPTS + 1):
            try:
                self._write(group)
                break
            except IndexUnavailable:
                if attempt == INDEX_ATTEMPTS:
                    raise
                self._clock.sleep(INDEX_PAUSE * attempt)
        self._meter.documents += len(group.names)
        self._meter.done += group.size
        self._meter.part = 0.0
        self._show("")

    def _write(self, group: _Group) -> None:
        self._prepare()
        written: list[PendingChunk] = []
        for chunks in _sliced(self._pending(group.refs), SLICE_CHUNKS):
            vectors = self._vectors(chunks, group)
            points = [
                _point(chunk, vectors[chunk.text_hash])
                for chunk in chunks
                if chunk.text_hash in vectors
            ]
            self._index.upsert(self._scope, points)
            kept = {point.chunk_id for point in points}
            written.extend(_lightened(chunk) for chunk in chunks if chunk.chunk_id in kept)
        self._index.flush(self._scope)
        self._store.mark_embedded(self._scope, written)
        self.written += len(written)
        flipped = self._store.flip(self._scope, group.refs)
        self.report.ingested.extend(group.names[ref] for ref in flipped if ref in group.names)
        self._withdraw_lost(group.refs, written)
        self.clear_retired()

    def _prepare(self) -> None:
        """Make sure there is an index.

        An empty one holds nothing of what the store says it holds. That is marked, so that nobody
        takes the emptiness for an answer.
        """
        if self._index.prepare(self._scope):
            self._store.forget_index(self._scope)

    def _withdraw_lost(self, refs: Sequence[RevisionRef], written: Sequence[PendingChunk]) -> None:
        """Delete the points of revisions that somebody else replaced and purged meanwhile."""
        lost: list[ChunkId] = []
        for ref in refs:
            if not self._store.chunk_ids(self._scope, ref):
                lost.extend(
                    chunk.chunk_id
                    for chunk in written
                    if (chunk.document, chunk.revision) == (ref.document, ref.revision)
                )
        if lost:
            self._index.delete(self._scope, lost)

    def _pending(self, refs: Iterable[RevisionRef]) -> Iterator[PendingChunk]:
        for ref in refs:
            after = -1
            while page := self._store.pending(self._scope, ref, after=after, limit=SLICE_CHUNKS):
                yield from page
                after = page[-1].index

    def _vectors(self, chunks: Sequence[PendingChunk], group: _Group) -> dict[TextHash, Vector]:
        """Return a vector for every chunk that has or gets one; equal text is embedded once."""
        known = {chunk.text_hash: chunk.vector for chunk in chunks if chunk.vector is not None}
        missing = {chunk.text_hash: chunk.text for chunk in chunks if chunk.text_hash not in known}
        self.report.reused += len(chunks) - len(missing)
        self._advance(len(chunks) - len(missing), group, chunks)
        for batch in embed_texts(self._embedder, missing, self._limits, self._clock):
            self._store.keep_vectors(self._scope, batch.vectors)
            known.update(batch.vectors)
            self.report.embedded += len(batch.vectors)
            self._refuse(batch.rejected, chunks, group)
            self._advance(len(batch.vectors) + len(batch.rejected), group, chunks)
        return known

    def _refuse(
        self, rejected: Sequence[TextHash], chunks: Sequence[PendingChunk], group: _Group
    ) -> None:
        """Report documents a chunk of which got no usable vector; they stay staged."""
        refs = {
            RevisionRef(chunk.document, chunk.revision)
            for chunk in chunks
            if chunk.text_hash in set(rejected)
        }
        for ref in sorted(refs, key=lambda ref: (ref.document, ref.revision)):
            self.report.failures.append(
                Failure(
                    group.names.get(ref, f"document {ref.document}"),
                    "provider_bad_reply",
                    "The embedding provider gave no usable vector for a part of this document. "
                    "The same command tries that part again.",
                )
            )

    def _advance(self, chunks: int, group: _Group, current: Sequence[PendingChunk]) -> None:
        self._meter.chunks += chunks
        if group.chunks:
            self._meter.part += chunks / group.chunks * group.size
        if chunks and current:
            last = current[-1]
            name = group.names.get(RevisionRef(last.document, last.revision), "")
            self._show(name)

    def _show(self, current: str) -> None:
        if self._on_progress is None:
            return
        meter = self._meter
        self._on_progress(
            Progress(
                fraction=meter.fraction(),
                documents=meter.documents,
                documents_total=meter.total,
                chunks=meter.chunks,
                embedded=self.report.embedded,
                current=current,
            )
        )


@dataclass(slots=True)
class _Meter:
    total: int = 0
    size: int = 0
    done: float = 0.0
    part: float = 0.0
    documents: int = 0
    chunks: int = 0

    def fraction(self) -> float:
        return min((self.done + self.part) / self.size, 1.0) if self.size else 0.0


def _sliced(chunks: Iterator[PendingChunk], size: int) -> Iterator[list[PendingChunk]]:
    while batch := list(islice(chunks, size)):
        yield batch


def _point(chunk: PendingChunk, vector: Vector) -> Point:
    return Point(
        chunk_id=chunk.chunk_id,
        vector=vector,
        text_hash=chunk.text_hash,
        document=chunk.document,
        pos_start=chunk.first_sid,
        pos_end=chunk.last_sid,
        pos_reach=chunk.reach,
        kind=chunk.kind,
        chapter=chunk.chapter,
        section=chunk.section,
    )


def _lightened(chunk: PendingChunk) -> PendingChunk:
    """Let go of text and vector: until the flush only the identity is needed."""
    chunk.text, chunk.vector = "", None
    return chunk
