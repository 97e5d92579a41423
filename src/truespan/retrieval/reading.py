"""Retrieval for a reader: the read part of one book, up to the recorded position."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import DocumentNotFound
from truespan.retrieval import fused
from truespan.retrieval.blend import scale_of
from truespan.retrieval.fetch import (
    SLACK,
    Fetched,
    HitPager,
    drop_invalid_hits,
    fetch_by_similarity,
    fetch_pages,
)
from truespan.retrieval.pack import (
    BundleAttempt,
    Packed,
    build_bundle,
    pack,
    pack_reranked,
    require_candidates,
    why_not_packed,
)
from truespan.retrieval.pipeline import Attempt, Pipeline
from truespan.retrieval.query_vector import SCORE_DECIMALS, model_calibration
from truespan.retrieval.reading_words import ReadScores, score_read
from truespan.retrieval.search import Rules, candidates_of
from truespan.retrieval.stages import rank_visible, reveal, verify, visible_chunk_id
from truespan.retrieval.tail import TailMaker
from truespan.types.answer import ANSWER_TOP_K, Retrieved, Shortlist, shortlist
from truespan.types.bundle import ContextBundle, Notice, Reason, WhyNot
from truespan.types.chunk import ChunkKind, Vector
from truespan.types.ids import ChunkId, reader_chunk_id
from truespan.types.profile import reaches
from truespan.types.reading import NOTHING_READ, Position, TailChunk
from truespan.types.request import DEFAULT_MODE, MAX_CONTEXT_TOKENS, Mode, ReadingRequest
from truespan.types.scope import Scope, Verb, World
from truespan.types.telemetry import Stage
from truespan.types.trust import (
    FailureKind,
    FusedScore,
    Hit,
    VerificationFailure,
    Verified,
    Visible,
)
from truespan.vectors import similarity_of

ROUNDING = 2e-6
"""How far the single precision of an index may be off from the scores that count."""
NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing of this book is readable."
)
NOTHING_READ_YET = Notice("nothing_read", "Nothing of this book has been read yet.")


def find_position(positions: Sequence[Position], book: str | None) -> Position | None:
    """Return the position in the named book, or in the current one if none is named."""
    for position in positions:
        if book is None and position.current:
            return position
        if book is not None and book in (str(position.document), position.doc_id, position.name):
            return position
    return None


class ReaderRetriever(Struct, frozen=True):
    """Retrieval for one reader of a world."""

    pipeline: Pipeline
    tails: TailMaker
    reader: str

    def retrieve(self, request: ReadingRequest) -> ContextBundle:
        """Return context for a query from the read part of a book; see `Reader.retrieve`."""
        world, attempt = self._begin(request)
        return build_bundle(self.pipeline, attempt, lambda: self._run(world, attempt, request))

    def why_not(self, request: ReadingRequest, chunk_id: ChunkId) -> Reason:
        """Return why a chunk is not among a reader's results. An unread chunk counts as absent."""
        world, attempt = self._begin(request)
        self._run(world, attempt, request)
        packed, scope, store = attempt.packed, attempt.scope, self.pipeline.store
        reason = why_not_packed(packed, chunk_id)
        if reason is not None or scope is None or scope.position is None:
            return reason or Reason(WhyNot.ABSENT)
        position = find_position(store.positions(scope, self.reader), request.book)
        if position is None or position.sid != scope.position:
            return Reason(WhyNot.ABSENT)
        known = (
            reader_chunk_id(scope.world, scope.generation.number, position.document, *mark)
            for mark in store.whole_marks(scope, position.ref, position.sid)
        )
        return Reason(WhyNot.OUTRANKED if chunk_id in known else WhyNot.ABSENT)

    def find_candidates(self, request: ReadingRequest, rules: Rules) -> Retrieved:
        """Return the best chunks of the read part at or above the floor, for an answer."""
        world, attempt = self._admit(request), Attempt()
        stage = self.pipeline.rerank_stage(request.rerank, request.query)

        def fill(latest: World) -> None:
            position = self._open(attempt, latest, request.book)
            if attempt.scope is None or position is None:
                return
            settings, floor = rules(attempt.scope)
            search = self._search(attempt, attempt.scope, latest, position, request)

            def select(visible: list[Visible]) -> Shortlist:
                # Stored chunks and the tail are scored alike, so the floor applies only here.
                above = (part for part in visible if reaches(part.score, floor))
                return shortlist(above, ANSWER_TOP_K, settings.exclude_chunk_types_from_llm)

            found = search.find(min(ANSWER_TOP_K, attempt.in_scope), floor, select)
            attempt.fetched = found.fetched
            # Only their order changes: what is decided from similarities is decided alike.
            attempt.chunks = tuple(attempt.reorder(stage, select(found.visible).chunks))

        self.pipeline.run(world, attempt, fill)
        return candidates_of(self.pipeline, world, attempt)

    def _admit(self, request: ReadingRequest) -> World:
        return self.pipeline.admit("read as this reader", request.query, reader=self.reader)

    def _begin(self, request: ReadingRequest) -> tuple[World, BundleAttempt]:
        attempt = BundleAttempt(query_type="standard", top_k=request.top_k, floor=None)
        return self._admit(request), attempt

    def _run(self, world: World, attempt: BundleAttempt, request: ReadingRequest) -> None:
        stage = self.pipeline.rerank_stage(request.rerank, request.query)
        candidates = stage.candidates if stage else 0

        def fill(latest: World) -> None:
            position = self._open(attempt, latest, request.book)
            if attempt.scope is None or position is None:
                return
            search = self._search(attempt, attempt.scope, latest, position, request)
            attempt.steps.append("vectorized")
            k = min(request.top_k, attempt.in_scope)

            def select(visible: list[Visible]) -> Packed:
                packed = pack(visible, k=k, budget=MAX_CONTEXT_TOKENS)
                return require_candidates(packed, visible, candidates)

            most = min(max(k, candidates), attempt.in_scope)
            found = search.find(most, None, select)
            attempt.fetched = found.fetched
            attempt.steps += ["searched", "filtered", "ranked"]
            budget, trace = MAX_CONTEXT_TOKENS, self.pipeline.trace
            packed = pack_reranked(attempt, stage, found.visible, k=k, budget=budget, trace=trace)
            attempt.packed = packed
            attempt.steps += ["reranked"] if stage else []
            attempt.count(*found.down_to(packed.last))

        self.pipeline.run(world, attempt, fill)

    def _open(self, attempt: Attempt, world: World, book: str | None) -> Position | None:
        """Return the position in the named book, or in the current one, and narrow the scope to it.

        None, with a warning, if nothing is readable.
        """
        store, authority = self.pipeline.store, self.pipeline.authority
        with self.pipeline.trace.stage(Stage.SCOPED):
            position = scope = None
            if world.generation is not None:
                scope = Scope(authority, world.id, world.generation)
                # The position is read here, once, before the index is queried.
                position = find_position(store.positions(scope, self.reader), book)
            if scope is not None and position is not None:
                attempt.scope = scope.for_reader(position.document, position.revision, position.sid)
                if position.sid != NOTHING_READ:
                    return position
                attempt.warnings.append(NOTHING_READ_YET)
                return None
            # A caller who may not see the world's documents cannot tell a missing document from one
            # without a position, so that names cannot be guessed.
            if book is not None and authority.may(Verb.READ, world.id):
                catalog = store.document_catalog(scope, world) if scope else None
                if catalog is None or not catalog.named([book]):
                    raise DocumentNotFound(book)
            attempt.warnings.append(NO_POSITION)
            return None

    def _search(
        self,
        attempt: Attempt,
        scope: Scope,
        world: World,
        position: Position,
        request: ReadingRequest,
    ) -> BookSearch | FusedBookSearch:
        """Embed the query and build the tail, which completes what the index can return."""
        [vector] = self.pipeline.vectors(scope, request.query.strip())
        store, ref = self.pipeline.store, position.ref
        with self.pipeline.trace.stage(Stage.TAIL):
            tail = self.tails.tail(scope, ref, position.sid, position.chunking)
        attempt.in_scope = store.whole_chunks(scope, ref, position.sid) + len(tail)
        distance = scope.profile.distance
        parts = [
            _tail_part(scope, position, chunk, similarity_of(vector, chunk.vector, distance))
            for chunk in tail
            if chunk.vector is not None
        ]
        book = BookSearch(self.pipeline, scope, vector, parts)
        mode = request.mode or DEFAULT_MODE
        if mode is Mode.MEANING:
            return book
        with self.pipeline.trace.stage(Stage.WORDS):
            texts = [part.text for part in parts]
            words = score_read(store, scope, world, position, texts, request.query)
        weight = 1.0 if mode is Mode.WORDS else self.pipeline.deps.fused_weight
        return FusedBookSearch(book, words, weight, words_only=mode is Mode.WORDS)


class Found(Struct, frozen=True):
    """What a reader may see of what was fetched, by rank, with the tail."""

    visible: list[Visible]
    fetched: Fetched
    fused: bool = False

    def down_to(self, last: float | None) -> tuple[int, Fetched]:
        """Return how many chunks score at least as much as the last result, and what failed there.

        In a fused search, all candidates count, and no failure but those among them was kept.
        """
        least = -inf if last is None else _rounded(last)
        seen = sum(
            _rounded(part.score) >= least
            or (part.fused is not None and part.fused.blend is not None)
            for part in self.visible
        )
        return seen, self.fetched if self.fused else self.fetched.down_to(last)


class BookSearch(Struct, frozen=True):
    """One query against the read part of a book: stored chunks, and the tail.

    Stored chunks are scored from their vectors, as the tail is: one routine for both.
    """

    pipeline: Pipeline
    scope: Scope
    vector: Vector
    tail: list[Visible]
    _known: dict[ChunkId, Visible | None] = field(default_factory=dict)
    _without_vector: set[ChunkId] = field(default_factory=set)

    def find(
        self,
        k: int,
        floor: float | None,
        select: Callable[[list[Visible]], Packed | Shortlist],
    ) -> Found:
        """Fetch and verify until nothing is missing that could be among the best `k`."""

        def missing(verified: list[Verified], seen_down_to: float) -> int:
            selected = select(rank_visible([*self.reveal(verified), *self.tail]))
            if selected.last is None:
                return selected.missing
            # Parts of the tail may have taken the places of stored chunks not fetched yet. The
            # index computes in single precision, hence the margin.
            return int(seen_down_to >= selected.last - ROUNDING)

        least = None if floor is None else max(floor - ROUNDING, 0.0)
        fetched = fetch_by_similarity(
            self.pipeline.deps, self.scope, self.vector, k=k, floor=least, missing=missing
        )
        failures = self.find_unranked(fetched.verified)
        if failures:
            fetched = Fetched(fetched.verified, [*fetched.failures, *failures])
        with self.pipeline.trace.stage(Stage.VISIBLE):
            visible = self.reveal(fetched.verified)
        with self.pipeline.trace.stage(Stage.RANKED):
            return Found(rank_visible([*visible, *self.tail]), fetched)

    def find_unranked(self, verified: Sequence[Verified]) -> list[VerificationFailure]:
        """Return the chunks whose stored vector is gone or damaged.

        They cannot be ranked, and are embedded again.
        """
        self.reveal(verified)
        return [
            VerificationFailure(
                FailureKind.STALE, chunk.chunk_id, chunk.text_hash, chunk.text_hash, found.score
            )
            for found in verified
            for chunk in [found.chunk]
            if chunk.chunk_id in self._without_vector
        ]

    def reveal(self, verified: Sequence[Verified]) -> list[Visible]:
        """Return what is visible of verified chunks, scored from their stored vectors."""
        unknown = [found for found in verified if found.chunk.chunk_id not in self._known]
        hashes = [found.chunk.text_hash for found in unknown]
        vectors = self.pipeline.store.vectors(self.scope, hashes) if hashes else {}
        for found in unknown:
            vector, part = vectors.get(found.chunk.text_hash), None
            if vector is not None:
                score = similarity_of(self.vector, vector, self.scope.profile.distance)
                part = reveal(replace(found, score=score, fused=None), self.scope)
            else:
                self._without_vector.add(found.chunk.chunk_id)
            self._known[found.chunk.chunk_id] = part
        return [part for found in verified if (part := self._known[found.chunk.chunk_id])]


class FusedBookSearch(Struct, frozen=True):
    """One query against the read part of a book, by its words and by similarity.

    Candidates are the best by similarity and the best by words of what the reader may see, as in
    the search of a whole world. Chunks past them follow by similarity.
    """

    book: BookSearch
    words: ReadScores
    weight: float
    words_only: bool
    """Whether only chunks with a word of the query are candidates, and none follow."""

    def find(
        self,
        k: int,
        floor: float | None,
        select: Callable[[list[Visible]], Packed | Shortlist],
    ) -> Found:
        """Fetch and verify until no candidate is missing, nor what follows among the best `k`."""
        book, deps, scope = self.book, self.book.pipeline.deps, self.book.scope
        least = None if floor is None else max(floor - ROUNDING, 0.0)
        ids, best_of_tail = self.words.top(fused.POOL, SCORE_DECIMALS)
        limit = 1 if self.words_only else max(fused.POOL, k) + SLACK
        wanted, named = frozenset(ids), list[Hit]()

        def first(limit: int) -> list[Hit]:
            """Query for the closest hits and, in the same request, for the best by words."""
            query = scope, book.vector
            hits, found = deps.index.search_with(*query, limit=limit, floor=least, ids=ids)
            named.extend(hit for hit in drop_invalid_hits(found, least) if hit.chunk_id in wanted)
            return hits

        with deps.trace.stage(Stage.HITS):
            pager = HitPager(deps.index, scope, book.vector, least, limit=limit, first=first)
        with deps.trace.stage(Stage.VERIFIED):
            named_ids = [hit.chunk_id for hit in named]
            records = dict(deps.store.read_chunks(scope, named_ids)) if named_ids else {}
            by_words = verify(named, records)
        best = {part.chunk_id for part in book.reveal(by_words.verified)}
        best |= {book.tail[number].chunk_id for number in best_of_tail}
        pool = FusedPool()

        def missing(verified: list[Verified], seen_down_to: float) -> int:
            nonlocal pool
            pool = self._fill_pool([*by_words.verified, *verified], best, floor)
            if pool.least is None:
                return pool.lacking
            selected = select(rank_visible(pool.blended))
            last = pool.least
            if selected.last is None:
                selected = select(rank_visible([*pool.blended, *pool.past]))
                if selected.last is None:
                    return selected.missing
                last = selected.last
            # The index computes in single precision, hence the margin.
            return int(seen_down_to >= last - ROUNDING)

        near = Fetched()
        if self.words_only:
            pool = self._fill_pool(by_words.verified, best, floor)
        else:
            near = fetch_pages(deps, scope, pager, k=fused.POOL, missing=missing, records=records)
        with deps.trace.stage(Stage.RANKED):
            bound, visible = pool.least, rank_visible(pool.blended)
            # How far past the candidates was fetched depends on what had to be skipped, so they
            # follow only where they are needed.
            if select(visible).last is None and not self.words_only:
                visible = rank_visible([*pool.blended, *pool.past])
                bound = select(visible).last
        verified = [*by_words.verified, *near.verified]
        failures = [*by_words.failures, *near.failures, *book.find_unranked(verified)]
        kept = self._keep_failures(failures, frozenset(named_ids), bound)
        return Found(visible, Fetched(verified, kept), fused=True)

    def _fill_pool(
        self, verified: Sequence[Verified], best: Set[ChunkId], floor: float | None
    ) -> FusedPool:
        """Return the candidates with their blend, and what follows them.

        Similarities are measured against the model's, or those of the closest visible chunks, and
        words against visible ones, so that nothing unread moves a blend.
        """
        stored = {part.chunk_id: part for part in self.book.reveal(verified)}
        scored = [(part, self.words.of(part.index)) for part in stored.values()]
        scored += [(part, self.words.of_tail(n)) for n, part in enumerate(self.book.tail)]
        if floor is not None:
            scored = [pair for pair in scored if reaches(pair[0].score, floor)]
        scored.sort(key=lambda pair: -pair[0].score)
        least = scored[fused.POOL - 1][0].score if len(scored) >= fused.POOL else None
        close = [] if self.words_only else scored
        if least is not None:
            close = [pair for pair in close if _rounded(pair[0].score) >= _rounded(least)]
        scale = scale_of(
            [part.score for part, _ in close[: fused.POOL]],
            self.words.best,
            self.words.scores.possible,
            model_calibration(self.book.pipeline.store, self.book.scope),
        )
        candidates = best | {part.chunk_id for part, _ in close}
        pool = FusedPool(least=least, lacking=fused.POOL - len(scored))
        for part, bm25 in scored:
            blend = None
            if part.chunk_id in candidates:
                blend = scale.blend(self.weight, bm25, part.score)
            chunk = replace(part, fused=FusedScore(_rounded(bm25), blend))
            if blend is not None:
                pool.blended.append(chunk)
            elif not self.words_only:
                pool.past.append(chunk)
        return pool

    def _keep_failures(
        self, failures: Sequence[VerificationFailure], named: Set[ChunkId], bound: float | None
    ) -> list[VerificationFailure]:
        """Keep failures of chunks that were read, down to the similarity that was looked at.

        How many others were fetched depends on what had to be skipped, and on the index.
        """
        if not failures:
            return []
        readable = {self.words.chunk_id(index) for index in self.words.readable}
        least = -inf if bound is None else _rounded(bound)
        kept = {
            failed.chunk_id: failed
            for failed in failures
            if failed.chunk_id in readable
            and (failed.chunk_id in named or _rounded(failed.score) >= least)
        }
        return list(kept.values())


class FusedPool(Struct, frozen=True):
    """The candidates with their blend, and the chunks that follow them.

    `least` is the similarity at which the closest end, None if there are fewer than wanted; then
    `lacking` says how many are missing.
    """

    blended: list[Visible] = field(default_factory=list)
    past: list[Visible] = field(default_factory=list)
    least: float | None = None
    lacking: int = 0


def _rounded(score: float) -> float:
    return round(score, SCORE_DECIMALS)


def _tail_part(scope: Scope, position: Position, chunk: TailChunk, score: float) -> Visible:
    chapter = chunk.chapter or position.title
    return Visible(
        chunk_id=visible_chunk_id(scope, position.document, chunk),
        document=position.document,
        source=position.name,
        title=position.title,
        revision=None,
        index=chunk.index,
        start=chunk.start,
        end=chunk.end,
        first_sid=chunk.first_sid,
        last_sid=chunk.last_sid,
        chapter=chapter,
        section=chunk.section or chapter,
        kind=ChunkKind.TEXT,
        text=chunk.text,
        text_hash=chunk.text_hash,
        tokens=chunk.tokens,
        score=score,
        page=chunk.page,
    )
