"""From staged revisions to documents that readers see: embed, upsert, flush, mark, flip, clear.

The order is what makes a crash harmless. Rows and vectors are committed before points are written,
points are flushed before their state says so, and only a revision whose every chunk is embedded is
flipped into sight. Wherever it stops, running it again goes on from what is there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from truespan.errors import GenerationNotFound, IndexUnavailable, ProfileMismatch, StoreDamaged
from truespan.ingest.draft import text_chunks
from truespan.ingest.drift import DriftProbe
from truespan.ingest.embed import Canary, OnTokenLimit, Remark, embed_texts
from truespan.ingest.figures import as_parent, parent_of
from truespan.ingest.job_log import REMARKS, Failure, Journal, Progress
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import (
    AssetStore,
    Clock,
    Embedder,
    EmbeddingLimits,
    TokenCounter,
    TrustedStore,
    VectorIndex,
)
from truespan.types.chunk import NewChunk, PendingChunk, Vector
from truespan.types.document import RevisionRef, StoredText, assets_token
from truespan.types.ids import ChunkId, TextHash
from truespan.types.job import Phase
from truespan.types.profile import ChunkingProfile
from truespan.types.scope import Scope
from truespan.types.telemetry import CounterName, Stage, VectorOrigin
from truespan.types.text import CanonicalText, Sentence


def recut(
    kept: StoredText, chunking: ChunkingProfile | None, counter: TokenCounter, input_limit: int
) -> tuple[NewChunk, ...]:
    """Cut a revision as a generation's profile says, or where it has none, as its own does."""
    canonical = CanonicalText(kept.text, kept.starts, kept.places, pages=kept.pages)
    chunks = text_chunks(
        canonical,
        kept.sentences,
        counter.measure(kept.text),
        chunking or kept.chunking,
        input_limit,
    )
    starts = [sentence.start for sentence in kept.sentences]
    figures = []
    for place, figure in enumerate(kept.figures):
        # What begins just where it stands comes after it.
        own = kept.sentences[max(bisect_left(starts, figure.start) - 1, 0)]
        figures.append(_moved(figure, own, chunks, len(chunks) + place))
    return (*chunks, *figures)


def _moved(figure: NewChunk, before: Sentence, chunks: Sequence[NewChunk], index: int) -> NewChunk:
    """Return a figure's chunk with the text chunk that it stands in now."""
    mark = figure.figure
    if mark is None:
        return replace(figure, index=index)
    parent = parent_of(chunks, before, figure.start, between=mark.between)
    reach = figure.reach if mark.reach is None else mark.reach
    if parent is not None:
        # Its id names the chunk it stands in, so it is seen once that is.
        reach = max(reach, parent.reach)
    return replace(figure, index=index, figure=replace(mark, parent=as_parent(parent)), reach=reach)


SLICE_CHUNKS = 512
"""Chunks embedded and upserted together; vectors are kept after each provider batch."""
INDEX_ATTEMPTS = 3
INDEX_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class OtherGeneration:
    """Another generation that documents enter; `named` if readers are sent to it."""

    scope: Scope
    embedder: Embedder
    named: bool


def _alone(_scope: Scope) -> Sequence[OtherGeneration]:
    return ()


@dataclass(slots=True)
class ProviderCheck:
    """What was seen of a provider, so that it need not be asked for again."""

    canary: Canary = field(default_factory=Canary)
    probed: bool = False


@dataclass(frozen=True, slots=True)
class Tools:
    """What carrying needs from outside."""

    store: TrustedStore
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    clock: Clock
    limits: EmbeddingLimits
    assets: AssetStore
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN
    beside: Callable[[Scope], Sequence[OtherGeneration]] = _alone
    """Gives the other generations of a scope's world that documents enter as well."""
    course: RequestTrace = NULL_OBSERVER
    proofs: dict[int, ProviderCheck] | None = None
    """What was seen of the provider of each generation, for several runs of one job together."""

    def proof(self, generation: int) -> ProviderCheck:
        """Return what was seen for a generation; nothing yet where every run looks for itself."""
        return (
            ProviderCheck()
            if self.proofs is None
            else self.proofs.setdefault(generation, ProviderCheck())
        )


@dataclass(slots=True)
class Carried:
    """What was done so far."""

    written: int = 0
    """Points that were written, flushed and marked."""
    embedded: int = 0
    reused: int = 0


@dataclass(slots=True)
class Outcome:
    """What became of some revisions: those flipped into sight, and remarks on parts of others."""

    flipped: list[RevisionRef] = field(default_factory=list)
    rejected: dict[RevisionRef, Remark] = field(default_factory=dict)
    remarks: dict[RevisionRef, Remark] = field(default_factory=dict)


OnChunks = Callable[[int, RevisionRef], None]
"""Is told how many more chunks have a vector, and whose the last of them is."""


class Indexer:
    """Carries revisions of one world into a generation, and into those that are kept beside it."""

    def __init__(self, tools: Tools, scope: Scope) -> None:
        self._tools = tools
        self._scope = scope
        self._beside: dict[int, Indexer] = {}
        self._proof = tools.proof(scope.generation.number)
        self.done = Carried()

    def carry(self, refs: Sequence[RevisionRef], on_chunks: OnChunks | None = None) -> Outcome:
        """Embed what is pending of some revisions, and flip those that are staged and complete.

        When the index process dies on the way, what it had not flushed may be lost. Nothing was
        marked yet, so everything is simply written again; its vectors are kept.
        """
        for attempt in range(1, INDEX_ATTEMPTS + 1):
            try:
                return self._write(refs, on_chunks or _unheard)
            except IndexUnavailable:
                if attempt == INDEX_ATTEMPTS:
                    raise
                self._tools.clock.sleep(INDEX_PAUSE * attempt)
        raise AssertionError("the loop returns or raises")

    def clear_retired(self) -> None:
        """Remove images and points, then rows, of all that no reader sees any more.

        The rows go last: as long as they are there, the next run knows what is left to do.
        """
        store = self._tools.store
        retired = store.retired(self._scope)
        if not retired:
            return
        for doc_id in store.deleted(self._scope):
            self._tools.assets.remove(self._scope.world, doc_id)
        for kept in store.kept_generations(self._scope):
            self._delete_points(replace(self._scope, generation=kept.generation), retired)
        for ref in retired:
            store.purge(self._scope, ref)

    def _delete_points(self, scope: Scope, retired: Sequence[RevisionRef]) -> None:
        store, index = self._tools.store, self._tools.index
        prepare(store, index, scope)
        for ref in retired:
            index.delete(scope, store.chunk_ids(scope, ref))
        index.flush(scope)

    def fill(self, refs: Sequence[RevisionRef], on_chunks: OnChunks | None = None) -> Outcome:
        """Give the generation its chunks of some revisions and embed them; nothing is flipped."""
        outcome = Outcome()
        self._cut(refs)
        self._embed(refs, on_chunks or _unheard, outcome)
        return outcome

    def _write(self, refs: Sequence[RevisionRef], on_chunks: OnChunks) -> Outcome:
        store, outcome = self._tools.store, Outcome()
        self._cut(refs)
        written = self._embed(refs, on_chunks, outcome)
        self._fill_beside(refs, outcome)
        with self._tools.course.stage(Stage.FLIPPED):
            outcome.flipped = store.flip(self._scope, refs)
        if len(outcome.flipped) < len(refs):
            # Readers may have been sent to another generation just now.
            self._fill_beside(refs, outcome)
            outcome.flipped += store.flip(self._scope, refs)
        self._publish(outcome.flipped)
        self._withdraw_lost(refs, written)
        self.clear_retired()
        return outcome

    def _fill_beside(self, refs: Sequence[RevisionRef], outcome: Outcome) -> None:
        """Let revisions enter the other generations too, before anybody sees them in this one.

        What one that nobody is sent to cannot take is its own affair: it stays incomplete.
        """
        for one in self._tools.beside(self._scope):
            tools = replace(self._tools, embedder=one.embedder, beside=_alone)
            number = one.scope.generation.number
            carrier = self._beside.setdefault(number, Indexer(tools, one.scope))
            before = carrier.done.embedded
            found = carrier.fill(refs)
            self.done.embedded += carrier.done.embedded - before
            if one.named:
                outcome.rejected |= found.rejected
                outcome.remarks |= found.remarks

    def cut(self, ref: RevisionRef) -> bool:
        """Give the generation its chunks of a revision; False when that is gone.

        Raises:
            StoreDamaged: its text is not what it was.
        """
        store, scope = self._tools.store, self._scope
        kept = store.recuttable(scope, ref)
        if kept is None:
            return False
        limit, chunking = scope.profile.input_limit, scope.generation.chunking
        return store.write_chunks(scope, ref, recut(kept, chunking, self._tools.counter, limit))

    def _cut(self, refs: Sequence[RevisionRef]) -> None:
        """Cut revisions that came in while readers were sent to another generation."""
        among = self._scope.narrow(documents=(ref.document for ref in refs))
        for ref in set(refs).intersection(self._tools.store.uncut(among)):
            self.cut(ref)

    def _embed(
        self, refs: Sequence[RevisionRef], on_chunks: OnChunks, outcome: Outcome
    ) -> list[PendingChunk]:
        """Write points for all that is pending, flush them, and mark them as written."""
        store, index, course = self._tools.store, self._tools.index, self._tools.course
        prepare(store, index, self._scope)
        written: list[PendingChunk] = []
        for chunks in _sliced(self._pending(refs), SLICE_CHUNKS):
            with course.stage(Stage.VECTORS):
                vectors = self._vectors(chunks, outcome, on_chunks)
            points = [
                chunk.point(vectors[chunk.text_hash])
                for chunk in chunks
                if chunk.text_hash in vectors
            ]
            with course.stage(Stage.INDEX):
                index.upsert(self._scope, points)
            kept = {point.chunk_id for point in points}
            written.extend(_lightened(chunk) for chunk in chunks if chunk.chunk_id in kept)
        if written:
            with course.stage(Stage.INDEX):
                index.flush(self._scope)
                store.mark_embedded(self._scope, written)
        self.done.written += len(written)
        return written

    def _publish(self, flipped: Sequence[RevisionRef]) -> None:
        """Put the images of revisions that are now in force into their place."""
        if not flipped:
            return
        numbers = {ref.document: ref.revision for ref in flipped}
        for document in self._tools.store.documents(self._scope.narrow(documents=numbers)):
            # Where another run has staged a newer revision, it is for that run to publish.
            if document.staged is None and document.active == numbers.get(document.number):
                token = assets_token(document.source_hash, document.recipe)
                world = self._scope.world
                if not self._tools.assets.publish(world, document.doc_id, token):
                    # The revision has no images, so those of the one before go.
                    self._tools.assets.remove(world, document.doc_id)

    def _withdraw_lost(self, refs: Sequence[RevisionRef], written: Sequence[PendingChunk]) -> None:
        """Delete the points of revisions that somebody else replaced and purged meanwhile."""
        lost: list[ChunkId] = []
        for ref in refs:
            if not self._tools.store.chunk_ids(self._scope, ref):
                lost.extend(
                    chunk.chunk_id
                    for chunk in written
                    if (chunk.document, chunk.revision) == (ref.document, ref.revision)
                )
        if lost:
            self._tools.index.delete(self._scope, lost)

    def _pending(self, refs: Iterable[RevisionRef]) -> Iterator[PendingChunk]:
        store = self._tools.store
        for ref in refs:
            after = -1
            while page := store.pending(self._scope, ref, after=after, limit=SLICE_CHUNKS):
                yield from page
                after = page[-1].index

    def _vectors(
        self, chunks: Sequence[PendingChunk], outcome: Outcome, on_chunks: OnChunks
    ) -> dict[TextHash, Vector]:
        """Return a vector for every chunk that has or gets one; equal text is embedded once."""
        tools = self._tools
        known = {chunk.text_hash: chunk.vector for chunk in chunks if chunk.vector is not None}
        missing = {chunk.text_hash: chunk.text for chunk in chunks if chunk.text_hash not in known}
        last = RevisionRef(chunks[-1].document, chunks[-1].revision)
        self.done.reused += len(chunks) - len(missing)
        tools.course.count(CounterName.VECTORS, len(chunks) - len(missing), VectorOrigin.REUSED)
        on_chunks(len(chunks) - len(missing), last)
        if missing:
            self._require_model()
            self._probe()
        batches = embed_texts(
            tools.embedder,
            missing,
            tools.limits,
            tools.clock,
            counter=tools.counter,
            on_token_limit=tools.on_token_limit,
            canary=self._proof.canary,
        )
        for batch in batches:
            tools.store.keep_vectors(self._scope, batch.vectors)
            known.update(batch.vectors)
            self.done.embedded += len(batch.vectors)
            tools.course.count(CounterName.VECTORS, len(batch.vectors), VectorOrigin.EMBEDDED)
            skipped = _remark(outcome, chunks, batch.rejected, batch.notes)
            if skipped:
                tools.store.skip_chunks(self._scope, skipped)
            on_chunks(len(batch.vectors) + len(batch.rejected), last)
        return known

    def _require_model(self) -> None:
        """Refuse to mix models: a generation's vectors are all made by the one locked to it."""
        built, configured = self._scope.profile, self._tools.embedder.profile
        if built.id != configured.id:
            raise ProfileMismatch(str(built), str(configured))

    def _probe(self) -> None:
        """See once that the provider's model is still the one this generation was built with.

        A model on this machine is known by its digest; one elsewhere by what it makes of texts.
        """
        if self._proof.probed or not self._tools.embedder.limits.joint:
            return
        earlier = self._tools.store.probes(self._scope)
        kept = DriftProbe(self._tools.embedder, self._tools.clock).check(earlier)
        if kept != earlier:
            self._tools.store.keep_probes(self._scope, kept)
        self._proof.probed = True


def prepare(store: TrustedStore, index: VectorIndex, scope: Scope) -> None:
    """Make sure there is an index.

    An empty one holds nothing of what the store says it holds. That is marked, so that nobody takes
    the emptiness for an answer.
    """
    if index.prepare(scope):
        store.forget_index(scope)


def _remark(
    outcome: Outcome,
    chunks: Sequence[PendingChunk],
    rejected: Sequence[TextHash],
    notes: dict[TextHash, Remark],
) -> list[ChunkId]:
    """Note which documents a remark on a text is about; return the chunks to be left out."""
    if not rejected and not notes:
        return []
    refused, skipped = set(rejected), []
    for chunk in chunks:
        ref = RevisionRef(chunk.document, chunk.revision)
        note = notes.get(chunk.text_hash)
        if note is Remark.TOO_LONG:
            skipped.append(chunk.chunk_id)
        if chunk.text_hash in refused and note is not Remark.TOO_LONG:
            outcome.rejected.setdefault(ref, note or Remark.BAD_VECTOR)
        elif note is not None:
            outcome.remarks.setdefault(ref, note)
    return skipped


def _unheard(_chunks: int, _ref: RevisionRef) -> None:
    return


def _sliced(chunks: Iterator[PendingChunk], size: int) -> Iterator[list[PendingChunk]]:
    while batch := list(islice(chunks, size)):
        yield batch


def _lightened(chunk: PendingChunk) -> PendingChunk:
    """Let go of text and vector: until the flush only the identity is needed."""
    chunk.text, chunk.vector = "", None
    return chunk


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
        self._carrier = Indexer(tools, scope)
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
