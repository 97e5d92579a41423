"""From staged revisions to documents that readers see: embed, upsert, flush, mark, activate, clear.

The order makes a crash harmless. Rows and vectors are committed before points are written, points
are flushed before the store marks them as embedded, and only a revision whose chunks are all
embedded becomes active. Wherever a run stops, the next run continues from what is stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import IndexUnavailable, ProfileMismatch
from truespan.ingest.chunking import MeasuredText
from truespan.ingest.draft import text_chunks
from truespan.ingest.embed import Remark, check_drift, embed_texts, learn_profile
from truespan.ingest.figures import find_parent, parent_ref
from truespan.ingest.report import IngestDeps, Progress, ProviderCheck
from truespan.protocols import VectorIndex, find_state_embedder
from truespan.types.chunk import NewChunk, PendingChunk
from truespan.types.document import Document, RevisionRef, assets_token
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope
from truespan.types.telemetry import CounterName, Stage, VectorOrigin
from truespan.types.text import CanonicalText
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.store import Store

SLICE_CHUNKS = 2048
"""Number of chunks embedded and upserted together; each batch of vectors is stored at once."""
PAGE_CHUNKS = 512
"""Number of chunks of one revision that are read together."""
INDEX_ATTEMPTS = 3
INDEX_PAUSE = 0.2

Staged: TypeAlias = Mapping[RevisionRef, Sequence[PendingChunk]]
"""All chunks of revisions that were just staged."""
OnChunks = Callable[[int, RevisionRef], None]
"""Receives the number of further chunks with a vector, and the revision of the last one."""


class IndexCounts(Struct):
    """Counts of an indexer so far; `written` counts points that were flushed and marked."""

    written: int = 0
    embedded: int = 0
    reused: int = 0


class IndexOutcome(Struct):
    """Revisions that became active, and remarks on parts of others."""

    activated: list[RevisionRef] = field(default_factory=list)
    rejected: dict[RevisionRef, Remark] = field(default_factory=dict)
    remarks: dict[RevisionRef, Remark] = field(default_factory=dict)


class Recut(NamedTuple):
    """Chunks of a stored revision in a generation, and the language of their text."""

    chunks: tuple[NewChunk, ...]
    language: str


def cut_again(deps: IngestDeps, scope: Scope, ref: RevisionRef) -> Recut | None:
    """Return the chunks of a stored revision in a generation; None if the revision is gone."""
    # The chunking profile of the generation takes precedence over that of the document.
    stored = deps.store.revisions.stored_text(scope, ref)
    if stored is None:
        return None
    canonical = CanonicalText(stored.text, stored.starts, stored.places, pages=stored.pages)
    measured = MeasuredText(canonical, stored.sentences, deps.counter.measure(stored.text))
    chunking = scope.generation.chunking or stored.chunking
    chunks = text_chunks(measured, chunking, scope.profile.input_limit)
    starts = [sentence.start for sentence in stored.sentences]
    # Chunks of figures keep their text; only the text chunk around them changes.
    figures: list[NewChunk] = []
    for index, chunk in enumerate(stored.figures, len(chunks)):
        figure, reach = chunk.figure, chunk.reach
        if figure is not None:
            # A sentence that starts at the figure's offset comes after the figure.
            before = stored.sentences[max(bisect_left(starts, chunk.start) - 1, 0)]
            parent = find_parent(chunks, before, chunk.start, between=figure.between)
            reach = reach if figure.reach is None else figure.reach
            if parent is not None:
                # The id of the figure names the parent, so the figure becomes visible with it.
                reach = max(reach, parent.reach)
            figure = replace(figure, parent=parent_ref(parent))
        figures.append(replace(chunk, index=index, figure=figure, reach=reach))
    return Recut((*chunks, *figures), stored.language)


class Indexer:
    """Indexes revisions in one generation of a world, and in the other generations it keeps."""

    def __init__(self, deps: IngestDeps, scope: Scope, embedding: Lock | None = None) -> None:
        self._deps = deps
        self._scope = scope
        # Two threads may index at once, but only one sends texts to the provider and counts.
        self._embedding = embedding or Lock()
        self._check = deps.checks.setdefault(scope.generation.number, ProviderCheck())
        self.counts = IndexCounts()

    def index_revisions(
        self, refs: Sequence[RevisionRef], on_chunks: OnChunks, staged: Staged | None = None
    ) -> IndexOutcome:
        """Embed the pending chunks of revisions, and activate complete staged revisions."""
        # Chunks that were just `staged` need not be read from the store.
        # If the index process dies, points that it had not flushed may be lost. None of them is
        # marked yet, so all are written again; their vectors are stored.
        for attempt in range(1, INDEX_ATTEMPTS + 1):
            try:
                return self._index(refs, on_chunks, staged or {})
            except IndexUnavailable:
                if attempt == INDEX_ATTEMPTS:
                    raise
                # The store knows which chunks have a vector by now.
                staged = None
                self._deps.clock.sleep(INDEX_PAUSE * attempt)
        raise AssertionError("the loop returns or raises")

    def _index(
        self, refs: Sequence[RevisionRef], on_chunks: OnChunks, staged: Staged
    ) -> IndexOutcome:
        deps, scope, store = self._deps, self._scope, self._deps.store
        outcome, written = self._embed(refs, on_chunks, staged)
        self._fill_others(refs, outcome)
        with deps.trace.stage(Stage.ACTIVATED):
            outcome.activated = store.documents.activate(scope, refs)
        if len(outcome.activated) < len(refs):
            # An alias may have moved to another generation in between.
            self._fill_others(refs, outcome)
            outcome.activated += store.documents.activate(scope, refs)
        if outcome.activated:
            active = {ref.document: ref.revision for ref in outcome.activated}
            for document in store.documents.all(scope.narrow(documents=active)):
                # A run that staged a newer revision publishes the images of that one.
                if document.staged is None and document.active == active.get(document.number):
                    publish_images(deps, scope, document)
        # Another process may have replaced and purged revisions meanwhile.
        purged = set(refs) - store.documents.revisions_with_chunks(scope, refs)
        if purged and (orphans := [found.chunk_id for found in written if _ref(found) in purged]):
            deps.index.delete(scope, orphans)
        clear_retired(deps, scope)
        return outcome

    def fill(self, refs: Sequence[RevisionRef], on_chunks: OnChunks | None = None) -> IndexOutcome:
        """Chunk and embed revisions in this generation; none becomes active."""
        return self._embed(refs, on_chunks or (lambda _chunks, _ref: None), {})[0]

    def rechunk(self, ref: RevisionRef) -> bool:
        recut, count_words = cut_again(self._deps, self._scope, ref), self._deps.count_words
        if recut is None:
            return False
        words = count_words(recut.chunks, recut.language) if count_words else None
        return self._deps.store.revisions.write_chunks(self._scope, ref, recut.chunks, words)

    def _fill_others(self, refs: Sequence[RevisionRef], outcome: IndexOutcome) -> None:
        """Index revisions in the other generations before they become active in this one."""
        for other in self._deps.other_generations(self._scope):
            deps = replace(self._deps, embedder=other.embedder)
            indexer = Indexer(deps, other.scope, self._embedding)
            found = indexer.fill(refs)
            with self._embedding:
                self.counts.embedded += indexer.counts.embedded
            # A generation without an alias may stay incomplete: its remarks are not reported.
            if other.named:
                outcome.rejected |= found.rejected
                outcome.remarks |= found.remarks

    def _embed(
        self, refs: Sequence[RevisionRef], on_chunks: OnChunks, staged: Staged
    ) -> tuple[IndexOutcome, list[PendingChunk]]:
        """Write points for all pending chunks, flush them, and mark them as embedded."""
        store, index, trace = self._deps.store, self._deps.index, self._deps.trace
        outcome = IndexOutcome()
        written: list[PendingChunk] = []
        # Revisions that were staged in another generation have no chunks in this one.
        among = self._scope.narrow(documents=(ref.document for ref in refs))
        for ref in set(refs).intersection(store.revisions.missing_chunks(among)):
            self.rechunk(ref)
        prepare_index(store, index, self._scope)
        for chunks in self._slices(refs, staged):
            with trace.stage(Stage.VECTORS), self._embedding:
                vectors = self._vectors(chunks, outcome, on_chunks)
            ready = [chunk for chunk in chunks if chunk.text_hash in vectors]
            with trace.stage(Stage.INDEX):
                points = [chunk.point(vectors[chunk.text_hash]) for chunk in ready]
                index.upsert(self._scope, points)
            for chunk in ready:
                # Free the memory: until the flush only the identity is needed.
                chunk.text, chunk.vector = "", None
            written += ready
        if written:
            with trace.stage(Stage.INDEX):
                index.flush(self._scope)
                store.documents.mark_embedded(self._scope, written)
        with self._embedding:
            self.counts.written += len(written)
        return outcome, written

    def _slices(self, refs: Sequence[RevisionRef], staged: Staged) -> Iterator[list[PendingChunk]]:
        """Yield the pending chunks of revisions, with their stored vectors."""
        store, scope = self._deps.store, self._scope
        fresh = chain.from_iterable(staged.get(ref, ()) for ref in refs)
        while chunks := list(islice(fresh, SLICE_CHUNKS)):
            # Another process may have replaced and purged revisions meanwhile.
            found = _refs(chunks)
            present = store.documents.revisions_with_chunks(scope, found)
            if present < found:
                chunks = [chunk for chunk in chunks if _ref(chunk) in present]
            vectors = store.chunks.vectors(scope, [chunk.text_hash for chunk in chunks])
            if vectors:
                for chunk in chunks:
                    chunk.vector = vectors.get(chunk.text_hash)
            if chunks:
                yield chunks
        pending = self._pending([ref for ref in refs if ref not in staged])
        while chunks := list(islice(pending, SLICE_CHUNKS)):
            yield chunks

    def _pending(self, refs: Sequence[RevisionRef]) -> Iterator[PendingChunk]:
        pending = partial(self._deps.store.chunks.pending, self._scope, limit=PAGE_CHUNKS)
        for ref in refs:
            page = pending(ref, after=-1)
            yield from page
            while len(page) == PAGE_CHUNKS:
                page = pending(ref, after=page[-1].index)
                yield from page

    def _vectors(
        self, chunks: Sequence[PendingChunk], outcome: IndexOutcome, on_chunks: OnChunks
    ) -> dict[TextHash, Vector]:
        """Return the vectors of chunks, embedding each missing text once."""
        deps, trace = self._deps, self._deps.trace
        known = {chunk.text_hash: chunk.vector for chunk in chunks if chunk.vector is not None}
        missing = {chunk.text_hash: chunk.text for chunk in chunks if chunk.text_hash not in known}
        refs = _refs(chunks)
        last, reused = _ref(chunks[-1]), len(chunks) - len(missing)
        self.counts.reused += reused
        trace.count(CounterName.VECTORS, reused, VectorOrigin.REUSED)
        on_chunks(reused, last)
        if missing:
            self._require_model()
        batches = embed_texts(
            deps.embedder,
            missing,
            deps.limits,
            deps.clock,
            counter=deps.counter,
            on_token_limit=deps.preparation.on_token_limit,
            canary=self._check.canary,
            word_states=deps.word_states,
        )
        for batch in batches:
            deps.store.documents.keep_vectors(
                self._scope, batch.vectors, batch.states, revisions=refs
            )
            known.update(batch.vectors)
            self.counts.embedded += len(batch.vectors)
            trace.count(CounterName.VECTORS, len(batch.vectors), VectorOrigin.EMBEDDED)
            if batch.notes:
                skipped = []
                for chunk in chunks:
                    if (note := batch.notes.get(chunk.text_hash)) is None:
                        continue
                    if note is Remark.TOO_LONG:
                        skipped.append(chunk.chunk_id)
                    rejected = note is Remark.BAD_VECTOR
                    notes = outcome.rejected if rejected else outcome.remarks
                    notes.setdefault(_ref(chunk), note)
                if skipped:
                    deps.store.chunks.skip(self._scope, skipped)
            on_chunks(len(batch.vectors) + len(batch.rejected), last)
        return known

    def _require_model(self) -> None:
        """Refuse any model but the generation's: compare the profile, and once the vectors."""
        built, deps = self._scope.profile, self._deps
        configured = learn_profile(deps.embedder, deps.clock)
        if built.id != configured.id:
            raise ProfileMismatch(str(built), str(configured))
        # A local model is identified by its digest. A remote one is probed: the provider may have
        # changed what its name stands for. So is one that may run on another device than before.
        if self._check.probed or not deps.embedder.limits.probed:
            return
        earlier = deps.store.records.probes(self._scope)
        probes = check_drift(deps.embedder, deps.clock, earlier)
        if probes != earlier:
            deps.store.records.keep_probes(self._scope, probes)
        self._check.probed = True


def publish_images(deps: IngestDeps, scope: Scope, document: Document) -> None:
    """Publish the images of an active revision; without any, remove the earlier images."""
    token = assets_token(document.source_hash, document.recipe)
    if not deps.assets.publish(scope.world, document.doc_id, token):
        deps.assets.remove(scope.world, document.doc_id)
    if deps.pictures is not None:
        deps.pictures.keep_only(scope.world, document.doc_id, document.source_hash)


def _ref(chunk: PendingChunk) -> RevisionRef:
    return RevisionRef(chunk.document, chunk.revision)


def _refs(chunks: Iterable[PendingChunk]) -> set[RevisionRef]:
    return {RevisionRef(*pair) for pair in {(chunk.document, chunk.revision) for chunk in chunks}}


def clear_retired(deps: IngestDeps, scope: Scope) -> None:
    """Remove images, points and rows of revisions that no reader can see any more."""
    store, index = deps.store, deps.index
    retired = store.documents.retired(scope)
    if not retired:
        return
    for doc_id in store.documents.deleted(scope):
        deps.assets.remove(scope.world, doc_id)
        if deps.pictures is not None:
            deps.pictures.remove(scope.world, doc_id)
    for kept in store.worlds.kept_generations(scope):
        own = replace(scope, generation=kept.generation)
        prepare_index(store, index, own)
        for ref in retired:
            index.delete(own, store.documents.chunk_ids(own, ref))
        index.flush(own)
    # Rows go last: while they are stored, the next run knows what is left to remove.
    for ref in retired:
        store.documents.purge(scope, ref)


def prepare_index(store: Store, index: VectorIndex, scope: Scope) -> None:
    # A new index lacks the points that are marked as embedded. They are marked as pending, so that
    # an empty index is never taken for an empty result.
    if index.prepare(scope):
        store.chunks.mark_all_pending(scope, lambda own: index.count(own) == 0)


def embed_pending(
    deps: IngestDeps, scope: Scope, on_progress: Callable[[Progress], None] | None = None
) -> int:
    """Embed the pending chunks of active documents; return the number of points written."""
    indexer, refs, chunks = Indexer(deps, scope), deps.store.chunks.unfinished(scope), 0

    def on_chunks(count: int, ref: RevisionRef) -> None:
        nonlocal chunks
        chunks += count
        if on_progress is not None:
            on_progress(
                Progress(
                    documents_total=len(refs),
                    chunks=chunks,
                    embedded=indexer.counts.embedded,
                    current=f"document {ref.document}",
                )
            )

    if refs:
        indexer.index_revisions(refs, on_chunks)
    clear_retired(deps, scope)
    return indexer.counts.written


_PAGE = 256


def fill_word_states(deps: IngestDeps, scope: Scope) -> int:
    """Compute the missing and damaged states of a generation; return the number of texts."""
    # Nothing is done in a world without states, or if the model does not give any.
    if not deps.word_states or find_state_embedder(deps.embedder) is None:
        return 0
    if deps.embedder.profile.id != scope.profile.id:
        return 0
    store, after, filled = deps.store, TextHash(""), 0
    if damaged := [text_hash for text_hash, _ in store.word_states.flaws(scope)]:
        store.word_states.forget(scope, damaged)
    while lacking := store.word_states.lacking(scope, after=after, limit=_PAGE):
        after = lacking[-1][0]
        batches = embed_texts(
            deps.embedder,
            _read_texts(store, scope, [chunk_id for _, chunk_id in lacking]),
            deps.limits,
            deps.clock,
            counter=deps.counter,
            on_token_limit=deps.preparation.on_token_limit,
            word_states=True,
        )
        for batch in batches:
            store.word_states.keep(scope, batch.states)
            filled += len(batch.states)
    return filled


def _read_texts(store: Store, scope: Scope, ids: list[ChunkId]) -> dict[TextHash, str]:
    """Return the texts of chunks by their hashes, computed here; damaged chunks are left out."""
    return {
        hash_bytes(record.chunk.data): record.chunk.data.decode()
        for record in store.chunks.read(scope, ids).values()
        if record.chunk is not None and record.is_intact()
    }
